//! Transformers against PyTorch's: logits, loss, gradients, and two steps of AdamW.

use burn::tensor::{Device, Int, Tensor, TensorData};
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_engine::task::DeviceTargets;
use oomph_model::{AnyTensor, Architecture, Init, KeyValueCache, Pass, Policy, gpt, vit};

use crate::{
    compare::Comparison,
    golden::Golden,
    network::{Network, POLICIES, TOLERANCE, device},
};

const BATCH: usize = 3;
const STEPS: usize = 9;
const TOKENS: usize = 11;

/// The sizes of all networks of `tools/golden/transformer.py`.
const SIZES: &str = "layers = 2\nhidden = 24\nheads = 4";

/// The decoders of `tools/golden/transformer.py`, and their settings.
const DECODERS: [(&str, &str); 3] = [
    ("gpt2", "feed_forward = 40"),
    ("llama", "preset = 'llama'\nkey_heads = 2\nfeed_forward = 28"),
    ("mixed", "key_heads = 1\nfeed_forward = 40\nactivation = 'gelu'\npositions = 'rotary'\ntied = false"),
];

#[test]
fn decoders_give_the_gradients_and_steps_of_torch() {
    for (variant, settings) in DECODERS {
        let settings = Section::from_toml("model", &format!("{SIZES}\n{settings}")).unwrap();
        let golden = Golden::open("gpt");
        let network = Network {
            architecture: gpt(&settings).unwrap(),
            spec: SampleSpec {
                input: InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
                target: TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
            },
            prefix: format!("{variant}."),
            // The golden decoders have our names.
            name: |_, name| name.to_owned(),
            batch: |golden| (tokens(golden, 0).into(), DeviceTargets::Tokens(tokens(golden, 1))),
            golden,
        };
        network.check();
    }
}

/// A text that is read in pieces, with the keys and values of the positions before.
#[test]
fn a_decoder_with_a_cache_gives_the_logits_of_the_whole_text() {
    for (variant, settings) in DECODERS {
        let settings = Section::from_toml("model", &format!("{SIZES}\n{settings}")).unwrap();
        let (input, target) = (
            InputSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
            TargetSpec::Tokens { steps: STEPS, vocabulary: TOKENS },
        );
        let architecture = gpt(&settings).unwrap();
        assert!(architecture.has_key_value_cache());
        let model =
            architecture.build(&SampleSpec { input, target }, &Init::new(&Device::flex(), 5)).unwrap();
        let text: Vec<i32> = (0..STEPS as i32).map(|at| (at * at + 3) % TOKENS as i32).collect();
        let tokens = |of: &[i32]| -> AnyTensor {
            Tensor::<2, Int>::from_data(TensorData::new(of.to_vec(), [1, of.len()]), &Device::flex()).into()
        };
        for (lean, kernels) in POLICIES {
            let policy = Policy { lean, kernels, ..Policy::default() };
            let pass = || Pass::eval().with_policy(policy);
            let whole = model.forward(tokens(&text), &mut pass()).unwrap().to_host().unwrap();
            let (mut cache, mut found) = (KeyValueCache::new(4), Vec::new());
            for piece in [&text[..4], &text[4..5], &text[5..8], &text[8..]] {
                let mut pass = pass();
                pass.cache = Some(cache);
                found.extend(model.forward(tokens(piece), &mut pass).unwrap().to_host().unwrap());
                cache = pass.cache.expect("a pass keeps its cache");
            }
            assert_eq!(cache.positions(), STEPS);
            let mut comparison = Comparison::new(format!("{variant} lean={lean} {kernels:?}"), TOLERANCE);
            let whole: Vec<f64> = whole.into_iter().map(f64::from).collect();
            comparison.norm("logits", &found, &whole);
            comparison.finish();
        }
    }
}

#[test]
fn a_vision_transformer_gives_the_gradients_and_steps_of_torchvision() {
    let settings = Section::from_toml("model", &format!("{SIZES}\nfeed_forward = 40\npatch = 8")).unwrap();
    let network = Network {
        architecture: vit(&settings).unwrap(),
        spec: SampleSpec {
            input: InputSpec::Image { channels: 3, height: 16, width: 16 },
            target: TargetSpec::Class { count: 5 },
        },
        prefix: String::new(),
        name: Architecture::pytorch_name,
        batch: |golden| {
            let labels: Vec<i32> = golden.get("labels").values.iter().map(|label| *label as i32).collect();
            let labels = Tensor::from_data(TensorData::new(labels, [BATCH]), &device());
            (golden.get("images").tensor::<4>(&device()).into(), DeviceTargets::Classes(labels))
        },
        golden: Golden::open("vit"),
    };
    network.check();
}

/// The tokens of all texts from the given one on.
fn tokens(golden: &Golden, first: usize) -> Tensor<2, Int> {
    let tokens: Vec<_> = golden.get("tokens").values.iter().map(|token| *token as i32).collect();
    let data: Vec<i32> = tokens.chunks(STEPS + 1).flat_map(|row| row[first..][..STEPS].to_vec()).collect();
    Tensor::from_data(TensorData::new(data, [BATCH, STEPS]), &device())
}
