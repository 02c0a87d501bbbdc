//! Folders of Hugging Face: settings and weights are read from them and written to them.

use safetensors::SafeTensors;

use crate::support::{Folder, snapshot, without_numbers};

const TEXT: &str = "\
[model]
name = 'gpt'
config = 'hf'
weights = 'hf'

[data]
source = 'synthetic'
kind = 'tokens'
vocabulary = 11
steps = 7
train_samples = 8
test_samples = 4
carry = false
workers = 0

[train]
steps = 2
batch = 4

[run]
directory = 'run'
";

/// A folder with a config and a golden network of Hugging Face.
fn folder(network: &str) -> Folder {
    let folder = Folder::new();
    folder.write("text.toml", TEXT);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/hugging_face/");
    for name in ["config.json", "model.safetensors"] {
        folder.write(&format!("hf/{name}"), std::fs::read(format!("{golden}{network}/{name}")).unwrap());
    }
    folder
}

fn tensors(folder: &Folder, path: &str) -> Vec<(String, Vec<usize>, Vec<u8>)> {
    let bytes = folder.read(path);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<_> = file
        .iter()
        .map(|(name, view)| (name.to_owned(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    tensors.sort();
    tensors
}

const EXPORT: [&str; 5] = ["export", "--config", "text.toml", "--weights", "hf"];

#[test]
fn a_network_of_hugging_face_is_written_as_it_was_read() {
    for network in ["gpt2", "gpt2_untied", "llama", "llama_tied"] {
        let folder = folder(network);
        let answer = folder.oomph(&[&EXPORT[..], &["--to", "again/"]].concat()).success();
        if network == "llama" {
            snapshot("export_hugging_face", &without_numbers(&answer.stdout));
        }
        assert_eq!(tensors(&folder, "again/model.safetensors"), tensors(&folder, "hf/model.safetensors"));
        // The new folder describes the same network.
        let again = ["--set", "model.config=again", "--weights", "again", "--json"];
        let evaluate = |more: &[&str]| {
            let command = [&["evaluate", "--config", "text.toml"], more].concat();
            folder.oomph(&command).success().last_json()["eval_loss"].clone()
        };
        assert_eq!(evaluate(&again), evaluate(&["--weights", "hf", "--json"]), "{network}");
        let answer = folder.oomph(&[&EXPORT[..], &["--to", "again"]].concat());
        assert!(answer.code == Some(1) && answer.stderr.contains("again/model.safetensors"), "{answer}");
        folder.oomph(&[&EXPORT[..], &["--to", "again", "--force"]].concat()).success();
    }
}

#[test]
fn a_run_that_was_started_from_a_folder_continues_without_it() {
    let folder = folder("llama");
    folder.oomph(&["train", "--config", "text.toml", "--quiet"]).success();
    folder
        .oomph(&[
            "train",
            "--config",
            "text.toml",
            "--quiet",
            "--set",
            "run.directory=whole",
            "--set",
            "train.steps=4",
        ])
        .success();
    let shown = folder.oomph(&["config", "--config", "text.toml"]).success().stdout;
    assert!(shown.contains("hf/config.json: rms_norm_eps"), "{shown}");
    std::fs::remove_dir_all(folder.at("hf")).unwrap();
    folder.oomph(&["train", "--resume", "run", "--quiet", "--set", "train.steps=4"]).success();
    let last = |run: &str| folder.read(&format!("{run}/checkpoints/latest/model.safetensors"));
    assert!(last("run") == last("whole"));
    folder.oomph(&["export", "run", "--to", "trained/"]).success();
    assert!(String::from_utf8(folder.read("trained/config.json")).unwrap().contains("LlamaForCausalLM"));
}

#[test]
fn settings_that_contradict_a_folder_are_refused_at_once() {
    let says = |network: &str, settings: &[&str]| {
        let folder = folder(network);
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let train = ["train", "--config", "text.toml"].into_iter().chain(settings);
        let answer = folder.oomph(&train.collect::<Vec<_>>());
        assert!(answer.code == Some(1) && !folder.at("run").exists(), "{answer}");
        answer.stderr
    };
    let messages = [
        says("llama", &["model.layers=3", "model.norm=layer", "data.vocabulary=12"]),
        says("llama", &["model.config=nowhere"]),
        says("vit", &[]),
    ];
    snapshot("malformed_hugging_face", &messages.join("\n"));
}

#[test]
fn a_network_that_hugging_face_lacks_is_refused() {
    let folder = folder("llama");
    std::fs::remove_file(folder.at("hf/model.safetensors")).unwrap();
    folder.write("text.toml", TEXT.replace("weights = 'hf'", "norm = 'layer'\nbias = true"));
    folder.oomph(&["train", "--config", "text.toml", "--quiet"]).success();
    folder.train(&["--set", "run.directory=tiny", "--quiet"]).success();
    let answers = [
        folder.oomph(&["export", "run", "--to", "folder/"]),
        folder.oomph(&["export", "tiny", "--to", "folder/"]),
        folder.oomph(&["export", "run", "--to", "folder/", "--layout", "oomph"]),
    ];
    snapshot("export_not_hugging_face", &answers.map(|answer| answer.to_string()).join("\n"));
    assert!(!folder.at("folder").exists());
}

/// No shape of a parameter shows how many heads share its features.
#[test]
fn exported_weights_tell_the_settings_that_no_shape_shows() {
    let folder = folder("gpt2");
    folder.oomph(&[&EXPORT[..], &["--to", "w.safetensors"]].concat()).success();
    folder.write("own.toml", TEXT.replace("config = 'hf'\n", "hidden = 8\nlayers = 2\ncontext = 9\n"));
    let own = ["evaluate", "--config", "own.toml", "--weights", "w.safetensors"];
    let fits = ["--set", "model.heads=2", "--set", "model.epsilon=0.001"];
    folder.oomph(&[&own[..], &fits].concat()).success();
    let differs = ["--set", "model.heads=4", "--set", "model.epsilon=0.001"];
    let answer = folder.oomph(&[&own[..], &differs].concat());
    assert_eq!(answer.code, Some(1));
    let says =
        "error: the weights `w.safetensors` are of a network with `model.heads` = 2, and the model has 4";
    assert!(
        answer.stderr.contains(says) && answer.stderr.contains("hint: `--set model.heads=2`"),
        "{answer}"
    );
}
