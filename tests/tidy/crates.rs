//! The crates: their dependencies, docs, lints, and the version of Burn.

use crate::{Finding, report, tree};

/// Each crate with the crates it may depend on: only crates above it in this list.
const IMPORTS: [(&str, &[&str]); 40] = [
    ("core", &[]),
    ("bf16", &[]),
    ("gpu_kernels", &[]),
    ("protobuf", &[]),
    ("onnx", &["protobuf"]),
    ("search", &["core"]),
    ("config", &["core"]),
    ("hub", &["core", "config"]),
    ("study", &["core", "search"]),
    ("tuner", &["core", "config", "search", "study"]),
    ("parallel", &["core"]),
    ("transform", &["core", "config"]),
    ("download", &["core"]),
    ("tokens", &["core"]),
    ("parquet", &["core"]),
    ("data", &["core", "config", "download", "transform", "tokens", "parquet"]),
    ("preview", &["core", "data"]),
    ("survey", &["core", "data"]),
    ("kernels", &["bf16", "core", "gpu_kernels"]),
    ("model", &["core", "config", "hub", "onnx", "kernels"]),
    ("timeline", &["core"]),
    ("tune_page", &["core", "timeline"]),
    ("memory", &["core", "timeline"]),
    ("optimizer", &["core", "config", "kernels", "model", "memory"]),
    ("plan", &["core", "timeline"]),
    ("calibration", &["core", "kernels", "plan"]),
    ("doctor", &["core", "memory"]),
    (
        "engine",
        &[
            "core",
            "config",
            "parallel",
            "data",
            "kernels",
            "model",
            "optimizer",
            "timeline",
            "memory",
            "plan",
            "doctor",
        ],
    ),
    ("runs", &["core", "protobuf", "config", "data", "model", "timeline", "memory", "engine"]),
    ("run_page", &["core", "timeline", "runs"]),
    ("scores", &["core", "data", "engine"]),
    ("advice", &["core", "config", "parallel", "data", "model", "timeline", "memory", "plan", "engine"]),
    (
        "trainer",
        &[
            "core",
            "gpu_kernels",
            "onnx",
            "config",
            "hub",
            "parallel",
            "data",
            "kernels",
            "model",
            "timeline",
            "memory",
            "plan",
            "calibration",
            "doctor",
            "engine",
            "runs",
            "scores",
            "advice",
        ],
    ),
    (
        "trials",
        &["core", "config", "memory", "engine", "advice", "search", "study", "tuner", "tune_page", "trainer"],
    ),
    ("proposal", &["core", "config", "data", "survey", "memory", "engine", "advice", "trainer"]),
    ("arguments", &["config", "runs"]),
    (
        "terminal",
        &[
            "core", "config", "data", "survey", "preview", "memory", "runs", "scores", "search", "study",
            "trainer", "tuner",
        ],
    ),
    ("monitor", &["core", "memory", "terminal"]),
    (
        "command",
        &[
            "core",
            "config",
            "parallel",
            "data",
            "survey",
            "preview",
            "model",
            "timeline",
            "memory",
            "doctor",
            "engine",
            "runs",
            "advice",
            "study",
            "tuner",
            "trainer",
            "proposal",
            "arguments",
            "terminal",
        ],
    ),
    (
        "cli",
        &[
            "core",
            "config",
            "parallel",
            "data",
            "survey",
            "preview",
            "model",
            "timeline",
            "memory",
            "plan",
            "calibration",
            "doctor",
            "engine",
            "runs",
            "advice",
            "search",
            "study",
            "tuner",
            "tune_page",
            "run_page",
            "trainer",
            "trials",
            "proposal",
            "arguments",
            "terminal",
            "monitor",
            "command",
        ],
    ),
];
/// The crates that do not depend on Burn.
const WITHOUT_BURN: [&str; 21] = [
    "core",
    "bf16",
    "protobuf",
    "onnx",
    "search",
    "config",
    "hub",
    "study",
    "tuner",
    "parallel",
    "transform",
    "download",
    "tokens",
    "parquet",
    "data",
    "survey",
    "preview",
    "timeline",
    "tune_page",
    "memory",
    "doctor",
];

fn manifest(name: &str) -> (String, String) {
    let path = format!("crates/{name}/Cargo.toml");
    let text = tree::text(&path);
    (path, text)
}

/// The dependencies of a manifest with their lines, dev-dependencies left out.
fn dependencies(manifest: &str) -> Vec<(String, usize)> {
    let mut inside = false;
    let mut names = Vec::new();
    for (line, text) in (1..).zip(manifest.lines()) {
        if text.starts_with('[') {
            inside = text == "[dependencies]";
        } else if inside && let Some((name, _)) = text.split_once(['.', ' ', '=']) {
            names.push((name.to_owned(), line));
        }
    }
    names
}

