//! The summary, compared with published figures and torchvision's.

use burn::{module::Module, nn, tensor::Tensor};
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_model::{
    AnyTensor, Architecture, Init, ModelError, Pass, Stage, Stages, check_training,
    recurrent::{gru, lstm},
    resnet, summarize,
};

fn images(channels: usize, size: usize, count: usize) -> SampleSpec {
    SampleSpec {
        input: InputSpec::Image { channels, height: size, width: size },
        target: TargetSpec::Class { count },
    }
}

fn settings(text: &str) -> Section {
    Section::from_toml("model", text).unwrap()
}

#[test]
fn resnets_have_the_parameters_and_multiply_adds_of_torchvision() {
    // Parameters: `sum(p.numel() for p in model.parameters())`; multiply-adds: torchvision's published GFLOPS of each
    // model (weights metadata `_ops`), to its two decimals.
    for (name, parameters, giga) in [
        ("resnet18", 11_689_512, 1.81),
        ("resnet34", 21_797_672, 3.66),
        ("resnet50", 25_557_032, 4.09),
        ("resnet101", 44_549_160, 7.80),
        ("resnet152", 60_192_808, 11.51),
    ] {
        let architecture = resnet(&settings(&format!("name = '{name}'"))).unwrap();
        let summary = summarize(&architecture, &images(3, 224, 1000), 1).unwrap();
        assert_eq!(summary.parameters, parameters, "{name}");
        let measured = summary.multiply_adds as f64 / 1e9;
        assert!((measured - giga).abs() < 0.006, "{name}: {measured} G");
        let stages: u64 = summary.rows.iter().filter(|r| r.depth == 0).map(|r| r.multiply_adds).sum();
        let layers: u64 = summary.rows.iter().filter(|r| r.depth > 0).map(|r| r.multiply_adds).sum();
        assert_eq!((stages, layers), (summary.multiply_adds, summary.multiply_adds), "{name}");
        let own: usize = summary.rows.iter().filter(|r| r.depth > 0).map(|r| r.parameters).sum();
        assert_eq!(own, parameters, "{name}");
    }
}

#[test]
fn the_batch_scales_outputs_and_not_parameters() {
    let architecture = resnet(&settings("name = 'resnet18'\nstem = 'small'\nwidth = 16")).unwrap();
    let spec = images(1, 8, 10);
    let one = summarize(&architecture, &spec, 1).unwrap();
    let many = summarize(&architecture, &spec, 4096).unwrap();
    assert_eq!(many.parameters, one.parameters);
    assert_eq!(many.output_bytes.get(), one.output_bytes.get() * 4096);
    assert_eq!(many.multiply_adds, one.multiply_adds * 4096);
    let first = &one.rows[1];
    assert_eq!((first.name.as_str(), first.kind.as_str()), ("stem.conv1", "Conv2d"));
    assert_eq!((&first.input[..], &first.output[..]), (&[1, 1, 8, 8][..], &[1, 16, 8, 8][..]));
    assert_eq!((first.parameters, first.multiply_adds), (16 * 9, 16 * 9 * 64));
}

#[test]
fn recurrent_layers_count_both_products_of_each_step() {
    let settings = settings("hidden = 16\nlayers = 2");
    for (architecture, gates) in [(lstm(&settings), 4 * 16), (gru(&settings), 3 * 16)] {
        let input = InputSpec::Sequence { steps: 8, features: 5 };
        let spec = SampleSpec { input, target: TargetSpec::Class { count: 10 } };
        let summary = summarize(&architecture.unwrap(), &spec, 3).unwrap();
        assert_eq!(summary.parameters, gates * (5 + 16 + 2) + gates * (16 + 16 + 2) + 16 * 10 + 10);
        let step = gates * (5 + 16) + gates * (16 + 16);
        assert_eq!(summary.multiply_adds, (3 * (8 * step + 160)) as u64);
    }
}

/// A user's stage made of Burn's layers.
#[derive(Module, Debug)]
struct Own {
    linear: nn::Linear,
}

impl Stage for Own {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x: Tensor<2> = pass.float(input)?;
        Ok(self.linear.forward(x).into())
    }
}

fn own(input: usize, output: usize, init: &Init) -> Own {
    Own { linear: nn::LinearConfig::new(input, output).init(init.device()) }
}

#[test]
fn a_users_stage_of_burn_layers_is_a_row_with_its_operations_counted() {
    let architecture = Architecture::new("own", |_, init| {
        Ok(Stages::new().with("first", own(4, 6, init)).with("second", own(6, 2, init)))
    });
    let spec =
        SampleSpec { input: InputSpec::Vector { features: 4 }, target: TargetSpec::Class { count: 2 } };
    let summary = summarize(&architecture, &spec, 5).unwrap();
    let row = &summary.rows[0];
    assert_eq!((row.name.as_str(), row.kind.as_str(), row.parameters), ("first", "Own", 4 * 6 + 6));
    assert_eq!((row.multiply_adds, summary.multiply_adds), (5 * 24, 5 * (24 + 12)));
}

#[test]
fn a_stage_that_cannot_take_its_input_is_named() {
    let spec =
        SampleSpec { input: InputSpec::Vector { features: 4 }, target: TargetSpec::Class { count: 2 } };
    let mismatched = Architecture::new("own", |_, init| {
        Ok(Stages::new().with("first", own(4, 6, init)).with("second", own(7, 2, init)))
    });
    let error = summarize(&mismatched, &spec, 5).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("stage `second` panicked on an activation of shape [5, 6]: "), "{text}");

    let error = summarize(&resnet(&settings("name = 'resnet18'")).unwrap(), &spec, 5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model `resnet18` takes images, but the data source gives vector of 4 features"
    );
}

#[test]
fn batch_normalisation_of_one_value_a_channel_is_found_before_training() {
    let architecture = resnet(&settings("name = 'resnet18'\nstem = 'small'\nwidth = 4")).unwrap();
    let spec = images(1, 8, 10);
    assert!(check_training(&architecture, &spec, 2).is_ok());
    let error = check_training(&architecture, &spec, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`layer4.0.bn1` takes more than one value a channel in training, got [1, 32, 1, 1]"
    );
}

#[test]
fn what_64_bits_cannot_count_stays_at_their_end() {
    let architecture = lstm(&settings("hidden = 65536\nlayers = 64")).unwrap();
    let input = InputSpec::Sequence { steps: 1, features: 65_536 };
    let spec = SampleSpec { input, target: TargetSpec::Class { count: 10 } };
    let summary = summarize(&architecture, &spec, 1_000_000_000).unwrap();
    assert_eq!(summary.multiply_adds, u64::MAX);
    assert!(summary.output_bytes >= summary.rows[1].output_bytes);
}
