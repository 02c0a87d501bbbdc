//! The networks of Hugging Face that oomph has too, and how their settings are named there.

/// A network of Hugging Face's `transformers` that oomph computes too.
pub(crate) struct Family {
    /// `model_type` in its `config.json`.
    pub(crate) model_type: &'static str,
    /// Its class with the head that oomph's model has.
    pub(crate) class: &'static str,
    /// Its name in messages.
    pub(crate) title: &'static str,
    /// oomph's `model.name`.
    pub(crate) model: &'static str,
    /// Settings that both have.
    pub(crate) shared: &'static [Shared],
    /// Settings of oomph's model that the network always has so.
    pub(crate) fixed: &'static [(&'static str, Constant)],
    /// Settings of the network that oomph's model always has so.
    pub(crate) required: &'static [(&'static str, Constant)],
    /// Shares of dropout, which are settings of a training.
    pub(crate) dropouts: &'static [&'static str],
}

/// A setting of both.
pub(crate) struct Shared {
    /// Its key in `[model]`.
    pub(crate) key: &'static str,
    /// Its names in `config.json`: the first is written, and the first that is there is read.
    pub(crate) names: &'static [&'static str],
    pub(crate) kind: Kind,
    /// The value where `config.json` has none.
    pub(crate) absent: Absent,
}

/// The values of a setting.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Integer,
    Number,
    Boolean,
    /// Names there and here. The first of several for one of ours is written.
    Names(&'static [(&'static str, &'static str)]),
}

