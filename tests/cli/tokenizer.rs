//! Byte-pair encoding: learning a tokenizer, training with it, and predicting without the text.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use oomph_test_support::{Missing, skip};
use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use serde_json::Value;

use crate::support::{Folder, snapshot};

/// A paragraph of our own, in Korean: a syllable has three bytes.
const KOREAN: &str = "기억은 배움의 그릇이다. 그릇이 작으면 넘치고, 그릇이 크면 비어 있다.\n\
                      그래서 우리는 먼저 재고, 그 다음에 채운다. 채우기 전에 재는 사람은 쏟지 않는다.\n";

const CONFIG: &str = "
    model = { name = 'lstm-lm', hidden = 32 }
    data = { source = 'text', path = 'text.txt', level = 'bpe', tokenizer = 'tokenizer.json', steps = 16, held_out = 0.2, workers = 0 }
    train = { steps = 120, batch = 4, seed = 1 }
    optimizer = { name = 'adamw', lr = 0.02 }
    run = { directory = 'run' }
    ";

/// A folder with a text, and a config that has the tokens of `tokenizer.json`.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("text.txt", KOREAN.repeat(20));
    folder.write("text.toml", CONFIG);
    folder
}

fn learned(folder: &Folder, vocabulary: &str) -> Value {
    let asked = ["tokenizer", "text.txt", "--vocabulary", vocabulary, "--force", "--json"];
    folder.oomph(&asked).success().last_json()
}

/// The files of tokens in the cache of the folder.
fn token_files(folder: &Folder) -> Vec<PathBuf> {
    let cache = folder.at("cache/oomph");
    let entries = fs::read_dir(&cache).map(|entries| entries.map(|entry| entry.unwrap().path()));
    let is_of_tokens = |path: &PathBuf| path.to_string_lossy().contains("tokens-");
    entries.into_iter().flatten().filter(is_of_tokens).collect()
}

