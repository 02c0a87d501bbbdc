//! The page in a browser.

use std::path::PathBuf;

use oomph_test_support::browse;

use crate::{file, samples};

#[test]
fn the_page_works_in_a_browser() {
    let pages = [
        file("asha.html", &samples::asha(100)),
        file("large.html", &samples::asha(2_000)),
        file("hostile.html", &samples::hostile()),
        file("odd.html", &samples::odd()),
    ];
    let bare = [0, 1, 3].map(|count| file(&format!("trials-{count}.html"), &samples::few(count)));

    let bare = bare.iter().map(|path| format!("--open={}", path.display()).into());
    browse("tune_browser_check.py", pages.into_iter().map(PathBuf::into_os_string).chain(bare));
}