/// A value of a table.
#[derive(Clone, Copy)]
pub(crate) enum Constant {
    Integer(usize),
    Number(f64),
    Boolean(bool),
    Text(&'static str),
}

/// The value of a setting that is not there.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    Is(Constant),
    /// So many times another key of oomph, read before.
    Times(usize, &'static str),
}

use Constant::{Boolean, Integer, Number, Text};

const fn integer(key: &'static str, names: &'static [&'static str], default: usize) -> Shared {
    Shared { key, names, kind: Kind::Integer, absent: Absent::Is(Integer(default)) }
}

const fn times(key: &'static str, names: &'static [&'static str], factor: usize, of: &'static str) -> Shared {
    Shared { key, names, kind: Kind::Integer, absent: Absent::Times(factor, of) }
}

const fn number(key: &'static str, names: &'static [&'static str], default: f64) -> Shared {
    Shared { key, names, kind: Kind::Number, absent: Absent::Is(Number(default)) }
}

const fn boolean(key: &'static str, names: &'static [&'static str], default: bool) -> Shared {
    Shared { key, names, kind: Kind::Boolean, absent: Absent::Is(Boolean(default)) }
}

const fn activation(
    names: &'static [&'static str],
    choices: &'static [(&'static str, &'static str)],
) -> Shared {
    let default = Text(choices[0].0);
    Shared { key: "activation", names, kind: Kind::Names(choices), absent: Absent::Is(default) }
}

/// GELU and its approximations by a hyperbolic tangent, which are one formula under three names.
const TANH: [(&str, &str); 3] =
    [("gelu_new", "gelu-tanh"), ("gelu_pytorch_tanh", "gelu-tanh"), ("gelu_fast", "gelu-tanh")];
const EXACT: (&str, &str) = ("gelu", "gelu");

/// The order of a family's settings is that of messages and of `oomph config`.
pub(crate) const FAMILIES: [Family; 3] = [
    Family {
        model_type: "gpt2",
        class: "GPT2LMHeadModel",
        title: "GPT-2",
        model: "gpt",
        shared: &[
            integer("layers", &["n_layer"], 12),
            integer("hidden", &["n_embd"], 768),
            integer("heads", &["n_head"], 12),
            integer("key_heads", &["n_head"], 12),
            times("feed_forward", &["n_inner"], 4, "hidden"),
            activation(&["activation_function"], &[TANH[0], TANH[1], TANH[2], EXACT]),
            number("epsilon", &["layer_norm_epsilon"], 1e-5),
            integer("context", &["n_positions"], 1024),
            boolean("tied", &["tie_word_embeddings"], true),
        ],
        fixed: &[("norm", Text("layer")), ("positions", Text("learned")), ("bias", Boolean(true))],
        required: &[
            ("scale_attn_weights", Boolean(true)),
            ("scale_attn_by_inverse_layer_idx", Boolean(false)),
            ("add_cross_attention", Boolean(false)),
        ],
        dropouts: &["embd_pdrop", "attn_pdrop", "resid_pdrop"],
    },
    Family {
        model_type: "llama",
        class: "LlamaForCausalLM",
        title: "Llama",
        model: "gpt",
        shared: &[
            integer("layers", &["num_hidden_layers"], 32),
            integer("hidden", &["hidden_size"], 4096),
            integer("heads", &["num_attention_heads"], 32),
            times("key_heads", &["num_key_value_heads"], 1, "heads"),
            integer("feed_forward", &["intermediate_size"], 11_008),
            activation(&["hidden_act"], &[("silu", "swiglu")]),
            boolean("bias", &["attention_bias"], false),
            boolean("bias", &["mlp_bias"], false),
            number("epsilon", &["rms_norm_eps"], 1e-6),
            number("rotary_base", &["rope_theta", "rope_parameters.rope_theta"], 10_000.0),
            boolean("tied", &["tie_word_embeddings"], false),
        ],
        fixed: &[("norm", Text("rms")), ("positions", Text("rotary"))],
        required: &[
            ("rope_parameters.rope_type", Text("default")),
            ("rope_parameters.partial_rotary_factor", Integer(1)),
            ("rope_scaling.rope_type", Text("default")),
            ("rope_scaling.type", Text("default")),
        ],
        dropouts: &["attention_dropout"],
    },
    Family {
        model_type: "vit",
        class: "ViTForImageClassification",
        title: "ViT",
        model: "vit",
        shared: &[
            integer("layers", &["num_hidden_layers"], 12),
            integer("hidden", &["hidden_size"], 768),
            integer("heads", &["num_attention_heads"], 12),
            integer("key_heads", &["num_attention_heads"], 12),
            integer("feed_forward", &["intermediate_size"], 3072),
            activation(&["hidden_act"], &[EXACT, TANH[1], TANH[0], TANH[2]]),
            number("epsilon", &["layer_norm_eps"], 1e-12),
            integer("patch", &["patch_size"], 16),
        ],
        fixed: &[("norm", Text("layer")), ("bias", Boolean(true))],
        required: &[("qkv_bias", Boolean(true))],
        dropouts: &["hidden_dropout_prob", "attention_probs_dropout_prob"],
    },
];

/// The size of the vocabulary, of one head, of an image, and of a pixel.
pub(crate) const VOCABULARY: &str = "vocab_size";
pub(crate) const HEAD_SIZE: &str = "head_dim";
pub(crate) const IMAGE: &str = "image_size";
pub(crate) const CHANNELS: &str = "num_channels";
pub(crate) const MODEL_TYPE: &str = "model_type";

impl Family {
    /// The family of a `model_type`.
    pub(crate) fn of(model_type: &str) -> Option<&'static Self> {
        FAMILIES.iter().find(|family| family.model_type == model_type)
    }

    /// Whether a key of a `config.json` is read, or, where it ends in a dot, those of the object of that name.
    pub(crate) fn knows(name: &str) -> bool {
        let is_it = |known: &str| match name.ends_with('.') {
            true => known.starts_with(name),
            false => known == name,
        };
        let of_family = |family: &Self| {
            let shared = family.shared.iter().flat_map(|shared| shared.names);
            shared.copied().chain(family.required.iter().map(|(name, _)| *name)).any(is_it)
        };
        [VOCABULARY, HEAD_SIZE, IMAGE, CHANNELS, MODEL_TYPE].into_iter().any(is_it)
            || FAMILIES.iter().any(of_family)
    }
}

impl From<Constant> for oomph_config::Value {
    fn from(constant: Constant) -> Self {
        match constant {
            Integer(integer) => integer.into(),
            Number(number) => number.into(),
            Boolean(boolean) => boolean.into(),
            Text(text) => text.into(),
        }
    }
}
