//! The layer as an operator of ONNX.

use oomph_onnx::{Attribute, Graph, Piece, Value};

use super::Lstm;

/// Where the gates i, o, f, g of ONNX are in PyTorch's order i, f, g, o.
const GATES: [usize; 4] = [0, 3, 1, 2];

impl Lstm {
    /// Adds the layer, from an initial state of zeros, to an ONNX graph: `[B, T, I]` to `[B, T, U]`.
    ///
    /// The source is <https://onnx.ai/onnx/operators/onnx__LSTM.html>: it has time before the batch, another order of gates,
    /// and both biases in one tensor.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let [gates, features] = self.weight_ih.val().dims();
        let hidden = gates / 4;
        let weight = gathered(graph, "W", [1, gates, features], &[("weight_ih", vec![gates, features])]);
        let recurrent = gathered(graph, "R", [1, gates, hidden], &[("weight_hh", vec![gates, hidden])]);
        let biases = [("bias_ih", vec![gates]), ("bias_hh", vec![gates])];
        let bias = gathered(graph, "B", [1, 2 * gates], &biases);
        let swap = || [("perm", Attribute::Ints(vec![1, 0, 2]))];
        let steps_first = graph.node("Transpose", &[input], swap());
        let units = ("hidden_size", Attribute::Int(hidden as i64));
        // [T, directions, B, U]
        let output = graph.node("LSTM", &[&steps_first, &weight, &recurrent, &bias], [units]);
        let direction = graph.integers("direction", &[1], &[1]);
        let output = graph.node("Squeeze", &[&output, &direction], []);
        graph.node("Transpose", &[&output], swap())
    }
}

/// The parameters one after the other, each with its gates in ONNX's order.
fn gathered<const N: usize>(
    graph: &mut Graph,
    name: &str,
    shape: [usize; N],
    parameters: &[(&'static str, Vec<usize>)],
) -> Value {
    let pieces = parameters.iter().flat_map(|(leaf, shape)| {
        let of_gate = shape.iter().product::<usize>() / GATES.len();
        let piece = move |gate: usize| Piece {
            leaf,
            shape: shape.clone(),
            range: gate * of_gate..(gate + 1) * of_gate,
        };
        GATES.map(piece)
    });
    graph.gathered(name, &shape, pieces)
}
