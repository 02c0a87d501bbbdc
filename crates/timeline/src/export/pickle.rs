//! The part of Python's pickle format, protocol 2, that a memory snapshot needs.
//!
//! A pickle is a program for a stack machine. `}` and `]` push an empty dict or list, `(` a mark; `u` and `e` move
//! everything above the mark into the dict or list below it. `X` pushes a text, `K`, `M`, `J` and `\x8a` a number, `\x89` false.
//! `q` and `r` store the top of the stack under a number; `h` and `j` push it again, so repeated texts are written
//! once. `.` ends the pickle.

use std::{
    collections::HashMap,
    io::{self, Write},
};

/// PyTorch's viewer passes one batch of items as the arguments of one call.
const MOST_AT_ONCE: usize = 1_000;

/// The number of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note(u32);

/// Writes one value. Each method pushes one; the caller nests them.
pub(super) struct Pickler<'a> {
    out: &'a mut dyn Write,
    notes: u32,
    texts: HashMap<String, Note>,
}

impl<'a> Pickler<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(b"\x80\x02")?;
        Ok(Self { out, notes: 0, texts: HashMap::new() })
    }

    /// Ends the pickle. Its value is the one on the stack.
    pub(super) fn end(self) -> io::Result<()> {
        self.out.write_all(b".")
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&note) = self.texts.get(text) {
            return self.again(note);
        }
        self.out.write_all(b"X")?;
        // Texts of a timeline are names, far shorter than 4 GiB.
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(text.as_bytes())?;
        let note = self.note()?;
        self.texts.insert(text.to_owned(), note);
        Ok(())
    }

    pub(super) fn number(&mut self, number: u64) -> io::Result<()> {
        match number {
            0..=0xff => self.out.write_all(&[b'K', number as u8]),
            0x100..=0xffff => self.op(b'M', &(number as u16).to_le_bytes()),
            0x1_0000..=0x7fff_ffff => self.op(b'J', &(number as u32).to_le_bytes()),
            _ => {
                // Signed, in as few bytes as keep the sign.
                let length = (64 - number.leading_zeros()) as usize / 8 + 1;
                let bytes = u128::from(number).to_le_bytes();
                self.op(0x8a, &[length as u8])?;
                self.out.write_all(&bytes[..length])
            }
        }
    }

    pub(super) fn no(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x89")
    }

    pub(super) fn pair_of_zeros(&mut self) -> io::Result<()> {
        self.out.write_all(b"K\0K\0\x86")
    }

    pub(super) fn dict(&mut self, entries: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.out.write_all(b"}(")?;
        entries(self)?;
        self.out.write_all(b"u")
    }

    /// Each of `items` is pushed by `push`.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut push: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.out.write_all(b"]")?;
        let mut since_mark = 0;
        for item in items {
            if since_mark == 0 {
                self.out.write_all(b"(")?;
            }
            push(self, item)?;
            since_mark += 1;
            if since_mark == MOST_AT_ONCE {
                self.out.write_all(b"e")?;
                since_mark = 0;
            }
        }
        if since_mark > 0 { self.out.write_all(b"e") } else { Ok(()) }
    }

    /// Stores the top of the stack.
    pub(super) fn note(&mut self) -> io::Result<Note> {
        let note = Note(self.notes);
        self.notes += 1;
        match u8::try_from(note.0) {
            Ok(short) => self.op(b'q', &[short])?,
            Err(_) => self.op(b'r', &note.0.to_le_bytes())?,
        }
        Ok(note)
    }

    /// Pushes a stored value.
    pub(super) fn again(&mut self, note: Note) -> io::Result<()> {
        match u8::try_from(note.0) {
            Ok(short) => self.op(b'h', &[short]),
            Err(_) => self.op(b'j', &note.0.to_le_bytes()),
        }
    }

    fn op(&mut self, code: u8, argument: &[u8]) -> io::Result<()> {
        self.out.write_all(&[code])?;
        self.out.write_all(argument)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pickled(push: impl FnOnce(&mut Pickler<'_>) -> io::Result<()>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut pickler = Pickler::new(&mut out).unwrap();
        push(&mut pickler).unwrap();
        pickler.end().unwrap();
        out
    }

    #[test]
    fn numbers_take_as_few_bytes_as_keep_them_positive() {
        let body = |number| {
            let bytes = pickled(|it| it.number(number));
            bytes[2..bytes.len() - 1].to_vec()
        };
        assert_eq!(body(255), b"K\xff");
        assert_eq!(body(256), b"M\x00\x01");
        assert_eq!(body(0x7fff_ffff), b"J\xff\xff\xff\x7f");
        assert_eq!(body(0x8000_0000), b"\x8a\x05\0\0\0\x80\0");
        assert_eq!(body(u64::MAX), b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0");
    }

    #[test]
    fn a_text_is_written_once() {
        let bytes = pickled(|it| it.list(["ab", "ab"], Pickler::text));
        assert_eq!(bytes, b"\x80\x02](X\x02\0\0\0abq\x00h\x00e.");
    }

    #[test]
    fn long_lists_are_appended_in_parts() {
        let bytes = pickled(|it| it.list(0..2_500, |it, _| it.no()));
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'e').count(), 3);
        assert_eq!(bytes.iter().filter(|&&byte| byte == 0x89).count(), 2_500);
    }
}
