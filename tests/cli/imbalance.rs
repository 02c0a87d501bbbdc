//! Weights of classes and balanced sampling, from outside.

use crate::{
    photos::cats_and_dogs,
    support::{Case, Folder, check},
};

#[test]
fn weights_that_do_not_fit_the_classes_are_refused() {
    let series = |folder: &Folder| {
        let rows: String = (0..60).map(|row| format!("{row}\n")).collect();
        folder.write("series.csv", format!("line\n{rows}"));
    };
    const SERIES: [&str; 6] =
        ["--set", "data.source=csv", "--set", "data.path=series.csv", "--set", "data.steps=4"];
    let photos = |about, setting: &'static str| {
        Case::new(about, &["train", "photos.toml", "--set", setting]).after(cats_and_dogs)
    };
    let of_series = |about, setting: &'static str| {
        Case::train(about, &[&["--set", setting], &SERIES[..]].concat()).after(series)
    };
    check(
        "class_weights",
        &[
            photos("no such word", "train.class_weights=even"),
            photos("a weight of nothing", "train.class_weights=[1, 0]"),
            photos("too many weights", "train.class_weights=[1, 2, 3]"),
            photos("no such class", "train.class_weights.cow=2"),
            photos("a weight that is no number", "train.class_weights.cat=much"),
            of_series("weights of a regression", "train.class_weights=balanced"),
            of_series("balanced samples of a regression", "data.sampling=balanced"),
            photos("no such sampling", "data.sampling=even"),
        ],
    );
}

#[test]
fn named_weights_train_as_listed_ones() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let loss = |name: &str, settings: &[&str]| {
        let directory = format!("run.directory={name}");
        let directory = directory.as_str();
        let sets = settings.iter().chain([&directory]).flat_map(|setting| ["--set", setting]);
        let arguments: Vec<_> = ["train", "photos.toml", "--json"].into_iter().chain(sets).collect();
        let done = folder.oomph(&arguments).success().last_json();
        (done["loss"].clone(), done["eval_loss"].clone())
    };
    let plain = loss("plain", &[]);
    let listed = loss("listed", &["train.class_weights=[1, 4]"]);
    assert_ne!(listed, plain);
    assert_eq!(loss("named", &["train.class_weights.dog=4"]), listed);
    // As many photos of each class have equal weights, which change the sums by a rounding only.
    let balanced = loss("balanced", &["train.class_weights=balanced"]);
    let [one, other] = [&plain.1, &balanced.1].map(|loss| loss.as_f64().expect("a number"));
    assert!((one / other - 1.0).abs() < 1e-5, "{one} and {other}");
}

#[test]
fn a_run_does_not_continue_with_other_weights_or_draws() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    folder.oomph(&["train", "photos.toml"]).success();
    for setting in ["train.class_weights.dog=4", "train.class_weights=balanced", "data.sampling=balanced"] {
        let (key, value) = setting.split_once('=').expect("a setting");
        let text = String::from_utf8(folder.read("photos.toml")).expect("text");
        let value = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("'{value}'") };
        let (section, name) = key.split_once('.').expect("a section");
        let section = format!("[{section}]\n");
        folder.write("other.toml", text.replacen(&section, &format!("{section}{name} = {value}\n"), 1));
        let answer = folder.oomph(&["train", "other.toml", "--resume", "--steps", "4"]);
        assert!(answer.code == Some(1) && answer.stderr.contains(key), "{answer}");
    }
}

#[test]
fn balanced_sampling_is_planned_and_trains() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let balanced = ["--set", "data.sampling=balanced", "--set", "train.class_weights=balanced"];
    folder.oomph(&[&["plan", "photos.toml"], &balanced[..]].concat()).success();
    folder.oomph(&[&["train", "photos.toml"], &balanced[..]].concat()).success();
    // A trained model predicts without the data.
    std::fs::rename(folder.at("photos/test/cat/4.jpg"), folder.at("cat.jpg")).expect("renamed");
    std::fs::remove_dir_all(folder.at("photos")).expect("removed");
    folder.oomph(&["predict", "run", "cat.jpg"]).success();
    // Without the data, a plan has the shapes that the config declares.
    let declared = ["--set", "data.size=8", "--set", "data.classes=2"];
    folder.oomph(&[&["plan", "photos.toml"], &balanced[..], &declared[..]].concat()).success();
}
