//! The page in a browser.

use std::path::PathBuf;

use oomph_test_support::browse;

use crate::{file, samples};

#[test]
fn the_page_works_in_a_browser() {
    let pages = [
        file("three.html", &samples::three()),
        file("many.html", &samples::many()),
        file("language.html", &samples::language()),
        file("hostile.html", &samples::hostile()),
    ];
    let bare = [0, 1, 2].map(|count| file(&format!("runs-{count}.html"), &samples::few(count)));

    let bare = bare.iter().map(|path| format!("--open={}", path.display()).into());
    browse("runs_browser_check.py", pages.into_iter().map(PathBuf::into_os_string).chain(bare));
}
