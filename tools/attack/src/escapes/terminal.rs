//! Commands on a pseudo-terminal.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{FromRawFd, OwnedFd},
    ptr, thread,
    time::Duration,
};

use crate::{Answer, answer::Program};

/// Runs a command whose output is a terminal: its answer, and what it wrote to the terminal.
pub(crate) fn run(mut program: Program, limit: Duration) -> io::Result<(Answer, Vec<u8>)> {
    let (ours, theirs) = open()?;
    let errors = theirs.try_clone()?;
    let child = program.command().env("TERM", "xterm-256color").stdout(theirs).stderr(errors).spawn()?;
    // The terminal ends when nobody has its other side open, and the command has.
    drop(program);
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before the end is kept; Linux says EIO there.
        let _ = File::from(ours).read_to_end(&mut bytes);
        bytes
    });
    let answer = Answer::of(child, limit)?;
    Ok((answer, reading.join().unwrap_or_default()))
}

/// Both sides of a new terminal. No other command inherits them.
fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointers are to live numbers and a live size, or null where the call allows it.
    let opened = unsafe { libc::openpty(&mut ours, &mut theirs, ptr::null_mut(), ptr::null(), &size) };
    if opened != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave both descriptors to us, and nobody else closes them.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    for side in [&ours, &theirs] {
        use std::os::fd::AsRawFd;
        // SAFETY: the call takes three numbers; the descriptor is open.
        unsafe { libc::fcntl(side.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok((ours, theirs))
}

/// What a terminal obeys and a progress bar or a colour does not need.
pub(crate) fn harm(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    while let Some(at) = rest.find(oomph_core::is_unprintable) {
        rest = &rest[at..];
        match own_length(rest) {
            Some(length) => rest = &rest[length..],
            None => {
                let shown: String = rest.chars().take(30).collect();
                return Some(format!("a terminal gets raw: {}", oomph_core::printable(shown)));
            }
        }
    }
    None
}

/// The length of what oomph itself writes at the start of a text: ends of lines, styles, moves and erasures in a line.
fn own_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if matches!(first, '\n' | '\r' | '\t') {
        return Some(1);
    }
    let sequence = text.strip_prefix("\u{1b}[")?;
    let end = sequence.find(|character: char| !matches!(character, '0'..='9' | ';' | '?'))?;
    let (numbers, last) = (&sequence[..end], sequence[end..].chars().next()?);
    let is_own = match last {
        // 8 hides.
        'm' => numbers.split(';').all(|number| number != "8" && number.len() <= 3),
        'K' | 'A' | 'B' | 'D' | 'G' => true,
        'J' => !matches!(numbers, "2" | "3"),
        'h' | 'l' => numbers == "?25",
        _ => false,
    };
    is_own.then_some("\u{1b}[".len() + end + 1)
}
