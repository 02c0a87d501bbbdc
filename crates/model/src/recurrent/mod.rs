//! Recurrent models, read from `[model]` settings: classifiers and regressions of sequences ([`lstm`], [`gru`]), and language
//! models ([`lstm_lm`], [`gru_lm`]).

mod classifier;
mod language;

use burn::{
    module::{Module, ModuleDisplay},
    tensor::Tensor,
};
use oomph_config::{ConfigError, Section};
use oomph_onnx::{Attribute, Graph, Value};

use crate::{
    AnyTensor, Init, ModelError, Pass, Policy, Stage, Stages,
    layers::{Dropout, Gru, Lstm, LstmState, RecurrentInput, looked_up, tokens},
};

pub use classifier::{gru, lstm};
pub use language::{gru_lm, lstm_lm};

/// A kind of recurrent layer that models are made of.
trait RecurrentLayer: Module + ModuleDisplay + 'static {
    /// The name of the model, and of its layers: `lstm.0`, `lstm.1` and so on.
    const NAME: &'static str;
    /// The state between two time steps.
    type LayerState;

    /// A layer from `features[0]` inputs to `features[1]` hidden units.
    fn new(init: &Init, features: [usize; 2]) -> Self;

    /// Runs over a sequence, from `state` or from zeros; gives all outputs `[B, T, U]` and the last state.
    fn forward(
        &self,
        input: RecurrentInput,
        state: Option<Self::LayerState>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, Self::LayerState), ModelError>;

    /// The tensors of a state, `[B, U]` each, and their names.
    fn tensors(state: Self::LayerState) -> Vec<(&'static str, Tensor<2>)>;

    /// The state of such tensors, read by their names.
    fn state(read: impl Fn(&str) -> Option<Tensor<2>>) -> Option<Self::LayerState>;

    /// Adds the layer to an ONNX graph.
    fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value;
}

impl RecurrentLayer for Lstm {
    const NAME: &'static str = "lstm";
    type LayerState = LstmState;

    fn new(init: &Init, features: [usize; 2]) -> Self {
        Self::new(init, features)
    }

    fn forward(
        &self,
        input: RecurrentInput,
        state: Option<LstmState>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, LstmState), ModelError> {
        self.forward(input, state, pass)
    }

    fn tensors(LstmState { hidden, cell }: LstmState) -> Vec<(&'static str, Tensor<2>)> {
        vec![(HIDDEN, hidden), (CELL, cell)]
    }

    fn state(read: impl Fn(&str) -> Option<Tensor<2>>) -> Option<LstmState> {
        Some(LstmState { hidden: read(HIDDEN)?, cell: read(CELL)? })
    }

    fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        self.to_onnx(graph, input)
    }
}

impl RecurrentLayer for Gru {
    const NAME: &'static str = "gru";
    type LayerState = Tensor<2>;

    fn new(init: &Init, features: [usize; 2]) -> Self {
        Self::new(init, features)
    }

    fn forward(
        &self,
        input: RecurrentInput,
        state: Option<Tensor<2>>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, Tensor<2>), ModelError> {
        self.forward(input, state, pass)
    }

    fn tensors(hidden: Tensor<2>) -> Vec<(&'static str, Tensor<2>)> {
        vec![(HIDDEN, hidden)]
    }

    fn state(read: impl Fn(&str) -> Option<Tensor<2>>) -> Option<Tensor<2>> {
        read(HIDDEN)
    }

    fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        self.to_onnx(graph, input)
    }
}

/// The names of carried tensors.
const HIDDEN: &str = "hidden";
const CELL: &str = "cell";

/// The recurrent layers of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recurrent {
    hidden: usize,
    layers: usize,
    /// The probability of dropout between layers.
    dropout: f64,
}

impl Recurrent {
    /// Reads `hidden`, `layers` and `dropout`.
    fn read(settings: &Section) -> Result<Self, ConfigError> {
        Ok(Self {
            hidden: settings.integer("hidden", 128, 1..=65_536)?,
            layers: settings.integer("layers", 1, 1..=64)?,
            dropout: settings.number("dropout", 0.0, 0.0..1.0)?,
        })
    }
}

