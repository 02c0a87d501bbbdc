//! Where and when a table was measured, and saving it for the documents.

use std::{error::Error, fs, process::Command, thread};

use oomph_tree::{Tree, tables::Table};

/// Takes `flag` out of the arguments; whether it was there.
pub(crate) fn take_flag(arguments: &mut Vec<String>, flag: &str) -> bool {
    let before = arguments.len();
    arguments.retain(|argument| argument != flag);
    arguments.len() < before
}

/// Writes `docs/tables/{name}.json`, with this machine and today's date.
pub(crate) fn save(mut table: Table, name: &str) -> Result<(), Box<dyn Error>> {
    table.machine = machine();
    table.date = today()?;
    let path = table.write(&Tree::own(), name)?;
    eprintln!("wrote `{}`; `cargo xtask docs` shows it in the documents", path.display());
    Ok(())
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

fn today() -> Result<String, Box<dyn Error>> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
