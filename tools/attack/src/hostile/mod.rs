//! The attack `hostile`: gives broken data, configs, weights and command lines to every command.
//!
//! A command must refuse by name, quickly, in little memory, and leave nothing half written; or the damage did not matter.

mod arguments;
mod commands;
pub(crate) mod formats;
pub(crate) mod mutate;
mod places;
mod verdict;
pub(crate) mod world;

use std::fs;

use oomph_core::{Generator, printable};

use crate::{
    Arena, Case, Error, Folder, Outcome,
    hostile::{
        commands::{Line, Reads},
        world::{SOURCES, Source},
    },
    tally::{self, End, Tried},
    trees,
};

/// What is hostile: the kinds of this attack.
const KINDS: [&str; 6] =
    ["data files", "configurations", "weight files", "checkpoints", "files that are none", "command lines"];

/// The weight files of each source.
const WEIGHTS: [&str; 2] = ["weights.safetensors", "weights.pth"];

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let world = world::make(arena)?;
    let tried = arena.each("hostile", arena.cases, |case| try_case(arena, &world, case))?;
    Ok(tally::outcome(&KINDS, tried.into_iter().flatten().collect()))
}

/// A hostile input: how it is given, what it is, and texts of which an error must have one.
struct Hostile {
    line: Line,
    about: String,
    names: Vec<String>,
}

/// Tries a case. `None` if another kind is asked for.
fn try_case(arena: &Arena, world: &Folder, mut case: Case) -> Result<Option<Tried>, Error> {
    let kind = KINDS[case.number % KINDS.len()];
    if !kind.contains(&arena.only) {
        return Ok(None);
    }
    let random = &mut case.random;
    let source = &SOURCES[random.below(SOURCES.len())];
    let folder = arena.folder()?;
    trees::copy(&world.at(source.name), folder.path())?;
    fs::create_dir(folder.at("new"))?;
    let hostile = match kind {
        "data files" => data_file(random, &folder, source)?,
        "configurations" => configuration(random, &folder, source)?,
        "weight files" => weight_file(random, &folder, source)?,
        "checkpoints" => checkpoint(random, &folder, source)?,
        "files that are none" => no_file(random, &folder, source)?,
        _ => command_line(random, &folder)?,
    };
    let answer = verdict::ask(arena, &folder, &hostile.line)?;
    let mut harm = verdict::harm(&answer, &hostile.line, &folder, &hostile.names)?;
    if kind == "command lines" {
        harm = harm.or_else(|| places::harm(folder.path()));
    }
    let harm = harm.map(|harm| {
        let words: Vec<_> =
            hostile.line.words.iter().map(|word| shortened(&word.to_string_lossy())).collect();
        let (number, seed, source) = (case.number, arena.seed, source.name);
        let Hostile { about, .. } = &hostile;
        format!("hostile case {number}, seed {seed}, {source}: {about}: {}: {harm}", words.join(" "))
    });
    Ok(Some(Tried { kind, end: End::of(&answer), harm, count: 1 }))
}

/// A word as it may stand in a line.
fn shortened(word: &str) -> String {
    const MOST: usize = 60;
    let word = printable(word);
    word.chars().take(MOST).collect()
}

fn data_file(random: &mut Generator, folder: &Folder, source: &Source) -> Result<Hostile, Error> {
    let line = commands::of(random, Reads::Data, source);
    // `predict` reads the images that it is given, and no data.
    let is_predict = line.words[0] == "predict";
    let file = match source.predicts {
        [file] if is_predict && file.contains('.') => file,
        _ => source.files[random.below(source.files.len())],
    };
    let valid = fs::read(folder.at(file))?;
    let is_text = ["csv", "txt", "json"].iter().any(|end| file.ends_with(end));
    let (bytes, about) = if is_text && random.chance(0.5) {
        mutate::table(random, &valid)
    } else {
        mutate::bytes(random, &valid)
    };
    fs::write(folder.at(file), bytes)?;
    // An error may name the file as the data set does, without the folder.
    let short = file.trim_start_matches("data/").to_owned();
    Ok(Hostile {
        line,
        about: format!("{file}: {about}"),
        // The checkpoint says it of data that it does not fit.
        names: [&short, "`data`", "data/", "run/checkpoints", "error: the checkpoint"]
            .map(str::to_owned)
            .into(),
    })
}

