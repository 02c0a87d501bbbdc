//! Text: training, continuation and errors.

use std::fs;

use serde_json::Value;

use crate::support::Folder;

const CONFIG: &str = "
    model = { name = 'lstm-lm', hidden = 32 }
    data = { source = 'text', path = 'rhyme.txt', steps = 16, held_out = 0.2, workers = 0 }
    train = { steps = 120, batch = 8, seed = 1 }
    optimizer = { name = 'adamw', lr = 0.02 }
    run = { directory = 'run' }
    ";

/// A model that learned a rhyme.
fn trained(level: &str) -> Folder {
    let folder = Folder::new();
    folder.write("rhyme.txt", "one two three four five,\nonce i caught a fish alive\n".repeat(60));
    folder.write("rhyme.toml", CONFIG);
    folder.oomph(&["train", "--config", "rhyme.toml", "--set", &format!("data.level={level}")]).success();
    folder
}

fn continued(folder: &Folder, arguments: &[&str]) -> String {
    let asked = [&["predict", "--run", "run", "--json"], arguments].concat();
    let answer = folder.oomph(&asked).success().last_json();
    answer["continuation"].as_str().expect("a continuation").to_owned()
}

#[test]
fn a_language_model_continues_what_it_learned() {
    for (level, prompt, length, expected) in [
        ("char", "one two three four", "30", " five,\nonce i caught a fish al"),
        ("word", "one two three", "5", " four five,\nonce i"),
    ] {
        let folder = trained(level);
        // The training text is not needed.
        fs::remove_file(folder.at("rhyme.txt")).unwrap();
        let asked = ["--prompt", prompt, "--length", length, "--temperature", "0"];
        assert_eq!(continued(&folder, &asked), expected, "{level}");
        let shown = folder.oomph(&[&["predict", "--run", "run"][..], &asked].concat()).success();
        assert_eq!(shown.stdout, format!("{prompt}{expected}\n"));
        let drawn = |seed| continued(&folder, &["--prompt", prompt, "--temperature", "3", "--seed", seed]);
        assert_eq!(drawn("1"), drawn("1"));
        assert_ne!(drawn("1"), drawn("2"));
        assert!(!continued(&folder, &["--prompt", "", "--top-k", "2"]).is_empty());
    }
}

