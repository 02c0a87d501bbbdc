//! Early dropping: how much memory your own loop saves by dropping each tensor at its last use.
//!
//! ```sh
//! cargo run --release --example early_dropping
//! ```
//!
//! The step is written twice. The careless version keeps the input, the output and the previous step's gradients in
//! variables until it returns. The careful version drops each at its last use. The meter shows the difference. oomph's own
//! steps are careful: docs/concepts/memory.md.

use std::error::Error;

use oomph::burn::tensor::{Device, Int, Tensor};
use oomph::memory::{Account, charge, read, restart_peak};
use oomph::{
    AnyTensor, Bytes, Init, InputSpec, Kernels, Key, Named, Pass, SampleSpec, Section, Stages, TargetSpec,
    model::autodiff, resnet,
};
use oomph::{Classification, DeviceTargets, Task};

// Measures the memory of tensors.
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

/// The peak of three steps, without the memory of the model.
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
    // The previous gradients, the input and the output live until the new gradients are computed.
    *gradients = Some(autodiff::backward(loss, model));
    // For example, because the end of the step logs them.
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
    // Moved into the model, whose first layer keeps what backward needs.
    let output = model.forward(input, &mut Pass::train(Key::new(step as u64)))?;
    let loss = task().loss(&output, &targets)?;
    // Backward needs only the loss. Without other references to the logits, their gradient reuses the memory.
    drop((output, targets));
    *gradients = Some(autodiff::backward(loss, model));
    Ok(())
}

fn task() -> Classification {
    Classification { lean: Some(Kernels::Cpu), ..Classification::default() }
}

fn batch() -> (AnyTensor, DeviceTargets) {
    let device = Device::flex().autodiff();
    let input = AnyTensor::zeros(&[BATCH, 1, 8, 8], &device);
    (input, DeviceTargets::Classes(Tensor::<1, Int>::zeros([BATCH], &device)))
}

/// A model with many classes, and so a large output.
fn model() -> Result<Stages, Box<dyn Error>> {
    let settings = Section::from_toml("model", "name = 'resnet18'\nstem = 'small'\nwidth = 8")?;
    let spec = SampleSpec {
        input: InputSpec::Image { channels: 1, height: 8, width: 8 },
        target: TargetSpec::Class { count: CLASSES },
    };
    Ok(resnet(&settings)?.build(&spec, &Init::new(&Device::flex().autodiff(), 0))?)
}
