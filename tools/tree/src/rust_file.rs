//! A parsed Rust file: lines of its tests, functions and statements.

use std::ops::RangeInclusive;

use proc_macro2::Span;
use syn::{
    Attribute, Item, Meta,
    spanned::Spanned,
    visit::{self, Visit},
};

/// Lines, from 1.
pub type Lines = RangeInclusive<usize>;

/// One Rust file of the repository.
#[derive(Debug)]
pub struct RustFile {
    /// From the root of the repository.
    pub path: String,
    /// All of it.
    pub text: String,
    /// Functions with bodies: the name, and from `fn` to the closing brace.
    pub functions: Vec<(String, Lines)>,
    /// Items under `#[test]` or `#[cfg(test)]`.
    tests: Vec<Lines>,
    /// Statements and arms of matches.
    statements: Vec<Lines>,
}

impl RustFile {
    /// Parses `text`.
    ///
    /// # Panics
    ///
    /// If `text` is not Rust.
    pub fn parse(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("cannot parse {path}: {error}"));
        let mut spans = Spans::default();
        spans.visit_file(&syntax);
        let Spans { functions, tests, statements } = spans;
        Self { path, text, functions, tests, statements }
    }

    /// Whether the product contains it: not a test, a bench, an example or a tool.
    pub fn is_product(&self) -> bool {
        !self.path.split('/').any(|part| ["tests", "benches", "examples", "tools"].contains(&part))
    }

    /// Whether `line` belongs to a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Lines outside of tests.
    pub fn source_lines(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.is_test(*line)).count()
    }

    /// Whether a comment explains `line`: on the line, above the line, or above its statement.
    pub fn is_explained(&self, line: usize) -> bool {
        let around = self.statements.iter().filter(|lines| lines.contains(&line));
        let statement = around.min_by_key(|lines| lines.end() - lines.start());
        let start = statement.map_or(line, |lines| *lines.start());
        self.line(line).contains("// ") || [line, start].iter().any(|line| self.is_comment(line - 1))
    }

    fn is_comment(&self, line: usize) -> bool {
        let line = self.line(line).trim_start();
        line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
    }

    fn line(&self, line: usize) -> &str {
        line.checked_sub(1).and_then(|index| self.text.lines().nth(index)).unwrap_or("")
    }
}

#[derive(Default)]
struct Spans {
    functions: Vec<(String, Lines)>,
    tests: Vec<Lines>,
    statements: Vec<Lines>,
}

fn lines(span: Span) -> Lines {
    span.start().line..=span.end().line
}

/// From the `fn` of a signature to the end of its body.
fn body(signature: &syn::Signature, block: &syn::Block) -> (String, Lines) {
    let (start, end) = (signature.fn_token.span().start().line, block.brace_token.span.close().end().line);
    (signature.ident.to_string(), start..=end)
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether attributes make an item a test.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(_) => false,
    })
}

impl<'a> Visit<'a> for Spans {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test(attributes(item)) {
            self.tests.push(lines(item.span()));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.functions.push(body(&function.sig, &function.block));
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.functions.push(body(&function.sig, &function.block));
        if is_test(&function.attrs) {
            self.tests.push(lines(function.span()));
        }
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        self.functions.extend(function.default.as_ref().map(|block| body(&function.sig, block)));
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_stmt(&mut self, statement: &'a syn::Stmt) {
        self.statements.push(lines(statement.span()));
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        self.statements.push(lines(arm.span()));
        visit::visit_arm(self, arm);
    }
}