/// Its cache begins anew where the text is longer than a training sample.
#[test]
fn a_decoder_continues_what_it_learned() {
    let folder = Folder::new();
    folder.write("rhyme.txt", "one two three four five,\nonce i caught a fish alive\n".repeat(60));
    let decoder = "{ name = 'gpt', preset = 'char', layers = 1, hidden = 32, heads = 2 }";
    // The rhyme has 52 characters: samples of 15 begin at each of them.
    let config = CONFIG
        .replace("{ name = 'lstm-lm', hidden = 32 }", decoder)
        .replace("steps = 16,", "steps = 15, carry = false,")
        .replace("steps = 120", "steps = 400")
        .replace("lr = 0.02", "lr = 0.01");
    folder.write("rhyme.toml", config);
    folder.oomph(&["train", "--config", "rhyme.toml"]).success();
    let prompt = "one two three four";
    let asked = ["--prompt", prompt, "--length", "30", "--temperature", "0"];
    assert_eq!(continued(&folder, &asked), " five,\nonce i caught a fish al");
    let nucleus = ["--prompt", prompt, "--length", "30", "--top-p", "0.01"];
    assert_eq!(continued(&folder, &nucleus), continued(&folder, &asked), "the likeliest token alone is left");
    let refused = folder.oomph(&["predict", "run", "--prompt", prompt, "--top-p", "1.5"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("greater than 0 and at most 1"), "{refused}");
}

#[test]
fn its_loss_is_told_as_perplexity() {
    let folder = trained("char");
    let evaluated = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success().last_json();
    let number = |key: &str| evaluated[key].as_f64().expect("a number");
    assert!((number("eval_perplexity") - number("eval_loss").exp()).abs() < 1e-9);
    assert!(number("eval_perplexity") < 1.5 && number("eval_accuracy") > 0.9, "{evaluated}");
    let shown = folder.oomph(&["evaluate", "--checkpoint", "run"]).success();
    assert!(shown.stdout.contains("eval perplexity"), "{}", shown.stdout);
    let image = folder.oomph(&["evaluate", "--config", "resnet", "--checkpoint", "run"]);
    assert_ne!(image.code, Some(0));
}

#[test]
fn another_text_is_not_gone_on_with() {
    let folder = trained("char");
    folder.write("rhyme.txt", "six seven eight nine ten,\nthen i let it go again\n".repeat(60));
    let resumed = folder.oomph(&["train", "--resume", "run", "--set", "train.steps=130"]);
    assert_eq!(resumed.code, Some(1));
    let message = "the data is not what checkpoint `run/checkpoints/step-00000120` was trained on: token ";
    assert!(resumed.stderr.contains(message), "{}", resumed.stderr);
    let hint = "--set data.vocabulary_file=run/checkpoints/step-00000120/source.json`";
    assert!(resumed.stderr.contains(hint), "{}", resumed.stderr);
}

#[test]
fn weights_are_for_the_tokens_that_they_know() {
    let folder = trained("char");
    let loss = |more: &[&str]| {
        let asked = [&["evaluate", "--json", "--config", "rhyme.toml"], more].concat();
        folder.oomph(&asked).success().last_json()["eval_loss"].as_f64().expect("a loss")
    };
    let trained_loss = loss(&[]);
    folder.oomph(&["export", "run", "--to", "rhyme.safetensors"]).success();
    folder.oomph(&["export", "run", "--to", "again.safetensors"]).success();
    let bytes = |name: &str| fs::read(folder.at(name)).unwrap();
    assert!(bytes("rhyme.safetensors") == bytes("again.safetensors"), "the same weights are the same bytes");
    assert_eq!(loss(&["--weights", "rhyme.safetensors"]), trained_loss);
    folder.write("rhyme.txt", "six seven eight nine ten,\nthen i let it go again\n".repeat(60));
    let tune = ["train", "--config", "rhyme.toml", "--set", "run.directory=tuned", "--set"];
    let tuned =
        |more: &[&str]| folder.oomph(&[&tune, &["model.weights=rhyme.safetensors"][..], more].concat());
    let refused = tuned(&[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("are for other tokens than the text has: token "), "{}", refused.stderr);
    let cure = "data.vocabulary_file=rhyme.safetensors";
    assert!(refused.stderr.contains(&format!("hint: `--set {cure}`")), "{}", refused.stderr);
    assert!(!folder.at("tuned").exists());
    tuned(&["--set", cure]).success();
    // The fine-tuned model has the old vocabulary.
    let other =
        folder.oomph(&["predict", "--run", "tuned", "--prompt", "six seven", "--length", "2"]).success();
    assert!(
        other.stderr.contains("warning: the model does not know \"x\": each is read as `<unk>`"),
        "{}",
        other.stderr
    );
    // A vocabulary of PyTorch without `<unk>`.
    folder.write("list.json", r#"["a", "b"]"#);
    let short = folder.oomph(
        &[&tune[..3], &["--set", "data.vocabulary_file=list.json", "--set", "run.directory=short"]].concat(),
    );
    assert!(short.stderr.contains("has neither the token \"s\" of the text nor `<unk>`"), "{}", short.stderr);
}

#[test]
fn a_tied_model_has_its_shared_weights_twice_for_pytorch() {
    let folder = Folder::new();
    folder.write("rhyme.txt", "one two three four five,\nonce i caught a fish alive\n".repeat(60));
    folder.write("rhyme.toml", CONFIG);
    let train = |more: &[&str]| {
        let tied = ["train", "--config", "rhyme.toml", "--set", "model.tied=true", "--set", "train.steps=2"];
        folder.oomph(&[&tied, more].concat())
    };
    train(&[]).success();
    folder.oomph(&["export", "run", "--to", "tied.safetensors"]).success();
    let mut bytes = fs::read(folder.at("tied.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let values = |name: &str| file.tensor(name).unwrap().data().to_vec();
    assert_eq!(values("encoder.weight"), values("decoder.weight"));
    let weights = ["--set", "model.weights=tied.safetensors", "--set", "run.directory=again"];
    let frozen = train(&[&weights[..], &["--set", "model.freeze=[\"head\"]"]].concat()).success();
    let warned = "`head` is frozen, but computes with parameters of `embedding`, which are trained";
    assert!(frozen.stderr.contains(warned), "{}", frozen.stderr);
    let twin = file.tensor("decoder.weight").unwrap().data().as_ptr();
    let at = twin as usize - bytes.as_ptr() as usize;
    bytes[at] ^= 1;
    folder.write("tied.safetensors", bytes);
    let differs = train(&[&weights[..], &["--set", "run.directory=third"]].concat());
    assert_eq!(differs.code, Some(1));
    assert!(differs.stderr.contains("but they differ in the weights"), "{}", differs.stderr);
    assert!(differs.stderr.contains("hint: set `model.tied=false`"), "{}", differs.stderr);
}

#[test]
fn a_place_in_an_epoch_is_one_of_the_same_batches() {
    let folder = trained("char");
    // Stops in the middle of an epoch.
    folder.oomph(&["train", "--resume", "run", "--set", "train.steps=125"]).success();
    // The same number of batches, but of other samples.
    for (settings, changed) in [
        (["train.batch=16", "data.steps=8"], "samples, in the order of the data, in batches of 8, and is "),
        (
            ["data.carry=false", "data.steps=16"],
            "samples, in the order of the data, in batches of 8, and is ",
        ),
    ] {
        let settings = settings.map(|setting| ["--set", setting]).concat();
        let resumed = folder
            .oomph(&[&["train", "--resume", "run", "--set", "train.steps=130"], &settings[..]].concat());
        assert_eq!(resumed.code, Some(1), "{settings:?}: {}", resumed.stderr);
        assert!(resumed.stderr.contains(changed), "{settings:?}: {}", resumed.stderr);
    }
}

#[test]
fn a_batch_may_be_given_in_tokens() {
    let folder = Folder::new();
    folder.write("rhyme.txt", "one two three four five,\nonce i caught a fish alive\n".repeat(60));
    folder.write("rhyme.toml", CONFIG.replace("batch = 8", "batch = '128 tokens'"));
    let run =
        |command: &str, more: &[&str]| folder.oomph(&[&[command, "--config", "rhyme.toml"], more].concat());
    let trained = |directory: &str, more: &[&str]| {
        let directory_set = format!("run.directory={directory}");
        let set = ["--json", "--set", &directory_set, "--set", "train.steps=5"];
        let events = run("train", &[&set[..], more].concat()).success().json_lines();
        let weights = fs::read(folder.at(directory).join("checkpoints/latest/model.safetensors")).unwrap();
        (events, weights)
    };
    let (events, weights) = trained("tokens", &[]);
    assert!(weights == trained("samples", &["--set", "train.batch=8"]).1, "other bytes");
    assert_eq!((&events[0]["batch"], &events[0]["batch_tokens"]), (&8.into(), &128.into()));
    let done = events.last().expect("the end");
    let number = |key: &str| done[key].as_f64().expect(key);
    assert!((number("tokens_per_second") / number("samples_per_second") - 16.0).abs() < 1e-9);
    let shown = run("train", &["--set", "train.steps=2", "--set", "memory.micro_batch=3"]).success();
    assert!(shown.stderr.contains("8 (128 tokens) in micro-batches of 3"), "{shown}");
    assert!(shown.stderr.contains(" tokens/s)") && shown.stdout.contains(" tokens/s)"), "{shown}");
    let written = fs::read_to_string(folder.at("run/config.toml")).unwrap();
    assert!(written.contains("batch = \"128 tokens\""), "{written}");
    let other = ["--set", "train.batch=192 tokens", "--set", "data.steps=32"];
    let planned = run("plan", &[&["--json"][..], &other].concat()).success().last_json();
    assert_eq!(planned["micro_batch"], 6);
    run("summary", &[]).success();
    run("compare", &["--batches", "4,8", "--plan-only"]).success();
    run("find-batch", &["--effective-batch", "8", "--memory-limit", "1GiB"]).success();
    let refused = run("train", &["--set", "train.batch=100 tokens"]);
    assert!(
        refused.stderr.contains("train.batch=100 tokens: expected a multiple of `data.steps`, which is `16`")
    );
    assert!(refused.stderr.contains("hint: set it to `96 tokens` or `112 tokens`"), "{refused}");
    folder.write("rows.csv", (0..600).map(|row| format!("{row}\n")).collect::<String>());
    let csv = ["--set", "data.source=csv", "--set", "data.path=rows.csv", "--set", "model.name=lstm"];
    let refused = run("train", &csv);
    assert!(refused.code == Some(1) && refused.stderr.contains("the data has no tokens"), "{refused}");
}

#[test]
fn what_is_wrong_with_a_text_is_said() {
    let folder = Folder::new();
    folder.write("rhyme.toml", CONFIG);
    let message = |arguments: &[&str]| {
        let answer = folder.oomph(&[&["train", "--config", "rhyme.toml"], arguments].concat());
        assert_eq!(answer.code, Some(1), "{}", answer.stderr);
        answer.stderr
    };
    assert!(message(&[]).contains("text `rhyme.txt` does not exist"));
    folder.write("rhyme.txt", b"fine so far \xff");
    assert!(message(&[]).contains("`rhyme.txt`, byte 12: the text is not UTF-8"));
    folder.write("rhyme.txt", "short");
    let short = message(&[]);
    assert!(short.contains("has 4 training tokens and 1 held-out tokens, in 1 file"), "{short}");
    assert!(short.contains("a sample of `data.steps` (= 16) needs 17"), "{short}");
    folder.write("rhyme.txt", "a long text of which nothing is wrong. ".repeat(50));
    let wrong = message(&["--set", "model.name=lstm"]);
    assert!(wrong.contains("model `lstm` takes sequences or images"), "{wrong}");
    let tied = message(&["--set", "model.tied=true", "--set", "model.embedding=16"]);
    assert!(tied.contains("model.embedding=16: expected `model.hidden` (= 32)"), "{tied}");
}

#[test]
fn a_prompt_is_for_texts_and_files_are_for_images() {
    let folder = trained("char");
    folder.write("photo.jpg", "");
    let wrong = folder.oomph(&["predict", "--run", "run", "photo.jpg"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("cannot predict from files: its input is 16 tokens"), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("hint: `--prompt`"), "{}", wrong.stderr);
    let both = folder.oomph(&["predict", "--run", "run", "photo.jpg", "--prompt", "x"]);
    assert_eq!(both.code, Some(1));
    assert!(
        both.stderr.starts_with("error: a model predicts from images or from a text, not from both"),
        "{both}"
    );
    let neither = folder.oomph(&["predict", "run"]);
    assert!(
        neither.stderr.contains("hint: `--prompt` gives a language model a text to continue"),
        "{neither}"
    );
    let done: Value =
        folder.oomph(&["predict", "--run", "run", "--json", "--prompt", "o"]).success().last_json();
    assert_eq!((&done["event"], done["tokens"].as_u64()), (&"done".into(), Some(200)));
}