#[test]
fn a_tokenizer_is_learned_told_and_the_same_each_time() {
    let folder = folder();
    let shown = folder.oomph(&["tokenizer", "text.txt", "--vocabulary", "300"]).success();
    snapshot("tokenizer", &shown.stdout);
    let first = fs::read(folder.at("tokenizer.json")).unwrap();
    let kept = folder.oomph(&["tokenizer", "text.txt", "--vocabulary", "300"]);
    assert_eq!(kept.code, Some(1));
    assert!(kept.stderr.contains("`tokenizer.json`") && kept.stderr.contains("--force"), "{kept}");
    let told = learned(&folder, "300");
    assert!(fs::read(folder.at("tokenizer.json")).unwrap() == first, "the same text gives the same file");
    assert_eq!((told["vocabulary"].as_u64(), told["path"].as_str()), (Some(300), Some("tokenizer.json")));
    assert_eq!(told["text_bytes"].as_u64(), Some(KOREAN.len() as u64 * 20));
    assert!(told["bytes_per_token"].as_f64().unwrap() > 2.0, "{told}");
    let small = folder.oomph(&["tokenizer", "text.txt", "--vocabulary", "60000", "--force"]).success();
    assert!(small.stderr.contains("instead of 60,000: no other pair occurs twice in the text"), "{small}");
    let wrong = folder.oomph(&["tokenizer", "text.txt", "--vocabulary", "256"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("257"), "{wrong}");
    let gone = folder.oomph(&["tokenizer", "gone.txt", "--vocabulary", "300", "--force"]);
    assert!(gone.stderr.contains("text `gone.txt` does not exist"), "{gone}");
}

#[test]
fn a_moved_run_continues_korean_in_whole_syllables() {
    let folder = folder();
    learned(&folder, "300");
    folder.oomph(&["train", "--config", "text.toml"]).success();
    // On another machine there are neither text nor tokenizer nor tokens.
    let other = Folder::new();
    let mut copy = Command::new("cp");
    assert!(copy.arg("-a").arg(folder.at("run")).arg(other.at("moved")).status().unwrap().success());
    let asked = ["predict", "moved", "--prompt", "그릇이 ", "--length", "30", "--temperature", "0"];
    let shown = other.oomph(&asked).success();
    let text = shown.stdout.strip_prefix("그릇이 ").expect("the prompt comes first");
    assert!(text.chars().any(|c| ('가'..='힣').contains(&c)), "{text}");
    let asked = [&asked[..], &["--json"]].concat();
    let told = other.oomph(&asked).success().last_json();
    assert_eq!(told["continuation"].as_str().unwrap().to_owned() + "\n", text);
    assert_eq!(told["tokens"].as_u64(), Some(30));
    assert!(!text.contains('\u{fffd}'), "{text}");
    other.oomph(&["predict", "moved", "--prompt", "", "--length", "3"]).success();
    other.oomph(&["predict", "moved", "--prompt", "猫 unseen", "--length", "3"]).success();
}

#[test]
fn bits_per_byte_follow_from_the_loss_and_the_bytes_of_the_text() {
    let folder = folder();
    let told = learned(&folder, "300");
    let bits = |level: &str| {
        let settings = format!("data.level={level}");
        let directory = format!("run.directory={level}");
        let train = ["train", "--config", "text.toml", "--set", &settings, "--set", &directory];
        folder.oomph(&train).success();
        let told = folder.oomph(&["evaluate", level, "--json"]).success().last_json();
        let number = |key: &str| told[key].as_f64().expect("a number");
        assert!((number("eval_perplexity") - number("eval_loss").exp()).abs() < 1e-9);
        (number("eval_bits_per_byte"), number("eval_loss") / std::f64::consts::LN_2)
    };
    let (of_characters, bits_per_character) = bits("char");
    // The held-out text has 4 of the 20 repetitions, or nearly so: bytes by characters.
    let bytes = KOREAN.len() as f64 / KOREAN.chars().count() as f64;
    assert!((bits_per_character / of_characters - bytes).abs() < 0.02 * bytes);
    let (of_pairs, bits_per_token) = bits("bpe");
    let bytes = told["bytes_per_token"].as_f64().expect("a number");
    assert!((bits_per_token / of_pairs - bytes).abs() < 0.02 * bytes);
    let words = ["train", "--config", "text.toml", "--set", "data.level=word", "--set", "run.directory=word"];
    folder.oomph(&[&words[..], &["--set", "train.steps=4", "--set", "data.steps=4"]].concat()).success();
    let told = folder.oomph(&["evaluate", "word", "--json"]).success().last_json();
    assert_eq!(told["eval_bits_per_byte"], Value::Null);
    let shown = folder.oomph(&["evaluate", "bpe"]).success();
    assert!(shown.stdout.contains("bits per byte"), "{shown}");
    let runs = folder.oomph(&["runs", "bpe", "--json"]).success().last_json();
    let evaluated = folder.oomph(&["evaluate", "bpe", "--json"]).success().last_json();
    assert_eq!(runs["runs"][0]["last"]["eval_bits_per_byte"], evaluated["eval_bits_per_byte"]);
    let shown = folder.oomph(&["runs", "bpe"]).success();
    assert!(shown.stdout.contains(" bits per byte, "), "{shown}");
}

#[test]
fn the_best_evaluation_may_be_that_of_the_fewest_bits_per_byte() {
    let folder = folder();
    let train = |level: &str, best: &str| {
        let settings = [format!("data.level={level}"), format!("train.best={best}")];
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let words =
            ["train", "--config", "text.toml", "--json", "--set", "train.steps=4", "--set", "data.steps=4"];
        folder.oomph(&words.into_iter().chain(set).collect::<Vec<_>>())
    };
    let done = train("char", "bits per byte").success().last_json();
    assert_eq!(done["best_metric"], "bits per byte");
    assert_eq!(done["best_value"], done["eval_bits_per_byte"]);
    let refused = train("word", "bits per byte");
    let offered = "expected one of `eval loss`, `eval accuracy` or `perplexity`";
    assert!(refused.code == Some(1) && refused.stderr.contains(offered), "{refused}");
}

#[test]
fn the_text_is_encoded_once_and_again_where_it_changed() {
    let folder = folder();
    learned(&folder, "300");
    let train = |more: &[&str]| {
        let asked = ["train", "--config", "text.toml", "--set", "train.steps=2", "--set"];
        folder.oomph(&[&asked[..], more].concat())
    };
    train(&["run.directory=a"]).success();
    let files = token_files(&folder);
    let [file] = &files[..] else { panic!("{files:?}") };
    let made = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).unwrap();
    let first = made(file);
    train(&["run.directory=b"]).success();
    assert_eq!(made(file), first);
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() - 2]).unwrap();
    let cut = train(&["run.directory=c"]);
    assert_eq!(cut.code, Some(1));
    assert!(cut.stderr.contains("its header announces"), "{cut}");
    assert!(cut.stderr.contains("hint: delete the file: the next run encodes the text again"), "{cut}");
    // A token that the vocabulary lacks.
    let mut forged = whole.clone();
    forged[128..].fill(0xff);
    fs::write(file, forged).unwrap();
    let forged = train(&["run.directory=d"]);
    assert_eq!(forged.code, Some(1));
    assert!(forged.stderr.contains("has token 65535, but the vocabulary has 300 tokens"), "{forged}");
    folder.write("text.txt", KOREAN.repeat(21));
    train(&["run.directory=e"]).success();
    assert!(fs::read(file).unwrap().len() > whole.len());
    assert_eq!(token_files(&folder).len(), 1);
}

