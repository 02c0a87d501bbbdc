//! Limits of the process (`ulimit`): an answer in words, and a run that can be gone on with.

use oomph_core::Generator;

use super::{
    tally::{End, Finding, Kind},
    training::Strategy,
};
use crate::{
    Answer, Arena, Error, Folder, Program,
    recipe::{RECIPES, Recipe},
    run_files,
};

/// A limit of the shell.
#[derive(Clone, Copy, Debug)]
enum Ulimit {
    /// KiB of addresses.
    Addresses,
    /// KiB of data.
    Data,
    /// KiB of a file.
    FileSize,
    /// Open files.
    Files,
    /// Threads of the user.
    Threads,
}

const ULIMITS: [Ulimit; 5] =
    [Ulimit::Addresses, Ulimit::Data, Ulimit::FileSize, Ulimit::Files, Ulimit::Threads];

/// Trains a few steps.
const TRAIN: &str = "steps = 6, eval_every = '3 steps'";

/// Trains below a limit of the process, and resumes what is left without it.
pub(super) fn attack(arena: &Arena, random: &mut Generator) -> Result<(Vec<Finding>, Vec<String>), Error> {
    let recipe = RECIPES[random.below(RECIPES.len())];
    let ulimit = ULIMITS[random.below(ULIMITS.len())];
    let flag = ulimit.flag(random);
    let folder = arena.folder()?;
    folder.write("net.toml", recipe.config(TRAIN, "save_every = '2 steps', keep_last = 2"))?;
    let answer = match limited(arena, &folder, ulimit, &flag, random)? {
        Ok(answer) => answer,
        Err(reason) => return Ok((Vec::new(), vec![reason])),
    };
    let about = |what: &str| {
        format!("`ulimit {flag}; oomph train` of {} {what}: {}", recipe.name, answer.last_words())
    };
    let end = verdict(&answer, ulimit).map_err(|harm| about(&harm));
    let mut is_resumed = false;
    let end = match end {
        Ok(end) => resumed(arena, &folder)?.map_err(|harm| about(&format!("and then {harm}"))).map(|()| {
            is_resumed = end == End::Refused;
            end
        }),
        Err(harm) => Err(harm),
    };
    let mut finding = Finding::new(strategy(&recipe), Kind::Process, end);
    finding.is_resumed = is_resumed;
    Ok((vec![finding], Vec::new()))
}

fn strategy(recipe: &Recipe) -> Strategy {
    let is_named = |strategy: &Strategy| recipe.is_shared && recipe.name.starts_with(strategy.name());
    Strategy::ALL.into_iter().find(is_named).unwrap_or(Strategy::Single)
}

impl Ulimit {
    /// Its flag with a value at which most trainings end.
    fn flag(self, random: &mut Generator) -> String {
        let mut between = |low: usize, high: usize| low + random.below(high - low);
        match self {
            // Below this the program itself is not loaded.
            Self::Addresses => format!("-v {}", between(60_000, 1_500_000)),
            Self::Data => format!("-d {}", between(1_000, 200_000)),
            Self::FileSize => format!("-f {}", between(0, 64)),
            Self::Files => format!("-n {}", between(4, 40)),
            Self::Threads => format!("-u {}", between(1, 8)),
        }
    }

    fn is_of_memory(self) -> bool {
        matches!(self, Self::Addresses | Self::Data)
    }
}

/// Runs a training below a limit; the inner error is why this machine cannot.
fn limited(
    arena: &Arena,
    folder: &Folder,
    ulimit: Ulimit,
    flag: &str,
    random: &mut Generator,
) -> Result<Result<Answer, String>, Error> {
    let line = format!("ulimit {flag} && exec \"$0\" train --config net.toml");
    let mut words = vec!["bash".to_owned(), "-c".into(), line, arena.oomph.display().to_string()];
    if matches!(ulimit, Ulimit::Threads) && is_root() {
        // The limit does not hold for root. The user is one that runs nothing else.
        let user = 50_000 + random.below(10_000);
        if !own(folder, user) {
            return Ok(Err("ulimit -u: a folder cannot be given to another user".into()));
        }
        words.splice(0..0, ["setpriv".into(), format!("--reuid={user}"), "--clear-groups".into()]);
    }
    let program = Program::new(words[0].as_ref(), folder.path()).arguments(&words[1..]);
    Ok(program.run().map_err(|error| format!("ulimit {flag}: `{}`: {error}", words[0])))
}

fn is_root() -> bool {
    // SAFETY: it reads a number of this process, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Gives a folder and its files to a user.
fn own(folder: &Folder, user: usize) -> bool {
    let user = Some(user as u32);
    let give = |path| std::os::unix::fs::chown(path, user, None).is_ok();
    give(folder.at("net.toml")) && give(folder.path().to_owned())
}

/// Whether an answer is one: well, or an error in words.
fn verdict(answer: &Answer, ulimit: Ulimit) -> Result<End, String> {
    if let Some(harm) = answer.harm() {
        return Err(harm);
    }
    let code = answer.code();
    let is_allowed = code == Some(1) || code == Some(75) && ulimit.is_of_memory();
    match (answer.is_success(), is_allowed) {
        (true, _) => Ok(End::Within),
        (_, true) if answer.errors().contains("error: ") => Ok(End::Refused),
        _ => Err(format!("ends with {code:?}")),
    }
}

/// Trains on without a limit, and compares the end with that of an undisturbed training.
fn resumed(arena: &Arena, folder: &Folder) -> Result<Result<(), String>, Error> {
    let ends = |words: &[&str]| -> Result<Result<(), String>, Error> {
        let answer = arena.oomph(folder.path()).arguments(words).run()?;
        let harm = answer
            .harm()
            .or_else(|| (!answer.is_success()).then(|| format!("ends with {:?}", answer.code())));
        Ok(harm.map_or(Ok(()), |harm| Err(format!("`{}` {harm}: {}", words.join(" "), answer.last_words()))))
    };
    let is_begun = folder.at("run/config.toml").is_file();
    let resume: &[&str] =
        if is_begun { &["train", "--resume", "run"] } else { &["train", "--config", "net.toml", "--resume"] };
    let both = ends(resume)?.and(ends(&["train", "--config", "net.toml", "--set", "run.directory=whole"])?);
    Ok(both.and_then(|()| {
        let [run, whole] = ["run", "whole"].map(|run| run_files::linked(&folder.at(run), "latest"));
        let (run, whole) = (run?, whole?);
        if run.trained() != whole.trained() {
            return Err("the resumed run ends with other tensors than an undisturbed training".into());
        }
        Ok(())
    }))
}
