//! Networks of Hugging Face: their settings and weights, as `transformers` saves them, give the logits of `transformers`.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_model::{
    AnyTensor, Architecture, Init, Pass, Policy, gpt, vit,
    weights::{WeightFile, fit, load, wanted},
};

use crate::{
    compare::Comparison,
    golden::{Golden, path},
    network::POLICIES,
};

/// Relative, by norm. The logits are those of 64 bits.
const TOLERANCE: f64 = 1e-5;
const TEXTS: usize = 2;
const STEPS: usize = 7;
const TOKENS: usize = 11;

#[test]
fn the_files_of_a_decoder_give_the_logits_of_transformers() {
    let golden = Golden::open("hugging_face/expected");
    let tokens: Vec<i32> = golden.get("tokens").values.iter().map(|token| *token as i32).collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [TEXTS, STEPS]), &Device::flex());
    let spec = SampleSpec {
        input: InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
        target: TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
    };
    for name in ["gpt2", "gpt2_untied", "llama", "llama_tied"] {
        check(name, &gpt(&settings(name)).unwrap(), &spec, &tokens.clone().into(), &golden);
    }
}

#[test]
fn the_files_of_a_vision_transformer_give_the_logits_of_transformers() {
    let golden = Golden::open("hugging_face/expected");
    let images: AnyTensor = golden.get("images").tensor::<4>(&Device::flex()).into();
    let spec = SampleSpec {
        input: InputSpec::Image { channels: 2, height: 8, width: 8 },
        target: TargetSpec::Class { count: 3 },
    };
    for name in ["vit", "vit_tanh"] {
        check(name, &vit(&settings(name)).unwrap(), &spec, &images, &golden);
    }
}

/// The settings of the network's `config.json`, and no others.
fn settings(name: &str) -> Section {
    let folder = path(&format!("hugging_face/{name}"));
    Section::from_toml("model", &format!("config = '{}'", folder.display())).unwrap()
}

fn check(name: &str, architecture: &Architecture, spec: &SampleSpec, input: &AnyTensor, golden: &Golden) {
    let device = Device::flex();
    let file = WeightFile::open(&path(&format!("hugging_face/{name}"))).unwrap();
    let mut model = architecture.build(spec, &Init::new(&device, 1)).unwrap();
    let fit = fit(&file, architecture, &wanted(&model)).unwrap();
    assert!(fit.notices.is_empty() && fit.fresh.is_empty(), "{fit:?}");
    load(&mut model, &file, &fit, &device).unwrap();
    for (lean, kernels) in POLICIES {
        let mut pass = Pass::eval().with_policy(Policy { lean, kernels, ..Policy::default() });
        let logits = model.forward(input.clone(), &mut pass).unwrap().to_host().unwrap();
        let mut comparison = Comparison::new(format!("{name} lean={lean} {kernels:?}"), TOLERANCE);
        comparison.norm("logits", &logits, &golden.get(&format!("{name}.logits")).values);
        comparison.finish();
    }
}
