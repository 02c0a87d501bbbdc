//! Images whose labels are in a CSV file.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use oomph_core::Bytes;

use super::{
    label_sets::{self, LabelledPart},
    label_settings::{LabelColumns, LabelForm, LabelSettings},
    label_table::{LabelRow, LabelTable, read},
    scan::{ClassFiles, FolderListing, FolderPart, HELD_OUT, Layout, split},
    settings::Holdout,
};
use crate::{
    DataError, Flaw, FormatProblem, OnCorrupt,
    flaw::shortened,
    input::{Input, read_file},
    memory_images::file_name,
    source::Parts,
};

/// The largest file of labels: a million images take about 50 MB.
const MAX_LABEL_BYTES: Bytes = Bytes::mib(1 << 10);

/// Lists the images of a table. Their files must exist, unless unreadable samples are skipped.
pub(super) fn scan(
    settings: &LabelSettings,
    folder: Option<&Path>,
    holdout: &Holdout,
    on_corrupt: OnCorrupt,
) -> Result<FolderListing, DataError> {
    if !settings.path.exists() {
        return Err(DataError::NoLabels { path: settings.path.clone() });
    }
    let root = settings.root(folder);
    let in_table = |flaw: Flaw| DataError::Format(flaw.in_file(&settings.path));
    let table = read_file(&settings.path, MAX_LABEL_BYTES, |input| read(input, settings))?;
    if on_corrupt == OnCorrupt::Fail {
        check_files(&table.rows, &root).map_err(in_table)?;
    }
    let LabelTable { mut rows, names, split_column } = table;
    let held_out = HELD_OUT.into_iter().find(|part| rows.iter().any(|row| row.part == *part));
    if held_out.is_none() && !settings.has_several() {
        return split(part(&root, rows, &names), holdout);
    }
    let ([train, test], held_out) = match held_out {
        Some(held_out) => {
            let column = split_column.unwrap_or_default();
            let file = file_name(&settings.path);
            let origin = format!("the rows of `{file}` with `{held_out}` in column `{column}`");
            holdout.note_unused(&origin);
            rows.retain(|row| row.part == "train" || row.part == held_out);
            let (train, test) = rows.into_iter().partition(|row| row.part == "train");
            ([train, test], origin)
        }
        None if rows.len() < 2 => return Err(DataError::SingleImage { path: settings.path.clone() }),
        None => (label_sets::hold_out(rows, names.len(), holdout), holdout.origin("the images")),
    };
    // Columns declare their labels, whether or not an image has them.
    let is_declared = matches!(settings.form, LabelForm::Columns(_));
    let trained: BTreeSet<usize> = match is_declared {
        true => (0..names.len()).collect(),
        false => train.iter().flat_map(|row: &LabelRow| row.labels.iter().copied()).collect(),
    };
    let [train, test] = renamed([train, test], &names, &trained).map_err(in_table)?;
    let classes: Vec<String> = trained.iter().map(|label| names[*label].clone()).collect();
    if !settings.has_several() {
        let (train, test) = (part(&root, train, &classes), part(&root, test, &classes));
        return Ok(FolderListing { classes, train, test, held_out, label_sets: None });
    }
    if train.is_empty() || classes.is_empty() {
        let what = if train.is_empty() { "rows to train on" } else { "row to train on with a label" };
        return Err(in_table(Flaw::new(0u64, FormatProblem::Nothing { what })));
    }
    let LabelledPart { part: train, sets } = label_sets::part(&root, train, &classes);
    let LabelledPart { part: test, sets: of_test } = label_sets::part(&root, test, &classes);
    let label_sets = Some(Parts { train: sets, test: of_test });
    Ok(FolderListing { classes, train, test, held_out, label_sets })
}

/// The rows of both parts, with the places of their labels among the `trained` ones.
fn renamed(
    parts: [Vec<LabelRow>; 2],
    names: &[String],
    trained: &BTreeSet<usize>,
) -> Result<[Vec<LabelRow>; 2], Flaw> {
    let mut places = vec![None; names.len()];
    trained.iter().enumerate().for_each(|(place, label)| places[*label] = Some(place));
    let [mut train, mut test] = parts;
    for row in train.iter_mut().chain(&mut test) {
        for label in &mut row.labels {
            *label = places[*label].ok_or_else(|| {
                let label = shortened(&names[*label]);
                Flaw::new(row.byte, FormatProblem::LabelNotTrained { line: row.line, label })
            })?;
        }
    }
    Ok([train, test])
}

/// The images of some rows with one label each, by class and then by file. Some classes may have no image.
fn part(root: &Path, rows: Vec<LabelRow>, classes: &[String]) -> FolderPart {
    let files = |name: &String| ClassFiles { name: name.into(), files: Vec::new() };
    let mut by_class: Vec<_> = classes.iter().map(files).collect();
    for row in rows {
        let class = row.labels.first().and_then(|label| by_class.get_mut(*label));
        class.into_iter().for_each(|class| class.files.push(row.file.as_str().into()));
    }
    by_class.iter_mut().for_each(|class| class.files.sort_unstable());
    FolderPart::new(root.to_owned(), by_class, Layout::Labels)
}

fn check_files(rows: &[LabelRow], root: &Path) -> Result<(), Flaw> {
    let missing = rows.iter().find(|row| !root.join(&row.file).is_file());
    missing.map_or(Ok(()), |row| {
        let path = root.join(&row.file);
        Err(Flaw::new(row.byte, FormatProblem::NoImage { line: row.line, path }))
    })
}

/// The rows of a table in memory, in each form of labels: the error of the last if none reads it. For fuzz tests.
pub(crate) fn parse<'a>(input: impl Fn() -> Result<Input<'a>, Flaw>) -> Result<(), Flaw> {
    let settings = |form| LabelSettings {
        path: PathBuf::new(),
        file_column: "file".to_owned(),
        label_column: "label".to_owned(),
        split_column: None,
        form,
    };
    let forms = [LabelForm::Columns(LabelColumns::All), LabelForm::Separated("|".to_owned()), LabelForm::One];
    let read = forms.map(|form| read(input()?, &settings(form)).map(drop));
    read.into_iter().reduce(Result::or).unwrap_or(Ok(()))
}
