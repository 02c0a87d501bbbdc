//! Ranks that are killed, and a launcher that is.

use std::{thread::sleep, time::Duration};

use super::{
    Attack, Trouble, Verdict, Verdicts,
    job::Job,
    training::{LIMIT, SAVE, STEPS, Training, ended, without_panic, words},
};
use crate::Case;

/// A share of the cases begins at once, before the ranks have met.
const EARLY: f32 = 0.2;
/// The time in which a job begins to train.
const START: usize = 600;

/// Kills a rank at a random moment.
pub(super) fn rank(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    let moment = any_moment(&mut job, case)?;
    killed(&training, job, case, &moment)
}

/// Kills a rank while rank 0 saves.
pub(super) fn saving(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    let step = SAVE * (1 + case.random.below(STEPS / SAVE));
    job.wait_for_step(step)?;
    let wait = case.random.below(4000);
    sleep(Duration::from_micros(wait as u64));
    killed(&training, job, case, &format!("{wait} µs after step {step}"))
}

/// Kills a rank while the job resumes.
pub(super) fn resuming(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    job.wait_for_step(SAVE + case.random.below(STEPS / 2))?;
    job.signal(0, libc::SIGTERM);
    let answer = job.ends_within(LIMIT).map_err(|trouble| trouble.of(&training.described()))?;
    if answer.code() != Some(143) {
        let words = format!("SIGTERM ends it with {}: {}", ended(&answer), words(&answer));
        return Err(Trouble::Harm(words).of(&training.described()));
    }
    let job = training.resume(training.ranks)?;
    let wait = case.random.below(START);
    sleep(Duration::from_millis(wait as u64));
    killed(&training, job, case, &format!("{wait} ms after the resume began"))
}

/// Kills mpirun: its ranks must not go on for long.
pub(super) fn launcher(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    let moment = any_moment(&mut job, case)?;
    let checked = || {
        job.signal_launcher(libc::SIGKILL);
        let answer = job.ends_within(LIMIT)?;
        without_panic(&answer, &[libc::SIGKILL])?;
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked()
        .map_err(|trouble: Trouble| trouble.of(&format!("{}, mpirun killed {moment}", training.described())))
}

/// Waits for a random moment, and names it.
pub(super) fn any_moment(job: &mut Job, case: &mut Case) -> Result<String, Trouble> {
    if case.random.chance(EARLY) {
        let wait = case.random.below(START);
        sleep(Duration::from_millis(wait as u64));
        return Ok(format!("{wait} ms after the start"));
    }
    let (step, wait) = (1 + case.random.below(STEPS * 3 / 4), case.random.below(5000));
    job.wait_for_step(step)?;
    sleep(Duration::from_micros(wait as u64));
    Ok(format!("{wait} µs after step {step}"))
}

/// Kills a random rank now: mpirun must name it and end all, and the run must go on from its newest save.
fn killed(training: &Training<'_>, job: Job, case: &mut Case, moment: &str) -> Verdicts {
    // Rank 0 writes.
    let rank = if case.random.chance(0.5) { 0 } else { training.any_rank(case) };
    let checked = || {
        let was_sent = job.signal(rank, libc::SIGKILL);
        let answer = job.ends_within(LIMIT)?;
        if answer.is_success() {
            return training.untouched(&answer);
        }
        without_panic(&answer, &[libc::SIGKILL])?;
        if !was_sent {
            let words = format!("it ended with {} by itself: {}", ended(&answer), words(&answer));
            return Err(Trouble::Harm(words));
        }
        let errors = answer.errors();
        if !(errors.contains(&format!("process rank {rank} with PID")) && errors.contains("signal 9")) {
            let words = format!("nothing names the rank that was killed: {}", words(&answer));
            return Err(Trouble::Harm(words));
        }
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble| trouble.of(&format!("{}, rank {rank} killed {moment}", training.described())))
}
