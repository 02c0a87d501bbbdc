//! What `cargo install` and `cargo publish` need of the manifests.

use std::path::Path;

use crate::{Finding, report, tree};

/// Each line that the manifest of a published crate has: what a registry asks for, chosen once in the root Cargo.toml.
const INHERITED: [&str; 7] = [
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "authors.workspace = true",
    "readme.workspace = true",
    "exclude.workspace = true",
];

/// The texts of both licenses belong into every package.
const LICENSES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

#[test]
fn every_crate_can_be_published() {
    let mut findings = Vec::new();
    for name in tree::folders("crates") {
        let path = format!("crates/{name}/Cargo.toml");
        let text = tree::text(&path);
        let wanted = INHERITED.into_iter().chain(["description = \""]);
        let missing = wanted.filter(|wanted| !text.lines().any(|line| line.starts_with(wanted)));
        findings.extend(missing.map(|missing| Finding::new(&path, 1, format!("add `{missing}`"))));
        for license in LICENSES {
            if !tree::own().root().join(format!("crates/{name}/{license}")).exists() {
                let says = format!("link the license: `ln -s ../../{license} crates/{name}/`");
                findings.push(Finding::new(&path, 1, says));
            }
        }
    }
    report("every crate can be published", findings);
}

#[test]
fn what_is_not_for_users_is_not_published() {
    let manifests = tree::files("", "Cargo.toml").into_iter();
    let others = manifests.filter(|(path, _)| path.starts_with("tools/") || path.starts_with("tests/"));
    let open = others.filter(|(_, text)| !text.lines().any(|line| line == "publish = false"));
    let finding = |(path, _)| Finding::new(path, 1, "add `publish = false`: this is for contributors");
    report("what is not for users is not published", open.map(finding).collect());
}

/// The value of `key = "…"` in a line.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(&format!("{key} = \""))?.1.split('"').next()
}

#[test]
fn crates_depend_on_the_version_beside_them() {
    const ROOT: &str = "Cargo.toml";
    let text = tree::text(ROOT);
    let version =
        text.lines().find_map(|line| line.starts_with("version = ").then(|| quoted(line, "version")));
    let version = version.flatten().expect("the root Cargo.toml has the version of all crates");
    let ours = (1..)
        .zip(text.lines())
        .filter(|(_, line)| quoted(line, "path").is_some_and(|path| path.starts_with("crates/")));
    let others = ours.filter(|(_, line)| quoted(line, "version") != Some(version));
    let finding = |(line, _)| {
        Finding::new(ROOT, line, format!("write `version = \"{version}\"`: a registry knows no paths"))
    };
    report("crates depend on the version beside them", others.map(finding).collect());
}

/// The paths of `include_str!` and `include_bytes!` in a line, as far as they stand there.
fn included(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("include_str!(").or_else(|| line.split_once("include_bytes!("))?;
    rest.split('"').nth(1)
}

/// Whether a path that is relative to the file `from` leads out of the folder `package`.
fn leaves(package: &str, from: &str, path: &str) -> bool {
    let inside = Path::new(from.strip_prefix(package).unwrap_or(from).trim_start_matches('/'));
    let folders = inside.components().count() - 1;
    path.split('/').take_while(|part| *part == "..").count() > folders
}

#[test]
fn a_package_has_all_files_that_it_includes() {
    let mut findings = Vec::new();
    for name in tree::folders("crates") {
        let package = format!("crates/{name}");
        for (path, text) in tree::files(&format!("{package}/src"), ".rs") {
            let outside =
                (1..).zip(text.lines()).filter_map(|(line, content)| Some((line, included(content)?)));
            let outside = outside.filter(|(_, file)| leaves(&package, &path, file));
            findings.extend(outside.map(|(line, file)| {
                Finding::new(
                    &path,
                    line,
                    format!("a package has no `{file}`; link the folder into {package}"),
                )
            }));
        }
    }
    report("a package has all files that it includes", findings);
}

#[test]
fn a_file_outside_of_a_package_is_found() {
    assert_eq!(included("const A: &str = include_str!(concat!(\"../../x/\", $name));"), Some("../../x/"));
    assert!(leaves("crates/a", "crates/a/src/b.rs", "../../x/"));
    assert!(!leaves("crates/a", "crates/a/src/b.rs", "../x/"));
    assert!(!leaves("crates/a", "crates/a/src/b/c.rs", "../../x/"));
}
