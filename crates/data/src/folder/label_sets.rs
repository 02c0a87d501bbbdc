//! Images with any number of labels.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use oomph_core::{Generator, Key};

use super::{
    label_table::LabelRow,
    scan::{ClassFiles, FolderPart, Layout},
    settings::Holdout,
};

/// Images of one part, and the labels of each of its groups: images with the same labels are a group.
pub(super) struct LabelledPart {
    pub(super) part: FolderPart,
    pub(super) sets: Vec<Box<[usize]>>,
}

/// The images of some rows, by their labels and then by file.
pub(super) fn part(root: &Path, rows: Vec<LabelRow>, names: &[String]) -> LabelledPart {
    let mut by_labels: BTreeMap<Box<[usize]>, Vec<OsString>> = BTreeMap::new();
    for row in rows {
        by_labels.entry(row.labels).or_default().push(row.file.into());
    }
    let (mut sets, mut groups) = (Vec::new(), Vec::new());
    for (labels, mut files) in by_labels {
        files.sort_unstable();
        // The name enters the digest of the data.
        let name = labels.iter().map(|label| names[*label].as_str()).collect::<Vec<_>>().join("\n");
        groups.push(ClassFiles { name: name.into(), files });
        sets.push(labels);
    }
    LabelledPart { part: FolderPart::new(root.to_owned(), groups, Layout::Labels), sets }
}

/// Divides the rows into those to train on and those that are held out: a share of them, chosen by their files and the seed.
///
/// An image is held out only if another one to train on has each of its labels, so no label is held out alone. There are at
/// least two rows.
pub(super) fn hold_out(rows: Vec<LabelRow>, labels: usize, holdout: &Holdout) -> [Vec<LabelRow>; 2] {
    let count = (rows.len() as f64 * holdout.share).round() as usize;
    let count = count.clamp(1, rows.len().saturating_sub(1).max(1));
    let mut left = vec![0_usize; labels];
    rows.iter().flat_map(|row| &row.labels).for_each(|label| left[*label] += 1);
    let seed = Key::new(holdout.seed);
    let mut ranked: Vec<_> = rows
        .into_iter()
        .map(|row| (Generator::at(seed.with_name(&row.file)).below(usize::MAX), row))
        .collect();
    ranked.sort_unstable_by(|(one, of_one), (other, of_other)| {
        one.cmp(other).then_with(|| of_one.file.cmp(&of_other.file))
    });
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (_, row) in ranked {
        if test.len() < count && row.labels.iter().all(|label| left[*label] > 1) {
            row.labels.iter().for_each(|label| left[*label] -= 1);
            test.push(row);
        } else {
            train.push(row);
        }
    }
    [train, test]
}
