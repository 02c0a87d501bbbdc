use crate::weights::{element::Element, error::FormatError};

/// The index of a value.
pub(super) type Handle = u32;

/// A value of a pickle. Values refer to each other by index: a copy costs nothing, and freeing them does not recurse.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// `None`, a float, an integer of more than 64 bits, or a long text: not needed here.
    Other,
    Boolean(bool),
    Integer(i64),
    Text(Box<str>),
    Tuple(Box<[Handle]>),
    List(Vec<Handle>),
    Dict(Vec<(Handle, Handle)>),
    Global(Global),
    Storage(Box<StorageNode>),
    Tensor(Box<TensorNode>),
}

/// The values of one or more tensors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StorageNode {
    pub(super) element: Element,
    /// Its key in the file.
    pub(super) key: Handle,
    /// The number of elements.
    pub(super) elements: usize,
}

/// A part of a storage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorNode {
    pub(super) storage: Handle,
    /// Elements before the first.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// All values of a pickle.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Node>);

/// The most values of a pickle: a state dict of 100,000 tensors has two million.
const MOST: usize = 1 << 22;
/// The most dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;

impl Nodes {
    /// Adds a value that the instruction at byte `at` builds.
    pub(super) fn add(&mut self, at: u64, node: Node) -> Result<Handle, FormatError> {
        if self.0.len() >= MOST {
            return Err(FormatError::TooMany { at, most: MOST, what: "values in a pickle" });
        }
        self.0.push(node);
        // The limit above is below 2³².
        Ok((self.0.len() - 1) as Handle)
    }

    /// The value of an index that [`add`](Self::add) gave.
    pub(super) fn get(&self, handle: Handle) -> &Node {
        &self.0[handle as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> &mut Node {
        &mut self.0[handle as usize]
    }

    pub(super) fn text(&self, handle: Handle) -> Option<&str> {
        match self.get(handle) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn tuple(&self, handle: Handle) -> Option<&[Handle]> {
        match self.get(handle) {
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// A count, such as that of elements.
    pub(super) fn count(&self, handle: Handle) -> Option<usize> {
        match self.get(handle) {
            Node::Integer(integer) => usize::try_from(*integer).ok(),
            _ => None,
        }
    }

    /// A tuple of counts, such as a shape. Its length is bounded, since a pickle may refer to it any number of times.
    pub(super) fn counts(&self, handle: Handle) -> Option<Vec<usize>> {
        let items = self.tuple(handle).filter(|items| items.len() <= MOST_DIMENSIONS)?;
        items.iter().map(|item| self.count(*item)).collect()
    }

    /// Takes the pairs out of a list, so that no pair is ever in two lists.
    pub(super) fn take_pairs(&mut self, list: Handle) -> Option<Vec<(Handle, Handle)>> {
        let Node::List(pairs) = self.get_mut(list) else { return None };
        let pairs = std::mem::take(pairs);
        let pair = |pair: Handle| match self.get(pair) {
            Node::List(pair) => <[Handle; 2]>::try_from(pair.as_slice()).ok(),
            Node::Tuple(pair) => <[Handle; 2]>::try_from(pair.as_ref()).ok(),
            _ => None,
        };
        pairs.into_iter().map(|item| pair(item).map(|[key, value]| (key, value))).collect()
    }
}

/// A Python name that a pickle of a state dict may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`: the type of a state dict.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`, and `_rebuild_tensor` before it: a tensor of a part of a storage.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`, and the class itself before it: a tensor that is trained.
    RebuildParameter,
    /// `torch.FloatStorage` and the like: the kind of a storage's elements.
    Storage(Element),
}

/// The kinds of storages, by their name in `torch`.
const STORAGES: [(&str, Element); 12] = [
    ("DoubleStorage", Element::F64),
    ("FloatStorage", Element::F32),
    ("HalfStorage", Element::F16),
    ("BFloat16Storage", Element::Bf16),
    ("LongStorage", Element::Other("int64", 8)),
    ("IntStorage", Element::Other("int32", 4)),
    ("ShortStorage", Element::Other("int16", 2)),
    ("CharStorage", Element::Other("int8", 1)),
    ("ByteStorage", Element::Other("uint8", 1)),
    ("BoolStorage", Element::Other("bool", 1)),
    ("ComplexFloatStorage", Element::Other("complex64", 8)),
    ("ComplexDoubleStorage", Element::Other("complex128", 16)),
];

impl Global {
    /// The global of that name; `None` if no state dict needs it.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Some(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") | ("torch.nn.parameter", "Parameter") => {
                Some(Self::RebuildParameter)
            }
            ("torch", storage) => {
                STORAGES.iter().find(|(name, _)| *name == storage).map(|(_, element)| Self::Storage(*element))
            }
            _ => None,
        }
    }
}
