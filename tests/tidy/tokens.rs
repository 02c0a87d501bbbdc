//! Forbidden calls and keywords. The rules read tokens: macros count, comments and strings do not.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use oomph_tree::RustFile;

use crate::{Finding, report, tree};

/// Methods that panic.
const METHODS: [&str; 4] = ["unwrap", "expect", "unwrap_err", "expect_err"];
/// Macros that always panic.
const PANICS: [&str; 4] = ["panic", "unreachable", "todo", "unimplemented"];
/// Macros that print.
const PRINTS: [&str; 5] = ["println", "print", "eprintln", "eprint", "dbg"];

/// Functions that open the standard streams.
const STREAMS: [&str; 6] =
    ["stdout", "stderr", "buffered_stdout", "buffered_stderr", "stdout_raw", "stderr_raw"];
/// Methods that show a text on a terminal: of progress bars, and of clap's errors.
const SHOWS: [&str; 7] =
    ["println", "print", "set_message", "set_prefix", "with_message", "with_prefix", "suspend"];
/// The files that escape what they write: streams, and bars above them.
const WRITERS: [&str; 6] = [
    "crates/terminal/src/stream.rs",
    "crates/terminal/src/notices.rs",
    "crates/terminal/src/progress/bars.rs",
    "crates/terminal/src/progress/download.rs",
    "crates/terminal/src/progress/probe.rs",
    "crates/terminal/src/screen.rs",
];

/// The files that need `unsafe`.
const UNSAFE: [&str; 23] = [
    "crates/bf16/src/blocks.rs",
    "crates/bf16/src/dots.rs",
    "crates/bf16/src/line.rs",
    "crates/bf16/src/packing.rs",
    "crates/bf16/src/pairs.rs",
    "crates/bf16/src/planes.rs",
    "crates/bf16/src/points.rs",
    "crates/bf16/src/tiles.rs",
    "crates/bf16/src/unit.rs",
    "crates/bf16/src/wide.rs",
    "crates/bf16/src/vectors.rs",
    "crates/bf16/src/winograd.rs",
    "crates/command/src/refusal.rs",
    "crates/terminal/src/echo.rs",
    "crates/memory/src/allocator.rs",
    "crates/kernels/src/conv/operations.rs",
    "crates/kernels/src/uninit.rs",
    "crates/kernels/src/blocks.rs",
    "crates/kernels/src/tile/mod.rs",
    "crates/kernels/src/prefetch.rs",
    "crates/kernels/src/transpose.rs",
    "crates/trainer/src/device/cuda.rs",
    "crates/trainer/src/device/vulkan.rs",
];

/// Every launch of a GPU kernel is `unsafe`.
const LAUNCHES: &str = "crates/gpu_kernels/src/";

/// Names with their lines: methods called as `.name(`, and macros called as `name!`.
#[derive(Default)]
struct Calls {
    methods: Vec<(String, usize)>,
    /// Functions, called as `name(` or `path::name(`.
    functions: Vec<(String, usize)>,
    macros: Vec<(String, usize)>,
    /// Lines of the keyword `unsafe`.
    unsafes: Vec<usize>,
}

impl Calls {
    fn of(file: &RustFile) -> Self {
        let mut calls = Self::default();
        calls.collect(file.text.parse().expect("what syn parsed are tokens"));
        calls
    }

