//! Early dropping: what a loop of your own saves by letting go of a tensor at its last use.
//!
//! ```sh
//! cargo run --release --example early_dropping
//! ```
//!
//! The step is written twice. The careless one keeps input, output and last step's gradients in variables until it
//! returns, as is easily written; the careful one drops each where it is read last. The meter says what that is worth.
//! oomph's own steps are careful: docs/freeing.md.

use std::error::Error;

use oomph::burn::tensor::{Device, Int, Tensor};
use oomph::memory::{Account, charge, read, restart_peak};
use oomph::trainer::{Classification, DeviceTargets, Task};
use oomph::{
    AnyTensor, Bytes, Init, InputSpec, Kernels, Key, Named, Pass, SampleSpec, Section, Stages, TargetSpec,
    model::autodiff, resnet,
};

// Counts what tensors take in memory.
oomph::install_meter!();

const BATCH: usize = 64;
const CLASSES: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let model = model()?;
    println!("{:10} {:>13}", "step", "peak in use");
    for (name, step) in [("careless", careless as Step), ("careful", careful)] {
        println!("{name:10} {:>13}", peak_of(&model, step)?.to_string());
    }
    Ok(())
}

type Step = fn(&Stages, &mut Option<Named<AnyTensor>>, usize) -> Result<(), Box<dyn Error>>;

/// The most that was in use in three steps, beyond what the model takes.
fn peak_of(model: &Stages, step: Step) -> Result<Bytes, Box<dyn Error>> {
    charge(Account::Device, || {
        let before = read().in_use_bytes;
        restart_peak();
        let mut gradients = None;
        for number in 0..3 {
            step(model, &mut gradients, number)?;
        }
        Ok(Bytes::new(read().peak_in_use_bytes.get().saturating_sub(before.get())))
    })
}

fn careless(
    model: &Stages,
    gradients: &mut Option<Named<AnyTensor>>,
    step: usize,
) -> Result<(), Box<dyn Error>> {
    let (input, targets) = batch();
    let output = model.forward(input.clone(), &mut Pass::train(Key::new(step as u64)))?;
    let loss = task().loss(&output, &targets)?;
    // Last step's gradients are there until the new ones are, and so are input and output.
    *gradients = Some(autodiff::backward(loss, model));
    // Somebody wanted to look at them at the end.
    drop((input, output));
    Ok(())
}

fn careful(
    model: &Stages,
    gradients: &mut Option<Named<AnyTensor>>,
    step: usize,
) -> Result<(), Box<dyn Error>> {
    *gradients = None;
    let (input, targets) = batch();
    // Moved into the model: its first layer keeps what it needs of it.
    let output = model.forward(input, &mut Pass::train(Key::new(step as u64)))?;
    let loss = task().loss(&output, &targets)?;
    // The loss is all that backward starts from. Nobody else holds the logits now, and their gradient takes their place.
    drop((output, targets));
    *gradients = Some(autodiff::backward(loss, model));
    Ok(())
}

fn task() -> Classification {
    Classification { label_smoothing: 0.0, lean: Some(Kernels::Own) }
}

fn batch() -> (AnyTensor, DeviceTargets) {
    let device = Device::flex().autodiff();
    let input = AnyTensor::zeros(&[BATCH, 1, 8, 8], &device);
    (input, DeviceTargets::Classes(Tensor::<1, Int>::zeros([BATCH], &device)))
}

/// One with many classes, so that its output is large.
fn model() -> Result<Stages, Box<dyn Error>> {
    let settings = Section::from_toml("model", "name = 'resnet18'\nstem = 'small'\nwidth = 8")?;
    let spec = SampleSpec {
        input: InputSpec::Image { channels: 1, height: 8, width: 8 },
        target: TargetSpec::Class { count: CLASSES },
    };
    Ok(resnet(&settings)?.build(&spec, &Init::new(&Device::flex().autodiff(), 0))?)
}
