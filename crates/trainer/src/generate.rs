//! A trained language model continues a text.

use std::path::PathBuf;

use burn::tensor::{Int, Tensor, TensorData};
use oomph_core::{Generator, InputSpec, Key, Phase, phase};
use oomph_data::Prompt;
use oomph_memory::{Account, charge};
use oomph_model::{Carried, Pass, Stages};

use crate::{
    Session, TaskError, TrainError, backend, evaluate::with_restored, forward::forward, out_of_memory,
    state::Checkpoint,
};

/// How the next token is drawn from what a model makes of the text so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by: below 1 the likely tokens get likelier, at 0 it is always the likeliest.
    pub temperature: f64,
    /// Of so many of the likeliest alone; `None` of all.
    pub top_k: Option<usize>,
    /// The same seed continues in the same way, on the CPU.
    pub seed: u64,
}

/// Has the model of the session, with the parameters of a checkpoint, continue a text by `length` tokens, and tells `each`
/// of them. The session is one [on](Session::open_on) the prompt; an empty one stands for the token that is not known.
///
/// A model that carries state is given each token once. Any other is given the end of the text, as long as the samples that
/// it was trained on, for each token anew.
///
/// # Errors
/// Where the checkpoint is damaged or of another model, where the model does not give logits for each step, where memory
/// runs out (with a report as for [`predict_images`](crate::predict_images)), and what `each` returns.
pub fn continue_text<E: From<TrainError>>(
    session: &Session,
    prompt: &Prompt,
    (length, sampling): (usize, Sampling),
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    mut each: impl FnMut(i32) -> Result<(), E>,
) -> Result<(), E> {
    let mut told = Ok(());
    with_restored(session, checkpoint, report, |model| {
        charge(Account::Device, || {
            let mut writer = Writer::new(session, model.inference(), prompt);
            for place in 0..length {
                let logits = writer.logits()?;
                let token = charge(Account::Host, || sampling.draw(&logits, place));
                writer.add(token);
                told = charge(Account::Host, || each(token));
                if told.is_err() {
                    break;
                }
            }
            Ok(())
        })
    })?;
    told
}

/// A text on its way.
struct Writer<'a> {
    session: &'a Session,
    model: Stages,
    text: Vec<i32>,
    /// How many tokens of the text went into what is carried.
    read: usize,
    carried: Carried,
    /// Tokens of a sample that the model was trained on.
    steps: usize,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, model: Stages, prompt: &Prompt) -> Self {
        let steps = match session.spec().input {
            InputSpec::Tokens { steps, .. } => steps,
            _ => 1,
        };
        let text = if prompt.tokens().is_empty() { vec![0] } else { prompt.tokens().to_vec() };
        Self { session, model, text, read: 0, carried: Carried::new(), steps }
    }

    fn add(&mut self, token: i32) {
        self.text.push(token);
    }

    /// What the model makes of the text so far: a logit for each token that may come next.
    fn logits(&mut self) -> Result<Vec<f32>, TrainError> {
        let from = match self.carried.is_empty() {
            true => self.text.len().saturating_sub(self.steps),
            false => self.read,
        };
        // A prompt may be longer than a sample: in pieces of a sample's length it takes what evaluation does.
        let start = if self.read == 0 { 0 } else { from };
        let mut last = Vec::new();
        for piece in self.text[start..].chunks(self.steps) {
            last = outputs(self.session, &self.model, piece, &mut self.carried)?;
        }
        self.read = self.text.len();
        Ok(last)
    }
}

/// The outputs for the last of some tokens, which follow what is carried.
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
    out_of_memory::check()?;
    let _phase = phase(Phase::Eval);
    let mut pass =
        Pass::eval().with_policy(session.policy(backend(session))).with_carried(std::mem::take(carried));
    let output = forward(model, input.into(), &mut pass, None)?;
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
    /// The token that follows at `place`, from 0. Of logits that are all alike or not numbers, the first.
    fn draw(&self, logits: &[f32], place: usize) -> i32 {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        // The sort keeps the first of equals first.
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
    fn tokens_come_as_often_as_their_probabilities_say() {
        let check = |sampling: Sampling, expected: [f64; 3]| {
            let found = shares(sampling);
            let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02);
            assert!(close, "{sampling:?}: {found:?}, not {expected:?}");
        };
        let plain = Sampling { temperature: 1.0, top_k: None, seed: 0 };
        check(plain, [1.0 / 8.0, 2.0 / 8.0, 5.0 / 8.0]);
        check(Sampling { top_k: Some(2), ..plain }, [0.0, 2.0 / 7.0, 5.0 / 7.0]);
        check(Sampling { temperature: 0.5, ..plain }, [1.0 / 30.0, 4.0 / 30.0, 25.0 / 30.0]);
        check(Sampling { temperature: 0.0, ..plain }, [0.0, 0.0, 1.0]);
        check(Sampling { top_k: Some(1), ..plain }, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_seed_says_what_comes() {
        let drawn = |seed| {
            let sampling = Sampling { temperature: 1.0, top_k: None, seed };
            (0..50).map(|place| sampling.draw(&[0.0; 9], place)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
