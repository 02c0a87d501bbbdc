//! A worker of a study: slots that take trials, decide, train and record.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use oomph_config::{
    Config,
    sections::{
        space::SpaceEntry,
        tune::{Parallel, Tune},
    },
};
use oomph_search::TrialState;
use oomph_study::{Claim, Study, StudyError, Worker};

use crate::{
    TuneError, TuneEvent, TuneObserver, TuneStop,
    bench::{Bench, Fit, TrialPlace},
    child::Stopper,
    cleanup,
    job::TrialWork,
    policy::{Policy, tune_of},
    rooms::Rooms,
    setup::{Folder, setup},
    take::Taken,
};

/// How often an idle slot looks for news of other workers.
const IDLE: Duration = Duration::from_millis(250);

/// Leases are looked after this many times within their time.
const BEATS: u32 = 10;

/// How a worker of a study works.
#[derive(Clone, Debug)]
pub struct TunerOptions {
    /// The folder of the study, such as `tunes/digits`.
    pub folder: PathBuf,
    /// The name of the study.
    pub name: String,
    /// Where trials are trained.
    pub places: Vec<TrialPlace>,
    /// A name for this worker in the journal, such as the host's. It is made unique.
    pub worker: String,
}

/// A worker of a study, which begins the study or joins it.
pub struct Tuner<'a, B> {
    pub(crate) bench: &'a B,
    pub(crate) config: &'a Config,
    pub(crate) tune: &'a Tune,
    pub(crate) entries: Vec<SpaceEntry>,
    pub(crate) policy: Policy,
    pub(crate) folder: Folder,
    pub(crate) rooms: Rooms,
    pub(crate) stop: TuneStop,
    slots: usize,
    study: Mutex<Study>,
    observer: Mutex<&'a mut dyn TuneObserver>,
    running: Mutex<BTreeMap<usize, Running>>,
    known: Known,
    error: Mutex<Option<TuneError>>,
    /// Whether all slots have ended.
    is_done: AtomicBool,
}

/// What a process knows, to do and tell it once.
#[derive(Default)]
struct Known {
    /// Plans of trials.
    plans: Mutex<BTreeMap<usize, Fit>>,
    /// The trials of other processes that this one last said to wait for.
    waited_for: Mutex<Vec<usize>>,
}

/// A trial that this process works on.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    claim: Claim,
    /// `None` until its training starts.
    stopper: Option<Stopper>,
    /// Whether another worker has the trial now.
    is_lost: bool,
}

/// How the work on a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuneEnded {
    /// The study is over.
    Complete,
    /// It was asked to end; the study can be continued.
    Stopped,
}

impl<'a, B: Bench> Tuner<'a, B> {
    /// Begins a study, joins it or resumes it. The configuration's readers have read it.
    ///
    /// # Errors
    /// The configuration, its space or one of its values is refused; the study was begun with other settings; the disk fails.
    pub fn open(
        bench: &'a B,
        config: &'a Config,
        options: TunerOptions,
        observer: &'a mut dyn TuneObserver,
        stop: TuneStop,
    ) -> Result<Self, TuneError> {
        let tune = tune_of(config)?;
        let entries = checked_space(bench, config)?;
        let policy = Policy::new(config, tune, crate::space::space(&entries)?)?;
        let rooms = Rooms::new(&options.places);
        let slots = match tune.parallel {
            Parallel::Auto => rooms.most(),
            Parallel::Trials(number) => number.min(rooms.most()),
        };
        let folder = Folder::make(options.folder, config)?;
        let worker = Worker::new(&options.worker, tune.lease);
        let setup = setup(&options.name, config, tune, &policy)?;
        let study = Study::join(&folder.journal(), &setup, worker)?;
        Ok(Self {
            bench,
            config,
            tune,
            entries,
            policy,
            folder,
            rooms,
            stop,
            slots: slots.max(1),
            study: Mutex::new(study),
            observer: Mutex::new(observer),
            running: Mutex::default(),
            known: Known::default(),
            error: Mutex::default(),
            is_done: AtomicBool::new(false),
        })
    }

    /// Works until the study is over, or until it is asked to stop.
    ///
    /// # Errors
    /// The journal fails. Trials that fail are results.
    pub fn run(&self) -> Result<TuneEnded, TuneError> {
        let (study, trials) = {
            let study = self.study();
            (study.state().name().to_owned(), study.state().trials().len())
        };
        self.tell(TuneEvent::Opened {
            study,
            trials,
            of: self.tune.trials,
            parallel: self.slots,
            metric: self.tune.metric.name(),
            unit: self.policy.whole.unit,
        });
        let is_over = thread::scope(|scope| {
            let beats = scope.spawn(|| self.keep_leases());
            let slots: Vec<_> = (0..self.slots).map(|_| scope.spawn(|| self.work())).collect();
            let over = slots.into_iter().map(|slot| slot.join().unwrap_or(false)).collect::<Vec<_>>();
            let is_over = over.iter().all(|over| *over);
            // The slots are done, so nothing has a lease any more.
            self.is_done.store(true, SeqCst);
            self.stop.wake();
            drop(beats.join());
            is_over
        });
        if let Some(error) = lock(&self.error).take() {
            return Err(error);
        }
        if is_over {
            self.end()?;
        }
        Ok(if is_over { TuneEnded::Complete } else { TuneEnded::Stopped })
    }

