//! The encoding of headers: Thrift's [compact protocol](https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).

/// A cursor over encoded bytes. `None`: they end, or are no such encoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compact<'a>(pub(crate) &'a [u8]);

/// The number and the kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) id: i64,
    pub(crate) kind: u8,
}

pub(crate) const I32: u8 = 5;
pub(crate) const LIST: u8 = 9;
pub(crate) const STRUCT: u8 = 12;

/// Values within values.
const DEEPEST: usize = 32;

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// An unsigned integer.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A signed integer.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The next field of a structure after the one with the number `last`; the inner `None` at its end.
    pub(crate) fn field(&mut self, last: i64) -> Option<Option<Field>> {
        let head = self.byte()?;
        let (delta, kind) = (head >> 4, head & 0xf);
        if kind == 0 {
            return Some(None);
        }
        let id = if delta == 0 { self.signed()? } else { last.checked_add(i64::from(delta))? };
        Some(Some(Field { id, kind }))
    }

    /// The number of items of a list, and their kind.
    pub(crate) fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
        Some((count, head & 0xf))
    }

    /// Passes over a value of a field.
    pub(crate) fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, DEEPEST)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // Truth values, which the kind tells.
            1 | 2 => Some(()),
            4..=6 => self.unsigned().map(drop),
            3 => self.pass(1),
            7 => self.pass(8),
            8 => {
                let count = self.unsigned()?;
                self.pass(count)
            }
            LIST | 10 => {
                let (count, kind) = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, depth))
            }
            11 => {
                let count = self.unsigned()?;
                let kinds = if count == 0 { 0 } else { self.byte()? };
                (0..count).try_for_each(|_| {
                    self.skip_item(kinds >> 4, depth)?;
                    self.skip_item(kinds & 0xf, depth)
                })
            }
            STRUCT => {
                let mut last = 0;
                while let Some(Field { id, kind }) = self.field(last)? {
                    self.skip_within(kind, depth)?;
                    last = id;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Of a list or a map a truth value has a byte.
    fn skip_item(&mut self, kind: u8, depth: usize) -> Option<()> {
        if matches!(kind, 1 | 2) { self.pass(1) } else { self.skip_within(kind, depth) }
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }
}
