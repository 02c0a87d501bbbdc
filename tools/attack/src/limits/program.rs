//! Plans and trainings of one configuration, and what they say about memory.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Answer, Arena, Error, Folder};

/// A folder with the configuration `net.toml`.
pub(super) struct Place<'a> {
    pub(super) arena: &'a Arena,
    pub(super) folder: Folder,
    pub(super) batch: usize,
}

/// What `plan --json` says of the configuration's batch.
#[derive(Debug)]
pub(super) struct Plan {
    /// The highest peak of a device.
    pub(super) peak: u64,
    /// Whether it fits the limit.
    pub(super) fits: bool,
}

/// A training that ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) words: Vec<String>,
    pub(super) answer: Answer,
    pub(super) events: Vec<Value>,
    /// The run directory.
    pub(super) run: PathBuf,
}

impl<'a> Place<'a> {
    pub(super) fn new(arena: &'a Arena, config: &str, batch: usize) -> Result<Self, Error> {
        let folder = arena.folder()?;
        folder.write("net.toml", config)?;
        Ok(Self { arena, folder, batch })
    }

    /// Plans within a limit; the inner error is what is wrong with the answer.
    pub(super) fn plan(&self, limit: Option<u64>) -> Result<Result<Plan, String>, Error> {
        let mut words = vec!["plan".to_owned(), "--config".into(), "net.toml".into(), "--json".into()];
        words.extend(limit.into_iter().flat_map(|limit| ["--memory-limit".into(), limit.to_string()]));
        words.extend(["--batch".into(), self.batch.to_string()]);
        let answer = self.arena.oomph(self.folder.path()).arguments(&words).run()?;
        let problem = |what: &str| format!("`{}` {what}: {}", words.join(" "), answer.last_words());
        if let Some(harm) = answer.harm() {
            return Ok(Err(problem(&harm)));
        }
        let plan: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        // Models that are divided are planned by device.
        let by_device = plan["devices"].as_array();
        let parts = by_device.or(plan["batches"].as_array());
        let peaks = parts.into_iter().flatten().map(|part| part["planned_peak_bytes"].as_u64());
        let fits = if by_device.is_some() { &plan["fits"] } else { &plan["batches"][0]["fits"] };
        let planned = peaks.max().flatten().zip(fits.as_bool());
        Ok(planned.map(|(peak, fits)| Plan { peak, fits }).ok_or_else(|| problem("has no peak")))
    }

    /// Trains into the run directory `run` with more words.
    pub(super) fn train(&self, run: &str, words: &[&str]) -> Result<Ran, Error> {
        let directory = format!("run.directory={run}");
        let start = ["train", "--config", "net.toml", "--json", "--set", &*directory];
        self.ran(run, &[&start, words].concat())
    }

    /// Resumes a run directory with its own configuration.
    pub(super) fn resume(&self, run: &str, words: &[&str]) -> Result<Ran, Error> {
        self.ran(run, &[&["train", "--resume", run, "--json"], words].concat())
    }

    fn ran(&self, run: &str, words: &[&str]) -> Result<Ran, Error> {
        let answer = self.arena.oomph(self.folder.path()).arguments(words).run()?;
        let lines = String::from_utf8_lossy(&answer.stdout).into_owned();
        let events = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(Ran { words, answer, events, run: self.folder.at(run) })
    }
}

impl Ran {
    /// The last event with a name.
    pub(super) fn event(&self, name: &str) -> Option<&Value> {
        self.events.iter().rfind(|event| event["event"] == name)
    }

    /// The highest measured peak of a device.
    pub(super) fn peak(&self) -> Option<u64> {
        let done = self.event("done")?;
        let of_devices = done["devices"].as_array().into_iter().flatten();
        let peaks = of_devices.chain([done]).filter_map(|device| device["peak_in_use_bytes"].as_u64());
        peaks.max()
    }

    /// What is wrong with a training that should have ended well, within a limit if one is given.
    pub(super) fn ends_well(&self, limit: Option<u64>) -> Result<(), String> {
        if let Some(harm) = self.answer.harm() {
            return Err(self.about(&harm));
        }
        if !self.answer.is_success() {
            return Err(self.about(&format!("ends with {:?}", self.answer.code())));
        }
        let peak = self.peak().ok_or_else(|| self.about("names no peak"))?;
        match limit {
            Some(limit) if peak > limit => {
                Err(self.about(&format!("ends well with a peak of {peak} above its limit of {limit}")))
            }
            _ => Ok(()),
        }
    }

    /// The report of a training that ran out of memory, which must lie below a folder.
    pub(super) fn report(&self, folder: &Path) -> Result<Value, String> {
        if let Some(harm) = self.answer.harm() {
            return Err(self.about(&harm));
        }
        if self.answer.code() != Some(75) {
            return Err(self.about(&format!("ends with {:?} and not 75", self.answer.code())));
        }
        let report = self.event("error").map(|error| &error["out_of_memory"]);
        let report = report.filter(|report| report.is_object()).ok_or_else(|| self.about("has no report"))?;
        let named = report["files"]["json"].as_str().or(report["files"]["text"].as_str());
        let file = named.ok_or_else(|| self.about(&format!("names no file: {}", report["files"])))?;
        // Paths are as the program was given them: within its working directory.
        let file = self.run.parent().unwrap_or(folder).join(file);
        let file = file.with_file_name("report.json");
        if !file.starts_with(folder) {
            return Err(self.about(&format!("has its report in {}", file.display())));
        }
        let bytes =
            std::fs::read(&file).map_err(|error| self.about(&format!("{}: {error}", file.display())))?;
        let written: Value = serde_json::from_slice(&bytes)
            .map_err(|error| self.about(&format!("{}: {error}", file.display())))?;
        let text = std::fs::read_to_string(file.with_file_name("report.txt"))
            .map_err(|error| self.about(&format!("report.txt: {error}")))?;
        if text.trim().is_empty() || written["levers"] != report["levers"] {
            return Err(self.about("has another report in its file than among its events"));
        }
        Ok(written)
    }

    /// A sentence about this training.
    pub(super) fn about(&self, what: &str) -> String {
        format!("`{}` {what}: {}", self.words.join(" "), self.answer.last_words())
    }
}
