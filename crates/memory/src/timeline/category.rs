use std::fmt;

use serde::{Deserialize, Serialize};

/// What memory in use is for. Every byte of a timeline has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The model's tensors: trainable parameters and running statistics.
    Parameters,
    /// Gradients of parameters.
    Gradients,
    /// What the optimizer keeps between steps.
    OptimizerState,
    /// What the forward pass keeps for backward.
    Activations,
    /// Batches on the device.
    Inputs,
    /// What is gone when its phase is over: kernel workspaces and intermediate results.
    Workspace,
    /// What is none of these: buffers that the backend keeps, losses not yet read.
    Other,
}

impl Category {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Parameters,
        Self::Gradients,
        Self::OptimizerState,
        Self::Activations,
        Self::Inputs,
        Self::Workspace,
        Self::Other,
    ];

    /// As in reports: `optimizer state`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::Activations => "activations",
            Self::Inputs => "inputs",
            Self::Workspace => "workspace",
            Self::Other => "other",
        }
    }

    /// As in JSON: `optimizer_state`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::OptimizerState => "optimizer_state",
            other => other.name(),
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