    fn collect(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let is = |index: usize, punctuation| matches!(tokens.get(index), Some(TokenTree::Punct(found)) if found.as_char() == punctuation);
        let is_call = |index: usize| matches!(tokens.get(index), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.collect(group.stream()),
                TokenTree::Ident(name) => {
                    let call = (name.to_string(), name.span().start().line);
                    if index > 0 && is(index - 1, '.') {
                        self.methods.push(call);
                    } else if is(index + 1, '!') {
                        self.macros.push(call);
                    } else if is_call(index + 1) {
                        self.functions.push(call);
                    } else if name == "unsafe" {
                        self.unsafes.push(call.1);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

fn unexplained_panics(file: &RustFile) -> Vec<Finding> {
    let Calls { methods, macros, .. } = Calls::of(file);
    let methods = methods.into_iter().filter(|(name, _)| METHODS.contains(&name.as_str()));
    let macros = macros.into_iter().filter(|(name, _)| PANICS.contains(&name.as_str()));
    let shown = methods.map(|(name, line)| (format!("`.{name}`"), line));
    shown
        .chain(macros.map(|(name, line)| (format!("`{name}!`"), line)))
        .filter(|(_, line)| !file.is_test(*line) && !file.is_explained(*line))
        .map(|(name, line)| {
            let says = format!(
                "{name} without a reason; return an error, or say in a comment above why it cannot happen"
            );
            Finding::new(&file.path, line, says)
        })
        .collect()
}

fn prints(file: &RustFile) -> Vec<Finding> {
    let printing = Calls::of(file).macros.into_iter().filter(|(name, _)| PRINTS.contains(&name.as_str()));
    printing
        .filter(|(_, line)| !file.is_test(*line))
        .map(|(name, line)| {
            let says = format!("`{name}!` in a library; return it, or tell it to the `Observer`");
            Finding::new(&file.path, line, says)
        })
        .collect()
}

#[test]
fn what_may_panic_says_why_it_cannot() {
    let product = tree::own().rust_files().into_iter().filter(RustFile::is_product);
    report("panics need a reason", product.flat_map(|file| unexplained_panics(&file)).collect());
}

#[test]
fn libraries_never_print() {
    // Commands may print.
    let libraries = tree::own().rust_files().into_iter().filter(|file| {
        file.is_product() && file.path.starts_with("crates/") && !file.path.starts_with("crates/cli/")
    });
    report("libraries never print", libraries.flat_map(|file| prints(&file)).collect());
}

/// What writes to a terminal without `stream`, whose functions escape what comes from outside.
fn writes_around_stream(file: &RustFile) -> Vec<Finding> {
    let Calls { methods, functions, macros, .. } = Calls::of(file);
    let functions = functions.into_iter().filter(|(name, _)| STREAMS.contains(&name.as_str()));
    let methods = methods.into_iter().filter(|(name, _)| SHOWS.contains(&name.as_str()));
    let macros = macros.into_iter().filter(|(name, _)| PRINTS.contains(&name.as_str()));
    let writes = functions.chain(methods).chain(macros).filter(|(_, line)| !file.is_test(*line));
    let findings = writes.map(|(name, line)| {
        let says = format!(
            "`{name}` writes around `oomph_terminal::stream`, which escapes what comes from outside; call that, or escape by \
             `printable` and add the file to `WRITERS`"
        );
        Finding::new(&file.path, line, says)
    });
    findings.collect()
}

#[test]
fn every_write_to_a_terminal_is_escaped() {
    let product = tree::own().rust_files().into_iter().filter(|file| {
        let is_ours = file.path.starts_with("crates/") || file.path.starts_with("src/");
        file.is_product() && is_ours && !WRITERS.contains(&&*file.path)
    });
    let findings = product.flat_map(|file| writes_around_stream(&file)).collect();
    report("every write to a terminal is escaped", findings);
}

#[test]
fn writes_around_the_stream_are_found() {
    let found = |text: &str| writes_around_stream(&RustFile::parse("snippet.rs", text)).len();
    assert_eq!(found("fn f() { let _ = writeln!(io::stderr(), \"{x}\"); }"), 1);
    assert_eq!(found("fn f() { println!(\"{x}\"); bar.set_message(x); }"), 2);
    assert_eq!(found("fn f() { Term::buffered_stdout(); answer.print(); }"), 2);
    assert_eq!(found("fn f() { command.stdout(Stdio::piped()); child.stdout.take(); stream::print(x); }"), 0);
}

#[test]
fn unsafe_code_stands_where_it_is_known() {
    let files = tree::own().rust_files().into_iter().filter(|file| {
        file.is_product() && !UNSAFE.contains(&&*file.path) && !file.path.starts_with(LAUNCHES)
    });
    let findings = files.filter_map(|file| {
        let line = *Calls::of(&file).unsafes.first()?;
        let says = "`unsafe` in a file that is not known for it; do without, or add the file to `UNSAFE`";
        Some(Finding::new(file.path, line, says))
    });
    report("unsafe code stands where it is known", findings.collect());
}

#[test]
fn a_panic_is_found_wherever_it_stands() {
    let found = |text: &str| -> Vec<usize> {
        unexplained_panics(&RustFile::parse("snippet.rs", text)).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(found("fn f() {\n    x.unwrap();\n}"), [2]);
    assert_eq!(found("fn f() {\n    x.unwrap_or(1).expect(\"x\");\n}"), [2]);
    assert_eq!(found("fn f() {\n    g(format!(\"{}\", x.unwrap()));\n}"), [2]);
    assert_eq!(found("macro_rules! m { () => {\n    panic!(\"x\")\n}; }"), [2]);
    let none: [usize; 0] = [];
    assert_eq!(found("/// x.unwrap()\nfn f() {\n    \"panic!()\";\n}"), none);
    assert_eq!(found("#[cfg(test)]\nmod tests {\n    fn f() { x.unwrap() }\n}"), none);
    assert_eq!(found("#[cfg(not(test))]\nmod m {\n    fn f() { x.unwrap() }\n}"), [3]);
}

#[test]
fn a_comment_explains_the_line_below_it_or_the_statement() {
    let found = |text: &str| unexplained_panics(&RustFile::parse("snippet.rs", text)).len();
    assert_eq!(found("fn f() {\n    // x is never empty.\n    x.unwrap();\n}"), 0);
    assert_eq!(found("fn f() {\n    x.unwrap(); // x is never empty\n}"), 0);
    assert_eq!(found("fn f() {\n    // x is never empty.\n    x\n        .y()\n        .unwrap();\n}"), 0);
    assert_eq!(found("fn f() {\n    // about the other\n    y();\n    x\n        .unwrap();\n}"), 1);
    assert_eq!(
        found(
            "fn f() {\n    match x {\n        // never\n        1 => panic!(),\n        _ => panic!(),\n    }\n}"
        ),
        1
    );
    assert_eq!(found("/// Unwraps.\nfn f() { x.unwrap() }"), 1);
}
