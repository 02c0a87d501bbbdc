//! What a newcomer types in the first week, as they type it.

use std::fs;

use serde_json::Value;

use crate::support::{Answer, Case, Folder, check};

#[test]
fn a_config_and_the_usual_flags_need_no_set() {
    let folder = Folder::new();
    let typed =
        ["train", "tiny.toml", "--steps", "2", "--batch", "16", "--lr", "0.02", "--seed", "3", "--json"];
    let lines = folder.oomph(&typed).success().json_lines();
    assert_eq!((&lines[0]["batch"], &lines[0]["steps"]), (&16.into(), &2.into()));
    let kept = String::from_utf8(folder.read("run/config.toml")).unwrap();
    for line in ["batch = 16", "lr = 0.02", "seed = 3"] {
        assert!(kept.contains(line), "{line}: {kept}");
    }
    // A name that is built in, and epochs.
    let answer = folder.oomph(&["config", "resnet", "--json"]).success();
    assert_eq!(answer.last_json()["model.name"]["value"], "resnet18");
    folder
        .oomph(&["train", "tiny.toml", "--epochs", "1", "--set", "run.directory=other", "--quiet"])
        .success();
}

#[test]
fn help_and_tables_fit_into_80_columns() {
    let folder = Folder::new();
    folder.oomph(&["train", "tiny.toml", "--quiet"]).success();
    let narrow = |arguments: &[&str]| {
        let output = folder.command(arguments).env("COLUMNS", "80").output().expect("the binary starts");
        Answer::new(&output, &folder).success().stdout
    };
    let commands =
        ["train", "plan", "compare", "tune", "predict", "evaluate", "find-batch", "runs", "doctor"];
    let mut texts = vec![narrow(&["--help"])];
    texts.extend(commands.map(|command| narrow(&[command, "--help"])));
    texts.extend([
        narrow(&["plan", "tiny.toml"]),
        narrow(&["plan", "tiny.toml", "--gpu", "8GiB"]),
        narrow(&["plan", "pipeline"]),
        narrow(&["runs", "run"]),
    ]);
    for text in &texts {
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert!(wide.is_none(), "{wide:?} in\n{text}");
    }
    // Prose is broken at the end of a line alone.
    let prose = "Each combination trains in its own process, with the same seed and the same data\nin the same order. An";
    assert!(texts[3].contains(prose), "{}", texts[3]);
    // No column is lost.
    let columns = ["batch", "planned peak", "optimizer state", "activations", "workspace", "other", "fits"];
    let plan = &texts[1 + commands.len()];
    assert!(columns.iter().all(|column| plan.contains(column)), "{plan}");
}

#[test]
fn limits_of_runs_are_compared_with_their_units() {
    let folder = Folder::new();
    for (limit, name) in [("64MiB", "one"), ("96MiB", "other")] {
        let directory = format!("run.directory={name}");
        let train = ["train", "tiny.toml", "--steps", "1", "--memory-limit", limit, "--set", &directory];
        folder.oomph(&train).success();
    }
    let compared = folder.oomph(&["runs", "one", "other"]).success().stdout;
    assert!(compared.contains("64.0 MiB  one") && compared.contains("96.0 MiB  other"), "{compared}");
}

#[test]
fn help_is_a_command_too() {
    let folder = Folder::new();
    assert_eq!(folder.oomph(&["help"]).success().stdout, folder.oomph(&["--help"]).success().stdout);
    let train = folder.oomph(&["help", "train"]).success().stdout;
    assert_eq!(train, folder.oomph(&["train", "--help"]).success().stdout);
}

#[test]
fn json_and_quiet_together_print_the_end() {
    let folder = Folder::new();
    let lines = folder.oomph(&["train", "tiny.toml", "--quiet", "--json"]).success().json_lines();
    assert_eq!((lines.len(), &lines[0]["event"]), (1, &"done".into()));
    let lines = folder.oomph(&["evaluate", "run", "--quiet", "--json"]).success().json_lines();
    assert_eq!((lines.len(), &lines[0]["event"]), (1, &"done".into()));
}

