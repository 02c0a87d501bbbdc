//! Parameters: names, initial values, replacement.

use burn::tensor::Device;
use oomph_config::Section;
use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
use oomph_model::{AnyTensor, Init, Pass, Stages, resnet, torchvision_name};

fn small_resnet(device: &Device, seed: u64) -> Stages {
    let settings = Section::from_toml("model", "name = 'resnet18'\nstem = 'small'\nwidth = 4").unwrap();
    let spec = SampleSpec {
        input: InputSpec::Image { channels: 1, height: 8, width: 8 },
        target: TargetSpec::Class { count: 10 },
    };
    resnet(&settings).unwrap().build(&spec, &Init::new(device, seed)).unwrap()
}

fn values(model: &Stages) -> Vec<(String, bool, Vec<f32>)> {
    let mut values = Vec::new();
    model.visit(&mut |info, tensor| {
        values.push((info.name.to_owned(), info.trainable, tensor.to_host().unwrap()));
    });
    values
}

#[test]
fn names_are_those_of_torchvision_after_renaming() {
    let model = small_resnet(&Device::flex().autodiff(), 0);
    let names: Vec<_> = values(&model).into_iter().map(|(name, ..)| torchvision_name(&name)).collect();
    for expected in [
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.conv1.weight",
        "layer2.0.downsample.0.weight",
        "layer2.0.downsample.1.bias",
        "layer4.1.bn2.running_mean",
        "fc.weight",
        "fc.bias",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
    }
    // torchvision's resnet18 has 122 entries in its state dict, 20 of them `num_batches_tracked`.
    assert_eq!(names.len(), 102);
}

#[test]
fn the_seed_alone_decides_the_initial_values() {
    let device = Device::flex().autodiff();
    let first = values(&small_resnet(&device, 7));
    assert_eq!(first, values(&small_resnet(&device, 7)));
    // A plain device knows of no trainable parameters. The values are the same.
    let plain = values(&small_resnet(&Device::flex(), 7));
    assert!(
        first.iter().zip(&plain).all(|(tracked, plain)| (&tracked.0, &tracked.2) == (&plain.0, &plain.2))
    );
    let other = values(&small_resnet(&device, 8));
    let differ = first.iter().zip(&other).filter(|(one, other)| one.2 != other.2).count();
    // The 20 convolutions and the head's weight and bias differ. Scales, shifts and statistics start equal.
    assert_eq!(differ, 22);
}

#[test]
fn statistics_are_updated_by_apply_and_never_by_forward() {
    let device = Device::flex().autodiff();
    let mut model = small_resnet(&device, 0);
    let before = values(&model);
    let images = AnyTensor::floats((0..256).map(|i| i as f32 / 7.0 % 1.0).collect(), &[4, 1, 8, 8], &device);
    let mut pass = Pass::train(Key::new(0));
    model.forward(images.clone(), &mut pass).unwrap();
    assert_eq!(values(&model), before);
    model.apply(pass.into_updates());
    for (after, before) in values(&model).iter().zip(&before) {
        let statistic = after.0.contains("running_");
        assert_eq!(after.2 != before.2, statistic, "{}", after.0);
        assert_eq!(after.1, !statistic, "{}", after.0);
    }
    // Evaluation updates nothing. The inference copy gives the same result without a graph.
    let mut pass = Pass::eval();
    let logits = model.forward(images.clone(), &mut pass).unwrap();
    assert!(pass.into_updates().is_empty());
    let plain = model.inference().forward(images.inner(), &mut Pass::eval()).unwrap();
    assert_eq!(logits.to_host().unwrap(), plain.to_host().unwrap());
}
