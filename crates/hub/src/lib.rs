//! Reads and writes the `config.json` of Hugging Face's networks, as settings of `[model]`.
//!
//! - [`HubConfig`]: the network that a `config.json` describes: a GPT-2, a Llama or a ViT.
//! - [`assume`]: takes the defaults of `[model]` from the file that `model.config` names.
//! - [`config_json`]: the file of a network that oomph trained.
//!
//! ```
//! use std::path::Path;
//!
//! use oomph_hub::HubConfig;
//!
//! let text = br#"{"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4}"#;
//! let config = HubConfig::of_bytes(Path::new("gpt2/config.json"), text)?;
//! let hidden = config.settings().iter().find(|setting| setting.key == "hidden").expect("a GPT-2 has it");
//! assert_eq!((hidden.value.clone(), hidden.name), (48usize.into(), "n_embd"));
//!
//! let error = HubConfig::of_bytes(Path::new("x/config.json"), br#"{"model_type": "bert"}"#).err().expect("no decoder");
//! assert_eq!(
//!     error.to_string(),
//!     "`model_type` in `x/config.json` is `\"bert\"`; expected a network that oomph has: `gpt2`, `llama`, `vit`"
//! );
//! # Ok::<(), oomph_hub::HubError>(())
//! ```
//!
//! It knows keys and values. It knows neither tensors nor weights, and downloads nothing.

mod compare;
mod error;
mod family;
mod fields;
mod network;
mod shown;
mod write;

pub use compare::has_networks;
pub use error::HubError;
pub use network::{Described, FILE, HubConfig, assume};
pub use write::{Written, config_json};
