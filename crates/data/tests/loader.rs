//! The loader, with a user's sources.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Generator, InputSpec, Key, SampleSpec, Split, TargetSpec};
use oomph_data::{
    Batch, DataError, LastBatch, Loader, LoaderOptions, OnCorrupt, Sample, SampleError, SampleOrder, Source,
    Target, Targets, Values,
};
use support::options;

type Make = dyn Fn(usize, Option<Key>) -> Result<Sample, SampleError> + Send + Sync;

/// A user's source: `make` returns the samples.
struct Users {
    spec: SampleSpec,
    samples: usize,
    asked: AtomicUsize,
    make: Box<Make>,
}

impl Users {
    fn with_spec(
        spec: SampleSpec,
        samples: usize,
        make: impl Fn(usize, Option<Key>) -> Result<Sample, SampleError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { spec, samples, asked: AtomicUsize::new(0), make: Box::new(make) })
    }

    /// Vectors of two floats, three classes.
    fn new(
        samples: usize,
        make: impl Fn(usize, Option<Key>) -> Result<Sample, SampleError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let spec =
            SampleSpec { input: InputSpec::Vector { features: 2 }, target: TargetSpec::Class { count: 3 } };
        Self::with_spec(spec, samples, make)
    }
}

impl Source for Users {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, _: Split) -> usize {
        self.samples
    }

    fn sample(&self, _: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (self.make)(index, augment)
    }
}

/// The index, and a random number if augmented.
fn plain(index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
    let draw = augment.map_or(0.0, |key| Generator::at(key).uniform());
    Ok(Sample { input: Values::Floats(vec![index as f32, draw]), target: Target::Class(index % 3) })
}

fn load(
    source: &Arc<Users>,
    epoch: usize,
    first: usize,
    options: &LoaderOptions,
) -> Result<Vec<Batch>, DataError> {
    let order = SampleOrder::train(source.samples, 8, 1, LastBatch::Keep);
    Loader::start(source.clone(), Split::Train, order, epoch, first, Some(1), options).collect()
}

fn failure(source: &Arc<Users>, workers: usize) -> DataError {
    load(source, 0, 0, &options(workers, OnCorrupt::Fail)).expect_err("the source is wrong")
}

#[test]
fn batches_do_not_depend_on_the_number_of_workers() {
    // The first samples of a batch take longest, so that workers overtake each other.
    let source = Users::new(100, |index, augment| {
        thread::sleep(Duration::from_micros(if index % 7 == 0 { 500 } else { 0 }));
        plain(index, augment)
    });
    let load =
        |workers, epoch| load(&source, epoch, 0, &options(workers, OnCorrupt::Fail)).expect("valid samples");
    for epoch in 0..3 {
        let expected = load(0, epoch);
        assert_eq!(expected.len(), 13);
        for workers in [1, 2, 4, 32] {
            assert_eq!(load(workers, epoch), expected, "{workers} workers, epoch {epoch}");
        }
    }
    assert_ne!(load(2, 0), load(2, 1));
}

#[test]
fn an_epoch_resumed_at_any_batch_gives_the_same_rest() {
    let source = Users::new(50, plain);
    for workers in [0, 3] {
        let options = options(workers, OnCorrupt::Fail);
        let whole = load(&source, 2, 0, &options).expect("valid samples");
        for first in 0..=whole.len() + 1 {
            let rest = load(&source, 2, first, &options).expect("valid samples");
            assert_eq!(rest, whole[first.min(whole.len())..], "from {first}");
        }
    }
}

#[test]
fn a_batch_holds_the_samples_of_its_order() {
    let source = Users::new(20, plain);
    let order = SampleOrder::train(20, 8, 1, LastBatch::Drop);
    let batches: Result<Vec<_>, _> =
        Loader::start(source, Split::Train, order.clone(), 4, 0, None, &options(2, OnCorrupt::Fail))
            .collect();
    let batches = batches.expect("valid samples");
    assert_eq!(batches.len(), 2);
    for (position, batch) in batches.into_iter().enumerate() {
        let indices = order.indices(4, position);
        assert_eq!((batch.position, batch.size, &batch.shape[..]), (position, 8, &[8, 2][..]));
        let classes = indices.iter().map(|index| (index % 3) as i64).collect();
        assert_eq!(batch.targets, Targets::Classes(classes));
        let inputs = indices.iter().flat_map(|&index| [index as f32, 0.0]).collect();
        assert_eq!(batch.input, Values::Floats(inputs));
    }
}

