//! What is known about memory that ran out.

use std::fmt;

use oomph_config::DeviceName;
use oomph_core::{Bytes, Phase};

use crate::error::named;

/// A device ran out of memory: where in the training, and how it was detected.
#[derive(Clone, Debug, PartialEq)]
pub struct Exhausted {
    /// How it was detected.
    pub shortage: Shortage,
    /// The phase in which memory ran out, or the phase of the planned peak.
    pub phase: Phase,
    /// The stage or layer; empty outside of any.
    pub scope: String,
    /// The optimizer step, from 1. For an evaluation or a checkpoint: the last finished step. `None` outside of
    /// training.
    pub step: Option<usize>,
    /// Whether memory ran out in an evaluation. `phase` may then be `data`, for its uploads.
    pub in_evaluation: bool,
}

/// How a shortage of memory was detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// An allocation exceeded the limit of the CPU device.
    Limit {
        /// Bytes of the allocation.
        requested_bytes: Bytes,
        /// Bytes in use, with the allocation.
        in_use_bytes: Bytes,
        /// The limit.
        limit_bytes: Bytes,
        /// The number of the allocation among all that are recorded.
        event: u64,
    },
    /// The planned peak exceeds the limit. Nothing was executed.
    Planned {
        /// The planned peak.
        planned_peak_bytes: Bytes,
        /// The limit.
        limit_bytes: Bytes,
    },
    /// The driver of a GPU refused an allocation.
    Device {
        /// The GPU, if it is known.
        device: Option<DeviceName>,
        /// Bytes of the allocation, if they are known.
        requested_bytes: Option<Bytes>,
        /// Bytes of the page that the allocator asked the driver for, if they are known. Allocations share pages.
        page_bytes: Option<Bytes>,
        /// The message of the driver.
        message: String,
    },
}

impl Exhausted {
    /// A shortage outside of any step.
    pub fn new(shortage: Shortage, phase: Phase, scope: String) -> Self {
        Self { shortage, phase, scope, step: None, in_evaluation: false }
    }

    /// Sets the step, from 1. A shortage while the model is built, or before the first step, belongs to no step.
    pub fn at_step(&mut self, step: usize) {
        self.step = Some(step).filter(|step| *step > 0 && self.phase != Phase::Init);
    }

    /// Whether the step had finished: memory ran out in an evaluation or a checkpoint after it.
    pub fn is_behind_step(&self) -> bool {
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

impl std::error::Error for Exhausted {}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        match &self.shortage {
            Shortage::Limit { requested_bytes, in_use_bytes, limit_bytes, .. } => write!(
                f,
                "out of memory{place}: an allocation of {requested_bytes} raised memory in use to {in_use_bytes}, {} \
                 above the limit of {limit_bytes}",
                in_use_bytes.saturating_sub(*limit_bytes)
            ),
            Shortage::Planned { planned_peak_bytes, limit_bytes } => write!(
                f,
                "the training does not fit: planned peak {planned_peak_bytes}{place}, {} above the limit of \
                 {limit_bytes}",
                planned_peak_bytes.saturating_sub(*limit_bytes)
            ),
            Shortage::Device {
                device, requested_bytes: Some(bytes), page_bytes: Some(page_bytes), ..
            } if page_bytes > bytes => {
                let device = named(device.as_ref());
                write!(
                    f,
                    "out of memory{place}: {device} has no page of {page_bytes} free for an allocation of {bytes}"
                )
            }
            Shortage::Device { device, requested_bytes: Some(bytes), .. } => {
                write!(f, "out of memory{place}: {} has no {bytes} free", named(device.as_ref()))
            }
            Shortage::Device { message, .. } => write!(f, "out of memory{place}: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_phase_and_the_step() {
        let shortage = Shortage::Limit {
            requested_bytes: Bytes::mib(2),
            in_use_bytes: Bytes::mib(7),
            limit_bytes: Bytes::mib(6),
            event: 0,
        };
        let limit = ": an allocation of 2.00 MiB raised memory in use to 7.00 MiB, 1.00 MiB above the limit of 6.00 MiB";
        let at = |phase, scope: &str, step, in_evaluation| {
            let error = Exhausted::new(shortage.clone(), phase, scope.into());
            Exhausted { step, in_evaluation, ..error }.to_string()
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
    fn messages_of_plans_and_devices_have_their_bytes() {
        let planned = Shortage::Planned { planned_peak_bytes: Bytes::mib(9), limit_bytes: Bytes::mib(6) };
        assert_eq!(
            Exhausted::new(planned, Phase::Backward, "layer1".into()).to_string(),
            "the training does not fit: planned peak 9.00 MiB in backward at `layer1`, 3.00 MiB above the limit of 6.00 MiB"
        );
        let device = |requested_bytes, page_bytes| Shortage::Device {
            device: Some(DeviceName::Cuda(1)),
            requested_bytes,
            page_bytes,
            message: "no memory".into(),
        };
        let say = |shortage| Exhausted::new(shortage, Phase::Backward, String::new()).to_string();
        assert_eq!(say(device(None, None)), "out of memory in backward: no memory");
        assert_eq!(
            say(device(Some(Bytes::mib(1)), Some(Bytes::mib(1)))),
            "out of memory in backward: `cuda:1` has no 1.00 MiB free"
        );
        assert_eq!(
            say(device(Some(Bytes::mib(1)), Some(Bytes::mib(16)))),
            "out of memory in backward: `cuda:1` has no page of 16.0 MiB free for an allocation of 1.00 MiB"
        );
    }
}
