//! Texts with characters that a terminal obeys.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use oomph_core::Generator;

/// What a terminal obeys: it clears the screen, sets the title, hides or reorders what follows, moves back, begins a line.
const PIECES: &[&str] = &[
    "\u{1b}[2J",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]1337;File=x\u{7}",
    "\u{1b}[8m",
    "\u{1b}[31m",
    "\u{1b}[1A\u{1b}[2K",
    "\u{1b}Pq\u{1b}\\",
    "\u{1b}c",
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}[999999999m",
    "\u{9b}2J",
    "\u{9d}0;t\u{9c}",
    "\u{90}q",
    "\u{85}",
    "\u{80}\u{81}\u{99}\u{9f}",
    "\r",
    "\u{8}\u{8}\u{8}",
    "\u{7f}",
    "\u{b}\u{c}",
    "\u{1}\u{2}\u{4}\u{1a}",
    "\u{e}",
    "\u{202a}",
    "\u{202d}x\u{202c}",
    "\u{202e}gnp.exe",
    "\u{2066}\u{2069}",
    "\u{2067}",
    "\u{2068}",
    "\u{200e}\u{200f}",
    "\u{61c}",
    "\u{2028}",
    "\u{2029}",
    "\nerror: forged",
    "\n\u{1b}[2Jx",
    "\u{1b}[?1049h",
    "\u{1b}[6n",
    "\u{1b}(0",
    "\u{1b}_G\u{1b}\\",
    "\u{1b}]52;c;eA==\u{7}",
    "\u{1b}]8;;http://x\u{1b}\\x",
];

/// A text, of which some characters are obeyed by a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Its beginning, found again wherever the text is shown.
    pub(crate) tag: String,
    /// All of it.
    pub(crate) whole: String,
}

impl Text {
    /// The text of a number within a case.
    pub(crate) fn new(random: &mut Generator, case: usize, number: usize) -> Self {
        let tag = format!("t{case}n{number}");
        let mut whole = tag.clone();
        for _ in 0..=random.below(3) {
            whole += PIECES[random.below(PIECES.len())];
            whole += ["", "x", "y z"][random.below(3)];
        }
        Self { tag, whole }
    }

    /// The text as a name of a file; a part of them is no UTF-8.
    pub(crate) fn name(&self, random: &mut Generator) -> OsString {
        let mut bytes = self.whole.replace('/', "|").into_bytes();
        if random.chance(0.2) {
            bytes.extend(b"\xff\x9b\xc3");
        }
        OsString::from_vec(bytes)
    }

    /// The text on one line.
    pub(crate) fn line(&self) -> String {
        self.whole.replace('\n', " ")
    }

    /// The text as a string of TOML or JSON, which have the same escapes for what is needed here.
    pub(crate) fn quoted(&self) -> String {
        let escaped = |unit: u16| format!("\\u{unit:04x}");
        let escapes: String = self.whole.encode_utf16().map(escaped).collect();
        format!("\"{escapes}\"")
    }
}

/// A name followed by an ending.
pub(crate) fn with_ending(name: &OsString, ending: &str) -> OsString {
    OsString::from_vec([name.as_bytes(), ending.as_bytes()].concat())
}