#[test]
fn no_more_batches_are_in_flight_than_prefetched() {
    let source = Users::new(800, |index, augment| {
        thread::sleep(Duration::from_millis(2));
        plain(index, augment)
    });
    let options = LoaderOptions { prefetch: 3, ..options(4, OnCorrupt::Fail) };
    let order = SampleOrder::eval(800, 8);
    let mut loader = Loader::start(source.clone(), Split::Train, order, 0, 0, None, &options);
    // The second batch is waited for, so from then on as many are made as may be.
    (0..2).for_each(|_| drop(loader.next().expect("a batch").expect("valid samples")));
    for taken in 2..6 {
        let expected = (taken + 3) * 8;
        let deadline = Instant::now() + Duration::from_secs(30);
        while source.asked.load(Ordering::Relaxed) < expected && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        // Enough time for a worker without a bound to run ahead.
        thread::sleep(Duration::from_millis(30));
        assert_eq!(source.asked.load(Ordering::Relaxed), expected, "{taken} batches taken");
        loader.next().expect("a batch").expect("valid samples");
    }
}

#[test]
fn more_than_one_batch_is_loaded_ahead_only_after_a_wait() {
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = is_slow.clone();
    let source = Users::new(160, move |index, augment| {
        thread::sleep(Duration::from_millis(if slow.load(Ordering::Relaxed) { 100 } else { 0 }));
        plain(index, augment)
    });
    let options = LoaderOptions { prefetch: 6, ..options(4, OnCorrupt::Fail) };
    let order = SampleOrder::train(160, 8, 1, LastBatch::Keep);
    let mut loader = Loader::start(source.clone(), Split::Train, order, 0, 0, Some(1), &options);
    let asked = || source.asked.load(Ordering::Relaxed);
    let waits_for = |batches: usize| {
        let start = Instant::now();
        while asked() < 8 * batches && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(1));
        }
        // Enough time for a worker without a bound to run ahead, and for a batch to be put on the shelf.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(asked(), 8 * batches);
    };
    for taken in 1..=4 {
        assert!(loader.next().is_some_and(|batch| batch.is_ok()));
        waits_for(taken + 1);
    }
    is_slow.store(true, Ordering::Relaxed);
    // One is there, and the second one is slow: from then on each worker makes one.
    (0..2).for_each(|_| assert!(loader.next().is_some_and(|batch| batch.is_ok())));
    is_slow.store(false, Ordering::Relaxed);
    waits_for(6 + 4);
}

#[test]
fn a_loader_dropped_within_an_epoch_stops_at_once() {
    let source = Users::new(10_000, |index, augment| {
        thread::sleep(Duration::from_millis(2));
        plain(index, augment)
    });
    for taken in [0, 1] {
        let order = SampleOrder::eval(10_000, 1000);
        let mut loader =
            Loader::start(source.clone(), Split::Train, order, 0, 0, None, &options(4, OnCorrupt::Fail));
        for _ in 0..taken {
            loader.next().expect("a batch").expect("valid samples");
        }
        let start = Instant::now();
        drop(loader);
        // A whole batch would take two seconds.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        // The workers have ended: they also held the source.
        assert_eq!(Arc::strong_count(&source), 1);
    }
}

