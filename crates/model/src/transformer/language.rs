use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_kernels::feed_forward::Activation;

use super::{
    block::BlockStage,
    layouts,
    settings::{DECODERS, Transformer},
};
use crate::{
    AnyTensor, Architecture, Init, KeyValueCache, ModelError, Named, Pass, Stage, Stages,
    layers::{Before, Dropout, Embedding, Projection, RowNorm, positioned, tokens},
};

/// Reads a decoder language model from `[model]`, as GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023,
/// <https://arxiv.org/abs/2302.13971>): `preset` gives the defaults of all other settings, or `config` names the `config.json` of
/// Hugging Face that does.
///
/// Stages are `embedding`, `block.0` and so on, and `head`.
///
/// # Errors
/// A setting has a wrong type or is out of range, or does not go with another.
pub fn gpt(settings: &Section) -> Result<Architecture, ConfigError> {
    oomph_hub::assume(settings, "gpt")?;
    let transformer = Transformer::read(settings, &DECODERS)?;
    let decoder = Decoder {
        transformer,
        context: match transformer.rotary {
            Some(_) => None,
            None => settings.optional_integer("context", 1..=1 << 20)?,
        },
        tied: settings.boolean("tied", !transformer.is_llama)?,
    };
    let architecture = Architecture::new("gpt", move |spec, init| build(decoder, spec, init));
    // Files are written in the first of them.
    let (gpt2, llama) = (layouts::gpt2(decoder.tied), layouts::llama(&transformer, decoder.tied));
    let [first, second] =
        if transformer.activation == Activation::SwiGlu { [llama, gpt2] } else { [gpt2, llama] };
    let architecture = architecture.with_key_value_cache().with_tokenwise_head();
    let architecture = architecture.with_unshown_settings(transformer.unshown());
    Ok(architecture.with_layout(first).with_layout(second))
}

/// The settings of a decoder.
#[derive(Clone, Copy)]
struct Decoder {
    transformer: Transformer,
    /// The longest sequence with learned positions; by default that of the data.
    context: Option<usize>,
    /// Whether the head has the embedding's weights.
    tied: bool,
}

/// The name under which a tied head borrows the embedding.
const TIED: &str = "tokens.weight";

fn build(decoder: Decoder, spec: &SampleSpec, init: &Init) -> Result<Stages, ModelError> {
    let Decoder { transformer: settings, context, tied } = decoder;
    let refused = |expected: String| ModelError::Input {
        model: "gpt".into(),
        expected,
        found: format!("{}, {}", spec.input, spec.target),
    };
    let (InputSpec::Tokens { vocabulary: known, steps }, TargetSpec::Tokens { vocabulary, .. }) =
        (&spec.input, &spec.target)
    else {
        return Err(refused("tokens, with a token to tell at each step".into()));
    };
    if tied && known != vocabulary {
        return Err(refused("as many tokens to tell as it is given, where weights are tied".into()));
    }
    let context = context.unwrap_or(*steps);
    if settings.rotary.is_none() && *steps > context {
        return Err(refused(format!("at most {context} steps, as `model.context` says")));
    }
    let embedding = EmbeddingStage::new(&init.at("embedding"), decoder, [*known, context]);
    let mut stages = Stages::new().with("embedding", embedding);
    for index in 0..settings.layers {
        let name = format!("block.{index}");
        let block = BlockStage::new(&init.at(&name), &settings, true);
        stages = stages.with(name, block);
    }
    let init = init.at("head");
    let shape = [*vocabulary, settings.hidden];
    let head = HeadStage {
        norm: settings.norm(&init.at("norm")),
        weight: (!tied).then(|| init.normal("weight", shape, Transformer::DEVIATION)),
    };
    Ok(stages.with("head", head))
}

/// Tokens `[B, T]` to vectors `[B, T, C]`: a vector for each token, and one for each position if positions are learned.
#[derive(Module, Debug)]
struct EmbeddingStage {
    tokens: Embedding,
    /// `[context, C]`.
    positions: Option<Param<Tensor<2>>>,
    dropout: Dropout,
    #[module(skip)]
    lends: bool,
}

impl EmbeddingStage {
    fn new(init: &Init, decoder: Decoder, [tokens, context]: [usize; 2]) -> Self {
        let Transformer { hidden, dropout, rotary, .. } = decoder.transformer;
        let is_learned = rotary.is_none();
        Self {
            tokens: Embedding::normal(&init.at("tokens"), tokens, hidden, Transformer::DEVIATION),
            positions: is_learned
                .then(|| init.normal("positions", [context, hidden], Transformer::DEVIATION)),
            dropout: Dropout::new(dropout),
            lends: decoder.tied,
        }
    }
}

impl Stage for EmbeddingStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let tokens = tokens(input, pass)?;
        let [_, steps] = tokens.dims();
        let x = pass.scope("tokens", |pass| self.tokens.forward(tokens, pass))?;
        let x = match &self.positions {
            Some(positions) => {
                let positions = positions.val();
                let [context, _] = positions.dims();
                let first = pass.cache.as_ref().map_or(0, KeyValueCache::positions);
                let expected = || format!("[B, T ≤ {}, C]", context.saturating_sub(first));
                pass.expect_shape(first + steps <= context, &expected(), &x.dims())?;
                let positions = if steps < context { positions.narrow(0, first, steps) } else { positions };
                positioned(x, positions, pass.policy())
            }
            None => x,
        };
        Ok(pass.scope("dropout", |pass| self.dropout.forward(x, pass)).into())
    }

    fn lends(&self) -> Named<AnyTensor> {
        let weight = || (TIED.to_owned(), self.tokens.weight.val().into());
        self.lends.then(weight).into_iter().collect()
    }
}

/// Vectors `[B, T, C]` to logits `[B, T, V]`. Without a weight, `[V, C]`, it borrows the embedding's.
#[derive(Module, Debug)]
struct HeadStage {
    norm: RowNorm,
    weight: Option<Param<Tensor<2>>>,
}

impl Stage for HeadStage {
    fn borrows(&self) -> Vec<String> {
        self.weight.is_none().then(|| TIED.to_owned()).into_iter().collect()
    }

    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<3>(input)?;
        let [batch, steps, features] = x.dims();
        let (weight, own) = match &self.weight {
            Some(weight) => (weight.val(), weight.val().shape().num_elements()),
            None => (pass.float(pass.borrowed(TIED)?)?, 0),
        };
        let [vocabulary, _] = weight.dims();
        let x = x.reshape([batch * steps, features]);
        let logits = pass.scope("fc", |pass| {
            Projection::new(weight, None).behind(Before::Norm(&self.norm)).apply(x, own, pass)
        })?;
        Ok(logits.reshape([batch, steps, vocabulary]).into())
    }
}
