//! Ranks that stop for some time, for ever, or again and again.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    Attack, Goal, Trouble, Verdict, Verdicts,
    job::LONGEST,
    lost::any_moment,
    training::{LIMIT, STEPS, Training, ended, success, without_panic, words},
};
use crate::Case;

/// `device.timeout` of jobs whose ranks pause for less, in seconds.
const PATIENT: u64 = 8;
/// `device.timeout` of jobs whose ranks hang, in seconds.
const IMPATIENT: u64 = 2;
/// The longest pause, in milliseconds: some are longer than a second, from which on a rank notices its own.
const PAUSE: usize = 2500;

/// Stops ranks for less than `device.timeout`: the run must not notice.
pub(super) fn paused(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::limited(attack, case, PATIENT)?;
    let mut job = training.start()?;
    let mut pauses = String::new();
    let checked = || {
        for _ in 0..=case.random.below(2) {
            let moment = any_moment(&mut job, case)?;
            let (rank, pause) = (training.any_rank(case), 100 + case.random.below(PAUSE));
            job.signal(rank, libc::SIGSTOP);
            sleep(Duration::from_millis(pause as u64));
            job.signal(rank, libc::SIGCONT);
            pauses += &format!(", rank {rank} stopped for {pause} ms {moment}");
        }
        let answer = job.ends_within(LONGEST)?;
        success(&answer)?;
        training.finished()?;
        Ok(Verdict::new(ended(&answer), Goal::SameBytes))
    };
    let result = checked();
    result.map_err(|trouble: Trouble| trouble.of(&(training.described() + &pauses)))
}

/// Stops a rank for ever: the others must end the job after `device.timeout`, with its name.
pub(super) fn hung(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::limited(attack, case, IMPATIENT)?;
    let mut job = training.start()?;
    // Some hang when the others have nothing more to train, or nothing more to do.
    let moment = if case.random.chance(0.2) {
        job.wait_for_step(STEPS)?;
        format!("after step {STEPS}")
    } else if case.random.chance(0.2) {
        job.wait_for(|event| event["event"] == "done")?;
        "when all is done".to_owned()
    } else {
        any_moment(&mut job, case)?
    };
    let rank = training.any_rank(case);
    let checked = || {
        job.signal(rank, libc::SIGSTOP);
        let is_alone = job.leaves_alone(rank, LIMIT)?;
        if is_alone {
            // The others had its last word before it stopped, and ended. Only mpirun waits.
            job.signal(rank, libc::SIGCONT);
        }
        let answer = job.ends_within(Duration::from_secs(IMPATIENT) + LIMIT)?;
        if answer.is_success() {
            return training.untouched(&answer);
        }
        if is_alone {
            let words = format!("all others ended well, the job with {}: {}", ended(&answer), words(&answer));
            return Err(Trouble::Harm(words));
        }
        without_panic(&answer, &[libc::SIGKILL, libc::SIGTERM])?;
        let errors = answer.errors();
        // It hangs within MPI's own end, which does not tell for whom it waits.
        if errors.contains("MPI did not end all ranks") {
            return Ok(Verdict::new(ended(&answer), training.goes_on()?));
        }
        let named = format!("rank {rank} on `");
        let says = [&*named, "device.timeout"];
        if let Some(silent) = says.into_iter().find(|text| !errors.contains(text)) {
            return Err(Trouble::Harm(format!("it does not say `{silent}`: {}", words(&answer))));
        }
        if answer.code() != Some(1) {
            return Err(Trouble::Harm(format!("it ends with {}: {}", ended(&answer), words(&answer))));
        }
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        trouble.of(&format!("{}, rank {rank} stopped for ever {moment}", training.described()))
    })
}

/// Stops a rank again and again: the run must not notice.
pub(super) fn slow(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let mut job = training.start()?;
    let rank = training.any_rank(case);
    let (stop, go) = (5 + case.random.below(40), 2 + case.random.below(20));
    let checked = || {
        let begin = Instant::now();
        // A slow rank trains some tens of steps a second at worst; then it may go on as it can.
        while job.is_running()? && begin.elapsed() < LIMIT {
            job.signal(rank, libc::SIGSTOP);
            sleep(Duration::from_millis(stop as u64));
            job.signal(rank, libc::SIGCONT);
            sleep(Duration::from_millis(go as u64));
        }
        let answer = job.ends_within(LONGEST)?;
        success(&answer)?;
        training.finished()?;
        Ok(Verdict::new(ended(&answer), Goal::SameBytes))
    };
    checked().map_err(|trouble: Trouble| {
        trouble.of(&format!("{}, rank {rank} stopped {stop} of {} ms", training.described(), stop + go))
    })
}
