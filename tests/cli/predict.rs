use std::{fs, path::Path};

use serde_json::Value;

use crate::{
    photos::{cats_and_dogs, jpeg},
    support::{Case, Folder, check, snapshot, without_numbers},
};

/// A model trained on cats and dogs, with its photos; the held-out ones are moved to `held-out`.
fn trained() -> Folder {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    for seed in 5..25 {
        let class = ["cat", "dog"][usize::from(seed) % 2];
        folder.write(&format!("photos/test/{class}/{seed}.jpg"), jpeg(seed));
    }
    folder.oomph(&["train", "--config", "photos.toml", "--set", "train.steps=40"]).success();
    folder
}

fn predictions(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let answer = folder.oomph(&[&["predict", "--run", "run", "--json"], arguments].concat()).success();
    let mut events = answer.json_lines();
    let done = events.pop().expect("a last line");
    assert_eq!((&done["event"], done["files"].as_u64()), (&"done".into(), Some(events.len() as u64)));
    events
}

/// The share of files whose most likely class is the name of their folder.
fn accuracy(predictions: &[Value]) -> f64 {
    let is_right = |prediction: &&Value| {
        let file = Path::new(prediction["file"].as_str().expect("a file"));
        let folder = file.parent().and_then(Path::file_name).expect("a class folder");
        folder.to_str() == prediction["classes"][0]["class"].as_str()
    };
    predictions.iter().filter(is_right).count() as f64 / predictions.len() as f64
}

#[test]
fn its_likeliest_classes_are_right_as_often_as_evaluation_finds() {
    let folder = trained();
    let evaluated = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success().last_json();
    let predictions = predictions(&folder, &["photos/test"]);
    assert_eq!(Some(predictions.len() as u64), evaluated["samples"].as_u64());
    assert_eq!(Some(accuracy(&predictions)), evaluated["eval_accuracy"].as_f64());
    // The test is only meaningful if the model is sometimes right and sometimes wrong.
    assert!((0.01..0.99).contains(&accuracy(&predictions)), "{}", accuracy(&predictions));
    for prediction in &predictions {
        let classes = prediction["classes"].as_array().expect("classes");
        let sum: f64 = classes.iter().filter_map(|class| class["probability"].as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-9 && classes.len() == 2, "{prediction}");
    }
}

#[test]
fn the_training_data_need_not_be_there_and_other_data_changes_nothing() {
    let folder = trained();
    let before = predictions(&folder, &["photos/test/cat/4.jpg"]);
    fs::rename(folder.at("photos"), folder.at("elsewhere")).unwrap();
    fs::remove_dir_all(folder.at("cache")).unwrap();
    let moved = predictions(&folder, &["elsewhere/test/cat/4.jpg"]);
    assert_eq!(moved[0]["classes"], before[0]["classes"]);
    // The statistics of the training apply, not those of the new images.
    for seed in 0..3 {
        folder.write(&format!("photos/train/cat/{seed}.jpg"), jpeg(200));
        folder.write(&format!("photos/test/cat/{seed}.jpg"), jpeg(200));
    }
    assert_eq!(predictions(&folder, &["elsewhere/test/cat/4.jpg"])[0]["classes"], before[0]["classes"]);
}

#[test]
fn a_line_a_file_for_people() {
    let folder = trained();
    let answer = folder
        .oomph(&["predict", "--run", "run", "--top", "1", "photos/test/dog/4.jpg", "photos/train/cat"])
        .success();
    snapshot(
        "predict",
        &without_numbers(&answer.to_string()).replace("dog N %", "CLASS N %").replace("cat N %", "CLASS N %"),
    );
}

#[test]
fn files_that_cannot_be_read_are_named_and_the_others_predicted() {
    let folder = trained();
    folder.write("photos/test/cat/6.jpg", &jpeg(6)[..60]);
    folder.write("notes.txt", "no image");
    let arguments = ["predict", "--run", "run", "photos/test/cat", "notes.txt", "gone.jpg"];
    let answer = folder.oomph(&arguments);
    assert_eq!((answer.code, answer.stdout.lines().count()), (Some(1), 10), "{answer}");
    snapshot("predict_unreadable", &answer.stderr);
    let answer = folder.oomph(&[&arguments[..], &["--json"]].concat());
    let events = answer.json_lines();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((named("prediction"), named("unreadable"), named("error")), (10, 3, 1), "{answer}");
    assert_eq!((answer.last_json()["event"].clone(), answer.code), ("error".into(), Some(1)));
}

