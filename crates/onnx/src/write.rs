use std::io::Write;

use oomph_protobuf::Encoder;

use crate::{
    Attribute, Element, Graph, OnnxError, Size,
    error::MOST_BYTES,
    graph::{Constant, Content, Node, Port},
};

/// The version of the operators.
pub const OPSET: u64 = 17;
/// The version of the file format that came with these operators.
const IR_VERSION: u64 = 8;

/// The values of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'a> {
    /// The shape.
    pub shape: &'a [usize],
    /// The values, in the order of memory.
    pub values: &'a [f32],
}

/// A constant with its values.
struct Filled<'g, 'p> {
    /// All fields but the bytes of the values.
    head: Vec<u8>,
    floats: Vec<&'p [f32]>,
    integers: &'g [i64],
}

impl Filled<'_, '_> {
    fn value_bytes(&self) -> u64 {
        let floats: usize = self.floats.iter().map(|values| values.len()).sum();
        4 * floats as u64 + 8 * self.integers.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.head.len() as u64 + self.value_bytes()
    }
}

/// Writes a graph as an ONNX model. `parameters` gives the values of a parameter by its name; they are written as they are,
/// without a copy of all of them.
///
/// # Errors
/// A parameter has no values or another shape, the file would exceed 2 GiB, or `out` fails.
pub fn write<'p>(
    graph: &Graph,
    parameters: &dyn Fn(&str) -> Option<Parameter<'p>>,
    out: &mut dyn Write,
) -> Result<(), OnnxError> {
    let constants: Vec<Filled<'_, '_>> =
        graph.constants.iter().map(|constant| filled(constant, parameters)).collect::<Result<_, _>>()?;
    let begins: Vec<Vec<u8>> = constants.iter().map(|constant| begin(5, constant.bytes())).collect();
    let mut operators = Encoder::default();
    graph.nodes.iter().for_each(|node| operators.message(1, |message| encode_node(node, message)));
    operators.bytes(2, graph.name.as_bytes());
    graph.inputs.iter().for_each(|port| operators.message(11, |message| encode_port(port, message)));
    graph.outputs.iter().for_each(|port| operators.message(12, |message| encode_port(port, message)));
    let operators = operators.into_bytes();
    let of_constants: u64 =
        begins.iter().zip(&constants).map(|(begin, constant)| begin.len() as u64 + constant.bytes()).sum();
    let graph_bytes = operators.len() as u64 + of_constants;

    let head = model_head(graph, graph_bytes);
    let bytes = head.len() as u64 + graph_bytes;
    if bytes > MOST_BYTES {
        return Err(OnnxError::TooLarge { bytes });
    }
    out.write_all(&head)?;
    out.write_all(&operators)?;
    for (begin, constant) in begins.iter().zip(&constants) {
        out.write_all(begin)?;
        out.write_all(&constant.head)?;
        constant.floats.iter().try_for_each(|values| write_floats(values, out))?;
        constant.integers.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
    }
    Ok(())
}

/// The fields of the model, with the head of the graph last.
fn model_head(graph: &Graph, graph_bytes: u64) -> Vec<u8> {
    let mut model = Encoder::default();
    model.integer(1, IR_VERSION);
    model.bytes(2, b"oomph");
    model.bytes(3, env!("CARGO_PKG_VERSION").as_bytes());
    model.message(8, |opset| {
        opset.bytes(1, b"");
        opset.integer(2, OPSET);
    });
    for (key, text) in &graph.notes {
        model.message(14, |note| {
            note.bytes(1, key.as_bytes());
            note.bytes(2, text.as_bytes());
        });
    }
    model.begin(7, graph_bytes);
    model.into_bytes()
}

/// The head of a field of `length` bytes.
fn begin(field: u64, length: u64) -> Vec<u8> {
    let mut head = Encoder::default();
    head.begin(field, length);
    head.into_bytes()
}

fn filled<'g, 'p>(
    constant: &'g Constant,
    parameters: &dyn Fn(&str) -> Option<Parameter<'p>>,
) -> Result<Filled<'g, 'p>, OnnxError> {
    let (mut floats, mut integers, mut element) = (Vec::new(), &[][..], Element::Float);
    match &constant.content {
        Content::Integers(values) => {
            integers = values;
            element = Element::Int64;
        }
        Content::Pieces(pieces) => {
            for (name, shape, range) in pieces {
                let found = parameters(name).ok_or_else(|| OnnxError::Missing { name: name.clone() })?;
                let values = found.values.get(range.clone()).filter(|_| found.shape == shape);
                floats.push(values.ok_or_else(|| OnnxError::Shape {
                    name: name.clone(),
                    expected: shape.clone(),
                    found: found.shape.to_vec(),
                })?);
            }
        }
    }
    let mut filled = Filled { head: Vec::new(), floats, integers };
    let mut tensor = Encoder::default();
    constant.shape.iter().for_each(|size| tensor.integer(1, *size as u64));
    tensor.integer(2, number_of(element));
    tensor.bytes(8, constant.name.as_bytes());
    tensor.begin(9, filled.value_bytes());
    filled.head = tensor.into_bytes();
    Ok(filled)
}

