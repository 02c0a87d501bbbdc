//! A small network of four stages, each of which can be poisoned: `norm`, `hidden`, `deep`, `head`.

use std::cell::Cell;

use oomph::{
    AnyTensor, Architecture, ConfigError, Init, Mode, ModelError, Pass, Section, Stage, Stages,
    burn::{
        self,
        module::{Module, Param},
        tensor::{Tensor, activation::relu},
    },
    differentiable,
    layers::{BatchNorm, Linear},
    model::autodiff,
};

use crate::{data::CHANNELS, poison::Poison};

const HIDDEN: usize = 16;

thread_local! {
    /// The loss poison of the last pass of this thread through the head, for the loss that follows it.
    static LOSS: Cell<Option<&'static Poison>> = const { Cell::new(None) };
}

/// The poison of the loss of the pass that this thread made last.
pub(crate) fn of_loss() -> Option<&'static Poison> {
    LOSS.get()
}

/// Reads the model from `[model]`: `carry`.
pub(crate) fn read(settings: &Section) -> Result<Architecture, ConfigError> {
    let carries = settings.boolean("carry", false)?;
    Ok(Architecture::new("poisoned", move |spec, init| {
        let dense = |name: &'static str, input, output| {
            let init = init.at(name);
            Dense {
                linear: Linear::new(&init, [input, output]),
                offset: init.statistic([output], 0.0),
                name,
                carries: carries && name == "deep",
            }
        };
        Ok(Stages::new()
            .with("norm", Norm::new(init))
            .with("hidden", dense("hidden", spec.input.elements(), HIDDEN))
            .with("deep", dense("deep", HIDDEN, HIDDEN))
            .with("head", dense("head", HIDDEN, spec.target.outputs())))
    }))
}

/// Batch normalisation, flattened.
#[derive(Module, Debug)]
struct Norm {
    norm: BatchNorm,
}

impl Norm {
    fn new(init: &Init) -> Self {
        Self { norm: BatchNorm::new(&init.at("norm"), CHANNELS) }
    }
}

impl Stage for Norm {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let output = self.norm.forward(x, pass)?;
        if pass.mode() == Mode::Train {
            statistic("mean", &self.norm.running_mean, pass);
            statistic("variance", &self.norm.running_var, pass);
        }
        let output = pass.float::<4>(output.into())?.flatten(1, 3);
        Ok(poisoned(output, "norm", pass).into())
    }
}

/// A linear layer, an offset that is not trained, and a rectifier unless it is the last.
#[derive(Module, Debug)]
struct Dense {
    linear: Linear,
    offset: Param<Tensor<1>>,
    #[module(skip)]
    name: &'static str,
    /// Adds what it left in the batch before.
    #[module(skip)]
    carries: bool,
}

impl Stage for Dense {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<2>(input)?;
        let x = self.linear.forward(x, pass)?;
        let mut output = pass.float::<2>(x.into())? + self.offset.val().unsqueeze();
        if self.name == "head" {
            LOSS.set(Poison::of_pass("loss", "", pass));
        } else {
            output = relu(output);
        }
        if self.carries {
            output = carried(output, pass)?;
        }
        if pass.mode() == Mode::Train && Poison::of_pass("parameter", self.name, pass).is_some() {
            statistic("parameter", &self.offset, pass);
        }
        Ok(poisoned(output, self.name, pass).into())
    }
}

/// Adds a share of the state that the batch before left, and leaves half of the sum.
fn carried(output: Tensor<2>, pass: &mut Pass) -> Result<Tensor<2>, ModelError> {
    let output = match pass.carried("state") {
        Some(state) => {
            let like = AnyTensor::from(output.clone());
            let is_tracked = like.device().is_autodiff();
            let state = if is_tracked { state.tracked_like(&like, false) } else { state };
            output + pass.float::<2>(state)?.mul_scalar(0.1)
        }
        None => output,
    };
    let mut state = autodiff::inner(output.clone()).mul_scalar(0.5);
    if pass.mode() == Mode::Train
        && let Some(poison) = Poison::of_pass("carried", "", pass)
    {
        let value = poison.tensor(state.dims(), &state.device());
        state = state + value;
    }
    pass.carry("state", state.into());
    Ok(output)
}

/// Changes a parameter without gradient after the forward, if the poison is for it.
fn statistic(place: &str, parameter: &Param<Tensor<1>>, pass: &mut Pass) {
    if let Some(poison) = Poison::of_pass(place, "", pass) {
        let value = autodiff::inner(parameter.val());
        let added = poison.tensor(value.dims(), &value.device());
        pass.update(parameter, value + added);
    }
}

/// The output of a stage, or its gradient, with what is put there.
fn poisoned(output: Tensor<2>, stage: &str, pass: &Pass) -> Tensor<2> {
    if pass.mode() != Mode::Train {
        return output;
    }
    if let Some(poison) = Poison::of_pass("forward", stage, pass) {
        let added = poison.tensor(output.dims(), &output.device());
        return output + added;
    }
    let Some(poison) = Poison::of_pass("gradient", stage, pass) else { return output };
    let plain = autodiff::inner(output.clone());
    let output = differentiable([output.into()], plain.into(), move |gradient, _| {
        let gradient = gradient.float::<2>().map(|gradient| {
            let added = poison.tensor(gradient.dims(), &gradient.device());
            gradient + added
        });
        [gradient.map(AnyTensor::from)]
    });
    output.float().expect("it has the rank of the output")
}
