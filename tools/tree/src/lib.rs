//! Reads the source tree of oomph: what the tidy tests and `cargo xtask` know about it.
//!
//! - [`Tree`]: the files of the repository. [`RustFile`]: one of them, parsed.
//! - [`CrateSource`]: the modules, imports, types and signatures of a crate; it finds cycles of files.
//! - [`Figures`]: sizes of all crates as a table.
//! - [`book`]: the documentation as sources of mdBook.
//! - [`tables`]: measured tables and headline figures in the documents. [`measured`]: how tools write them.
//!
//! ```
//! use oomph_tree::{CrateSource, Tree};
//!
//! let source = CrateSource::read(&Tree::own(), "tools/tree");
//! assert!(source.cycles().iter().all(|cycle| cycle.len() <= 4));
//! ```
//!
//! It has no rules. The tidy tests decide what is allowed.

pub mod book;
mod crate_source;
mod figures;
mod files;
mod imports;
pub mod measured;
mod rust_file;
pub mod tables;

pub use crate_source::{CrateSource, Fields, SourceFile, TupleParameter};
pub use figures::{Figures, MOST_FIELDS, MOST_METHODS, MethodCount};
pub use files::Tree;
pub use imports::{Cycle, Import};
pub use rust_file::{Lines, RustFile};
