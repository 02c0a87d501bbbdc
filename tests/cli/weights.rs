//! Weights files: training from them, freezing, evaluating and exporting.

use safetensors::{Dtype, SafeTensors};

use crate::support::{Case, Folder, check, snapshot, without_numbers};

/// Trains only the head, with an optimizer that has state.
const HEAD: &[&str] = &["--set", "model.freeze=['lstm.0']", "--set", "optimizer.momentum=0.9"];

fn floats(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f32>) {
    let file = SafeTensors::deserialize(bytes).expect("safetensors");
    let view = file.tensor(name).unwrap_or_else(|_| panic!("no `{name}` among {:?}", file.names()));
    assert_eq!(view.dtype(), Dtype::F32);
    let values = view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    (view.shape().to_vec(), values)
}

fn exported(folder: &Folder) {
    folder.train(&[]).success();
    folder.oomph(&["export", "run", "--to", "w.safetensors"]).success();
}

#[test]
fn an_lstm_is_exported_by_the_names_of_pytorch_and_not_written_over() {
    let folder = Folder::new();
    folder.train(&[]).success();
    let answer = folder.oomph(&["export", "run", "--to", "w.safetensors", "--json"]).success().last_json();
    assert_eq!(
        (&answer["step"], &answer["tensors"], &answer["layout"]),
        (&6.into(), &6.into(), &"pytorch".into())
    );
    let written = folder.read("w.safetensors");
    assert_eq!(answer["bytes"], written.len());
    let checkpoint = folder.read("run/checkpoints/latest/model.safetensors");
    for (own, pytorch) in [
        ("lstm.0.layer.weight_ih", "lstm.weight_ih_l0"),
        ("lstm.0.layer.bias_hh", "lstm.bias_hh_l0"),
        ("head.fc.weight", "fc.weight"),
    ] {
        assert_eq!(floats(&written, pytorch), floats(&checkpoint, own));
    }
    folder.oomph(&["export", "run", "--to", "w.safetensors", "--layout", "oomph", "--force"]).success();
    assert_eq!(floats(&folder.read("w.safetensors"), "head.fc.weight"), floats(&written, "fc.weight"));
    // No temporary file is left.
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.filter(|name| name.to_string_lossy().contains("safetensors")).count(), 1);
}

#[test]
fn a_resnet_is_exported_with_the_number_of_its_steps() {
    let folder = Folder::new();
    let model = ["--set", "model.name=resnet18", "--set", "model.stem=small", "--set", "model.width=2"];
    folder.train(&[&["--set", "data.layout=image"], &model[..]].concat()).success();
    let answer =
        folder.oomph(&["export", "run", "--to", "w.safetensors", "--layout", "torchvision"]).success();
    snapshot("export", &without_numbers(&answer.to_string()));
    let written = folder.read("w.safetensors");
    let file = SafeTensors::deserialize(&written).unwrap();
    // Like torchvision's state dict: 62 parameters, 40 statistics, 20 counters.
    assert_eq!(file.names().len(), 122);
    let count = file.tensor("layer4.0.downsample.1.num_batches_tracked").unwrap();
    assert_eq!((count.dtype(), count.shape(), count.data()), (Dtype::I64, &[][..], &6i64.to_le_bytes()[..]));
}

