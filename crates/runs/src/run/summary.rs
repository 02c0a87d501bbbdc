use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use oomph_config::{Value, sections::eval_metric::EvalMetric};
use oomph_core::{Bytes, open_file, read_file, read_text};
use serde::{Deserialize, Serialize};

use super::{
    RunError,
    curves::{EvaluationPoint, RunCurves, TrainingPoint},
    directory::{CONFIG, METRICS, RunDirectory},
    log_lines::{Line, LineState, LogLines, MOST_LINE_BYTES},
};
use crate::{event::Ended, state::StateError};

/// A run, read from its directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The directory.
    pub run_dir: PathBuf,
    /// The model's name.
    pub model: String,
    /// The data source's name.
    pub source: String,
    /// The status of the run.
    pub status: RunStatus,
    /// Optimizer steps done.
    pub step: usize,
    /// Optimizer steps that the run planned, if it logged its start.
    pub steps: Option<usize>,
    /// Mean training loss at the last reading.
    pub loss: Option<f64>,
    /// The evaluation with the lowest loss.
    pub best: Option<RunEvaluation>,
    /// The last evaluation.
    pub last: Option<RunEvaluation>,
    /// The peak in use on the device, if measured.
    pub peak_in_use_bytes: Option<Bytes>,
    /// Samples per second of the last process.
    pub samples_per_second: Option<f64>,
    /// Seconds of all processes of the run.
    pub seconds: f64,
    /// When its last process started.
    pub started_unix_seconds: Option<u64>,
    /// The error that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values of its configuration by key.
    #[serde(skip)]
    pub config: BTreeMap<String, Value>,
    /// Its metrics over the steps.
    #[serde(skip)]
    pub curves: RunCurves,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A process trains in it.
    Running,
    /// All steps are done, or evaluation stopped improving.
    Finished,
    /// A signal stopped the run, which saved its state.
    Stopped,
    /// An error ended it.
    Failed,
    /// The process was killed, or the machine went down.
    Killed,
}

impl RunStatus {
    /// The status in the word of its JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// An evaluation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunEvaluation {
    /// Optimizer steps done.
    pub step: usize,
    /// Mean loss over the held-out samples.
    pub eval_loss: f64,
    /// The share of correct predictions.
    pub eval_accuracy: Option<f64>,
    /// The exponential of the loss, for language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_perplexity: Option<f64>,
    /// The loss in bits for each byte of the held-out text, for language models of characters or byte pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_bits_per_byte: Option<f64>,
}

/// The fields of a line of `metrics.jsonl` that a summary needs. Numbers that are not finite are `null`.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum LogLine {
    Started {
        steps: usize,
        first_step: usize,
        metered: bool,
    },
    Step {
        #[serde(flatten)]
        trained: Trained,
        #[serde(flatten)]
        reading: StepReading,
    },
    Eval {
        #[serde(flatten)]
        evaluated: Evaluated,
        #[serde(default)]
        best: bool,
    },
    Done {
        #[serde(flatten)]
        trained: Trained,
        ended: Ended,
    },
    Error {
        message: String,
    },
    #[serde(other)]
    Other,
}

/// What the lines of evaluations say.
#[derive(Deserialize)]
struct Evaluated {
    step: usize,
    eval_loss: Option<f64>,
    eval_accuracy: Option<f64>,
    eval_perplexity: Option<f64>,
    eval_bits_per_byte: Option<f64>,
}

/// What both the lines of steps and the last line say.
#[derive(Deserialize)]
struct Trained {
    step: usize,
    loss: Option<f64>,
    samples_per_second: f64,
    peak_in_use_bytes: Bytes,
    seconds: f64,
}

/// What the lines of steps say beside it. Logs of earlier versions lack some.
#[derive(Clone, Copy, Deserialize)]
struct StepReading {
    accuracy: Option<f64>,
    lr: Option<f64>,
    in_use_bytes: Option<Bytes>,
}

impl Evaluated {
    /// The evaluation, if its loss is finite.
    fn finite(self) -> Option<RunEvaluation> {
        let Self { step, eval_loss, eval_accuracy, eval_perplexity, eval_bits_per_byte } = self;
        Some(RunEvaluation {
            step,
            eval_loss: eval_loss?,
            eval_accuracy,
            eval_perplexity,
            eval_bits_per_byte,
        })
    }
}

