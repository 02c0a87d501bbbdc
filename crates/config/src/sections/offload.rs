//! `memory.offload`.

use crate::{
    error::ConfigError,
    precedence::{Rule, clash},
    section::{Refused, Section, as_items},
    sections::{
        memory::{Memory, Recompute},
        optimizer::{Optimizer, OptimizerKind},
    },
    value::Value,
};

/// What lies in host memory while its device does without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// `optimizer`: the state of the optimizer, between the steps of its stage (ZeRO-Offload, Ren et al. 2021,
    /// <https://arxiv.org/abs/2101.06840>).
    pub optimizer: bool,
    /// `activations`: the inputs of recomputed stages, between forward and backward (Rajbhandari et al. 2021,
    /// <https://arxiv.org/abs/2104.07857>, section 5.1.2).
    pub activations: bool,
}

const OPTIMIZER: &str = "optimizer";
const ACTIVATIONS: &str = "activations";
const NONE: &str = "none";

impl Offload {
    /// The choices, from the least to the most.
    pub const ALL: [Self; 4] = [
        Self { optimizer: false, activations: false },
        Self { optimizer: true, activations: false },
        Self { optimizer: false, activations: true },
        Self { optimizer: true, activations: true },
    ];

    /// What is chosen, as `memory.offload` has it with commas: `optimizer,activations`, or `none`.
    pub fn name(self) -> String {
        let parts = self.parts();
        if parts.is_empty() { NONE.to_owned() } else { parts.join(",") }
    }

    fn parts(self) -> Vec<&'static str> {
        let all = [(self.optimizer, OPTIMIZER), (self.activations, ACTIVATIONS)];
        all.into_iter().filter(|(is_chosen, _)| *is_chosen).map(|(_, name)| name).collect()
    }

    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "`none`, or a list of `optimizer` and `activations`";
        section.or("offload", Self::default(), expected, |value| {
            if *value == Value::from(NONE) {
                return Ok(Self::default());
            }
            let named = |name: &str| match name {
                OPTIMIZER => Ok(Self { optimizer: true, activations: false }),
                ACTIVATIONS => Ok(Self { optimizer: false, activations: true }),
                _ => Err(Refused::Value),
            };
            Ok(as_items(value, named)?.into_iter().fold(Self::default(), |all, part| Self {
                optimizer: all.optimizer || part.optimizer,
                activations: all.activations || part.activations,
            }))
        })
    }

    /// Refuses to offload what there is not.
    pub(crate) fn check(
        self,
        section: &Section,
        memory: &Memory,
        optimizer: &Optimizer,
        settings: &Section,
    ) -> Result<(), ConfigError> {
        let Some(offload) = section.ledger.setting("offload") else { return Ok(()) };
        if self.activations
            && matches!(memory.recompute, Recompute::None | Recompute::Ops)
            && let Some(recompute) = section.ledger.setting("recompute")
        {
            return Err(clash(offload, recompute, &NEEDS_RECOMPUTE));
        }
        let refused = match optimizer.kind {
            _ if !self.optimizer => None,
            OptimizerKind::Sgd { momentum, .. } => (momentum == 0.0).then_some(("momentum", &NEEDS_STATE)),
            OptimizerKind::Adam(moments) | OptimizerKind::AdamW(moments) => {
                moments.amsgrad.then_some(("amsgrad", &STAYS))
            }
            OptimizerKind::Lion { .. } => None,
            _ => Some(("name", &STAYS)),
        };
        match refused.and_then(|(key, rule)| Some((settings.ledger.setting(key)?, rule))) {
            Some((other, rule)) => Err(clash(offload, other, rule)),
            None => Ok(()),
        }
    }
}

impl From<Offload> for Value {
    fn from(offload: Offload) -> Self {
        match offload.parts() {
            parts if parts.is_empty() => Self::from(NONE),
            parts => Self::from(parts),
        }
    }
}

const NEEDS_RECOMPUTE: Rule = Rule {
    says: "only the inputs of recomputed stages can leave the device",
    fix: "set `memory.recompute` to `stages`, or leave `activations` out of `memory.offload`",
};
const NEEDS_STATE: Rule = Rule {
    says: "plain sgd has no state to offload",
    fix: "leave `optimizer` out of `memory.offload`, or set `optimizer.momentum`, for example to 0.9",
};
const STAYS: Rule = Rule {
    says: "only the state of sgd with momentum, adam, adamw and lion can leave the device, without amsgrad",
    fix: "choose one of these optimizers, or leave `optimizer` out of `memory.offload`",
};