#[test]
fn a_trained_model_has_one_name_for_every_command() {
    let folder = Folder::new();
    let saves =
        ["train", "tiny.toml", "--set", "run.save_every='3 steps'", "--set", "train.eval_every='3 steps'"];
    folder.oomph(&saves).success();
    let step = |name: &str| folder.oomph(&["evaluate", name, "--json"]).success().last_json()["step"].clone();
    assert_eq!(
        [step("run"), step("run/latest"), step("run/3"), step("run/6")],
        [6, 6, 3, 6].map(Value::from)
    );
    assert_eq!(step("run/checkpoints/step-00000003"), 3);
    assert!([3, 6].map(Value::from).contains(&step("run/best")));
    let exported =
        folder.oomph(&["export", "run/3", "--to", "three.safetensors", "--json"]).success().last_json();
    assert_eq!(exported["step"], 3);
    // A config stands for its newest run, with the settings of that run.
    assert_eq!(step("tiny.toml"), 6);
    folder
        .oomph(&["train", "tiny.toml", "--set", "model.hidden=5", "--set", "run.directory=other"])
        .success();
    let other = ["evaluate", "tiny.toml", "--set", "run.directory=other", "--json"];
    let done = folder.oomph(&other).success().last_json();
    assert!(done["checkpoint"].as_str().unwrap().starts_with("other/checkpoints/"), "{done}");
    let exported = folder.oomph(&["export", "tiny.toml", "--output", "six.safetensors", "--json"]).success();
    assert_eq!(exported.last_json()["step"], 6);
    let longer = ["train", "--resume", "tiny.toml", "--steps", "7", "--json"];
    assert_eq!(folder.oomph(&longer).success().json_lines()[0]["first_step"], 6);
    let weights = ["evaluate", "tiny.toml", "--weights", "six.safetensors", "--json"];
    assert_eq!(folder.oomph(&weights).success().last_json()["weights"], "six.safetensors");
    // Its text matters: a wrong one stands for no run.
    folder.write("wrong.toml", "extends = 'tiny'\n[train]\nbatch = 0\n");
    let answer = folder.oomph(&["evaluate", "wrong.toml"]);
    assert!(answer.stderr.starts_with("error: wrong.toml:3: `train.batch` is `0`"), "{answer}");
    let answer = folder.oomph(&["evaluate", "lstm"]);
    assert!(answer.stderr.starts_with("error: there is no checkpoint in `runs/lstm`\n"), "{answer}");
    let resumed = folder.oomph(&["train", "--resume", "run/3", "--steps", "4", "--json"]).success();
    assert_eq!(resumed.json_lines()[0]["first_step"], 3);
    // Those that scripts have.
    folder.oomph(&["evaluate", "--checkpoint", "run/3"]).success();
    let answer = folder.oomph(&["evaluate", "run/5"]);
    assert!(answer.stderr.contains("has no checkpoint of step 5; it has: "), "{answer}");
}

#[test]
fn a_model_is_named_before_the_photos() {
    let folder = Folder::new();
    let net = "extends = 'resnet'\n[run]\ndirectory = 'net'\n";
    fs::write(folder.at("net.toml"), net).unwrap();
    folder.oomph(&["train", "net.toml", "--steps", "1"]).success();
    let mut pixels = image::RgbImage::new(8, 8);
    pixels.put_pixel(3, 3, image::Rgb([250, 10, 10]));
    pixels.save(folder.at("colour.png")).unwrap();
    let answer = folder.oomph(&["predict", "net/1", "colour.png", "--top", "2"]).success();
    assert!(answer.stdout.starts_with("colour.png  class "), "{answer}");
    assert_eq!(
        answer.stderr,
        "note: `colour.png` has colours, and the model sees grey images: colours are dropped\n"
    );
    // A config stands for its newest run.
    let by_config = folder.oomph(&["predict", "net.toml", "colour.png", "--top", "2"]).success();
    assert_eq!(by_config.stdout, answer.stdout);
    assert!(by_config.stderr.starts_with("note: using the checkpoint `net/checkpoints/"), "{by_config}");
    let answer = folder.oomph(&["predict", "net"]);
    assert!(answer.stderr.starts_with("error: there is nothing to predict from"), "{answer}");
    // No other model answers in the place of one that is not there, or that stands behind.
    for missing in ["nett", "net-v1.5"] {
        let answer = folder.oomph(&["predict", missing, "colour.png"]);
        let start = format!("error: `{missing}` is not a checkpoint, nor a run");
        assert!(answer.stderr.starts_with(&start), "{answer}");
    }
    let answer = folder.oomph(&["predict", "colour.png", "net.toml"]);
    assert!(answer.stderr.starts_with("error: `net.toml` is a model, and only the first path"), "{answer}");
    assert!(
        answer.stderr.contains("hint: name the model, then images: `oomph predict net.toml …`"),
        "{answer}"
    );
    assert!(answer.stdout.is_empty(), "{answer}");
}

