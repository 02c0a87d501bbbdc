//! How a child process ended, in words.

use std::io::Read;

use crate::printable;

/// Reads a stream to its end and returns the last 4 KiB.
pub fn tail(stream: &mut dyn Read) -> String {
    const MOST: usize = 4096;
    let (mut kept, mut buffer) = (Vec::new(), [0; MOST]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(MOST));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// The last line of a process's stderr, in brackets after a space; empty without one.
pub fn last_line(stderr: &str) -> String {
    let last = stderr.lines().rfind(|line| !line.trim().is_empty());
    last.map(|line| format!(" ({})", printable(line.trim()))).unwrap_or_default()
}

/// That a signal ended a process, and why it may have.
///
/// ```
/// use oomph_core::child::killed_by;
/// assert_eq!(killed_by(11, "a\nlast words\n"), "its process was killed by signal 11 (last words)");
/// ```
pub fn killed_by(signal: i32, stderr: &str) -> String {
    const SIGKILL: i32 = 9;
    let reason = if signal == SIGKILL { ", probably because the machine ran out of memory" } else { "" };
    format!("its process was killed by signal {signal}{reason}{}", last_line(stderr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_stream_is_kept() {
        let text = format!("{}\nthe end\n", "x".repeat(10_000));
        let kept = tail(&mut text.as_bytes());
        assert!(kept.len() <= 4096 && kept.ends_with("\nthe end"), "{}", kept.len());
        assert_eq!(last_line(&kept), " (the end)");
        assert_eq!(last_line("\n \n"), "");
    }
}
