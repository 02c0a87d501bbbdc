use super::globals::Global;
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