#[test]
fn an_evaluation_says_how_right_each_class_is() {
    let folder = Folder::new();
    folder.oomph(&["train", "tiny.toml", "--steps", "40", "--quiet"]).success();
    let evaluate = ["evaluate", "run", "--json", "--confusion", "matrix.svg"];
    let done = folder.oomph(&evaluate).success().last_json();
    let scores = &done["scores"];
    let rows = scores["confusion"].as_array().expect("rows");
    let counts =
        |row: &Value| -> Vec<u64> { row.as_array().unwrap().iter().filter_map(Value::as_u64).collect() };
    assert_eq!(rows.iter().flat_map(&counts).sum::<u64>(), done["samples"].as_u64().unwrap());
    let right: u64 = rows.iter().enumerate().map(|(class, row)| counts(row)[class]).sum();
    assert_eq!(scores["micro"].as_f64(), Some(right as f64 / 359.0));
    assert!((scores["micro"].as_f64().unwrap() - done["eval_accuracy"].as_f64().unwrap()).abs() < 1e-6);
    assert!(scores["top_5_accuracy"].as_f64().unwrap() >= scores["micro"].as_f64().unwrap());
    assert_eq!(scores["classes"].as_array().map(Vec::len), Some(10));
    let picture = fs::read_to_string(folder.at("matrix.svg")).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.matches("<rect").count() == 101, "{}", picture.len());
    let text = folder.oomph(&["evaluate", "run"]).success().stdout;
    for part in
        ["top-5 accuracy", "macro F1", "precision", "samples by class (rows) and prediction (columns)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // It replaces no file unasked.
    assert_eq!(folder.oomph(&evaluate).code, Some(1));
}

#[test]
fn a_range_test_suggests_a_rate_and_leaves_nothing() {
    let folder = Folder::new();
    let found =
        folder.oomph(&["find-lr", "tiny.toml", "--json", "--svg", "lr.svg", "--steps", "80"]).success();
    let found = found.last_json();
    let suggested = found["suggested"].as_f64().expect("a rate");
    assert!((1e-5..10.0).contains(&suggested), "{suggested}");
    assert!(found["points"].as_array().is_some_and(|points| points.len() > 20));
    assert!(fs::read_to_string(folder.at("lr.svg")).expect("a picture").contains("suggested"));
    assert!(!folder.at("run").exists() && !folder.at("runs").exists());
    let answer = folder.oomph(&["find-lr", "tiny.toml", "--from", "1", "--to", "0.1"]);
    assert!(answer.stderr.contains("error: `--from 1` must be less than `--to 0.1`"), "{answer}");
    // The proposed command trains the config that was tested.
    let told = folder.oomph(&["find-lr", "tiny.toml", "--steps", "80", "--set", "train.batch=64"]).success();
    assert!(told.stdout.contains("(`oomph train tiny.toml --set train.batch=64 --lr "), "{told}");
    // With the devices and the limit that were typed.
    let flags = ["--devices", "cpu", "--memory-limit", "1GiB"];
    let told = folder.oomph(&[&["find-lr", "tiny.toml", "--steps", "80"], &flags[..]].concat()).success();
    assert!(
        told.stdout.contains("(`oomph train tiny.toml --devices cpu --memory-limit 1GiB --lr "),
        "{told}"
    );
    // A schedule and a patience of the config are no obstacle.
    folder.write(
        "cycle.toml",
        "extends = 'tiny'\n[schedule]\nname = 'one-cycle'\ndiv = 10\n[train]\npatience = 2\n",
    );
    folder.oomph(&["find-lr", "cycle.toml", "--steps", "12", "--json"]).success();
}

