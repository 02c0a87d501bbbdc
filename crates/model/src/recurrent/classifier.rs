use burn::module::Module;
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_onnx::{Attribute, Graph, Value};

use super::{Recurrent, RecurrentLayer, pytorch_name, recurrent};
use crate::{
    AnyTensor, Architecture, Init, ModelError, Pass, Stage, Stages,
    layers::{Gru, Linear, Lstm, last_step},
};

/// Reads an LSTM from `[model]`: `hidden` units, `layers`, `dropout` between layers.
///
/// It gives one output for each sequence: classes, or values. An image is read row by row, the channels of a row side by
/// side.
///
/// # Errors
/// A setting has a wrong type or is out of range.
pub fn lstm(settings: &Section) -> Result<Architecture, ConfigError> {
    classifier::<Lstm>(settings)
}

/// Reads a network of gated recurrent units from `[model]`: the settings and outputs are those of [`lstm`].
///
/// # Errors
/// A setting has a wrong type or is out of range.
pub fn gru(settings: &Section) -> Result<Architecture, ConfigError> {
    classifier::<Gru>(settings)
}

fn classifier<L: RecurrentLayer>(settings: &Section) -> Result<Architecture, ConfigError> {
    let recurrent = Recurrent::read(settings)?;
    if recurrent.layers == 1 && recurrent.dropout > 0.0 {
        return Err(settings.invalid("dropout", "0 with one layer, since it drops between layers"));
    }
    let architecture = Architecture::new(L::NAME, move |spec, init| build::<L>(recurrent, spec, init));
    Ok(architecture.with_pytorch_names(|name| pytorch_name::<L>(name, L::NAME)))
}

fn build<L: RecurrentLayer>(
    settings: Recurrent,
    spec: &SampleSpec,
    init: &Init,
) -> Result<Stages, ModelError> {
    let features = match (&spec.input, &spec.target) {
        (
            InputSpec::Sequence { features, .. },
            TargetSpec::Class { .. } | TargetSpec::Labels { .. } | TargetSpec::Values { .. },
        ) => *features,
        (InputSpec::Image { channels, width, .. }, _) => channels * width,
        _ => {
            return Err(ModelError::Input {
                model: L::NAME.into(),
                expected: "sequences or images, and one output for each".into(),
                found: format!("{}, {}", spec.input, spec.target),
            });
        }
    };
    // The first layer takes the input without dropout.
    let stages = recurrent::<L>(Stages::new(), init, settings, features, 0.0);
    let head = Linear::new(&init.at("head"), [settings.hidden, spec.target.outputs()]);
    Ok(stages.with("head", LastStepStage { fc: head }))
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

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let last = graph.integers("last", &[], &[-1]);
        let last = graph.node("Gather", &[&input, &last], [("axis", Attribute::Int(1))]);
        Some(graph.scope("fc", |graph| self.fc.to_onnx(graph, &last)))
    }
}
