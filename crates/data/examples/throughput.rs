//! Measures how many images a folder source gives a second.
//!
//! ```text
//! cargo run --release -p oomph-data --example throughput -- ../shared/data/cifar10-mini
//! ```
//!
//! `decoded` reads and decodes every file; `kept` takes the pixels from memory. Both crop, flip and normalise.

use std::{env, error::Error, sync::Arc, time::Instant};

use oomph_config::Section;
use oomph_core::{Key, Split};
use oomph_data::{LastBatch, Loader, LoaderOptions, OpenContext, SampleOrder, Source};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("the folder of the images is missing")?;
    let decoded = open(&path, "none")?;
    let kept = open(&path, "memory")?;
    transform_alone(&*kept)?;
    for workers in [0, 1, 2, 4, 8] {
        let options = LoaderOptions::with_workers(workers);
        let [decoded, kept] =
            [images_per_second(&decoded, &options, 2)?, images_per_second(&kept, &options, 10)?];
        println!("{workers} workers: {decoded:9.0} images/s decoded, {kept:9.0} images/s kept");
    }
    Ok(())
}

fn open(path: &str, cache: &str) -> Result<Arc<dyn Source>, Box<dyn Error>> {
    let text = format!("path = '{path}'\ncache = '{cache}'\ncrop_padding = 4\nflip = true");
    let section = Section::from_toml("data", &text)?;
    let context = OpenContext::new(env::temp_dir().join("oomph-throughput"), 0);
    Ok(oomph_data::folder(&section)?.open(&context)?)
}

/// The source alone, on this thread, without the copy into batches.
fn transform_alone(source: &dyn Source) -> Result<(), Box<dyn Error>> {
    let count = source.len(Split::Train);
    let pass = || -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        for index in 0..count {
            source.sample(Split::Train, index, Some(Key::new(0).with(index as u64)))?;
        }
        Ok(count as f64 / start.elapsed().as_secs_f64())
    };
    pass()?;
    println!("source alone, kept: {:9.0} images/s", pass()?);
    Ok(())
}

fn images_per_second(
    source: &Arc<dyn Source>,
    options: &LoaderOptions,
    epochs: usize,
) -> Result<f64, Box<dyn Error>> {
    let order = SampleOrder::train(source.len(Split::Train), 64, 0, LastBatch::Keep);
    let (start, mut images) = (Instant::now(), 0);
    for epoch in 0..epochs {
        for batch in Loader::start(source.clone(), Split::Train, order.clone(), epoch, 0, Some(0), options) {
            images += batch?.size;
        }
    }
    Ok(images as f64 / start.elapsed().as_secs_f64())
}
