//! A program whose trainings are a formula, and its study.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use oomph_config::{Config, ConfigFile, DeviceName, Sources, Value};
use oomph_core::Bytes;
use oomph_study::{StudyState, read};
use oomph_tuner::{
    Bench, Fit, Folder, QuietTune, Refusal, Request, TrialPlace, TuneEnded, TuneError, TuneEvent,
    TuneObserver, TuneStop, Tuner, TunerOptions,
};
use serde_json::json;

/// The test that is the process of a trial.
pub(crate) const CHILD: &str = "a_trial_of_another_test";

/// Bytes of a unit of width.
const UNIT: u64 = 1 << 20;

/// A program: the peak of a training is its width in MiB, halved by `memory.recompute = "stages"`.
pub(crate) struct Formula;

impl Bench for Formula {
    fn check(&self, config: &Config) -> Result<(), Refusal> {
        match config.model.integer("width", 1, ..=1000) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn plan(&self, config: &Config, may_adapt: bool) -> Result<Fit, Refusal> {
        let width = config.model.integer("width", 1, ..).map_err(Refusal::from)? as u64;
        let adapted = config.memory.recompute != oomph_config::Recompute::None;
        let peak_bytes = Bytes::new(width * UNIT / if adapted { 2 } else { 1 });
        let halved = Bytes::new(width * UNIT / 2);
        Ok(match config.memory.limit {
            Some(limit_bytes) if peak_bytes > limit_bytes => match may_adapt && halved <= limit_bytes {
                true => Fit::Adapted {
                    peak_bytes: halved,
                    settings: vec![("memory.recompute".into(), Value::from("stages"))],
                },
                false => Fit::TooLarge { peak_bytes, limit_bytes },
            },
            _ => Fit::Fits { peak_bytes },
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", CHILD, "--nocapture"]).env(CHILD, "1");
        command
    }
}

/// The process of a trial, if this is one: its loss falls with each epoch, by a formula of its settings.
pub(crate) fn be_a_trial() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).expect("a request");
    let request: Request = serde_json::from_str(&line).expect("a request");
    let config =
        Config::load(&Sources::new(ConfigFile::from_text(request.name, request.config))).expect("a config");
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stopped = is_stopped.clone();
    thread::spawn(move || {
        let _ = io::stdin().lock().read(&mut [0; 8]);
        stopped.store(true, SeqCst);
    });
    let code = train(&config, request.pause_at.map(|length| length.count), &is_stopped);
    std::process::exit(code);
}

fn train(config: &Config, pause_at: Option<u64>, is_stopped: &AtomicBool) -> i32 {
    let run = config.run.directory.clone().expect("a run directory");
    let fails = config.model.string("fails", "never").expect("a word");
    let width = config.model.integer("width", 1, ..).expect("a width");
    let (lr, epochs) = (config.optimizer.lr, config.train.length.epochs.expect("epochs") as u64);
    fs::create_dir_all(run.join("checkpoints")).expect("a folder");
    let state = run.join("checkpoints/state");
    let begun: u64 = fs::read_to_string(&state).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    say(&json!({ "event": "started", "steps": epochs * 10, "steps_per_epoch": 10 }));
    let loss = |epoch: u64| (lr.log10() + 2.0).powi(2) + 10.0 / width as f64 + 1.0 / epoch as f64;
    let done = |epoch: u64, ended: &str| {
        let peak = width as u64 * UNIT;
        say(&json!({ "event": "done", "step": epoch * 10, "ended": ended, "loss": 0.1, "seconds": 0.1,
            "samples_per_second": 5.0, "peak_in_use_bytes": peak, "eval_loss": loss(epoch) }));
    };
    if begun == epochs || pause_at == Some(begun) {
        done(begun, if begun == epochs { "complete" } else { "paused" });
        return 0;
    }
    for epoch in begun + 1..=epochs {
        thread::sleep(Duration::from_millis(2));
        match &*fails {
            "panics" if epoch == 2 => return 101,
            "nan" if epoch == 2 => {
                say(&json!({ "event": "error", "message": "the loss of step 11 is NaN", "causes": [] }));
                return 1;
            }
            "memory" if config.memory.recompute == oomph_config::Recompute::None => {
                let lever =
                    json!({ "settings": [["memory.recompute", "stages"]], "keeps_mathematics": true });
                let report = json!({ "levers": [lever] });
                say(&json!({ "event": "error", "message": "out of memory", "out_of_memory": report }));
                return 75;
            }
            _ => {}
        }
        say(&json!({ "event": "eval", "step": epoch * 10, "eval_loss": loss(epoch) }));
        save(&state, epoch);
        let ended = match () {
            () if is_stopped.load(SeqCst) => Some("terminated"),
            () if epoch == epochs => Some("complete"),
            () if pause_at == Some(epoch) => Some("paused"),
            () => None,
        };
        if let Some(ended) = ended {
            done(epoch, ended);
            return if ended == "terminated" { 143 } else { 0 };
        }
    }
    0
}

fn save(state: &Path, epoch: u64) {
    let beside = state.with_extension("new");
    fs::write(&beside, epoch.to_string()).expect("written");
    fs::rename(beside, state).expect("renamed");
}

fn say(event: &serde_json::Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{event}").and_then(|()| out.flush());
}

/// A study in a folder of its own.
pub(crate) struct Bed {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) config: Config,
    pub(crate) limit_bytes: Option<Bytes>,
}

