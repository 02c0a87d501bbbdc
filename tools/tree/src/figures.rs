//! The figures of a tree: sizes, cycles, large types.

use std::{collections::BTreeMap, fmt};

use crate::{Tree, crate_source::CrateSource};

/// A type and how many methods its `impl` blocks have together, those of traits left out.
#[derive(Debug)]
pub struct MethodCount {
    /// The type.
    pub name: String,
    /// The file that defines it, and the line of its first `impl`.
    pub path: String,
    /// The line of its first `impl`.
    pub line: usize,
    /// How many.
    pub count: usize,
}

impl CrateSource {
    /// Lines of source without tests.
    pub fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// How many names the root re-exports; a glob is one.
    pub fn root_reexports(&self) -> usize {
        self.uses.iter().filter(|import| import.module == 0 && import.is_public).count()
    }

    /// The methods of each type.
    pub fn method_counts(&self) -> Vec<MethodCount> {
        let mut counts: BTreeMap<(usize, String), MethodCount> = BTreeMap::new();
        for block in &self.methods {
            let key = self.type_of(block.module, &block.of);
            let of_type = counts.entry(key.clone()).or_insert_with(|| MethodCount {
                name: key.1,
                path: self.path_of(block.module).to_owned(),
                line: block.line,
                count: 0,
            });
            of_type.count += block.count;
        }
        counts.into_values().collect()
    }
}

/// The figures of one crate.
#[derive(Debug)]
struct CrateFigures {
    /// Its folder, `.` for the root package.
    name: String,
    lines: usize,
    files: usize,
    /// Files in its largest cycle; 0 without one.
    largest_cycle: usize,
    reexports: usize,
    /// As `name fields`.
    large_structs: Vec<String>,
    /// As `name methods`.
    large_types: Vec<String>,
    tuple_parameters: usize,
}

/// A struct has at most so many fields.
pub const MOST_FIELDS: usize = 15;
/// A type has at most so many methods.
pub const MOST_METHODS: usize = 25;

impl CrateFigures {
    fn of(tree: &Tree, folder: &str) -> Self {
        let source = CrateSource::read(tree, folder);
        let structs = source.structs.iter().filter(|it| it.count > MOST_FIELDS);
        let methods = source.method_counts().into_iter().filter(|it| it.count > MOST_METHODS);
        Self {
            name: folder.to_owned(),
            lines: source.lines(),
            files: source.files.len(),
            largest_cycle: source.cycles().first().map_or(0, BTreeMap::len),
            reexports: source.root_reexports(),
            large_structs: structs.map(|it| format!("{} {}", it.name, it.count)).collect(),
            large_types: methods.map(|it| format!("{} {}", it.name, it.count)).collect(),
            tuple_parameters: source.tuple_parameters.len(),
        }
    }
}

/// The figures of all crates; displays as a table.
#[derive(Debug)]
pub struct Figures {
    crates: Vec<CrateFigures>,
}

impl Figures {
    /// Of the root package and the crates in `crates/`.
    pub fn of(tree: &Tree) -> Self {
        let crates = tree.folders("crates").into_iter().map(|name| format!("crates/{name}"));
        let folders = crates.chain([".".to_owned()]);
        Self { crates: folders.map(|folder| CrateFigures::of(tree, &folder)).collect() }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| crate | lines | files | largest cycle | root re-exports | tuple parameters | structs above {MOST_FIELDS} \
             fields | types above {MOST_METHODS} methods |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---|---|")?;
        for it in &self.crates {
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                it.name,
                it.lines,
                it.files,
                it.largest_cycle,
                it.reexports,
                it.tuple_parameters,
                it.large_structs.join(", "),
                it.large_types.join(", "),
            )?;
        }
        let sum = |of: fn(&CrateFigures) -> usize| self.crates.iter().map(of).sum::<usize>();
        let most = |of: fn(&CrateFigures) -> usize| self.crates.iter().map(of).max().unwrap_or(0);
        writeln!(
            f,
            "| {} crates | {} | {} | {} | at most {} | {} | {} | {} |",
            self.crates.len(),
            sum(|it| it.lines),
            sum(|it| it.files),
            most(|it| it.largest_cycle),
            most(|it| it.reexports),
            sum(|it| it.tuple_parameters),
            sum(|it| it.large_structs.len()),
            sum(|it| it.large_types.len()),
        )
    }
}
