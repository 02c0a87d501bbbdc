//! Names from a file of weights, as messages show them.

use oomph_core::printable;

/// A name from a file as messages show it: one short line.
pub(crate) fn shown(name: &str) -> String {
    const MOST: usize = 80;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", printable(&name[..end])),
        None => printable(name),
    }
}

/// The first few names, and the number of the others.
pub(crate) fn names<T: AsRef<str>>(names: &[T]) -> String {
    const MOST: usize = 8;
    let quoted: Vec<_> = names.iter().take(MOST).map(|name| format!("`{}`", shown(name.as_ref()))).collect();
    match names.len().saturating_sub(MOST) {
        0 => quoted.join(", "),
        more => format!("{} and {more} more", quoted.join(", ")),
    }
}
