/// An error of recorded tensors.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The record belongs to another model.
    #[error("the checkpoint does not fit the model: {}", list(.problems))]
    Parameters {
        /// One sentence for each parameter that is missing, unexpected or of another shape.
        problems: Vec<String>,
    },
    /// The record belongs to another optimizer.
    #[error("the checkpoint has no state of this optimizer for parameter `{parameter}`")]
    OptimizerState {
        /// The first parameter without state.
        parameter: String,
    },
    /// The elements of a tensor are not 32-bit floats.
    #[error("`{name}` is not a tensor of 32-bit floats")]
    NotFloats {
        /// The name of the tensor.
        name: String,
    },
    /// The bytes are not a safetensors file.
    #[error("not a safetensors file: {reason}")]
    Malformed {
        /// The reason.
        reason: String,
    },
    /// The device failed while the tensors were read.
    #[error(transparent)]
    Model(#[from] oomph_model::ModelError),
}

impl From<oomph_model::DeviceError> for RecordError {
    fn from(error: oomph_model::DeviceError) -> Self {
        Self::Model(error.into())
    }
}

impl RecordError {
    /// A command or a setting that may fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Parameters { .. } | Self::OptimizerState { .. } => {
                Some("use `[model]` and `[optimizer]` of the `config.toml` in the checkpoint".into())
            }
            _ => None,
        }
    }
}

/// The first five problems, and the number of others.
fn list(problems: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = problems[..problems.len().min(SHOWN)].join("; ");
    match problems.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
