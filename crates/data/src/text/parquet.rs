//! Documents in a column of Parquet files.

use std::{ops::ControlFlow, path::Path};

use oomph_core::{Bytes, open_file};
use oomph_parquet::FileAt;

use super::{
    corpus::Reading,
    documents::{TextPart, Visitor},
};
use crate::{DataError, Flaw, FormatProblem};

/// Passes the documents of a file to `each`: the texts of the column that `data.text_key` names.
pub(super) fn visit(path: &Path, reading: &Reading, each: &mut Visitor<'_>) -> Result<(), DataError> {
    let refused = |source| DataError::Io { path: path.to_owned(), source };
    let file = open_file(path).map_err(refused)?;
    let at_least = Bytes::new(file.metadata().map_err(refused)?.len());
    let limit = reading.max_file_bytes;
    if at_least > limit {
        return Err(Flaw::new(0u64, FormatProblem::TooLarge { at_least, limit }).in_file(path).into());
    }
    let file = FileAt::new(file).map_err(refused)?;
    let visited =
        oomph_parquet::visit(file, &reading.text_key, limit, &mut |text| match each(TextPart::Text(text)) {
            ControlFlow::Continue(()) => each(TextPart::End),
            ended => ended,
        });
    visited.map_err(|error| DataError::Parquet { path: path.to_owned(), error: Box::new(error) })
}
