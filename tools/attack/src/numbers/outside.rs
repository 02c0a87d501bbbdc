//! Cases with oomph as it is: files and settings that hold numbers that are not finite, or make them.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use oomph_core::Generator;
use serde_json::{Value, json};

use super::{
    Seen, finite, forge,
    verdict::{self, End},
};
use crate::{
    Error,
    arena::{Arena, Case, Folder},
    recipe::{RECIPES, Recipe},
    run_files,
};

/// The places, in the order of the table.
pub(super) const PLACES: [&str; 5] =
    ["weights file", "series", "settings", "resumed tensor", "resumed scale"];

/// Trainings of the recipes that cases start from.
#[derive(Debug, Default)]
pub(super) struct Bases([OnceLock<Folder>; RECIPES.len()]);

const CONFIG: &str = "attack.toml";
const MODEL: &str = "model.safetensors";
const STEPS: &str = "train.steps=8";

/// Runs a case of one of [`PLACES`].
pub(super) fn run(arena: &Arena, bases: &Bases, place: &'static str, case: Case) -> Result<Seen, Error> {
    let folder = arena.folder()?;
    let Case { number, mut random } = case;
    let try_one = match place {
        "weights file" => weights,
        "series" => series,
        "settings" => settings,
        "resumed tensor" => tensor,
        "resumed scale" => scale,
        _ => exported,
    };
    let (what, end) = try_one(arena, bases, &folder, &mut random)?;
    Ok(Seen::of(place, end, &format!("case {number}, seed {}: {what}", arena.seed)))
}

/// What was tried, and how it ended or the harm.
type Tried = (String, Result<End, String>);

/// Trains with `words` in the folder, and judges what is left.
fn train(arena: &Arena, folder: &Folder, words: &[&str]) -> Result<Result<End, String>, Error> {
    let words = ["train", "--config", CONFIG].into_iter().chain(words.iter().copied());
    let answer = arena.oomph(folder.path()).arguments(words).run()?;
    Ok(verdict::judge(&answer, folder.path(), None).map(|left| left.end))
}

/// Resumes a forged checkpoint, by its path or as the newest of its run. If it `is_broken`, it holds numbers that are not
/// finite, and no error may call it good.
fn resume(
    arena: &Arena,
    folder: &Folder,
    forged: &Path,
    is_broken: bool,
    random: &mut Generator,
) -> Result<Result<End, String>, Error> {
    let path = forged.to_string_lossy();
    let mut words = vec!["train", "--config", CONFIG, "--set", STEPS, "--resume"];
    words.extend(random.chance(0.5).then_some(&*path));
    let answer = arena.oomph(folder.path()).arguments(words).run()?;
    // What was forged stays as it is.
    let spared = is_broken.then_some(forged);
    Ok(verdict::judge(&answer, folder.path(), spared).and_then(|left| {
        let newest = left.checkpoints.last().map(|checkpoint| &*checkpoint.path);
        if left.end == End::Named && left.named_step.is_some() && is_broken && newest == Some(forged) {
            return Err(format!("the error calls the forged checkpoint good: {}", answer.last_words()));
        }
        Ok(left.end)
    }))
}

fn one_of<'a, T>(choices: &'a [T], random: &mut Generator) -> &'a T {
    &choices[random.below(choices.len())]
}

/// A run of the recipe with a checkpoint, and its exported weights.
fn base<'a>(arena: &Arena, bases: &'a Bases, at: usize) -> Result<&'a Folder, Error> {
    if let Some(folder) = bases.0[at].get() {
        return Ok(folder);
    }
    let folder = arena.folder()?;
    folder.write(CONFIG, config(&RECIPES[at]))?;
    let run = |words: &[&str]| -> Result<(), Error> {
        let answer = arena.oomph(folder.path()).arguments(words).run()?;
        let name = RECIPES[at].name;
        if answer.is_success() { Ok(()) } else { Err(format!("`{name}`: {}", answer.errors()).into()) }
    };
    run(&["train", "--config", CONFIG, "--set", "train.steps=4"])?;
    run(&["export", "run", "--layout", "oomph", "--to", "weights.safetensors"])?;
    Ok(bases.0[at].get_or_init(|| folder))
}

fn config(recipe: &Recipe) -> String {
    recipe.config("eval_every = '3 steps'", "save_every = '1 step', log_every = 2, keep_last = 100")
}

