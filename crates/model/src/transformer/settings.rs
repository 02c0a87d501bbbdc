use oomph_config::{ConfigError, Section};
use oomph_kernels::{attention::Heads, feed_forward::Activation};

use crate::{Init, UnshownSettings, layers::RowNorm};

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
    pub(super) dropout: f64,
    /// Added to variances.
    pub(super) epsilon: f64,
    /// Whether the preset is a Llama's, whose head has weights of its own.
    pub(super) is_llama: bool,
}

/// The family of networks that a preset belongs to, which decides the defaults of most settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Radford et al. 2019.
    Gpt2,
    /// Touvron et al. 2023, <https://arxiv.org/abs/2302.13971>.
    Llama,
    /// Dosovitskiy et al. 2021, <https://arxiv.org/abs/2010.11929>.
    Vit,
}

/// The defaults of a preset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    family: Family,
    layers: usize,
    hidden: usize,
    heads: usize,
    key_heads: usize,
}

const fn preset(family: Family, layers: usize, hidden: usize, heads: usize) -> Preset {
    Preset { family, layers, hidden, heads, key_heads: heads }
}

/// `char` has 10 million parameters; `llama` is a small one with grouped queries.
pub(super) const DECODERS: [(&str, Preset); 6] = [
    ("char", preset(Family::Gpt2, 6, 384, 6)),
    ("gpt2", preset(Family::Gpt2, 12, 768, 12)),
    ("gpt2-medium", preset(Family::Gpt2, 24, 1024, 16)),
    ("gpt2-large", preset(Family::Gpt2, 36, 1280, 20)),
    ("gpt2-xl", preset(Family::Gpt2, 48, 1600, 25)),
    ("llama", Preset { key_heads: 4, ..preset(Family::Llama, 12, 768, 12) }),
];

/// Touvron et al. 2021 (<https://arxiv.org/abs/2012.12877>) name the small ones.
pub(super) const VISION: [(&str, Preset); 4] = [
    ("tiny", preset(Family::Vit, 12, 192, 3)),
    ("small", preset(Family::Vit, 12, 384, 6)),
    ("base", preset(Family::Vit, 12, 768, 12)),
    ("large", preset(Family::Vit, 24, 1024, 16)),
];

const ACTIVATIONS: [(&str, Activation); 3] =
    [("gelu", Activation::Gelu), ("gelu-tanh", Activation::GeluTanh), ("swiglu", Activation::SwiGlu)];

impl Transformer {
    /// The standard deviation of new weights, as GPT-2's.
    pub(super) const DEVIATION: f64 = 0.02;

    /// Reads the settings from `[model]`. `model.preset` is one of `presets`, by default the first.
    pub(super) fn read(
        settings: &Section,
        presets: &'static [(&'static str, Preset)],
    ) -> Result<Self, ConfigError> {
        let preset = settings.choice("preset", presets[0].0, presets)?;
        let family = preset.family;
        let hidden = settings.integer("hidden", preset.hidden, 1..=65_536)?;
        let heads = Self::heads(settings, preset, hidden)?;
        let activation = Self::activation(settings, family)?;
        // SwiGLU has three matrices in place of two: of two thirds of the size, in multiples of 64.
        let default = match activation {
            Activation::SwiGlu => (8 * hidden / 3).next_multiple_of(64),
            Activation::Gelu | Activation::GeluTanh => 4 * hidden,
        };
        let norm = if family == Family::Llama { "rms" } else { "layer" };
        Ok(Self {
            layers: settings.integer("layers", preset.layers, 1..=1024)?,
            hidden,
            heads,
            feed_forward: settings.integer("feed_forward", default, 1..=1 << 20)?,
            activation,
            has_layer_norm: settings.choice("norm", norm, &[("layer", true), ("rms", false)])?,
            has_bias: settings.boolean("bias", family != Family::Llama)?,
            rotary: Self::rotary(settings, family, heads)?,
            dropout: settings.number("dropout", 0.0, 0.0..1.0)?,
            epsilon: settings.number("epsilon", if family == Family::Vit { 1e-6 } else { 1e-5 }, 0.0..1.0)?,
            is_llama: family == Family::Llama,
        })
    }

    fn activation(settings: &Section, family: Family) -> Result<Activation, ConfigError> {
        let default = match family {
            Family::Gpt2 => "gelu-tanh",
            Family::Llama => "swiglu",
            Family::Vit => "gelu",
        };
        settings.choice("activation", default, &ACTIVATIONS)
    }

    /// The base of rotary positions.
    fn rotary(settings: &Section, family: Family, heads: Heads) -> Result<Option<f64>, ConfigError> {
        let default = if family == Family::Llama { "rotary" } else { "learned" };
        // The patches of an image have no order in which to turn.
        let is_rotary = family != Family::Vit
            && settings.choice("positions", default, &[("learned", false), ("rotary", true)])?;
        if !is_rotary {
            return Ok(None);
        }
        if !heads.size.is_multiple_of(2) {
            let expected =
                format!("`learned` for heads of {} features; rotary positions turn pairs", heads.size);
            return Err(settings.invalid("positions", expected));
        }
        settings.number("rotary_base", 10_000.0, 1.0..).map(Some)
    }

    fn heads(settings: &Section, preset: Preset, hidden: usize) -> Result<Heads, ConfigError> {
        let queries = settings.integer("heads", preset.heads, 1..=4096)?;
        if !hidden.is_multiple_of(queries) {
            return Err(settings.invalid("heads", format!("a divisor of `model.hidden` (= {hidden})")));
        }
        // As many queries share a head of keys as in the preset, if they can.
        let group = preset.heads / preset.key_heads;
        let default = if queries.is_multiple_of(group) { queries / group } else { queries };
        let keys = settings.integer("key_heads", default, 1..=4096)?;
        if !queries.is_multiple_of(keys) {
            return Err(settings.invalid("key_heads", format!("a divisor of `model.heads` (= {queries})")));
        }
        Ok(Heads { queries, keys, size: hidden / queries })
    }

    /// The settings that no shape of a parameter shows.
    pub(super) fn unshown(&self) -> UnshownSettings {
        let activation = ACTIVATIONS.iter().find(|(_, it)| *it == self.activation);
        let settings = [
            ("heads", Some(self.heads.queries.to_string())),
            ("key_heads", Some(self.heads.keys.to_string())),
            ("activation", activation.map(|(name, _)| (*name).to_owned())),
            ("epsilon", Some(self.epsilon.to_string())),
            ("rotary_base", self.rotary.map(|base| base.to_string())),
        ];
        settings.into_iter().filter_map(|(key, value)| Some((format!("model.{key}"), value?))).collect()
    }

    /// A normalisation of positions.
    pub(super) fn norm(&self, init: &Init) -> RowNorm {
        match self.has_layer_norm {
            true => RowNorm::layer_norm(init, self.hidden, self.epsilon),
            false => RowNorm::rms_norm(init, self.hidden, self.epsilon),
        }
    }
}
