use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_onnx::{Attribute, Graph, Value};

use super::{Recurrent, RecurrentLayer, pytorch_name, recurrent};
use crate::{
    AnyTensor, Architecture, Init, ModelError, Named, Pass, Policy, Stage, Stages,
    layers::{Dropout, Embedding, Gru, Lstm, Projection, multiplies_tokens, outnumber, tokens},
    weights::Layout,
};

/// Reads a language model from `[model]`: an embedding of size `embedding` (by default `hidden`), `layers` LSTM layers
/// of `hidden` units, and a linear layer that gives a logit for each token at each step. `dropout` is before, between and behind
/// the LSTM layers (Zaremba et al. 2014, <https://arxiv.org/abs/1409.2329>). With `tied` the linear layer has the
/// embedding's weights (Press & Wolf 2017, <https://arxiv.org/abs/1608.05859>).
///
/// If batches are streams, the state of the layers is carried from one batch to the next: see
/// [`Carried`](crate::Carried).
///
/// # Errors
/// A setting has a wrong type or is out of range.
pub fn lstm_lm(settings: &Section) -> Result<Architecture, ConfigError> {
    language_model::<Lstm>(settings)
}

/// Reads a language model of gated recurrent units from `[model]`: [`lstm_lm`] with other layers.
///
/// # Errors
/// A setting has a wrong type or is out of range.
pub fn gru_lm(settings: &Section) -> Result<Architecture, ConfigError> {
    language_model::<Gru>(settings)
}

fn language_model<L: RecurrentLayer>(settings: &Section) -> Result<Architecture, ConfigError> {
    let recurrent = Recurrent::read(settings)?;
    let size = settings.optional_integer("embedding", 1..=65_536)?.unwrap_or(recurrent.hidden);
    let tied = settings.boolean("tied", false)?;
    if tied && size != recurrent.hidden {
        let expected = format!("`model.hidden` (= {}) where weights are tied", recurrent.hidden);
        return Err(settings.invalid("embedding", expected));
    }
    let architecture =
        Architecture::new(name::<L>(), move |spec, init| build::<L>(recurrent, size, tied, spec, init));
    let layout = Layout::of_names(torch_name::<L>);
    Ok(architecture.with_tokenwise_head().with_layout(match tied {
        true => layout.with_twin(SHARED, "decoder.weight", true),
        false => layout,
    }))
}

fn name<L: RecurrentLayer>() -> String {
    format!("{}-lm", L::NAME)
}

/// The parameter that a tied head shares.
const SHARED: &str = "embedding.embedding.weight";

/// The name in PyTorch's example language model: `encoder`, `rnn`, `decoder`.
fn torch_name<L: RecurrentLayer>(name: &str) -> String {
    match name.strip_prefix("head.") {
        Some(leaf) => format!("decoder.{leaf}"),
        None if name == SHARED => "encoder.weight".into(),
        None => pytorch_name::<L>(name, "rnn"),
    }
}

fn build<L: RecurrentLayer>(
    settings: Recurrent,
    size: usize,
    tied: bool,
    spec: &SampleSpec,
    init: &Init,
) -> Result<Stages, ModelError> {
    let refused = |expected: &str| ModelError::Input {
        model: name::<L>(),
        expected: expected.into(),
        found: format!("{}, {}", spec.input, spec.target),
    };
    let (InputSpec::Tokens { vocabulary: known, .. }, TargetSpec::Tokens { vocabulary, .. }) =
        (&spec.input, &spec.target)
    else {
        return Err(refused("tokens, with a token to tell at each step"));
    };
    if tied && known != vocabulary {
        return Err(refused("as many tokens to tell as it is given, where weights are tied"));
    }
    let Recurrent { hidden, dropout, .. } = settings;
    let embedding = Embedding::new(&init.at("embedding"), *known, size);
    let stages = Stages::new().with("embedding", EmbeddingStage { embedding, lends: tied });
    let stages = recurrent::<L>(stages, init, settings, size, dropout);
    let init = init.at("head");
    let head = HeadStage {
        dropout: Dropout::new(dropout),
        weight: (!tied).then(|| init.uniform("weight", [*vocabulary, hidden], 0.1)),
        bias: init.constant([*vocabulary], 0.0),
    };
    Ok(stages.with("head", head))
}

/// The name under which a tied head borrows the embedding.
const TIED: &str = "embedding.weight";

/// Tokens `[B, T]` to vectors `[B, T, E]`.
#[derive(Module, Debug)]
struct EmbeddingStage {
    embedding: Embedding,
    #[module(skip)]
    lends: bool,
}

impl Stage for EmbeddingStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let tokens = tokens(input, pass)?;
        let weight = || self.embedding.weight.val();
        let is_worth_it = outnumber(tokens.shape().num_elements(), weight().dims()[0]);
        if is_worth_it && self.hands_on(&pass.policy()) && pass.handover.give(weight) {
            return Ok(tokens.into());
        }
        Ok(pass.scope("embedding", |pass| self.embedding.forward(tokens, pass))?.into())
    }

    fn to_onnx(&self, graph: &mut Graph, tokens: Value) -> Option<Value> {
        Some(graph.scope("embedding", |graph| self.embedding.to_onnx(graph, &tokens)))
    }

    /// It keeps no more than the tokens.
    fn recomputes_itself(&self, policy: &Policy) -> bool {
        policy.lean
    }

    fn hands_on(&self, policy: &Policy) -> bool {
        multiplies_tokens(self.embedding.weight.val().dims()[0], *policy)
    }

    fn lends(&self) -> Named<AnyTensor> {
        let weight = || (TIED.to_owned(), self.embedding.weight.val().into());
        self.lends.then(weight).into_iter().collect()
    }
}

/// Outputs `[B, T, U]` to logits `[B, T, V]`. Weight `[V, U]` and bias `[V]`; without a weight it borrows the embedding's.
///
/// The weight starts uniform in ±0.1 and the bias at 0, as in PyTorch's example language model.
#[derive(Module, Debug)]
struct HeadStage {
    dropout: Dropout,
    weight: Option<Param<Tensor<2>>>,
    bias: Param<Tensor<1>>,
}

impl Stage for HeadStage {
    fn borrows(&self) -> Vec<String> {
        self.weight.is_none().then(|| TIED.to_owned()).into_iter().collect()
    }

    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<3>(input)?;
        let x = pass.scope("dropout", |pass| self.dropout.forward(x, pass));
        let [batch, steps, units] = x.dims();
        let (weight, own) = match &self.weight {
            Some(weight) => (weight.val(), weight.val().shape().num_elements()),
            None => (pass.float(pass.borrowed(TIED)?)?, 0),
        };
        let [vocabulary, _] = weight.dims();
        let x = x.reshape([batch * steps, units]);
        let logits = pass.scope("fc", |pass| {
            Projection::new(weight, Some(self.bias.val())).apply(x, own + vocabulary, pass)
        })?;
        Ok(logits.reshape([batch, steps, vocabulary]).into())
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let weight = match &self.weight {
            Some(weight) => graph.parameter("weight", &weight.val().dims()),
            // The embedding stage has added it with its shape.
            None => graph.known_parameter(SHARED)?,
        };
        let weight = graph.node("Transpose", &[&weight], [("perm", Attribute::Ints(vec![1, 0]))]);
        let bias = graph.parameter("bias", &self.bias.val().dims());
        let product = graph.node("MatMul", &[&input, &weight], []);
        Some(graph.node("Add", &[&product, &bias], []))
    }
}
