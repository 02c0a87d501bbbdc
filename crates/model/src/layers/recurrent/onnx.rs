//! Recurrent layers as operators of ONNX.

use oomph_onnx::{Attribute, Graph, Piece, Value};

/// An operator of a recurrent layer with `G` gates.
pub(super) struct Operator<const G: usize, const A: usize> {
    pub(super) name: &'static str,
    /// Where the gates of ONNX are in PyTorch's order.
    pub(super) gates: [usize; G],
    /// The attributes.
    pub(super) attributes: [(&'static str, Attribute); A],
}

impl<const G: usize, const A: usize> Operator<G, A> {
    /// Adds the layer, from initial states of zeros, to an ONNX graph: `[B, T, I]` to `[B, T, U]`. Its weight of the input
    /// has the size `[G·U, I]`.
    ///
    /// ONNX has time before the batch, another order of gates, and both biases in one tensor.
    pub(super) fn add(self, graph: &mut Graph, [gates, features]: [usize; 2], input: &Value) -> Value {
        let hidden = gates / G;
        let weight = [("weight_ih", vec![gates, features])];
        let weight = gathered(graph, "W", [1, gates, features], &weight, self.gates);
        let recurrent = [("weight_hh", vec![gates, hidden])];
        let recurrent = gathered(graph, "R", [1, gates, hidden], &recurrent, self.gates);
        let biases = [("bias_ih", vec![gates]), ("bias_hh", vec![gates])];
        let bias = gathered(graph, "B", [1, 2 * gates], &biases, self.gates);
        let swap = || [("perm", Attribute::Ints(vec![1, 0, 2]))];
        let steps_first = graph.node("Transpose", &[input], swap());
        // [T, directions, B, U]
        let output = graph.node(self.name, &[&steps_first, &weight, &recurrent, &bias], self.attributes);
        let direction = graph.integers("direction", &[1], &[1]);
        let output = graph.node("Squeeze", &[&output, &direction], []);
        graph.node("Transpose", &[&output], swap())
    }
}

/// The parameters one after the other, each with its gates in ONNX's order.
fn gathered<const G: usize, const N: usize>(
    graph: &mut Graph,
    name: &str,
    shape: [usize; N],
    parameters: &[(&'static str, Vec<usize>)],
    gates: [usize; G],
) -> Value {
    let pieces = parameters.iter().flat_map(|(leaf, shape)| {
        let of_gate = shape.iter().product::<usize>() / G;
        let piece = move |gate: usize| Piece {
            leaf,
            shape: shape.clone(),
            range: gate * of_gate..(gate + 1) * of_gate,
        };
        gates.map(piece)
    });
    graph.gathered(name, &shape, pieces)
}
