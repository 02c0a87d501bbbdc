//! Compares the bytes of kernels' buffers with the sectors of memory that the kernels touch.

use std::{collections::BTreeMap, fs, process::ExitCode};

use oomph_cuda_sim::traffic::Traffic;

use super::{CASES, Counted, Simulation, bytes::megabytes};
use crate::{Outcome, measured::Measured};

/// The trainings of [`CASES`] that are small enough to compute, with the settings that make them so.
const SMALL: [(&str, &[&str]); 2] =
    [("ResNet-18, digits", &["train.steps=1", "train.batch=8"]), ("LSTM 96, digits", &["train.steps=1"])];

/// Kernels of one training whose counts differ by more than this share of the larger one are rows of their own.
const SHOWN: f64 = 0.1;

/// Computes the small trainings.
pub(super) fn run(simulation: &Simulation, is_saved: bool) -> Outcome {
    let titles = ["training", "kernel", ">launches", ">buffers, MB", ">sectors, MB", ">buffers / sectors"];
    let mut table = Measured::begin("gpu steps --sectors", is_saved, &titles);
    for (name, settings) in SMALL {
        let (_, config) = CASES.iter().find(|(case, _)| *case == name).ok_or("no such training")?;
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("case.toml"), config)?;
        let counted = Counted::of(simulation, folder.path(), "sectors", settings)?;
        rows(&counted.card.kernels).into_iter().for_each(|row| {
            table.add([vec![name.to_owned()], row].concat());
        });
    }
    table.end("gpu-sectors")?;
    Ok(ExitCode::SUCCESS)
}

/// All kernels together, then those that differ, by how much.
fn rows(kernels: &BTreeMap<String, Traffic>) -> Vec<Vec<String>> {
    let all = kernels.values().fold(Traffic::default(), |all, one| all + *one);
    let mut differing: Vec<_> = kernels.iter().filter(|(_, traffic)| difference(traffic) > SHOWN).collect();
    let bytes_off = |traffic: &Traffic| buffers(traffic).abs_diff(sectors(traffic));
    differing.sort_by_key(|(_, traffic)| std::cmp::Reverse(bytes_off(traffic)));
    let mut rows = vec![row("all", &all)];
    rows.extend(differing.into_iter().take(5).map(|(name, traffic)| row(&format!("`{name}`"), traffic)));
    rows
}

fn row(kernel: &str, traffic: &Traffic) -> Vec<String> {
    let [buffers, sectors] = [buffers(traffic), sectors(traffic)].map(|bytes| bytes as f64);
    vec![
        kernel.to_owned(),
        traffic.launches.to_string(),
        megabytes(buffers),
        megabytes(sectors),
        format!("{:.2}", buffers / sectors),
    ]
}

fn buffers(traffic: &Traffic) -> u64 {
    traffic.buffer_bytes_read + traffic.buffer_bytes_written
}

fn sectors(traffic: &Traffic) -> u64 {
    traffic.sector_bytes_read + traffic.sector_bytes_written
}

/// Between the counts, as a share of the larger one.
fn difference(traffic: &Traffic) -> f64 {
    let [buffers, sectors] = [buffers(traffic), sectors(traffic)];
    buffers.abs_diff(sectors) as f64 / buffers.max(sectors).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_touch_a_part_of_their_buffers_are_shown() {
        let traffic = |buffer_bytes_read, sector_bytes_read| Traffic {
            launches: 1,
            buffer_bytes_read,
            sector_bytes_read,
            ..Traffic::default()
        };
        let kernels = [
            ("slice".to_owned(), traffic(4_000_000, 1_000_000)),
            ("add".to_owned(), traffic(6_000_000, 6_000_000)),
        ];
        let rows = rows(&kernels.into());
        assert_eq!(rows, [["all", "2", "10.0", "7.0", "1.43"], ["`slice`", "1", "4.0", "1.0", "4.00"]]);
    }
}
