//! Any number of labels a sample, on several devices.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use crate::support::Runs;

/// Sums over samples are made in another order; 20 steps carry that on.
const TOLERANCE: f64 = 1e-5;

const RECIPE: &str = "
    model = { name = 'lstm', hidden = 10 }
    data.source = 'folder'
    data.label_separator = ' '
    data.workers = 0
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer = { name = 'sgd', lr = 0.1, momentum = 0.9, clip_global_norm = 1.0 }
    ";

/// Images whose channels are bright where they have the label of that colour.
fn images(runs: &Runs) -> String {
    let mut table = "file,label\n".to_owned();
    for index in 0..70_u32 {
        let has = |channel: u32| (index * 7 + index / 5) >> channel & 1 == 1;
        let pixel = |x: u32, y: u32| {
            Rgb([0, 1, 2].map(|channel| (u32::from(has(channel)) * 90 + (x * 5 + y * 3 + index) % 60) as u8))
        };
        let mut bytes = Cursor::new(Vec::new());
        let image = DynamicImage::from(RgbImage::from_fn(8, 8, pixel));
        image.write_to(&mut bytes, ImageFormat::Png).expect("written to memory");
        std::fs::write(runs.path(&format!("{index}.png")), bytes.into_inner()).expect("a file");
        let names =
            (0..3).filter(|channel| has(*channel)).map(|channel| ["red", "green", "blue"][channel as usize]);
        table += &format!("{index}.png,{}\n", names.collect::<Vec<_>>().join(" "));
    }
    let path = runs.path("labels.csv");
    std::fs::write(&path, table).expect("a file");
    format!("data.labels = '{}'\n", path.display())
}

fn on(strategy: &str, devices: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = '{strategy}'\n", vec!["cpu"; devices].join(","))
}

#[test]
fn every_strategy_trains_what_one_device_trains() {
    let runs = Runs::new(RECIPE);
    let labels = images(&runs);
    let alone = runs.trained("alone", 20, &labels);
    for (strategy, devices) in [("ddp", 3), ("dp", 3), ("model", 2), ("pipeline", 2)] {
        for micro_batch in ["", "memory.micro_batch = 3\n"] {
            let name = format!("{strategy}-{devices}-{}", micro_batch.len());
            let shared = runs.trained(&name, 20, &(on(strategy, devices) + micro_batch + &labels));
            shared.check(&alone, TOLERANCE, &name);
        }
    }
    for (name, keys) in [("micro", "memory.micro_batch = 3\n"), ("burn", "memory.lean = false\n")] {
        runs.trained(name, 20, &(keys.to_owned() + &labels)).check(&alone, TOLERANCE, name);
    }
}

#[test]
fn mixed_weighted_and_smoothed_labels_are_those_of_one_device() {
    let runs = Runs::new(RECIPE);
    let keys = "data.augment.mixup = 0.4\ndata.augment.cutmix = 1.0\ntrain.label_smoothing = 0.1\n\
                train.class_weights = 'balanced'\n"
        .to_owned()
        + &images(&runs);
    let alone = runs.trained("alone", 20, &keys);
    for (strategy, devices) in [("ddp", 3), ("dp", 3), ("pipeline", 2)] {
        let shared =
            runs.trained(strategy, 20, &(on(strategy, devices) + "memory.micro_batch = 3\n" + &keys));
        shared.check(&alone, TOLERANCE, strategy);
    }
}
