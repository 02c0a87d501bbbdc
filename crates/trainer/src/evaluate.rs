use std::{mem, path::PathBuf, time::Instant};

use burn::tensor::Tensor;
use oomph_config::{Config, sections::eval_metric::EvalMetric};
use oomph_core::{Phase, phase};
use oomph_data::{Batch, SampleError, SourceRecord, Targets};
use oomph_memory::{
    Account, charge,
    record::{StepKind, track},
    restart_peak,
};
use oomph_model::{AnyTensor, Carried, Pass, Stages, weights::WeightFile};
use oomph_timeline::TrackKind;

use oomph_advice::{
    eval_order,
    out_of_memory::{OomContext, Subject},
};
use oomph_engine::{
    device_failure, exhausted,
    layout::{DeviceSlot, Layout},
    part::{
        Evaluated, EvaluatedModel, TokenChunks, compare_evaluated, evaluate_in_chunks, evaluate_placed,
        evaluate_stages,
    },
    ranks::Gatherer,
    record::restore_model,
    session::{Session, backend, mark_step, on_compute_thread},
    upload::{upload_input, upload_targets},
};
use oomph_runs::{EvalScores, Event, Observer, Tick, state::Checkpoint};
use oomph_scores::{ClassScores, LabelScores, Scores, ValueScores};

use crate::{
    Registry, Stop, StopReason, TrainError,
    batches::{eval_loader, next_batch},
    cleanup::{Cleaner, Moment},
    eval_metric::empty_scores,
    leak_watch::LeakCheck,
    memory_log::MemoryLog,
    open::{model_of_weights, off_device, open_layout, open_trained},
    progress::read_all,
};

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean loss over the samples, by the weights of their classes if there are such.
    pub loss: f64,
    /// The share of correct predictions, if the task counts them.
    pub accuracy: Option<f64>,
    /// The exponential of the loss, for language models.
    pub perplexity: Option<f64>,
    /// The loss in bits for each UTF-8 byte of the held-out text, for language models of characters or byte pairs.
    pub bits_per_byte: Option<f64>,
    /// How right the predictions are, class by class or value by value, if the task offers scores.
    pub scores: Option<Scores>,
    /// Evaluated samples.
    pub samples: usize,
    /// Unreadable samples, which were skipped.
    pub skipped: Vec<SampleError>,
    /// Seconds of the evaluation.
    pub seconds: f64,
}

impl Evaluation {
    /// The value of a measure; `None` if the evaluation does not have it.
    pub fn value(&self, metric: EvalMetric) -> Option<f64> {
        let scores = self.eval_scores();
        match metric {
            EvalMetric::Loss => Some(self.loss),
            EvalMetric::Accuracy => self.accuracy,
            EvalMetric::Perplexity => self.perplexity,
            EvalMetric::BitsPerByte => self.bits_per_byte,
            EvalMetric::Top5Accuracy => scores.top_5_accuracy,
            EvalMetric::MacroF1 => scores.macro_f1,
            EvalMetric::MicroF1 => scores.micro_f1,
            EvalMetric::Map => scores.map,
            EvalMetric::Mae => scores.mae,
            EvalMetric::Rmse => scores.rmse,
            EvalMetric::R2 => scores.r2,
        }
    }

    /// The scores of its predictions, as the log has them.
    pub(crate) fn eval_scores(&self) -> EvalScores {
        let of_classes = |scores: &ClassScores| EvalScores {
            top_5_accuracy: scores.top_5(),
            macro_f1: Some(scores.averages().f1),
            ..EvalScores::default()
        };
        let of_labels = |scores: &LabelScores| EvalScores {
            macro_f1: Some(scores.averages().f1),
            micro_f1: Some(scores.micro().f1),
            map: scores.mean_average_precision(),
            ..EvalScores::default()
        };
        let of_values = |scores: &ValueScores| EvalScores {
            mae: Some(scores.mae()),
            rmse: Some(scores.rmse()),
            r2: Some(scores.r2()),
            ..EvalScores::default()
        };
        match &self.scores {
            Some(Scores::Classes(scores)) => of_classes(scores),
            Some(Scores::Labels(scores)) => of_labels(scores),
            Some(Scores::Values(scores)) => of_values(scores),
            None => EvalScores::default(),
        }
    }
}

