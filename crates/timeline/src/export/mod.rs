//! Timelines as files for other programs.
//!
//! | function | output | opened by |
//! |---|---|---|
//! | [`html`] | one interactive page of a timeline and its plan, for one or several devices | any browser, offline |
//! | [`svg`] | a picture of a timeline by category | any browser, READMEs, reports |
//! | [`snapshot`] | a memory snapshot in PyTorch's pickle format | PyTorch's `memory_viz`, `_memory_viz.py` |
//! | [`perfetto`] | a Chrome trace: counters by category, slices for steps, phases and stages | Perfetto, `chrome://tracing` |
//! | [`json_lines`] | one object per line | `jq`, scripts |
//! | [`chart`] | a page of bars that compares plans and runs | any browser, offline |
//!
//! Each of them writes the content of a [`Timeline`](crate::Timeline) and nothing else. Texts of the data are escaped: a tensor may be called `</script>`.

mod align;
mod chart;
mod columns;
pub mod document;
pub mod figures;
mod header;
mod html;
mod json_lines;
mod page;
mod perfetto;
mod pickle;
mod placement;
mod snapshot;
mod svg;
#[cfg(test)]
pub(crate) mod tests;

pub use chart::{Comparison, ComparisonRow, chart};
pub use html::html;
pub use json_lines::json_lines;
pub use page::Page;
pub use perfetto::perfetto;
pub use snapshot::snapshot;
pub use svg::svg;
