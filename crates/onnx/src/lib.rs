//! ONNX files: a graph of operators over named parameters.
//!
//! - [`Graph`]: operators, parameters, inputs and outputs. Parameters are names and shapes; their values come when the file is
//!   written.
//! - [`Value`]: a tensor of the graph. [`Attribute`]: a setting of an operator.
//! - [`write()`]: the file, in the encoding of `onnx.proto` with operator set [`OPSET`].
//!
//! ```
//! use oomph_onnx::{Element, Graph, Parameter, Size, write};
//!
//! let mut graph = Graph::new("double");
//! let x = graph.input("x", Element::Float, [Size::Named("batch"), Size::Fixed(1)]);
//! let factor = graph.parameter("factor", &[1]);
//! let y = graph.node("Mul", &[&x, &factor], []);
//! graph.output("y", y, [Size::Named("batch"), Size::Fixed(1)]);
//! let mut file = Vec::new();
//! write(&graph, &|_| Some(Parameter { shape: &[1], values: &[2.0] }), &mut file)?;
//! # assert!(file.len() > 40);
//! # Ok::<(), oomph_onnx::OnnxError>(())
//! ```
//!
//! It knows no layers and no models, and reads no files.

mod error;
mod graph;
mod write;

pub use error::OnnxError;
pub use graph::{Attribute, Element, Graph, Piece, Size, Value};
pub use write::{OPSET, Parameter, write};
