//! What the ranks of a collective give, and their answers, where ranks are threads.

use std::{
    sync::{Arc, mpsc::Sender},
    thread,
    time::Instant,
};

use super::{
    Gathered, GroupError,
    pending::{Answer, Moved},
    sum::{scatter_by_threads, sum_by_threads},
};

/// What a rank gives, and where its answer goes.
#[derive(Debug)]
pub(super) enum Payload {
    Values(Vec<f32>, Answer),
    /// The values, where the share of each rank ends, and the sender for the own share.
    Scattered(Vec<f32>, Arc<[usize]>, Answer),
    Gathered(Vec<f32>, Answer<Gathered>),
    Bytes(Vec<u8>, Sender<Result<Vec<Vec<u8>>, GroupError>>),
}

/// The payloads of all ranks, in the order of ranks. All are of one kind.
#[derive(Default)]
pub(super) struct Given {
    values: Vec<Vec<f32>>,
    bytes: Vec<Vec<u8>>,
    /// Where the share of each rank ends, in a reduce-scatter.
    ends: Option<Arc<[usize]>>,
    sums_to: Vec<Answer>,
    gathered_to: Vec<Answer<Gathered>>,
    bytes_to: Vec<Sender<Result<Vec<Vec<u8>>, GroupError>>>,
}

impl Given {
    pub(super) fn take(&mut self, payload: Payload) {
        match payload {
            Payload::Values(values, answer) => {
                self.values.push(values);
                self.sums_to.push(answer);
            }
            Payload::Scattered(values, ends, answer) => {
                self.values.push(values);
                self.ends = Some(ends);
                self.sums_to.push(answer);
            }
            Payload::Gathered(values, answer) => {
                self.values.push(values);
                self.gathered_to.push(answer);
            }
            Payload::Bytes(bytes, answer) => {
                self.bytes.push(bytes);
                self.bytes_to.push(answer);
            }
        }
    }

    /// Answers ranks that `met` then.
    pub(super) fn answer(self, met: Instant) {
        let Self { values: mut parts, bytes, ends, sums_to, gathered_to, mut bytes_to } = self;
        if !sums_to.is_empty() {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let threads = parts.len().min(cores);
            match &ends {
                Some(ends) => scatter_by_threads(&mut parts, ends, threads),
                None => sum_by_threads(&mut parts, threads),
            }
        }
        let finished = Instant::now();
        if gathered_to.is_empty() {
            for (values, answer) in parts.into_iter().zip(sums_to) {
                _ = answer.send(Ok(Moved { values, met, finished }));
            }
        } else {
            let values: Gathered = parts.into();
            for answer in gathered_to {
                _ = answer.send(Ok(Moved { values: values.clone(), met, finished }));
            }
        }
        if let Some(last) = bytes_to.pop() {
            bytes_to.into_iter().for_each(|answer| _ = answer.send(Ok(bytes.clone())));
            _ = last.send(Ok(bytes));
        }
    }
}
