//! The scalars of events, under the tags that TensorBoard and MLflow show.

use oomph_core::Bytes;

use crate::event::{Event, StepMetrics};

/// The step and the scalars of an event by tag. `None` without scalars.
pub(crate) fn scalars(event: &Event) -> Option<(usize, Vec<(String, f64)>)> {
    let (step, named) = match event {
        Event::Step(metrics) => (metrics.step, of_steps(metrics)),
        Event::Eval(metrics) => {
            let scores = &metrics.scores;
            let mut named = named([
                ("loss/eval", Some(metrics.eval_loss)),
                ("accuracy/eval", metrics.eval_accuracy),
                ("perplexity/eval", metrics.eval_perplexity),
                ("bits_per_byte/eval", metrics.eval_bits_per_byte),
                ("top_5_accuracy/eval", scores.top_5_accuracy),
                ("macro_f1/eval", scores.macro_f1),
                ("micro_f1/eval", scores.micro_f1),
                ("map/eval", scores.map),
                ("mae/eval", scores.mae),
                ("rmse/eval", scores.rmse),
                ("r2/eval", scores.r2),
            ]);
            let own = metrics.measures.iter();
            named.extend(own.map(|(name, value)| (format!("{name}/eval"), Some(*value))));
            (metrics.step, named)
        }
        _ => return None,
    };
    // Event files hold 32 bits: a norm or a perplexity that is infinite there is left out.
    let is_finite = |value: &f64| (*value as f32).is_finite();
    let known = named.into_iter().filter_map(|(tag, value)| Some((tag, value.filter(is_finite)?)));
    Some((step, known.collect()))
}

fn of_steps(metrics: &StepMetrics) -> Vec<(String, Option<f64>)> {
    let bytes = |bytes: Bytes| bytes.get() as f64;
    let mut named = named([
        ("loss/train", Some(metrics.loss)),
        ("accuracy/train", metrics.accuracy),
        ("optimizer/learning_rate", Some(metrics.lr)),
        ("optimizer/gradient_norm", metrics.norms.map(|norms| norms.gradient_norm)),
        ("optimizer/parameter_norm", metrics.norms.map(|norms| norms.parameter_norm)),
        ("optimizer/loss_scale", metrics.loss_scale.map(f64::from)),
        ("optimizer/skipped_steps", metrics.skipped_steps.map(|steps| steps as f64)),
        ("speed/samples_per_second", Some(metrics.speed.samples_per_second)),
        ("speed/tokens_per_second", metrics.speed.tokens_per_second),
        ("memory/in_use", Some(bytes(metrics.in_use_bytes))),
        ("memory/peak_in_use", Some(bytes(metrics.peak_in_use_bytes))),
        ("memory/reserved", metrics.reserved_bytes.map(bytes)),
        ("memory/pages_peak", metrics.pages_peak_bytes.map(bytes)),
    ]);
    let categories = metrics.step_peak_bytes.iter().flat_map(|split| split.iter());
    named
        .extend(categories.map(|(category, held)| (format!("memory/{}", category.key()), Some(bytes(held)))));
    named
}

fn named<const N: usize>(values: [(&str, Option<f64>); N]) -> Vec<(String, Option<f64>)> {
    values.into_iter().map(|(tag, value)| (tag.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::EvalMetrics;

    #[test]
    fn values_beyond_32_bits_are_left_out() {
        let metrics = EvalMetrics {
            step: 3,
            epoch: 1,
            eval_loss: 800.0,
            eval_accuracy: None,
            eval_perplexity: Some(800.0_f64.exp()),
            eval_bits_per_byte: None,
            scores: crate::EvalScores { mae: Some(1e39), rmse: Some(f64::NAN), ..Default::default() },
            samples: 1,
            averaged: false,
            best: false,
            eval_seconds: 1.0,
            measures: BTreeMap::new(),
        };
        let (step, named) = scalars(&Event::Eval(metrics)).expect("an evaluation has scalars");
        assert_eq!((step, named), (3, vec![("loss/eval".to_owned(), 800.0)]));
    }
}
