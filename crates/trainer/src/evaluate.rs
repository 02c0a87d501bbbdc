use std::{path::PathBuf, time::Instant};

use burn::tensor::{Device, Tensor};
use oomph_core::{Phase, Split, phase};
use oomph_data::{Loader, SampleError};
use oomph_memory::{
    Account, LaneKind, charge,
    record::{StepKind, lane},
    restart_peak,
};
use oomph_model::{AnyTensor, Carried, Pass, Stages, autodiff};

use crate::{
    DeviceTargets, Event, Observer, Session, Stop, StopReason, Tick, TrainError, backend,
    cleanup::{Cleaner, Moment},
    forward::{forward, forward_over},
    leak_watch::LeakCheck,
    loading::next_batch,
    memory_log::MemoryLog,
    out_of_memory::{self, Circumstances, Subject, explain},
    parallel::{Place, chain::Chain},
    progress::read_all,
    state::{Checkpoint, restore_model},
    upload::{upload_input, upload_targets},
};

/// What evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean loss over the samples.
    pub loss: f64,
    /// Share of samples that the model is right about, where the task tells.
    pub accuracy: Option<f64>,
    /// The exponential of the loss, where that is a perplexity: of language models.
    pub perplexity: Option<f64>,
    /// Samples there were.
    pub samples: usize,
    /// Samples that were unreadable and left out.
    pub skipped: Vec<SampleError>,
    /// How long it took.
    pub seconds: f64,
}

/// Makes the model of the session with the parameters of a checkpoint, and measures it on the held-out data. `None`
/// where `stop` asked to end before it was done.
///
/// Where memory runs out the error has a report, which is written into the directory `report` too, where one is given.
///
/// # Errors
/// As those of [`evaluate`], and where the checkpoint is damaged or of another model.
pub fn evaluate_checkpoint(
    session: &Session,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    with_restored(session, checkpoint, report, |model| evaluate(session, model, observer, stop))
}

/// As [`evaluate_checkpoint`], with the parameters of `model.weights`: without any training. What is to be known of them
/// is told as warnings.
///
/// # Errors
/// As those of [`evaluate`], and where the file does not fit the model, its head included.
pub fn evaluate_weights(
    session: &Session,
    report: Option<PathBuf>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    let loaded = || -> Result<_, TrainError> {
        let (model, weights) = session.model_of_weights()?;
        Ok((model, weights.notices))
    };
    with_made(session, loaded, report, |model, notices| {
        charge(Account::Host, || {
            for message in notices {
                observer.event(&Event::Warning { message });
            }
        });
        evaluate(session, model, observer, stop)
    })
}

/// Hands the model of the session with the parameters of a checkpoint to `work`. Where memory runs out the error has a
/// report, which is written into the directory `report` too, where one is given.
pub(crate) fn with_restored<T>(
    session: &Session,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    work: impl FnOnce(&Stages) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let restored = || -> Result<_, TrainError> {
        checkpoint.check_classes(session.source.as_ref())?;
        // Read first: what the file takes is gone when there is a model.
        let record = charge(Account::Host, || checkpoint.model())?;
        let mut model = session.build()?;
        restore_model(&mut model, &record, &session.whole_model_device())?;
        Ok((model, ()))
    };
    with_made(session, restored, report, |model, ()| work(model))
}

/// Hands what `make` makes, a model and what is to be known of it, to `work`.
fn with_made<K, T>(
    session: &Session,
    make: impl FnOnce() -> Result<(Stages, K), TrainError>,
    report: Option<PathBuf>,
    work: impl FnOnce(&Stages, K) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let mut log = MemoryLog::start(session);
    let made = charge(Account::Device, || {
        let _phase = phase(Phase::Init);
        let made = session.off_device(make)?;
        out_of_memory::check()?;
        Ok(made)
    });
    let worked = made.and_then(|(model, known)| {
        if let Some(log) = &mut log {
            log.look_at(&model);
        }
        Cleaner::new(session).at(Moment::Initialised);
        restart_peak();
        work(&model, known)
    });
    worked.map_err(|error| {
        let TrainError::OutOfMemory(mut error) = error else { return error };
        let known = Circumstances {
            subject: Subject::Evaluation,
            device: 0,
            seen: log.as_ref().and_then(|log| log.seen(&error)),
            reserved_bytes: None,
            run: None,
            directory: report,
        };
        explain(session, &mut error, known);
        TrainError::OutOfMemory(error)
    })
}

/// Measures `model` on the held-out data, without autodiff. `None` where `stop` asked to end before it was done.
///
/// The model may be on the autodiff device or off it; it is not changed. Where the session cuts it over several devices
/// each of them is given a copy of its part.
///
/// # Errors
/// Where data, model or task fail, and where no sample can be read.
pub fn evaluate(
    session: &Session,
    model: &Stages,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    let mut leaks = LeakCheck::new(session);
    let chain = session.open_chain()?;
    let placed = chain.as_ref().map(|chain| chain.placed(model.inference()));
    let lying = Lying { model: placed.as_ref().unwrap_or(model), chain: chain.as_ref() };
    evaluate_batches(session, lying, usize::MAX, &mut leaks.watching(None, observer), stop)
}

/// A model where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Lying<'a> {
    pub(crate) model: &'a Stages,
    /// The devices that it is cut over, where it is.
    pub(crate) chain: Option<&'a Chain>,
}

