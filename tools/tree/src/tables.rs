//! Measured tables and headline figures: data in `docs/tables/NAME.json`, shown in pages between markers.
//!
//! A page holds a table between `<!-- table:NAME -->` and `<!-- end -->`, each alone on its line. Behind the name,
//! `columns=1,3-5` and `rows=1-8` take a part, counted from 1; `plain` leaves out the line about the machine.
//! `<!-- figure:NAME.KEY -->0.65 %<!-- end -->` shows a figure within a line. Fenced code is left alone.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::Tree;

const FOLDER: &str = "docs/tables";
const TABLE: &str = "<!-- table:";
const FIGURE: &str = "<!-- figure:";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// Text.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its head.
    pub title: String,
    /// How its cells are aligned.
    #[serde(default)]
    pub align: Align,
}

/// A measured table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Where it was measured.
    pub machine: String,
    /// When, as `2026-11-22`.
    pub date: String,
    /// The command that measures it.
    pub command: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its cells as they are shown.
    pub rows: Vec<Vec<String>>,
    /// Headline figures by name, as they are shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, String>,
}

impl Table {
    /// A table without rows. A title that begins with `>` is that of a column of numbers.
    pub fn new(command: impl Into<String>, titles: &[&str]) -> Self {
        let column = |title: &&str| match title.strip_prefix('>') {
            Some(title) => Column { title: title.to_owned(), align: Align::Right },
            None => Column { title: (*title).to_owned(), align: Align::Left },
        };
        Self { command: command.into(), columns: titles.iter().map(column).collect(), ..Self::default() }
    }

    /// The two lines at its head.
    pub fn head(&self) -> String {
        let titles: Vec<_> = self.columns.iter().map(|column| column.title.clone()).collect();
        let rules = self.columns.iter().map(|column| match column.align {
            Align::Left => "---",
            Align::Right => "---:",
        });
        format!("{}\n|{}|", line(&titles), rules.collect::<Vec<_>>().join("|"))
    }

    /// Adds a row and gives its line.
    pub fn add(&mut self, row: Vec<String>) -> String {
        let shown = line(&row);
        self.rows.push(row);
        shown
    }

    /// The whole table, with the line about the machine unless `plain`.
    fn markdown(&self, options: &Options) -> String {
        let columns = options.columns.clone().unwrap_or_else(|| (0..self.columns.len()).collect());
        let rows = options.rows.clone().unwrap_or_else(|| (0..self.rows.len()).collect());
        let cells = |row: &[String]| -> Vec<String> {
            columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        let taken = Self {
            columns: columns.iter().filter_map(|column| self.columns.get(*column).cloned()).collect(),
            ..Self::default()
        };
        let mut text = taken.head() + "\n";
        for row in rows.iter().filter_map(|row| self.rows.get(*row)) {
            text += &(line(&cells(row)) + "\n");
        }
        if !options.is_plain {
            text += &format!("\n_{}, {}: `{}`_\n", self.machine, self.date, self.command);
        }
        text
    }

    /// Reads `docs/tables/{name}.json`.
    ///
    /// # Errors
    ///
    /// If it is missing or is no table.
    pub fn read(tree: &Tree, name: &str) -> io::Result<Self> {
        let path = path(tree, name);
        let text = fs::read_to_string(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot read `{}`: {error}", path.display()))
        })?;
        serde_json::from_str(&text)
            .map_err(|error| io::Error::other(format!("`{}` is no table: {error}", path.display())))
    }

    /// Writes `docs/tables/{name}.json` and gives its path.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, tree: &Tree, name: &str) -> io::Result<PathBuf> {
        let path = path(tree, name);
        fs::create_dir_all(tree.root().join(FOLDER))?;
        fs::write(&path, self.json()?)?;
        Ok(path)
    }

    /// One row a line, so that a change of a row is a change of a line.
    fn json(&self) -> io::Result<String> {
        let list = |items: Vec<String>| format!("[\n    {}\n  ]", items.join(",\n    "));
        let columns = self.columns.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let rows = self.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        Ok(format!(
            "{{\n  \"machine\": {},\n  \"date\": {},\n  \"command\": {},\n  \"columns\": {},\n  \"rows\": {},\n  \"figures\": {}\n}}\n",
            serde_json::to_string(&self.machine)?,
            serde_json::to_string(&self.date)?,
            serde_json::to_string(&self.command)?,
            list(columns),
            list(rows),
            serde_json::to_string(&self.figures)?,
        ))
    }
}

fn path(tree: &Tree, name: &str) -> PathBuf {
    tree.root().join(FOLDER).join(format!("{name}.json"))
}

fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// What stands behind a table's name.
#[derive(Debug, Default)]
struct Options {
    columns: Option<Vec<usize>>,
    rows: Option<Vec<usize>>,
    is_plain: bool,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            match word.split_once('=') {
                Some(("columns", list)) => options.columns = Some(indices(list)?),
                Some(("rows", list)) => options.rows = Some(indices(list)?),
                None if *word == "plain" => options.is_plain = true,
                _ => {
                    return Err(format!(
                        "unknown option `{word}`; expected `columns=…`, `rows=…` or `plain`"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// `1,3-5` as indices from 0.
fn indices(list: &str) -> Result<Vec<usize>, String> {
    let number = |text: &str| text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let mut indices = Vec::new();
    for item in list.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => indices.extend(first..=last),
            _ => return Err(format!("`{item}` is no number or range, counted from 1")),
        }
    }
    Ok(indices)
}

/// A page with its tables and figures filled in. `table` reads a table by name.
///
/// # Errors
///
/// For each marker without data or without an end: its line, and a message.
pub fn filled(page: &str, table: impl Fn(&str) -> io::Result<Table>) -> Result<String, Vec<(usize, String)>> {
    let (mut text, mut errors) = (String::new(), Vec::new());
    let mut is_code = false;
    let mut lines = (1..).zip(page.lines());
    while let Some((number, content)) = lines.next() {
        is_code ^= content.trim_start().starts_with("```");
        let marker = content.strip_prefix(TABLE).and_then(|rest| rest.strip_suffix(CLOSE));
        match marker.filter(|_| !is_code) {
            Some(marker) => match block(marker, &table) {
                Ok(block) if lines.by_ref().any(|(_, line)| line == END) => {
                    text += &format!("{content}\n\n{block}\n{END}\n");
                }
                Ok(_) => errors.push((number, format!("`table:{marker}` has no `{END}`"))),
                Err(error) => errors.push((number, error)),
            },
            None if is_code => text += &format!("{content}\n"),
            None => match figures(content, &table) {
                Ok(line) => text += &format!("{line}\n"),
                Err(error) => errors.push((number, error)),
            },
        }
    }
    if errors.is_empty() { Ok(text) } else { Err(errors) }
}

fn block(marker: &str, table: &impl Fn(&str) -> io::Result<Table>) -> Result<String, String> {
    let words: Vec<_> = marker.split_whitespace().collect();
    let Some((name, options)) = words.split_first() else { return Err("a table without a name".into()) };
    let options = Options::read(options)?;
    let table = table(name).map_err(|error| error.to_string())?;
    Ok(table.markdown(&options))
}

/// A line with its figures filled in.
fn figures(line: &str, table: &impl Fn(&str) -> io::Result<Table>) -> Result<String, String> {
    let Some((before, rest)) = line.split_once(FIGURE) else { return Ok(line.to_owned()) };
    let unended = || format!("a figure without `{END}` on its line");
    let (name, rest) = rest.split_once(CLOSE).ok_or_else(unended)?;
    let (_, rest) = rest.split_once(END).ok_or_else(unended)?;
    let (of, key) = name.split_once('.').ok_or_else(|| format!("`{name}` is no `TABLE.KEY`"))?;
    let data = table(of).map_err(|error| error.to_string())?;
    let value = data.figures.get(key).ok_or_else(|| format!("`{FOLDER}/{of}.json` has no figure `{key}`"))?;
    Ok(format!("{before}{FIGURE}{name}{CLOSE}{value}{END}{}", figures(rest, table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> io::Result<Table> {
        if name != "speed" {
            return Err(io::Error::other("no such table"));
        }
        let mut table = Table::new("cargo xtask speed", &["network", ">seconds"]);
        table.add(vec!["LSTM".into(), "0.02".into()]);
        table.add(vec!["ResNet".into(), "0.50".into()]);
        table.figures.insert("best".into(), "0.02".into());
        Ok(Table { machine: "2 cores".into(), date: "2026-11-22".into(), ..table })
    }

    const FILLED: &str = "A\n<!-- table:speed -->\n\n| network | seconds |\n|---|---:|\n| LSTM | 0.02 |\n\
        | ResNet | 0.50 |\n\n_2 cores, 2026-11-22: `cargo xtask speed`_\n\n<!-- end -->\nB\n";

    #[test]
    fn a_block_is_replaced_and_stays() {
        let filled_once = filled("A\n<!-- table:speed -->\nold\n<!-- end -->\nB\n", table).expect("a table");
        assert_eq!(filled_once, FILLED);
        assert_eq!(filled(FILLED, table).expect("a table"), FILLED);
    }

    #[test]
    fn a_part_of_a_table_is_taken() {
        let page = "<!-- table:speed columns=2 rows=2 plain -->\n<!-- end -->\n";
        let text = filled(page, table).expect("a table");
        assert!(text.contains("| seconds |\n|---:|\n| 0.50 |\n\n<!-- end -->"), "{text}");
    }

    #[test]
    fn figures_are_replaced_within_a_line() {
        let page =
            "From <!-- figure:speed.best -->9<!-- end --> s, <!-- figure:speed.best --><!-- end -->.\n";
        let text = filled(page, table).expect("a figure");
        let figure = "<!-- figure:speed.best -->0.02<!-- end -->";
        assert_eq!(text, format!("From {figure} s, {figure}.\n"));
    }

    #[test]
    fn errors_name_their_line() {
        let page = "\n<!-- table:other -->\n<!-- end -->\n<!-- figure:speed.worst -->1<!-- end -->\n";
        let errors = filled(page, table).expect_err("neither is there");
        assert_eq!(errors[0], (2, "no such table".to_owned()));
        assert_eq!(errors[1], (4, "`docs/tables/speed.json` has no figure `worst`".to_owned()));
        assert!(filled("<!-- table:speed -->\n", table).is_err());
    }

    #[test]
    fn code_is_left_alone() {
        let page = "```\n<!-- table:other -->\n<!-- figure:x.y -->1\n```\n";
        assert_eq!(filled(page, table).expect("no marker"), page);
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let tree = Tree::new(folder.path());
        let written = table("speed").expect("a table");
        written.write(&tree, "speed").expect("a file");
        assert_eq!(Table::read(&tree, "speed").expect("a table"), written);
    }
}
