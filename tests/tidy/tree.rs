//! The files of this repository.

use oomph_tree::Tree;

/// This tree.
pub(crate) fn own() -> Tree {
    Tree::own()
}

/// See [`Tree::files`].
pub(crate) fn files(below: &str, ending: &str) -> Vec<(String, String)> {
    own().files(below, ending)
}

/// See [`Tree::text`].
pub(crate) fn text(path: &str) -> String {
    own().text(path)
}

/// See [`Tree::folders`].
pub(crate) fn folders(below: &str) -> Vec<String> {
    own().folders(below)
}
