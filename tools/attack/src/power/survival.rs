//! What a loss of power leaves of data that was written and not flushed.
//!
//! A file system writes data by pages, in any order, and the new length of a file may come before its data. The missing
//! pages of a file that grew are zeros then. Pages of a file that did not grow keep their earlier bytes.

use std::{ops::Range, sync::Arc};

/// What is left of a file's pending data. The page numbers count from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    /// The new length, and none of the new bytes.
    Zeros,
    /// Everything.
    Everything,
    /// The new length, and the new pages before this one.
    Before(usize),
    /// The new length, and all new pages but this one.
    Without(usize),
    /// The new length, and of the new pages only this one.
    Only(usize),
    /// The new length; the last page is as it was after an earlier write.
    Stale(usize),
    /// The first bytes, and this length.
    Cut(usize),
}

const PAGE: usize = 4096;

/// The most pages of a file that are lost one by one.
const MOST_PAGES: usize = 6;

/// The bytes that are left of a file. `versions` has what it held at its last flush, and after each write since.
pub(super) fn survived(versions: &[Arc<Vec<u8>>], survival: Survival) -> Vec<u8> {
    let (Some(first), Some(last)) = (versions.first(), versions.last()) else { return Vec::new() };
    let length = last.len();
    let pages = |kept: &dyn Fn(usize) -> bool| {
        let mut bytes = resized(first, length);
        for page in (0..length.div_ceil(PAGE)).filter(|page| kept(*page)) {
            bytes[span(page, length)].copy_from_slice(&last[span(page, length)]);
        }
        bytes
    };
    match survival {
        Survival::Zeros => pages(&|_| false),
        Survival::Everything => last.to_vec(),
        Survival::Before(end) => pages(&|page| page < end),
        Survival::Without(lost) => pages(&|page| page != lost),
        Survival::Only(kept) => pages(&|page| page == kept),
        Survival::Stale(version) => {
            let mut bytes = last.to_vec();
            let place = span(length.saturating_sub(1) / PAGE, length);
            let stale = resized(versions.get(version).unwrap_or(last), length);
            bytes[place.clone()].copy_from_slice(&stale[place]);
            bytes
        }
        Survival::Cut(length) => last[..length.min(last.len())].to_vec(),
    }
}

/// What may be left of a file, besides nothing: the cases that programs are known to fail at.
pub(super) fn survivals(versions: &[Arc<Vec<u8>>]) -> Vec<Survival> {
    let (Some(first), Some(last)) = (versions.first(), versions.last()) else { return Vec::new() };
    let length = last.len();
    let before = resized(first, length);
    let is_new = |page: &usize| before[span(*page, length)] != last[span(*page, length)];
    let new: Vec<_> = (0..length.div_ceil(PAGE)).filter(is_new).collect();
    let mut survivals = vec![Survival::Zeros, Survival::Everything];
    for page in spread(&new) {
        survivals.extend([Survival::Before(page), Survival::Without(page), Survival::Only(page)]);
    }
    survivals.extend(spread(&(1..versions.len() - 1).collect::<Vec<_>>()).map(Survival::Stale));
    let written = first.len().min(length)..length;
    if !written.is_empty() {
        survivals.push(Survival::Cut(usize::midpoint(written.start, written.end)));
        survivals.push(Survival::Cut(length - 1));
    }
    survivals
}

/// Some of the values: the first, the last, and others between them.
fn spread(values: &[usize]) -> impl Iterator<Item = usize> {
    let count = values.len().min(MOST_PAGES);
    let place = move |number: usize| number * (values.len() - 1) / (count - 1).max(1);
    (0..count).map(move |number| values[place(number)])
}

fn span(page: usize, length: usize) -> Range<usize> {
    (page * PAGE).min(length)..((page + 1) * PAGE).min(length)
}

fn resized(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len().min(length)].to_vec();
    bytes.resize(length, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown() -> Vec<Arc<Vec<u8>>> {
        // On the disk are 3 bytes; the file grew to 5000 and then to 9000.
        [3, 5000, 9000].map(|length| Arc::new(vec![b'x'; length])).to_vec()
    }

    fn places(survival: Survival) -> (usize, usize) {
        let bytes = survived(&grown(), survival);
        (bytes.len(), bytes.iter().filter(|byte| **byte == b'x').count())
    }

    #[test]
    fn pages_that_are_lost_are_zeros() {
        assert_eq!(places(Survival::Everything), (9000, 9000));
        assert_eq!(places(Survival::Zeros), (9000, 3));
        assert_eq!(places(Survival::Before(1)), (9000, 4096));
        assert_eq!(places(Survival::Only(1)), (9000, 4096 + 3));
        assert_eq!(places(Survival::Without(2)), (9000, 8192));
        assert_eq!(places(Survival::Stale(1)), (9000, 8192));
        assert_eq!(places(Survival::Cut(4500)), (4500, 4500));
    }

    #[test]
    fn a_file_that_shrank_keeps_earlier_bytes() {
        let shrunk: Vec<_> =
            [&b"12345"[..], b"", b"67"].iter().map(|bytes| Arc::new(bytes.to_vec())).collect();
        assert_eq!(survived(&shrunk, Survival::Zeros), b"12");
        assert_eq!(survived(&shrunk, Survival::Everything), b"67");
    }

    #[test]
    fn each_survival_is_of_a_page_that_is_new() {
        let survivals = survivals(&grown());
        assert!(survivals.contains(&Survival::Without(2)) && survivals.contains(&Survival::Stale(1)));
        assert!(!survivals.contains(&Survival::Without(3)));
    }
}
