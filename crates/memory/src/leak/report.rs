use std::fmt;

use oomph_core::{Bytes, Phase, grouped};

use super::{GrownKind, Growth, Point};
use crate::record::StepKind;

/// A leak: growing memory and its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The point and the rate.
    pub growth: Growth,
    /// The device's memory limit, if known.
    pub limit_bytes: Option<Bytes>,
    /// The blocks that every step leaves behind: the phase with most bytes first, and the largest first in it. Empty without
    /// a recording.
    pub kinds: Vec<GrownKind>,
}

/// The most likely cause of a leak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A graph of forward is kept: many tensors of forward or evaluation.
    Graph,
    /// Results of forward are kept, without their graph.
    Outputs,
    /// Results of backward are kept.
    Gradients,
    /// Results of the optimizer are kept.
    Parameters,
    /// Batches are kept.
    Batches,
    /// Memory allocated between phases is kept, or the program enters no phases.
    Own,
}

/// More kinds of blocks than a loss and an output have.
const GRAPH_KINDS: usize = 4;
/// The most kinds in a message.
const NAMED_KINDS: usize = 3;

impl Leak {
    /// Steps or evaluation batches until the limit is reached.
    pub fn steps_left(&self) -> Option<u64> {
        self.limit_bytes.map(|limit| self.growth.steps_left(limit))
    }

    /// The most likely cause, by the phase that allocates most of it. `None` without a recording.
    pub fn cause(&self) -> Option<Cause> {
        let phase = self.kinds.first()?.phase;
        let kinds = self.kinds.iter().filter(|kind| kind.phase == phase).count();
        Some(match phase {
            Phase::Forward | Phase::Eval if kinds >= GRAPH_KINDS => Cause::Graph,
            Phase::Forward | Phase::Eval => Cause::Outputs,
            Phase::Backward => Cause::Gradients,
            Phase::Step => Cause::Parameters,
            Phase::Data => Cause::Batches,
            Phase::Idle | Phase::Init | Phase::Checkpoint => Cause::Own,
        })
    }

    fn write_kinds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.kinds.iter().take(NAMED_KINDS).enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{kind}")?;
        }
        let others = self.kinds.iter().skip(NAMED_KINDS);
        let blocks: u64 = others.clone().map(|kind| kind.count).sum();
        if blocks == 0 {
            return Ok(());
        }
        let bytes = Bytes::new(others.map(|kind| kind.bytes_per_step().get()).sum());
        write!(f, " and {blocks} more of {bytes}")
    }
}

impl Cause {
    /// The cause and its remedy.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Graph => {
                "activations outlive their step: a loss or an output is kept with its graph, or a forward pass on \
                 the autodiff device has no backward; keep numbers (`into_scalar`) or `detach()`, and evaluate with \
                 `inference()`"
            }
            Self::Outputs => {
                "outputs outlive their step: a list, cache, closure or `Rc` cycle keeps them on the device; keep numbers, or \
                 copy outputs to the host (`into_data`)"
            }
            Self::Gradients => {
                "gradients outlive their step; drop them with the step, and keep norms as numbers"
            }
            Self::Parameters => {
                "parameters or optimizer state of earlier steps live on: a list, cache, closure or `Rc` cycle keeps \
                 clones of the model; save checkpoints to disk, or keep the newest clone only"
            }
            Self::Batches => {
                "batches outlive their step: a list, cache, closure or `Rc` cycle keeps them on the device; keep them on the host"
            }
            Self::Own => {
                "the blocks are allocated outside the phases of a step; look for lists, caches, closures and `Rc` cycles that \
                 keep tensors, and name phases with `oomph::phase`"
            }
        }
    }
}

/// A sentence: the point, the rate, the steps until the limit, the blocks, and the remedy.
impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Growth { point, bytes_per_step, grown_bytes, steps, .. } = self.growth;
        write!(f, "memory leak: every {point} adds {bytes_per_step} ({grown_bytes} in the last {steps})")?;
        if let (Some(limit), Some(left)) = (self.limit_bytes, self.steps_left()) {
            let (steps, left) = (plural(point, left), grouped(left));
            write!(f, "; the limit of {limit} is reached after {left} more {steps}")?;
        }
        if !self.kinds.is_empty() {
            f.write_str("; each leaves behind: ")?;
            self.write_kinds(f)?;
        }
        self.cause().map_or(Ok(()), |cause| write!(f, "; {}", cause.advice()))
    }
}

/// `3 × 16.0 KiB allocated in forward at `layer1.0.conv1``.
impl fmt::Display for GrownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, bytes, phase, scope } = self;
        write!(f, "{count} × {bytes} allocated in {phase}")?;
        if scope.is_empty() { Ok(()) } else { write!(f, " at `{scope}`") }
    }
}

fn plural(point: Point, count: u64) -> &'static str {
    match (point.kind, count) {
        (StepKind::Train, 1) => "step",
        (StepKind::Train, _) => "steps",
        (StepKind::Eval, 1) => "batch",
        (StepKind::Eval, _) => "batches",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(count: u64, bytes: u64, phase: Phase, scope: &str) -> GrownKind {
        GrownKind { count, bytes: Bytes::new(bytes), phase, scope: scope.into() }
    }

    fn leak(kinds: Vec<GrownKind>) -> Leak {
        let growth = Growth {
            point: Point::step(32),
            bytes_per_step: Bytes::new(640),
            grown_bytes: Bytes::new(13 * 640),
            steps: 13,
            in_use_bytes: Bytes::mib(100),
        };
        Leak { growth, limit_bytes: None, kinds }
    }

    #[test]
    fn a_leak_is_a_sentence() {
        let kinds = vec![kind(1, 640, Phase::Forward, "head")];
        let leak = Leak { limit_bytes: Some(Bytes::mib(101)), ..leak(kinds) };
        let (says, advice) = (leak.to_string(), Cause::Outputs.advice());
        assert_eq!(
            says,
            format!(
                "memory leak: every training step adds 640 B (8.12 KiB in the last 13); the limit of 101 MiB is \
                 reached after 1,638 more steps; each leaves behind: 1 × 640 B allocated in forward at `head`; {advice}"
            )
        );
        let unknown = super::tests::leak(Vec::new()).to_string();
        assert_eq!(unknown, "memory leak: every training step adds 640 B (8.12 KiB in the last 13)");
    }

    #[test]
    fn the_cause_follows_from_where_most_is_born() {
        let scopes = ["stem", "layer1", "layer2", "head"];
        let graph = scopes.map(|scope| kind(2, 4096, Phase::Forward, scope)).to_vec();
        let says = leak(graph.clone()).to_string();
        assert!(
            says.contains("2 × 4.00 KiB allocated in forward at `layer2` and 2 more of 8.00 KiB; "),
            "{says}"
        );
        for (kinds, cause) in [
            (graph.clone(), Cause::Graph),
            (graph[..1].to_vec(), Cause::Outputs),
            (vec![kind(1, 1 << 20, Phase::Backward, ""), kind(1, 64, Phase::Forward, "")], Cause::Gradients),
            (vec![kind(1, 64, Phase::Step, "")], Cause::Parameters),
            (vec![kind(1, 64, Phase::Data, "")], Cause::Batches),
            (vec![kind(1, 64, Phase::Idle, "cache")], Cause::Own),
        ] {
            assert_eq!(leak(kinds).cause(), Some(cause));
        }
        assert_eq!(leak(Vec::new()).cause(), None);
    }
}
