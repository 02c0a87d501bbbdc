//! Where a text comes from outside. Each function puts texts there, and gives the command lines that may show them.

use std::{ffi::OsString, fs, path::Path};

use oomph_core::Generator;
use serde_json::{Value, json};

use super::texts::{Text, with_ending};
use crate::{Error, Folder, forged::tensors::TensorFile, run_files::sha256};

/// A command line, and variables of its environment.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) words: Vec<OsString>,
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// The places: the kinds of this attack. Each is of the data source beside it.
pub(crate) const PLACES: [(&str, &str, Place); 12] = [
    ("names of images", "folder", image_names),
    ("names of classes", "folder", class_names),
    ("names of runs", "csv", run_names),
    ("logs of runs", "csv", run_logs),
    ("keys and values of configs", "csv", configs),
    ("columns of tables", "csv", columns),
    ("tokens and prompts", "text", tokens),
    ("tensors and classes of weights", "folder", weights),
    ("states of checkpoints", "folder", checkpoints),
    ("names of paths", "idx", paths),
    ("command lines", "csv", arguments),
    ("environment variables", "folder", variables),
];

type Place = fn(&mut Generator, &Folder, &[Text]) -> Result<Vec<Asked>, Error>;

fn asked(words: &[&str]) -> Asked {
    Asked { words: words.iter().map(OsString::from).collect(), ..Asked::default() }
}

fn with(words: &[&str], more: impl IntoIterator<Item = OsString>) -> Asked {
    let mut asked = asked(words);
    asked.words.extend(more);
    asked
}

/// A training in a new run directory, on a config.
fn train(run: &str, more: &[&str]) -> Asked {
    let directory = format!("run.directory={run}");
    asked(&[&["train", "--config", "config.toml", "--set", &directory], more].concat())
}

fn image_names(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let image = fs::read(folder.at("image.png"))?;
    let mut files = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let file = Path::new("data/train/cat").join(with_ending(&text.name(random), ".png"));
        // A part of them can be read.
        folder.write(&file, if number % 2 == 0 { &image[..60] } else { &image })?;
        files.push(file.into_os_string());
    }
    Ok(vec![
        asked(&["predict", "--run", "run", "data/train/cat"]),
        with(&["predict", "--run", "run", "--json"], files),
        train("new", &["--set", "data.on_corrupt=skip"]),
        train("newer", &[]),
    ])
}

fn class_names(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let image = fs::read(folder.at("image.png"))?;
    for text in texts {
        let class = text.name(random);
        folder.write(Path::new("data/train").join(&class).join("1.png"), &image)?;
        folder.write(Path::new("data/test").join(&class).join("1.png"), &image)?;
    }
    let _ = fs::remove_dir_all(folder.at("cache"));
    // One more class in one set alone, and one without images.
    folder.write(Path::new("other/train").join(texts[0].name(random)).join("1.png"), &image)?;
    folder.write(Path::new("other/test").join(texts[1].name(random)).join("1.png"), &image)?;
    fs::create_dir_all(folder.at("empty/train").join(texts[2].name(random)))?;
    fs::create_dir_all(folder.at("empty/test").join(texts[2].name(random)))?;
    Ok(vec![
        train("new", &[]),
        asked(&["predict", "--run", "new", "--top", "99", "image.png"]),
        asked(&["predict", "--run", "new", "--top", "99", "--json", "image.png"]),
        asked(&["evaluate", "--config", "config.toml", "--checkpoint", "run"]),
        train("other-run", &["--set", "data.path=other"]),
        train("empty-run", &["--set", "data.path=empty"]),
    ])
}

fn run_names(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let mut runs = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let run = Path::new("runs").join(text.name(random));
        for file in ["config.toml", "environment.json", "metrics.jsonl"] {
            // A part of them is damaged.
            let bytes = fs::read(folder.at("run").join(file))?;
            let end = if number % 3 == 0 { bytes.len() / 2 } else { bytes.len() };
            folder.write(run.join(file), &bytes[..end])?;
        }
        runs.push(run.into_os_string());
    }
    Ok(vec![
        asked(&["runs"]),
        asked(&["runs", "--json"]),
        with(&["runs", "--sort", "name"], runs.clone()),
        with(&["train", "--resume"], [runs[1].clone()]),
        with(&["evaluate", "--checkpoint"], [runs[0].clone()]),
        with(&["export", "--to", "out"], [runs[2].clone()]),
    ])
}

