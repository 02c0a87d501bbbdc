//! Damages command lines.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use oomph_core::Generator;

use super::{
    commands::{self, Line},
    mutate::VALUES,
    places,
};

/// Words that no command knows, or that mean something else in its place.
const WORDS: &[&str] = &[
    "",
    "-",
    "--",
    "---",
    "-x",
    "--x",
    "--set",
    "--set=",
    "--set==",
    "--config",
    "--config=",
    "--json=1",
    "--help=x",
    "--batch",
    "--batch=-1",
    "--devices=cuda:99999999999",
    "--devices=,",
    "--devices=cpu,cpu,cpu",
    "--strategy=x",
    "--gpu=0x24GiB",
    "--gpu=99999999999x1B",
    "--gpu=RTX 9999",
    "--memory-limit=0",
    "--memory-limit=1B",
    "--memory-limit=-1",
    "--memory-limit=1e400",
    "--margin=100%",
    "--interval=0s",
    "--interval=999999999999h",
    "--sort=x",
    "--optimizers=adam+",
    "--optimizers=adam+lr",
    "--optimizers=adam+lr=nan",
    "--batches=0",
    "--recompute=layer1+",
    "--set=train.batch=",
    "--set=.=1",
    "--set=a.b.c=1",
    "--set=train.steps=1e3",
    "--set=train.steps=18446744073709551615",
    "--set=model={}",
    "--set=train.batch=[[[[",
    "@x",
    "~",
    "*",
    "?",
    "$(x)",
    "%s%s%n",
    "con",
    "\u{feff}",
    "é漢👍",
    "-0",
    "0",
    "nan",
    "completions",
    "help",
    "/",
    "..",
    "../..",
];

/// A command line with one or two damages, and the words that are damaged.
pub(crate) fn damaged(random: &mut Generator) -> Line {
    let mut words = commands::any(random);
    for _ in 0..=usize::from(random.chance(0.3)) {
        damage(random, &mut words);
    }
    // The default configurations are large, and `resnet.toml` in the folder is small.
    Line { words, output: None, is_long: true }
}

fn damage(random: &mut Generator, words: &mut Vec<OsString>) {
    // A value in the place of a value comes further than one in the place of a flag.
    let is_value = |at: &usize| *at > 1 && words[at - 1].to_string_lossy().starts_with("--");
    let values: Vec<usize> = (0..words.len()).filter(is_value).collect();
    let at = match values.is_empty() {
        false if random.chance(0.6) => values[random.below(values.len())],
        _ => random.below(words.len()),
    };
    match random.below(8) {
        0 if words.len() > 1 => drop(words.remove(at)),
        1 => words.insert(at, words[at].clone()),
        2 => words[at] = VALUES[random.below(VALUES.len())].trim_matches('\'').into(),
        3 => words[at] = places::NAMES[random.below(places::NAMES.len())].into(),
        4 => words[at] = OsString::from_vec(b"x\xff\xfey".to_vec()),
        5 => words[at] = "y".repeat(1 << random.below(17)).into(),
        _ => words.insert(at + 1, WORDS[random.below(WORDS.len())].into()),
    }
}
