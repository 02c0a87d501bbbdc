//! The documents: complete, with links that work.

use std::path::Path;

use crate::{Finding, report, tree};

fn documents() -> Vec<(String, String)> {
    tree::files("", ".md")
}

#[test]
fn every_crate_is_in_the_architecture() {
    let architecture = tree::text("ARCHITECTURE.md");
    let missing = tree::folders("crates")
        .into_iter()
        .filter(|name| !architecture.contains(&format!("`crates/{name}`")));
    let finding = |name| {
        Finding::new(
            "ARCHITECTURE.md",
            1,
            format!("`crates/{name}` is missing; say what it is for and what it does not do"),
        )
    };
    report("every crate is in the architecture", missing.map(finding).collect());
}

#[test]
fn every_example_is_in_the_documents() {
    let documents: Vec<_> = documents()
        .into_iter()
        .filter(|(path, _)| path == "README.md" || path.starts_with("docs/"))
        .collect();
    let unmentioned = tree::files("examples", "").into_iter().filter(|(path, _)| {
        let name = path.trim_end_matches(".rs");
        !documents
            .iter()
            .any(|(_, text)| text.contains(name) || text.contains(&name.replace("examples/", "--example ")))
    });
    let finding =
        |(path, _)| Finding::new(path, 1, "no document names this example; name it in README.md or docs/");
    report("every example is in the documents", unmentioned.map(finding).collect());
}

#[test]
fn every_page_is_in_the_contents() {
    let contents = tree::text("docs/README.md");
    let pages = tree::files("docs", ".md").into_iter().map(|(path, _)| path);
    let missing =
        pages.filter(|path| path != "docs/README.md" && !contents.contains(&path.replace("docs/", "(")));
    let finding = |path: String| Finding::new(path, 1, "docs/README.md has no link to this page; add one");
    report("every page is in the contents", missing.map(finding).collect());
}

/// The targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

#[test]
fn links_lead_somewhere() {
    let mut findings = Vec::new();
    for (path, text) in documents() {
        let folder = tree::own().root().join(Path::new(&path).parent().unwrap_or(Path::new("")));
        for (line, content) in (1..).zip(text.lines()) {
            for link in links(content).filter(|link| !link.contains("://")) {
                let file = link.split('#').next().unwrap_or(link);
                if !file.is_empty() && !folder.join(file).exists() {
                    findings.push(Finding::new(&path, line, format!("there is no `{link}`; mend the link")));
                }
            }
        }
    }
    report("links lead somewhere", findings);
}

#[test]
fn links_are_found_in_a_line() {
    assert_eq!(links("a [b](c.md) and [d](e.md#f), (g)").collect::<Vec<_>>(), ["c.md", "e.md#f"]);
}

/// The paths that a line of ARCHITECTURE.md names in backticks, from the root of the tree. A bare file or folder, such as
/// `mod.rs` or `assets/`, is beside the path before it.
fn paths(line: &str) -> Vec<String> {
    const ROOTS: [&str; 8] =
        ["crates/", "tests/", "tools/", "docs/", "src/", "configs/", "examples/", "benches/"];
    let mut beside = None;
    let mut paths = Vec::new();
    for name in line.split('`').skip(1).step_by(2) {
        let is_bare = !name.contains(char::is_whitespace) && (name.ends_with(".rs") || name.ends_with('/'));
        if ROOTS.iter().any(|root| name.starts_with(root)) {
            beside = name.rsplit_once('/').map(|(folder, _)| folder);
            paths.push(name.to_owned());
        } else if let (Some(folder), true) = (beside, is_bare) {
            paths.push(format!("{folder}/{name}"));
        }
    }
    paths
}

#[test]
fn the_architecture_names_what_is_there() {
    const PAGE: &str = "ARCHITECTURE.md";
    let mut findings = Vec::new();
    for (line, content) in (1..).zip(tree::text(PAGE).lines()) {
        let missing = paths(content).into_iter().filter(|path| !tree::own().root().join(path).exists());
        findings.extend(
            missing.map(|path| Finding::new(PAGE, line, format!("there is no `{path}`; mend the path"))),
        );
    }
    report("the architecture names what is there", findings);
}

#[test]
fn paths_are_found_in_a_line() {
    assert_eq!(
        paths("`a.rs`, `crates/x/src/b.rs`, `c.rs` and `assets/`; `X::y` in `src/lib.rs`"),
        ["crates/x/src/b.rs", "crates/x/src/c.rs", "crates/x/src/assets/", "src/lib.rs"]
    );
}