#[test]
fn documents_of_json_lines_train_too() {
    let folder = folder();
    learned(&folder, "300");
    fs::create_dir(folder.at("corpus")).unwrap();
    let line = serde_json::json!({ "body": KOREAN }).to_string();
    folder.write("corpus/a.jsonl", format!("{line}\n").repeat(15));
    folder.write("corpus/b.txt", KOREAN.repeat(5));
    let asked = ["train", "--config", "text.toml", "--set", "data.path=corpus", "--set", "train.steps=2"];
    let missing = folder.oomph(&asked);
    assert!(missing.stderr.contains("a.jsonl`, byte 0: line 1: `text` is missing"), "{missing}");
    assert!(
        missing.stderr.contains("hint: name the key of the text with `--set data.text_key=…`"),
        "{missing}"
    );
    let key = ["--set", "data.text_key=body"];
    folder.oomph(&[&asked[..], &key].concat()).success();
    let described =
        folder.oomph(&[&["data", "--config", "text.toml", "--set", "data.path=corpus"][..], &key].concat());
    assert!(described.success().stdout.contains("frequent token"));
}

/// A Parquet file with these texts in the column `body`.
fn parquet_file(texts: &[Option<&str>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type("message rows { optional binary body (UTF8); }").unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let levels: Vec<_> = texts.iter().map(|text| i16::from(text.is_some())).collect();
    let values: Vec<_> = texts.iter().flatten().map(|text| ByteArray::from(*text)).collect();
    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.into_inner().unwrap()
}

#[test]
fn documents_of_parquet_files_are_those_of_json_lines() {
    let folder = folder();
    learned(&folder, "300");
    folder.write("a.parquet", parquet_file(&[Some(KOREAN); 20]));
    folder.write("a.jsonl", format!("{}\n", serde_json::json!({ "body": KOREAN })).repeat(20));
    let train = |path: &str, more: &[&str]| {
        let settings = [format!("data.path={path}"), format!("run.directory={path}.run")];
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let words = ["train", "--config", "text.toml", "--set", "train.steps=2"];
        folder.oomph(&words.into_iter().chain(set).chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let key = ["--set", "data.text_key=body"];
    let weights = |path: &str| {
        train(path, &key).success();
        fs::read(folder.at(&format!("{path}.run/checkpoints/latest/model.safetensors"))).unwrap()
    };
    assert!(weights("a.parquet") == weights("a.jsonl"), "other bytes");
    // The texts of characters are read by other code.
    let characters = ["--set", "data.level=char", "--set", "run.directory=char"];
    train("a.parquet", &[&key[..], &characters].concat()).success();
    folder
        .oomph(&["tokenizer", "a.parquet", "--text-key", "body", "--vocabulary", "300", "--force"])
        .success();
    let missing = train("a.parquet", &[]);
    let says = "`a.parquet`: there is no column `text`; the columns are `body`";
    assert!(missing.code == Some(1) && missing.stderr.contains(says), "{missing}");
    assert!(
        missing.stderr.contains("hint: name the column of the text with `--set data.text_key=…`"),
        "{missing}"
    );
    folder.write("null.parquet", parquet_file(&[Some("one"), None]));
    let null = train("null.parquet", &key);
    assert!(
        null.stderr.contains("`null.parquet`: row group 0, row 1: `body` is null; expected a text"),
        "{null}"
    );
    folder.write("text.parquet", KOREAN);
    let other = train("text.parquet", &key);
    assert!(other.stderr.contains("this is not a Parquet file: it does not end with `PAR1`"), "{other}");
}

#[test]
fn a_resumed_training_has_the_tokenizer_of_before() {
    let folder = folder();
    learned(&folder, "300");
    folder.oomph(&["train", "--config", "text.toml", "--set", "train.steps=4"]).success();
    folder.write("text.txt", KOREAN.replace("그릇", "항아리").repeat(20));
    learned(&folder, "300");
    folder.write("text.txt", KOREAN.repeat(20));
    let resume = ["train", "--resume", "run", "--set", "train.steps=6"];
    let refused = folder.oomph(&resume);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("it had a tokenizer of 300 tokens, SHA-256 "), "{refused}");
    let checkpoint = "run/checkpoints/step-00000004/source.json";
    assert!(refused.stderr.contains(&format!("data.tokenizer={checkpoint}`")), "{refused}");
    let cure = format!("data.tokenizer={checkpoint}");
    folder.oomph(&[&resume[..], &["--set", &cure]].concat()).success();
    // The weights know their tokenizer too.
    folder.oomph(&["export", "run", "--to", "w.safetensors"]).success();
    let tune = [
        "train",
        "--config",
        "text.toml",
        "--set",
        "model.weights=w.safetensors",
        "--set",
        "run.directory=t",
    ];
    let refused = folder.oomph(&tune);
    assert!(refused.stderr.contains("hint: `--set data.tokenizer=w.safetensors`"), "{refused}");
    let cure = ["--set", "data.tokenizer=w.safetensors", "--set", "train.steps=2"];
    folder.oomph(&[&tune[..], &cure].concat()).success();
}

#[test]
fn plans_need_neither_text_nor_tokenizer() {
    let folder = folder();
    fs::remove_file(folder.at("text.txt")).unwrap();
    let plan = |more: &[&str]| folder.oomph(&[&["plan", "--config", "text.toml"], more].concat());
    let nothing = plan(&[]);
    assert_eq!(nothing.code, Some(1));
    plan(&["--set", "data.vocabulary=50257"]).success();
    folder.oomph(&["summary", "--config", "text.toml", "--set", "data.vocabulary=50257"]).success();
    folder.write("text.txt", KOREAN.repeat(20));
    learned(&folder, "300");
    fs::remove_file(folder.at("text.txt")).unwrap();
    plan(&[]).success();
}

#[test]
fn what_is_wrong_with_a_tokenizer_is_said() {
    let folder = folder();
    let message = |more: &[&str]| {
        let answer = folder.oomph(&[&["train", "--config", "text.toml"], more].concat());
        assert_eq!(answer.code, Some(1), "{answer}");
        answer.stderr
    };
    let gone = message(&[]);
    assert!(gone.contains("there is no tokenizer `tokenizer.json` (`data.tokenizer`)"), "{gone}");
    assert!(gone.contains("hint: `oomph tokenizer TEXT --vocabulary 4096`"), "{gone}");
    folder.write("tokenizer.json", r#"{"model": {"type": "WordPiece", "vocab": {}, "merges": []}}"#);
    let other = message(&[]);
    let expected = "cannot read a tokenizer from `tokenizer.json`: `model.type` is WordPiece; expected `BPE`";
    assert!(other.contains(expected) && other.contains("hint: "), "{other}");
    folder.write("tokenizer.json", "no JSON");
    assert!(message(&[]).contains("cannot read a tokenizer from `tokenizer.json`: "));
    learned(&folder, "300");
    let declared = message(&["--set", "data.vocabulary=512"]);
    assert!(declared.contains("the tokenizer has 300 tokens, and `data.vocabulary` is 512"), "{declared}");
    let idle = folder.oomph(&["train", "--config", "text.toml", "--set", "data.min_count=2"]);
    assert!(idle.stderr.contains("`data.min_count` has no effect"), "{idle}");
}

#[test]
fn a_real_text_is_learned_and_compressed() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/tinyshakespeare.txt");
    if !text.is_file() {
        return skip(Missing::Shakespeare);
    }
    let folder = folder();
    fs::copy(text, folder.at("text.txt")).unwrap();
    let told = learned(&folder, "1000");
    assert_eq!(told["vocabulary"].as_u64(), Some(1000));
    let bytes = told["bytes_per_token"].as_f64().unwrap();
    assert!((2.3..3.5).contains(&bytes), "{told}");
}