fn run_logs(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let config = fs::read_to_string(folder.at("run/config.toml"))?;
    let log = fs::read_to_string(folder.at("run/metrics.jsonl"))?;
    let environment: Value = serde_json::from_slice(&fs::read(folder.at("run/environment.json"))?)?;
    let mut runs = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let run = format!("runs/{number}");
        let quoted = text.quoted();
        let (mut config, mut log, mut environment) = (config.clone(), log.clone(), environment.clone());
        match random.below(5) {
            0 => config = config.replace("\"series.csv\"", &quoted),
            1 => config += &format!("\n[extra]\n{quoted} = {quoted}\n"),
            2 => log += &format!("{{\"event\":\"error\",\"message\":{quoted}}}\n"),
            3 => log += &format!("{{\"event\":{quoted}}}\n{}\n", text.whole),
            _ => environment["host"] = json!(text.whole),
        }
        folder.write(format!("{run}/config.toml"), config)?;
        folder.write(format!("{run}/metrics.jsonl"), log)?;
        folder.write(format!("{run}/environment.json"), serde_json::to_vec(&environment)?)?;
        runs.push(run.into());
    }
    Ok(vec![asked(&["runs"]), asked(&["runs", "--json"]), with(&["runs"], runs)])
}

fn configs(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let valid = fs::read_to_string(folder.at("config.toml"))?;
    let mut all = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let (quoted, line) = (text.quoted(), text.line());
        let config = match random.below(8) {
            0 => valid.replace("\"series.csv\"", &quoted),
            1 => valid.replace("\"lstm\"", &quoted),
            2 => format!("{valid}{quoted} = 1\n"),
            3 => format!("{valid}[{quoted}]\nx = 1\n"),
            4 => format!("{valid}# {line}\nx = = 1\n"),
            5 => format!("{valid}{line} = 1\n"),
            6 => format!("{valid}[train.{quoted}]\n{quoted} = {quoted}\n"),
            _ => valid.replace("steps = 4", &format!("targets = [{quoted}]")),
        };
        let file = format!("{number}.toml");
        folder.write(&file, config)?;
        let command = ["train", "config", "plan", "summary"][random.below(4)];
        all.push(asked(&[command, "--config", &file, "--set", "run.directory=new"]));
    }
    all.push(asked(&["config", "--config", "0.toml", "--json"]));
    Ok(all)
}

fn columns(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let heads: Vec<_> = texts.iter().map(|text| format!("\"{}\"", text.whole)).collect();
    let row = |row: usize| {
        let fields: Vec<_> = (0..texts.len()).map(|column| (row * column % 7).to_string()).collect();
        fields.join(",") + "\n"
    };
    let rows: String = (0..30).map(row).collect();
    folder.write("series.csv", format!("{}\n{rows}", heads.join(",")))?;
    folder.write("damaged.csv", format!("{}\n{rows}{}\n", heads.join(","), heads.join(",")))?;
    folder.write("twice.csv", format!("{0},{0}\n1,1\n", heads[0]))?;
    let target = format!("data.targets=[{}]", texts[random.below(texts.len())].quoted());
    Ok(vec![
        train("new", &[]),
        train("newer", &["--set", "data.targets=['missing']"]),
        train("newest", &["--set", &target, "--json"]),
        train("damaged", &["--set", "data.path=damaged.csv"]),
        train("twice", &["--set", "data.path=twice.csv"]),
        asked(&["evaluate", "--checkpoint", "run"]),
        asked(&["train", "--resume", "run", "--set", "train.steps=3"]),
        asked(&["evaluate", "--checkpoint", "new"]),
    ])
}

