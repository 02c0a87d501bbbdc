//! Finds the named tensors in the values of a pickle.

use std::collections::{BTreeMap, HashMap};

use super::{
    nodes::{Handle, Node, Nodes, StorageNode, TensorNode},
    pickle::Pickle,
};
use crate::weights::{
    element::Element,
    error::FormatError,
    shown::shown,
    stored::{Storage, Stored},
};

/// The position of the values of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The keys of the weights in the checkpoint of a training, beside optimizer and epoch.
const WITHIN: [&str; 6] = ["state_dict", "model_state_dict", "model", "module", "net", "weights"];
/// The deepest nesting of such dictionaries.
const MOST_WITHIN: usize = 4;
/// The most keys in the message of a file without tensors.
const MOST_NAMED: usize = 8;

/// The tensors of the state dict by name; `locate` gives the position of a key's storage.
pub(super) fn tensors(
    pickle: &Pickle,
    locate: &mut dyn FnMut(&str) -> Result<Location, FormatError>,
) -> Result<BTreeMap<String, Stored>, FormatError> {
    let items = find(pickle)?;
    let mut located: HashMap<Handle, Location> = HashMap::new();
    let mut tensors = BTreeMap::new();
    for (key, value) in items {
        let (Some(name), Node::Tensor(tensor)) = (pickle.nodes.text(*key), pickle.nodes.get(*value)) else {
            // Other values of a state dict, such as a module's own state, are no weights.
            continue;
        };
        // Only storages are put into tensors.
        let Node::Storage(storage) = pickle.nodes.get(tensor.storage) else { continue };
        let location = match located.get(&tensor.storage) {
            Some(location) => *location,
            None => locate(pickle.nodes.text(storage.key).unwrap_or_default())?,
        };
        located.insert(tensor.storage, location);
        let stored = stored(tensor, storage, location);
        tensors.insert(name.to_owned(), stored.ok_or_else(|| FormatError::Beyond { name: shown(name) })?);
    }
    Ok(tensors)
}

/// The keys of the storages in a pickle, each with its element type.
pub(super) fn storages(pickle: &Pickle) -> impl Iterator<Item = (&str, Element)> {
    pickle.nodes.iter().filter_map(|node| match node {
        Node::Storage(storage) => Some((pickle.nodes.text(storage.key)?, storage.element)),
        _ => None,
    })
}

fn stored(tensor: &TensorNode, storage: &StorageNode, location: Location) -> Option<Stored> {
    let size = storage.element.size() as u64;
    if (storage.elements as u64).checked_mul(size)? > location.bytes {
        return None;
    }
    let TensorNode { offset, shape, strides, .. } = tensor;
    let values = Storage { at: location.at, elements: storage.elements };
    Stored::strided(storage.element, values, *offset, shape.clone(), strides.clone())
}

type Items = [(Handle, Handle)];

/// The dictionary of tensors: the whole value, or the one under a usual key.
fn find(pickle: &Pickle) -> Result<&Items, FormatError> {
    let nodes = &pickle.nodes;
    let none = |items: &Items| {
        let keys = items.iter().filter_map(|(key, _)| nodes.text(*key)).take(MOST_NAMED).map(shown).collect();
        FormatError::NoTensors { keys }
    };
    let Node::Dict(root) = nodes.get(pickle.root) else { return Err(none(&[])) };
    let mut items: &Items = root;
    for _ in 0..MOST_WITHIN {
        match WITHIN.iter().find_map(|name| dict_under(nodes, items, name)) {
            Some(within) => items = within,
            None if has_tensors(nodes, items) => return Ok(items),
            None => break,
        }
    }
    Err(none(items))
}

fn dict_under<'a>(nodes: &'a Nodes, items: &Items, name: &str) -> Option<&'a Items> {
    let (_, value) = items.iter().find(|(key, _)| nodes.text(*key) == Some(name))?;
    match nodes.get(*value) {
        Node::Dict(items) => Some(items),
        _ => None,
    }
}

fn has_tensors(nodes: &Nodes, items: &Items) -> bool {
    items.iter().any(|(_, value)| matches!(nodes.get(*value), Node::Tensor(_)))
}
