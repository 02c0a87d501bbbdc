//! Lengths of functions and files, names of files.

use oomph_tree::RustFile;

use crate::{Finding, exceptions::unexcused, report, tree};

/// One screen.
const MOST_FUNCTION_LINES: usize = 70;
/// A longer file has more than one concept.
const MOST_FILE_LINES: usize = 600;
/// Names that do not tell the content of a file.
const EMPTY_NAMES: [&str; 6] = ["base.rs", "utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"];

fn long_functions(file: &RustFile) -> Vec<Finding> {
    let length = |lines: &std::ops::RangeInclusive<usize>| lines.end() - lines.start() + 1;
    let long = file.functions.iter().filter(|(_, lines)| length(lines) > MOST_FUNCTION_LINES);
    long.map(|(name, lines)| {
        let says = format!("`{name}` has {} lines, more than {MOST_FUNCTION_LINES}; cut it", length(lines));
        Finding::new(&file.path, *lines.start(), says).named(name)
    })
    .collect()
}

#[test]
fn functions_fit_a_screen() {
    let findings = tree::own().rust_files().iter().flat_map(long_functions).collect();
    report("long functions", unexcused("long functions", findings));
}

#[test]
fn a_long_function_is_found_whatever_it_is_part_of() {
    let lines = |count| "    g();\n".repeat(count);
    let long = |head: &str, foot: &str, count| {
        long_functions(&RustFile::parse("snippet.rs", format!("{head}\n{}{foot}", lines(count)))).len()
    };
    assert_eq!(long("fn f() {", "}", 68), 0);
    assert_eq!(long("fn f() {", "}", 69), 1);
    assert_eq!(long("impl X { fn f() {", "}}", 69), 1);
    assert_eq!(long("trait X { fn f() {", "}}", 69), 1);
    assert_eq!(long("fn outer() {} mod inner { fn f() {", "}}", 69), 1);
    // Docs are not code.
    assert_eq!(long(&format!("{}fn f() {{", "/// Long.\n".repeat(70)), "}", 10), 0);
}

#[test]
fn a_file_is_one_concept() {
    let long = tree::files("", ".rs").into_iter().filter_map(|(path, text)| {
        let lines = text.lines().count();
        let says = format!("{lines} lines, more than {MOST_FILE_LINES}; give each concept its own file");
        (lines > MOST_FILE_LINES).then(|| Finding::new(path, 1, says))
    });
    report("a file is one concept", long.collect());
}

#[test]
fn file_names_say_what_is_in_the_file() {
    let empty = tree::files("", ".rs").into_iter().filter_map(|(path, _)| {
        let name = path.rsplit('/').next().unwrap_or(&path);
        let says = format!("`{name}` says nothing; name the file after what it holds");
        EMPTY_NAMES.contains(&name).then(|| Finding::new(&path, 1, says))
    });
    report("file names say what is in the file", empty.collect());
}
