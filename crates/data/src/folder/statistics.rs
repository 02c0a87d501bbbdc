use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::folder_images::FolderImages;
use crate::{
    DataError, OnCorrupt, SampleError,
    transform::{PixelSums, Statistics},
};

/// The largest number of images for statistics; of more images, evenly spread ones are taken. The error of a mean is far
/// below 1 %.
pub(super) const MOST_IMAGES: usize = 50_000;

/// Mean and standard deviation of the pixels, computed on all cores. The result does not depend on their number.
///
/// With [`OnCorrupt::Skip`] images that cannot be decoded are left out; otherwise the first of them is the error.
pub(super) fn compute(images: &FolderImages, on_corrupt: OnCorrupt) -> Result<Statistics, DataError> {
    let pass = StatisticsPass {
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
            // If the system refuses a thread, the others do its work.
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
struct StatisticsPass<'a> {
    images: &'a FolderImages,
    on_corrupt: OnCorrupt,
    count: usize,
    next: AtomicUsize,
    stop: AtomicBool,
    /// The sums so far, and the error of the lowest image that cannot be decoded.
    total: Mutex<(PixelSums, Option<(usize, SampleError)>)>,
}

impl StatisticsPass<'_> {
    fn work(&self) {
        let mut sums = PixelSums::new(self.images.shape);
        let mut first_error: Option<(usize, SampleError)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            if place >= self.count {
                break;
            }
            // Evenly spread; 128 bits keep the product exact.
            let index = (place as u128 * self.images.part.len() as u128 / self.count as u128) as usize;
            if let Err(error) = self.images.pixels(index, |pixels| sums.add(pixels)) {
                // Threads finish lower indices that they took before, so the lowest error is always the same.
                self.stop.store(self.on_corrupt == OnCorrupt::Fail, Ordering::Relaxed);
                first_error.get_or_insert((index, error));
            }
        }
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.0.merge(&sums);
        total.1 = total.1.take().into_iter().chain(first_error).min_by_key(|(index, _)| *index);
    }
}
