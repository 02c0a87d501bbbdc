//! What is put where: the variable `POISON`, such as `place=forward,step=3,value=nan,stage=deep,extent=all,part=first`.
//!
//! | key | meaning |
//! |---|---|
//! | `place` | `input`, `target`, `held-out`, `forward`, `gradient`, `parameter`, `mean`, `variance`, `loss`, `carried` |
//! | `step` | the step from 0; for data the index of the sample |
//! | `value` | any that Rust reads as a float: `nan`, `-inf`, `3e38`, `1e-42` |
//! | `stage` | the stage; not for data, statistics and the loss |
//! | `extent` | `one` element or `all` |
//! | `part` | `all`: every micro-batch of every device; `first`: micro-batch 0 of device 0; `last`: those of device 1 |
//!
//! Where the value was put, a line is added to the file that the variable `POISON_MARK` names.

use std::{env, fs::OpenOptions, io::Write, sync::OnceLock};

use oomph::{
    Key, Pass,
    burn::tensor::{Device, Tensor, TensorData},
};

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Poison {
    place: String,
    step: u64,
    value: f32,
    stage: String,
    is_everywhere: bool,
    part: Part,
}

/// The part of a batch that is poisoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    First,
    Last,
}

/// More devices and micro-batches than any of the attack's trainings has.
const MOST_DEVICES: u64 = 4;
const MOST_MICRO_BATCHES: u64 = 16;

impl Poison {
    /// The poison of this process, if it is for `place`.
    pub(crate) fn at(place: &str) -> Option<&'static Self> {
        static POISON: OnceLock<Option<Poison>> = OnceLock::new();
        let poison = POISON.get_or_init(|| env::var("POISON").ok().map(|text| Self::read(&text)));
        poison.as_ref().filter(|poison| poison.place == place)
    }

    /// The poison of `place`, if it is for this stage and this pass.
    pub(crate) fn of_pass(place: &str, stage: &str, pass: &Pass) -> Option<&'static Self> {
        Self::at(place)
            .filter(|poison| (stage.is_empty() || poison.stage == stage) && poison.is_of(pass.key()))
    }

    /// The poison of `place`, if it is for this sample.
    pub(crate) fn of_sample(place: &str, index: usize) -> Option<&'static Self> {
        Self::at(place).filter(|poison| poison.step == index as u64)
    }

    /// # Panics
    /// Panics if the variable is not as described: the attack that wrote it is wrong.
    fn read(text: &str) -> Self {
        let value = |key: &str| {
            let pair = text.split(',').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
            pair.map_or("", |(_, value)| value)
        };
        let wrong = |key: &str| format!("POISON: `{key}` is `{}`", value(key));
        Self {
            place: value("place").to_owned(),
            step: value("step").parse().unwrap_or_else(|_| panic!("{}", wrong("step"))),
            value: value("value").parse().unwrap_or_else(|_| panic!("{}", wrong("value"))),
            stage: value("stage").to_owned(),
            is_everywhere: value("extent") == "all",
            part: match value("part") {
                "" | "all" => Part::All,
                "first" => Part::First,
                "last" => Part::Last,
                _ => panic!("{}", wrong("part")),
            },
        }
    }

    /// Whether a pass with this key is poisoned. The key of a pass is (seed, step, device or rank, micro-batch), and the
    /// seed is 0.
    fn is_of(&self, key: Key) -> bool {
        let devices = match self.part {
            Part::All => 0..MOST_DEVICES,
            Part::First => 0..1,
            Part::Last => 1..2,
        };
        let micro_batches = if self.part == Part::First { 1 } else { MOST_MICRO_BATCHES };
        let run = Key::new(0).with_name("step");
        let of_device = |device| match device {
            0 => [run.with(self.step); 2],
            // A rank of its own, or a replica of one process.
            _ => [
                run.with_name("rank").with(device).with(self.step),
                run.with(self.step).with_name("rank").with(device),
            ],
        };
        devices.flat_map(of_device).any(|device| (0..micro_batches).any(|index| device.with(index) == key))
    }

    /// The value for one sample.
    pub(crate) fn put(&self, values: &mut [f32]) {
        let count = if self.is_everywhere { values.len() } else { 1 };
        values[..count].fill(self.value);
        self.mark();
    }

    /// Zeros and the value, to be added to a tensor of this shape.
    pub(crate) fn tensor<const D: usize>(&self, dims: [usize; D], device: &Device) -> Tensor<D> {
        let mut values = vec![0.0; dims.iter().product()];
        // Neither the first row nor the first column.
        let at = values.len() / 2;
        if self.is_everywhere {
            values.fill(self.value);
        } else if let Some(value) = values.get_mut(at) {
            *value = self.value;
        }
        // The planner's device records, and executes nothing.
        if !format!("{device:?}").to_lowercase().contains("capture") {
            self.mark();
        }
        Tensor::from_data(TensorData::new(values, dims), device)
    }

    /// # Panics
    /// Panics where the file cannot be written: the attack would not see that the poison took place.
    fn mark(&self) {
        let Some(path) = env::var_os("POISON_MARK") else { return };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{} {}", self.place, self.value));
        written.expect("POISON_MARK names a file that can be written");
    }
}
