//! `search regret FOLDER`, `search record STUDY FILE` and `search curves FILE`: see the library.

use std::{env, path::Path, process::ExitCode};

use oomph_search_tools::{Error, curves, record, regret};
use oomph_tree::measured::without_save;

const USAGE: &str = "usage: search regret FOLDER [--save]
       search record STUDY FILE
       search curves FILE [--save]

`regret` takes the folder that `tools/search/regret.py` wrote. `record` writes the learning curves of a study's trials. `curves` takes a JSON file of learning curves:
{\"metric\": \"eval loss\", \"curves\": [{\"values\": [2.3, 1.9, null]}, …]}, one value for each epoch, null for NaN.";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Error> {
    let (words, is_saved) = without_save(arguments);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["regret", folder] => regret::run(Path::new(folder), is_saved),
        ["record", study, file] => record::run(Path::new(study), Path::new(file)),
        ["curves", file] => curves::run(Path::new(file), is_saved),
        _ => Err(USAGE.into()),
    }
}
