//! Files are opened in one place: `oomph_core::open_file` refuses what would block, such as a pipe.

use oomph_tree::RustFile;
use proc_macro2::{TokenStream, TokenTree};

use crate::{Finding, exceptions::unexcused, tree};

/// The calls that open a path without looking at it, as type or module and function.
const OPENING: [(&str, &str); 4] =
    [("File", "open"), ("File", "options"), ("fs", "read"), ("fs", "read_to_string")];

/// The lines of calls `first::second`, and of `.open(` behind `OpenOptions` in the same statement.
fn openings(tokens: TokenStream, found: &mut Vec<(String, usize)>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let name = |index: usize| match tokens.get(index) {
        Some(TokenTree::Ident(name)) => name.to_string(),
        _ => String::new(),
    };
    let is = |index: usize, sign| matches!(tokens.get(index), Some(TokenTree::Punct(found)) if found.as_char() == sign);
    let mut with_options = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => openings(group.stream(), found),
            TokenTree::Punct(sign) if sign.as_char() == ';' => with_options = false,
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            TokenTree::Ident(first) => {
                with_options |= first == "OpenOptions";
                let after =
                    if is(index + 1, ':') && is(index + 2, ':') { name(index + 3) } else { String::new() };
                let line = first.span().start().line;
                if OPENING.iter().any(|(of, call)| first == of && after == *call) {
                    found.push((format!("{first}::{after}"), line));
                } else if first == "open" && with_options && index > 0 && is(index - 1, '.') {
                    found.push(("OpenOptions::open".into(), line));
                }
            }
        }
    }
}

fn opened(file: &RustFile) -> Vec<Finding> {
    let mut found = Vec::new();
    openings(file.text.parse().expect("what syn parsed are tokens"), &mut found);
    found
        .into_iter()
        .filter(|(_, line)| !file.is_test(*line))
        .map(|(call, line)| {
            let says =
                format!("`{call}` may wait for a pipe for ever; call `oomph_core::open_file` or its like");
            Finding::new(&file.path, line, says).named(call)
        })
        .collect()
}

#[test]
fn files_are_opened_by_the_function_that_never_waits() {
    let product = tree::own()
        .rust_files()
        .into_iter()
        .filter(|file| file.is_product() && file.path.starts_with("crates/"));
    let findings = product.flat_map(|file| opened(&file)).collect();
    crate::report("files are opened in one place", unexcused("opened files", findings));
}

#[test]
fn an_opening_is_found_wherever_it_stands() {
    let found = |text: &str| -> Vec<usize> {
        opened(&RustFile::parse("snippet.rs", text)).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(found("fn f() {\n    File::open(x)?;\n}"), [2]);
    assert_eq!(found("fn f() {\n    std::fs::read_to_string(x)?;\n}"), [2]);
    assert_eq!(found("fn f() {\n    OpenOptions::new()\n        .read(true)\n        .open(x)?;\n}"), [4]);
    assert_eq!(found("fn f() {\n    x.and_then(File::open)?;\n    File::open;\n}"), [2, 3]);
    let none: [usize; 0] = [];
    assert_eq!(found("fn f() {\n    fs::read_dir(x)?;\n    fs::read_link(x)?;\n    Run::open(x)?;\n}"), none);
    assert_eq!(found("#[cfg(test)]\nmod tests {\n    fn f() { File::open(x) }\n}"), none);
}