impl Bed {
    /// A study of the formula, with these lines in `[tune]`.
    pub(crate) fn new(tune: &str) -> Self {
        Self::with("", tune)
    }

    /// The same with lines of other sections.
    pub(crate) fn with(sections: &str, tune: &str) -> Self {
        let text = format!(
            "[train]\nepochs = 9\n{sections}\n[tune]\n{tune}\n[tune.space]\n\
             \"optimizer.lr\" = {{ low = 1e-4, high = 1.0, log = true }}\n\
             \"model.width\" = {{ low = 10, high = 100 }}\n"
        );
        let config = Config::from_toml("formula.toml", &text).expect("a config");
        Self { directory: tempfile::tempdir().expect("a folder"), config, limit_bytes: None }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.directory.path().join("study")
    }

    fn options(&self, slots: usize) -> TunerOptions {
        let place = TrialPlace {
            devices: vec![DeviceName::Cpu],
            limit_bytes: self.limit_bytes,
            most: slots,
            threads: None,
        };
        TunerOptions {
            folder: self.folder(),
            name: "formula".into(),
            places: vec![place],
            worker: "test".into(),
        }
    }

    /// Works on the study until it is over or stopped.
    pub(crate) fn run(&self, slots: usize, stop: &TuneStop) -> Result<TuneEnded, TuneError> {
        self.observed(slots, stop, &mut QuietTune)
    }

    pub(crate) fn observed(
        &self,
        slots: usize,
        stop: &TuneStop,
        observer: &mut dyn TuneObserver,
    ) -> Result<TuneEnded, TuneError> {
        Tuner::open(&Formula, &self.config, self.options(slots), observer, stop.clone())?.run()
    }

    /// Works on the study to its end.
    pub(crate) fn finish(&self, slots: usize) -> StudyState {
        assert_eq!(self.run(slots, &TuneStop::new()).expect("a study"), TuneEnded::Complete);
        self.state()
    }

    pub(crate) fn enqueue(&self, text: &str) -> Vec<usize> {
        let entries = self.config.space().expect("a space");
        let point = oomph_tuner::point_of(&entries, text).expect("a point");
        let mut quiet = QuietTune;
        let tuner = Tuner::open(&Formula, &self.config, self.options(1), &mut quiet, TuneStop::new());
        tuner.expect("a study").enqueue(vec![point]).expect("enqueued")
    }

    pub(crate) fn state(&self) -> StudyState {
        read(&Folder::open(&self.folder()).expect("a study").journal(), None).expect("a journal")
    }

    /// How many decisions were made again; none may differ.
    pub(crate) fn replay(&self) -> usize {
        let report = oomph_tuner::replay_study(
            &Formula,
            &self.config,
            &Folder::open(&self.folder()).expect("a study"),
        );
        let report = report.expect("a journal");
        assert_eq!(report.differences, [], "{} were checked", report.checked);
        report.checked
    }
}

/// Asks a study to stop after so many pauses and ends.
pub(crate) struct StopAfter {
    pub(crate) stop: TuneStop,
    pub(crate) left: usize,
}

impl TuneObserver for StopAfter {
    fn event(&mut self, event: &TuneEvent) {
        if matches!(event, TuneEvent::Paused { .. } | TuneEvent::Complete { .. } | TuneEvent::Value { .. }) {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.stop.request();
            }
        }
    }
}

/// What a study came to, without times, workers and the order of records.
pub(crate) fn results(state: &StudyState) -> Vec<String> {
    let trial = |trial: &oomph_study::StoredTrial| {
        let steps: BTreeMap<_, _> = trial.trial().steps;
        format!("{} {:?} {:?} {:?} {:?}", trial.number, trial.stage(), trial.point, trial.value(), steps)
    };
    state.trials().iter().map(trial).collect()
}
