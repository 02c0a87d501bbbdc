//! Counts readings.

use std::collections::BTreeMap;

/// How a reading ended.
#[derive(Debug)]
pub(super) enum Reading {
    /// With right values.
    Right,
    /// Refused in words, before there was something to read.
    Refused,
    /// The checkpoint was removed under a reader that knows only paths; the link names another one by now.
    Moved,
    /// Otherwise.
    Harm(String),
}

/// The readings of a reader.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    readings: usize,
    refused: usize,
    moved: usize,
    harms: usize,
}

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: BTreeMap<&'static str, Counts>,
    pub(super) harms: Vec<String>,
    /// Processes that were killed while they trained.
    pub(super) kills: usize,
    /// Checkpoints that were saved.
    pub(super) saves: usize,
}

pub(super) const TITLES: [&str; 5] =
    ["reader", ">readings", ">before the first save", ">removed while read", ">harms"];

impl Tally {
    /// Counts a reading. `place` says where and when, for a harm.
    pub(super) fn count(&mut self, reader: &'static str, reading: Reading, place: &str) {
        let counts = self.counts.entry(reader).or_default();
        counts.readings += 1;
        match reading {
            Reading::Right => {}
            Reading::Refused => counts.refused += 1,
            Reading::Moved => counts.moved += 1,
            Reading::Harm(harm) => {
                counts.harms += 1;
                self.harms.push(format!("{reader}, {place}: {harm}"));
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        for (reader, more) in other.counts {
            let counts = self.counts.entry(reader).or_default();
            counts.readings += more.readings;
            counts.refused += more.refused;
            counts.moved += more.moved;
            counts.harms += more.harms;
        }
        self.harms.extend(other.harms);
        self.kills += other.kills;
        self.saves += other.saves;
    }

    /// All readings, those refused, those repeated.
    pub(super) fn sums(&self) -> [usize; 3] {
        let all = self.counts.values();
        all.fold([0; 3], |sums, own| [sums[0] + own.readings, sums[1] + own.refused, sums[2] + own.moved])
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |(reader, own): (&&str, &Counts)| {
            let numbers = [own.readings, own.refused, own.moved, own.harms];
            [(*reader).to_owned()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
        };
        self.counts.iter().map(row).collect()
    }
}