fn tokens(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let words: Vec<_> = texts.iter().map(|text| text.whole.clone()).collect();
    folder.write("text.txt", format!("{}\n", words.join(" ")).repeat(6))?;
    let vocabulary: Vec<_> = ["<unk>"].into_iter().chain(words.iter().map(String::as_str)).collect();
    folder.write("tokens.json", serde_json::to_vec(&vocabulary)?)?;
    folder.write("twice.json", serde_json::to_vec(&[&words[0], &words[0]])?)?;
    let prompt = words[random.below(words.len())].clone();
    let level = ["data.level=char", "data.level=word"][random.below(2)];
    Ok(vec![
        train("new", &["--set", level]),
        asked(&["predict", "--run", "new", "--prompt", &prompt, "--length", "60"]),
        asked(&["predict", "--run", "new", "--prompt", &prompt, "--length", "60", "--json"]),
        asked(&["predict", "--run", "run", "--prompt", &prompt]),
        train("newer", &["--set", "data.level=word", "--set", "data.vocabulary_file=tokens.json"]),
        asked(&["predict", "--run", "newer", "--prompt", &prompt, "--length", "20"]),
        train("twice", &["--set", "data.level=word", "--set", "data.vocabulary_file=twice.json"]),
        asked(&["evaluate", "--checkpoint", "run"]),
    ])
}

fn weights(_: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let bytes = fs::read(folder.at("weights.safetensors"))?;
    let valid = TensorFile::decode(&bytes).ok_or("the export is no safetensors file")?;
    let mut named = valid.clone();
    for text in texts {
        named.add(text.whole.clone(), &[1]);
    }
    folder.write("tensors.safetensors", named.encode())?;
    let mut noted = valid.clone();
    let mut notes = valid.head.get("__metadata__").cloned().unwrap_or_else(|| json!({}));
    for (number, text) in texts.iter().enumerate() {
        let keys: Vec<String> = notes.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        match keys.get(number) {
            Some(key) => notes[key] = json!(serde_json::to_string(&[&text.whole, "b"])?),
            None => notes[&text.whole] = json!(text.whole),
        }
    }
    noted.head.insert("__metadata__".to_owned(), notes);
    folder.write("noted.safetensors", noted.encode())?;
    let mut all = Vec::new();
    for file in ["tensors.safetensors", "noted.safetensors"] {
        all.push(asked(&["evaluate", "--config", "config.toml", "--weights", file]));
        all.push(asked(&["export", "--config", "config.toml", "--weights", file, "--to", "out", "--force"]));
        all.push(train(&format!("new-{file}"), &["--set", &format!("model.weights={file}")]));
    }
    Ok(all)
}

fn checkpoints(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    const CHECKPOINT: &str = "run/checkpoints/step-00000002";
    let sealed: Value = serde_json::from_slice(&fs::read(folder.at(format!("{CHECKPOINT}/state.json")))?)?;
    let source: Value = serde_json::from_slice(&fs::read(folder.at(format!("{CHECKPOINT}/source.json")))?)?;
    let mut all = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let checkpoint = format!("forged-{number}");
        crate::trees::copy(&folder.at(CHECKPOINT), &folder.at(&checkpoint))?;
        let (mut state, mut source, mut damage) = (sealed["state"].clone(), source.clone(), Vec::new());
        match random.below(7) {
            0 => state["optimizer_ranks"][&text.whole] = json!(1),
            1 => state["files"][&text.whole] = json!("x"),
            2 => state["optimizer_scalars"][&text.whole] = json!({ &text.whole: 1 }),
            3 => state["progress"] = json!(text.whole),
            4 => source["class_names"][0] = json!(text.whole),
            5 => source["images"]["resize"] = json!(text.whole),
            _ => damage = text.whole.clone().into_bytes(),
        }
        let source = serde_json::to_vec(&source)?;
        state["files"]["source.json"] = json!(sha256(&source));
        let state = serde_json::to_vec(&state)?;
        let head = format!("{{\"sha256\":\"{}\",\"state\":", sha256(&state));
        folder.write(format!("{checkpoint}/source.json"), source)?;
        folder.write(
            format!("{checkpoint}/state.json"),
            [damage, head.into_bytes(), state, b"}".to_vec()].concat(),
        )?;
        all.push(match random.below(3) {
            0 => asked(&["evaluate", "--checkpoint", &checkpoint]),
            1 => asked(&["export", &checkpoint, "--to", &format!("out-{number}")]),
            _ => asked(&["evaluate", "--json", "--checkpoint", &checkpoint]),
        });
    }
    Ok(all)
}

