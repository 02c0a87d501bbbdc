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

    /// Adds a line across all columns.
    pub fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// The table as a text that is at most `columns` wide: what has no place beside the first column follows in a block below,
    /// again behind the first column. A cell that is wider stays whole.
    pub fn within(&self, columns: Option<usize>) -> String {
        let Some(columns) = columns else { return self.to_string() };
        let widths = self.widths();
        let mut shown = (0..N).filter(|column| !self.hidden[*column]);
        let Some(first) = shown.next() else { return self.to_string() };
        let mut blocks = vec![Vec::new()];
        let mut width = widths[first];
        for column in shown {
            let more = GAP.len() + widths[column];
            if width + more > columns && blocks.last().is_some_and(|block| !block.is_empty()) {
                blocks.push(Vec::new());
                width = widths[first];
            }
            width += more;
            blocks.last_mut().into_iter().for_each(|block| block.push(column));
        }
        let texts = blocks.into_iter().map(|block| {
            let hidden = std::array::from_fn(|column| column != first && !block.contains(&column));
            Self { hidden, ..self.clone() }.to_string()
        });
        texts.collect::<Vec<_>>().join("\n")
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
        let shown = || widths.iter().zip(self.hidden).filter(|(_, hidden)| !hidden);
        let across =
            shown().map(|(width, _)| width).sum::<usize>() + GAP.len() * shown().count().saturating_sub(1);
        let line = |cells| self.line(cells, &widths, &[false; N]);
        if self.headings.iter().any(|heading| !heading.is_empty()) {
            writeln!(f, "{}", style(line(&self.headings)).dim())?;
        }
        for row in &self.rows {
            match row {
                Row::Strong(cells) => writeln!(f, "{}", style(line(cells)).bold())?,
                Row::Marked(cells, marks) => writeln!(f, "{}", self.line(cells, &widths, marks))?,
                Row::Rule => writeln!(f, "{}", style("─".repeat(across)).dim())?,
            }
        }
        Ok(())
    }
}

/// A line whose parts stand between ` · `, broken between two of them where it is longer than `columns`.
pub fn folded(line: &str, columns: Option<usize>) -> String {
    const DOT: &str = " · ";
    let columns = columns.unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut width = 0;
    for part in line.split(DOT) {
        let more = part.chars().count();
        if !text.is_empty() {
            let fits = width + DOT.chars().count() + more <= columns;
            text.push_str(if fits { DOT } else { "\n" });
            width = if fits { width + DOT.chars().count() } else { 0 };
        }
        text.push_str(part);
        width += more;
    }
    text
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
    fn a_table_that_is_too_wide_continues_below() {
        let mut table = Table::new(["name", "one", "two", "three"].map(Column::Right));
        table.row(["a", "1,000", "22", "333"].map(str::to_owned));
        table.row(["b", "1", "2", "3"].map(str::to_owned));
        assert_eq!(table.within(Some(23)), table.to_string());
        assert_eq!(table.within(None), table.to_string());
        insta::assert_snapshot!(table.within(Some(16)), @r"
        name    one  two
           a  1,000   22
           b      1    2

        name  three
           a    333
           b      3
        ");
        // No width is too small.
        assert_eq!(table.within(Some(1)).lines().map(str::len).max(), Some(11));
    }

    #[test]
    fn a_long_line_is_broken_between_its_parts() {
        assert_eq!(folded("one · two · three", Some(9)), "one · two\nthree");
        assert_eq!(folded("one · two · three", Some(1)), "one\ntwo\nthree");
        assert_eq!(folded("one · two · three", None), "one · two · three");
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
    fn pairs_without_a_text_are_left_out() {
        let text = pairs([("loss", Some("0.5".into())), ("accuracy", None), ("steps", Some("3".into()))]);
        assert_eq!(text, "loss   0.5\nsteps  3\n");
    }
}
