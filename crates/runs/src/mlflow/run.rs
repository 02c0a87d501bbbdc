use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use oomph_config::Value;
use oomph_core::read_text;

use super::{
    META, experiment,
    identity::Identity,
    metrics::Metrics,
    text::{accepted_name, accepted_path, file_uri, quoted},
};
use crate::{
    event::{Ended, Event},
    run::RunError,
    scalars::scalars,
    state::{StateError, write_file},
};

/// Characters of a parameter's value. MLflow refuses longer ones.
const MOST_VALUE_CHARS: usize = 6_000;

/// What MLflow shows of a run besides its metrics.
#[derive(Clone, Copy, Debug)]
pub struct MlflowAbout<'a> {
    /// The name of the experiment.
    pub experiment: &'a str,
    /// The resolved configuration, as TOML. Each key becomes a parameter.
    pub config: &'a str,
    /// The model's name.
    pub model: &'a str,
    /// The data source's name.
    pub source: &'a str,
    /// Optimizer steps before this process.
    pub first_step: usize,
}

/// A run of a file store that this process writes. A run directory has one, which a resumed run continues.
#[derive(Debug)]
pub struct MlflowRun {
    folder: PathBuf,
    name: String,
    user: String,
    identity: Identity,
    metrics: Metrics,
}

/// MLflow's numbers of a run's status.
#[derive(Clone, Copy, Debug)]
enum Status {
    Running = 1,
    Finished = 3,
    Failed = 4,
    Killed = 5,
}

impl MlflowRun {
    /// Opens the run of a run directory that this process has locked, in the store `store`; a new one if there is none.
    /// Metrics after [`MlflowAbout::first_step`] are removed: the run repeats those steps.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(store: &Path, directory: &Path, about: MlflowAbout<'_>) -> Result<Self, RunError> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(StateError::io("find", path));
        let (store, directory) = (absolute(store)?, absolute(directory)?);
        let now = milliseconds();
        let identity = match Identity::read(&directory, &store)? {
            Some(identity) => identity,
            None => {
                let experiment_id = experiment::find_or_create(&store, about.experiment, now)?;
                Identity::create(&directory, experiment_id, now)?
            }
        };
        let folder = store.join(&identity.experiment_id).join(&identity.run_id);
        for part in ["params", "tags", "artifacts"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).map_err(StateError::io("create", &part))?;
        }
        let run = Self {
            metrics: Metrics::open(folder.join("metrics"), about.first_step)?,
            folder,
            name: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            user: std::env::var("USER").unwrap_or_default(),
            identity,
        };
        run.describe(&directory, about)?;
        run.write_meta(Status::Running, None)?;
        Ok(run)
    }

    /// Writes the metrics of an event, and at the last one the status.
    ///
    /// # Errors
    /// The system refuses.
    pub fn event(&mut self, event: &Event) -> Result<(), RunError> {
        let now = milliseconds();
        let (step, scalars) = scalars(event).unwrap_or_default();
        for (tag, value) in scalars {
            self.metrics.append(&accepted_path(&tag), value, step, now)?;
        }
        let Event::Done(done) = event else { return Ok(()) };
        self.metrics.flush()?;
        let status = match done.ended {
            Ended::Complete | Ended::EarlyStopping | Ended::Callback => Status::Finished,
            Ended::Paused | Ended::Interrupted | Ended::Terminated => Status::Killed,
        };
        Ok(self.write_meta(status, Some(now))?)
    }

    /// Notes that an error ended the run.
    ///
    /// # Errors
    /// The system refuses.
    pub fn failed(&mut self) -> Result<(), RunError> {
        self.metrics.flush()?;
        Ok(self.write_meta(Status::Failed, Some(milliseconds()))?)
    }

    /// Flushes the metrics to the disk.
    ///
    /// # Errors
    /// The system refuses.
    pub fn flush(&mut self) -> Result<(), RunError> {
        Ok(self.metrics.flush()?)
    }

    /// Parameters, tags, and the configuration as an artifact.
    fn describe(&self, directory: &Path, about: MlflowAbout<'_>) -> Result<(), RunError> {
        let values = oomph_config::values("config.toml", about.config)?;
        for (key, value) in &values {
            let text: String = shown(value).chars().take(MOST_VALUE_CHARS).collect();
            write_changed(&self.folder.join("params").join(accepted_name(key)), &text)?;
        }
        let program = std::env::current_exe().unwrap_or_default();
        let tags: BTreeMap<&str, String> = [
            ("mlflow.runName", self.name.clone()),
            ("mlflow.user", self.user.clone()),
            ("mlflow.source.name", program.display().to_string()),
            ("mlflow.source.type", "LOCAL".to_owned()),
            ("oomph.run_directory", directory.display().to_string()),
            ("oomph.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("oomph.model", about.model.to_owned()),
            ("oomph.data", about.source.to_owned()),
        ]
        .into();
        for (tag, text) in &tags {
            write_changed(&self.folder.join("tags").join(tag), text)?;
        }
        Ok(write_changed(&self.folder.join("artifacts").join("config.toml"), about.config)?)
    }

    fn write_meta(&self, status: Status, end_time: Option<u64>) -> Result<(), StateError> {
        let Identity { experiment_id, run_id, start_time } = &self.identity;
        let meta = format!(
            "artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: {}\nlifecycle_stage: active\nrun_id: {run_id:?}\n\
             run_name: {}\nrun_uuid: {run_id:?}\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: {start_time}\n\
             status: {}\ntags: []\nuser_id: {}\n",
            quoted(&file_uri(&self.folder.join("artifacts"))),
            end_time.map_or_else(|| "null".to_owned(), |time| time.to_string()),
            quoted(experiment_id),
            quoted(&self.name),
            status as u8,
            quoted(&self.user),
        );
        write_file(&self.folder.join(META), meta.as_bytes())
    }
}

/// A value as people read it: a string without quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Writes a small file whose contents can be made again, if they are others than before.
fn write_changed(path: &Path, text: &str) -> Result<(), StateError> {
    if read_text(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(StateError::io("write", path))
}

fn milliseconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}
