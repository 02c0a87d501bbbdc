//! The source of one crate: its modules, imports, types and signatures, tests left out.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use proc_macro2::Span;
use syn::{
    Attribute, Item,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::{
    Tree,
    rust_file::{attributes, is_test},
};

/// One source file.
#[derive(Debug)]
pub struct SourceFile {
    /// From the root of the repository.
    pub path: String,
    /// Lines outside of tests.
    pub lines: usize,
}

/// One `use`, with a path for each name that it imports.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// The module that contains it.
    pub(crate) module: usize,
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// The name in this module; `None` for `*`.
    pub(crate) name: Option<String>,
    pub(crate) is_public: bool,
}

/// A module: a file, or a block `mod name { … }`.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: HashMap<String, usize>,
    /// Names that it defines.
    pub(crate) names: HashSet<String>,
}

/// A struct with named or numbered fields.
#[derive(Debug)]
pub struct Fields {
    /// Its name.
    pub name: String,
    /// The file that defines it.
    pub path: String,
    /// The line of its name.
    pub line: usize,
    /// How many fields it has.
    pub count: usize,
}

/// An `impl` block without a trait.
#[derive(Debug)]
pub(crate) struct Methods {
    pub(crate) module: usize,
    pub(crate) line: usize,
    pub(crate) of: Vec<String>,
    pub(crate) count: usize,
}

/// A parameter that is a tuple.
#[derive(Debug)]
pub struct TupleParameter {
    /// The function.
    pub function: String,
    /// The file.
    pub path: String,
    /// The line of the parameter.
    pub line: usize,
}

/// The source of one crate, as the compiler reaches it from `src/lib.rs`, or `src/main.rs` without one.
#[derive(Debug, Default)]
pub struct CrateSource {
    /// Its files. The first is the root.
    pub files: Vec<SourceFile>,
    /// Its structs.
    pub structs: Vec<Fields>,
    /// Parameters that are tuples: of functions, methods of a type and methods of a trait's definition. An `impl` of a
    /// trait has to follow the trait.
    pub tuple_parameters: Vec<TupleParameter>,
    pub(crate) modules: Vec<Module>,
    pub(crate) uses: Vec<Use>,
    pub(crate) methods: Vec<Methods>,
}

impl CrateSource {
    /// Reads the crate in `folder` of a tree, such as `crates/core`, or `.` for the root package.
    ///
    /// # Panics
    ///
    /// If a file is missing or is not Rust.
    pub fn read(tree: &Tree, folder: &str) -> Self {
        let folder = if folder == "." { String::new() } else { format!("{folder}/") };
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{folder}{root}"));
        let root = roots.into_iter().find(|root| tree.root().join(root).exists());
        let root = root.unwrap_or_else(|| panic!("`{folder}` has no src/lib.rs"));
        let mut source = Self::default();
        source.modules.push(Module::default());
        let folder = parent(&root).to_owned();
        Reader { tree, source: &mut source, module: 0, file: 0, folder }.file(&root);
        source
    }

    /// The path of a module's file.
    pub(crate) fn path_of(&self, module: usize) -> &str {
        &self.files[self.modules[module].file].path
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn line(span: Span) -> usize {
    span.start().line
}

struct Reader<'a> {
    tree: &'a Tree,
    source: &'a mut CrateSource,
    module: usize,
    file: usize,
    /// Where the files of this module's children lie.
    folder: String,
}

impl Reader<'_> {
    /// Reads the file of this module.
    fn file(&mut self, path: &str) {
        let text = self.tree.text(path);
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("cannot parse {path}: {error}"));
        let lines = crate::RustFile::parse(path, text).source_lines();
        self.file = self.source.files.len();
        self.source.files.push(SourceFile { path: path.to_owned(), lines });
        self.source.modules[self.module].file = self.file;
        self.visit_file(&syntax);
    }

    /// A child without a body: its file, in this module's folder.
    fn child_file(&mut self, name: &str, attributes: &[Attribute]) {
        let named = attributes.iter().find(|attribute| attribute.path().is_ident("path"));
        let named = named.and_then(|attribute| match &attribute.meta.require_name_value().ok()?.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        });
        let here = parent(&self.source.files[self.file].path).to_owned();
        let candidates = match named {
            Some(path) => vec![format!("{here}/{path}")],
            None => vec![format!("{}/{name}.rs", self.folder), format!("{}/{name}/mod.rs", self.folder)],
        };
        let path = candidates.into_iter().find(|path| self.tree.root().join(path).exists());
        let path = path.unwrap_or_else(|| panic!("no file for `mod {name}` in {}", self.folder));
        self.folder = match Path::new(&path).file_name().is_some_and(|file| file == "mod.rs") {
            true => parent(&path).to_owned(),
            false => path.trim_end_matches(".rs").to_owned(),
        };
        self.file(&path);
    }

    fn parameters(&mut self, signature: &syn::Signature) {
        for input in &signature.inputs {
            let syn::FnArg::Typed(parameter) = input else { continue };
            if is_tuple_pattern(&parameter.pat) || is_tuple(&parameter.ty) {
                self.source.tuple_parameters.push(TupleParameter {
                    function: signature.ident.to_string(),
                    path: self.source.files[self.file].path.clone(),
                    line: line(parameter.span()),
                });
            }
        }
    }
}

