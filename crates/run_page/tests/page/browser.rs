//! The page in a browser.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use oomph_test_support::{Missing, skip};

use crate::{file, samples};

fn works(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_installed(program: &str) -> bool {
    works(Command::new(program).arg("--version"))
}

#[test]
fn the_page_works_in_a_browser() {
    let pages = [
        file("three.html", &samples::three()),
        file("many.html", &samples::many()),
        file("language.html", &samples::language()),
        file("hostile.html", &samples::hostile()),
    ];
    let bare = [0, 1, 2].map(|count| file(&format!("runs-{count}.html"), &samples::few(count)));

    if !is_installed("python3") {
        return skip(Missing::Python);
    }
    let driver = env::var("OOMPH_CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".into());
    let has_chromium = ["chromium", "chromium-browser", "google-chrome"].into_iter().any(is_installed);
    if !is_installed(&driver) || !has_chromium {
        return skip(Missing::Browser);
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/runs_browser_check.py");
    let bare = bare.iter().map(|path| format!("--open={}", path.display()));
    let output = Command::new("python3").arg(tool).args(pages).args(bare).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [out, err] = [text(&output.stdout), text(&output.stderr)];
    assert!(output.status.success(), "{out}\n{err}");
}
