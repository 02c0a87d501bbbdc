//! A training by several ranks in a folder of its own, and what must hold after it was disturbed.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use super::{
    Attack, Goal, Trouble, Verdict,
    job::{Job, LONGEST},
    references::{Reference, sizes},
    tensors,
};
use crate::{
    Answer, Case, Folder,
    recipe::{RECIPES, Recipe},
    run_files::{checkpoints, linked},
};

/// The steps of each training.
pub(super) const STEPS: usize = 200;
/// The steps between saves.
pub(super) const SAVE: usize = 10;
/// The time in which a job must end after one of its ranks failed.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// How far tensors of another number of ranks may be away: what docs/guides/several-processes.md promises.
const TOLERANCE: f64 = 1e-5;

/// A training by several ranks.
#[derive(Debug)]
pub(super) struct Training<'a> {
    pub(super) attack: &'a Attack<'a>,
    pub(super) folder: Folder,
    pub(super) recipe: &'static Recipe,
    pub(super) ranks: usize,
    /// Where the run directory lies in the folder.
    pub(super) place: &'static str,
}

impl<'a> Training<'a> {
    /// A random training by 2 to 4 ranks.
    pub(super) fn random(attack: &'a Attack<'a>, case: &mut Case) -> Result<Self, Trouble> {
        Self::limited(attack, case, 60)
    }

    /// A random training with this `device.timeout` in seconds.
    pub(super) fn limited(attack: &'a Attack<'a>, case: &mut Case, timeout: u64) -> Result<Self, Trouble> {
        Self::one_of(attack, case, timeout, |recipe| !recipe.is_shared)
    }

    /// A random training that other numbers of ranks train to the same tensors, up to rounding: without rectifiers, few
    /// bits in a number, or an optimizer that divides small gradients by their size.
    pub(super) fn steady(attack: &'a Attack<'a>, case: &mut Case) -> Result<Self, Trouble> {
        Self::one_of(attack, case, 60, |recipe| ["lstm", "language"].contains(&recipe.name))
    }

    fn one_of(
        attack: &'a Attack<'a>,
        case: &mut Case,
        timeout: u64,
        is_fit: impl Fn(&Recipe) -> bool,
    ) -> Result<Self, Trouble> {
        let fit: Vec<_> = RECIPES.iter().filter(|recipe| is_fit(recipe)).collect();
        let recipe = fit[case.random.below(fit.len())];
        let ranks = 2 + case.random.below(3);
        let training = Self { attack, folder: attack.arena.folder()?, recipe, ranks, place: "" };
        training.folder.write("job.toml", training.config(timeout))?;
        Ok(training)
    }

    fn config(&self, timeout: u64) -> String {
        let train = format!("steps = {STEPS}, seed = 5, eval_every = '25 steps'");
        let run = format!("save_every = '{SAVE} steps', log_every = 1, keep_last = 3");
        let config = self.recipe.config(&train, &run) + &format!("device.timeout = {timeout}\n");
        if !config.contains("resnet") {
            return config;
        }
        // A ResNet cannot train on a single sample, which a rank may get of a small batch or of an epoch's last one.
        config.replace("batch = 8", "batch = 24").replace("workers = 0", "workers = 0, last_batch = 'drop'")
    }

    /// Puts the run directory into a folder.
    pub(super) fn place(&mut self, place: &'static str) -> Result<(), Trouble> {
        self.place = place;
        let config = fs::read_to_string(self.folder.at("job.toml"))?;
        let run = format!("directory = '{place}/run'");
        Ok(self.folder.write("job.toml", config.replace("directory = 'run'", &run))?)
    }

    /// A rank of it.
    pub(super) fn any_rank(&self, case: &mut Case) -> usize {
        case.random.below(self.ranks)
    }

    /// The run directory.
    pub(super) fn run(&self) -> PathBuf {
        self.folder.at(self.place).join("run")
    }

    /// What is run, for a report.
    pub(super) fn described(&self) -> String {
        format!("{} by {} ranks", self.recipe.name, self.ranks)
    }

    /// Starts the ranks anew.
    pub(super) fn start(&self) -> Result<Job, Trouble> {
        self.launch(self.ranks, &["--config", "job.toml"])
    }

    /// Resumes with so many ranks.
    pub(super) fn resume(&self, ranks: usize) -> Result<Job, Trouble> {
        let run = self.run().display().to_string();
        self.launch(ranks, &["--resume", &run])
    }

    fn launch(&self, ranks: usize, arguments: &[&str]) -> Result<Job, Trouble> {
        let (ranks, oomph) = (ranks.to_string(), self.attack.oomph.display().to_string());
        let all = [&["-n", &ranks, &oomph, "train"], arguments, &["--json"]].concat();
        Job::launch(self.folder.path(), all)
    }

    /// An undisturbed run of so many ranks.
    pub(super) fn reference(&self, ranks: usize) -> Result<Arc<Reference>, Trouble> {
        self.attack.references.get((self.recipe.name, ranks), || {
            let folder = self.attack.arena.folder()?;
            let training = Self { attack: self.attack, folder, recipe: self.recipe, ranks, place: "" };
            training.folder.write("job.toml", training.config(600))?;
            let answer = training.start()?.ends_within(LONGEST)?;
            success(&answer).map_err(|trouble| trouble.of("an undisturbed run"))?;
            let trained = training.last()?;
            let (bytes, largest) = sizes(&training.run())?;
            Ok(Reference { folder: training.folder, trained, bytes, largest })
        })
    }

