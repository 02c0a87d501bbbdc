//! What `torch.save` writes: a zip archive with a pickle and a file a storage (since PyTorch 1.6), or pickles with the
//! storages behind them (before). Nothing in them is ever run.
//!
//! A pickle is a program that may call anything. Here it can make lists, dictionaries and numbers, and name the few
//! functions of PyTorch that tensors are put together with, which we know and do ourselves ([`globals`]); whatever else
//! it asks for is an error. What it makes is held in a flat list by index ([`nodes`]), so that no depth and no cycle of
//! a hostile file costs more than its length.
//!
//! Why not `burn-store`, which reads such files too: where a storage is missing or short it fills tensors with zeros and
//! says nothing, it holds whole storages in memory, reads what is compressed without a bound, and computes shapes
//! without checks.

mod cursor;
mod globals;
mod legacy;
mod nodes;
mod pickle;
mod state_dict;
mod zip;

use std::collections::BTreeMap;

use super::{
    error::{FormatError, shown},
    source::{ReadAt, array},
    stored::Stored,
};

use self::{cursor::Cursor, state_dict::Location};

/// Whether the bytes begin as a zip archive.
pub(super) fn is_archive(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04")
}

/// Whether the bytes begin as PyTorch's format before 1.6.
pub(super) fn is_legacy(head: &[u8]) -> bool {
    head.starts_with(&legacy::MAGIC)
}

/// The tensors of an archive.
pub(super) fn index_archive(bytes: &dyn ReadAt) -> Result<BTreeMap<String, Stored>, FormatError> {
    let archive = zip::Archive::open(bytes)?;
    let root = archive.root()?;
    if let Some(order) = archive.find(&format!("{root}byteorder")) {
        let (at, len) = archive.range(order)?;
        if len == 3 && array(bytes, at)? == *b"big" {
            return Err(FormatError::BigEndian);
        }
    }
    let (at, len) = archive.range(archive.entry(&format!("{root}data.pkl"))?)?;
    let pickle = pickle::read(&mut Cursor::new(bytes, at, at + len))?;
    state_dict::tensors(&pickle, &mut |key| {
        let (at, len) = archive.range(archive.entry(&format!("{root}data/{key}"))?)?;
        Ok(Location { at, bytes: len })
    })
}

/// The tensors of a file from before archives.
pub(super) fn index_legacy(bytes: &dyn ReadAt) -> Result<BTreeMap<String, Stored>, FormatError> {
    let (pickle, storages) = legacy::read(bytes)?;
    state_dict::tensors(&pickle, &mut |key| {
        storages.get(key).copied().ok_or_else(|| FormatError::NoEntry { entry: shown(key) })
    })
}