    /// Takes trials until there are no more; whether the study is over.
    fn work(&self) -> bool {
        loop {
            if self.stop.is_requested() {
                return false;
            }
            let worked = match self.take() {
                Ok(Taken::Job(job)) => TrialWork { tuner: self }.do_job(*job),
                Ok(Taken::Wait(records)) => {
                    self.wait_for_news(records);
                    Ok(())
                }
                Ok(Taken::Finished) => return true,
                Err(error) => Err(error),
            };
            if let Err(error) = worked {
                lock(&self.error).get_or_insert(error);
                self.stop.request();
            }
            self.stop.wake();
        }
    }

    /// Waits until the journal has more than what a decision saw, or a lease is over.
    fn wait_for_news(&self, before: u64) {
        self.tell_waiting();
        while !self.stop.is_requested() {
            self.stop.sleep(IDLE);
            let mut study = self.study();
            let is_new = match study.refresh() {
                Ok(state) => state.records() != before,
                // The next transaction tells it.
                Err(_) => true,
            };
            if is_new || !study.lapsed().is_empty() {
                return;
            }
        }
    }

    /// Tells, once, that this process has nothing to do until others are done with trials.
    fn tell_waiting(&self) {
        if !self.running().is_empty() {
            return;
        }
        let (trials, lapse) = {
            let study = self.study();
            let running = study.state().trials().iter().filter(|trial| trial.stage() == TrialState::Running);
            (running.map(|trial| trial.number).collect::<Vec<_>>(), study.next_lapse())
        };
        let Some(lapse) = lapse.filter(|_| !trials.is_empty()) else { return };
        let mut told = lock(&self.known.waited_for);
        if *told != trials {
            told.clone_from(&trials);
            self.tell(TuneEvent::Waits { trials, seconds: lapse.as_secs_f64().ceil() as u64 });
        }
    }

    /// Renews the leases of the running trials, and stops those that are lost.
    fn keep_leases(&self) {
        while !self.is_done.load(SeqCst) {
            self.stop.sleep(self.tune.lease / BEATS);
            if self.stop.is_requested() {
                self.running().values().filter_map(|it| it.stopper.as_ref()).for_each(Stopper::stop);
            }
            let claims: Vec<_> = self.running().values().map(|running| running.claim.clone()).collect();
            // A journal that cannot be written ends the study where a result is recorded.
            let lost = self.study().renew(&claims).unwrap_or_default();
            let mut running = self.running();
            for claim in lost {
                if let Some(running) = running.get_mut(&claim.number).filter(|it| it.claim == claim) {
                    running.is_lost = true;
                    running.stopper.iter().for_each(Stopper::stop);
                }
            }
        }
    }

    /// Adds trials with these values of searched keys; returns their numbers.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn enqueue(
        &self,
        points: Vec<serde_json::Map<String, serde_json::Value>>,
    ) -> Result<Vec<usize>, TuneError> {
        let points = points.into_iter().map(|point| point.into_iter().collect()).collect();
        Ok(self.study().enqueue(points)?)
    }

    /// Ends the study, unless another worker still works on it.
    fn end(&self) -> Result<(), TuneError> {
        let mut study = self.study();
        study.refresh()?;
        let is_open = |state: TrialState| matches!(state, TrialState::Running | TrialState::Waiting);
        if study.state().trials().iter().any(|trial| is_open(trial.stage())) {
            return Ok(());
        }
        for number in study.prune_paused("the study is over, and it was not among the best of its rung")? {
            self.tell(TuneEvent::Pruned { trial: number });
        }
        cleanup::clean(&self.folder, study.state(), &self.policy, self.tune);
        Ok(())
    }

    /// The study; transactions of the slots follow each other.
    pub(crate) fn study(&self) -> MutexGuard<'_, Study> {
        lock(&self.study)
    }

    pub(crate) fn tell(&self, event: TuneEvent) {
        lock(&self.observer).event(&event);
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<usize, Running>> {
        lock(&self.running)
    }

    /// Notes that this process works on a trial, so that its lease is kept.
    pub(crate) fn begin(&self, claim: &Claim) {
        let running = Running { claim: claim.clone(), stopper: None, is_lost: false };
        self.running().insert(claim.number, running);
    }

    /// Notes the process of a trial. One that is lost by now, or not wanted any more, is stopped.
    pub(crate) fn trains(&self, claim: &Claim, stopper: Stopper) {
        if let Some(running) = self.running().get_mut(&claim.number) {
            if running.is_lost || self.stop.is_requested() {
                stopper.stop();
            }
            running.stopper = Some(stopper);
        }
    }

    pub(crate) fn ends(&self, claim: &Claim) {
        self.running().remove(&claim.number);
    }

    pub(crate) fn is_lost(&self, claim: &Claim) -> bool {
        self.running().get(&claim.number).is_some_and(|running| running.is_lost)
    }

    pub(crate) fn known_plan(&self, number: usize) -> Option<Fit> {
        lock(&self.known.plans).get(&number).cloned()
    }

    pub(crate) fn note_plan(&self, number: usize, fit: Fit) {
        lock(&self.known.plans).insert(number, fit);
    }
}

/// The space of a configuration, each of whose values the program accepts by itself.
pub(crate) fn checked_space(bench: &impl Bench, config: &Config) -> Result<Vec<SpaceEntry>, TuneError> {
    config.check_space(|point| bench.check(point).map_err(|refusal| TuneError::Refused { refusal }))
}

/// Whether an error says that another worker has the trial now.
pub(crate) fn is_lease_lost(error: &StudyError) -> bool {
    matches!(error, StudyError::LeaseLost { .. })
}

/// Ignores poisoning: a slot that panics ends the program with its message.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
