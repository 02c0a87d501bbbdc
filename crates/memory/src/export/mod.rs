//! Timelines as files that others can open.
//!
//! | function | what it writes | who opens it |
//! |---|---|---|
//! | [`html`] | one page with everything in it, for a timeline and a plan laid over it, of one device or of several | any browser, without a network |
//! | [`snapshot`] | a memory snapshot as PyTorch pickles it | PyTorch's `memory_viz`, `_memory_viz.py` |
//! | [`perfetto`] | a Chrome trace: counters by category, slices for steps, phases and stages | Perfetto, `chrome://tracing` |
//! | [`json_lines`] | one object a line | `jq`, scripts |
//! | [`chart`] | a page of bars that compares plans and runs | any browser, without a network |
//!
//! All of them write what a [`Timeline`](crate::Timeline) knows and nothing else; none of them opens a file, which
//! [`write_file`] does, whole or not at all. What
//! comes from data is escaped: a tensor may be called `</script>`.

mod align;
mod chart;
mod columns;
mod document;
mod file;
mod header;
mod html;
mod json_lines;
mod perfetto;
mod pickle;
mod placement;
#[cfg(test)]
mod sample;
mod snapshot;

pub use chart::{Comparison, ComparisonRow, chart};
pub use file::write_file;
pub use html::{Page, PageDevice, html};
pub use json_lines::json_lines;
pub use perfetto::perfetto;
pub use snapshot::snapshot;