#[test]
fn what_is_exported_evaluates_and_starts_a_training_as_the_checkpoint_does() {
    let folder = Folder::new();
    exported(&folder);
    let of_run = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success().last_json();
    let weights = ["evaluate", "--config", "tiny.toml", "--weights", "w.safetensors", "--json"];
    let of_weights = folder.oomph(&weights).success().last_json();
    assert_eq!(of_weights["eval_loss"], of_run["eval_loss"]);
    assert_eq!(
        (&of_weights["weights"], &of_weights["step"]),
        (&"w.safetensors".into(), &serde_json::Value::Null)
    );
    // From PyTorch's layout to oomph's and back.
    let convert =
        ["export", "--config", "tiny.toml", "--weights", "w.safetensors", "--to", "own.safetensors"];
    folder.oomph(&[&convert[..], &["--layout", "oomph"]].concat()).success();
    assert_eq!(
        floats(&folder.read("own.safetensors"), "head.fc.bias"),
        floats(&folder.read("w.safetensors"), "fc.bias")
    );
    let frozen = &["--set", "model.weights=own.safetensors", "--set", "run.directory=head", "--json"];
    let events = folder.train(&[HEAD, frozen].concat()).success().json_lines();
    assert_eq!(events[0]["weights"], "own.safetensors");
    // 8 features and 8 units, four gates; the head has 8 · 10 + 10.
    assert_eq!((&events[0]["parameters"], &events[0]["frozen_parameters"]), (&90.into(), &576.into()));
    let environment = String::from_utf8(folder.read("head/environment.json")).unwrap();
    assert!(
        environment.contains("\"path\": \"own.safetensors\"") && environment.contains("\"sha256\": \""),
        "{environment}"
    );
    let (before, after) =
        (folder.read("own.safetensors"), folder.read("head/checkpoints/latest/model.safetensors"));
    assert_eq!(floats(&after, "lstm.0.layer.weight_ih"), floats(&before, "lstm.0.layer.weight_ih"));
    assert_ne!(floats(&after, "head.fc.weight"), floats(&before, "head.fc.weight"));
}

#[test]
fn a_resumed_training_needs_no_weights_and_ends_with_the_same_bytes() {
    let folder = Folder::new();
    exported(&folder);
    let weights = ["--set", "model.weights=w.safetensors"];
    folder.train(&[HEAD, &weights, &["--set", "run.directory=head"]].concat()).success();
    let whole = folder.read("head/checkpoints/latest/model.safetensors");
    let halfway = ["--set", "run.directory=again", "--set", "train.steps=3"];
    folder.train(&[HEAD, &weights, &halfway].concat()).success();
    std::fs::remove_file(folder.at("w.safetensors")).unwrap();
    folder.oomph(&["train", "--resume", "again", "--set", "train.steps=6"]).success();
    assert!(folder.read("again/checkpoints/latest/model.safetensors") == whole);
    // Frozen parameters have no optimizer state; unfrozen ones start without.
    let state =
        |run: &str| String::from_utf8(folder.read(&format!("{run}/checkpoints/latest/state.json"))).unwrap();
    assert!(!state("again").contains("lstm.0"));
    let thawed = ["train", "--resume", "again", "--set", "train.steps=9", "--set", "model.freeze=[]"];
    let answer = folder.oomph(&thawed).success();
    assert!(answer.stderr.contains("`model.freeze` was `[\"lstm.0\"]` in the checkpoint and is"), "{answer}");
    assert!(state("again").contains("lstm.0"));
    let frozen = ["train", "--resume", "again", "--set", "train.steps=12"];
    folder.oomph(&[&frozen[..], &["--set", "model.freeze=['lstm']"]].concat()).success();
    assert!(!state("again").contains("lstm.0"));
}

#[test]
fn a_head_for_other_classes_starts_new_with_a_warning_and_is_no_evaluation() {
    let folder = Folder::new();
    exported(&folder);
    let synthetic = [
        "--config",
        "tiny.toml",
        "--set",
        "data.source=synthetic",
        "--set",
        "data.kind=sequence",
        "--set",
        "data.features=8",
        "--set",
        "data.classes=3",
    ];
    let weights = ["--set", "model.weights=w.safetensors", "--set", "run.directory=three", "--quiet"];
    let answer = folder.oomph(&[&["train"], &synthetic[..], &weights].concat()).success();
    let says = "warning: the head of the weights `w.safetensors` (`fc.weight`, `fc.bias`) has 10 outputs and the model \
                3: it starts new\n";
    assert!(answer.stderr.ends_with(says), "{answer}");
    let events = String::from_utf8(folder.read("three/metrics.jsonl")).unwrap();
    assert!(events.contains("it starts new"));
    let answer = folder.oomph(&[&["evaluate"], &synthetic[..], &["--weights", "w.safetensors"]].concat());
    assert_eq!(answer.code, Some(1));
    assert!(
        answer.stderr.contains("have no head that fits the model: `head.fc.weight`, `head.fc.bias`"),
        "{answer}"
    );
}

