mod classifier;
mod language;

use burn::{module::Module, tensor::Tensor};
use oomph_config::{ConfigError, Section};
use oomph_onnx::{Attribute, Graph, Value};

use crate::{
    AnyTensor, Init, ModelError, Pass, Policy, Stage, Stages,
    layers::{Dropout, Lstm, LstmState},
};

pub use classifier::lstm;
pub use language::lstm_lm;

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
fn recurrent(
    stages: Stages,
    init: &Init,
    settings: Recurrent,
    features: usize,
    first_dropout: f64,
) -> Stages {
    let Recurrent { hidden, layers, dropout } = settings;
    (0..layers).fold(stages, |stages, index| {
        let name = format!("lstm.{index}");
        let (input, dropout) = if index == 0 { (features, first_dropout) } else { (hidden, dropout) };
        let layer = Lstm::new(&init.at(&name), [input, hidden]);
        stages.with(name, LstmStage { dropout: Dropout::new(dropout), layer })
    })
}

/// The name in a PyTorch module with an `nn.LSTM` called `module`, and maybe an `nn.Linear` called `fc`:
/// `lstm.0.layer.weight_ih` is `lstm.weight_ih_l0` there.
fn pytorch_name(name: &str, module: &str) -> String {
    let layer = || {
        let (index, leaf) = name.strip_prefix("lstm.")?.split_once(".layer.")?;
        Some(format!("{module}.{leaf}_l{index}"))
    };
    layer().unwrap_or_else(|| name.strip_prefix("head.").unwrap_or(name).to_owned())
}

/// One LSTM layer over `[B, T, I]`, giving `[B, T, U]`, with dropout before it.
#[derive(Module, Debug)]
struct LstmStage {
    dropout: Dropout,
    layer: Lstm,
}

impl Stage for LstmStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = match input.rank() {
            4 => rows(pass.activation::<4>(input)?),
            _ => pass.activation::<3>(input)?,
        };
        let x = pass.scope("dropout", |pass| self.dropout.forward(x, pass));
        let output = pass.scope("layer", |pass| {
            let state = carried(&x, pass);
            let (output, LstmState { hidden, cell }) = self.layer.forward(x, state, pass)?;
            pass.carry(HIDDEN, hidden.into());
            pass.carry(CELL, cell.into());
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

/// The names of the carried state.
const HIDDEN: &str = "hidden";
const CELL: &str = "cell";

/// The state that the batch before left, on the device of `input`.
fn carried(input: &Tensor<3>, pass: &Pass) -> Option<LstmState> {
    let like = AnyTensor::from(input.clone());
    let state = |name| {
        let state = pass.carried(name)?;
        let state = if like.device().is_autodiff() { state.tracked_like(&like, false) } else { state };
        state.float::<2>()
    };
    Some(LstmState { hidden: state(HIDDEN)?, cell: state(CELL)? })
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
