//! Exported models compute in ONNX Runtime what they compute here. `OOMPH_ONNX_PYTHON` names a Python that has `onnx` and
//! `onnxruntime`.

use std::{env, fs, path::Path, process::Command};

use burn::tensor::{Device, TensorData};
use oomph_config::Section;
use oomph_core::{Generator, InputSpec, Key, SampleSpec, TargetSpec};
use oomph_engine::{
    HostTensor,
    record::{model_record, restore_model},
};
use oomph_model::{
    AnyTensor, Architecture, Init, Named, Pass, onnx, onnx_graph,
    recurrent::{gru, gru_lm, lstm, lstm_lm},
    resnet,
};
use oomph_test_support::{Missing, skip};
use serde_json::{Value, json};

const IMAGE: InputSpec = InputSpec::Image { channels: 3, height: 34, width: 32 };
const CLASSES: TargetSpec = TargetSpec::Class { count: 7 };
const LABELS: TargetSpec = TargetSpec::Labels { count: 4 };

/// A model with the inputs that it is given.
struct Case {
    name: &'static str,
    architecture: Architecture,
    spec: SampleSpec,
    /// The shapes of the inputs: batches of several sizes, and for recurrent models of several lengths.
    inputs: Vec<Vec<usize>>,
}

fn settings(text: &str) -> Section {
    Section::from_toml("model", text).expect("settings")
}

fn images(name: &'static str, text: &str) -> Case {
    let architecture = resnet(&settings(text)).expect("a ResNet");
    let spec = SampleSpec { input: IMAGE, target: CLASSES };
    Case { name, architecture, spec, inputs: vec![vec![3, 3, 34, 32], vec![1, 3, 34, 32]] }
}

/// The name of a case begins with that of its layers.
fn sequences(name: &'static str, text: &str, target: TargetSpec) -> Case {
    let spec = SampleSpec { input: InputSpec::Sequence { steps: 9, features: 5 }, target };
    let read = if name.starts_with("gru") { gru } else { lstm };
    let architecture = read(&settings(text)).expect("a recurrent network");
    Case { name, architecture, spec, inputs: vec![vec![4, 9, 5], vec![1, 3, 5]] }
}

fn texts(name: &'static str, text: &str) -> Case {
    let spec = SampleSpec {
        input: InputSpec::Tokens { steps: 12, vocabulary: 11 },
        target: TargetSpec::Tokens { steps: 12, vocabulary: 11 },
    };
    let read = if name.starts_with("gru") { gru_lm } else { lstm_lm };
    let architecture = read(&settings(text)).expect("a language model");
    Case { name, architecture, spec, inputs: vec![vec![3, 12], vec![1, 20], vec![2, 1]] }
}

fn cases() -> Vec<Case> {
    let rows = Case {
        spec: SampleSpec { input: IMAGE, target: CLASSES },
        inputs: vec![vec![2, 3, 34, 32], vec![1, 3, 34, 32]],
        ..sequences("lstm-rows", "hidden = 6", CLASSES)
    };
    let labels = Case {
        spec: SampleSpec { input: IMAGE, target: LABELS },
        ..images("resnet18-labels", "name = 'resnet18'\nwidth = 4")
    };
    vec![
        images("resnet18-standard", "name = 'resnet18'\nwidth = 8"),
        images("resnet18-small", "name = 'resnet18'\nstem = 'small'\nwidth = 4"),
        images("resnet34", "name = 'resnet34'\nwidth = 4"),
        images("resnet50", "name = 'resnet50'\nwidth = 4\nzero_init = true"),
        images("resnet101", "name = 'resnet101'\nwidth = 4\nstem = 'small'"),
        images("resnet152", "name = 'resnet152'\nwidth = 4"),
        sequences("lstm", "hidden = 6", CLASSES),
        sequences("lstm-3-layers", "hidden = 6\nlayers = 3\ndropout = 0.5", CLASSES),
        sequences("lstm-values", "hidden = 6", TargetSpec::Values { features: 2 }),
        sequences("lstm-labels", "hidden = 6", LABELS),
        sequences("gru", "hidden = 6", CLASSES),
        sequences("gru-3-layers", "hidden = 6\nlayers = 3\ndropout = 0.5", CLASSES),
        rows,
        labels,
        texts("lm", "hidden = 6\nembedding = 4\nlayers = 2\ndropout = 0.3"),
        texts("lm-tied", "hidden = 6\ntied = true"),
        texts("gru-lm", "hidden = 6\nembedding = 4\nlayers = 2\ndropout = 0.3"),
    ]
}

