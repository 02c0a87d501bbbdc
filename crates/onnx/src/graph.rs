use std::{collections::HashSet, ops::Range};

/// A tensor of a graph: an input, a parameter, or the output of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(pub(crate) String);

/// A setting of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floating point.
    Float,
    /// 64-bit integers.
    Int64,
}

/// One size of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Fixed(usize),
    /// Any number, with a name: `batch`.
    Named(&'static str),
}

/// A range of a parameter's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The parameter within the present scope.
    pub leaf: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The elements, counted in the order of memory.
    pub range: Range<usize>,
}

/// Operators in the order of their computation, with the parameters, inputs and outputs.
///
/// Names of parameters and operators begin with the [scopes](Self::scope) in which they are made, separated by dots.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    pub(crate) notes: Vec<(String, String)>,
    scopes: Vec<String>,
    names: HashSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) operator: &'static str,
    pub(crate) inputs: Vec<String>,
    pub(crate) output: String,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
}

/// A tensor whose values are in the file.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Integers(Vec<i64>),
    /// Ranges of parameters by their full names and shapes, one after the other.
    Pieces(Vec<(String, Vec<usize>, Range<usize>)>),
}

/// An input or an output.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) element: Element,
    pub(crate) sizes: Vec<Size>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: Vec::new(),
            constants: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            notes: Vec::new(),
            scopes: Vec::new(),
            names: HashSet::new(),
        }
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, element: Element, sizes: impl Into<Vec<Size>>) -> Value {
        let name = self.unique(name.to_owned());
        self.inputs.push(Port { name: name.clone(), element, sizes: sizes.into() });
        Value(name)
    }

    /// The number of sizes of an input's shape; `None` for other values.
    pub fn input_rank(&self, value: &Value) -> Option<usize> {
        self.inputs.iter().find(|input| input.name == value.0).map(|input| input.sizes.len())
    }

    /// Makes a value an output of floats, under the name `name`.
    pub fn output(&mut self, name: &str, value: Value, sizes: impl Into<Vec<Size>>) {
        let name = self.unique(name.to_owned());
        // An input or a parameter keeps its name: only an operator can be renamed.
        if self.nodes.iter().any(|node| node.output == value.0) {
            for node in &mut self.nodes {
                let uses = node.inputs.iter_mut().chain([&mut node.output]);
                uses.filter(|used| **used == value.0).for_each(|used| used.clone_from(&name));
            }
        } else {
            let node = Node {
                name: name.clone(),
                operator: "Identity",
                inputs: vec![value.0],
                output: name.clone(),
                attributes: Vec::new(),
            };
            self.nodes.push(node);
        }
        self.outputs.push(Port { name, element: Element::Float, sizes: sizes.into() });
    }

    /// Adds a text that readers find by its key.
    pub fn note(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.notes.push((key.into(), text.into()));
    }

    /// Runs `build` within a scope.
    pub fn scope<T>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(name.to_owned());
        let built = build(self);
        self.scopes.pop();
        built
    }

    /// The parameter `leaf` of the present scope.
    pub fn parameter(&mut self, leaf: &str, shape: &[usize]) -> Value {
        let name = self.full(leaf);
        self.known_parameter(&name).unwrap_or_else(|| {
            let pieces = vec![(name.clone(), shape.to_vec(), 0..shape.iter().product())];
            self.constant(leaf, shape, Content::Pieces(pieces))
        })
    }

    /// A parameter that another scope has added, by its full name. `None` if there is none.
    pub fn known_parameter(&self, name: &str) -> Option<Value> {
        self.constants
            .iter()
            .find(|constant| constant.name == name)
            .map(|constant| Value(constant.name.clone()))
    }

    /// A tensor of ranges of the present scope's parameters, one after the other: weights in another order.
    pub fn gathered(
        &mut self,
        name: &str,
        shape: &[usize],
        pieces: impl IntoIterator<Item = Piece>,
    ) -> Value {
        let pieces = pieces.into_iter().map(|piece| (self.full(piece.leaf), piece.shape, piece.range));
        let content = Content::Pieces(pieces.collect());
        self.constant(name, shape, content)
    }

    /// A tensor of integers, such as the shape for an operator. An empty `shape` is a single number.
    pub fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) -> Value {
        self.constant(name, shape, Content::Integers(values.to_vec()))
    }

    /// Adds an operator with one output.
    pub fn node<const N: usize>(
        &mut self,
        operator: &'static str,
        inputs: &[&Value],
        attributes: [(&'static str, Attribute); N],
    ) -> Value {
        let full = self.full(operator);
        let name = self.unique(full);
        let inputs = inputs.iter().map(|value| value.0.clone()).collect();
        let node = Node {
            name: name.clone(),
            operator,
            inputs,
            output: name.clone(),
            attributes: attributes.into(),
        };
        self.nodes.push(node);
        Value(name)
    }

    fn constant(&mut self, name: &str, shape: &[usize], content: Content) -> Value {
        let full = self.full(name);
        let name = self.unique(full);
        self.constants.push(Constant { name: name.clone(), shape: shape.to_vec(), content });
        Value(name)
    }

    fn full(&self, leaf: &str) -> String {
        self.scopes.iter().map(String::as_str).chain([leaf]).collect::<Vec<_>>().join(".")
    }

    /// The name, with a number if it is taken.
    fn unique(&mut self, name: String) -> String {
        let numbered = (2usize..).map(|number| format!("{name}_{number}"));
        // The numbers are endless.
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let free = free.unwrap_or(name);
        self.names.insert(free.clone());
        free
    }
}
