use std::io::{self, BufRead, BufReader, Read};

/// The longest line of a log that is held in memory. oomph writes shorter ones; another could be as long as memory.
pub(super) const MOST_LINE_BYTES: u64 = 1 << 20;
/// The longest line whose end is searched. What comes after a longer one is not read.
const MOST_SKIPPED_BYTES: u64 = 256 << 20;
/// What the first line of each process begins with.
const STARTED: &[u8] = br#"{"event":"started""#;

/// What may be read from a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// It is whole.
    Whole,
    /// It is whole, but longer than [`MOST_LINE_BYTES`], and only so much of it is here.
    TooLong,
    /// The log ends before the line does: its process was killed, or the disk was full.
    Torn,
    /// It has zeros, or comes after such a line of the same process: after a loss of power some file systems keep the length
    /// of a file and not its contents.
    Lost,
}

/// A line of a log, without its end.
#[derive(Debug)]
pub(super) struct Line {
    /// Where it begins in the file.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) state: LineState,
}

/// The lines of a log, one at a time: a log may be larger than memory.
pub(super) struct LogLines<R> {
    reader: BufReader<R>,
    end: u64,
    is_lost: bool,
    is_over: bool,
}

impl<R: Read> LogLines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), end: 0, is_lost: false, is_over: false }
    }

    /// The next line; `None` at the end of the log.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        if self.is_over {
            return Ok(None);
        }
        let start = self.end;
        let mut bytes = self.piece()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let is_long = !ends(&bytes) && bytes.len() as u64 == MOST_LINE_BYTES;
        let (mut has_zeros, mut is_whole) = (bytes.contains(&0), ends(&bytes));
        while is_long && !is_whole {
            let piece = self.piece()?;
            if piece.is_empty() {
                break;
            }
            has_zeros |= piece.contains(&0);
            is_whole = ends(&piece);
            if !is_whole && self.end - start > MOST_SKIPPED_BYTES {
                self.is_over = true;
                break;
            }
        }
        self.is_lost = has_zeros || self.is_lost && !bytes.starts_with(STARTED);
        let state = match () {
            () if self.is_lost => LineState::Lost,
            () if self.is_over => LineState::TooLong,
            () if !is_whole => LineState::Torn,
            () if is_long => LineState::TooLong,
            () => LineState::Whole,
        };
        if ends(&bytes) {
            bytes.pop();
        }
        Ok(Some(Line { start, bytes, state }))
    }

    /// The rest of a line, or as much of it as is held in memory.
    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.end += self.reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut bytes)? as u64;
        Ok(bytes)
    }
}

fn ends(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(log: &[u8]) -> Vec<(u64, LineState)> {
        let mut lines = LogLines::new(log);
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("bytes in memory") {
            found.push((line.start, line.state));
        }
        found
    }

    #[test]
    fn lines_after_zeros_are_lost_until_a_process_starts() {
        let log = b"{}\n\0\0}\n{}\n{\"event\":\"started\"}\n{}\n{";
        let expected = [
            (0, LineState::Whole),
            (3, LineState::Lost),
            (7, LineState::Lost),
            (10, LineState::Whole),
            (30, LineState::Whole),
            (33, LineState::Torn),
        ];
        assert_eq!(states(log), expected);
        assert_eq!(states(b""), []);
    }

    #[test]
    fn a_line_longer_than_memory_may_hold_is_one_line() {
        let long = b" ".repeat(3 * MOST_LINE_BYTES as usize);
        let log = [&long[..], b"\n{}\n", &long[..]].concat();
        let (second, third) = (long.len() as u64 + 1, long.len() as u64 + 4);
        let expected = [(0, LineState::TooLong), (second, LineState::Whole), (third, LineState::Torn)];
        assert_eq!(states(&log), expected);
    }
}