/// Opens a session to evaluate the model of a checkpoint, or else that of `model.weights`. Statistics and columns that the
/// configuration leaves to the data are those of the training, as far as they are recorded.
///
/// # Errors
/// The errors of [`open`](crate::open()), and where the record of the data cannot be read.
pub fn open_to_evaluate(
    checkpoint: Option<&Checkpoint>,
    config: Config,
    registry: &Registry,
) -> Result<Session, TrainError> {
    let record = checkpoint.map(Checkpoint::recorded_source).transpose()?;
    let session = open_trained(config, registry, |components| match (record, &components.weights) {
        (Some(record), _) => Ok(record),
        (None, Some(path)) => Ok(WeightFile::open(path)?.note(SourceRecord::NOTE)?),
        (None, None) => Ok(None),
    });
    Ok(session?)
}

/// Evaluates the session's model with the parameters of a checkpoint. `None` where `stop` ended the evaluation early.
///
/// An out-of-memory error has a report, written to the directory `report` if that is given.
///
/// # Errors
/// The errors of [`evaluate`], and where the checkpoint is damaged or of another model.
pub fn evaluate_checkpoint(
    session: &Session,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    charge(Account::Host, || -> Result<_, TrainError> {
        let record = checkpoint.recorded_source()?;
        let other = record.and_then(|record| record.other_statistics(session.source.as_ref()));
        if let Some(message) = other {
            observer.event(&Event::Warning { message });
        }
        Ok(())
    })?;
    with_restored(session, checkpoint, report, |model| evaluate(session, model, observer, stop))
}

/// Evaluates the session's model with the parameters of `model.weights`, untrained. Otherwise as
/// [`evaluate_checkpoint`]. The observer gets the notices about the weights as warnings.
///
/// # Errors
/// The errors of [`evaluate`], and where the file does not fit the model, its head included.
pub fn evaluate_weights(
    session: &Session,
    report: Option<PathBuf>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    let loaded = || -> Result<_, TrainError> {
        let (model, weights) = model_of_weights(session)?;
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

/// Does `work` with the session's model and the parameters of a checkpoint. An out-of-memory error has a report, written to
/// the directory `report` if that is given.
pub(crate) fn with_restored<T>(
    session: &Session,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    work: impl FnOnce(&Stages) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let restored = || -> Result<_, TrainError> {
        checkpoint.check_source(session.source.as_ref())?;
        let record = charge(Account::Host, || checkpoint.weights())?;
        let mut model = session.build_to_restore()?;
        restore_model(&mut model, record, &session.whole_model_device())?;
        Ok((model, ()))
    };
    with_made(session, restored, report, |model, ()| work(model))
}

/// Does `work` with the model that `make` makes, and with what `make` knows of it.
fn with_made<K, T>(
    session: &Session,
    make: impl FnOnce() -> Result<(Stages, K), TrainError>,
    report: Option<PathBuf>,
    work: impl FnOnce(&Stages, K) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let mut log = MemoryLog::start(session);
    let made: Result<_, TrainError> = charge(Account::Device, || {
        let _phase = phase(Phase::Init);
        let made = off_device(session, make)?;
        exhausted::check()?;
        Ok(made)
    });
    let devices = &session.config.device.devices;
    let evaluated = || {
        let (model, known) = made?;
        if let Some(log) = &mut log {
            log.look_at(&model);
        }
        Cleaner::new(session).at(Moment::Initialised);
        restart_peak();
        work(&model, known)
    };
    let worked = device_failure::on(devices, || device_failure::caught(evaluated));
    worked.map_err(|error| {
        error.explained(session, |error, _| {
            let seen = log.as_ref().and_then(|log| log.seen(error));
            let subject = Subject::Evaluation;
            Some(OomContext { subject, seen, directory: report, ..OomContext::default() })
        })
    })
}

/// Evaluates `model` on the held-out set, without autodiff. `None` where `stop` ended the evaluation early.
///
/// The model may be on the autodiff device or off it, and stays unchanged. In a session that splits the model, each device
/// gets a copy of its model part.
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
    let layout = open_layout(session)?;
    let model = if layout.is_split() { layout.placed(model.inference()) } else { model.inference() };
    let placed = PlacedModel { model: (&model).into(), layout: &layout };
    evaluate_batches(session, placed, usize::MAX, None, &mut leaks.watching(None, observer), stop)
}

/// A model on the devices of its layout.
#[derive(Clone, Copy)]
pub(crate) struct PlacedModel<'a> {
    pub(crate) model: EvaluatedModel<'a>,
    pub(crate) layout: &'a Layout,
}

/// As [`PlacedModel`], for one thread at a time: what may be moved to another thread.
struct MovablePlaced<'a> {
    stages: &'a mut Stages,
    gatherer: Option<&'a Gatherer>,
    layout: &'a Layout,
}

