//! Images with any number of labels, from the table to the prediction.

use serde_json::Value;

use crate::{
    photos::{CONFIG, jpeg},
    support::{Case, Folder, check, snapshot, without_numbers},
};

const TABLE: &str = "\
file,tags,part
1.jpg,sun water,train
2.jpg,,train
3.jpg,water,train
4.jpg,sun,train
5.jpg,clouds water,train
6.jpg,clouds,train
7.jpg,water,val
8.jpg,,val
9.jpg,clouds sun,val
10.jpg,water sun,val
11.jpg,sun,val
";

const KEYS: &str = "\
labels = 'labels.csv'
label_column = 'tags'
label_separator = ' '
split_column = 'part'
";

/// Photos of 11 skies with a table of their tags, and a config.
fn skies(folder: &Folder) {
    for seed in 1..12 {
        folder.write(&format!("{seed}.jpg"), jpeg(seed));
    }
    folder.write("labels.csv", TABLE);
    folder.write("skies.toml", CONFIG.replace("path = 'photos'\n", KEYS));
}

fn trained(steps: &str, more: &[&str]) -> (Folder, Vec<Value>) {
    let folder = Folder::new();
    skies(&folder);
    let train = ["train", "skies.toml", "--steps", steps, "--json"];
    let events = folder.oomph(&[&train, more].concat()).success().json_lines();
    (folder, events)
}

/// The last evaluation of a training.
fn evaluation(events: &[Value]) -> &Value {
    events.iter().rfind(|event| event["event"] == "eval").expect("an evaluation")
}

#[test]
fn the_data_is_described_by_its_labels() {
    let folder = Folder::new();
    skies(&folder);
    snapshot("data_labels", &folder.oomph(&["data", "skies.toml"]).success().to_string());
    let json = folder.oomph(&["data", "skies.toml", "--json"]).success().last_json();
    assert_eq!(json["target"]["labels"]["count"], 3);
    assert_eq!(json["labels"][1], serde_json::json!({ "label": "sun", "index": 1, "train": 2, "test": 3 }));
    assert_eq!(json["train"]["labels"], serde_json::json!({ "samples": [2, 2, 3], "without": 1, "most": 2 }));
    assert_eq!(json.get("classes"), None);
    let preview = folder.oomph(&["data", "skies.toml", "--preview", "sheet.png"]).success();
    assert!(preview.stdout.contains("clouds, water"), "{preview}");
}

