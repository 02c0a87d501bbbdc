//! Images whose classes are in a CSV file.

mod support;

use oomph_config::Section;
use oomph_core::{Split, TargetSpec};
use oomph_data::{
    OpenContext, Source, Target,
    detect::detect,
    stored::{class_counts, label_counts},
};
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

/// The names of a part with the labels of each image, in order.
fn tagged(source: &dyn Source, split: Split) -> Vec<(String, Vec<String>)> {
    let names = source.class_names().expect("named labels");
    (0..source.len(split))
        .map(|index| {
            let labels = source.labels(split, index).expect("known").expect("labels");
            let target = source.sample(split, index, None).expect("a whole image").target;
            assert_eq!(target, Target::Labels(labels.clone()));
            assert_eq!(source.class(split, index), Ok(None));
            (source.sample_name(split, index), labels.iter().map(|label| names[*label].clone()).collect())
        })
        .collect()
}

fn tags(file: &str, labels: &[&str]) -> (String, Vec<String>) {
    (format!("`{file}`"), labels.iter().map(|label| (*label).to_owned()).collect())
}

const TAGS: &str = "\
file,tags,split
images/0.jpg,water| sun,train
images/1.jpg,,train
images/2.jpg,sun|sun|,train
images/3.jpg,cloudy|water,train
images/4.jpg,water|sun,val
images/5.jpg,,val
";

#[test]
fn a_field_has_any_number_of_labels() {
    let photos = photos(TAGS);
    let of_tags = |separator: &str| {
        settings(&photos, &format!("label_column = 'tags'\nlabel_separator = '{separator}'"))
    };
    let source = photos.open(&of_tags("|")).expect("a whole table");
    assert_eq!(source.class_names().expect("named"), ["cloudy", "sun", "water"]);
    assert_eq!(source.spec().target, TargetSpec::Labels { count: 3 });
    let train = [
        tags("images/1.jpg", &[]),
        tags("images/3.jpg", &["cloudy", "water"]),
        tags("images/2.jpg", &["sun"]),
        tags("images/0.jpg", &["sun", "water"]),
    ];
    assert_eq!(tagged(&*source, Split::Train), train);
    let test = [tags("images/5.jpg", &[]), tags("images/4.jpg", &["sun", "water"])];
    assert_eq!(tagged(&*source, Split::Test), test);
    let labels = label_counts(&*source, Split::Train).expect("labels");
    assert_eq!((labels.samples, labels.without, labels.most), (vec![1, 2, 2], 1, 2));
    assert_eq!(class_counts(&*source, Split::Train), [0; 0]);
    // Another separator makes each field one label, where it has a text.
    let whole = photos.open(&of_tags(";"));
    let says = whole.err().expect("a label of the held-out part alone").to_string();
    assert!(says.ends_with("line 6: no training image has the label `water|sun`"), "{says}");
}

#[test]
fn columns_of_marks_are_labels() {
    let table = "\
photo,dog,cat,eel,split
images/0.jpg,1,0,0,train
images/1.jpg,0,1.0,0,train
images/2.jpg,1,1,,train
images/3.jpg,0,0,0,train
images/4.jpg,0,1,1,test
images/5.jpg,1,0,0,test
";
    for (columns, table) in [
        ("'all'", table.to_owned()),
        ("['eel', 'dog', 'cat']", table.to_owned()),
        ("'all'", table.replace(",0", ",-1")),
    ] {
        let photos = photos(&table);
        let more = format!("file_column = 'photo'\nlabel_columns = {columns}");
        let source = photos.open(&settings(&photos, &more)).expect("a whole table");
        // A column without a trained image is a label all the same.
        assert_eq!(source.class_names().expect("named"), ["cat", "dog", "eel"]);
        let train = [
            tags("images/3.jpg", &[]),
            tags("images/1.jpg", &["cat"]),
            tags("images/2.jpg", &["cat", "dog"]),
            tags("images/0.jpg", &["dog"]),
        ];
        assert_eq!(tagged(&*source, Split::Train), train);
        let test = [tags("images/4.jpg", &["cat", "eel"]), tags("images/5.jpg", &["dog"])];
        assert_eq!(tagged(&*source, Split::Test), test);
    }
    let photos = photos(table);
    let one = "file_column = 'photo'\nlabel_columns = ['cat']";
    let source = photos.open(&settings(&photos, one)).expect("a whole table");
    assert_eq!(source.spec().target, TargetSpec::Labels { count: 1 });
}

