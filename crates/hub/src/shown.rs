//! Texts of a file as messages show them.

use oomph_core::printable;

/// A text of a file as one short line.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", printable(&text[..end])),
        None => printable(text),
    }
}