impl RunSummary {
    /// Reads the run in the directory `path`, without changing it.
    ///
    /// # Errors
    /// Where there is no run, or a file is damaged.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let file = path.join(CONFIG);
        if !RunDirectory::is_run(path) {
            return Err(RunError::NotARun { path: path.to_owned() });
        }
        let text = read_text(&file).map_err(StateError::io("read", &file))?;
        let config = oomph_config::values(&file.display().to_string(), &text)?;
        let named = |key: &str| config.get(key).map_or_else(String::new, Value::shown);
        let mut read = LogReader::default();
        // The lock is checked before the log is read, so a run that ends in between counts as ended.
        let is_running = RunDirectory::is_held(path);
        read.file(&path.join(METRICS))?;
        read.curves.end();
        Ok(Self {
            run_dir: path.to_owned(),
            model: named("model.name"),
            source: named("data.source"),
            status: read.status(is_running),
            step: read.step,
            steps: read.steps,
            loss: read.loss,
            best: read.best(&named("train.best")),
            last: read.last(),
            peak_in_use_bytes: read.peak_in_use_bytes.filter(|_| read.is_metered),
            samples_per_second: read.samples_per_second,
            seconds: read.earlier_seconds + read.seconds,
            started_unix_seconds: started(path)?,
            error: read.error,
            config,
            curves: read.curves,
        })
    }
}

/// When the last process of the run in a directory started, by its `environment.json`, if that is there.
fn started(path: &Path) -> Result<Option<u64>, RunError> {
    let file = path.join("environment.json");
    match read_file(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => Ok(started_in(&read.map_err(StateError::io("read", &file))?)),
    }
}

/// The same from the bytes of `environment.json`.
pub(crate) fn started_in(environment: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(environment).ok()?["started_unix_seconds"].as_u64()
}

/// Reads the bytes of a log, for fuzz tests.
pub(crate) fn read_log(log: &[u8]) -> Result<RunStatus, RunError> {
    let mut read = LogReader::default();
    read.lines(log, Path::new("memory"))?;
    let _ = (read.best(""), read.best(EvalMetric::Accuracy.name()), read.last());
    Ok(read.status(false))
}

fn damaged(path: &Path, line: usize, error: &serde_json::Error) -> RunError {
    // The message ends with a position that counts from the start of this line.
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    RunError::Damaged { path: path.to_owned(), line, column: error.column(), reason }
}

#[derive(Default)]
struct LogReader {
    step: usize,
    steps: Option<usize>,
    is_metered: bool,
    loss: Option<f64>,
    curves: RunCurves,
    peak_in_use_bytes: Option<Bytes>,
    samples_per_second: Option<f64>,
    earlier_seconds: f64,
    /// Seconds of the current process.
    seconds: f64,
    ended: Option<Ended>,
    error: Option<String>,
}

impl LogReader {
    fn file(&mut self, path: &Path) -> Result<(), RunError> {
        let file = open_file(path).map_err(StateError::io("read", path))?;
        self.lines(file, path)
    }

