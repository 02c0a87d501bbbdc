//! Transformers (Vaswani et al. 2017, <https://arxiv.org/abs/1706.03762>).

mod block;
mod language;
mod layouts;
mod settings;
mod vision;

pub use language::gpt;
pub use vision::vit;
