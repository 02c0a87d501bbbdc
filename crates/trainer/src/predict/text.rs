//! A trained language model continues a text.

use std::path::PathBuf;

use burn::tensor::{Int, Tensor, TensorData};
use oomph_core::{Generator, InputSpec, Key, Phase, phase};
use oomph_data::Prompt;
use oomph_memory::{Account, charge};
use oomph_model::{Carried, Pass, Stages};

use oomph_engine::{
    exhausted,
    part::evaluate_stages,
    session::{Session, backend},
    task::TaskError,
};
use oomph_runs::state::Checkpoint;

use crate::{TrainError, evaluate::with_restored};

/// How tokens are sampled from a model's logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Tokens to add, unless the document ends before.
    pub length: usize,
    /// The divisor of the logits. Below 1, likely tokens become likelier. At 0, the likeliest token is always taken.
    pub temperature: f64,
    /// Samples among this many of the likeliest tokens; `None` for all.
    pub top_k: Option<usize>,
    /// The seed. On the CPU, equal seeds give equal texts.
    pub seed: u64,
}

/// Continues a text with the session's model and the parameters of a checkpoint, and passes each token to `each`. The
/// session is [opened on](crate::open_on) the prompt. The text never continues with the unknown token, and ends before the one
/// that ends a document.
///
/// A model with carried state gets each token once. Any other model gets the end of the text again for each token, as
/// long as a training sample.
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
            let mut writer = Writer::new(session, model.inference(), prompt);
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
    carried: Carried,
    /// Tokens of a training sample.
    steps: usize,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, model: Stages, prompt: &Prompt) -> Self {
        let steps = match session.spec().input {
            InputSpec::Tokens { steps, .. } => steps,
            _ => 1,
        };
        Self { session, model, text: prompt.tokens().to_vec(), read: 0, carried: Carried::new(), steps }
    }

    /// The logits of the next token.
    fn logits(&mut self) -> Result<Vec<f32>, TrainError> {
        let (end, mut last) = (self.text.len(), Vec::new());
        // A prompt may be longer than a training sample. Pieces of that length take no more memory than an evaluation.
        while self.read < end {
            let has_no_state = self.read > 0 && self.carried.is_empty();
            let start = if has_no_state { end.saturating_sub(self.steps) } else { self.read };
            self.read = (start + self.steps).min(end);
            last = outputs(self.session, &self.model, &self.text[start..self.read], &mut self.carried)?;
        }
        Ok(last)
    }
}

/// The logits after the last of `tokens`, which continue the carried state.
fn outputs(
    session: &Session,
    model: &Stages,
    tokens: &[i32],
    carried: &mut Carried,
) -> Result<Vec<f32>, TrainError> {
    let uploading = phase(Phase::Data);
    let data = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    let input = Tensor::<2, Int>::from_data(data, &session.device);
    drop(uploading);
    exhausted::check()?;
    let _phase = phase(Phase::Eval);
    let mut pass =
        Pass::eval().with_policy(session.policy(backend(session))).with_carried(std::mem::take(carried));
    let output = evaluate_stages(model, input.into(), &mut pass, true)?;
    *carried = pass.take_carried().unwrap_or_default();
    let width = session.spec().target.outputs();
    let wrong = || {
        let expected = format!("[1, {}, {width}]", tokens.len());
        TaskError::Output { task: "prediction", expected, found: output.dims() }
    };
    let logits = output.clone().float::<3>().filter(|logits| logits.dims() == [1, tokens.len(), width]);
    let last = logits.ok_or_else(wrong)?.narrow(1, tokens.len() - 1, 1).reshape([width]);
    charge(Account::Host, || Ok(oomph_model::AnyTensor::from(last).to_host()?))
}

impl Sampling {
    /// Samples the token at `place`, from 0. Where all logits are equal or not numbers, the first token.
    fn draw(&self, logits: &[f32], place: usize) -> i32 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // The sort is stable: the first of equal tokens stays first.
        order.sort_by(|one, other| logits[*other].total_cmp(&logits[*one]));
        order.truncate(self.top_k.unwrap_or(usize::MAX).max(1));
        let Some(&likeliest) = order.first() else { return 0 };
        if self.temperature <= 0.0 {
            return likeliest as i32;
        }
        let highest = f64::from(logits[likeliest]);
        let weight = |token: &usize| ((f64::from(logits[*token]) - highest) / self.temperature).exp();
        let weights: Vec<f64> = order.iter().map(weight).collect();
        let mut left =
            f64::from(Generator::at(Key::new(self.seed).with_name("text").with(place as u64)).uniform())
                * weights.iter().sum::<f64>();
        let found = order.iter().zip(weights).find(|(_, weight)| {
            left -= weight;
            left < 0.0
        });
        *found.map_or(&likeliest, |(token, _)| token) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(sampling: Sampling) -> [f64; 3] {
        let logits = [0.0, 2.0f32.ln(), 5.0f32.ln()];
        let mut counts = [0.0; 3];
        for place in 0..8000 {
            counts[sampling.draw(&logits, place) as usize] += 1.0 / 8000.0;
        }
        counts
    }

    #[test]
    fn tokens_follow_their_probabilities() {
        let check = |sampling: Sampling, expected: [f64; 3]| {
            let found = shares(sampling);
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02);
            assert!(close, "{sampling:?}: {found:?}, not {expected:?}");
        };
        let plain = Sampling { length: 0, temperature: 1.0, top_k: None, seed: 0 };
        check(plain, [1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0]);
        check(Sampling { top_k: Some(2), ..plain }, [0.0, 2.0 / 7.0, 5.0 / 7.0]);
        check(Sampling { temperature: 0.5, ..plain }, [1.0 / 30.0, 4.0 / 30.0, 25.0 / 30.0]);
        check(Sampling { temperature: 0.0, ..plain }, [0.0, 0.0, 1.0]);
        check(Sampling { top_k: Some(1), ..plain }, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_seed_decides_the_tokens() {
        let drawn = |seed| {
            let sampling = Sampling { length: 0, temperature: 1.0, top_k: None, seed };
            (0..50).map(|place| sampling.draw(&[0.0; 9], place)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
