use std::fmt;

use console::style;

use crate::notices::printable;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table of `N` columns for stdout. Each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    align: [Align; N],
    rows: Vec<Row<N>>,
    /// The columns that are not shown.
    hidden: [bool; N],
}

#[derive(Clone, Debug)]
enum Row<const N: usize> {
    Heading([String; N]),
    Plain([String; N]),
    Strong([String; N]),
    /// Some of its cells are bold.
    Marked([String; N], [bool; N]),
    Rule,
}

const GAP: &str = "  ";

impl<const N: usize> Table<N> {
    pub(crate) fn new(align: [Align; N]) -> Self {
        Self { align, rows: Vec::new(), hidden: [false; N] }
    }

    /// Adds the names of the columns.
    pub(crate) fn heading(&mut self, cells: [&str; N]) {
        self.rows.push(Row::Heading(cells.map(str::to_owned)));
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(Row::Plain(cells));
    }

    /// Adds a bold row.
    pub(crate) fn strong(&mut self, cells: [String; N]) {
        self.rows.push(Row::Strong(cells));
    }

    /// Adds a row with the marked cells bold.
    pub(crate) fn marked(&mut self, cells: [String; N], marks: [bool; N]) {
        self.rows.push(Row::Marked(cells, marks));
    }

    /// Hides the columns that are empty in all rows.
    #[must_use]
    pub(crate) fn without_empty_columns(mut self) -> Self {
        for column in 0..N {
            let is_empty = |row: &Row<N>| match row {
                Row::Plain(cells) | Row::Strong(cells) | Row::Marked(cells, _) => cells[column].is_empty(),
                Row::Heading(_) | Row::Rule => true,
            };
            self.hidden[column] = self.rows.iter().all(is_empty);
        }
        self
    }

    /// Hides a column.
    #[must_use]
    pub(crate) fn without_column(mut self, column: usize) -> Self {
        self.hidden[column] = true;
        self
    }

    /// Adds a line across all columns.
    pub(crate) fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    fn widths(&self) -> [usize; N] {
        let mut widths = [0; N];
        for row in &self.rows {
            if let Row::Heading(cells) | Row::Plain(cells) | Row::Strong(cells) | Row::Marked(cells, _) = row
            {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = cell.chars().count().max(*width);
                }
            }
        }
        widths
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N], marks: &[bool; N]) -> String {
        let shown = (0..N).filter(|column| !self.hidden[*column]);
        let padded = shown.map(|column| {
            let (cell, width) = (&cells[column], widths[column]);
            let padded = match self.align[column] {
                Align::Left => format!("{cell:width$}"),
                Align::Right => format!("{cell:>width$}"),
            };
            if marks[column] { style(padded).bold().to_string() } else { padded }
        });
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let shown = || widths.iter().zip(self.hidden).filter(|(_, hidden)| !hidden);
        let across =
            shown().map(|(width, _)| width).sum::<usize>() + GAP.len() * shown().count().saturating_sub(1);
        let line = |cells| self.line(cells, &widths, &[false; N]);
        for row in &self.rows {
            match row {
                Row::Heading(cells) => writeln!(f, "{}", style(line(cells)).dim())?,
                Row::Plain(cells) => writeln!(f, "{}", line(cells))?,
                Row::Strong(cells) => writeln!(f, "{}", style(line(cells)).bold())?,
                Row::Marked(cells, marks) => writeln!(f, "{}", self.line(cells, &widths, marks))?,
                Row::Rule => writeln!(f, "{}", style("─".repeat(across)).dim())?,
            }
        }
        Ok(())
    }
}

/// Names and texts, one pair a line, with the texts aligned. Pairs without a text are left out.
pub(crate) fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let rows: Vec<_> = rows.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    // A path may contain control characters.
    rows.into_iter().map(|(name, text)| format!("{name:width$}  {}\n", printable(&text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Left]);
        table.heading(["layer", "n", "shape"]);
        table.row(["a".into(), "1,000".into(), "2×3".into()]);
        table.rule();
        table.row(["total".into(), "7".into(), String::new()]);
        insta::assert_snapshot!(table.to_string(), @r"
        layer      n  shape
        a      1,000  2×3
        ───────────────────
        total      7
        ");
    }

    #[test]
    fn columns_without_anything_can_be_left_out() {
        let mut table = Table::new([Align::Left, Align::Right, Align::Right]);
        table.heading(["name", "batch", "n"]);
        table.marked(["a".into(), String::new(), "12".into()], [false; 3]);
        table.row(["b".into(), String::new(), "7".into()]);
        table.rule();
        insta::assert_snapshot!(table.without_empty_columns().to_string(), @r"
        name   n
        a     12
        b      7
        ────────
        ");
    }

    #[test]
    fn pairs_without_a_text_are_left_out() {
        let text = pairs([("loss", Some("0.5".into())), ("accuracy", None), ("steps", Some("3".into()))]);
        assert_eq!(text, "loss   0.5\nsteps  3\n");
    }
}
