use burn::{module::Module, tensor::Tensor};
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec};

use crate::{
    AnyTensor, Architecture, Init, ModelError, Pass, Policy, Stage, Stages,
    layers::{Dropout, Linear, Lstm, last_step},
};

/// Reads an LSTM from `[model]`: `hidden` units, `layers`, `dropout` between layers.
///
/// It gives one output a sequence: classes, or values. An image is read row by row, the channels of a row side by
/// side.
///
/// # Errors
/// Where a setting is not what it can be.
pub fn lstm(settings: &Section) -> Result<Architecture, ConfigError> {
    let hidden = settings.integer("hidden", 128, 1..=65_536)?;
    let layers = settings.integer("layers", 1, 1..=64)?;
    let dropout = settings.number("dropout", 0.0, 0.0..1.0)?;
    if layers == 1 && dropout > 0.0 {
        return Err(settings.invalid("dropout", "0 with one layer, since it drops between layers"));
    }
    let architecture =
        Architecture::new("lstm", move |spec, init| build(hidden, layers, dropout, spec, init));
    Ok(architecture.with_pytorch_names(pytorch_name))
}

/// As a module with an `nn.LSTM` called `lstm` and an `nn.Linear` called `fc` has it: `lstm.0.layer.weight_ih` is
/// `lstm.weight_ih_l0` there.
fn pytorch_name(name: &str) -> String {
    let layer = || {
        let (index, leaf) = name.strip_prefix("lstm.")?.split_once(".layer.")?;
        Some(format!("lstm.{leaf}_l{index}"))
    };
    layer().unwrap_or_else(|| name.strip_prefix("head.").unwrap_or(name).to_owned())
}

fn build(
    hidden: usize,
    layers: usize,
    dropout: f64,
    spec: &SampleSpec,
    init: &Init,
) -> Result<Stages, ModelError> {
    let features = match spec.input {
        InputSpec::Sequence { features, .. } => features,
        InputSpec::Image { channels, width, .. } => channels * width,
        InputSpec::Vector { .. } | InputSpec::Tokens { .. } => {
            return Err(ModelError::Input {
                model: "lstm".into(),
                expected: "sequences or images".into(),
                found: spec.input.to_string(),
            });
        }
    };
    let stages = (0..layers).fold(Stages::new(), |stages, index| {
        let name = format!("lstm.{index}");
        let input = if index == 0 { features } else { hidden };
        let layer = Lstm::new(&init.at(&name), [input, hidden]);
        // The first layer is given the input as it is.
        let dropout = Dropout::new(if index == 0 { 0.0 } else { dropout });
        stages.with(name, LstmStage { dropout, layer })
    });
    let head = Linear::new(&init.at("head"), [hidden, spec.target.outputs()]);
    Ok(stages.with("head", LastStepStage { fc: head }))
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
        let (output, _) = pass.scope("layer", |pass| self.layer.forward(x, None, pass))?;
        Ok(output.into())
    }

    /// A lean layer cuts time by itself.
    fn recomputes_itself(&self, policy: &Policy) -> bool {
        policy.lean
    }
}

/// The rows of an image as a sequence, the channels of a row side by side.
fn rows(image: Tensor<4>) -> Tensor<3> {
    let [batch, channels, height, width] = image.dims();
    // Of one channel they lie so already: swapped, they would be copied.
    let rows = if channels == 1 { image } else { image.swap_dims(1, 2) };
    rows.reshape([batch, height, channels * width])
}

/// A linear layer on the last time step of `[B, T, U]`.
#[derive(Module, Debug)]
struct LastStepStage {
    fc: Linear,
}

impl Stage for LastStepStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let last = last_step(pass.activation::<3>(input)?, pass.policy());
        Ok(pass.scope("fc", |pass| self.fc.forward(last, pass))?.into())
    }
}
