//! Tables, and pairs of names and values.

use std::fmt;

use console::style;

use oomph_core::printable;

/// A column by its alignment, with its heading.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Its cells begin at its left edge.
    Left(&'a str),
    /// Its cells end at its right edge.
    Right(&'a str),
}

/// A table of `N` columns for stdout. Each column is as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    headings: [String; N],
    is_right: [bool; N],
    rows: Vec<Row<N>>,
    /// The columns that are not shown.
    hidden: [bool; N],
}

#[derive(Clone, Debug)]
enum Row<const N: usize> {
    Strong([String; N]),
    /// The marked cells are bold.
    Marked([String; N], [bool; N]),
    Rule,
}

const GAP: &str = "  ";

impl<const N: usize> Table<N> {
    /// A table without rows. If all headings are empty, none are shown.
    pub fn new(columns: [Column<'_>; N]) -> Self {
        Self {
            headings: columns.map(|(Column::Left(heading) | Column::Right(heading))| printable(heading)),
            is_right: columns.map(|column| matches!(column, Column::Right(_))),
            rows: Vec::new(),
            hidden: [false; N],
        }
    }

    /// Adds a row. Its cells may come from outside.
    pub fn row(&mut self, cells: [String; N]) {
        self.marked(cells, [false; N]);
    }

    /// Adds a bold row.
    pub fn strong(&mut self, cells: [String; N]) {
        self.rows.push(Row::Strong(cells.map(printable)));
    }

    /// Adds a row with the marked cells bold.
    pub fn marked(&mut self, cells: [String; N], marks: [bool; N]) {
        self.rows.push(Row::Marked(cells.map(printable), marks));
    }

    /// Hides the columns that are empty in all rows.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        self.hidden = std::array::from_fn(|column| self.cells().all(|cells| cells[column].is_empty()));
        self
    }

    /// Hides a column.
    #[must_use]
    pub fn without_column(mut self, column: usize) -> Self {
        self.hidden[column] = true;
        self
    }

    /// Hides columns in this order, until a line has at most `width` characters or all of them are hidden. `None`: no
    /// limit, as of a file or a pipe.
    #[must_use]
    pub fn within(mut self, width: Option<usize>, order: &[usize]) -> Self {
        let mut order = order.iter();
        while width.is_some_and(|width| self.across(&self.widths()) > width)
            && let Some(column) = order.next()
        {
            self.hidden[*column] = true;
        }
        self
    }

    /// Adds a line across all columns.
    pub fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// The cells of each row.
    fn cells(&self) -> impl Iterator<Item = &[String; N]> {
        self.rows.iter().filter_map(|row| match row {
            Row::Strong(cells) | Row::Marked(cells, _) => Some(cells),
            Row::Rule => None,
        })
    }

    fn widths(&self) -> [usize; N] {
        let width = |column: usize| {
            let cells = std::iter::once(&self.headings).chain(self.cells());
            cells.map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        };
        std::array::from_fn(width)
    }

    /// The characters of a line.
    fn across(&self, widths: &[usize; N]) -> usize {
        let shown = || widths.iter().zip(self.hidden).filter(|(_, hidden)| !hidden);
        shown().map(|(width, _)| width).sum::<usize>() + GAP.len() * shown().count().saturating_sub(1)
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N], marks: &[bool; N]) -> String {
        let shown = (0..N).filter(|column| !self.hidden[*column]);
        let padded = shown.map(|column| {
            let (cell, width) = (&cells[column], widths[column]);
            let padded =
                if self.is_right[column] { format!("{cell:>width$}") } else { format!("{cell:width$}") };
            if marks[column] { style(padded).bold().to_string() } else { padded }
        });
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let line = |cells| self.line(cells, &widths, &[false; N]);
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            writeln!(f, "{}", style(line(&self.headings)).dim())?;
        }
        for row in &self.rows {
            match row {
                Row::Strong(cells) => writeln!(f, "{}", style(line(cells)).bold())?,
                Row::Marked(cells, marks) => writeln!(f, "{}", self.line(cells, &widths, marks))?,
                Row::Rule => writeln!(f, "{}", style("─".repeat(self.across(&widths))).dim())?,
            }
        }
        Ok(())
    }
}

/// Names and texts, one pair a line, with the texts aligned. Pairs without a text are left out.
pub fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let rows: Vec<_> = rows.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    // A path may contain control characters.
    rows.into_iter().map(|(name, text)| format!("{name:width$}  {}\n", printable(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([Column::Left("layer"), Column::Right("n"), Column::Left("shape")]);
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
        let mut table = Table::new([Column::Left("name"), Column::Right("batch"), Column::Right("n")]);
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
    fn a_narrow_terminal_hides_columns_in_the_given_order_until_the_rest_fits() {
        let table = || {
            let columns = ["run", "loss", "time", "date"].map(Column::Left);
            let mut table = Table::new(columns);
            table.row(["runs/a", "0.25", "7.0 s", "2026-11-26"].map(String::from));
            table
        };
        let heading = |width| {
            let text = table().within(width, &[3, 2, 1]).to_string();
            text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(heading(None), "run loss time date");
        assert_eq!(heading(Some(31)), "run loss time date");
        assert_eq!(heading(Some(30)), "run loss time");
        assert_eq!(heading(Some(12)), "run loss");
        assert_eq!(heading(Some(3)), "run");
    }

    #[test]
    fn pairs_without_a_text_are_left_out() {
        let text = pairs([("loss", Some("0.5".into())), ("accuracy", None), ("steps", Some("3".into()))]);
        assert_eq!(text, "loss   0.5\nsteps  3\n");
    }
}
