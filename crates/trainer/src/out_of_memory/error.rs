use std::fmt;

use oomph_core::{Bytes, Phase};

use super::OutOfMemoryReport;
use crate::{TrainError, device_failure};

/// More was needed than the device may use.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfMemory {
    /// How it came out.
    pub shortage: Shortage,
    /// What was being done, or what the plan says needs most.
    pub phase: Phase,
    /// The stage or layer, where it was in one.
    pub scope: String,
    /// The optimizer step, from 1; of an evaluation or a checkpoint the one behind which it is. `None` outside of
    /// training.
    pub step: Option<usize>,
    /// Whether it was in an evaluation, where `phase` may be that of its uploads.
    pub in_evaluation: bool,
    /// What was held, what was kept and what can be changed. `None` until the run that it ended has looked.
    pub report: Option<Box<OutOfMemoryReport>>,
}

/// How it came out that memory is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// An allocation went above the limit of the CPU device.
    Limit {
        /// What was asked for.
        requested_bytes: Bytes,
        /// In use with it.
        in_use_bytes: Bytes,
        /// What may be used.
        limit_bytes: Bytes,
        /// Its number among the allocations that are recorded.
        event: u64,
    },
    /// The plan says so. Nothing was tried.
    Planned {
        /// What would be in use at most.
        planned_peak_bytes: Bytes,
        /// What may be used.
        limit_bytes: Bytes,
    },
    /// A GPU's allocator got no more memory from its driver.
    Device {
        /// What was asked for, where the driver's side tells.
        requested_bytes: Option<Bytes>,
        /// What it says.
        message: String,
    },
}

impl OutOfMemory {
    /// One that nothing more is known of than where it was.
    pub(crate) fn new(shortage: Shortage, phase: Phase, scope: String) -> Self {
        Self { shortage, phase, scope, step: None, in_evaluation: false, report: None }
    }

    /// Says in which step, or behind which, it was; making the model is in none.
    pub(crate) fn at_step(&mut self, step: usize) {
        self.step = Some(step).filter(|_| self.phase != Phase::Init);
    }

    /// Whether the step is done behind which it was.
    pub(crate) fn is_behind_step(&self) -> bool {
        self.in_evaluation || self.phase == Phase::Checkpoint
    }

    /// ` in forward at `layer1.0.conv1` of step 3`.
    fn place(&self) -> String {
        let mut place = format!(" in {}", self.phase);
        if self.in_evaluation && self.phase != Phase::Eval {
            place += " of an evaluation";
        }
        if !self.scope.is_empty() {
            place += &format!(" at `{}`", self.scope);
        }
        let of = if self.is_behind_step() { "after" } else { "of" };
        place + &self.step.map(|step| format!(" {of} step {step}")).unwrap_or_default()
    }
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        match &self.shortage {
            Shortage::Limit { requested_bytes, in_use_bytes, limit_bytes, .. } => write!(
                f,
                "out of memory{place}: {requested_bytes} more made {in_use_bytes} in use, {} above the limit of \
                 {limit_bytes}",
                in_use_bytes.saturating_sub(*limit_bytes)
            ),
            Shortage::Planned { planned_peak_bytes, limit_bytes } => write!(
                f,
                "it does not fit: a planned peak of {planned_peak_bytes}{place}, {} above the limit of {limit_bytes}",
                planned_peak_bytes.saturating_sub(*limit_bytes)
            ),
            Shortage::Device { requested_bytes: Some(bytes), .. } => {
                write!(f, "out of memory{place}: the device has no {bytes} left")
            }
            Shortage::Device { message, .. } => write!(f, "out of memory{place}: {message}"),
        }
    }
}

/// Whether the limit was crossed, or the device failed, since the last time. It is taken: it ends one step, not those
/// after it.
///
/// # Errors
/// [`OutOfMemory`], where memory ran out, or another failure of the device.
pub(crate) fn check() -> Result<(), TrainError> {
    device_failure::check()?;
    let Some(crossing) = oomph_memory::take_crossing() else { return Ok(()) };
    let shortage = Shortage::Limit {
        requested_bytes: crossing.requested_bytes,
        in_use_bytes: crossing.in_use_bytes,
        limit_bytes: crossing.limit_bytes,
        event: crossing.event,
    };
    Err(Box::new(OutOfMemory::new(shortage, crossing.place.phase(), crossing.place.scope())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_where_it_was() {
        let shortage = Shortage::Limit {
            requested_bytes: Bytes::mib(2),
            in_use_bytes: Bytes::mib(7),
            limit_bytes: Bytes::mib(6),
            event: 0,
        };
        let limit = ": 2.00 MiB more made 7.00 MiB in use, 1.00 MiB above the limit of 6.00 MiB";
        let at = |phase, scope: &str, step, in_evaluation| {
            let error = OutOfMemory::new(shortage.clone(), phase, scope.into());
            OutOfMemory { step, in_evaluation, ..error }.to_string()
        };
        for (text, expected) in [
            (
                at(Phase::Forward, "stem.conv", Some(3), false),
                "out of memory in forward at `stem.conv` of step 3",
            ),
            (at(Phase::Init, "", None, false), "out of memory in init"),
            (at(Phase::Eval, "head", Some(4), true), "out of memory in eval at `head` after step 4"),
            (at(Phase::Data, "", Some(4), true), "out of memory in data of an evaluation after step 4"),
            (at(Phase::Checkpoint, "", Some(4), false), "out of memory in checkpoint after step 4"),
        ] {
            assert_eq!(text, format!("{expected}{limit}"));
        }
    }

    #[test]
    fn a_plan_and_a_device_say_what_they_know() {
        let planned = Shortage::Planned { planned_peak_bytes: Bytes::mib(9), limit_bytes: Bytes::mib(6) };
        assert_eq!(
            OutOfMemory::new(planned, Phase::Backward, "layer1".into()).to_string(),
            "it does not fit: a planned peak of 9.00 MiB in backward at `layer1`, 3.00 MiB above the limit of 6.00 MiB"
        );
        let device = |requested_bytes| Shortage::Device { requested_bytes, message: "no memory".into() };
        let say = |shortage| OutOfMemory::new(shortage, Phase::Backward, String::new()).to_string();
        assert_eq!(say(device(None)), "out of memory in backward: no memory");
        assert_eq!(
            say(device(Some(Bytes::mib(1)))),
            "out of memory in backward: the device has no 1.00 MiB left"
        );
    }
}
