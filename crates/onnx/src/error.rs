use std::io;

/// Why a graph cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// A parameter of the graph has no values.
    #[error("the weights lack `{name}`")]
    Missing {
        /// The parameter.
        name: String,
    },
    /// A parameter has another shape than the graph expects.
    #[error("`{name}` has the shape {found:?}, expected {expected:?}")]
    Shape {
        /// The parameter.
        name: String,
        /// The shape of the graph.
        expected: Vec<usize>,
        /// The shape of the values.
        found: Vec<usize>,
    },
    /// Protocol Buffers have no message of 2 GiB or more.
    #[error("the model takes {bytes} bytes as ONNX, which allows at most {MOST_BYTES}")]
    TooLarge {
        /// The size of the file.
        bytes: u64,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The size of the largest message that readers take.
pub(crate) const MOST_BYTES: u64 = i32::MAX as u64;