/// Little-endian, some thousands at a time.
fn write_floats(values: &[f32], out: &mut dyn Write) -> Result<(), OnnxError> {
    for chunk in values.chunks(4_096) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// `TensorProto.DataType`.
fn number_of(element: Element) -> u64 {
    match element {
        Element::Float => 1,
        Element::Int64 => 7,
    }
}

fn encode_node(node: &Node, message: &mut Encoder) {
    node.inputs.iter().for_each(|input| message.bytes(1, input.as_bytes()));
    message.bytes(2, node.output.as_bytes());
    message.bytes(3, node.name.as_bytes());
    message.bytes(4, node.operator.as_bytes());
    for (name, attribute) in &node.attributes {
        message.message(5, |message| {
            message.bytes(1, name.as_bytes());
            // The last field is `AttributeProto.AttributeType`.
            match attribute {
                Attribute::Float(value) => {
                    message.float(2, *value);
                    message.integer(20, 1);
                }
                Attribute::Int(value) => {
                    message.signed(3, *value);
                    message.integer(20, 2);
                }
                Attribute::Ints(values) => {
                    values.iter().for_each(|value| message.signed(8, *value));
                    message.integer(20, 7);
                }
            }
        });
    }
}

fn encode_port(port: &Port, message: &mut Encoder) {
    message.bytes(1, port.name.as_bytes());
    message.message(2, |kind| {
        kind.message(1, |tensor| {
            tensor.integer(1, number_of(port.element));
            tensor.message(2, |shape| {
                for size in &port.sizes {
                    shape.message(1, |dimension| match size {
                        Size::Fixed(size) => dimension.integer(1, *size as u64),
                        Size::Named(name) => dimension.bytes(2, name.as_bytes()),
                    });
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Piece;

    fn graph() -> Graph {
        let mut graph = Graph::new("g");
        let x = graph.input("x", Element::Float, [Size::Named("batch"), Size::Fixed(2)]);
        let y = graph.scope("head", |graph| {
            let piece = |range| Piece { leaf: "weight", shape: vec![2, 2], range };
            let weight = graph.gathered("swapped", &[2, 2], [piece(2..4), piece(0..2)]);
            graph.node("MatMul", &[&x, &weight], [])
        });
        graph.output("logits", y, [Size::Named("batch"), Size::Fixed(2)]);
        graph
    }

    fn weight(name: &str) -> Option<Parameter<'static>> {
        (name == "head.weight").then_some(Parameter { shape: &[2, 2], values: &[1.0, 2.0, 3.0, 4.0] })
    }

    #[test]
    fn pieces_are_written_in_their_order_under_full_names() {
        let (graph, mut file) = (graph(), Vec::new());
        write(&graph, &weight, &mut file).expect("a file");
        let values: Vec<u8> = [3.0f32, 4.0, 1.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(file.ends_with(&values));
        for name in ["head.swapped", "head.MatMul", "logits", "batch"] {
            assert!(file.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn missing_values_and_other_shapes_are_named() {
        let graph = graph();
        let error = write(&graph, &|_| None, &mut Vec::new()).expect_err("no values");
        assert_eq!(error.to_string(), "the weights lack `head.weight`");
        let other = |_: &str| Some(Parameter { shape: &[4], values: &[0.0; 4] });
        let error = write(&graph, &other, &mut Vec::new()).expect_err("another shape");
        assert_eq!(error.to_string(), "`head.weight` has the shape [4], expected [2, 2]");
    }

    #[test]
    fn operators_of_one_kind_have_names_of_their_own() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", Element::Float, [Size::Fixed(1)]);
        let values: Vec<_> = (0..3).map(|_| graph.node("Relu", &[&x], []).0).collect();
        assert_eq!(values, ["Relu", "Relu_2", "Relu_3"]);
        graph.output("y", x, [Size::Fixed(1)]);
        assert_eq!(graph.nodes[3].operator, "Identity");
    }
}
