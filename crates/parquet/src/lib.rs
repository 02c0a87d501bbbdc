//! The texts in a column of a Parquet file, read page by page: a file may be larger than the memory.
//!
//! - [`visit`] passes the text of each row to a closure, row group by row group.
//! - [`ReadAt`] is what the bytes come from: [`FileAt`], or bytes in memory.
//! - [`ColumnError`] names the row group and the row of what is wrong.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use oomph_core::Bytes;
//!
//! let bytes = b"id,text\n1,to be\n".to_vec();
//! let visited = oomph_parquet::visit(bytes, "text", Bytes::mib(1), &mut |_| ControlFlow::Continue(()));
//! let error = visited.expect_err("a CSV file");
//! assert_eq!(error.to_string(), "this is not a Parquet file: it does not end with `PAR1`");
//! ```
//!
//! Apache's crate `parquet` decodes the pages. It trusts sizes and counts of a file, so this crate compares each with the
//! bytes that are there before anything is allocated for it, and catches panics. Columns are read without Arrow.
//!
//! It reads no lists, no numbers and no other compression than snappy, zstd and gzip.

mod chunks;
mod compact;
mod error;
mod footer;
mod pages;
mod visit;

pub use chunks::{FileAt, ReadAt};
pub use error::{ColumnError, ColumnProblem};
pub use visit::visit;
