//! Ranks that get no more disk, no larger files, no more memory.

use std::fs;

use super::{
    Attack, Goal, Trouble, Verdict, Verdicts,
    job::{Job, LONGEST},
    system::{Disk, Limit, address_space, limit},
    training::{LIMIT, STEPS, Training, ended, success, without_panic, words},
};
use crate::{Answer, Case};

/// The size of a disk on which every run has room.
const AMPLE: u64 = 64 << 20;
/// What a rank may take of memory beyond what it has, at most.
const MORE_MEMORY: usize = 128 << 20;

/// Gives rank 0 a disk on which the run has no room.
pub(super) fn disk(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let mut training = Training::random(attack, case)?;
    let needed = training.reference(training.ranks)?.bytes;
    let bytes = 8192 + (needed as f64 * f64::from(case.random.uniform())) as u64;
    training.place("disk")?;
    fs::create_dir(training.folder.at("disk"))?;
    let disk = Disk::mount(&training.folder.at("disk"), bytes).map_err(Trouble::Skipped)?;
    let checked = || {
        let answer = training.start()?.ends_within(LONGEST)?;
        if answer.is_success() {
            return training.untouched(&answer);
        }
        failed(&answer, "No space left on device")?;
        training.newest()?;
        disk.resize(AMPLE).map_err(|error| Trouble::Machine(error.into()))?;
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        trouble.of(&format!("{} on a disk of {bytes} bytes", training.described()))
    })
}

/// Limits the size of a rank's files, as `ulimit -f` does.
pub(super) fn file(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let largest = training.reference(training.ranks)?.largest;
    let bytes = (largest as f64 * f64::from(case.random.uniform())) as u64;
    // Rank 0 writes the run directory. Others write nothing, and must not notice.
    let rank = if case.random.chance(0.7) { 0 } else { training.any_rank(case) };
    let mut job = training.start()?;
    let step = 1 + case.random.below(STEPS - 1);
    job.wait_for_step(step)?;
    let checked = || {
        limited(&job, rank, Limit::FileSize, bytes)?;
        let answer = job.ends_within(LONGEST)?;
        if answer.is_success() {
            success(&answer)?;
            training.finished()?;
            return Ok(Verdict::new("0", Goal::SameBytes));
        }
        failed(&answer, "File too large")?;
        if rank > 0 {
            return Err(Trouble::Harm(format!("it writes files: {}", words(&answer))));
        }
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        let what = format!("rank {rank} may write files of {bytes} bytes from step {step} on");
        trouble.of(&format!("{}, {what}", training.described()))
    })
}

/// Limits the address space of a rank that trains, as `ulimit -v` does.
pub(super) fn memory(attack: &Attack<'_>, case: &mut Case) -> Verdicts {
    let training = Training::random(attack, case)?;
    let rank = training.any_rank(case);
    // Of a little as often as of much.
    let most = MORE_MEMORY >> case.random.below(16);
    let more = case.random.below(most) as u64;
    let mut job = training.start()?;
    // Not before it trains: while Open MPI 4.1 begins, a lack of memory crashes it or lets it hang.
    let step = 1 + case.random.below(STEPS / 2);
    job.wait_for_step(step)?;
    let checked = || {
        let has = job.process(rank).and_then(address_space).unwrap_or(0);
        limited(&job, rank, Limit::Memory, has + more)?;
        let answer = job.ends_within(LIMIT)?;
        if answer.is_success() {
            success(&answer)?;
            training.finished()?;
            return Ok(Verdict::new("0", Goal::SameBytes));
        }
        // The allocator of the language ends a process without memory by SIGABRT, after it said so with a note about
        // backtraces.
        let is_told = answer.errors().contains("memory allocation of");
        let is_named = is_told || answer.errors().contains("error");
        if !is_told {
            without_panic(&answer, &[])?;
        } else if answer.errors().contains("panicked at") {
            return Err(Trouble::Harm(format!("it panics: {}", words(&answer))));
        }
        if !is_named {
            return Err(Trouble::Harm(format!("nothing names memory: {}", words(&answer))));
        }
        Ok(Verdict::new(ended(&answer), training.goes_on()?))
    };
    checked().map_err(|trouble: Trouble| {
        let what = format!("rank {rank} gets {more} more bytes from step {step} on");
        trouble.of(&format!("{}, {what}", training.described()))
    })
}

/// Sets a rank a limit; a rank that has ended needs none.
fn limited(job: &Job, rank: usize, what: Limit, bytes: u64) -> Result<(), Trouble> {
    match job.process(rank).map(|process| limit(process, what, bytes)) {
        Some(Err(error)) if error.raw_os_error() != Some(libc::ESRCH) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Checks that a rank failed with an error that names a file and the reason.
fn failed(answer: &Answer, reason: &str) -> Result<(), Trouble> {
    without_panic(answer, &[])?;
    let errors = answer.errors();
    let names_file = errors.contains("run/") || errors.contains("/run");
    if answer.code() == Some(1) && errors.contains("error") && names_file && errors.contains(reason) {
        return Ok(());
    }
    let words = format!("it ends with {} and not by `{reason}`: {}", ended(answer), words(&answer));
    Err(Trouble::Harm(words))
}
