//! A config that `oomph init` writes trains the data that it was written for.

use std::{
    fs,
    io::{Read, Write},
    process::Stdio,
};

use serde_json::Value;

use crate::{
    photos::{cats_and_dogs, jpeg},
    support::{Case, Folder, check, snapshot, without_numbers},
    terminal::pseudo_terminal,
};

/// Writes a config for `data`, checks that all commands take it, and returns what `init` says.
fn initialised(folder: &Folder, data: &str, more: &[&str]) -> Value {
    let arguments = [&["init", data, "--to", "x.toml", "--force", "--json"], more].concat();
    let json = folder.oomph(&arguments).success().last_json();
    folder.oomph(&["config", "x.toml"]).success();
    let plan = folder.oomph(&["plan", "x.toml", "--json"]).success().last_json();
    let batch = json["batch"].as_u64().expect("a batch");
    let planned = plan["batches"].as_array().expect("batches").iter().find(|row| row["batch"] == batch);
    let planned = planned.expect("the batch of the config");
    if !more.contains(&"--gpu") {
        assert_eq!(planned["planned_peak_bytes"], json["planned_peak_bytes"]);
        assert_eq!(planned["fits"], true);
    }
    json
}

/// The same, and trains some steps.
fn trained(folder: &Folder, data: &str) -> Value {
    let json = initialised(folder, data, &[]);
    folder.oomph(&["train", "x.toml", "--steps", "2", "--quiet"]).success();
    json
}

#[test]
fn split_folders_of_photos_are_trained() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let json = trained(&folder, "photos");
    assert_eq!((json["source"].as_str(), json["model"].as_str()), (Some("folder"), Some("resnet18")));
    assert_eq!((&json["train_samples"], &json["test_samples"]), (&6.into(), &2.into()));
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    snapshot("init_photos", &without_numbers(&text));
}

#[test]
fn class_folders_of_photos_are_trained() {
    let folder = Folder::new();
    for index in 0..40 {
        let class = if index < 30 { "cat" } else { "dog" };
        folder.write(&format!("my photos/{class}/{index}.jpg"), jpeg(index));
    }
    trained(&folder, "my photos");
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    assert!(
        text.contains("# class_weights = \"balanced\"   # `cat` has 24 training samples, and `dog` has 8"),
        "{text}"
    );
    assert!(text.contains("20 % of each class"), "{text}");
    // The name of the config is that of the data.
    let answer = folder.oomph(&["init", "my photos"]).success();
    assert!(answer.stdout.starts_with("config  my-photos.toml\n"), "{answer}");
    assert!(folder.at("my-photos.toml").is_file());
}

#[test]
fn a_table_of_labels_is_trained() {
    let folder = Folder::new();
    let mut table = "id,filename,species\n".to_owned();
    for index in 0..12 {
        folder.write(&format!("birds/images/{index}.jpg"), jpeg(index));
        table += &format!("{index},images/{index}.jpg,{}\n", ["wren", "robin"][usize::from(index % 2)]);
    }
    folder.write("birds/labels.csv", table);
    let json = trained(&folder, "birds");
    assert_eq!(json["found"], "12 images with a table of labels");
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    for line in ["labels = \"birds/labels.csv\"", "file_column = \"filename\"", "label_column = \"species\""]
    {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(trained(&folder, "birds/labels.csv")["source"], "folder");
}

/// An IDX file of these sizes, whose bytes repeat `values`.
fn idx(sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let count: u32 = sizes.iter().product();
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(values.iter().cycle().take(count as usize));
    bytes
}

#[test]
fn idx_files_are_trained() {
    let folder = Folder::new();
    for (part, count) in [("train", 40), ("t10k", 10)] {
        folder
            .write(&format!("mine/{part}-images-idx4-ubyte"), idx(&[count, 12, 12, 3], &[7, 80, 200, 31, 5]));
        folder.write(&format!("mine/{part}-labels-idx1-ubyte"), idx(&[count], &[1, 2, 3]));
    }
    assert_eq!(trained(&folder, "mine")["source"], "idx");
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    assert!(text.contains("channels = 3\n") && text.contains("first_label = 1 "), "{text}");
}

#[test]
fn cifar_10_is_trained() {
    let folder = Folder::new();
    let images = |count: u8| -> Vec<u8> {
        (0..count).flat_map(|label| [vec![label % 10], vec![label * 3; 3072]].concat()).collect()
    };
    for index in 1..=5 {
        folder.write(&format!("cifar/data_batch_{index}.bin"), images(10));
    }
    folder.write("cifar/test_batch.bin", images(10));
    assert_eq!(trained(&folder, "cifar")["source"], "cifar10");
}

#[test]
fn a_series_is_trained_on_its_numeric_columns() {
    let folder = Folder::new();
    let rows: String =
        (0..300).map(|row| format!("2024-01-01;{};{}\n", row % 7, f64::from(row) / 10.0)).collect();
    folder.write("weather.csv", format!("day;rain;wind speed\n{rows}"));
    let json = trained(&folder, "weather.csv");
    assert_eq!((json["source"].as_str(), json["model"].as_str()), (Some("csv"), Some("lstm")));
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    for line in ["columns = [\"rain\", \"wind speed\"]", "delimiter = \";\"", "steps = 20"] {
        assert!(text.contains(line), "{text}");
    }
    fs::create_dir(folder.at("station")).expect("a folder");
    fs::rename(folder.at("weather.csv"), folder.at("station/weather.csv")).expect("moved");
    assert_eq!(trained(&folder, "station")["source"], "csv");
}

#[test]
fn texts_are_trained() {
    let folder = Folder::new();
    folder.write("books/one.txt", "to be or not to be. ".repeat(100));
    folder.write("books/two.txt", "that is the question. ".repeat(100));
    let json = trained(&folder, "books");
    assert_eq!((json["source"].as_str(), json["model"].as_str()), (Some("text"), Some("lstm-lm")));
    assert_eq!(trained(&folder, "books/one.txt")["found"], "1 text file");
}

#[test]
fn the_batch_fits_the_gpu() {
    let folder = Folder::new();
    for index in 0..80 {
        folder.write(&format!("photos/{}/{index}.jpg", ["a", "b"][usize::from(index % 2)]), jpeg(index));
    }
    let of = |gpu: &str| initialised(&folder, "photos", &["--gpu", gpu, "--size", "224"]);
    let batch = |json: &Value| json["batch"].as_u64().expect("a batch");
    let peak = |json: &Value| json["planned_peak_bytes"].as_u64().expect("bytes");
    let large = of("RTX 4090");
    let small = of(&format!("{}KiB", peak(&large) / 1024 - 1));
    assert!(batch(&small) < batch(&large) && peak(&small) < peak(&large), "{small} and {large}");
    let text = String::from_utf8(folder.read("x.toml")).expect("text");
    assert!(text.contains("devices = \"cuda:0\"") && text.contains("stem = \"standard\""), "{text}");
}

#[test]
fn the_next_steps_are_for_the_gpu() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let arguments = ["init", "photos", "--gpu", "RTX 3060 12GB", "--to", "my photos.toml", "--yes"];
    let answer = folder.oomph(&arguments).success();
    assert!(answer.stdout.contains("oomph plan 'my photos.toml' --gpu 'RTX 3060 12GB'\n"), "{answer}");
    assert!(answer.stdout.contains("cuda:0: train with a build that has the feature `cuda`"), "{answer}");
    let plan = ["plan", "my photos.toml", "--gpu", "RTX 3060 12GB"];
    assert!(folder.oomph(&plan).success().stdout.contains("fits"));
}