/// Adds the layers. The first takes `features`, with dropout `first_dropout`.
fn recurrent<L: RecurrentLayer>(
    stages: Stages,
    init: &Init,
    settings: Recurrent,
    features: usize,
    first_dropout: f64,
) -> Stages {
    let Recurrent { hidden, layers, dropout } = settings;
    (0..layers).fold(stages, |stages, index| {
        let name = format!("{}.{index}", L::NAME);
        let (input, dropout) = if index == 0 { (features, first_dropout) } else { (hidden, dropout) };
        let layer = L::new(&init.at(&name), [input, hidden]);
        stages.with(name, RecurrentStage { dropout: Dropout::new(dropout), layer })
    })
}

/// The name in a PyTorch module with an `nn.LSTM` or `nn.GRU` called `module`, and maybe an `nn.Linear` called `fc`:
/// `lstm.0.layer.weight_ih` is `lstm.weight_ih_l0` there.
fn pytorch_name<L: RecurrentLayer>(name: &str, module: &str) -> String {
    let layer = || {
        let (index, leaf) = name.strip_prefix(L::NAME)?.strip_prefix('.')?.split_once(".layer.")?;
        Some(format!("{module}.{leaf}_l{index}"))
    };
    layer().unwrap_or_else(|| name.strip_prefix("head.").unwrap_or(name).to_owned())
}

/// One recurrent layer over `[B, T, I]`, giving `[B, T, U]`, with dropout before it.
#[derive(Module, Debug)]
struct RecurrentStage<L: Module> {
    dropout: Dropout,
    layer: L,
}

impl<L: RecurrentLayer> Stage for RecurrentStage<L> {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = match (pass.handover.take(), input.rank()) {
            (Some(vectors), _) => RecurrentInput::Tokens { tokens: tokens(input, pass)?, vectors },
            (None, 4) => rows(pass.activation::<4>(input)?).into(),
            (None, _) => pass.activation::<3>(input)?.into(),
        };
        let x = match x {
            RecurrentInput::Tokens { .. } if !self.dropout.drops(pass) => x,
            _ => {
                let x = looked_up(x, pass.policy());
                pass.scope("dropout", |pass| self.dropout.forward(x, pass)).into()
            }
        };
        let output = pass.scope("layer", |pass| {
            let like = x.tensor();
            let state = L::state(|name| carried(name, &like, pass));
            drop(like);
            let (output, state) = self.layer.forward(x, state, pass)?;
            for (name, tensor) in L::tensors(state) {
                pass.carry(name, tensor.into());
            }
            Ok::<_, ModelError>(output)
        })?;
        Ok(AnyTensor::from(output))
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let x = match graph.input_rank(&input) {
            Some(4) => onnx_rows(graph, &input),
            _ => input,
        };
        Some(graph.scope("layer", |graph| self.layer.to_onnx(graph, &x)))
    }

    /// A lean layer recomputes in segments of time.
    fn recomputes_itself(&self, policy: &Policy) -> bool {
        policy.lean
    }
}

/// A tensor of the state that the batch before left, on the device of `like`.
fn carried(name: &str, like: &AnyTensor, pass: &Pass) -> Option<Tensor<2>> {
    let state = pass.carried(name)?;
    let state = if like.device().is_autodiff() { state.tracked_like(like, false) } else { state };
    state.float()
}

/// The rows of an image as a sequence, the channels of a row side by side.
fn rows(image: Tensor<4>) -> Tensor<3> {
    let [batch, channels, height, width] = image.dims();
    // One channel is in this order already; swapping would copy it.
    let rows = if channels == 1 { image } else { image.swap_dims(1, 2) };
    rows.reshape([batch, height, channels * width])
}

/// The same in an ONNX graph. A size of 0 is that of the input.
fn onnx_rows(graph: &mut Graph, image: &Value) -> Value {
    let rows = graph.node("Transpose", &[image], [("perm", Attribute::Ints(vec![0, 2, 1, 3]))]);
    let shape = graph.integers("rows", &[3], &[0, 0, -1]);
    graph.node("Reshape", &[&rows, &shape], [])
}
