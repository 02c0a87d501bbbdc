//! The part of the zip format that `torch.save` uses: no compression, and 64-bit sizes in large archives.
//!
//! <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>

use std::collections::HashMap;

use super::state_dict::Location;
use crate::weights::{
    error::FormatError,
    shown::shown,
    source::{ReadAt, array},
};

/// An archive's directory.
pub(super) struct Archive<'a> {
    bytes: &'a dyn ReadAt,
    entries: HashMap<String, Entry>,
}

/// A file in an archive.
#[derive(Clone, Debug)]
struct Entry {
    /// The position of its local header.
    header: u64,
    bytes: u64,
    /// Whether it is neither compressed nor encrypted.
    is_plain: bool,
}

const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: u64 = 22;
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const LOCATOR64_BYTES: u64 = 20;
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const HEADER: [u8; 4] = *b"PK\x03\x04";
const HEADER_BYTES: u64 = 30;
/// The longest comment behind the end record.
const LONGEST_COMMENT: u64 = 65_535;
/// A size that refers to a 64-bit size elsewhere.
const ELSEWHERE: u32 = u32::MAX;
/// The longest directory: that of half a million storages.
const LONGEST_DIRECTORY: u64 = 64 << 20;

impl<'a> Archive<'a> {
    /// Reads the directory.
    pub(super) fn open(bytes: &'a dyn ReadAt) -> Result<Self, FormatError> {
        let (at, len) = directory(bytes)?;
        let broken = FormatError::Unexpected { at, expected: "the directory of a zip archive" };
        if at.checked_add(len).is_none_or(|end| end > bytes.len()) || len > LONGEST_DIRECTORY {
            return Err(broken);
        }
        // The check above bounds it by the file's size.
        let mut directory = vec![0; len as usize];
        bytes.read_at(at, &mut directory)?;
        let mut entries = HashMap::new();
        let mut rest = directory.as_slice();
        while !rest.is_empty() {
            let at = at + (directory.len() - rest.len()) as u64;
            let broken = || FormatError::Unexpected { at, expected: "an entry of a zip archive's directory" };
            let (name, entry, behind) = entry(rest).ok_or_else(broken)?;
            entries.insert(name, entry);
            rest = behind;
        }
        Ok(Self { bytes, entries })
    }

    /// The folder of `data.pkl` with its slash, which contains all files of `torch.save`.
    pub(super) fn root(&self) -> Result<String, FormatError> {
        let mut roots = self.entries.keys().filter_map(|name| name.strip_suffix("data.pkl"));
        match (roots.next(), roots.next()) {
            (Some(root), None) => Ok(root.to_owned()),
            _ => Err(FormatError::NoEntry { entry: "data.pkl".into() }),
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Position and length of the bytes of an entry.
    pub(super) fn range(&self, name: &str) -> Result<Location, FormatError> {
        let entry = self.entries.get(name).ok_or_else(|| FormatError::NoEntry { entry: shown(name) })?;
        if !entry.is_plain {
            return Err(FormatError::Compressed { entry: shown(name) });
        }
        let at = entry.header;
        let broken = FormatError::Unexpected { at, expected: "a file of a zip archive" };
        if at.checked_add(HEADER_BYTES).is_none_or(|end| end > self.bytes.len()) {
            return Err(broken);
        }
        let header: [u8; HEADER_BYTES as usize] = array(self.bytes, at)?;
        if !header.starts_with(&HEADER) {
            return Err(broken);
        }
        let name_and_extra = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let start = at + HEADER_BYTES + name_and_extra;
        match start.checked_add(entry.bytes) {
            Some(end) if end <= self.bytes.len() => Ok(Location { at: start, bytes: entry.bytes }),
            _ => Err(FormatError::Truncated { at: self.bytes.len(), what: "last storage" }),
        }
    }
}

/// Position and length of the directory.
fn directory(bytes: &dyn ReadAt) -> Result<(u64, u64), FormatError> {
    let window = bytes.len().min(END_BYTES + LONGEST_COMMENT);
    let start = bytes.len() - window;
    // At most the length of a comment and a record.
    let mut tail = vec![0; window as usize];
    bytes.read_at(start, &mut tail)?;
    let places = tail.windows(END_BYTES as usize);
    let place = places.rev().position(|record| record.starts_with(&END));
    let place = place.ok_or(FormatError::Truncated { at: bytes.len(), what: "zip archive" })?;
    let at = bytes.len() - END_BYTES - place as u64;
    let record: [u8; END_BYTES as usize] = array(bytes, at)?;
    let (len, offset) = (u32_at(&record, 12), u32_at(&record, 16));
    if len != ELSEWHERE && offset != ELSEWHERE {
        return Ok((u64::from(offset), u64::from(len)));
    }
    let broken = |at| FormatError::Unexpected { at, expected: "the 64-bit end of a zip archive" };
    let locator_at = at.checked_sub(LOCATOR64_BYTES).ok_or_else(|| broken(at))?;
    let locator: [u8; LOCATOR64_BYTES as usize] = array(bytes, locator_at)?;
    let end64_at = u64_at(&locator, 8);
    if !locator.starts_with(&LOCATOR64) || end64_at.checked_add(56).is_none_or(|end| end > bytes.len()) {
        return Err(broken(locator_at));
    }
    let end64: [u8; 56] = array(bytes, end64_at)?;
    if !end64.starts_with(&END64) {
        return Err(broken(end64_at));
    }
    Ok((u64_at(&end64, 48), u64_at(&end64, 40)))
}

/// The first entry of a directory, its name, and the rest.
fn entry(bytes: &[u8]) -> Option<(String, Entry, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
    if !fixed.starts_with(&ENTRY) {
        return None;
    }
    let (name, rest) = rest.split_at_checked(u16_at(fixed, 28).into())?;
    let (extra, rest) = rest.split_at_checked(u16_at(fixed, 30).into())?;
    let (_comment, rest) = rest.split_at_checked(u16_at(fixed, 32).into())?;
    let is_encrypted = u16_at(fixed, 8) & 1 != 0;
    let (method, packed, whole) = (u16_at(fixed, 10), u32_at(fixed, 20), u32_at(fixed, 24));
    let [whole, packed, header] = long_sizes([whole, packed, u32_at(fixed, 42)], extra)?;
    let is_plain = method == 0 && !is_encrypted && packed == whole;
    let name = String::from_utf8_lossy(name).into_owned();
    Some((name, Entry { header, bytes: whole, is_plain }, rest))
}

/// Sizes and offset; values that exceed 32 bits are read from the 64-bit fields behind.
fn long_sizes(short: [u32; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    const LONG_SIZES: u16 = 1;
    let mut long: &[u8] = &[];
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let (field, behind) = rest.split_at_checked(u16_at(head, 2).into())?;
        if u16_at(head, 0) == LONG_SIZES {
            long = field;
        }
        extra = behind;
    }
    let mut sizes = short.map(u64::from);
    for size in sizes.iter_mut().filter(|size| **size == u64::from(ELSEWHERE)) {
        let (first, rest) = long.split_first_chunk()?;
        *size = u64::from_le_bytes(*first);
        long = rest;
    }
    Some(sizes)
}

/// Numbers in records of known length; missing bytes read as 0.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
