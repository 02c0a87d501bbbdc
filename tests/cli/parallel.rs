//! Several devices: their report, and that each holds what was planned.

use serde_json::Value;

use crate::support::Folder;

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { batch = 64, steps = 3 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }
    ";

const LSTM: &str = "
    model = { name = 'lstm', hidden = 128, layers = 4 }
    data = { source = 'digits', layout = 'rows', workers = 0, last_batch = 'drop' }
    train = { batch = 256, steps = 3 }
    optimizer = { name = 'adamw', lr = 0.01 }
    ";

/// Its outputs are the largest of all activations.
const LANGUAGE: &str = "
    model = { name = 'lstm-lm', hidden = 64, layers = 2 }
    data = { source = 'synthetic', kind = 'tokens', vocabulary = 512, workers = 0 }
    train = { batch = 64, steps = 3 }
    optimizer = { name = 'adamw', lr = 3e-3 }
    ";

fn devices(count: usize) -> String {
    vec!["cpu"; count].join(",")
}

fn bytes(device: &Value, key: &str) -> f64 {
    device[key].as_f64().unwrap_or_else(|| panic!("`{key}` of {device}"))
}

/// Devices whose measured peak is more than 5 % off the planned one.
fn differences(folder: &Folder, batch: &str, about: &[&str]) -> Vec<String> {
    let planned = folder.oomph(&[&["plan", "--batch", batch], about].concat()).success().last_json();
    let done = folder.oomph(&[&["train"], about].concat()).success().last_json();
    let [planned, measured] = [&planned, &done].map(|answer| answer["devices"].as_array().unwrap().clone());
    assert_eq!(planned.len(), measured.len());
    let mut wrong = Vec::new();
    for (index, (planned, measured)) in planned.iter().zip(&measured).enumerate() {
        // Replicas have all stages.
        assert!(
            measured["stages"].is_null() || planned["stages"] == measured["stages"],
            "{planned} {measured}"
        );
        let peaks = (bytes(planned, "planned_peak_bytes"), bytes(measured, "peak_in_use_bytes"));
        if (peaks.0 / peaks.1 - 1.0).abs() > 0.05 {
            wrong.push(format!("device {index}: planned {}, measured {}", peaks.0, peaks.1));
        }
    }
    wrong
}

#[test]
fn each_device_holds_what_is_planned_for_it() {
    let mut wrong = Vec::new();
    for (recipe, settings) in [
        (RESNET, &["device.strategy=pipeline", "memory.micro_batch=8"][..]),
        (RESNET, &["device.strategy=pipeline", "device.schedule=gpipe", "memory.micro_batch=8"]),
        (RESNET, &["device.strategy=pipeline", "memory.micro_batch=8", "memory.recompute=stages"]),
        (RESNET, &["device.strategy=model", "memory.micro_batch=32"]),
        (LSTM, &["device.strategy=pipeline", "memory.micro_batch=32"]),
        (LSTM, &["device.strategy=model"]),
        (RESNET, &["device.strategy=dp"]),
        (RESNET, &["device.strategy=dp", "device.coordinator_share=0.2", "memory.micro_batch=16"]),
        (LSTM, &["device.strategy=dp", "memory.recompute=stages"]),
        (LANGUAGE, &["device.strategy=dp"]),
        (LANGUAGE, &["device.strategy=pipeline", "memory.micro_batch=8"]),
    ] {
        let folder = Folder::new();
        folder.write("net.toml", recipe);
        for count in 2..=4 {
            let names = devices(count);
            let sets = settings.iter().flat_map(|setting| ["--set", setting]);
            let about: Vec<&str> =
                ["--config", "net.toml", "--json", "--devices", &names].into_iter().chain(sets).collect();
            let batch = if recipe == LSTM { "256" } else { "64" };
            wrong.extend(
                differences(&folder, batch, &about).into_iter().map(|what| format!("{settings:?}, {what}")),
            );
        }
    }
    assert!(wrong.is_empty(), "more than 5 % off:\n{}", wrong.join("\n"));
}

/// An evaluation batch that needs more memory than a training step.
#[test]
fn an_evaluation_is_planned_where_it_is_done() {
    let mut wrong = Vec::new();
    for strategy in ["dp", "model", "pipeline"] {
        let folder = Folder::new();
        folder.write("net.toml", LANGUAGE);
        let strategy = format!("device.strategy={strategy}");
        let about = ["--config", "net.toml", "--json", "--devices", "cpu,cpu", "--set", &strategy];
        let settings =
            ["--set", "train.batch=16", "--set", "train.eval_batch=192", "--set", "memory.micro_batch=8"];
        let about = [&about[..], &settings].concat();
        wrong
            .extend(differences(&folder, "16", &about).into_iter().map(|what| format!("{strategy}, {what}")));
    }
    assert!(wrong.is_empty(), "more than 5 % off:\n{}", wrong.join("\n"));
}
