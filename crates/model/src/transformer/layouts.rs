//! The names that files of Hugging Face and torchvision have for the parameters of transformers.

use oomph_kernels::{attention::Heads, feed_forward::Activation};

use super::settings::Transformer;
use crate::weights::{Layout, Library, TensorForm, TensorPart};

/// The parameter of a decoder that a tied head shares.
pub(super) const SHARED: &str = "embedding.tokens.weight";

/// A parameter of a block, as `block.0.qkv.weight`: the index of the block, the layer, and the parameter.
fn of_block(name: &str) -> Option<[&str; 3]> {
    let (index, rest) = name.strip_prefix("block.")?.split_once('.')?;
    let (layer, leaf) = rest.split_once('.')?;
    Some([index, layer, leaf])
}

/// The name with another beginning, if it begins with one of these.
fn renamed(name: &str, beginnings: &[(&str, &str)]) -> String {
    let renamed = |(own, there): &(&str, &str)| Some(format!("{there}{}", name.strip_prefix(own)?));
    beginnings.iter().find_map(renamed).unwrap_or_else(|| name.to_owned())
}

/// The rows of queries, keys and values.
fn heads_of(heads: Heads) -> [usize; 3] {
    let keys = heads.keys * heads.size;
    [heads.of_queries(), keys, keys]
}

/// Hugging Face's GPT-2, which multiplies by matrices with a row for each input.
pub(super) fn gpt2(tied: bool) -> Layout {
    let layout = Layout::new(Library::HuggingFace, |name, shape| {
        let is_matrix =
            of_block(name).is_some_and(|[_, layer, leaf]| leaf == "weight" && !layer.ends_with("_norm"));
        let form = if is_matrix { TensorForm::Transposed } else { TensorForm::Same };
        vec![TensorPart { form, ..TensorPart::whole(gpt2_name(name), shape) }]
    });
    // Causal masks are stored with it.
    let layout = layout.with_base("transformer.").with_ignored(&[".attn.bias", ".attn.masked_bias"]);
    with_tied_head(layout, tied)
}

/// Some files have a tied head's matrix too.
fn with_tied_head(layout: Layout, tied: bool) -> Layout {
    if tied { layout.with_twin(SHARED, "lm_head.weight", false) } else { layout }
}

fn gpt2_name(name: &str) -> String {
    let layer = |layer: &str| match layer {
        "attention_norm" => Some("ln_1"),
        "qkv" => Some("attn.c_attn"),
        "attention_output" => Some("attn.c_proj"),
        "feed_norm" => Some("ln_2"),
        "up" => Some("mlp.c_fc"),
        "down" => Some("mlp.c_proj"),
        _ => None,
    };
    let in_block =
        |[index, own, leaf]: [&str; 3]| Some(format!("transformer.h.{index}.{}.{leaf}", layer(own)?));
    of_block(name).and_then(in_block).unwrap_or_else(|| {
        let outside = [
            (SHARED, "transformer.wte.weight"),
            ("embedding.positions", "transformer.wpe.weight"),
            ("head.norm.", "transformer.ln_f."),
            ("head.weight", "lm_head.weight"),
        ];
        renamed(name, &outside)
    })
}

/// Hugging Face's Llama: layers of their own for queries, keys and values, and for the gate of SwiGLU.
pub(super) fn llama(settings: &Transformer, tied: bool) -> Layout {
    let Transformer { heads, feed_forward, activation, .. } = *settings;
    let layout = Layout::new(Library::HuggingFace, move |name, shape| {
        let Some([index, layer, leaf]) = of_block(name) else {
            let outside = [
                (SHARED, "model.embed_tokens.weight"),
                ("head.norm.", "model.norm."),
                ("head.weight", "lm_head.weight"),
            ];
            return vec![TensorPart::whole(renamed(name, &outside), shape)];
        };
        let there = |layer: &str| format!("model.layers.{index}.{layer}.{leaf}");
        let whole = |layer: &str| vec![TensorPart::whole(there(layer), shape)];
        match layer {
            "attention_norm" => whole("input_layernorm"),
            "qkv" => {
                let [queries, keys, values] = heads_of(heads);
                let rows = [("q_proj", queries), ("k_proj", keys), ("v_proj", values)];
                TensorPart::rows(
                    rows.map(|(layer, rows)| (there(&format!("self_attn.{layer}")), rows)),
                    shape,
                )
            }
            "attention_output" => whole("self_attn.o_proj"),
            "feed_norm" => whole("post_attention_layernorm"),
            "up" if activation == Activation::SwiGlu => {
                let rows = ["mlp.gate_proj", "mlp.up_proj"].map(|layer| (there(layer), feed_forward));
                TensorPart::rows(rows, shape)
            }
            "up" => whole("mlp.up_proj"),
            "down" => whole("mlp.down_proj"),
            _ => vec![TensorPart::whole(name, shape)],
        }
    });
    with_tied_head(layout.with_base("model.").with_ignored(&[".rotary_emb.inv_freq"]), tied)
}

