//! Jobs that are asked by a signal to save or to end, and jobs that others resume.

use serde_json::Value;

use super::{
    Attack, Trouble, Verdict, Verdicts,
    job::{Job, LONGEST},
    lost::any_moment,
    training::{LIMIT, STEPS, Training, ended, success, without_panic, words},
};
use crate::{Answer, Case};

/// The signals that a training knows, with the exit code that they end it with.
const SIGNALS: [(i32, Option<i32>); 4] =
    [(libc::SIGTERM, Some(143)), (libc::SIGINT, Some(130)), (libc::SIGHUP, Some(143)), (libc::SIGUSR1, None)];

/// Sends a signal to one rank, or to all.
pub(super) fn rank(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let (signal, code) = SIGNALS[case.random.below(SIGNALS.len())];
    let mut job = training.start()?;
    let step = 1 + case.random.below(STEPS - 1);
    job.wait_for_step(step)?;
    let rank = training.any_rank(case);
    let asked = if case.random.chance(0.3) { 0..training.ranks } else { rank..rank + 1 };
    let checked = || {
        asked.clone().for_each(|rank| _ = job.signal(rank, signal));
        let done = job.wait_for(|event| event["event"] == "done")?;
        let answer = job.ends_within(LIMIT)?;
        without_panic(&answer, &[])?;
        // Rank 0 decides. It looks whether others were asked where all evaluate.
        let may_end = answer.is_success() || answer.code() == code;
        if !may_end || answer.errors().contains("error") {
            let words = format!("it ends with {}: {}", ended(&answer), words(&answer));
            return Err(Trouble::Harm(words));
        }
        saved(&training, done.as_ref(), &answer)?;
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        trouble.of(&format!("{}, signal {signal} to ranks {asked:?} after step {step}", training.described()))
    })
}

/// Sends mpirun a signal, which passes it on, or ends all ranks.
pub(super) fn launcher(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let (signal, code) = SIGNALS[case.random.below(SIGNALS.len())];
    let mut job = training.start()?;
    let moment = any_moment(&mut job, case)?;
    let checked = || {
        job.signal_launcher(signal);
        let done = job.wait_for(|event| event["event"] == "done")?;
        let answer = job.ends_within(LIMIT)?;
        // mpirun kills ranks that have not ended after a second, and ends by any signal before it has begun.
        without_panic(&answer, &[signal, libc::SIGTERM, libc::SIGKILL])?;
        if code.is_none() && answer.code().is_some() {
            success(&answer)?;
        }
        if done.is_some() {
            saved(&training, done.as_ref(), &answer)?;
        }
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        trouble.of(&format!("{}, signal {signal} to mpirun {moment}", training.described()))
    })
}

/// Ends a job early; another number of ranks goes on.
pub(super) fn other_number(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::steady(attack, case)?;
    let others: Vec<_> = (1..=4).filter(|ranks| *ranks != training.ranks).collect();
    let others = others[case.random.below(others.len())];
    let mut job: Job = training.start()?;
    let step = 1 + case.random.below(STEPS - 1);
    job.wait_for_step(step)?;
    let checked = || {
        job.signal(0, libc::SIGTERM);
        let answer = job.ends_within(LONGEST)?;
        without_panic(&answer, &[])?;
        let goal = training.goes_on_with(others)?;
        Ok(Verdict::new(ended(&answer), goal))
    };
    checked().map_err(|trouble: Trouble| {
        let what = format!("SIGTERM after step {step}, resumed by {others}");
        trouble.of(&format!("{}, {what}", training.described()))
    })
}

/// Checks that the step which the last event names is saved, and that it is the last one if all went on.
fn saved(training: &Training<'_>, done: Option<&Value>, answer: &Answer) -> Result<(), Trouble> {
    let step = done.and_then(|event| event["step"].as_u64());
    let newest = training.newest()?;
    if step.is_none() || step != newest {
        return Err(Trouble::harm(format!("it is done at step {step:?}, and saved {newest:?}")));
    }
    if answer.is_success() && newest != Some(STEPS as u64) {
        return Err(Trouble::harm(format!("it ends with 0 at step {newest:?}")));
    }
    Ok(())
}
