use std::path::PathBuf;

use oomph_data::Source;
use oomph_preview::PreviewRow;
use serde::Serialize;

use crate::table::{
    Column::{Left, Right},
    Table,
};

/// A picture of training images that was written.
#[derive(Debug, Serialize)]
pub struct WrittenPreview {
    /// Where it is.
    pub file: PathBuf,
    /// The rows of the picture, from the top.
    pub rows: Vec<PreviewRow>,
}

impl WrittenPreview {
    /// Its rows as a table.
    pub fn table(&self, source: &dyn Source) -> Table<4> {
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
