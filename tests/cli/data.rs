//! What `oomph data` says of each kind of source.

use std::io::Cursor;

use image::{DynamicImage, GrayImage, ImageFormat, Luma};

use crate::{
    photos::{cats_and_dogs, jpeg, truncated},
    support::{Folder, snapshot},
};

/// A grey PNG of 4 × 6.
fn grey_png() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = DynamicImage::from(GrayImage::from_fn(6, 4, |x, y| Luma([(x * 40 + y) as u8])));
    image.write_to(&mut bytes, ImageFormat::Png).expect("written to memory");
    bytes.into_inner()
}

#[test]
fn a_folder_is_described_with_its_flaws() {
    let folder = Folder::new();
    truncated(&folder);
    folder.write("photos/train/dog/5.png", grey_png());
    for index in 20..26 {
        folder.write(&format!("photos/train/dog/{index}.jpg"), jpeg(index));
    }
    // A held-out photo that is also trained on.
    folder.write("photos/test/dog/4.jpg", jpeg(20));
    let answer = folder.oomph(&["data", "photos.toml"]).success();
    snapshot("data_folder", &format!("{answer}"));
    let json = folder.oomph(&["data", "photos.toml", "--json"]).success();
    assert_eq!(json.stderr, "");
    let json = json.last_json();
    assert_eq!(json["train"]["unreadable"], 1);
    assert_eq!(json["classes"][1]["class"], "dog");
    assert_eq!(json["classes"][1]["train"], 10);
    assert_eq!(json["train"]["images"]["smallest"], serde_json::json!([4, 6]));
    assert_eq!(json["train"]["images"]["by_channels"], serde_json::json!({ "1": 1, "3": 11 }));
    assert_eq!(json["duplicates"]["count"], 1);
    assert_eq!(json["warnings"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_clean_folder_has_no_warning() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let answer = folder.oomph(&["data", "photos.toml"]).success();
    assert_eq!(answer.stderr, "");
    let one = ["data", "photos.toml", "--json", "--read", "1"];
    assert_eq!(folder.oomph(&one).success().last_json()["train"]["read"], 1);
}

#[test]
fn one_class_is_nothing_to_learn() {
    let folder = Folder::new();
    folder.write("photos/cat/1.jpg", jpeg(1));
    folder.write("photos/cat/2.jpg", jpeg(2));
    let answer = folder.oomph(&["data", "--set", "data.source=folder", "--set", "data.path=photos"]);
    let answer = answer.success();
    assert!(answer.stderr.contains("all training samples are of `cat`"), "{answer}");
    assert!(answer.stdout.contains("20 % of each class (`data.holdout`)"), "{answer}");
}

#[test]
fn digits_series_texts_and_synthetic_data_are_described() {
    let folder = Folder::new();
    let rows: String = (0..40).map(|row| format!("{row},{}\n", row % 7)).collect();
    folder.write("series.csv", format!("line,wave\n{rows}"));
    folder.write("text.txt", "to be or not to be. ".repeat(20));
    let described = |settings: &[&str]| {
        let sets = settings.iter().flat_map(|setting| ["--set", setting]);
        let arguments: Vec<_> = std::iter::once("data").chain(sets).collect();
        format!("$ oomph {}\n{}", arguments.join(" "), folder.oomph(&arguments).success())
    };
    let all = [
        described(&[]),
        described(&["data.source=csv", "data.path=series.csv", "data.steps=4"]),
        described(&["data.source=text", "data.path=text.txt", "data.steps=8"]),
        described(&["data.source=synthetic", "data.classes=3"]),
    ];
    snapshot("data_sources", &all.join("\n"));
}

#[test]
fn a_source_that_is_not_there_is_an_error() {
    let folder = Folder::new();
    let answer = folder.oomph(&["data", "--set", "data.source=folder", "--set", "data.path=nowhere"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.starts_with("error: data folder `nowhere` does not exist\n"), "{answer}");
}

#[test]
fn a_preview_is_a_picture_with_a_row_a_class() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    let draw = ["data", "photos.toml", "--preview", "sheet.png", "--set", "data.augment.rotate=20"];
    let answer = folder.oomph(&draw).success();
    snapshot("data_preview", &format!("{answer}"));
    let sheet = image::open(folder.at("sheet.png")).expect("a picture");
    // Two rows of eight images of 8 pixels, enlarged to 96, with 4 pixels around each.
    assert_eq!((sheet.width(), sheet.height()), (8 * 100 + 4, 2 * 100 + 4));
    snapshot("data_preview_again", &format!("{}", folder.oomph(&draw)));
    let json = folder.oomph(&[&draw[..], &["--force", "--json"]].concat()).success().last_json();
    assert_eq!(json["preview"]["file"], "sheet.png");
    assert_eq!(json["preview"]["rows"][1]["class"], 1);
    let text = ["data", "--set", "data.layout=rows", "--preview", "rows.png"];
    snapshot("data_preview_of_rows", &format!("{}", folder.oomph(&text)));
}