    /// The checksums of what the last step trained.
    fn last(&self) -> Result<Vec<(String, String)>, Trouble> {
        let latest = linked(&self.run(), "latest").map_err(Trouble::Harm)?;
        if latest.step() != STEPS as u64 {
            return Err(Trouble::harm(format!("`latest` is of step {}, not {STEPS}", latest.step())));
        }
        let trained = latest.trained().into_iter();
        Ok(trained.map(|(file, digest)| (file.clone(), digest.clone())).collect())
    }

    /// The newest of the checkpoints, all of which must be whole.
    pub(super) fn newest(&self) -> Result<Option<u64>, Trouble> {
        let (whole, damaged) = checkpoints(&self.run())?;
        match damaged.into_iter().next() {
            Some(problem) => Err(Trouble::harm(format!("a damaged checkpoint: {problem}"))),
            None => Ok(whole.iter().map(|checkpoint| checkpoint.step()).max()),
        }
    }

    /// Checks that the run ended with the bytes of an undisturbed one.
    pub(super) fn finished(&self) -> Result<(), Trouble> {
        self.newest()?;
        let trained = self.last()?;
        if trained != self.reference(self.ranks)?.trained {
            return Err(Trouble::harm("it ends with other bytes than an undisturbed run"));
        }
        for entry in fs::read_dir(self.run().join("checkpoints"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !(name.starts_with("step-") || name == "best" || name == "latest") {
                return Err(Trouble::harm(format!("`checkpoints/{name}` is left")));
            }
        }
        Ok(())
    }

    /// Trains from what is left to the end, and checks that end. Where nothing is left to resume, it starts anew.
    pub(super) fn goes_on(&self) -> Result<Goal, Trouble> {
        self.continued(self.ranks)?;
        self.finished().map_err(|trouble| trouble.of("after the resume"))?;
        Ok(Goal::SameBytes)
    }

    /// As [`Self::goes_on`], by another number of ranks.
    pub(super) fn goes_on_with(&self, ranks: usize) -> Result<Goal, Trouble> {
        self.continued(ranks)?;
        self.newest()?;
        self.last()?;
        let reference = self.reference(self.ranks)?;
        let model = self.run().join("checkpoints/latest/model.safetensors");
        let apart = tensors::difference(&model, &reference.model()).map_err(Trouble::Harm)?;
        if apart > TOLERANCE {
            return Err(Trouble::harm(format!("{ranks} ranks go on to tensors that are {apart:e} away")));
        }
        Ok(Goal::SameTensors)
    }

    fn continued(&self, ranks: usize) -> Result<(), Trouble> {
        let newest = self.newest()?;
        let mut job = if newest.is_some() {
            self.resume(ranks)?
        } else {
            // What the job left before its first save is nothing to resume.
            match fs::remove_dir_all(self.run()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => self.launch(ranks, &["--config", "job.toml"])?,
            }
        };
        let started = job.wait_for(|event| event["event"] == "started")?;
        let first = started.and_then(|event| event["first_step"].as_u64());
        let answer = job.ends_within(LONGEST).map_err(|trouble| trouble.of("the resume"))?;
        success(&answer).map_err(|trouble| trouble.of("the resume"))?;
        if first != Some(newest.unwrap_or(0)) {
            return Err(Trouble::harm(format!(
                "the resume begins at {first:?}, the newest save at {newest:?}"
            )));
        }
        Ok(())
    }

    /// Checks a job that may have ended before it was disturbed: then it must have ended well.
    pub(super) fn untouched(&self, answer: &Answer) -> Result<Verdict, Trouble> {
        success(answer)?;
        self.finished()?;
        Ok(Verdict::new("0, before anything happened", Goal::SameBytes))
    }
}

/// Checks that a job ended with 0 and without an error.
pub(super) fn success(answer: &Answer) -> Result<(), Trouble> {
    without_panic(answer, &[])?;
    if answer.is_success() && !answer.errors().contains("error") {
        return Ok(());
    }
    Err(Trouble::harm(format!("it ends with {}: {}", ended(answer), words(answer))))
}

/// Checks that no rank panicked, and that none was ended by another signal than those that the case sent.
pub(super) fn without_panic(answer: &Answer, sent: &[i32]) -> Result<(), Trouble> {
    let errors = answer.errors();
    let is_panic = |text: &&str| errors.contains(*text);
    if let Some(text) = ["panicked at", "this is a bug", "RUST_BACKTRACE"].iter().find(|text| is_panic(text))
    {
        return Err(Trouble::harm(format!("it says `{text}`: {}", words(answer))));
    }
    let signals = errors.split("exited on signal ").skip(1);
    let signals = signals.filter_map(|rest| rest.split(' ').next()?.parse::<i32>().ok());
    match signals.into_iter().find(|signal| !sent.contains(signal)) {
        Some(signal) => Err(Trouble::harm(format!("signal {signal} ended a rank: {}", words(answer)))),
        None => Ok(()),
    }
}

/// What the ranks said, without what Open MPI prints about it, on one line.
pub(super) fn words(answer: &Answer) -> String {
    const MOST: usize = 500;
    const NOTES: [&str; 8] = [
        "-----",
        "MPI_ABORT was invoked",
        "with errorcode",
        "NOTE: invoking",
        "You may or may not",
        "exactly when Open MPI",
        "Primary job  terminated",
        "a non-zero exit code",
    ];
    let errors = answer.errors();
    let is_note = |line: &&str| line.trim().is_empty() || NOTES.iter().any(|note| line.starts_with(note));
    let lines: Vec<_> = errors.lines().filter(|line| !is_note(line)).collect();
    let text = oomph_core::printable(lines.join("\n"));
    text.chars().take(MOST).collect()
}

/// How a job ended, in a word.
pub(super) fn ended(answer: &Answer) -> String {
    if answer.status.is_none() {
        return "all ranks ended, mpirun itself hung".to_owned();
    }
    answer.code().map_or("a signal".to_owned(), |code| code.to_string())
}