    fn lines(&mut self, log: impl Read, path: &Path) -> Result<(), RunError> {
        let refused = || StateError::io("read", path);
        let mut lines = LogLines::new(log);
        let mut number = 0;
        while let Some(Line { bytes, state, .. }) = lines.next().map_err(refused())? {
            number += 1;
            match state {
                LineState::Torn | LineState::Lost => {}
                LineState::TooLong => {
                    let reason = format!("it is longer than {}", Bytes::new(MOST_LINE_BYTES));
                    let (path, column) = (path.to_owned(), bytes.len());
                    return Err(RunError::Damaged { path, line: number, column, reason });
                }
                LineState::Whole => {
                    let read =
                        serde_json::from_slice(&bytes).map_err(|error| damaged(path, number, &error))?;
                    self.line(read);
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, line: LogLine) {
        match line {
            LogLine::Started { steps, first_step, metered } => {
                self.steps = Some(steps);
                self.step = first_step;
                self.is_metered = metered;
                self.earlier_seconds += std::mem::take(&mut self.seconds);
                (self.ended, self.error) = (None, None);
                // The resumed run repeats what came after its checkpoint.
                self.curves.resume(first_step);
            }
            LogLine::Step { trained, reading } => {
                self.trained(&trained);
                self.curves.train(TrainingPoint {
                    step: trained.step,
                    seconds: self.earlier_seconds + self.seconds,
                    loss: trained.loss,
                    accuracy: reading.accuracy,
                    lr: reading.lr,
                    samples_per_second: trained.samples_per_second,
                    in_use_bytes: reading.in_use_bytes.filter(|_| self.is_metered),
                });
            }
            LogLine::Eval { evaluated, best } => {
                if let Some(evaluation) = evaluated.finite() {
                    let seconds = self.earlier_seconds + self.seconds;
                    self.curves.evaluate(EvaluationPoint { evaluation, is_best: best, seconds });
                }
            }
            LogLine::Done { trained, ended } => {
                self.trained(&trained);
                self.ended = Some(ended);
            }
            LogLine::Error { message } => self.error = Some(message),
            LogLine::Other => {}
        }
    }

    fn trained(&mut self, now: &Trained) {
        self.step = now.step;
        self.loss = now.loss.or(self.loss);
        // A process without steps has no rate.
        let rate = Some(now.samples_per_second).filter(|rate| *rate > 0.0);
        self.samples_per_second = rate.or(self.samples_per_second);
        self.peak_in_use_bytes = self.peak_in_use_bytes.max(Some(now.peak_in_use_bytes));
        self.seconds = now.seconds;
    }

    fn status(&self, is_running: bool) -> RunStatus {
        match (is_running, self.ended, &self.error) {
            (true, ..) => RunStatus::Running,
            (_, Some(Ended::Complete | Ended::EarlyStopping | Ended::Callback), _) => RunStatus::Finished,
            (_, Some(Ended::Paused | Ended::Interrupted | Ended::Terminated), _) => RunStatus::Stopped,
            (_, None, Some(_)) => RunStatus::Failed,
            (_, None, None) => RunStatus::Killed,
        }
    }

    /// The best evaluation by `metric`, as `train.best` has it: by the loss that with the lowest, the first of equals; by
    /// another measure the last one that the run itself called the best.
    fn best(&self, metric: &str) -> Option<RunEvaluation> {
        let all = self.curves.evaluations.iter();
        if metric.is_empty() || metric == EvalMetric::Loss.name() {
            let evaluations = all.map(|point| point.evaluation);
            return evaluations.min_by(|one, other| one.eval_loss.total_cmp(&other.eval_loss));
        }
        all.rev().find(|point| point.is_best).map(|point| point.evaluation)
    }

    fn last(&self) -> Option<RunEvaluation> {
        self.curves.evaluations.last().map(|point| point.evaluation)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STARTED: &str = r#"{"event":"started","steps":6,"first_step":0,"metered":true}"#;

    fn step(step: usize, peak: u64) -> String {
        format!(
            r#"{{"event":"step","step":{step},"loss":0.5,"samples_per_second":9.0,"peak_in_use_bytes":{peak},"seconds":{step}.0}}"#
        )
    }

    fn eval(step: usize, loss: &str) -> String {
        format!(r#"{{"event":"eval","step":{step},"eval_loss":{loss},"eval_accuracy":0.5}}"#)
    }

    fn summary(lines: &[&str], end: &str) -> Result<RunSummary, RunError> {
        summary_by("", lines, end)
    }

    /// The summary of a run with `keys` of `[train]`.
    fn summary_by(keys: &str, lines: &[&str], end: &str) -> Result<RunSummary, RunError> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: String| fs::write(directory.path().join(name), text).expect("a file");
        let config = format!("[model]\nname = 'lstm'\n[data]\nsource = 'digits'\n[train]\n{keys}\n");
        write("config.toml", config);
        write("environment.json", r#"{"started_unix_seconds": 17}"#.to_owned());
        write("metrics.jsonl", lines.iter().map(|line| format!("{line}\n")).collect::<String>() + end);
        RunSummary::read(directory.path())
    }

    #[test]
    fn a_log_summarizes_its_run() {
        let warning = r#"{"event":"warning","message":"new in a later version"}"#;
        let lines = [
            STARTED,
            &step(2, 70),
            &eval(2, "0.4"),
            warning,
            &step(4, 90),
            &eval(4, "0.6"),
            &eval(5, "null"),
        ];
        let run = summary(&lines, "{\"event\":\"st").expect("a run");
        assert_eq!((run.model.as_str(), run.source.as_str()), ("lstm", "digits"));
        assert_eq!((run.status, run.step, run.steps), (RunStatus::Killed, 4, Some(6)));
        assert_eq!((run.best.map(|best| best.step), run.last.map(|last| last.step)), (Some(2), Some(4)));
        assert_eq!((run.peak_in_use_bytes, run.seconds), (Some(Bytes::new(90)), 4.0));
        assert_eq!(run.started_unix_seconds, Some(17));
        let steps: Vec<_> = run.curves.training.iter().map(|point| (point.step, point.loss)).collect();
        assert_eq!(steps, [(2, Some(0.5)), (4, Some(0.5))]);
    }

    #[test]
    fn by_another_measure_than_the_loss_the_best_is_what_the_run_called_so() {
        let best = |step: usize, loss: &str| eval(step, loss).replace('}', r#","best":true}"#);
        let lines = [STARTED, &best(1, "0.4"), &best(2, "0.6"), &eval(3, "0.2")];
        let of = |keys| summary_by(keys, &lines, "").expect("a run").best.map(|best| best.step);
        assert_eq!((of("best = 'macro f1'"), of("best = 'eval loss'"), of("")), (Some(2), Some(3), Some(3)));
    }

    #[test]
    fn repeated_evaluations_after_a_resume_count_once() {
        let resumed = STARTED.replace("\"first_step\":0", "\"first_step\":2");
        let done = r#"{"event":"done","step":3,"loss":0.1,"samples_per_second":7.0,"peak_in_use_bytes":80,"seconds":1.5,"ended":"interrupted"}"#;
        let lines = [
            STARTED,
            &step(2, 70),
            &eval(2, "0.4"),
            &step(4, 90),
            &eval(4, "0.1"),
            &resumed,
            &eval(3, "0.3"),
            done,
        ];
        let run = summary(&lines, "").expect("a run");
        assert_eq!((run.status, run.step), (RunStatus::Stopped, 3));
        assert_eq!((run.best.map(|best| best.step), run.last.map(|last| last.step)), (Some(3), Some(3)));
        assert_eq!((run.seconds, run.samples_per_second), (5.5, Some(7.0)));
        let steps: Vec<_> = run.curves.training.iter().map(|point| point.step).collect();
        assert_eq!(steps, [2]);
        let evaluated: Vec<_> = run.curves.evaluations.iter().map(|point| point.evaluation.step).collect();
        assert_eq!(evaluated, [2, 3]);
    }

    #[test]
    fn an_error_at_the_end_is_a_failure_and_one_before_a_resume_is_not() {
        let error = r#"{"event":"error","message":"the disk is full"}"#;
        let run = summary(&[STARTED, error], "").expect("a run");
        assert_eq!((run.status, run.error.as_deref()), (RunStatus::Failed, Some("the disk is full")));
        let run = summary(&[STARTED, error, STARTED], "").expect("a run");
        assert_eq!((run.status, run.error), (RunStatus::Killed, None));
    }

    #[test]
    fn a_line_that_is_too_long_is_not_read_into_memory() {
        let long = format!("{STARTED}{}", " ".repeat(3 << 20));
        match summary(&[STARTED, &long], "") {
            Err(RunError::Damaged { line: 2, reason, .. }) => {
                assert_eq!(reason, "it is longer than 1.00 MiB");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_loss_of_power_left_as_zeros_is_not_counted() {
        let lines = [STARTED, &step(2, 70), "\0\0\0", &step(3, 99), STARTED, &step(1, 80)];
        let run = summary(&lines, "\0\0").expect("a run");
        assert_eq!((run.step, run.peak_in_use_bytes), (1, Some(Bytes::new(80))));
    }

    #[test]
    fn a_damaged_line_is_named() {
        match summary(&[STARTED, "{\"event\":", STARTED], "") {
            Err(RunError::Damaged { line: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