#[test]
fn a_share_of_the_images_is_held_out_and_leaves_every_label() {
    let photos = Photos::nothing();
    let mut table = "file,label\n".to_owned();
    for index in 0..40 {
        photos.write(&format!("{index}.jpg"), &jpeg(index, 8, 8));
        let rare = if index == 7 { " rare" } else { "" };
        table += &format!(
            "{index}.jpg,{}{}{rare}\n",
            ["", "a", "b"][index as usize % 3],
            [" c", ""][index as usize % 2]
        );
    }
    photos.write("labels.csv", table.as_bytes());
    let source = photos.open(&settings(&photos, "label_separator = ' '")).expect("a table");
    assert_eq!((source.len(Split::Train), source.len(Split::Test)), (32, 8));
    assert_eq!(source.class_names().expect("named"), ["a", "b", "c", "rare"]);
    let origin = source.held_out_origin().expect("known");
    assert_eq!(origin, "20 % of the images (`data.holdout`), chosen by `data.holdout_seed` (= 0)");
    assert!(tagged(&*source, Split::Train).iter().any(|(file, _)| file == "`7.jpg`"));
    let most = "label_separator = ' '\nholdout = 0.99";
    let source = photos.open(&settings(&photos, most)).expect("a table");
    let trained = label_counts(&*source, Split::Train).expect("labels");
    assert!(trained.samples.iter().all(|samples| *samples > 0), "{trained:?}");
    let again = photos.open(&settings(&photos, most)).expect("a table");
    assert_eq!(again.digest(), source.digest());
}

#[test]
fn what_is_wrong_with_several_labels_is_named() {
    let tags = "label_separator = '|'";
    let marks = "label_columns = 'all'";
    let cases = [
        (
            "file,label,split\nimages/0.jpg,a,train\nimages/1.jpg,b|a,test\n",
            tags,
            "line 3: no training image has the label `b`",
        ),
        ("file,label\nimages/0.jpg,\nimages/1.jpg,|\n", tags, "the file has no row to train on with a label"),
        ("file,label,split\nimages/0.jpg,,test\n", tags, "the file has no rows to train on"),
        (
            "file,label\nimages/0.jpg,a\n",
            tags,
            "has a single image, which cannot be both trained on and held out",
        ),
        ("file\nimages/0.jpg\nimages/1.jpg\n", marks, "the file has no column of labels"),
        (
            "file,a\nimages/0.jpg,1\nimages/1.jpg,yes\n",
            marks,
            "line 3: `a` is `yes`; expected `1` for an image with the label, else `0` or `-1`",
        ),
        (
            "file,a,b\nimages/0.jpg,1,0\nimages/1.jpg,0,-1\n",
            marks,
            "line 3: `b` is `-1`, but line 2 has `0`; expected one of both for absent labels",
        ),
        (
            "file,a\nimages/0.jpg,1\n",
            "label_columns = ['b']",
            "there is no column `b`; the columns are `file`, `a`",
        ),
        ("file,a,a\nimages/0.jpg,1,1\n", marks, "two columns have the name `a`"),
    ];
    for (table, more, says) in cases {
        let photos = photos(table);
        let error = photos.error(&settings(&photos, more));
        assert!(error.to_string().contains(says), "{error}, not {says}");
        assert!(error.to_string().contains("labels.csv`"), "{error}");
    }
    let refused = |text: &str| {
        let section = Section::from_toml("data", &format!("labels = 'x.csv'\n{text}")).expect("valid TOML");
        oomph_data::folder(&section).err().expect("refused").to_string()
    };
    for (text, says) in [
        ("label_separator = ''", "expected a text such as `|`, `;` or a space"),
        (
            "label_separator = '|'\nlabel_columns = 'all'",
            "expected none, since `data.label_columns` has a column for each label",
        ),
        (
            "label_columns = 'every'",
            "expected `all`, or a list of columns that mark labels, each once, as in `[\"cat\", \"dog\"]`",
        ),
        ("label_columns = []", "expected `all`, or a list of columns"),
        ("label_columns = ['a', 'a']", "each once"),
        ("label_columns = ['a', 'file']", "expected other columns than `data.file_column`"),
        (
            "label_columns = ['a']\nsplit_column = 'a'",
            "expected another column than `data.file_column` and `data.label_columns`",
        ),
    ] {
        assert!(refused(text).contains(says), "{}, not {says}", refused(text));
    }
}

#[test]
fn tables_of_several_labels_are_recognised() {
    let found = |table: &str| {
        let photos = photos(table);
        let found = detect(&photos.root().join("labels.csv")).expect("labels");
        let settings = found.settings.into_iter().filter(|setting| setting.key != "labels");
        settings.map(|setting| (setting.key, setting.value.to_string())).collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    };
    assert_eq!(found(TAGS), pairs(&[("label_column", "\"tags\""), ("label_separator", "\"|\"")]));
    assert_eq!(
        found("file,tags\nimages/0.jpg,a b\nimages/1.jpg,\n"),
        pairs(&[("label_column", "\"tags\""), ("label_separator", "\" \"")])
    );
    assert_eq!(found("file,label\nimages/0.jpg,red panda\n"), []);
    assert_eq!(
        found("photo,a,b,split\nimages/0.jpg,1,0,train\n"),
        pairs(&[("file_column", "\"photo\""), ("label_columns", "\"all\"")])
    );
    assert_eq!(found("file,id,a,b\nimages/0.jpg,17,1,0\n"), pairs(&[("label_columns", "[\"a\", \"b\"]")]));
}
