//! Where and when a table was measured, and saving it for the documents.
//!
//! A tool prints a [`Measured`] table row by row; with `--save` it writes the table into `docs/tables/`.

use std::{fs, io, process::Command, thread};

use crate::{Tree, tables::Table};

/// The arguments without `--save`, and whether they had it.
pub fn without_save(arguments: &[String]) -> (Vec<String>, bool) {
    let others: Vec<_> = arguments.iter().filter(|argument| *argument != "--save").cloned().collect();
    let is_saved = others.len() < arguments.len();
    (others, is_saved)
}

/// A measured table, printed row by row.
#[derive(Debug)]
pub struct Measured {
    /// The table.
    pub data: Table,
    is_saved: bool,
}

impl Measured {
    /// Prints the head of a table that `cargo xtask {tool} --save` writes. Titles are as in [`Table::new`].
    pub fn begin(tool: &str, is_saved: bool, titles: &[&str]) -> Self {
        let data = Table::new(format!("cargo xtask {tool} --save"), titles);
        println!("{}", data.head());
        Self { data, is_saved }
    }

    /// Adds a row and prints it.
    pub fn add(&mut self, row: Vec<String>) {
        println!("{}", self.data.add(row));
    }

    /// With `--save`, writes `docs/tables/{name}.json`, with this machine and today's date.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or there is no program `date`.
    pub fn end(mut self, name: &str) -> io::Result<()> {
        if !self.is_saved {
            return Ok(());
        }
        self.data.machine = machine();
        self.data.date = today()?;
        let path = self.data.write(&Tree::own(), name)?;
        eprintln!("wrote `{}`; `cargo xtask docs` shows it in the documents", path.display());
        Ok(())
    }
}

/// The median; the upper one of an even number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Cores, processor and what of it decides memory and speed: vector instructions, and the L2 cache that sizes buffers.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, name)| name.trim());
    let vectors = if info.contains(" avx512f") { ", AVX-512" } else { "" };
    let cache = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").unwrap_or_default();
    let cache: Option<u64> = cache.trim().strip_suffix('K').and_then(|kib| kib.parse().ok());
    let cache = cache.map_or_else(String::new, |kib| format!(", {kib} KiB of L2 cache a core"));
    format!("{cores} cores of {model}{vectors}{cache}")
}

fn today() -> io::Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
