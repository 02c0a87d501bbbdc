use super::{
    EarlyStopping, Manifest, TrainProgress,
    manifest::{AVERAGE, StepSums},
};

/// A training never takes as many steps. Sums of counts below it do not overflow.
const MOST_STEPS: usize = 1 << 48;

/// A value of a manifest that the others rule out. A checksum does not notice it: whoever writes a checkpoint writes its
/// checksums too.
#[derive(Debug)]
pub(super) struct Contradiction {
    /// The place of the value in `state.json`.
    pub(super) field: &'static str,
    pub(super) found: String,
    pub(super) expected: String,
}

/// Checks the positions, counts and measurements of a manifest against each other.
pub(super) fn check(manifest: &Manifest) -> Result<(), Contradiction> {
    let TrainProgress { step, epoch, batch, batches_per_epoch, seconds, eval_accuracy, .. } =
        manifest.progress;
    let EarlyStopping { best, best_step, without_improvement, .. } = manifest.progress.early_stopping;
    at_most("progress.step", step, MOST_STEPS, "as much as a training takes")?;
    let save_number = usize::try_from(manifest.save_number).unwrap_or(usize::MAX);
    at_most("save_number", save_number, MOST_STEPS, "as often as a training saves")?;
    // Every batch is a step, and an epoch has at least one.
    at_most("progress.epoch", epoch, step, "the steps")?;
    at_most("progress.batch", batch, step - epoch, "the steps of the epoch")?;
    if batch > 0 {
        let last = batches_per_epoch.saturating_sub(1);
        at_most("progress.batch", batch, last, "the last batch of an epoch")?;
    }
    at_most("progress.early_stopping.best_step", best_step.unwrap_or(0), step, "the steps")?;
    let without = "progress.early_stopping.without_improvement";
    at_most(without, without_improvement, step - best_step.unwrap_or(0), "the steps since the best")?;
    expect("progress.early_stopping.best", &best, "a number if there is a `best_step`", || {
        best.is_some() == best_step.is_some()
    })?;
    let StepSums { samples, correct, .. } = manifest.progress.window;
    expect("progress.window.correct", &correct, "between 0 and `samples`", || {
        correct.is_none_or(|correct| (0.0..=samples as f64).contains(&correct))
    })?;
    expect("progress.seconds", &seconds, "at least 0", || seconds >= 0.0)?;
    expect("progress.eval_accuracy", &eval_accuracy, "between 0 and 1", || {
        eval_accuracy.is_none_or(|accuracy| (0.0..=1.0).contains(&accuracy))
    })?;
    let updates = manifest.average_updates;
    expect("average_updates", &updates, "a number if there is an average of the weights", || {
        updates.is_some() == manifest.files.contains_key(AVERAGE)
    })?;
    let most = u64::try_from(step).unwrap_or(u64::MAX);
    expect("average_updates", &updates, &format!("1 to {step}, the steps"), || {
        updates.is_none_or(|updates| (1..=most).contains(&updates))
    })?;
    let Some(scale) = &manifest.loss_scale else { return Ok(()) };
    expect("loss_scale.scale", &scale.scale(), "a power of two that training can reach", || {
        scale.is_reachable()
    })?;
    at_most("loss_scale.skipped_steps", scale.skipped_steps(), step, "the steps")
}

fn at_most(field: &'static str, found: usize, most: usize, of: &str) -> Result<(), Contradiction> {
    expect(field, &found, &format!("at most {most}, {of}"), || found <= most)
}

fn expect(
    field: &'static str,
    found: &impl std::fmt::Debug,
    expected: &str,
    is_met: impl FnOnce() -> bool,
) -> Result<(), Contradiction> {
    let contradiction =
        || Contradiction { field, found: format!("{found:?}"), expected: expected.to_owned() };
    if is_met() { Ok(()) } else { Err(contradiction()) }
}

#[cfg(test)]
mod tests {
    use oomph_engine::loss_scale::LossScale;
    use serde_json::{Value, json};

    use super::*;

    /// The manifest of step 12, with one value changed.
    fn checked(field: &str, value: Value) -> Result<(), Contradiction> {
        let text = crate::parsers::example_state();
        let mut state: Value = serde_json::from_slice(&text).expect("it was just written");
        let progress = json!({
            "epoch": 2, "batch": 2, "batches_per_epoch": 5, "eval_accuracy": 0.5, "seconds": 1.5,
            "early_stopping": { "best": 0.5, "best_step": 10, "without_improvement": 1 },
        });
        for (key, value) in progress.as_object().expect("an object") {
            state["progress"][key] = value.clone();
        }
        state["files"][AVERAGE] = json!("0");
        state["average_updates"] = json!(12);
        state["loss_scale"] = serde_json::to_value(LossScale::default()).expect("numbers can be written");
        let pointer = format!("/{}", field.replace('.', "/"));
        *state.pointer_mut(&pointer).expect(field) = value;
        check(&serde_json::from_value(state).expect("the types are right"))
    }

    #[test]
    fn a_training_contradicts_nothing() {
        checked("progress.step", json!(12)).expect("it is consistent");
        checked("progress.batch", json!(0)).expect("at the end of an epoch");
    }

    #[test]
    fn each_value_that_the_others_rule_out_is_named() {
        let most = usize::MAX;
        for (field, value) in [
            ("progress.step", json!(most)),
            ("save_number", json!(most)),
            ("progress.epoch", json!(most)),
            ("progress.epoch", json!(13)),
            ("progress.batch", json!(5)),
            ("progress.batch", json!(most)),
            ("average_updates", json!(13)),
            ("average_updates", json!(0)),
            ("average_updates", json!(null)),
            ("progress.early_stopping.best_step", json!(13)),
            ("progress.early_stopping.without_improvement", json!(3)),
            ("progress.early_stopping.best", json!(null)),
            ("progress.window.correct", json!(1.0)),
            ("progress.seconds", json!(-1.0)),
            ("progress.eval_accuracy", json!(1.5)),
            ("loss_scale.scale", json!(0.0)),
            ("loss_scale.scale", json!(3.0)),
            ("loss_scale.scale", json!(-65536.0)),
            ("loss_scale.good_steps", json!(4_000_000_000u32)),
            ("loss_scale.skipped_steps", json!(13)),
        ] {
            let found = checked(field, value.clone()).expect_err(field);
            // The count of good steps is a part of the state of the scale.
            let named = field.replace("good_steps", "scale");
            assert_eq!(found.field, named, "{value}");
        }
    }
}
