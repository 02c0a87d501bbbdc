use oomph_core::{Split, grouped};
use oomph_data::{Source, Vocabulary};

use crate::Survey;

/// A class with this many times the training samples of another is worth a warning.
const UNBALANCED: usize = 3;

/// The share of unknown tokens from which on a warning is due.
const UNKNOWN: f64 = 0.05;

/// Properties of the data that a training suffers from.
pub(super) fn warnings(survey: &Survey, source: &dyn Source) -> Vec<String> {
    let mut warnings = Vec::new();
    for split in [Split::Train, Split::Test] {
        warnings.extend(unreadable(survey, split));
    }
    warnings.extend(source.notices());
    warnings.extend(classes(survey, source));
    warnings.extend(unknown_tokens(survey, source));
    if survey.part(Split::Test).samples == 0 {
        warnings.push("no sample is held out, so a training is not evaluated".to_owned());
    }
    if let Some(first) = survey.duplicates.first.first() {
        warnings.push(format!(
            "{} of {} held-out samples are in the training set too, such as {} (the training set has it as {}); an \
             evaluation counts them as learned",
            grouped(survey.duplicates.count as u64),
            grouped(survey.part(Split::Test).read as u64),
            first.held_out,
            first.train
        ));
    }
    warnings
}

fn unreadable(survey: &Survey, split: Split) -> Option<String> {
    let part = survey.part(split);
    let first = part.errors.first()?;
    let [unreadable, read] = [part.unreadable, part.read].map(|count| grouped(count as u64));
    Some(format!("{unreadable} of {read} {split} samples cannot be read; the first: {first}"))
}

/// A training set of one class, classes or labels without samples, and those with many more samples than others.
fn classes(survey: &Survey, source: &dyn Source) -> Vec<String> {
    let train = survey.part(Split::Train);
    let counts = train.by_class();
    let name = |class| class_name(source, class);
    let mut warnings = Vec::new();
    let present: Vec<usize> = (0..counts.len()).filter(|&class| counts[class] > 0).collect();
    if let ([only], None) = (&present[..], &train.labels) {
        let only = *only;
        warnings
            .push(format!("all training samples are of {}, so there is nothing to tell apart", name(only)));
        return warnings;
    }
    for split in [Split::Train, Split::Test] {
        let part = survey.part(split);
        let counts = part.by_class();
        let empty = (0..counts.len()).filter(|&class| counts[class] == 0);
        if part.samples > 0 && empty.clone().next().is_some() {
            let what = if part.labels.is_some() { "labels" } else { "classes" };
            warnings.push(format!("{what} without a {split} sample: {}", listed(empty.map(name), 5)));
        }
    }
    warnings.extend(unbalanced(survey, source).map(|which| match train.labels {
        Some(_) => format!("the labels are unbalanced: {which}; `train.class_weights` can balance them"),
        None => format!(
            "the classes are unbalanced: {which}; `train.class_weights` and `data.sampling` can balance them"
        ),
    }));
    warnings
}

/// The classes with the most and the fewest training samples, if they differ much.
pub(super) fn unbalanced(survey: &Survey, source: &dyn Source) -> Option<String> {
    let counts = survey.part(Split::Train).by_class();
    let present = || (0..counts.len()).filter(|&class| counts[class] > 0);
    let most = present().max_by_key(|&class| counts[class])?;
    let fewest = present().min_by_key(|&class| counts[class])?;
    let [of_most, of_fewest] = [most, fewest].map(|class| grouped(counts[class] as u64));
    let [most_name, fewest_name] = [most, fewest].map(|class| class_name(source, class));
    (counts[most] >= UNBALANCED * counts[fewest])
        .then(|| format!("{most_name} has {of_most} training samples, and {fewest_name} has {of_fewest}"))
}

/// The name of a class in messages.
fn class_name(source: &dyn Source, class: usize) -> String {
    match source.class_names().and_then(|names| names.get(class)) {
        Some(name) => format!("`{name}`"),
        None => format!("class {class}"),
    }
}

/// A held-out text with many tokens that the vocabulary lacks.
fn unknown_tokens(survey: &Survey, source: &dyn Source) -> Option<String> {
    let tokens = &survey.part(Split::Test).tokens;
    let unknown = source.class_names()?.iter().position(|token| token == Vocabulary::UNKNOWN)?;
    let all: u64 = tokens.iter().sum();
    let share = *tokens.get(unknown)? as f64 / all.max(1) as f64;
    (share > UNKNOWN)
        .then(|| format!("{:.1} % of the held-out tokens are not in the vocabulary", share * 100.0))
}

/// The first `most` names, and the number of the others.
fn listed(mut names: impl Iterator<Item = String>, most: usize) -> String {
    let shown = names.by_ref().take(most).collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use oomph_core::{InputSpec, Key, SampleSpec, TargetSpec};
    use oomph_data::{Sample, SampleError, Target, Values};

    use super::*;

    /// Four training samples with labels, and a held-out one.
    struct Tagged(SampleSpec);

    impl Source for Tagged {
        fn spec(&self) -> &SampleSpec {
            &self.0
        }

        fn len(&self, split: Split) -> usize {
            if split == Split::Train { 4 } else { 1 }
        }

        fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
            let labels = match split {
                Split::Train => vec![vec![0], vec![0, 1], vec![], vec![1, 2]].swap_remove(index),
                Split::Test => vec![0, 1],
            };
            Ok(Sample { input: Values::Floats(vec![0.0]), target: Target::Labels(labels) })
        }
    }

    #[test]
    fn labels_without_a_sample_are_named() {
        let spec =
            SampleSpec { input: InputSpec::Vector { features: 1 }, target: TargetSpec::Labels { count: 3 } };
        let source = Tagged(spec);
        let survey = Survey::of(&source, None);
        let labels = survey.part(Split::Train).labels.clone().expect("labels");
        assert_eq!((labels.samples, labels.without, labels.most), (vec![2, 2, 1], 1, 2));
        let warnings = survey.warnings(&source);
        assert!(warnings.contains(&"labels without a test sample: class 2".to_owned()), "{warnings:?}");
    }
}
