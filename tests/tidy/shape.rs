//! The shape of the code: cycles of files, tuples as parameters, large types, large crates, module files.

use std::collections::BTreeSet;

use oomph_tree::{CrateSource, MOST_FIELDS, MOST_METHODS, Tree};

use crate::{Finding, exceptions::unexcused, report};

/// A cycle of imports has at most so many files.
const MOST_CYCLE_FILES: usize = 4;
/// The root of a crate re-exports at most so many names.
const MOST_REEXPORTS: usize = 40;
/// A crate has at most so many lines without tests.
const MOST_CRATE_LINES: usize = 9_000;

/// The folders of all crates, the tools included.
fn crates(tree: &Tree) -> Vec<String> {
    let mut folders: Vec<_> =
        tree.folders("crates").into_iter().map(|name| format!("crates/{name}")).collect();
    let others = [".", "tools", "tools/test_support", "tools/tree"].map(String::from);
    folders.extend(others.into_iter().filter(|folder| tree.root().join(folder).join("src").exists()));
    folders
}

fn in_crates(tree: &Tree, rule: impl Fn(&str, &CrateSource) -> Vec<Finding>) -> Vec<Finding> {
    crates(tree).iter().flat_map(|folder| rule(folder, &CrateSource::read(tree, folder))).collect()
}

fn long_cycles(_: &str, source: &CrateSource) -> Vec<Finding> {
    let long = source.cycles().into_iter().filter(|cycle| cycle.len() > MOST_CYCLE_FILES);
    long.map(|cycle| {
        let shown: Vec<_> = cycle
            .iter()
            .map(|(file, import)| format!("\n    {file}:{} imports `{}`", import.line, import.path))
            .collect();
        let first = cycle.keys().next().cloned().unwrap_or_default();
        let says = format!(
            "{} files import each other in a cycle, more than {MOST_CYCLE_FILES}; let imports point one way (a re-export \
             imports the file too){}",
            cycle.len(),
            shown.concat(),
        );
        Finding::new(&first, 1, says).named(first)
    })
    .collect()
}

fn tuple_parameters(_: &str, source: &CrateSource) -> Vec<Finding> {
    let says =
        |function: &str| format!("`{function}` takes a tuple; take its parts, or a struct that names them");
    let tuples = source.tuple_parameters.iter();
    tuples.map(|it| Finding::new(&it.path, it.line, says(&it.function)).named(&it.function)).collect()
}

fn large_structs(_: &str, source: &CrateSource) -> Vec<Finding> {
    let large = source.structs.iter().filter(|it| it.count > MOST_FIELDS);
    large
        .map(|it| {
            let says = format!(
                "`{}` has {} fields, more than {MOST_FIELDS}; group those that belong together",
                it.name, it.count
            );
            Finding::new(&it.path, it.line, says).named(&it.name)
        })
        .collect()
}

fn large_types(_: &str, source: &CrateSource) -> Vec<Finding> {
    let large = source.method_counts().into_iter().filter(|it| it.count > MOST_METHODS);
    large
        .map(|it| {
            let says = format!(
                "`{}` has {} methods, more than {MOST_METHODS}; make some of them functions, or split the type",
                it.name, it.count
            );
            Finding::new(&it.path, it.line, says).named(&it.name)
        })
        .collect()
}

fn many_reexports(folder: &str, source: &CrateSource) -> Vec<Finding> {
    let count = source.root_reexports();
    let says = format!("the root re-exports {count} names, more than {MOST_REEXPORTS}; make modules public");
    let path = &source.files[0].path;
    (count > MOST_REEXPORTS).then(|| Finding::new(path, 1, says).named(folder)).into_iter().collect()
}

fn large_crates(folder: &str, source: &CrateSource) -> Vec<Finding> {
    let lines = source.lines();
    let says = format!("{lines} lines without tests, more than {MOST_CRATE_LINES}; split the crate");
    (lines > MOST_CRATE_LINES).then(|| Finding::new(folder, 1, says).named(folder)).into_iter().collect()
}

fn files_beside_folders(tree: &Tree) -> Vec<Finding> {
    let files: BTreeSet<_> = tree.files("", ".rs").into_iter().map(|(path, _)| path).collect();
    let folder = |file: &String| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let folders: BTreeSet<_> = files.iter().filter_map(folder).collect();
    let twice = files.iter().filter(|file| folders.contains(file.trim_end_matches(".rs")));
    twice
        .map(|file| {
            let module = file.trim_end_matches(".rs");
            Finding::new(file, 1, format!("a module of two styles; move it to {module}/mod.rs")).named(file)
        })
        .collect()
}

macro_rules! rules {
    ($($test:ident, $rule:literal, $findings:expr;)*) => {$(
        #[test]
        fn $test() {
            let findings: Vec<Finding> = $findings(&Tree::own());
            report($rule, unexcused($rule, findings));
        }
    )*};
}

rules! {
    imports_of_files_point_one_way, "cycles", |tree| in_crates(tree, long_cycles);
    no_parameter_is_a_tuple, "tuple parameters", |tree| in_crates(tree, tuple_parameters);
    structs_have_few_fields, "large structs", |tree| in_crates(tree, large_structs);
    types_have_few_methods, "large types", |tree| in_crates(tree, large_types);
    roots_reexport_few_names, "re-exports", |tree| in_crates(tree, many_reexports);
    crates_are_small, "large crates", |tree| in_crates(tree, large_crates);
    modules_have_one_style, "module style", files_beside_folders;
}