#[test]
fn a_config_is_never_replaced_unasked() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    folder.write("x.toml", "mine");
    let answer = folder.oomph(&["init", "photos", "--to", "x.toml"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert_eq!(folder.read("x.toml"), b"mine");
    folder.oomph(&["init", "photos", "--to", "x.toml", "--force"]).success();
    assert_ne!(folder.read("x.toml"), b"mine");
}

#[test]
fn a_terminal_is_asked_and_an_empty_answer_is_the_default() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    std::fs::remove_file(folder.at("photos.toml")).expect("removed");
    let (mut ours, theirs) = pseudo_terminal(100);
    ours.write_all(b"photos\n\nlstm\n").expect("a terminal");
    let mut command = folder.command(&["init", "--epochs", "3"]);
    command.stdin(theirs.try_clone().expect("a copy")).stdout(Stdio::piped()).stderr(theirs);
    let child = command.spawn().expect("the binary starts");
    // The command also holds the terminal open.
    drop(command);
    let answer = child.wait_with_output().expect("a child of this process");
    assert!(answer.status.success(), "{answer:?}");
    let mut asked = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = ours.read(&mut buffer) {
        asked.extend_from_slice(&buffer[..read]);
    }
    let asked = String::from_utf8(asked).expect("the terminal is UTF-8");
    for question in
        ["folder or file with the data [.]: ", "config file to write [photos.toml]: ", "model [resnet18]: "]
    {
        assert!(asked.contains(question), "{asked}");
    }
    let text = String::from_utf8(folder.read("photos.toml")).expect("text");
    assert!(text.contains("name = \"lstm\"\n") && text.contains("epochs = 3\n"), "{text}");
}

#[test]
fn what_cannot_be_trained_is_said() {
    let prepared =
        |about, arguments: &[&'static str], prepare: fn(&Folder)| Case::new(about, arguments).after(prepare);
    check(
        "init_mistakes",
        &[
            Case::new("no such folder", &["init", "nowhere"]),
            prepared("nothing that is known", &["init", "notes"], |folder| folder.write("notes/a.md", "# a")),
            prepared("another kind of file", &["init", "a.pdf"], |folder| folder.write("a.pdf", "%PDF")),
            prepared("class folders here", &["init"], |folder| {
                (0..4).for_each(|index| folder.write(&format!("cat/{index}.jpg"), jpeg(index)));
            }),
            prepared("a class of one photo", &["init", "photos"], |folder| {
                (0..4).for_each(|index| folder.write(&format!("photos/cat/{index}.jpg"), jpeg(index)));
                folder.write("photos/dog/1.jpg", jpeg(9));
            }),
            prepared("no such model", &["init", "photos", "--model", "resnet19"], cats_and_dogs),
            prepared(
                "a GPU that is too small",
                &["init", "photos", "--gpu", "20MiB", "--size", "224"],
                cats_and_dogs,
            ),
            prepared("a GPU without a unit", &["init", "photos", "--gpu", "8"], cats_and_dogs),
            prepared(
                "a config in a folder that is not there",
                &["init", "photos", "--to", "no/x.toml"],
                cats_and_dogs,
            ),
        ],
    );
}
