//! `oomph data --preview`: training images as the model sees them.

use std::path::{Path, PathBuf};

use oomph_core::files::Existing;
use oomph_data::{
    Source,
    preview::{Preview, PreviewRow},
};
use serde::Serialize;

use crate::{
    error::CliError,
    output::write_file,
    table::{
        Column::{Left, Right},
        Table,
    },
};

/// A picture of training images that was written.
#[derive(Serialize)]
pub(super) struct WrittenPreview {
    /// Where it is.
    pub(super) file: PathBuf,
    rows: Vec<PreviewRow>,
}

impl WrittenPreview {
    /// Draws samples of `source`, augmented as a training with `seed` does, and writes the picture.
    pub(super) fn write(
        path: &Path,
        existing: Existing,
        source: &dyn Source,
        seed: u64,
    ) -> Result<Self, CliError> {
        let preview = Preview::of(source, seed)?;
        let png = preview.png()?;
        write_file(path, existing, |out| out.write_all(&png))?;
        Ok(Self { file: path.to_owned(), rows: preview.rows })
    }

    /// The rows of the picture, from the top.
    pub(super) fn table(&self, source: &dyn Source) -> Table<4> {
        let mut table = Table::new([Right("row"), Left("class"), Left("labels"), Left("sample")]);
        let name = |index: &usize| {
            let name = source.class_names().and_then(|names| names.get(*index).cloned());
            name.unwrap_or_else(|| index.to_string())
        };
        for (row, PreviewRow { sample, class, labels }) in (1..).zip(&self.rows) {
            let labels = labels.iter().flatten().map(name).collect::<Vec<_>>().join(", ");
            let class = class.as_ref().map(name).unwrap_or_default();
            table.row([row.to_string(), class, labels, sample.clone()]);
        }
        table.without_empty_columns()
    }
}
