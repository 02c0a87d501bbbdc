//! The assignment of tensors to parameters, and the messages where it fails.

use std::path::Path;

use burn::tensor::Device;
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_model::{
    Architecture, Init, Named, Stages, parameters_wanted,
    recurrent::lstm,
    resnet,
    weights::{Fit, WeightFile, WeightsError, fit, load, wanted},
};
use safetensors::{Dtype, serialize_to_file, tensor::TensorView};

const RESNET: &str = "name = 'resnet18'\nstem = 'small'\nwidth = 2";

fn spec(classes: usize) -> SampleSpec {
    SampleSpec {
        input: InputSpec::Image { channels: 1, height: 8, width: 8 },
        target: TargetSpec::Class { count: classes },
    }
}

fn small_resnet() -> Architecture {
    resnet(&Section::from_toml("model", RESNET).unwrap()).unwrap()
}

fn made(architecture: &Architecture, classes: usize, seed: u64) -> Stages {
    architecture.build(&spec(classes), &Init::new(&Device::flex().autodiff(), seed)).unwrap()
}

type Tensors = Named<(Vec<usize>, Vec<f32>)>;

fn tensors(model: &Stages, rename: impl Fn(&str) -> String) -> Tensors {
    let mut tensors = Named::new();
    model.visit(&mut |info, tensor| {
        tensors.insert(rename(info.name), (tensor.dims(), tensor.to_host().unwrap()));
    });
    tensors
}

fn write(path: &Path, tensors: &Tensors) {
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, values))| {
            (name, shape.clone(), values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

/// Writes the tensors to a file and fits it to a model of ten classes.
fn fitted(tensors: &Tensors) -> Result<(Fit, Tensors), WeightsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    write(&path, tensors);
    let architecture = small_resnet();
    let mut model = made(&architecture, 10, 2);
    let file = WeightFile::open(&path)?;
    let fit = fit(&file, &architecture, &wanted(&model))?;
    load(&mut model, &file, &fit, &Device::flex())?;
    Ok((fit, super::fitting::tensors(&model, str::to_owned)))
}

/// The error message without the folder's path.
fn message(tensors: &Tensors) -> String {
    let text = fitted(tensors).expect_err("it does not fit").to_string();
    let (_, rest) = text.split_once("w.safetensors").expect("the file is named");
    rest.to_owned()
}

/// A torchvision state dict of a model initialised from another seed.
fn state_dict(classes: usize) -> Tensors {
    let architecture = small_resnet();
    let model = made(&architecture, classes, 1);
    tensors(&model, |name| architecture.pytorch_name(name))
}

#[test]
fn names_of_torchvision_of_checkpoints_and_behind_a_prefix_are_found() {
    let model = made(&small_resnet(), 10, 1);
    let expected = tensors(&model, str::to_owned);
    let prefixed = |prefix: &str| {
        state_dict(10).into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor)).collect()
    };
    for file in [expected.clone(), state_dict(10), prefixed("module."), prefixed("model._orig_mod.")] {
        let (fit, loaded) = fitted(&file).unwrap();
        assert_eq!(loaded, expected);
        assert!(fit.notices.is_empty() && fit.fresh.is_empty(), "{fit:?}");
    }
}

#[test]
fn counts_of_batches_are_not_looked_at() {
    let mut file = state_dict(10);
    file.insert("bn1.num_batches_tracked".into(), (vec![1], vec![3.0]));
    assert!(fitted(&file).unwrap().0.notices.is_empty());
}

#[test]
fn a_head_for_other_classes_starts_new_and_says_so() {
    let (fit, loaded) = fitted(&state_dict(1000)).unwrap();
    assert_eq!(fit.fresh, ["head.fc.weight", "head.fc.bias"]);
    let [notice] = &fit.notices[..] else { panic!("{fit:?}") };
    assert!(
        notice.ends_with(
            "w.safetensors` (`fc.weight`, `fc.bias`) has 1000 outputs and the model 10: it starts new"
        ),
        "{notice}"
    );
    // The head keeps its initial values.
    let drawn = tensors(&made(&small_resnet(), 10, 2), str::to_owned);
    let given = tensors(&made(&small_resnet(), 10, 1), str::to_owned);
    for (name, tensor) in loaded {
        let expected = if name.starts_with("head.") { &drawn } else { &given };
        assert_eq!(tensor, expected[&name], "{name}");
    }
}

#[test]
fn a_file_without_a_head_is_told_too() {
    let mut file = state_dict(10);
    file.retain(|name, _| !name.starts_with("fc."));
    let (fit, _) = fitted(&file).unwrap();
    assert_eq!(fit.fresh.len(), 2);
    assert!(fit.notices[0].ends_with("have no head (`fc.weight`, `fc.bias`): it starts new"), "{fit:?}");
}

