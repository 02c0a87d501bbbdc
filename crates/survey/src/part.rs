use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use oomph_core::Split;
use oomph_data::{
    SampleError, Source,
    stored::{Content, LabelCounts, StoredSample, class_counts, label_counts},
    transform::ImageShape,
};
use serde::Serialize;

/// What one part of a source holds.
#[derive(Clone, Debug, Serialize)]
pub struct PartSurvey {
    /// Its samples.
    pub samples: usize,
    /// The samples that were read.
    pub read: usize,
    /// The samples of each class, by index; empty unless targets are classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<usize>,
    /// The labels of its samples; `None` unless targets are labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelCounts>,
    /// The number of samples that were read in vain.
    pub unreadable: usize,
    /// The errors of the first of them.
    #[serde(serialize_with = "as_texts", skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<SampleError>,
    /// The stored images; `None` unless samples are stored as images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<StoredImages>,
    /// How often each token occurs in the samples that were read, by index; empty unless samples are text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<u64>,
}

/// The sizes of stored images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredImages {
    /// Height and width of the image with the fewest pixels.
    pub smallest: [usize; 2],
    /// Height and width of the image with the most pixels.
    pub largest: [usize; 2],
    /// The height and width that most images have.
    pub most_frequent: [usize; 2],
    /// The number of images of that size.
    pub of_most_frequent: usize,
    /// The number of different sizes.
    pub different_sizes: usize,
    /// The number of images with 1, 2, 3 and 4 channels: grey, grey with alpha, colour, colour with alpha.
    pub by_channels: BTreeMap<usize, usize>,
}

/// The most unreadable samples that are named.
const NAMED: usize = 10;

/// Samples that a thread takes at a time.
const TAKEN: usize = 16;

fn as_texts<S: serde::Serializer>(errors: &[SampleError], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(ToString::to_string))
}

/// Reads a part. The second result is the content of each sample that has one, by its index, in order.
pub(crate) fn survey(
    source: &dyn Source,
    split: Split,
    most: Option<usize>,
) -> (PartSurvey, Vec<(usize, Content)>) {
    let samples = source.len(split);
    let pass = Pass {
        source,
        split,
        samples,
        count: most.map_or(samples, |most| most.min(samples)),
        next: AtomicUsize::new(0),
        total: Mutex::new(Seen::default()),
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(pass.count.div_ceil(TAKEN));
    thread::scope(|scope| {
        for worker in 1..workers {
            let name = format!("oomph-survey-{worker}");
            // If the system refuses a thread, the others do its work.
            let _ = thread::Builder::new().name(name).spawn_scoped(scope, || pass.work());
        }
        pass.work();
    });
    let (count, seen) = (pass.count, pass.total.into_inner().unwrap_or_else(PoisonError::into_inner));
    seen.finish(source, split, count)
}

/// One pass over the samples of a part, shared by threads.
struct Pass<'a> {
    source: &'a dyn Source,
    split: Split,
    samples: usize,
    /// The samples to read.
    count: usize,
    next: AtomicUsize,
    total: Mutex<Seen>,
}

impl Pass<'_> {
    fn work(&self) {
        let mut seen = Seen::default();
        loop {
            let first = self.next.fetch_add(TAKEN, Ordering::Relaxed);
            if first >= self.count {
                break;
            }
            for place in first..self.count.min(first + TAKEN) {
                // Evenly spread; 128 bits keep the product exact.
                let index = (place as u128 * self.samples as u128 / self.count as u128) as usize;
                match self.source.inspect(self.split, index) {
                    Ok(stored) => seen.add(index, &stored),
                    Err(error) => seen.errors.push((index, error)),
                }
            }
        }
        self.total.lock().unwrap_or_else(PoisonError::into_inner).merge(seen);
    }
}

/// What the samples so far have.
#[derive(Default)]
struct Seen {
    /// Images by height and width.
    sizes: BTreeMap<[usize; 2], usize>,
    channels: BTreeMap<usize, usize>,
    tokens: Vec<u64>,
    contents: Vec<(usize, Content)>,
    errors: Vec<(usize, SampleError)>,
}

impl Seen {
    fn add(&mut self, index: usize, stored: &StoredSample) {
        if let Some(ImageShape { channels, height, width }) = stored.image {
            *self.sizes.entry([height, width]).or_default() += 1;
            *self.channels.entry(channels).or_default() += 1;
        }
        // A token below 0 is no token; loading such a sample fails.
        for token in stored.tokens.iter().filter_map(|&token| usize::try_from(token).ok()) {
            if self.tokens.len() <= token {
                self.tokens.resize(token + 1, 0);
            }
            self.tokens[token] += 1;
        }
        self.contents.extend(stored.content.map(|content| (index, content)));
    }

    fn merge(&mut self, other: Self) {
        let add = |all: &mut BTreeMap<_, usize>, more: BTreeMap<_, usize>| {
            more.into_iter().for_each(|(size, count)| *all.entry(size).or_default() += count);
        };
        add(&mut self.sizes, other.sizes);
        other.channels.into_iter().for_each(|(kind, count)| *self.channels.entry(kind).or_default() += count);
        if self.tokens.len() < other.tokens.len() {
            self.tokens.resize(other.tokens.len(), 0);
        }
        self.tokens.iter_mut().zip(other.tokens).for_each(|(all, more)| *all += more);
        self.contents.extend(other.contents);
        self.errors.extend(other.errors);
    }

    fn finish(
        mut self,
        source: &dyn Source,
        split: Split,
        read: usize,
    ) -> (PartSurvey, Vec<(usize, Content)>) {
        // Threads finish in any order.
        self.contents.sort_unstable_by_key(|(index, _)| *index);
        self.errors.sort_unstable_by_key(|(index, _)| *index);
        let part = PartSurvey {
            samples: source.len(split),
            read,
            classes: class_counts(source, split),
            labels: label_counts(source, split),
            unreadable: self.errors.len(),
            images: images(&self.sizes, self.channels),
            errors: self.errors.into_iter().map(|(_, error)| error).take(NAMED).collect(),
            tokens: self.tokens,
        };
        (part, self.contents)
    }
}

fn images(sizes: &BTreeMap<[usize; 2], usize>, by_channels: BTreeMap<usize, usize>) -> Option<StoredImages> {
    let pixels = |size: &[usize; 2]| size[0] * size[1];
    // Of sizes with as many images, the larger one.
    let (most_frequent, of_most_frequent) =
        sizes.iter().max_by_key(|(size, count)| (**count, pixels(size)))?;
    Some(StoredImages {
        smallest: *sizes.keys().min_by_key(|size| pixels(size))?,
        largest: *sizes.keys().max_by_key(|size| pixels(size))?,
        most_frequent: *most_frequent,
        of_most_frequent: *of_most_frequent,
        different_sizes: sizes.len(),
        by_channels,
    })
}

impl PartSurvey {
    /// The samples of each class, or with each label, by index; empty if targets are neither.
    pub fn by_class(&self) -> &[usize] {
        self.labels.as_ref().map_or(&self.classes, |labels| &labels.samples)
    }
}