/// As [`evaluate`], on the first batches alone: at most `most` of them.
pub(crate) fn evaluate_batches(
    session: &Session,
    lying: Lying<'_>,
    most: usize,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    let evaluated = charge(Account::Device, || {
        let start = Instant::now();
        let model = lying.model.inference();
        let order = session.eval_order();
        let batches = order.batches().min(most);
        let mut loader = charge(Account::Host, || {
            Loader::start(session.source.clone(), Split::Test, order, 0, 0, None, &session.loader)
        });
        let mut sums = Sums::default();
        let mut batch_index = 0;
        while batch_index < batches
            && stop.reason().is_none()
            && let Some(batch) = next_batch(&mut loader)
        {
            let batch = batch?;
            session.mark_step(batch_index as u64 + 1, StepKind::Eval);
            sums.skipped.extend(batch.skipped.iter().cloned());
            if batch.size > 0 {
                sums.add(session, Lying { model: &model, ..lying }, &batch)?;
            }
            batch_index += 1;
            charge(Account::Host, || observer.tick(Tick::Eval { batch: batch_index, batches }));
        }
        let perplexed = session.task.has_perplexity(&session.spec().target);
        let stopped = stop.reason().filter(|_| batch_index < batches);
        let (evaluation, asked) = sums.finish(session, stopped, (start, perplexed))?;
        // What one rank was asked all are, so that the training ends and does not only lack an evaluation.
        if let Some(reason) = asked {
            stop.request(reason);
        }
        Ok(evaluation)
    });
    evaluated.map_err(|mut error| {
        if let TrainError::OutOfMemory(error) = &mut error {
            error.in_evaluation = true;
        }
        error
    })
}

/// Sums that stay on the device until the end.
#[derive(Default)]
struct Sums {
    loss: Vec<Tensor<1>>,
    correct: Vec<Tensor<1>>,
    samples: usize,
    skipped: Vec<SampleError>,
    /// What recurrent layers go on from, where samples follow one another.
    carried: Carried,
}

impl Sums {
    fn add(
        &mut self,
        session: &Session,
        Lying { model, chain }: Lying<'_>,
        batch: &oomph_data::Batch,
    ) -> Result<(), TrainError> {
        let mut pass = Pass::eval().with_policy(session.policy(backend(session)));
        if session.source.is_continuous() {
            let before = if batch.continues { self.carried.rows(0..batch.size) } else { Carried::new() };
            pass = pass.with_carried(before);
        }
        let uploading = || (phase(Phase::Data), lane(LaneKind::Data, "upload", None));
        let input = |device: &Device| {
            let _uploading = uploading();
            upload_input(batch, device)
        };
        let targets = |device: &Device| {
            let _uploading = uploading();
            upload_targets(batch, device)
        };
        let compare = |output: AnyTensor, targets: DeviceTargets| {
            let loss = session.task.loss(&output, &targets)?.mul_scalar(batch.size as f32);
            let correct = session.task.correct(&output, &targets).map(autodiff::inner);
            Ok::<_, TrainError>((autodiff::inner(loss), correct))
        };
        let (_phase, _lane) = (phase(Phase::Eval), lane(LaneKind::Eval, "evaluation", None));
        let (loss, correct) = match chain {
            Some(chain) => {
                let last = |place: &Place, output| compare(output, targets(&place.plain()));
                forward_over(chain, model, |place| input(&place.plain()), &mut pass, last)?
            }
            None => {
                let (input, targets) = (input(&session.device), targets(&session.device));
                out_of_memory::check()?;
                compare(forward(model, input, &mut pass, None)?, targets)?
            }
        };
        self.carried = pass.take_carried().unwrap_or_default();
        self.loss.push(loss);
        self.correct.extend(correct);
        self.samples += batch.size;
        out_of_memory::check()
    }

    /// What all ranks found; `None`, and why, where this rank, or another, was asked to stop before it was done.
    fn finish(
        self,
        session: &Session,
        stopped: Option<StopReason>,
        (start, perplexed): (Instant, bool),
    ) -> Result<(Option<Evaluation>, Option<StopReason>), TrainError> {
        let sum = |sums: Vec<f32>| sums.into_iter().map(f64::from).sum::<f64>();
        let tells = !self.correct.is_empty();
        let here = [
            sum(read_all(self.loss)?),
            sum(read_all(self.correct)?),
            f64::from(tells),
            self.samples as f64,
            self.skipped.len() as f64,
            f64::from(stopped == Some(StopReason::Interrupt)),
            f64::from(stopped == Some(StopReason::Terminate)),
        ];
        let mut all = session.replicas.sum(&here)?.into_iter();
        // As many come back as go in.
        let [loss, correct, tells, samples, unreadable, interrupted, terminated] =
            std::array::from_fn(|_| all.next().unwrap_or(0.0));
        if interrupted + terminated > 0.0 {
            let asked = if interrupted > 0.0 { StopReason::Interrupt } else { StopReason::Terminate };
            return Ok((None, Some(asked)));
        }
        if samples == 0.0 {
            return Err(TrainError::NothingToEvaluate { unreadable: unreadable as usize });
        }
        let loss = loss / samples;
        let evaluation = Evaluation {
            loss,
            accuracy: (tells > 0.0).then(|| correct / samples),
            perplexity: perplexed.then(|| loss.exp()),
            samples: samples as usize,
            skipped: self.skipped,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((Some(evaluation), None))
    }
}
