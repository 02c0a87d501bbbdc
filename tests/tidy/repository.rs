//! Packages, registries and commands.

use crate::{Finding, report, tree};

/// The one source of packages in Cargo.lock.
const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn packages_come_from_the_public_index_alone() {
    let locked = tree::text("Cargo.lock");
    let lines = (1..).zip(locked.lines());
    let sources =
        lines.filter_map(|(line, text)| Some((line, text.strip_prefix("source = ")?.trim_matches('"'))));
    let findings = sources.filter(|(_, source)| *source != PUBLIC_INDEX).map(|(line, source)| {
        Finding::new("Cargo.lock", line, format!("a package from {source}; take it from the public index"))
    });
    report("packages come from the public index alone", findings.collect());
}

/// Versions in Cargo.lock that the CUDA build needs. `pliron` accepts others, so that an update may lose them.
const PINS: [&str; 2] = ["hashbrown 0.13.2", "spin 0.11.1"];

#[test]
fn the_cuda_build_keeps_its_pins() {
    let locked = tree::text("Cargo.lock");
    let pliron =
        locked.split("[[package]]").find(|package| package.contains("name = \"pliron\"")).unwrap_or("");
    let lost = PINS.iter().filter(|pin| !pliron.contains(*pin)).map(|pin| {
        let says =
            format!("`pliron` no longer depends on `{pin}`, and the CUDA build fails; put it back by hand");
        Finding::new("Cargo.lock", 1, says)
    });
    report("the CUDA build keeps its pins", lost.collect());
}

/// Settings that point Cargo, pip or npm at a private host. They work on one machine only.
const REDIRECTS: [&str; 8] = [
    "[source.",
    "replace-with",
    "[registries",
    "--index-url",
    "--extra-index-url",
    "index-url =",
    "registry.npmjs",
    "_INDEX_URL",
];

#[test]
fn no_registry_is_named() {
    let mut findings = Vec::new();
    for (path, text) in tree::files("", "") {
        if path.starts_with("tests/tidy/") {
            continue;
        }
        for (line, content) in (1..).zip(text.lines()) {
            if let Some(redirect) = REDIRECTS.iter().find(|redirect| content.contains(*redirect)) {
                let says =
                    format!("`{redirect}` names a registry; that belongs into the user's own settings");
                findings.push(Finding::new(&path, line, says));
            }
        }
    }
    report("no registry is named", findings);
}

#[test]
fn contributors_run_what_ci_runs() {
    let script = tree::text(".ci/run");
    let contributing = tree::text("CONTRIBUTING.md");
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(script.lines()) {
        let command = content.strip_prefix("step ").map(|command| command.trim_start_matches("env ").trim());
        if let Some(command) = command.filter(|command| !contributing.contains(command)) {
            let says = format!("CONTRIBUTING.md does not name `{command}`; name it there");
            findings.push(Finding::new(".ci/run", line, says));
        }
    }
    report("contributors run what CI runs", findings);
}
