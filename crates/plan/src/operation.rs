use std::fmt::Write;

use burn_ir::OperationIr;

/// `conv2d_x_backward` of `Module(Conv2dXBackward(Conv2dXBackwardOpIr { …`.
///
/// Burn's operations have no names but those of their variants in `Debug`. Only the beginning of that text is written.
pub(crate) fn operation_name(operation: &OperationIr) -> String {
    if let OperationIr::Custom(operation) = operation {
        return operation.id.clone();
    }
    let mut beginning = Beginning(String::new());
    // It stops at the end of the name, which `Debug` reports as an error.
    let _ = write!(beginning, "{operation:?}");
    let words = beginning.0.split(['(', ' ', ',']).filter(|word| !word.is_empty());
    let is_payload = |word: &str| word.ends_with("Ir") || word.starts_with('{');
    let variant = words.take_while(|word| !is_payload(word)).last().unwrap_or("operation");
    snake_case(variant)
}

struct Beginning(String);

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if self.0.len() > 80 || text.contains('{') { Err(std::fmt::Error) } else { Ok(()) }
    }
}

fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in camel.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
