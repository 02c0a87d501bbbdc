//! PyTorch's format before 1.6: five pickles (a magic number, a version, the machine, the object, the keys of its storages),
//! then each storage after the number of its elements.

use std::collections::BTreeMap;

use super::{
    cursor::Cursor,
    nodes::Node,
    pickle::{self, Pickle},
    state_dict::{Location, storages},
};
use crate::weights::{
    error::FormatError,
    shown::shown,
    source::{ReadAt, array},
};

/// The pickle of the magic number, with which every such file begins.
pub(super) const MAGIC: [u8; 15] =
    [0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];

/// The only version.
const VERSION: usize = 1001;

/// Reads the object of the file, and the position of each storage by key.
pub(super) fn read(bytes: &dyn ReadAt) -> Result<(Pickle, BTreeMap<String, Location>), FormatError> {
    let mut cursor = Cursor::new(bytes, MAGIC.len() as u64, bytes.len());
    let at = cursor.at();
    let version = pickle::read(&mut cursor)?;
    if version.nodes.count(version.root) != Some(VERSION) {
        return Err(FormatError::Unexpected { at, expected: "the version 1001 of PyTorch's format" });
    }
    check_machine(&mut cursor)?;
    let object = pickle::read(&mut cursor)?;
    let at = cursor.at();
    let keys = pickle::read(&mut cursor)?;
    let Node::List(keys_in_order) = keys.nodes.get(keys.root) else {
        return Err(FormatError::Unexpected { at, expected: "the list of the storages' keys" });
    };
    let sizes: BTreeMap<&str, usize> =
        storages(&object).map(|(key, element)| (key, element.size())).collect();
    let mut located = BTreeMap::new();
    let mut at = cursor.at();
    for key in keys_in_order {
        let key =
            keys.nodes.text(*key).ok_or(FormatError::Unexpected { at, expected: "the key of a storage" })?;
        let Some(size) = sizes.get(key) else { return Err(FormatError::NoEntry { entry: shown(key) }) };
        let truncated = FormatError::Truncated { at: bytes.len(), what: "last storage" };
        let start = at + COUNT_BYTES;
        if start > bytes.len() {
            return Err(truncated);
        }
        let count = u64::from_le_bytes(array(bytes, at)?);
        let length = count.checked_mul(*size as u64).filter(|length| *length <= bytes.len() - start);
        let length = length.ok_or(truncated)?;
        located.insert(key.to_owned(), Location { at: start, bytes: length });
        at = start + length;
    }
    drop(sizes);
    Ok((object, located))
}

/// Bytes of the element count before each storage.
const COUNT_BYTES: u64 = 8;

/// Checks the machine's dictionary, which gives the byte order.
fn check_machine(cursor: &mut Cursor<'_>) -> Result<(), FormatError> {
    let (at, machine) = (cursor.at(), pickle::read(cursor)?);
    let Node::Dict(items) = machine.nodes.get(machine.root) else {
        return Err(FormatError::Unexpected { at, expected: "what the machine was that wrote it" });
    };
    let order = items.iter().find(|(key, _)| machine.nodes.text(*key) == Some("little_endian"));
    match order.map(|(_, value)| machine.nodes.get(*value)) {
        Some(Node::Boolean(false)) => Err(FormatError::BigEndian),
        _ => Ok(()),
    }
}