/// Values as after training: running statistics are those of no data that a batch has.
fn weights(case: &Case, device: &Device) -> (oomph_model::Stages, Named<HostTensor>) {
    let mut model = case.architecture.build(&case.spec, &Init::new(device, 7)).expect("a model");
    let mut record = model_record(&model).expect("values on the host");
    for (name, tensor) in &mut record {
        let mut generator = Generator::at(Key::new(3).with_name(name));
        for value in &mut tensor.values {
            if name.ends_with("running_var") {
                *value = generator.uniform_in(0.5, 1.5);
            } else if tensor.shape.len() == 1 {
                *value += generator.uniform_in(-0.2, 0.2);
            }
        }
    }
    restore_model(&mut model, record.clone(), device).expect("the same model");
    (model, record)
}

/// Writes the model, and runs with the outputs that it has here.
fn write(case: &Case, folder: &Path) {
    let device = Device::flex();
    let (model, record) = weights(case, &device);
    let runs: Vec<Value> = case.inputs.iter().map(|shape| run(case, &model, shape, &device)).collect();
    let graph = onnx_graph(&case.architecture, &case.spec).expect("a graph");
    let parameter = |name: &str| {
        record.get(name).map(|tensor| onnx::Parameter { shape: &tensor.shape, values: &tensor.values })
    };
    let mut file = Vec::new();
    onnx::write(&graph, &parameter, &mut file).expect("a file in memory");
    fs::write(folder.join(format!("{}.onnx", case.name)), file).expect("a file");
    fs::write(folder.join(format!("{}.json", case.name)), json!(runs).to_string()).expect("a file");
}

fn run(case: &Case, model: &oomph_model::Stages, shape: &[usize], device: &Device) -> Value {
    let mut generator = Generator::at(Key::new(5).with(shape[0] as u64));
    let count = shape.iter().product::<usize>();
    let (input, values) = match case.spec.input {
        InputSpec::Tokens { vocabulary, .. } => {
            let tokens: Vec<i32> = (0..count).map(|_| generator.below(vocabulary) as i32).collect();
            let data = TensorData::new(tokens.clone(), [shape[0], shape[1]]);
            (
                AnyTensor::from(burn::tensor::Tensor::<2, burn::tensor::Int>::from_data(data, device)),
                json!(tokens),
            )
        }
        _ => {
            let values: Vec<f32> = (0..count).map(|_| generator.normal()).collect();
            (AnyTensor::floats(values.clone(), shape, device), json!(values))
        }
    };
    let output = model.forward(input, &mut Pass::eval()).expect("an output").to_host().expect("values");
    assert!(output.iter().all(|value| value.is_finite()));
    json!({ "shape": shape, "input": values, "output": output })
}

#[test]
fn onnx_runtime_computes_the_same_outputs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let cases = cases();
    cases.iter().for_each(|case| write(case, folder.path()));
    let Some(python) = env::var_os("OOMPH_ONNX_PYTHON") else { return skip(Missing::Onnx) };
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/onnx_check.py");
    let output = Command::new(python).arg(tool).arg(folder.path()).output().expect("Python starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    println!("{err}");
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results.as_object().map(serde_json::Map::len), Some(cases.len()));
    assert_eq!(
        results["resnet50"]["ports"],
        json!([["images", ["batch", 3, 34, 32]], ["logits", ["batch", 7]]])
    );
    assert_eq!(
        results["lm"]["ports"],
        json!([["tokens", ["batch", "time"]], ["logits", ["batch", "time", 11]]])
    );
    assert_eq!(results["lstm-values"]["ports"][1][0], "values");
    assert_eq!(results["resnet18-labels"]["ports"][1], json!(["logits", ["batch", 4]]));
}

#[test]
fn every_parameter_is_in_the_file() {
    for case in cases() {
        let (_, record) = weights(&case, &Device::flex());
        let graph = onnx_graph(&case.architecture, &case.spec).expect("a graph");
        for missing in record.keys() {
            let parameter = |name: &str| {
                let found = record.get(name).filter(|_| name != missing);
                found.map(|tensor| onnx::Parameter { shape: &tensor.shape, values: &tensor.values })
            };
            let error = onnx::write(&graph, &parameter, &mut Vec::new()).expect_err(missing);
            assert_eq!(error.to_string(), format!("the weights lack `{missing}`"));
        }
    }
}