#[test]
fn the_summary_tells_what_is_frozen() {
    let folder = Folder::new();
    let summary = ["summary", "--config", "tiny.toml", "--set", "model.freeze=['lstm']"];
    snapshot("summary_frozen", &folder.oomph(&summary).success().stdout);
    let json = folder.oomph(&[&summary[..], &["--json"]].concat()).success().last_json();
    assert_eq!((&json["parameters"], &json["frozen_parameters"]), (&666.into(), &576.into()));
    assert_eq!((&json["rows"][0]["is_frozen"], &json["rows"][0]["parameters"]), (&true.into(), &576.into()));
}

#[test]
fn weights_that_do_not_fit_leave_no_run() {
    let folder = Folder::new();
    exported(&folder);
    let other =
        ["--set", "model.hidden=9", "--set", "model.weights=w.safetensors", "--set", "run.directory=other"];
    assert_eq!(folder.train(&other).code, Some(1));
    assert!(!folder.at("other").exists());
}

/// The result of `pickle.dumps` for an object that calls the system when loaded.
const CALLS: &[u8] = b"\x80\x02cposix\nsystem\nq\x00X\x0d\x00\x00\x00touch touchedq\x01\x85q\x02Rq\x03.";

#[test]
fn weights() {
    const WEIGHTS: &[&str] = &["--set", "model.weights=w.safetensors"];
    let train = |about, arguments: &[&'static str]| Case::train(about, &[WEIGHTS, arguments].concat());
    let magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
    check(
        "malformed_weights",
        &[
            train("no such file", &[]),
            train("a directory", &[])
                .after(|folder| std::fs::create_dir(folder.at("w.safetensors")).unwrap()),
            train("no file of weights", &[]).after(|folder| folder.write("w.safetensors", "PNG")),
            train("a file that was cut short", &[]).after(|folder| {
                exported(folder);
                let whole = folder.read("w.safetensors");
                folder.write("w.safetensors", &whole[..whole.len() - 7]);
            }),
            train("a pickle that calls the system", &[]).after(move |folder| {
                folder.write("w.safetensors", [&magic[..], CALLS].concat());
            }),
            train("another size", &["--set", "model.hidden=9", "--set", "run.directory=x"]).after(exported),
            train("more layers", &["--set", "model.layers=2", "--set", "run.directory=x"]).after(exported),
            train("another network", &["--set", "model.name=resnet18", "--set", "data.layout=image"])
                .after(exported),
            Case::train("a stage that is not there", &["--set", "model.freeze=['lstm', 'haed']"]),
            Case::train("all stages", &["--set", "model.freeze=['lstm', 'head']"]),
            Case::train("no list", &["--set", "model.freeze=lstm"]),
            Case::new(
                "freezing in a summary",
                &["summary", "--config", "tiny.toml", "--set", "model.freeze=['lst']"],
            ),
            Case::new("nothing trained", &["export", "--config", "tiny.toml", "--to", "w.safetensors"]),
            Case::new("no checkpoint", &["export", "nowhere", "--to", "w.safetensors"]),
            Case::new("no place to write", &["export", "run", "--to", "nowhere/w.safetensors"])
                .after(exported),
            Case::new("nowhere to write to", &["export", "run"]),
            Case::new("both", &["export", "run", "--weights", "w.pth", "--to", "w.safetensors"]),
        ],
    );
}

#[test]
fn a_pickle_is_not_run() {
    let folder = Folder::new();
    let magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
    folder.write("w.pth", [&magic[..], CALLS].concat());
    let answer = folder.train(&["--set", "model.weights=w.pth"]);
    assert!(answer.stderr.contains("byte 17: it asks for `posix.system`"), "{answer}");
    assert!(!folder.at("touched").exists());
}

#[test]
fn an_onnx_file_says_what_it_takes_and_gives() {
    let folder = Folder::new();
    let model = ["--set", "model.name=resnet18", "--set", "model.stem=small", "--set", "model.width=2"];
    folder.train(&[&["--set", "data.layout=image"], &model[..]].concat()).success();
    let answer = folder.oomph(&["export", "run", "--to", "m.onnx", "--json"]).success().last_json();
    let written = folder.read("m.onnx");
    assert_eq!(
        (&answer["opset"], &answer["step"], &answer["bytes"]),
        (&17.into(), &6.into(), &written.len().into())
    );
    let has = |text: &str| written.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    for text in ["images", "logits", "batch", "layer4.1.bn2.running_var", "oomph.source", "mean"] {
        assert!(has(text), "{text}");
    }
    let answer = folder.oomph(&["export", "run", "--to", "m.onnx"]);
    assert!(answer.code != Some(0) && answer.stderr.contains("--force"), "{answer}");
    let answer = folder.oomph(&["export", "run", "--to", "n.onnx", "--layout", "oomph"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("`--layout`") && !folder.at("n.onnx").exists(), "{answer}");
    // The weights of a file, without a run.
    folder.oomph(&["export", "run", "--to", "w.safetensors"]).success();
    let weights =
        ["export", "--config", "tiny.toml", "--set", "data.layout=image", "--weights", "w.safetensors"];
    folder.oomph(&[&weights[..], &model, &["--to", "again.onnx"]].concat()).success();
    assert_eq!(folder.read("again.onnx").len(), written.len());
}

/// A W of 2 × 3 has 2 × r and r × 3 more values; the export has W + α/r · B A.
#[test]
fn adapters_are_trained_alone_and_merged_on_export() {
    let folder = Folder::new();
    exported(&folder);
    let base = folder.read("w.safetensors");
    let adapters = ["--set", "model.weights=w.safetensors", "--set", "model.lora={ rank = 2, alpha = 3 }"];
    let run = ["--set", "run.directory=adapted", "--set", "optimizer.lr=0.5"];
    folder.train(&[&adapters[..], &run].concat()).success();
    let trained = folder.read("adapted/checkpoints/latest/model.safetensors");
    folder.oomph(&["export", "adapted", "--to", "merged.safetensors"]).success();
    let merged = folder.read("merged.safetensors");
    let names = |bytes: &[u8]| -> Vec<String> {
        let mut names: Vec<_> =
            SafeTensors::deserialize(bytes).unwrap().names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(names(&merged), names(&base));
    let name = "lstm.0.layer.weight_ih";
    let (shape, before) = floats(&base, "lstm.weight_ih_l0");
    let (_, weight) = floats(&trained, name);
    assert_eq!(weight, before, "the weight itself is frozen");
    let [(_, a), (of_b, b)] =
        [".lora_a", ".lora_b"].map(|ending| floats(&trained, &format!("{name}{ending}")));
    assert_eq!(of_b, [shape[0], 2]);
    assert!(b.iter().any(|value| *value != 0.0), "the adapter is trained");
    let (_, found) = floats(&merged, "lstm.weight_ih_l0");
    for (at, found) in found.iter().enumerate() {
        let (row, column) = (at / shape[1], at % shape[1]);
        let change: f32 = (0..2).map(|rank| b[2 * row + rank] * a[rank * shape[1] + column]).sum();
        assert!((found - weight[at] - 1.5 * change).abs() < 1e-6, "{at}");
    }
    // State of the optimizer is the adapters' alone.
    let state = String::from_utf8(folder.read("adapted/checkpoints/latest/state.json")).unwrap();
    assert!(!state.contains("\"head"), "{state}");
    // Evaluated with its adapters and merged, the model has the same loss.
    let loss = |arguments: &[&str]| {
        let answer = folder.oomph(&[&["evaluate", "--json"], arguments].concat()).success().last_json();
        answer["eval_loss"].as_f64().expect("a loss")
    };
    let of_merged = ["--config", "tiny.toml", "--set", "model.weights=merged.safetensors"];
    folder
        .train(
            &[
                &of_merged[2..],
                &["--set", "train.steps=1", "--set", "optimizer.lr=1e-30", "--set", "run.directory=plain"],
            ]
            .concat(),
        )
        .success();
    let (one, other) = (loss(&["--checkpoint", "adapted"]), loss(&["--checkpoint", "plain"]));
    assert!((one - other).abs() < 1e-6, "{one} {other}");
}