mod made_up {
    use super::*;

    /// The findings of a rule in a crate `crates/x` of these files below `src/`.
    fn found(rule: impl Fn(&str, &CrateSource) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("crates/x/src").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        in_crates(&Tree::new(folder.path()), rule).iter().map(ToString::to_string).collect()
    }

    /// `a` to `e`, each importing the next one as `import` says; the last imports the first.
    fn ring(lib: &str, import: fn(&str) -> String) -> Vec<String> {
        let names = ["a", "b", "c", "d", "e"];
        let mut files = vec![("lib.rs".to_owned(), format!("mod a; mod b; mod c; mod d; mod e; {lib}"))];
        for (index, name) in names.iter().enumerate() {
            let next = names[(index + 1) % names.len()];
            let text = format!("{}\npub struct {};", import(next), name.to_uppercase());
            files.push((format!("{name}.rs"), text));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        found(long_cycles, &files)
    }

    #[test]
    fn a_cycle_of_files_is_found_through_reexports_too() {
        let direct = ring("", |next| format!("use crate::{next}::{};", next.to_uppercase()));
        assert_eq!(direct.len(), 1, "{direct:?}");
        assert!(direct[0].contains("5 files") && direct[0].contains("src/b.rs:1 imports `crate::c::C`"));
        let lib = "pub use {a::A, b::*, c::C as D}; pub use c::C; use d::D as Last; pub use e::E;";
        let through_root = ring(lib, |next| match next {
            "d" => "use super::Last;".into(),
            _ => format!("use crate::{};", next.to_uppercase()),
        });
        assert_eq!(through_root.len(), 1, "{through_root:?}");
    }

    #[test]
    fn imports_of_tests_and_one_way_imports_are_no_cycle() {
        let tests = ring("", |next| format!("#[cfg(test)]\nmod tests {{ use crate::{next}::X; }}"));
        assert_eq!(tests, Vec::<String>::new());
        let one_way = ring("", |next| match next {
            "a" => String::new(),
            _ => format!("use crate::{next}::{};", next.to_uppercase()),
        });
        assert_eq!(one_way, Vec::<String>::new());
    }

    #[test]
    fn tuples_are_found_as_types_and_as_patterns() {
        let text = "fn a(x: (u8, u8)) {}\nfn b((x, y): Pair) {}\nfn c(x: &mut (u8, u8)) {}\n\
            impl X { fn d(&self, (x, y): (u8, u8)) {} }\ntrait T { fn e(x: (u8, u8)); }\n\
            impl T for X { fn e(x: (u8, u8)) {} }\nfn f(x: &[(u8, u8)], y: ()) { g(|(x, y)| x); }\n\
            #[cfg(test)]\nmod tests { fn g(x: (u8, u8)) {} }";
        let lines: Vec<_> = found(tuple_parameters, &[("lib.rs", text)])
            .iter()
            .map(|it| it.split(':').nth(1).unwrap().to_owned())
            .collect();
        assert_eq!(lines, ["1", "2", "3", "4", "5"]);
    }

    #[test]
    fn large_types_are_found_whatever_their_blocks() {
        let fields = (0..16).map(|index| format!("f{index}: u8,")).collect::<String>();
        let text = format!("struct Large {{ {fields} }}\nstruct Small {{ f: u8 }}");
        assert_eq!(found(large_structs, &[("lib.rs", &text)]).len(), 1);
        let methods = |from, to| (from..to).map(|index| format!("fn m{index}() {{}}")).collect::<String>();
        let lib = format!("mod a; mod b; pub struct Large; impl Large {{ {} }}", methods(0, 13));
        let more = format!("use crate::Large; impl Large {{ {} }}", methods(13, 26));
        let other = format!("pub struct Large; impl Large {{ {} }}", methods(0, 13));
        let large = found(large_types, &[("lib.rs", &lib), ("a.rs", &more), ("b.rs", &other)]);
        assert_eq!(large.len(), 1, "{large:?}");
    }

    #[test]
    fn large_roots_and_crates_are_found() {
        let names = (0..41).map(|index| format!("N{index}, ")).collect::<String>();
        assert_eq!(
            found(many_reexports, &[("lib.rs", &format!("mod m; pub use m::{{{names}}};")), ("m.rs", "")])
                .len(),
            1
        );
        assert_eq!(
            found(many_reexports, &[("lib.rs", "mod m; pub use m::{A, B}; use m::C;"), ("m.rs", "")]).len(),
            0
        );
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(9_000));
        assert_eq!(found(large_crates, &[("lib.rs", &tests)]).len(), 0);
        assert_eq!(found(large_crates, &[("lib.rs", &"\n".repeat(9_001))]).len(), 1);
    }

    #[test]
    fn a_module_of_two_styles_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["src/a.rs", "src/a/b.rs", "src/c/mod.rs", "src/c/d.rs"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = files_beside_folders(&Tree::new(folder.path()));
        assert_eq!(found.iter().map(|it| it.place.as_str()).collect::<Vec<_>>(), ["src/a.rs"]);
    }
}
