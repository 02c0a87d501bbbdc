//! A trained language model continues a text.

use std::path::PathBuf;

use burn::tensor::{Int, Tensor, TensorData};
use oomph_core::{InputSpec, Phase, phase};
use oomph_data::Prompt;
use oomph_memory::{Account, charge};
use oomph_model::{Carried, KeyValueCache, Pass, Stages, lora::merged};

use oomph_engine::{
    exhausted,
    part::evaluate_stages,
    session::{Session, backend, on_compute_thread},
    task::TaskError,
};
use oomph_runs::state::Checkpoint;

use super::Sampling;
use crate::{TrainError, evaluate::with_restored};

/// Continues a text with the session's model and the parameters of a checkpoint, and passes each token to `each`. The
/// session is [opened on](crate::open_on) the prompt. The text never continues with the unknown token, and ends before the one
/// that ends a document.
///
/// A model with carried state gets each token once. So does a model with a [cache](oomph_model::KeyValueCache) of keys and values, until
/// the text is longer than a training sample: then it reads half as many tokens anew, and goes on from these. Any other model gets the
/// end of the text again for each token, as long as a training sample.
///
/// # Errors
/// Where the checkpoint is damaged or of another model, and where the model does not give logits for each step. Where
/// memory runs out, with a report as for [`predict_images`](super::predict_images). Errors of `each` are passed on.
pub fn continue_text<E: From<TrainError>>(
    session: &Session,
    prompt: &Prompt,
    sampling: Sampling,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    mut each: impl FnMut(i32) -> Result<(), E>,
) -> Result<(), E> {
    let mut reported = Ok(());
    with_restored(session, checkpoint, report, |model| {
        charge(Account::Device, || {
            let mut writer = Writer::new(session, merged(model.inference()), prompt);
            for place in 0..sampling.length {
                let mut logits = writer.logits()?;
                forbid(&mut logits, prompt.unknown());
                let token = charge(Account::Host, || sampling.draw(&logits, place));
                if prompt.end_of_document() == Some(token) {
                    break;
                }
                writer.text.push(token);
                reported = charge(Account::Host, || each(token));
                if reported.is_err() {
                    break;
                }
            }
            Ok(())
        })
    })?;
    reported
}

/// Leaves a token out of the choice, if there is another one.
fn forbid(logits: &mut [f32], token: Option<i32>) {
    let index = token.and_then(|token| usize::try_from(token).ok());
    if let Some(logit) = index.filter(|_| logits.len() > 1).and_then(|index| logits.get_mut(index)) {
        *logit = f32::NEG_INFINITY;
    }
}

struct Writer<'a> {
    session: &'a Session,
    model: Stages,
    text: Vec<i32>,
    /// Tokens of the text that the model was given.
    read: usize,
    memory: TextMemory,
    /// Tokens of a training sample.
    steps: usize,
}

/// What a model remembers of the tokens that it was given.
#[derive(Default)]
struct TextMemory {
    carried: Carried,
    /// For models that have one.
    cache: Option<KeyValueCache>,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, model: Stages, prompt: &Prompt) -> Self {
        let steps = match session.spec().input {
            InputSpec::Tokens { steps, .. } => steps,
            _ => 1,
        };
        let cache = session.architecture.has_key_value_cache().then(|| KeyValueCache::new(steps));
        let memory = TextMemory { cache, ..TextMemory::default() };
        Self { session, model, text: prompt.tokens().to_vec(), read: 0, memory, steps }
    }

    /// The logits of the next token.
    fn logits(&mut self) -> Result<Vec<f32>, TrainError> {
        let (end, mut last) = (self.text.len(), Vec::new());
        // A prompt may be longer than a training sample. Pieces of that length take no more memory than an evaluation.
        while self.read < end {
            let start = self.next_start();
            self.read = (start + self.steps).min(end);
            let Self { session, model, text, memory, .. } = self;
            let (session, tokens) = (*session, &text[start..self.read]);
            last = on_compute_thread(session, move || outputs(session, model, tokens, memory))?;
        }
        Ok(last)
    }

    /// The first token that the model is given next.
    fn next_start(&mut self) -> usize {
        let (end, is_first) = (self.text.len(), self.read == 0);
        match &mut self.memory.cache {
            Some(cache) if cache.positions() + end - self.read <= self.steps => self.read,
            Some(cache) => {
                *cache = KeyValueCache::new(self.steps);
                end.saturating_sub(if is_first { self.steps } else { self.steps.div_ceil(2) })
            }
            None if is_first || !self.memory.carried.is_empty() => self.read,
            None => end.saturating_sub(self.steps),
        }
    }
}

/// The logits after the last of `tokens`, which follow those in the memory.
fn outputs(
    session: &Session,
    model: &mut Stages,
    tokens: &[i32],
    memory: &mut TextMemory,
) -> Result<Vec<f32>, TrainError> {
    let uploading = phase(Phase::Data);
    let data = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    let input = Tensor::<2, Int>::from_data(data, &session.device);
    drop(uploading);
    exhausted::check()?;
    let _phase = phase(Phase::Eval);
    let mut pass = Pass::eval().with_policy(session.policy(backend(session)));
    pass = pass.with_carried(std::mem::take(&mut memory.carried));
    pass.cache = memory.cache.take();
    let output = evaluate_stages(&*model, input.into(), &mut pass, true)?;
    memory.cache = pass.cache.take();
    memory.carried = pass.take_carried().unwrap_or_default();
    let width = session.spec().target.outputs();
    let wrong = || {
        let expected = format!("[1, {}, {width}]", tokens.len());
        TaskError::Output { task: "prediction", expected, found: output.dims() }
    };
    let logits = output.clone().float::<3>().filter(|logits| logits.dims() == [1, tokens.len(), width]);
    let last = logits.ok_or_else(wrong)?.narrow(1, tokens.len() - 1, 1).reshape([width]);
    charge(Account::Host, || Ok(oomph_model::AnyTensor::from(last).to_host()?))
}
