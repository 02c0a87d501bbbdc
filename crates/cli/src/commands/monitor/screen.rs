use console::{Term, truncate_str};

use crate::{echo, error::CliError};

/// A report that is drawn over the one before, on standard output.
pub(super) struct Screen {
    term: Term,
    /// Lines of the report that is shown.
    lines: usize,
}

impl Screen {
    /// Where standard output is a terminal that can go back to a line it has written.
    pub(super) fn open() -> Option<Self> {
        let term = Term::buffered_stdout();
        let draws = term.is_term() && std::env::var_os("TERM").is_none_or(|name| name != "dumb");
        draws.then(|| {
            echo::hide_control_keys();
            // Where it cannot be hidden it blinks, and that is all.
            let _ = term.hide_cursor();
            Self { term, lines: 0 }
        })
    }

    /// Draws a report, cut to what fits: lines that wrap or scroll away could not be drawn over.
    pub(super) fn draw(&mut self, report: &str) -> Result<(), CliError> {
        let (rows, columns) = self.term.size();
        let shown = fitting(report, usize::from(rows), usize::from(columns));
        // One write for both: otherwise the terminal may show the gap between them.
        self.erase()?;
        self.lines = shown.lines().count();
        self.term.write_str(&shown).and_then(|()| self.term.flush()).map_err(CliError::Output)
    }

    /// Takes the report away, so that something else may be written.
    pub(super) fn clear(&mut self) -> Result<(), CliError> {
        self.erase()?;
        self.term.flush().map_err(CliError::Output)
    }

    fn erase(&mut self) -> Result<(), CliError> {
        let lines = std::mem::take(&mut self.lines);
        if lines == 0 {
            return Ok(());
        }
        let up = self.term.move_cursor_up(lines);
        up.and_then(|()| self.term.clear_to_end_of_screen()).map_err(CliError::Output)
    }
}

/// What was drawn last stays; the terminal is as it was.
impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no cursor.
        let _ = self.term.show_cursor().and_then(|()| self.term.flush());
        echo::restore();
    }
}

fn fitting(report: &str, rows: usize, columns: usize) -> String {
    let all: Vec<&str> = report.lines().collect();
    // The cursor stands below the last line.
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
