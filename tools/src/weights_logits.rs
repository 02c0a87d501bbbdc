//! Loads a file of weights into one of our networks and writes its logits in evaluation. `tools/weights_parity.py`
//! compares them with those of torchvision and of Hugging Face's `transformers`. Takes a second.
//!
//! ```text
//! cargo xtask weights-logits resnet50 resnet50.pth input.safetensors logits.safetensors
//! ```
//!
//! `MODEL` is a name, or the settings of `[model]`. The third file has `input`: images `[B, C, H, W]`, or tokens `[B, T]`. The last gets
//! `logits`, `[B, K]` for the K classes of the weights' head, or `[B, T, V]` for V tokens.
//! `--lean false` takes Burn's layers instead of ours.

use std::{error::Error, fs, path::Path, process::ExitCode};

use oomph::{
    AnyTensor, Init, InputSpec, Kernels, Pass, Policy, SampleSpec, Section, Stages, TargetSpec,
    burn::tensor::{Device, Int, Tensor, TensorData},
    model::{
        gpt, vit,
        weights::{WeightFile, fit, load, wanted},
    },
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

fn write(model: &str, weights: &str, [input, output]: [&str; 2], lean: bool) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    let settings = if model.contains('=') { model.to_owned() } else { format!("name = '{model}'") };
    let settings = Section::from_toml("model", &settings)?;
    let architecture = match &*settings.string("name", "")? {
        "gpt" => gpt(&settings)?,
        "vit" => vit(&settings)?,
        _ => resnet(&settings)?,
    };
    let file = WeightFile::open(Path::new(weights))?;
    let (input, shape) = read_input(input, &device)?;
    let spec = spec(&shape, &file)?;
    let mut model: Stages = architecture.build(&spec, &Init::new(&device, 0))?;
    let fit = fit(&file, &architecture, &wanted(&model))?;
    load(&mut model, &file, &fit, &device)?;
    let policy = Policy { lean, kernels: Kernels::Cpu, ..Policy::default() };
    let logits = model.inference().forward(input, &mut Pass::eval().with_policy(policy))?;
    let bytes: Vec<u8> = logits.to_host()?.into_iter().flat_map(f32::to_le_bytes).collect();
    let view = TensorView::new(Dtype::F32, logits.dims(), &bytes)?;
    Ok(serialize_to_file([("logits", view)], None, Path::new(output))?)
}

/// Samples of the input's shape, and as many outputs as the weights are for.
fn spec(shape: &[usize], file: &WeightFile) -> Result<SampleSpec, Box<dyn Error>> {
    let rows = |ending: &str| {
        let tensor = file.tensors().find(|tensor| tensor.name.ends_with(ending));
        let rows = tensor.and_then(|tensor| tensor.shape.first().copied());
        rows.ok_or_else(|| format!("the weights have no tensor `…{ending}`"))
    };
    Ok(match *shape {
        [_, channels, height, width] => SampleSpec {
            input: InputSpec::Image { channels, height, width },
            target: TargetSpec::Class {
                count: rows("fc.bias")
                    .or_else(|_| rows("heads.head.bias"))
                    .or_else(|_| rows("classifier.bias"))?,
            },
        },
        [_, steps] => {
            let vocabulary = rows("wte.weight").or_else(|_| rows("embed_tokens.weight"))?;
            let target = TargetSpec::Tokens { steps, vocabulary };
            SampleSpec { input: InputSpec::Tokens { steps, vocabulary }, target }
        }
        _ => return Err("`input` is neither `[B, C, H, W]` nor `[B, T]`".into()),
    })
}

/// The input and its shape: images of fp32, or tokens of 64 bits.
fn read_input(path: &str, device: &Device) -> Result<(AnyTensor, Vec<usize>), Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let view = file.tensor("input")?;
    let (shape, data) = (view.shape().to_vec(), view.data());
    let tensor = match (view.dtype(), shape.len()) {
        (Dtype::F32, _) => {
            let values = data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            AnyTensor::floats(values, &shape, device)
        }
        (Dtype::I64, 2) => {
            let tokens: Vec<i32> =
                data.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as i32).collect();
            Tensor::<2, Int>::from_data(TensorData::new(tokens, shape.clone()), device).into()
        }
        _ => return Err("`input` is neither of fp32 nor of 64-bit tokens".into()),
    };
    Ok((tensor, shape))
}