/// Receives the outputs of a batch on the host, sample after sample, and its targets.
pub(crate) type PredictionHook<'a> = dyn FnMut(&[f32], &Targets) + 'a;

/// Evaluates a placed model on at most the first `most` batches, whose predictions `predictions` gets. Otherwise as
/// [`evaluate`].
///
/// Scores and predictions copy the outputs of each batch to the host, and so wait for the device.
pub(crate) fn evaluate_batches(
    session: &Session,
    placed: PlacedModel<'_>,
    most: usize,
    mut predictions: Option<&mut PredictionHook<'_>>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Option<Evaluation>, TrainError> {
    let evaluated = charge(Account::Device, || {
        let start = Instant::now();
        let mut stages = placed.model.stages.inference();
        let gatherer = placed.model.gatherer;
        let batches = eval_order(session).batches().min(most);
        let mut loader = eval_loader(session, &session.loader);
        let mut sums = Sums { scores: charge(Account::Host, || empty_scores(session)), ..Sums::default() };
        let mut batch_index = 0;
        while batch_index < batches
            && !is_stopped(session, EvaluatedModel { stages: &stages, gatherer }, stop)?
            && let Some(batch) = next_batch(&mut loader)
        {
            let batch = batch?;
            mark_step(session, batch_index as u64 + 1, StepKind::Eval);
            sums.skipped.extend(batch.skipped.iter().cloned());
            if batch.size > 0 {
                let placed = MovablePlaced { stages: &mut stages, gatherer, layout: placed.layout };
                sums.add(session, placed, batch, predictions.as_deref_mut())?;
            } else {
                EvaluatedModel { stages: &stages, gatherer }.pass_by()?;
            }
            batch_index += 1;
            charge(Account::Host, || observer.tick(Tick::Eval { batch: batch_index, batches }));
        }
        let stopped = stop.reason().filter(|_| batch_index < batches);
        match sums.finish(session, stopped, start)? {
            Ok(evaluation) => Ok(Some(evaluation)),
            Err(reason) => {
                // Every rank stops, so the whole training ends.
                stop.request(reason);
                Ok(None)
            }
        }
    });
    evaluated.map_err(|mut error| {
        if let TrainError::OutOfMemory(error) = &mut error {
            error.exhausted.in_evaluation = true;
        }
        error
    })
}

/// Whether the evaluation was asked to stop. Ranks that gather parameters together stop together.
fn is_stopped(session: &Session, model: EvaluatedModel<'_>, stop: &Stop) -> Result<bool, TrainError> {
    let is_stopped = stop.reason().is_some();
    if model.gatherer.is_none() {
        return Ok(is_stopped);
    }
    Ok(session.replicas.sum(&[f64::from(u8::from(is_stopped))])?[0] > 0.0)
}

/// The sums of an evaluation, on the device until its end.
#[derive(Default)]
struct Sums {
    loss: Vec<Tensor<1>>,
    correct: Vec<Tensor<1>>,
    scores: Option<Scores>,
    samples: usize,
    /// The weight of the samples: that of their losses.
    weight: f64,
    skipped: Vec<SampleError>,
    /// The carried state, if the samples are continuous.
    carried: Carried,
}