/// `model.weights` with a value in one tensor.
fn weights(arena: &Arena, bases: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    const VALUES: [(&str, &str, &[u8]); 10] = [
        ("F32", "nan", &f32::NAN.to_le_bytes()),
        ("F32", "inf", &f32::INFINITY.to_le_bytes()),
        ("F32", "-inf", &f32::NEG_INFINITY.to_le_bytes()),
        ("F64", "nan", &f64::NAN.to_le_bytes()),
        ("F64", "1e300", &1e300_f64.to_le_bytes()),
        ("F64", "-inf", &f64::NEG_INFINITY.to_le_bytes()),
        ("F16", "inf", &0x7c00_u16.to_le_bytes()),
        ("F16", "nan", &0x7e01_u16.to_le_bytes()),
        ("BF16", "inf", &0xff80_u16.to_le_bytes()),
        ("BF16", "nan", &0x7fc1_u16.to_le_bytes()),
    ];
    let at = random.below(RECIPES.len());
    let file = fs::read(base(arena, bases, at)?.at("weights.safetensors"))?;
    let tensors = finite::listed(&file)?;
    let tensor = one_of(&tensors, random);
    let (dtype, value, bytes) = one_of(&VALUES, random);
    folder.write("weights.safetensors", forge::converted(&file, dtype, &tensor.name, bytes)?)?;
    folder.write(CONFIG, config(&RECIPES[at]))?;
    let what = format!("`{}` from weights in {dtype} whose `{}` has {value}", RECIPES[at].name, tensor.name);
    let end = train(arena, folder, &["--set", "model.weights=weights.safetensors", "--set", STEPS])?;
    let end = end.and_then(|end| match end {
        End::Named => Ok(end),
        _ => Err("such weights are trained".to_owned()),
    });
    Ok((what, end))
}

/// A time series with a value in one field.
fn series(arena: &Arena, _: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    const VALUES: [&str; 14] = [
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "1e39",
        "-1e400",
        "3e38",
        "-3e38",
        "1e38",
        "1e20",
        "1e-45",
        "1e-400",
        "340282356779733661637539395458142568448",
    ];
    const ROWS: usize = 60;
    let (row, column) = (random.below(ROWS), random.below(2));
    let value = *one_of(&VALUES, random);
    let (normalize, skip) = (*one_of(&["auto", "none"], random), *one_of(&["fail", "skip"], random));
    let mut text = "a,b\n".to_owned();
    for at in 0..ROWS {
        let mut fields = [random.normal().to_string(), random.normal().to_string()];
        if at == row {
            fields[column] = value.to_owned();
        }
        text += &format!("{}\n", fields.join(","));
    }
    folder.write("series.csv", text)?;
    let optimizer = *one_of(&["sgd", "adam"], random);
    folder.write(
        CONFIG,
        format!(
            "model = {{ name = 'lstm', hidden = 4 }}\ndata = {{ source = 'csv', path = 'series.csv', steps = 4, workers = \
             0, normalize = '{normalize}', on_corrupt = '{skip}' }}\noptimizer = {{ name = '{optimizer}' }}\ntrain = {{ \
             batch = 8, steps = 8 }}\nrun = {{ directory = 'run', save_every = '1 step', log_every = 3 }}\n"
        ),
    )?;
    let what = format!(
        "a series with {value} in row {row}, column {column} (`{normalize}`, `{skip}`, `{optimizer}`)"
    );
    Ok((what, train(arena, folder, &[])?))
}

/// Settings that let a training diverge.
fn settings(arena: &Arena, _: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    const SETTINGS: [&str; 10] = [
        "optimizer.lr=1e8",
        "optimizer.lr=1e20",
        "optimizer.lr=1e30",
        "optimizer.lr=1e38",
        "optimizer.lr=3e38",
        "optimizer.weight_decay=1e10",
        "optimizer.weight_decay=1e30",
        "optimizer.weight_decay=3e38",
        "optimizer.epsilon=1e-45",
        "train.label_smoothing=0.999",
    ];
    const OPTIMIZERS: [&str; 8] = ["sgd", "adam", "adamw", "rmsprop", "adagrad", "adan", "lion", "adafactor"];
    let recipe = one_of(&RECIPES, random);
    folder.write(CONFIG, config(recipe))?;
    let optimizer = format!("optimizer.name={}", one_of(&OPTIMIZERS, random));
    let setting = *one_of(&SETTINGS, random);
    // Not every optimizer has an epsilon.
    let setting = match optimizer.as_str() {
        "optimizer.name=adam" | "optimizer.name=adamw" | "optimizer.name=rmsprop" => setting,
        _ if setting.starts_with("optimizer.epsilon") => "optimizer.lr=1e10",
        _ => setting,
    };
    let what = format!("`{}` with {optimizer} {setting}", recipe.name);
    Ok((what, train(arena, folder, &["--set", &optimizer, "--set", setting, "--set", STEPS])?))
}

