use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::Images;
use crate::{
    DataError, OnCorrupt, SampleError,
    transform::{PixelSums, Statistics},
};

/// Of more images than this, so many evenly spread ones are taken; the error of a mean is then far below 1 %.
pub(super) const MOST_IMAGES: usize = 50_000;

/// Mean and standard deviation of the pixels, by all cores. The result does not depend on how many there are.
///
/// Images that cannot be decoded are left out with [`OnCorrupt::Skip`]; otherwise the first of them is the error.
pub(super) fn compute(images: &Images, on_corrupt: OnCorrupt) -> Result<Statistics, DataError> {
    let pass = Pass {
        images,
        on_corrupt,
        count: images.part.len().min(MOST_IMAGES),
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        total: Mutex::new((PixelSums::new(images.shape), None)),
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(pass.count);
    thread::scope(|scope| {
        for worker in 1..workers {
            let name = format!("oomph-statistics-{worker}");
            // Where the system refuses a thread, the others do its part.
            let _ = thread::Builder::new().name(name).spawn_scoped(scope, || pass.work());
        }
        pass.work();
    });
    let (sums, first_error) = pass.total.into_inner().unwrap_or_else(PoisonError::into_inner);
    match first_error {
        Some((_, error)) if on_corrupt == OnCorrupt::Fail => Err(error.into()),
        Some((_, first)) if sums.images() == 0 => {
            Err(DataError::NothingReadable { count: pass.count, first })
        }
        _ => Ok(sums.statistics(u8::MAX)),
    }
}

/// One pass over the images, shared by threads.
struct Pass<'a> {
    images: &'a Images,
    on_corrupt: OnCorrupt,
    count: usize,
    next: AtomicUsize,
    stop: AtomicBool,
    /// The sums so far, and of the images that cannot be decoded the one with the lowest index.
    total: Mutex<(PixelSums, Option<(usize, SampleError)>)>,
}

impl Pass<'_> {
    fn work(&self) {
        let mut sums = PixelSums::new(self.images.shape);
        let mut first_error: Option<(usize, SampleError)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            if place >= self.count {
                break;
            }
            // Evenly spread: the widening keeps the product exact.
            let index = (place as u128 * self.images.part.len() as u128 / self.count as u128) as usize;
            if let Err(error) = self.images.pixels(index, |pixels| sums.add(pixels)) {
                // Whoever took a lower index still finishes it, so the lowest error is the same every time.
                self.stop.store(self.on_corrupt == OnCorrupt::Fail, Ordering::Relaxed);
                first_error.get_or_insert((index, error));
            }
        }
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.0.merge(&sums);
        total.1 = total.1.take().into_iter().chain(first_error).min_by_key(|(index, _)| *index);
    }
}
