//! A report that is drawn over the previous one.

use std::io;

use console::{Term, truncate_str};

use crate::{echo, stream};

/// Draws each report over the previous one on stdout. Dropping it restores the terminal; the last report stays.
#[derive(Debug)]
pub struct Screen {
    term: Term,
    /// The number of lines on the screen.
    lines: usize,
}

impl Screen {
    /// A screen, if stdout is a terminal that can move the cursor up.
    pub fn open() -> Option<Self> {
        let term = Term::buffered_stdout();
        let draws = term.is_term() && std::env::var_os("TERM").is_none_or(|name| name != "dumb");
        draws.then(|| {
            echo::hide_control_keys();
            // A cursor that cannot be hidden only blinks.
            let _ = term.hide_cursor();
            Self { term, lines: 0 }
        })
    }

    /// Draws a report, cut to the terminal: wrapped or scrolled lines could not be drawn over.
    ///
    /// # Errors
    /// The terminal is closed.
    pub fn draw(&mut self, report: &str) -> io::Result<()> {
        let (rows, columns) = self.term.size();
        let shown = fitting(&stream::shown(report), usize::from(rows), usize::from(columns));
        // Erasing and drawing are one write, so that the terminal does not flicker.
        self.erase()?;
        self.lines = shown.lines().count();
        self.term.write_str(&shown).and_then(|()| self.term.flush())
    }

    /// Erases the report.
    ///
    /// # Errors
    /// The terminal is closed.
    pub fn clear(&mut self) -> io::Result<()> {
        self.erase()?;
        self.term.flush()
    }

    fn erase(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        if lines == 0 {
            return Ok(());
        }
        let up = self.term.move_cursor_up(lines);
        up.and_then(|()| self.term.clear_to_end_of_screen())
    }
}

/// Restores the terminal; the last report stays.
impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no cursor.
        let _ = self.term.show_cursor().and_then(|()| self.term.flush());
        echo::restore();
    }
}

fn fitting(report: &str, rows: usize, columns: usize) -> String {
    let all: Vec<&str> = report.lines().collect();
    // The cursor needs a line below the report.
    let room = rows.saturating_sub(1).max(2);
    let cut = |line: &&str| truncate_str(line, columns, "…").into_owned() + "\n";
    if all.len() <= room {
        return all.iter().map(cut).collect();
    }
    let shown: String = all.iter().take(room - 1).map(cut).collect();
    format!("{shown}… {} more lines\n", all.len() - (room - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_cut_to_the_terminal() {
        assert_eq!(fitting("one\ntwo\n", 10, 80), "one\ntwo\n");
        assert_eq!(fitting("a long line\n", 10, 6), "a lon…\n");
        assert_eq!(fitting("1\n2\n3\n4\n", 4, 80), "1\n2\n… 2 more lines\n");
    }
}