/// torchvision's `VisionTransformer`.
pub(super) fn torchvision(patch: usize) -> Layout {
    Layout::new(Library::PyTorch, move |name, shape| {
        vec![TensorPart {
            form: vision_form(name, shape, patch),
            ..TensorPart::whole(torchvision_name(name), shape)
        }]
    })
}

fn torchvision_name(name: &str) -> String {
    let in_block = |[index, layer, leaf]: [&str; 3]| {
        let there = match layer {
            "attention_norm" => format!("ln_1.{leaf}"),
            "qkv" => format!("self_attention.in_proj_{leaf}"),
            "attention_output" => format!("self_attention.out_proj.{leaf}"),
            "feed_norm" => format!("ln_2.{leaf}"),
            "up" => format!("mlp.0.{leaf}"),
            "down" => format!("mlp.3.{leaf}"),
            _ => return None,
        };
        Some(format!("encoder.layers.encoder_layer_{index}.{there}"))
    };
    of_block(name).and_then(in_block).unwrap_or_else(|| {
        let outside = [
            ("embedding.class", "class_token"),
            ("embedding.positions", "encoder.pos_embedding"),
            ("embedding.patches.", "conv_proj."),
            ("head.norm.", "encoder.ln."),
            ("head.fc.", "heads.head."),
        ];
        renamed(name, &outside)
    })
}

/// Hugging Face's `ViTForImageClassification`, with layers of their own for queries, keys and values. Files of a network without a
/// head may have a pooler, and a token for masked patches.
pub(super) fn hugging_face_vit(settings: &Transformer, patch: usize) -> Layout {
    let heads = settings.heads;
    let layout = Layout::new(Library::HuggingFace, move |name, shape| {
        let Some([index, layer, leaf]) = of_block(name) else {
            let outside = [
                ("embedding.class", "vit.embeddings.cls_token"),
                ("embedding.positions", "vit.embeddings.position_embeddings"),
                ("embedding.patches.", "vit.embeddings.patch_embeddings.projection."),
                ("head.norm.", "vit.layernorm."),
                ("head.fc.", "classifier."),
            ];
            let form = vision_form(name, shape, patch);
            return vec![TensorPart { form, ..TensorPart::whole(renamed(name, &outside), shape) }];
        };
        let there = |layer: &str| format!("vit.encoder.layer.{index}.{layer}.{leaf}");
        let whole = |layer: &str| vec![TensorPart::whole(there(layer), shape)];
        match layer {
            "attention_norm" => whole("layernorm_before"),
            "qkv" => {
                let [queries, keys, values] = heads_of(heads);
                let rows = [("query", queries), ("key", keys), ("value", values)];
                TensorPart::rows(
                    rows.map(|(layer, rows)| (there(&format!("attention.attention.{layer}")), rows)),
                    shape,
                )
            }
            "attention_output" => whole("attention.output.dense"),
            "feed_norm" => whole("layernorm_after"),
            "up" => whole("intermediate.dense"),
            "down" => whole("output.dense"),
            _ => vec![TensorPart::whole(name, shape)],
        }
    });
    layout.with_base("vit.").with_ignored(&[
        "pooler.dense.weight",
        "pooler.dense.bias",
        "embeddings.mask_token",
    ])
}

/// Both have a convolution for the patches, and a dimension for the batch.
fn vision_form(name: &str, shape: &[usize], patch: usize) -> TensorForm {
    match (name, shape) {
        ("embedding.class" | "embedding.positions", [tokens, features]) => {
            TensorForm::Shaped(vec![1, *tokens, *features])
        }
        ("embedding.patches.weight", [features, pixels]) => {
            TensorForm::Shaped(vec![*features, pixels / (patch * patch), patch, patch])
        }
        _ => TensorForm::Same,
    }
}
