//! Loads a file of weights into one of our networks and writes its logits in evaluation. `tools/weights_parity.py`
//! compares them with torchvision's. Takes a second.
//!
//! ```text
//! cargo xtask weights-logits resnet50 resnet50.pth input.safetensors logits.safetensors
//! ```
//!
//! The third file has `input`, `[B, C, H, W]`. The last gets `logits`, `[B, K]` for the K classes of the weights' head.
//! `--lean false` takes Burn's layers instead of ours.

use std::{error::Error, fs, path::Path, process::ExitCode};

use oomph::{
    AnyTensor, Init, InputSpec, Kernels, Pass, Policy, SampleSpec, Section, Stages, TargetSpec,
    burn::tensor::Device,
    model::weights::{WeightFile, fit, load, wanted},
    resnet,
};
use safetensors::{Dtype, SafeTensors, serialize_to_file, tensor::TensorView};

use crate::Outcome;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [model, weights, input, output] => write(model, weights, [input, output], true)?,
        [model, weights, input, output, "--lean", "false"] => write(model, weights, [input, output], false)?,
        _ => return Err("expected MODEL WEIGHTS INPUT OUTPUT [--lean false]".into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn write(name: &str, weights: &str, [input, output]: [&str; 2], lean: bool) -> Result<(), Box<dyn Error>> {
    let (shape, values) = read_input(input)?;
    let [_, channels, height, width] = shape[..] else { return Err("`input` is not `[B, C, H, W]`".into()) };
    let device = Device::flex();
    let architecture = resnet(&Section::from_toml("model", &format!("name = '{name}'"))?)?;
    let file = WeightFile::open(Path::new(weights))?;
    let head = file.tensors().find(|tensor| tensor.name == "fc.bias" || tensor.name.ends_with(".fc.bias"));
    let classes = head.and_then(|bias| bias.shape.first().copied()).ok_or("the weights have no `fc.bias`")?;
    let spec = SampleSpec {
        input: InputSpec::Image { channels, height, width },
        target: TargetSpec::Class { count: classes },
    };
    let mut model: Stages = architecture.build(&spec, &Init::new(&device, 0))?;
    let fit = fit(&file, &architecture, &wanted(&model))?;
    load(&mut model, &file, &fit, &device)?;
    let policy = Policy { lean, kernels: Kernels::Cpu, ..Policy::default() };
    let input = AnyTensor::floats(values, &shape, &device);
    let logits = model.inference().forward(input, &mut Pass::eval().with_policy(policy))?;
    let bytes: Vec<u8> = logits.to_host()?.into_iter().flat_map(f32::to_le_bytes).collect();
    let view = TensorView::new(Dtype::F32, logits.dims(), &bytes)?;
    Ok(serialize_to_file([("logits", view)], None, Path::new(output))?)
}

fn read_input(path: &str) -> Result<(Vec<usize>, Vec<f32>), Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let view = file.tensor("input")?;
    if view.dtype() != Dtype::F32 {
        return Err("`input` is not fp32".into());
    }
    let values = view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok((view.shape().to_vec(), values))
}