fn paths(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let mut all = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let name = text.name(random);
        let is_there = random.chance(0.5);
        let set = |key: &str| OsString::from(format!("{key}={}", text.quoted()));
        let copy = |from: &str| match is_there {
            true => fs::copy(folder.at(from), folder.at(&name)).map(drop),
            false => Ok(()),
        };
        let new_run = format!("run.directory=new-{number}");
        all.push(match random.below(8) {
            0 => {
                copy("config.toml")?;
                with(&["train", "--set", &new_run, "--config"], [name])
            }
            1 => {
                copy("weights.pth")?;
                with(&["evaluate", "--config", "config.toml", "--weights"], [name])
            }
            2 => with(&["export", "run", "--to"], [name]),
            3 => with(&["plan", "--batch", "2", "--html"], [name]),
            4 => with(&["train", "--set"], [set("run.directory")]),
            5 => with(&["train", "--set", &new_run, "--set"], [set("data.path")]),
            6 => with(&["profile", "--warmup", "0", "--steps", "1", "--out"], [name]),
            _ => with(&["train", "--memory-limit", "1KiB", "--set"], [set("run.directory")]),
        });
    }
    Ok(all)
}

fn arguments(random: &mut Generator, _: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    let of = |text: &Text, choice: usize| {
        let (name, whole) = (OsString::from(&text.whole), &text.whole);
        match choice {
            0 => with(&[], [name]),
            1 => asked(&["train", &format!("--{whole}")]),
            2 => asked(&["train", "--set", &format!("{whole}=1")]),
            3 => asked(&["config", "--set", &format!("train.batch={whole}")]),
            4 => asked(&["config", "--set", &format!("data.path={whole}")]),
            5 => asked(&["plan", "--gpu", whole]),
            6 => asked(&["train", "--devices", whole]),
            7 => asked(&["compare", "--optimizers", whole]),
            8 => asked(&["runs", "--sort", whole]),
            9 => asked(&["completions", whole]),
            10 => asked(&["predict", "--run", "run", "--checkpoint", whole, "image.png"]),
            11 => asked(&["plan", "--memory-limit", whole]),
            12 => asked(&["train", "--json", "--strategy", whole]),
            _ => asked(&["compare", "--plan-only", "--recompute", whole]),
        }
    };
    Ok(texts.iter().map(|text| of(text, random.below(14))).collect())
}

fn variables(random: &mut Generator, folder: &Folder, texts: &[Text]) -> Result<Vec<Asked>, Error> {
    const NAMES: [&str; 10] = [
        "CUDA_VISIBLE_DEVICES",
        "RAYON_NUM_THREADS",
        "HTTPS_PROXY",
        "TERM",
        "COLUMNS",
        "CLICOLOR_FORCE",
        "OMPI_COMM_WORLD_SIZE",
        "VK_DRIVER_FILES",
        "CUDA_PATH",
        "TMPDIR",
    ];
    let mut all = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut asked = match random.below(6) {
            0 => asked(&["doctor"]),
            1 => asked(&["devices"]),
            2 => train(&format!("new-{number}"), &[]),
            3 => asked(&["doctor", "--json"]),
            4 => asked(&["monitor", "--once"]),
            _ => asked(&["plan", "--batch", "2"]),
        };
        let variable = match random.below(3) {
            // A folder for results that cannot be made, since a file is in its place.
            0 => {
                let cache = folder.at(text.name(random));
                fs::write(&cache, "")?;
                ("XDG_CACHE_HOME", cache.into_os_string())
            }
            _ => (NAMES[random.below(NAMES.len())], OsString::from(&text.whole)),
        };
        asked.variables.push(variable);
        all.push(asked);
    }
    Ok(all)
}