impl Sums {
    fn add(
        &mut self,
        session: &Session,
        MovablePlaced { stages, gatherer, layout }: MovablePlaced<'_>,
        batch: Batch,
        predictions: Option<&mut PredictionHook<'_>>,
    ) -> Result<(), TrainError> {
        let mut pass = Pass::eval().with_policy(session.policy(backend(session)));
        if session.source.is_continuous() {
            let before = if batch.continues { self.carried.rows(0..batch.size) } else { Carried::new() };
            pass = pass.with_carried(before);
        }
        let uploading = || (phase(Phase::Data), track(TrackKind::Data, "upload", None));
        let is_copied = self.scores.is_some() || predictions.is_some();
        let weight = session.task.weight(&batch);
        let Batch { input: values, shape, targets: expected, size, .. } = batch;
        let input = move |slot: &DeviceSlot| {
            let _uploading = uploading();
            // The host's copy ends here: nobody reads it again.
            upload_input(&values, &shape, &slot.plain())
        };
        let targets = |slot: &DeviceSlot| {
            let _uploading = uploading();
            upload_targets(&expected, &slot.plain())
        };
        // Whole outputs are wanted whole.
        let chunk = session.config.memory.loss_chunk.filter(|_| !is_copied);
        let last = |slot: &DeviceSlot, part: EvaluatedModel<'_>, input: AnyTensor, pass: &mut Pass| {
            let task = session.task.as_ref();
            if let Some(size) = chunk {
                let chunks = TokenChunks::new(targets(slot), size)?;
                return Ok((evaluate_in_chunks(part, input, pass, &chunks, task, weight)?, None));
            }
            let output = evaluate_stages(part, input, pass, true)?;
            let evaluated = compare_evaluated(task, &output, &targets(slot), weight)?;
            let outputs = is_copied.then(|| charge(Account::Host, || output.to_host())).transpose()?;
            Ok((evaluated, outputs))
        };
        let evaluating = || (phase(Phase::Eval), track(TrackKind::Eval, "evaluation", None));
        let pass_there = &mut pass;
        let (evaluated, outputs) = on_compute_thread(session, move || {
            let (_evaluating, model) = (evaluating(), EvaluatedModel { stages, gatherer });
            evaluate_placed(layout, model, input, pass_there, last)
        })?;
        let _evaluating = evaluating();
        let Evaluated { loss, correct } = evaluated;
        if let Some(outputs) = &outputs {
            // Those of labels keep the outputs.
            charge(Account::Host, || {
                self.scores.iter_mut().for_each(|scores| scores.add(outputs, &expected));
            });
            predictions.into_iter().for_each(|predictions| predictions(outputs, &expected));
        }
        self.carried = pass.take_carried().unwrap_or_default();
        self.loss.push(loss);
        self.correct.extend(correct);
        self.samples += size;
        self.weight += weight;
        device_failure::poll(layout.slots().iter().map(|slot| &slot.tracked))?;
        Ok(exhausted::check()?)
    }

    /// Sums over all ranks an evaluation that began at `start`. A stop of one rank stops all: the inner error.
    fn finish(
        mut self,
        session: &Session,
        stopped: Option<StopReason>,
        start: Instant,
    ) -> Result<Result<Evaluation, StopReason>, TrainError> {
        let sum = |sums: Vec<f32>| sums.into_iter().map(f64::from).sum::<f64>();
        let correct =
            (!self.correct.is_empty()).then(|| read_all(mem::take(&mut self.correct))).transpose()?.map(sum);
        let loss = sum(read_all(mem::take(&mut self.loss))?);
        charge(Account::Host, || self.summed(session, stopped, start, loss, correct))
    }

    fn summed(
        self,
        session: &Session,
        stopped: Option<StopReason>,
        start: Instant,
        loss: f64,
        correct: Option<f64>,
    ) -> Result<Result<Evaluation, StopReason>, TrainError> {
        let here = [
            loss,
            correct.unwrap_or_default(),
            f64::from(correct.is_some()),
            self.samples as f64,
            self.weight,
            self.skipped.len() as f64,
            f64::from(stopped == Some(StopReason::Interrupt)),
            f64::from(stopped == Some(StopReason::Terminate)),
        ];
        let mut all = session.replicas.sum(&here)?.into_iter();
        // `sum` returns as many values as it gets.
        let [loss, correct, has_accuracy, samples, weight, unreadable, interrupted, terminated] =
            std::array::from_fn(|_| all.next().unwrap_or(0.0));
        if interrupted + terminated > 0.0 {
            return Ok(Err(if interrupted > 0.0 { StopReason::Interrupt } else { StopReason::Terminate }));
        }
        if samples == 0.0 {
            return Err(TrainError::NothingToEvaluate { unreadable: unreadable as usize });
        }
        let loss = loss / weight;
        let scores = self.scores.map(|scores| scores.ranked(&session.replicas)).transpose()?;
        Ok(Ok(Evaluation {
            loss,
            accuracy: (has_accuracy > 0.0).then(|| correct / samples),
            perplexity: session.task.has_perplexity(&session.spec().target).then(|| loss.exp()),
            bits_per_byte: bits_per_byte(session, loss),
            scores,
            samples: samples as usize,
            skipped: self.skipped,
            seconds: start.elapsed().as_secs_f64(),
        }))
    }
}

/// The loss of a language model in bits for each byte of the held-out text: it does not depend on the vocabulary.
pub(crate) fn bits_per_byte(session: &Session, loss: f64) -> Option<f64> {
    let is_of_tokens = session.task.has_perplexity(&session.spec().target);
    let bytes = session.source.held_out_bytes_per_token().filter(|bytes| is_of_tokens && *bytes > 0.0)?;
    Some(loss / std::f64::consts::LN_2 / bytes)
}