#[test]
fn predictions_and_evaluation_agree() {
    let (folder, events) = trained("30", &["--set", "optimizer.lr=0.05"]);
    let answer = folder.oomph(&["evaluate", "run"]).success();
    // Widths of columns follow from the numbers.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = without_numbers(&answer.stdout).lines().map(words).collect();
    snapshot("evaluate_labels", &lines.join("\n"));
    let evaluated = folder.oomph(&["evaluate", "run", "--json"]).success().last_json();
    let files = ["7.jpg", "8.jpg", "9.jpg", "10.jpg", "11.jpg"];
    let mut predicted =
        folder.oomph(&[&["predict", "run", "--json"], &files[..]].concat()).success().json_lines();
    predicted.pop();
    let truth = |file: &str, label: &str| {
        let row = TABLE.lines().find(|row| row.starts_with(&format!("{file},"))).expect("a row");
        row.split(',').nth(1).expect("tags").split(' ').any(|tag| tag == label)
    };
    let (mut counts, mut exact) = ([[0_u64; 3]; 3], 0);
    for prediction in &predicted {
        let file = prediction["file"].as_str().expect("a file");
        let mut is_exact = true;
        for label in prediction["labels"].as_array().expect("labels") {
            let probability = label["probability"].as_f64().expect("a number");
            let is_predicted = label["predicted"].as_bool().expect("whether");
            assert_eq!(is_predicted, probability >= 0.5);
            let is_true = truth(file, label["label"].as_str().expect("a name"));
            let of_label = &mut counts[label["index"].as_u64().expect("an index") as usize];
            match (is_predicted, is_true) {
                (true, true) => of_label[0] += 1,
                (true, false) => of_label[1] += 1,
                (false, true) => of_label[2] += 1,
                (false, false) => {}
            }
            is_exact &= is_predicted == is_true;
        }
        exact += u64::from(is_exact);
    }
    assert_eq!(evaluated["eval_accuracy"], exact as f64 / 5.0);
    for (index, name) in ["clouds", "sun", "water"].iter().enumerate() {
        let label = &evaluated["scores"]["labels"][index];
        assert_eq!(label["label"], *name);
        let keys = ["true_positives", "false_positives", "false_negatives"];
        assert_eq!(keys.map(|key| label["score"][key].as_u64()), counts[index].map(Some), "{name}");
    }
    // The log of the training has the same scores.
    let last = evaluation(&events);
    assert_eq!(last["eval_map"], evaluated["scores"]["map"]);
    assert_eq!(last["eval_micro_f1"], evaluated["scores"]["micro"]["f1"]);
    assert_eq!(last["eval_macro_f1"], evaluated["scores"]["macro"]["f1"]);
    let text = folder.oomph(&["predict", "run", "9.jpg"]).success();
    let names = ["clouds", "sun", "water"];
    assert!(names.iter().all(|name| text.stdout.contains(name)), "{text}");
    let refused = folder.oomph(&["evaluate", "run", "--confusion", "matrix.svg"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("there is no confusion matrix"), "{refused}");
}

#[test]
fn ranks_find_the_scores_of_one_device() {
    let scores = |more: &[&str]| {
        let sets = [
            "--batch",
            "6",
            "--set",
            "train.eval_every=1 steps",
            "--set",
            "optimizer.lr=0.05",
            "--set",
            "train.best=map",
        ];
        let (_folder, events) = trained("4", &[&sets, more].concat());
        let last = evaluation(&events);
        ["samples", "eval_accuracy", "eval_map", "eval_micro_f1", "eval_macro_f1"]
            .map(|key| last[key].clone())
    };
    let alone = scores(&[]);
    assert!(alone.iter().all(Value::is_number), "{alone:?}");
    for devices in ["cpu,cpu", "cpu,cpu,cpu"] {
        assert_eq!(scores(&["--devices", devices, "--strategy", "ddp"]), alone, "{devices}");
    }
}

#[test]
fn a_model_of_labels_is_planned_and_exported() {
    let (folder, _) = trained("2", &[]);
    let declared = ["plan", "skies.toml", "--set", "data.size=8", "--set", "data.classes=3"];
    folder.oomph(&declared).success();
    for table in ["labels.csv", "1.jpg"] {
        std::fs::rename(folder.at(table), folder.at(&format!("x{table}"))).expect("renamed");
    }
    folder.oomph(&declared).success();
    folder.oomph(&["predict", "run", "2.jpg"]).success();
    folder.oomph(&["export", "run", "--to", "m.safetensors"]).success();
    folder.oomph(&["export", "run", "--to", "m.onnx"]).success();
    let onnx = String::from_utf8_lossy(&folder.read("m.onnx")).into_owned();
    assert!(onnx.contains(r#"["clouds","sun","water"]"#) && onnx.contains("logits"));
}

#[test]
fn a_model_of_labels_is_not_evaluated_on_classes_or_other_labels() {
    let (folder, _) = trained("2", &[]);
    folder.write("labels.csv", TABLE.replace("clouds", "fog"));
    let answer = folder.oomph(&["evaluate", "run"]);
    let says = "label 0 was \"clouds\", and is \"fog\" now";
    assert!(answer.code == Some(1) && answer.stderr.contains(says), "{answer}");
    let row = |index: usize| {
        format!("{index}.jpg,{},{}\n", ["sun", "water"][index % 2], ["train", "val"][index / 7])
    };
    folder.write("labels.csv", "file,tags,part\n".to_owned() + &(1..12).map(row).collect::<String>());
    let config = String::from_utf8(folder.read("skies.toml")).expect("text");
    folder.write("classes.toml", config.replace("label_separator = ' '\n", ""));
    let answer = folder.oomph(&["evaluate", "run", "--config", "classes.toml"]);
    let says = "targets were any of 3 labels, and are 2 classes now";
    assert!(answer.code == Some(1) && answer.stderr.contains(says), "{answer}");
}

#[test]
fn settings_that_do_not_fit_labels_are_refused() {
    let case = |about, setting: &'static str| {
        Case::new(about, &["train", "skies.toml", "--set", setting]).after(skies)
    };
    check(
        "labels_mistakes",
        &[
            case("classes of labels", "train.task=classification"),
            case("balanced samples", "data.sampling=balanced"),
            case("a weight for a label that is not there", "train.class_weights.rain=2"),
            case("a measure of classes", "train.best=top-5 accuracy"),
            case("another separator", "data.label_separator=|"),
            case("one column for several labels", "data.label_columns=all"),
            Case::new("columns that are no marks", &["train", "skies.toml"]).after(|folder| {
                skies(folder);
                let keys = "labels = 'labels.csv'\nlabel_columns = 'all'\nsplit_column = 'part'\n";
                folder.write("skies.toml", CONFIG.replace("path = 'photos'\n", keys));
            }),
            case("another number of labels", "data.classes=4"),
            case("labels of class folders", "data.labels=none.csv"),
        ],
    );
}
