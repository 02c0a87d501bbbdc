use std::fmt;

use serde::{Deserialize, Serialize};

/// The purpose of memory in use. Every byte of a timeline has exactly one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The model's tensors: trainable parameters and running statistics.
    Parameters,
    /// Gradients of parameters.
    Gradients,
    /// Tensors that the optimizer keeps between steps.
    OptimizerState,
    /// Tensors that the forward pass keeps for backward.
    Activations,
    /// Batches on the device.
    Inputs,
    /// Memory freed before its phase ends: kernel workspaces and intermediate results.
    Workspace,
    /// The rest: buffers that the backend keeps, losses not yet read.
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

    /// Its name in reports: `optimizer state`.
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

    /// Its key in JSON: `optimizer_state`.
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