#[test]
fn plans_need_no_data() {
    let folder = Folder::new();
    let plan = ["plan", "resnet18-cifar10", "--batch", "8", "--gpu", "24G", "--json"];
    let answer = folder.oomph(&plan).success();
    assert!(
        answer.last_json()["batches"][0]["planned_peak_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20)
    );
    assert!(answer.stderr.starts_with("note: the data is not there; planned for image 3×32×32"), "{answer}");
    for config in ["mnist", "lstm-lm", "resnet50-imagenet"] {
        folder.oomph(&["summary", config]).success();
    }
    // What trains needs it.
    for command in
        [&["train", "resnet18-cifar10"][..], &["find-batch", "mnist"], &["train", "resnet50-imagenet"]]
    {
        let answer = folder.oomph(command);
        assert!(answer.code == Some(1) && answer.stderr.contains("data"), "{answer}");
    }
}

#[test]
fn a_batch_that_does_not_fit_comes_with_a_way_out() {
    let folder = Folder::new();
    let peak = |batch: &str, more: &[&str]| {
        let words = [&["plan", "tiny.toml", "--batch", batch, "--json"], more].concat();
        folder.oomph(&words).success().last_json()
    };
    let bytes = peak("512", &[])["batches"][0]["planned_peak_bytes"].as_u64().expect("bytes");
    let limit = (bytes * 9 / 10).to_string();
    let plan = peak("512", &["--memory-limit", &limit]);
    assert_eq!((&plan["batches"][0]["fits"], &plan["levers_batch"]), (&false.into(), &512.into()));
    assert!(plan["levers"].as_array().is_some_and(|levers| !levers.is_empty()), "{plan}");
    let text =
        folder.oomph(&["plan", "tiny.toml", "--batch", "512", "--memory-limit", &limit]).success().stdout;
    assert!(text.contains("batch 512 fits with one of these settings:"), "{text}");
}

#[test]
fn the_hint_for_a_loss_that_is_no_number_is_accepted() {
    for more in [&[][..], &["--set", "schedule.name=one-cycle"], &["--set", "optimizer.clip_global_norm=1"]] {
        let folder = Folder::new();
        let words = [&["train", "tiny.toml", "--lr", "3e38", "--steps", "40", "--quiet"], more].concat();
        let answer = folder.oomph(&words);
        let hint = answer.stderr.lines().find(|line| line.starts_with("hint: try "));
        let hint = hint.unwrap_or_else(|| panic!("{answer}"));
        let settings: Vec<_> = hint.split('`').filter_map(|part| part.strip_prefix("--set ")).collect();
        assert!(settings[0].starts_with("optimizer.lr="), "{hint}");
        for setting in settings {
            folder.oomph(&[&["config", "tiny.toml"], more, &["--set", setting]].concat()).success();
        }
    }
}

#[test]
fn a_config_that_extends_another_shows_where_each_value_comes_from() {
    let folder = Folder::new();
    folder.write("mine.toml", "extends = 'resnet'\n\n[train]\nbatch = 64\n");
    let shown = folder.oomph(&["config", "mine.toml"]).success().stdout;
    let line = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    assert!(line("batch = 64").ends_with("# mine.toml:4"), "{shown}");
    assert!(line("width = 16").contains("# resnet.toml:"), "{shown}");
}

#[test]
fn words_of_other_frameworks_lead_to_ours() {
    let folder = Folder::new();
    for (typed, ours) in [
        ("train.batchsize=3", "train.batch"),
        ("train.grad_accum=4", "memory.micro_batch"),
        ("train.early_stopping=3", "train.patience"),
        ("model.pretrained=true", "model.weights"),
        ("optimizer.learning_rate=0.1", "optimizer.lr"),
        ("train.num-workers=2", "data.workers"),
        ("memory.gradient_checkpointing=true", "memory.recompute"),
    ] {
        let answer = folder.oomph(&["train", "tiny.toml", "--set", typed]);
        assert!(answer.stderr.ends_with(&format!("hint: did you mean `{ours}`?\n")), "{typed}: {answer}");
    }
}

#[test]
fn what_is_meant_otherwise_is_asked_about() {
    let run = |about, arguments: &[&'static str]| {
        Case::new(about, arguments).after(|folder: &Folder| {
            folder.train(&["--quiet"]).success();
        })
    };
    let cases = [
        Case::new("a size without a unit", &["plan", "tiny.toml", "--memory-limit", "8"]),
        Case::new("a GPU without a unit", &["plan", "tiny.toml", "--gpu", "24"]),
        Case::new("a format that is not written", &["export", "run", "--to", "model.tflite"]),
        Case::new("a PyTorch file", &["export", "run", "--to", "model.pt"]),
        run("a run in place of a config", &["train", "run"]),
        run("two sources of weights", &["evaluate", "run", "--weights", "x.safetensors"]),
        Case::new("a list without brackets", &["train", "tiny.toml", "--set", "model.freeze=head"]),
        Case::new("a config twice", &["train", "tiny.toml", "--config", "lstm"]),
        Case::new("a batch of nothing", &["train", "tiny.toml", "--batch", "0"]),
        Case::new("a negative rate", &["train", "tiny.toml", "--lr", "-1"]),
        Case::new("a GPU by its number", &["train", "tiny.toml", "--gpu", "1"]),
        Case::new("no photos", &["train", "resnet-folder"]),
    ];
    check("week_one", &cases);
}

#[test]
fn another_model_than_the_checkpoint_s_is_refused_by_name() {
    let folder = Folder::new();
    folder.train(&[]).success();
    let answer =
        folder.train(&["--set", "model.name=resnet18", "--set", "data.layout=image", "--resume", "run"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(
        answer.stderr.contains("`run` trained the model `lstm`, and this config has `resnet18`"),
        "{answer}"
    );
    assert!(
        answer.stderr.contains("`oomph train --resume run` continues it with its own config"),
        "{answer}"
    );
}

#[test]
fn a_training_of_less_than_an_epoch_says_how_much() {
    // Six steps of 45.
    let answer = Folder::new().train(&[]).success();
    assert!(answer.stdout.contains("6 of 6 steps, 0.13 epochs"), "{answer}");
}