fn configuration(random: &mut Generator, folder: &Folder, source: &Source) -> Result<Hostile, Error> {
    let line = commands::of(random, Reads::Config, source);
    // The resolved configuration has every key.
    let whole = random.chance(0.5);
    let valid = fs::read(folder.at(if whole { "run/config.toml" } else { "config.toml" }))?;
    let (bytes, about) = mutate::text(random, &valid);
    fs::write(folder.at("config.toml"), bytes)?;
    // A value that is possible may name a file that is not there.
    let values = mutate::VALUES.iter().map(|value| format!("`{}`", value.trim_matches('\'')));
    let names = values.chain(["config.toml".to_owned()]).collect();
    Ok(Hostile { line, about: format!("config.toml: {about}"), names })
}

fn weight_file(random: &mut Generator, folder: &Folder, source: &Source) -> Result<Hostile, Error> {
    let file = WEIGHTS[random.below(WEIGHTS.len())];
    let (bytes, about) = mutate::bytes(random, &fs::read(folder.at(file))?);
    fs::write(folder.at(file), bytes)?;
    let line = commands::of(random, Reads::Weights(file), source);
    Ok(Hostile { line, about: format!("{file}: {about}"), names: vec![file.into()] })
}

fn checkpoint(random: &mut Generator, folder: &Folder, source: &Source) -> Result<Hostile, Error> {
    let files = trees::files(&folder.at("run"))?;
    let file = &files[random.below(files.len())];
    let (bytes, about) = mutate::bytes(random, &fs::read(file)?);
    fs::write(file, bytes)?;
    let line = commands::of(random, Reads::Run, source);
    let file = file.strip_prefix(folder.path())?.display().to_string();
    Ok(Hostile { line, about: format!("{file}: {about}"), names: vec![file, "run".into()] })
}

fn no_file(random: &mut Generator, folder: &Folder, source: &Source) -> Result<Hostile, Error> {
    let (reads, files) = match random.below(5) {
        0 => (Reads::Config, vec![folder.at("config.toml")]),
        1 => {
            let file = WEIGHTS[random.below(WEIGHTS.len())];
            (Reads::Weights(file), vec![folder.at(file)])
        }
        2 => (Reads::Data, source.files.iter().map(|file| folder.at(file)).collect()),
        _ => (Reads::Run, trees::files(&folder.at("run"))?),
    };
    let file = &files[random.below(files.len())];
    fs::remove_file(file)?;
    let name = places::NAMES[random.below(places::NAMES.len())];
    places::put(name, file)?;
    let line = commands::of(random, reads, source);
    let file = file.strip_prefix(folder.path())?.display().to_string();
    let short = file.trim_start_matches("data/").to_owned();
    Ok(Hostile {
        line,
        about: format!("{file} is `{name}`"),
        names: vec![short, "run".into(), "`data`".into(), "data/".into()],
    })
}

fn command_line(random: &mut Generator, folder: &Folder) -> Result<Hostile, Error> {
    places::put_all(folder.path())?;
    let line = arguments::damaged(random);
    let start = |text: &str| printable(text).chars().take(40).collect::<String>();
    let of_word = |word: &std::ffi::OsString| {
        let word = word.to_string_lossy();
        let value = word.split_once('=').map(|(_, value)| format!("`{}", start(value)));
        [Some(start(&word)).filter(|start| !start.is_empty()), value]
    };
    let words = line.words.iter().flat_map(of_word).flatten();
    // A word may be empty, and the configuration in the folder names its run directory.
    let names = words.chain(["``", "`run`"].map(str::to_owned)).collect();
    Ok(Hostile { line, about: "a command line".into(), names })
}