#[test]
fn a_setting_that_cannot_change_how_images_are_read_is_named() {
    let folder = trained();
    let sets = ["--set", "data.size=4", "--set", "data.workers=2", "--set", "train.eval_batch=3"];
    let arguments = [&["predict", "--run", "run", "photos/test/cat/4.jpg"], &sets[..]].concat();
    let answer = folder.oomph(&arguments).success();
    assert_eq!(answer.stderr, "warning: `data.size` has no effect: images are read as in training\n");
    let plain = folder.oomph(&arguments[..4]).success();
    assert_eq!(answer.stdout, plain.stdout);
}

#[test]
fn a_checkpoint_is_chosen_by_name_or_step() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    folder
        .oomph(&[
            "train",
            "--config",
            "photos.toml",
            "--set",
            "run.save_every='1 step'",
            "--set",
            "run.keep_last=9",
        ])
        .success();
    let step = |which: &str| {
        let arguments = ["predict", "--run", "run", "--json", "--checkpoint", which, "photos/test/cat/4.jpg"];
        folder.oomph(&arguments).success().last_json()["step"].as_u64()
    };
    assert_eq!((step("latest"), step("1"), step("2")), (Some(3), Some(1), Some(2)));
    let best = fs::read_link(folder.at("run/checkpoints/best")).unwrap();
    assert!(best.to_string_lossy().ends_with(&step("best").unwrap().to_string()), "{best:?}");
}

#[test]
fn the_digits_model_reads_pictures_of_digits() {
    let folder = Folder::new();
    folder.train(&[]).success();
    let picture = image::GrayImage::from_fn(8, 8, |x, y| image::Luma([((x * y) % 17 * 15) as u8]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    folder.write("digit.png", bytes.into_inner());
    let prediction = &predictions(&folder, &["--top", "10", "digit.png"])[0];
    let mut classes: Vec<_> =
        prediction["classes"].as_array().unwrap().iter().map(|it| it["class"].as_str().unwrap()).collect();
    classes.sort_unstable();
    assert_eq!(classes, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn what_is_wrong_is_said() {
    let train = |folder: &Folder| drop(folder.train(&[]).success());
    check(
        "malformed_predict",
        &[
            Case::new("no input", &["predict"]),
            Case::new("nothing trained", &["predict", "x.jpg"]),
            Case::new("no such run", &["predict", "--run", "nowhere", "x.jpg"]),
            Case::new("no such step", &["predict", "--run", "run", "--checkpoint", "7", "x.jpg"])
                .after(train),
            Case::new("no such word", &["predict", "--run", "run", "--checkpoint", "newest", "x.jpg"]),
            Case::new("no best", &["predict", "--run", "run", "--checkpoint", "best", "x.jpg"]).after(
                |folder| {
                    folder.train(&["--set", "train.eval_every=never"]).success();
                },
            ),
            Case::new("no class", &["predict", "--run", "run", "--top", "0", "x.jpg"]),
            Case::new("an empty folder", &["predict", "--run", "run", "run/checkpoints"]).after(train),
            Case::new("a model of sequences", &["predict", "--run", "run", "x.jpg"]).after(|folder| {
                let sequences = ["--set", "data.source=synthetic", "--set", "data.kind=sequence"];
                folder.train(&sequences).success();
            }),
            Case::new("from before", &["predict", "--run", "run", "x.jpg"]).after(move |folder| {
                train(folder);
                forget_source(folder);
            }),
        ],
    );
}

/// A checkpoint of a version without `source.json`.
fn forget_source(folder: &Folder) {
    let checkpoint = folder.at("run/checkpoints/step-00000006");
    fs::remove_file(checkpoint.join("source.json")).unwrap();
    let path = checkpoint.join("state.json");
    let sealed: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut state = sealed["state"].clone();
    state["files"].as_object_mut().unwrap().remove("source.json");
    let state = state.to_string();
    let sha256 = sha256(&state);
    fs::write(path, format!("{{\"sha256\":\"{sha256}\",\"state\":{state}}}")).unwrap();
}

fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
