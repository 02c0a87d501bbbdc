//! Images whose classes are in a CSV file.

mod support;

use oomph_config::Section;
use oomph_core::Split;
use oomph_data::{OpenContext, Source, Target};
use support::{Photos, jpeg, png};

/// A folder with six photos in no class folders, and a table.
fn photos(table: &str) -> Photos {
    let photos = Photos::nothing();
    for index in 0..6 {
        photos.write(&format!("images/{index}.jpg"), &jpeg(index, 20, 16));
    }
    photos.write("labels.csv", table.as_bytes());
    photos
}

fn settings(photos: &Photos, more: &str) -> String {
    format!("labels = '{}'\n{more}", photos.root().join("labels.csv").display())
}

/// The names and class names of a part, in order.
fn listed(source: &dyn Source, split: Split) -> Vec<(String, String)> {
    let names = source.class_names().expect("named classes");
    (0..source.len(split))
        .map(|index| {
            let class = source.class(split, index).expect("known").expect("a class");
            match source.sample(split, index, None).expect("a whole image").target {
                Target::Class(of_sample) => assert_eq!(of_sample, class),
                other => panic!("{other:?}"),
            }
            (source.sample_name(split, index), names[class].clone())
        })
        .collect()
}

fn pair(file: &str, label: &str) -> (String, String) {
    (format!("`{file}`"), label.to_owned())
}

const SPLIT: &str = "\
id,file,label,split
1,images/0.jpg,dog,train
2,images/1.jpg,cat,train
3,images/2.jpg, red panda ,train
4,images/3.jpg,dog,val
5,images/4.jpg,cat,VAL
6,images/5.jpg,cat,train
";

#[test]
fn a_table_gives_each_image_its_class_and_its_part() {
    let photos = photos(SPLIT);
    let source = photos.open(&settings(&photos, "")).expect("a whole table");
    assert_eq!(source.class_names().expect("named"), ["cat", "dog", "red panda"]);
    let train = [
        pair("images/1.jpg", "cat"),
        pair("images/5.jpg", "cat"),
        pair("images/0.jpg", "dog"),
        pair("images/2.jpg", "red panda"),
    ];
    assert_eq!(listed(&*source, Split::Train), train);
    // No held-out row has the last class.
    assert_eq!(listed(&*source, Split::Test), [pair("images/4.jpg", "cat"), pair("images/3.jpg", "dog")]);
    let origin = source.held_out_origin().expect("known");
    assert_eq!(origin, "the rows of `labels.csv` with `val` in column `split`");
}

#[test]
fn files_are_relative_to_the_table_unless_a_path_is_given() {
    let photos =
        photos("name;x,kind\n0.jpg,a\n1.jpg,a\n2.jpg,b\n3.jpg,b\n".replace("name;x", "name").as_str());
    let columns = "file_column = 'name'\nlabel_column = 'kind'\nholdout = 0.5";
    let open = |text: &str| {
        let section = Section::from_toml("data", text).expect("valid TOML");
        let context = OpenContext::new(photos.cache_dir(), 0);
        oomph_data::folder(&section).expect("valid settings").open(&context)
    };
    let with_path =
        format!("path = '{}'\n{}", photos.root().join("images").display(), settings(&photos, columns));
    let source = open(&with_path).expect("the files are in `path`");
    assert_eq!((source.len(Split::Train), source.len(Split::Test)), (2, 2));
    let error = open(&settings(&photos, columns)).err().expect("the files are not beside the table");
    let says = error.to_string();
    assert!(
        says.contains("labels.csv`, byte 10: line 2: there is no file `") && says.ends_with("photos/0.jpg`"),
        "{says}"
    );
}

#[test]
fn what_is_wrong_in_a_table_is_named_with_its_line() {
    let cases = [
        ("file,label\n", "the file has no rows"),
        ("file,class\nimages/0.jpg,a\n", "there is no column `label`; the columns are `file`, `class`"),
        ("file,label\nimages/0.jpg\n", "line 2: the row has 1 fields; the header has 2"),
        ("file,label\nimages/0.jpg,a\nimages/1.jpg, \n", "line 3: `label` is empty"),
        ("file,label\nimages/0.jpg,a\nimages/0.jpg,b\n", "line 3: `images/0.jpg` is in line 2 already"),
        ("file,label\nimages/0.jpg,a\nimages/9.jpg,b\n", "line 3: there is no file"),
        (
            "file,label,split\nimages/0.jpg,a,trian\n",
            "line 2: `split` is `trian`; expected `train`, `test`, `val`, `valid` or `validation`",
        ),
        (
            "file,label,split\nimages/0.jpg,a,train\nimages/1.jpg,b,test\n",
            "line 3: no training image has the label `b`",
        ),
        ("file,label\nimages/0.jpg,a\nimages/1.jpg,a\nimages/2.jpg,b\n", "label `b` has a single image"),
    ];
    for (table, says) in cases {
        let photos = photos(table);
        let error = photos.error(&settings(&photos, ""));
        assert!(error.to_string().contains(says), "{error}, not {says}");
        let is_in_file = error.to_string().contains("labels.csv`, byte") || says.starts_with("label");
        assert!(is_in_file, "{error}");
    }
}

#[test]
fn a_missing_image_is_skipped_where_that_is_wanted() {
    let photos = photos(&SPLIT.replace("images/5.jpg", "images/9.jpg"));
    let source = photos.open(&settings(&photos, "on_corrupt = 'skip'")).expect("a table");
    let index = (0..4).find(|&index| source.sample_name(Split::Train, index) == "`images/9.jpg`");
    assert!(source.sample(Split::Train, index.expect("listed"), None).is_err());
}

#[test]
fn another_label_is_other_data() {
    let digest = |table: &str| {
        let photos = photos(table);
        photos.open(&settings(&photos, "")).expect("a whole table").digest().expect("known")
    };
    assert_eq!(digest(SPLIT), digest(SPLIT));
    assert_ne!(digest(SPLIT), digest(&SPLIT.replace("2,images/1.jpg,cat", "2,images/1.jpg,dog")));
}

#[test]
fn images_that_change_their_channels_are_told() {
    let photos = Photos::cats_and_dogs();
    let notices = |text: &str| photos.open(text).expect("a folder").notices();
    assert_eq!(notices(""), [""; 0]);
    assert!(
        notices("channels = 1")[0]
            .ends_with("has colours, and the model sees grey images: colours are dropped")
    );
    photos
        .write("train/cat/0.jpg", &png(image::GrayImage::from_fn(8, 8, |x, y| image::Luma([(x * y) as u8]))));
    let notice = notices("").join("");
    assert!(notice.contains("train/cat/0.jpg` is grey, and the model sees three channels"), "{notice}");
    // Grey pixels lose nothing, also where the file could hold colours.
    for class in ["cat", "dog"] {
        for index in 0..3 {
            let grey = image::RgbImage::from_fn(8, 8, |x, _| image::Rgb([(x * 9) as u8; 3]));
            photos.write(&format!("train/{class}/{index}.jpg"), &png(grey));
        }
    }
    assert_eq!(notices("channels = 1"), [""; 0]);
    assert_eq!(notices(""), [""; 0]);
}
