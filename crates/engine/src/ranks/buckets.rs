//! Parameters by the moment in backward that completes their gradients.

use std::ops::Range;

use oomph_core::{Account, Bytes, charge};
use oomph_model::{AnyTensor, Named, Stages};

/// The names and shapes of parameters whose gradients are complete at the same moment: they are reduced or released together.
pub(crate) type Bucket = Vec<(String, Vec<usize>)>;

/// The trained parameters of each segment, given by its stages. Their gradients are complete after its backward.
pub(crate) fn buckets(model: &Stages, runs: impl Iterator<Item = Range<usize>>) -> Vec<Bucket> {
    let mut of_stage: Vec<Bucket> = vec![Bucket::new(); model.len()];
    model.visit(&mut |info, tensor| {
        if info.trainable {
            of_stage[info.stage].push((info.name.to_owned(), tensor.dims()));
        }
    });
    runs.map(|stages| of_stage[stages].concat()).collect()
}

/// The last stage of each bucket that is reduced, with at least `bucket_bytes` of gradients per bucket. Backward pauses there to start
/// the all-reduce.
pub(crate) fn bucket_ends(model: &Stages, bucket_bytes: Bytes) -> Vec<usize> {
    let mut bytes = vec![0; model.len()];
    model.visit(&mut |info, tensor| {
        if info.trainable {
            bytes[info.stage] += (tensor.elements() * size_of::<f32>()) as u64;
        }
    });
    // In the order of backward.
    let sizes: Vec<_> = bytes.into_iter().rev().map(Bytes::new).collect();
    let runs = oomph_parallel::buckets(&sizes, bucket_bytes);
    runs.iter().skip(1).map(|run| model.len() - 1 - run.start).collect()
}

/// Takes the gradients of a bucket out of `sums`, those of earlier micro-batches, and of `newest`, those of the last one, and adds
/// them up.
pub(crate) fn completed(
    bucket: &Bucket,
    sums: &mut Named<AnyTensor>,
    newest: &mut Named<AnyTensor>,
) -> Named<AnyTensor> {
    let taken = bucket.iter().filter_map(|(name, _)| {
        let gradient = complete(name, sums, newest)?;
        Some((charge(Account::Host, || name.clone()), gradient))
    });
    taken.collect()
}

/// As [`completed`], of one parameter.
pub(super) fn complete(
    name: &str,
    sums: &mut Named<AnyTensor>,
    newest: &mut Named<AnyTensor>,
) -> Option<AnyTensor> {
    match (sums.remove(name), newest.remove(name)) {
        (Some(sum), Some(newest)) => Some(sum.add(newest)),
        (one, other) => one.or(other),
    }
}