#[test]
fn imports_point_one_way() {
    let mut findings = Vec::new();
    for name in tree::folders("crates") {
        let (path, text) = manifest(&name);
        let Some((_, allowed)) = IMPORTS.iter().find(|(known, _)| *known == name) else {
            findings.push(Finding::new(
                path,
                1,
                "unknown crate; give it a place in `IMPORTS` and in ARCHITECTURE.md",
            ));
            continue;
        };
        for (dependency, line) in dependencies(&text) {
            let ours = dependency.strip_prefix("oomph-").map(|ours| ours.replace('-', "_"));
            if ours.is_some_and(|ours| !allowed.contains(&&*ours)) {
                let says = format!("`{name}` must not depend on `{dependency}`; ARCHITECTURE.md says why");
                findings.push(Finding::new(&path, line, says));
            }
            if dependency.starts_with("burn") && WITHOUT_BURN.contains(&name.as_str()) {
                let says = format!(
                    "`{name}` knows nothing of Burn; what needs `{dependency}` belongs in a crate further down"
                );
                findings.push(Finding::new(&path, line, says));
            }
        }
    }
    report("imports point one way", findings);
}

#[test]
fn every_crate_opens_with_what_it_is_for_and_an_example() {
    let roots = tree::folders("crates").into_iter().map(|name| format!("crates/{name}/src/lib.rs"));
    let findings = roots.chain(["src/lib.rs".to_owned()]).filter_map(|path| {
        let text = tree::text(&path);
        let head: Vec<_> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let says = match head.iter().any(|line| line.starts_with("//! ```")) {
            true => return None,
            false if head.is_empty() => "the crate has no doc; begin with `//!` and its purpose",
            false => "the crate's doc has no example; add a small one that compiles",
        };
        Some(Finding::new(path, 1, says))
    });
    report("every crate opens with what it is for and an example", findings.collect());
}

#[test]
fn every_crate_follows_the_lints_of_the_workspace() {
    let findings = tree::folders("crates").into_iter().filter_map(|name| {
        let (path, text) = manifest(&name);
        let says = "add `[lints]` with `workspace = true`";
        (!text.contains("[lints]\nworkspace = true")).then(|| Finding::new(path, 1, says))
    });
    report("every crate follows the lints of the workspace", findings.collect());
}

/// The version in `burn = { version = "=…"`.
fn pin(manifest: &str) -> &str {
    let line = manifest.lines().find(|line| line.starts_with("burn = "));
    let version = line.and_then(|line| line.split_once("version = \"="));
    version.and_then(|(_, rest)| rest.split('"').next()).expect("Cargo.toml pins burn by `version = \"=…\"`")
}

/// A version such as `0.22.0-pre.3` in a line: no crate but Burn's is used before its release.
fn version(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("-pre.")?;
    let start =
        before.rfind(|letter: char| !letter.is_ascii_digit() && letter != '.').map_or(0, |end| end + 1);
    let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
    Some(&line[start..before.len() + "-pre.".len() + end])
}

#[test]
fn the_version_of_burn_is_chosen_in_one_place() {
    let root = tree::text("Cargo.toml");
    let pin = pin(&root);
    let mut findings = Vec::new();
    let manifests = tree::files("", "Cargo.toml").into_iter().filter(|(path, _)| path != "Cargo.toml");
    for (path, text) in manifests {
        let pinned = (1..).zip(text.lines()).filter(|(_, content)| version(content).is_some());
        findings.extend(pinned.map(|(line, _)| {
            Finding::new(
                &path,
                line,
                "the version of Burn is chosen in the root Cargo.toml; write `workspace = true`",
            )
        }));
    }
    let code = tree::files("", ".rs").into_iter().filter(|(path, _)| !path.starts_with("tests/tidy/"));
    for (path, text) in code.chain([("Cargo.toml".to_owned(), root.clone())]) {
        let named =
            (1..).zip(text.lines()).filter(|(_, line)| path != "Cargo.toml" || line.starts_with("burn"));
        let named = named.filter_map(|(line, content)| Some((line, version(content)?)));
        findings.extend(named.filter(|(_, version)| *version != pin).map(|(line, version)| {
            Finding::new(&path, line, format!("`{version}` is not the pinned version of Burn; write `{pin}`"))
        }));
    }
    report("the version of Burn is chosen in one place", findings);
}

#[test]
fn a_version_is_found_in_a_line() {
    assert_eq!(version("burn = { version = \"=1.20.3-pre.4\", x }"), Some("1.20.3-pre.4"));
    assert_eq!(version("(pinned 1.20.3-pre.4)."), Some("1.20.3-pre.4"));
    assert_eq!(version("1.20.3"), None);
}