#[test]
fn a_part_that_the_model_does_not_have_is_left_out_and_named() {
    let mut file = state_dict(10);
    file.insert("projector.0.weight".into(), (vec![2], vec![1.0; 2]));
    let (fit, _) = fitted(&file).unwrap();
    assert!(fit.notices[0].starts_with("the model has no parameter for `projector.0.weight` of"), "{fit:?}");
}

#[test]
fn all_that_does_not_fit_is_in_one_message() {
    let mut file = state_dict(10);
    file.remove("layer1.0.bn1.weight");
    file.remove("fc.bias");
    file.insert("layer4.2.conv1.weight".into(), (vec![1], vec![1.0]));
    file.insert("conv1.weight".into(), (vec![2, 3, 3, 3], vec![1.0; 54]));
    assert_eq!(
        message(&file),
        "` do not fit the model `resnet18`: missing: `layer1.0.bn1.weight`, `fc.bias`; unexpected: \
         `layer4.2.conv1.weight`; `conv1.weight` is [2, 3, 3, 3] in the file and [2, 1, 3, 3] in the model"
    );
}

#[test]
fn a_head_of_other_features_is_another_model() {
    let mut file = state_dict(10);
    file.insert("fc.weight".into(), (vec![10, 32], vec![1.0; 320]));
    assert!(message(&file).contains("`fc.weight` is [10, 32] in the file and [10, 16] in the model"));
    // Weights for 7 classes, shifts for 5.
    let mut file = state_dict(7);
    file.insert("fc.bias".into(), (vec![5], vec![1.0; 5]));
    let says = message(&file);
    assert!(says.contains("`fc.weight` is [7, 16]") && says.contains("`fc.bias` is [5]"), "{says}");
}

#[test]
fn a_deeper_network_is_not_taken_for_this_one() {
    let mut file = state_dict(10);
    for block in 2..6 {
        file.insert(format!("layer3.{block}.conv1.weight"), (vec![1], vec![1.0]));
    }
    assert!(message(&file).contains("unexpected: `layer3.2.conv1.weight`, `layer3.3.conv1.weight`"));
}

#[test]
fn another_network_is_named_with_what_it_has() {
    let file: Tensors =
        (0..12).map(|index| (format!("features.{index}.weight"), (vec![1], vec![1.0]))).collect();
    let says = message(&file);
    assert!(
        says.contains("it has `features.0.weight`, ") && says.contains(" and 4 more, and the model needs"),
        "{says}"
    );
}

#[test]
fn a_value_that_is_not_finite_is_refused() {
    let mut file = state_dict(10);
    file.insert("fc.bias".into(), (vec![10], vec![f32::NAN; 10]));
    let says = fitted(&file).unwrap_err().to_string();
    assert!(
        says.starts_with("`fc.bias` in the weights") && says.ends_with("infinite or not a number"),
        "{says}"
    );
}

#[test]
fn what_a_model_wants_is_known_without_making_it() {
    let architecture = small_resnet();
    let drawn = wanted(&made(&architecture, 10, 1));
    assert_eq!(parameters_wanted(&architecture, &spec(10)).unwrap(), drawn);
    assert_eq!(drawn.iter().filter(|wanted| wanted.is_of_head).count(), 2);
}

#[test]
fn an_lstm_is_loaded_by_the_names_of_pytorch() {
    let settings = Section::from_toml("model", "name = 'lstm'\nhidden = 3\nlayers = 2").unwrap();
    let architecture = lstm(&settings).unwrap();
    let spec = SampleSpec {
        input: InputSpec::Sequence { steps: 5, features: 2 },
        target: TargetSpec::Class { count: 2 },
    };
    let mut model = architecture.build(&spec, &Init::new(&Device::flex().autodiff(), 1)).unwrap();
    for name in ["weights_zip.pth", "weights_nested_half.pth"] {
        let file = WeightFile::open(&crate::golden_path(name)).unwrap();
        let fit = fit(&file, &architecture, &wanted(&model)).unwrap();
        load(&mut model, &file, &fit, &Device::flex()).unwrap();
        let mut plain = architecture.build(&spec, &Init::new(&Device::flex(), 1)).unwrap();
        load(&mut plain, &file, &fit, &Device::flex()).unwrap();
        assert_eq!(tensors(&plain, str::to_owned), tensors(&model, str::to_owned));
        let prefix = if name.contains("nested") { "module." } else { "" };
        let mut trainable = 0;
        model.visit(&mut |info, tensor| {
            let stored = file.read(&format!("{prefix}{}", architecture.pytorch_name(info.name))).unwrap();
            assert_eq!(stored, Some(tensor.to_host().unwrap()), "{}", info.name);
            trainable += usize::from(info.trainable);
        });
        assert_eq!(trainable, 10);
    }
}
