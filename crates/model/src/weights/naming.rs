//! Which layout the names of a file have.

use std::collections::BTreeMap;

use super::{
    file::StoredTensor,
    fit::Wanted,
    layout::{Layout, TensorPart, Twin},
};
use crate::{Architecture, Named};

/// The tensors of a file by name.
pub(super) type InFile<'a> = BTreeMap<&'a str, StoredTensor<'a>>;

/// The file's names for the model's parameters.
pub(super) struct Naming<'a> {
    /// The file's tensors of each parameter.
    parts: Named<Vec<TensorPart>>,
    /// A prefix that all names of the file have and the model's names lack.
    prefix: String,
    /// What names of the network without its head begin with, behind the prefix.
    base: &'static str,
    /// `None` for the names of the model tree.
    layout: Option<&'a Layout>,
}

impl<'a> Naming<'a> {
    /// The layout and prefix that match most of the wanted parameters; `None` if none match.
    pub(super) fn find(
        tensors: &InFile<'_>,
        architecture: &'a Architecture,
        wanted: &[Wanted],
    ) -> Option<Self> {
        let layouts = Self::all(architecture, wanted);
        let mut prefix = String::new();
        loop {
            let is_there =
                |part: &TensorPart| tensors.contains_key(format!("{prefix}{}", part.name).as_str());
            let found =
                |naming: &Self| naming.parts.values().filter(|parts| parts.iter().any(is_there)).count();
            // Where two match as many, the first counts.
            let best = layouts.iter().rev().max_by_key(|naming| found(naming));
            if let Some(best) = best.filter(|naming| found(naming) > 0) {
                return Some(best.behind(prefix));
            }
            prefix = longer_prefix(tensors, &prefix)?;
        }
    }

    /// All layouts, with their base and without, and at last the names of the model tree.
    fn all(architecture: &'a Architecture, wanted: &[Wanted]) -> Vec<Self> {
        let naming = |layout: Option<&'a Layout>, base: &'static str| {
            let without = layout.map_or("", Layout::base);
            let parts = wanted.iter().map(|Wanted { name, shape, .. }| {
                let mut parts = layout
                    .map_or_else(|| vec![TensorPart::whole(name, shape)], |layout| layout.parts(name, shape));
                for part in parts.iter_mut().filter(|_| base.is_empty()) {
                    part.name = part.name.strip_prefix(without).unwrap_or(&part.name).to_owned();
                }
                (name.clone(), parts)
            });
            Self { parts: parts.collect(), prefix: String::new(), base, layout }
        };
        let of_layout = |layout: &'a Layout| {
            let bases = [layout.base(), ""];
            let count = if layout.base().is_empty() { 1 } else { 2 };
            bases.into_iter().take(count).map(move |base| naming(Some(layout), base))
        };
        architecture.layouts().iter().flat_map(of_layout).chain([naming(None, "")]).collect()
    }

    /// The same for a file whose names all begin with `prefix`.
    fn behind(&self, prefix: String) -> Self {
        let parts = self.parts.iter().map(|(own, parts)| {
            let named =
                |part: &TensorPart| TensorPart { name: format!("{prefix}{}", part.name), ..part.clone() };
            (own.clone(), parts.iter().map(named).collect())
        });
        Self { parts: parts.collect(), base: self.base, layout: self.layout, prefix }
    }

    /// The file's tensors of a parameter.
    pub(super) fn parts(&self, own: &str) -> &[TensorPart] {
        self.parts.get(own).map_or(&[], Vec::as_slice)
    }

    /// The names of all tensors that the model knows.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.values().flatten().map(|part| part.name.as_str())
    }

    /// The first part of a name that tells modules apart.
    pub(super) fn module<'n>(&self, name: &'n str) -> Option<&'n str> {
        let name = name.get(self.prefix.len()..)?;
        name.strip_prefix(self.base).unwrap_or(name).split('.').next()
    }

    /// Pairs of tensors in the file that are one parameter of the model.
    pub(super) fn twins(&self, tensors: &InFile<'_>) -> Vec<(String, String)> {
        let twins = self.layout.map_or(&[][..], Layout::twins);
        let pair = |twin: &Twin| {
            let first = self.parts(&twin.name).first()?.name.clone();
            let second = format!("{}{}", self.prefix, twin.twin);
            tensors.contains_key(second.as_str()).then_some((first, second))
        };
        twins.iter().filter_map(pair).collect()
    }
}

/// The prefix with one more name part, if all names share that part.
fn longer_prefix(tensors: &InFile<'_>, prefix: &str) -> Option<String> {
    let first = tensors.keys().next()?;
    let (part, _) = first.get(prefix.len()..)?.split_once('.')?;
    let longer = format!("{prefix}{part}.");
    // The names are in order, so all have the prefix that the first and the last one have.
    let last = tensors.keys().next_back()?;
    (first.starts_with(&longer) && last.starts_with(&longer)).then_some(longer)
}
