//! The description of a source, for people.

use oomph_core::Split;
use oomph_data::Source;
use oomph_survey::{StoredImages, Survey};

use super::described::Described;
use crate::{
    numbers::{grouped, percent, plural},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

const SPLITS: [Split; 2] = [Split::Train, Split::Test];

/// The report: samples, classes or labels, statistics.
pub fn report(described: &Described<'_>, source: &dyn Source, survey: &Survey) -> String {
    let samples = SPLITS.map(|split| grouped(survey.part(split).samples));
    let read = SPLITS.map(|split| survey.part(split).read);
    let is_partial = SPLITS.iter().zip(read).any(|(split, read)| read < survey.part(*split).samples);
    let unreadable = SPLITS.map(|split| survey.part(split).unreadable);
    let [train, test] = SPLITS.map(|split| survey.part(split).images.as_ref());
    let rows = [
        ("source", Some(described.source.clone())),
        ("sample", Some(format!("{} → {}", described.input, described.target))),
        ("train samples", Some(samples[0].clone())),
        ("test samples", Some(samples[1].clone())),
        ("held out", described.held_out.clone()),
        ("read", is_partial.then(|| format!("{} of train, {} of test", grouped(read[0]), grouped(read[1])))),
        (
            "unreadable",
            (unreadable != [0, 0]).then(|| format!("{} of train, {} of test", unreadable[0], unreadable[1])),
        ),
        ("train sizes", train.map(sizes)),
        ("test sizes", test.map(sizes)),
        ("train channels", train.map(channels)),
        ("test channels", test.map(channels)),
        (
            "duplicates",
            (survey.duplicates.count > 0)
                .then(|| plural(survey.duplicates.count, "test sample") + " in train too"),
        ),
        ("train labels", labels_of_samples(survey, Split::Train)),
        ("test labels", labels_of_samples(survey, Split::Test)),
        ("tokens", tokens(described, survey)),
        ("preview", described.preview.as_ref().map(|preview| preview.file.display().to_string())),
    ];
    let tables = [
        statistics(described).map(|table| table.to_string()),
        classes(described).map(|table| table.to_string()),
        labels(described, survey).map(|table| table.to_string()),
        frequent_tokens(source, survey).map(|table| table.to_string()),
        described.preview.as_ref().map(|preview| preview.table(source).to_string()),
    ];
    pairs(rows) + &tables.into_iter().flatten().map(|table| format!("\n{table}")).collect::<String>()
}

/// `all 24×32`, height first, or the most frequent, the smallest and the largest size.
fn sizes(images: &StoredImages) -> String {
    let size = |[height, width]: [usize; 2]| format!("{height}×{width}");
    let all: usize = images.by_channels.values().sum();
    match images.different_sizes {
        1 => format!("all {}", size(images.most_frequent)),
        different => format!(
            "{} different: most often {} ({} of {}), smallest {}, largest {}",
            grouped(different),
            size(images.most_frequent),
            grouped(images.of_most_frequent),
            grouped(all),
            size(images.smallest),
            size(images.largest)
        ),
    }
}

/// `6 colour, 2 grey`.
fn channels(images: &StoredImages) -> String {
    let name = |channels: usize| match channels {
        1 => "grey".to_owned(),
        2 => "grey with alpha".to_owned(),
        3 => "colour".to_owned(),
        4 => "colour with alpha".to_owned(),
        other => format!("with {other} channels"),
    };
    let kinds = images.by_channels.iter().rev();
    kinds.map(|(kind, count)| format!("{} {}", grouped(*count), name(*kind))).collect::<Vec<_>>().join(", ")
}

/// `1,000 in train, 250 in test; 66 different`.
fn tokens(described: &Described<'_>, survey: &Survey) -> Option<String> {
    let counts = SPLITS.map(|split| survey.part(split).tokens.iter().sum::<u64>());
    let of = described.target.outputs();
    let level = described.level?;
    let [train, test] = counts.map(|count| grouped(count as usize));
    Some(format!("{train} in train, {test} in test; {} different (`data.level` is `{level}`)", grouped(of)))
}

/// What normalises each channel or column.
fn statistics(described: &Described<'_>) -> Option<Table<3>> {
    let statistics = described.statistics.as_ref()?;
    let (what, names) = match &described.columns {
        Some(columns) => {
            let targets = columns.targets.iter().filter(|name| !columns.inputs.contains(name));
            ("column", columns.inputs.iter().chain(targets).cloned().collect())
        }
        None => ("channel", Vec::new()),
    };
    let mut table = Table::new([Left(what), Right("mean"), Right("standard deviation")]);
    for (index, (mean, std)) in statistics.mean.iter().zip(&statistics.std).enumerate() {
        let name = names.get(index).cloned().unwrap_or_else(|| index.to_string());
        table.row([name, format!("{mean:.6}"), format!("{std:.6}")]);
    }
    Some(table)
}

/// The samples of each class.
fn classes(described: &Described<'_>) -> Option<Table<5>> {
    let classes = || described.classes.iter();
    let rows = classes().map(|it| (it.index, it.class, it.train, it.test));
    shares("class", classes().map(|class| class.train).sum(), rows)
}

/// The samples with each label.
fn labels(described: &Described<'_>, survey: &Survey) -> Option<Table<5>> {
    let rows = described.labels.iter().map(|it| (it.index, it.label, it.train, it.test));
    shares("label", survey.part(Split::Train).samples, rows)
}

/// Index, name, training and test samples of each class or label, with its share of `all` training samples. `None` without rows.
fn shares<'a>(
    what: &'static str,
    all: usize,
    rows: impl Iterator<Item = (usize, Option<&'a str>, usize, usize)>,
) -> Option<Table<5>> {
    let mut table = Table::new([Right("index"), Left(what), Right("train"), Right("share"), Right("test")]);
    let mut is_empty = true;
    for (index, name, train, test) in rows {
        is_empty = false;
        let share = percent(train as f64 / all.max(1) as f64);
        table.row([
            index.to_string(),
            name.unwrap_or_default().to_owned(),
            grouped(train),
            share,
            grouped(test),
        ]);
    }
    (!is_empty).then(|| table.without_empty_columns())
}

/// `1.8 a sample, at most 4; 12 samples without`.
fn labels_of_samples(survey: &Survey, split: Split) -> Option<String> {
    let part = survey.part(split);
    let labels = part.labels.as_ref()?;
    let mean = labels.samples.iter().sum::<usize>() as f64 / part.samples.max(1) as f64;
    let without = plural(labels.without, "sample");
    Some(format!("{mean:.2} a sample, at most {}; {without} without", labels.most))
}

/// The most frequent tokens of a text.
fn frequent_tokens(source: &dyn Source, survey: &Survey) -> Option<Table<3>> {
    const SHOWN: usize = 10;
    let [train, test] = SPLITS.map(|split| &survey.part(split).tokens);
    let name = |token: usize| match source.tokenizer() {
        // A token of a sample has 31 bits.
        Some(tokenizer) => tokenizer.shown(token as u32),
        None => source.class_names()?.get(token).map(String::as_str),
    };
    if train.is_empty() || !source.is_text() {
        return None;
    }
    let mut by_count: Vec<usize> = (0..train.len()).collect();
    // Of equally frequent tokens, the one with the lower index.
    by_count.sort_by_key(|&token| std::cmp::Reverse(train[token]));
    let shares = [train, test].map(|counts| counts.iter().sum::<u64>().max(1) as f64);
    let mut table = Table::new([Left("frequent token"), Right("train"), Right("test")]);
    for &token in by_count.iter().take(SHOWN).filter(|&&token| train[token] > 0) {
        let share = |counts: &[u64], all: f64| percent(counts.get(token).copied().unwrap_or(0) as f64 / all);
        let name = name(token).map_or_else(String::new, |name| format!("{name:?}"));
        table.row([name, share(train, shares[0]), share(test, shares[1])]);
    }
    Some(table)
}