/// A copy of a base, and the path of its newest checkpoint, which can be forged.
fn copied(arena: &Arena, bases: &Bases, at: usize, folder: &Folder) -> Result<PathBuf, Error> {
    forge::copy(base(arena, bases, at)?.path(), folder.path())?;
    let newest = run_files::linked(&folder.at("run"), "latest")?;
    Ok(folder.at(format!("run/checkpoints/step-{:08}", newest.step())))
}

/// A checkpoint with a forged tensor.
struct Forged {
    path: PathBuf,
    what: String,
    /// Whether the tensor holds a number that is not finite.
    is_broken: bool,
}

/// Puts a value into a tensor of one of `files`, or of the parameters where a training has no such file.
fn forged(
    arena: &Arena,
    bases: &Bases,
    folder: &Folder,
    files: &[&'static str],
    random: &mut Generator,
) -> Result<Forged, Error> {
    const VALUES: [&str; 6] = ["nan", "inf", "-inf", "3e38", "-3e38", "1e20"];
    let at = random.below(RECIPES.len());
    let path = copied(arena, bases, at, folder)?;
    // Plain SGD has no state, and few models carry one.
    let mut name = *one_of(files, random);
    let mut file = fs::read(path.join(name)).unwrap_or_default();
    if finite::listed(&file).unwrap_or_default().is_empty() {
        name = MODEL;
        file = fs::read(path.join(name))?;
    }
    let tensors = finite::listed(&file)?;
    let tensor = one_of(&tensors, random);
    let value = *one_of(&VALUES, random);
    let element = (!random.chance(0.3)).then(|| random.below(1 << 20));
    forge::put(&mut file, tensor, element, value)?;
    fs::write(path.join(name), file)?;
    forge::seal(&path, |_| {})?;
    let extent = if element.is_some() { "one element" } else { "all elements" };
    let what = format!("`{}`, a {name} whose `{}` has {value} in {extent}", RECIPES[at].name, tensor.name);
    Ok(Forged { path, what, is_broken: ["nan", "inf", "-inf"].contains(&value) })
}

/// A resumed checkpoint with a value in one of its tensors.
fn tensor(arena: &Arena, bases: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    let files = [MODEL, "optimizer.safetensors", "carried.safetensors"];
    let Forged { path, what, is_broken } = forged(arena, bases, folder, &files, random)?;
    Ok((format!("resumed: {what}"), resume(arena, folder, &path, is_broken, random)?))
}

/// A checkpoint with a value in one of its parameters, whose weights are exported.
fn exported(arena: &Arena, bases: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    let Forged { path, what, .. } = forged(arena, bases, folder, &[MODEL], random)?;
    let to = folder.at("exported.safetensors");
    let words = [OsStr::new("export"), path.as_os_str(), OsStr::new("--to"), to.as_os_str()];
    let answer = arena.oomph(folder.path()).arguments(words).run()?;
    let end = match (answer.harm(), to.exists()) {
        (Some(harm), _) => Err(harm),
        (None, true) => finite::file(&to).map(|()| End::Absorbed),
        (None, false) if answer.is_success() => Err("it exports nothing".to_owned()),
        (None, false) => verdict::names(&answer).map(|_| End::Named),
    };
    Ok((format!("exported: {what}"), end))
}

/// A resumed checkpoint of fp16 with another loss scale.
fn scale(arena: &Arena, bases: &Bases, folder: &Folder, random: &mut Generator) -> Result<Tried, Error> {
    let scales = [
        json!(2.0_f64.powi(126)),
        json!(2.0_f64.powi(127)),
        json!(2.0_f64.powi(128)),
        json!(2.0_f64.powi(100)),
        json!(2.0_f64.powi(40)),
        json!(1.0),
        json!(2.0_f64.powi(-14)),
        json!(2.0_f64.powi(-126)),
        json!(2.0_f64.powi(-149)),
        json!(0.0),
        json!(-65536.0),
        json!(3.0),
        json!(1e300),
        Value::Null,
        json!("inf"),
        json!("NaN"),
    ];
    let at = RECIPES.iter().position(|recipe| recipe.name == "fp16").ok_or("no recipe is called `fp16`")?;
    let path = copied(arena, bases, at, folder)?;
    let (scale, good) = (one_of(&scales, random), random.below(2000));
    forge::seal(&path, |state| {
        state["loss_scale"]["scale"] = scale.clone();
        state["loss_scale"]["good_steps"] = json!(good);
    })?;
    let what = format!("fp16 resumed with a loss scale of {scale} and {good} good steps");
    // The tensors are finite. A scale that is none stays in a checkpoint that cannot be read.
    Ok((what, resume(arena, folder, &path, true, random)?))
}