fn is_tuple_pattern(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Tuple(_) => true,
        syn::Pat::Reference(inner) => is_tuple_pattern(&inner.pat),
        _ => false,
    }
}

fn is_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(inner) => is_tuple(&inner.elem),
        syn::Type::Paren(inner) => is_tuple(&inner.elem),
        _ => false,
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The imports of a tree of a `use`, below `path`.
fn leaves(tree: &syn::UseTree, path: &[String]) -> Vec<(Vec<String>, Option<String>, usize)> {
    let below = |name: &syn::Ident| path.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
    match tree {
        syn::UseTree::Path(it) => leaves(&it.tree, &below(&it.ident)),
        syn::UseTree::Name(it) if it.ident == "self" => {
            vec![(path.to_vec(), path.last().cloned(), line(it.ident.span()))]
        }
        syn::UseTree::Name(it) => vec![(below(&it.ident), Some(it.ident.to_string()), line(it.ident.span()))],
        syn::UseTree::Rename(it) => {
            vec![(below(&it.ident), Some(it.rename.to_string()), line(it.ident.span()))]
        }
        syn::UseTree::Glob(it) => vec![(path.to_vec(), None, line(it.span()))],
        syn::UseTree::Group(it) => it.items.iter().flat_map(|item| leaves(item, path)).collect(),
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test(attributes(item)) {
            return;
        }
        if let Some(name) = name(item) {
            self.source.modules[self.module].names.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        let name = item.ident.to_string();
        let module = self.source.modules.len();
        self.source.modules.push(Module { file: self.file, parent: Some(self.module), ..Module::default() });
        self.source.modules[self.module].children.insert(name.clone(), module);
        let mut inner = Reader {
            tree: self.tree,
            source: &mut *self.source,
            module,
            file: self.file,
            folder: self.folder.clone(),
        };
        match &item.content {
            Some((_, items)) => {
                inner.folder = format!("{}/{name}", self.folder);
                items.iter().for_each(|item| inner.visit_item(item));
            }
            None => inner.child_file(&name, &item.attrs),
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let is_public = matches!(item.vis, syn::Visibility::Public(_));
        let module = self.module;
        self.source.uses.extend(leaves(&item.tree, &[]).into_iter().map(|(path, name, line)| Use {
            module,
            line,
            path,
            name,
            is_public,
        }));
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.source.structs.push(Fields {
            name: item.ident.to_string(),
            path: self.source.files[self.file].path.clone(),
            line: line(item.ident.span()),
            count: item.fields.len(),
        });
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let is_method =
            |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(method) if !is_test(&method.attrs));
        let of = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.iter().map(|it| it.ident.to_string()).collect(),
            _ => Vec::new(),
        };
        if item.trait_.is_none() {
            for method in &item.items {
                if let syn::ImplItem::Fn(method) = method {
                    self.parameters(&method.sig);
                }
            }
            let count = item.items.iter().filter(is_method).count();
            let methods = Methods { module: self.module, line: line(item.self_ty.span()), of, count };
            self.source.methods.push(methods);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.parameters(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.parameters(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}
