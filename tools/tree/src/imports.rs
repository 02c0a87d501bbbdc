//! Which file of a crate imports which, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};

use crate::crate_source::{CrateSource, Use};

/// Re-exports lead to re-exports; more steps than this are a loop.
const MOST_STEPS: usize = 40;

/// A file imports a name that another file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The line of the `use`.
    pub line: usize,
    /// The imported path, such as `crate::step::Stepper`.
    pub path: String,
}

/// Files that import each other, directly or through others: each file with one of its imports within the cycle.
pub type Cycle = BTreeMap<String, Import>;

/// Where a path leads.
enum Target {
    Module(usize),
    File(usize),
}

impl CrateSource {
    /// The cycles of files, the largest first. A `use` of a name that `lib.rs` or a `mod.rs` re-exports imports the file
    /// that defines it; the re-export itself imports that file too.
    pub fn cycles(&self) -> Vec<Cycle> {
        let imports = self.imports();
        let reached: Vec<_> = (0..self.files.len()).map(|file| reach(file, &imports)).collect();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for file in 0..self.files.len() {
            let members: Vec<_> =
                reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
            if members.len() < 2 || !seen.insert(members.clone()) {
                continue;
            }
            let within = |member: &usize| {
                let import = imports.get(member)?.iter().find(|(to, _)| members.contains(to))?;
                Some((self.files[*member].path.clone(), import.1.clone()))
            };
            cycles.push(members.iter().filter_map(within).collect::<Cycle>());
        }
        cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
        cycles
    }

    /// The imports of each file by the file that they lead to, the first one of each.
    fn imports(&self) -> BTreeMap<usize, BTreeMap<usize, Import>> {
        let mut imports: BTreeMap<usize, BTreeMap<usize, Import>> = BTreeMap::new();
        for import in &self.uses {
            let from = self.modules[import.module].file;
            let Some(to) = self.file_of(import.module, &import.path) else { continue };
            if to != from {
                let shown = Import { line: import.line, path: import.path.join("::") };
                imports.entry(from).or_default().entry(to).or_insert(shown);
            }
        }
        imports
    }

    /// The file that defines the type an `impl` names, and the type.
    pub(crate) fn type_of(&self, module: usize, path: &[String]) -> (usize, String) {
        let file = self.file_of(module, path).unwrap_or(self.modules[module].file);
        (file, path.last().cloned().unwrap_or_default())
    }

    /// The file to which `path` leads that stands in `module`; `None` out of the crate.
    fn file_of(&self, module: usize, path: &[String]) -> Option<usize> {
        Some(match self.resolve(module, path, 0)? {
            Target::Module(module) => self.modules[module].file,
            Target::File(file) => file,
        })
    }

    /// Where `path` leads that stands in `module`; `None` out of the crate.
    fn resolve(&self, module: usize, path: &[String], steps: usize) -> Option<Target> {
        if steps > MOST_STEPS {
            return None;
        }
        let mut at = module;
        let mut rest = path;
        let mut is_relative = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules[at].parent?,
                _ => break,
            }
            (rest, is_relative) = (others, true);
        }
        while let Some((name, others)) = rest.split_first() {
            let known = &self.modules[at];
            if let Some(child) = known.children.get(name) {
                at = *child;
            } else if known.names.contains(name) {
                return Some(Target::File(known.file));
            } else {
                match self.through_uses(at, name, steps)? {
                    Target::Module(module) => at = module,
                    file => return Some(file),
                }
            }
            (rest, is_relative) = (others, true);
        }
        is_relative.then_some(Target::Module(at))
    }

    /// Where a name leads that `module` has by a `use`.
    fn through_uses(&self, module: usize, name: &str, steps: usize) -> Option<Target> {
        let of_module = || self.uses.iter().filter(|import| import.module == module);
        let is_itself = |import: &&Use| !(import.path.len() == 1 && import.path[0] == name);
        let named = of_module().filter(is_itself).find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = named {
            return self.resolve(module, &import.path, steps + 1);
        }
        of_module().filter(|import| import.name.is_none()).find_map(|import| {
            let Target::Module(from) = self.resolve(module, &import.path, steps + 1)? else { return None };
            self.resolve(from, &["self".to_owned(), name.to_owned()], steps + 1)
        })
    }
}

fn reach(from: usize, imports: &BTreeMap<usize, BTreeMap<usize, Import>>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        for to in imports.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                next.push(*to);
            }
        }
    }
    reached
}
