//! The files of `torch.save`: a zip archive with a pickle and a file for each storage (since PyTorch 1.6), or pickles with
//! the storages behind them (before). Nothing in them is ever run.
//!
//! A pickle is a program that may call anything. Here it can build lists, dictionaries and numbers, and name the few
//! PyTorch functions that build tensors ([`nodes`]). Any other name is an error. Values are kept
//! in a flat list and refer to each other by index ([`nodes`]). So the cost of a hostile file is bounded by its length,
//! whatever its depth or cycles.
//!
//! `burn-store` reads such files too, but it silently fills tensors of a missing or short storage with zeros, holds whole
//! storages in memory, decompresses without a bound, and computes shapes without checks.

mod cursor;
mod legacy;
mod nodes;
mod pickle;
mod state_dict;
mod zip;

use std::collections::BTreeMap;

use super::{
    error::FormatError,
    shown::shown,
    source::{ReadAt, array},
    stored::Stored,
};

use self::{cursor::Cursor, state_dict::Location};

/// Whether the bytes begin as PyTorch's format before 1.6.
pub(super) fn is_legacy(head: &[u8]) -> bool {
    head.starts_with(&legacy::MAGIC)
}

/// The tensors of an archive.
pub(super) fn index_archive(bytes: &dyn ReadAt) -> Result<BTreeMap<String, Stored>, FormatError> {
    let archive = zip::Archive::open(bytes)?;
    let root = archive.root()?;
    let order = format!("{root}byteorder");
    if archive.contains(&order) {
        let Location { at, bytes: len } = archive.range(&order)?;
        if len == 3 && array(bytes, at)? == *b"big" {
            return Err(FormatError::BigEndian);
        }
    }
    let Location { at, bytes: len } = archive.range(&format!("{root}data.pkl"))?;
    let pickle = pickle::read(&mut Cursor::new(bytes, at, at + len))?;
    state_dict::tensors(&pickle, &mut |key| archive.range(&format!("{root}data/{key}")))
}

/// The tensors of a file in the format before 1.6.
pub(super) fn index_legacy(bytes: &dyn ReadAt) -> Result<BTreeMap<String, Stored>, FormatError> {
    let (pickle, storages) = legacy::read(bytes)?;
    state_dict::tensors(&pickle, &mut |key| {
        storages.get(key).copied().ok_or_else(|| FormatError::NoEntry { entry: shown(key) })
    })
}
