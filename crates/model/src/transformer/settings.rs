use oomph_config::{ConfigError, Section};
use oomph_kernels::{attention::Heads, feed_forward::Activation};

use crate::{Init, layers::RowNorm};

/// The settings of a transformer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Transformer {
    pub(super) layers: usize,
    /// Features of a position, C.
    pub(super) hidden: usize,
    pub(super) heads: Heads,
    /// Features between the feed-forward layers.
    pub(super) feed_forward: usize,
    pub(super) activation: Activation,
    /// Whether rows are normalised by LayerNorm, and not by RMSNorm.
    pub(super) has_layer_norm: bool,
    /// Whether projections have a bias.
    pub(super) has_bias: bool,
    /// The base of rotary positions; without it positions are learned.
    pub(super) rotary: Option<f64>,
    /// The longest sequence with learned positions; by default that of the data.
    pub(super) context: Option<usize>,
    pub(super) dropout: f64,
    /// Added to variances.
    pub(super) epsilon: f64,
    /// Whether the head has the embedding's weights.
    pub(super) tied: bool,
}

/// The defaults of a preset.
#[derive(Clone, Copy)]
struct Preset {
    layers: usize,
    hidden: usize,
    heads: usize,
    key_heads: Option<usize>,
    is_llama: bool,
}

const fn gpt2(layers: usize, hidden: usize, heads: usize) -> Preset {
    Preset { layers, hidden, heads, key_heads: None, is_llama: false }
}

/// `char` has 10 million parameters; `gpt2` to `gpt2-xl` are those of Radford et al. 2019; `llama` is a small one of Touvron et al.
/// 2023 (<https://arxiv.org/abs/2302.13971>) with grouped queries.
const PRESETS: [(&str, Preset); 6] = [
    ("char", gpt2(6, 384, 6)),
    ("gpt2", gpt2(12, 768, 12)),
    ("gpt2-medium", gpt2(24, 1024, 16)),
    ("gpt2-large", gpt2(36, 1280, 20)),
    ("gpt2-xl", gpt2(48, 1600, 25)),
    ("llama", Preset { layers: 12, hidden: 768, heads: 12, key_heads: Some(4), is_llama: true }),
];

impl Transformer {
    /// The standard deviation of new weights, as GPT-2's.
    pub(super) const DEVIATION: f64 = 0.02;

    /// Reads the settings from `[model]`.
    pub(super) fn read(settings: &Section) -> Result<Self, ConfigError> {
        let preset = settings.choice("preset", "char", &PRESETS)?;
        let is_llama = preset.is_llama;
        let word = |of_gpt, of_llama| if is_llama { of_llama } else { of_gpt };
        let hidden = settings.integer("hidden", preset.hidden, 1..=65_536)?;
        let heads = Self::heads(settings, preset, hidden)?;
        let activations =
            [("gelu", Activation::Gelu), ("gelu-tanh", Activation::GeluTanh), ("swiglu", Activation::SwiGlu)];
        let activation = settings.choice("activation", word("gelu-tanh", "swiglu"), &activations)?;
        // SwiGLU has three matrices in place of two: of two thirds of the size, in multiples of 64.
        let default = match activation {
            Activation::SwiGlu => (8 * hidden / 3).next_multiple_of(64),
            Activation::Gelu | Activation::GeluTanh => 4 * hidden,
        };
        let is_rotary = settings.choice("positions", word("learned", "rotary"), &[("learned", false), ("rotary", true)])?;
        if is_rotary && !heads.size.is_multiple_of(2) {
            let expected = format!("`learned` for heads of {} features; rotary positions turn pairs", heads.size);
            return Err(settings.invalid("positions", expected));
        }
        let rotary = match is_rotary {
            true => Some(settings.number("rotary_base", 10_000.0, 1.0..)?),
            false => None,
        };
        let context = if is_rotary { None } else { settings.optional_integer("context", 1..=1 << 20)? };
        Ok(Self {
            layers: settings.integer("layers", preset.layers, 1..=1024)?,
            hidden,
            heads,
            feed_forward: settings.integer("feed_forward", default, 1..=1 << 20)?,
            activation,
            has_layer_norm: settings.choice("norm", word("layer", "rms"), &[("layer", true), ("rms", false)])?,
            has_bias: settings.boolean("bias", !is_llama)?,
            rotary,
            context,
            dropout: settings.number("dropout", 0.0, 0.0..1.0)?,
            epsilon: settings.number("epsilon", 1e-5, 0.0..1.0)?,
            tied: settings.boolean("tied", !is_llama)?,
        })
    }

    fn heads(settings: &Section, preset: Preset, hidden: usize) -> Result<Heads, ConfigError> {
        let queries = settings.integer("heads", preset.heads, 1..=4096)?;
        if !hidden.is_multiple_of(queries) {
            return Err(settings.invalid("heads", format!("a divisor of `model.hidden` (= {hidden})")));
        }
        let default = preset.key_heads.filter(|keys| queries.is_multiple_of(*keys)).unwrap_or(queries);
        let keys = settings.integer("key_heads", default, 1..=4096)?;
        if !queries.is_multiple_of(keys) {
            return Err(settings.invalid("key_heads", format!("a divisor of `model.heads` (= {queries})")));
        }
        Ok(Heads { queries, keys, size: hidden / queries })
    }

    /// A normalisation of positions.
    pub(super) fn norm(&self, init: &Init) -> RowNorm {
        match self.has_layer_norm {
            true => RowNorm::layer_norm(init, self.hidden, self.epsilon),
            false => RowNorm::rms_norm(init, self.hidden, self.epsilon),
        }
    }
}
