//! `oomph data --preview`: training images as the model sees them.

use std::path::Path;

use oomph_core::files::Existing;
use oomph_data::Source;
use oomph_preview::Preview;
use oomph_terminal::data::WrittenPreview;

use crate::{error::CliError, output::write_file};

/// Draws samples of `source`, augmented as a training with `seed` does, and writes the picture.
pub(super) fn write(
    path: &Path,
    existing: Existing,
    source: &dyn Source,
    seed: u64,
) -> Result<WrittenPreview, CliError> {
    let preview = Preview::of(source, seed)?;
    let png = preview.png()?;
    write_file(path, existing, |out| out.write_all(&png))?;
    Ok(WrittenPreview { file: path.to_owned(), rows: preview.rows })
}