#[test]
fn a_panic_of_the_source_names_the_sample() {
    let source = Users::new(30, |index, augment| {
        assert_ne!(index, 17, "no such number");
        plain(index, augment)
    });
    for workers in [0, 1, 4] {
        let error = failure(&source, workers);
        assert!(matches!(error, DataError::Panicked { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("train sample 17") && text.contains("no such number"), "{text}");
    }
}

#[test]
fn a_label_out_of_range_names_the_sample() {
    let source = Users::new(30, |index, _| {
        let class = if index == 11 { 3 } else { 0 };
        Ok(Sample { input: Values::Floats(vec![0.0; 2]), target: Target::Class(class) })
    });
    for workers in [0, 2] {
        let text = failure(&source, workers).to_string();
        assert_eq!(text, "the label of train sample 11 is 3, but there are only 3 classes");
    }
    // This is an error of the data set, not a corrupt sample.
    assert!(load(&source, 0, 0, &options(2, OnCorrupt::Skip)).is_err());
}

#[test]
fn samples_that_break_the_promise_of_the_spec_are_refused() {
    let with = |input: Values, target: Target| {
        let source = Users::new(1, move |_, _| Ok(Sample { input: input.clone(), target: target.clone() }));
        failure(&source, 1).to_string()
    };
    assert_eq!(
        with(Values::Floats(vec![0.0; 3]), Target::Class(0)),
        "the input of train sample 0 has 3 floats, but the source promises vector of 2 features (2 elements)"
    );
    assert_eq!(
        with(Values::Tokens(vec![0; 2]), Target::Class(0)),
        "the input of train sample 0 has 2 tokens, but the source promises vector of 2 features (2 elements)"
    );
    assert_eq!(
        with(Values::Floats(vec![0.0; 2]), Target::Values(vec![1.0])),
        "the target of train sample 0 has 1 values, but the source promises 3 classes"
    );
}

#[test]
fn tokens_and_vectors_as_targets_are_loaded_and_checked() {
    let spec = SampleSpec {
        input: InputSpec::Tokens { steps: 2, vocabulary: 5 },
        target: TargetSpec::Values { features: 2 },
    };
    let make = |last: i32| {
        move |index: usize, _: Option<Key>| {
            let input = Values::Tokens(vec![index as i32, last]);
            Ok(Sample { input, target: Target::Values(vec![0.5, index as f32]) })
        }
    };
    let source = Users::with_spec(spec.clone(), 2, make(4));
    let batches: Result<Vec<_>, _> =
        Loader::start(source, Split::Test, SampleOrder::eval(2, 2), 0, 0, None, &options(1, OnCorrupt::Fail))
            .collect();
    let batch = batches.expect("valid samples").remove(0);
    assert_eq!(batch.input, Values::Tokens(vec![0, 4, 1, 4]));
    assert_eq!(batch.targets, Targets::Values { data: vec![0.5, 0.0, 0.5, 1.0], features: 2 });
    for token in [5, -1] {
        let text = failure(&Users::with_spec(spec.clone(), 1, make(token)), 1).to_string();
        assert_eq!(text, format!("train sample 0 has token {token}, but the vocabulary has 5 tokens"));
    }
}

#[test]
fn a_corrupt_sample_ends_the_epoch_or_is_listed() {
    let source = Users::new(30, |index, augment| match index {
        4 | 21 => Err(SampleError::new(format!("{index}.txt"), "torn")),
        _ => plain(index, augment),
    });
    for workers in [0, 3] {
        let error = failure(&source, workers);
        assert!(matches!(error, DataError::Sample(_)), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("data.on_corrupt=skip")));

        let batches = load(&source, 0, 0, &options(workers, OnCorrupt::Skip)).expect("skipped");
        let mut skipped: Vec<_> =
            batches.iter().flat_map(|batch| &batch.skipped).map(ToString::to_string).collect();
        skipped.sort();
        assert_eq!(skipped, ["`21.txt` is unreadable: torn", "`4.txt` is unreadable: torn"]);
        assert_eq!(batches.iter().map(|batch| batch.size).sum::<usize>(), 28);
        for batch in &batches {
            assert_eq!(batch.shape, [batch.size, 2]);
        }
    }
}

#[test]
fn a_batch_of_corrupt_samples_alone_is_empty() {
    let source = Users::new(3, |index, _| Err(SampleError::new(index.to_string(), "torn")));
    let batches = load(&source, 0, 0, &options(1, OnCorrupt::Skip)).expect("skipped");
    assert_eq!(batches.len(), 1);
    assert_eq!((batches[0].size, batches[0].skipped.len(), &batches[0].shape[..]), (0, 3, &[0, 2][..]));
    assert!(batches[0].input.is_empty());
    assert_eq!(batches[0].clone().split(2), batches);
}

#[test]
fn batches_before_an_error_are_whole_and_none_follow_it() {
    let source = Users::new(64, |index, augment| match index {
        30 => Err(SampleError::new("30", "torn")),
        _ => plain(index, augment),
    });
    for workers in [0, 4] {
        let mut loader = Loader::start(
            source.clone(),
            Split::Test,
            SampleOrder::eval(64, 8),
            0,
            0,
            None,
            &options(workers, OnCorrupt::Fail),
        );
        let sizes: Vec<_> = loader.by_ref().map(|batch| batch.map_or(0, |batch| batch.size)).collect();
        assert_eq!(sizes, [8, 8, 8, 0]);
        assert!(loader.next().is_none());
    }
}

#[test]
fn no_samples_give_no_batches() {
    let source = Users::new(0, plain);
    for workers in [0, 2] {
        assert_eq!(load(&source, 0, 0, &options(workers, OnCorrupt::Fail)).expect("nothing to fail"), []);
    }
}
