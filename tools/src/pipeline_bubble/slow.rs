//! A model whose stages sleep for a fixed time: devices need no core of their own.

use std::{error::Error, thread, time::Duration};

use oomph::burn::{
    self,
    module::Module,
    nn::{Linear, LinearConfig},
    tensor::Device,
};
use oomph::{
    AnyTensor, Architecture, Config, ConfigError, Mode, ModelError, Pass, Quiet, Registry, Section, Stage,
    Stages, Stop, TrainOptions, differentiable, train,
};
use oomph_trainer::open;

/// The mean idle share of the devices of a pipeline in forward and backward of one step. Each device has one stage, which
/// takes `milliseconds` forward and twice that backward.
pub(crate) fn idle_share(
    schedule: &str,
    devices: usize,
    micro_batches: usize,
    milliseconds: f64,
) -> Result<f64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let names = vec!["cpu"; devices].join(",");
    let cuts: Vec<_> = (1..devices).map(|device| format!("'stage.{device}'")).collect();
    let text = format!(
        "model = {{ name = 'slow', stages = {devices}, milliseconds = {milliseconds:?} }}
         data = {{ source = 'synthetic', kind = 'sequence', steps = 1, features = 1, classes = 2,
                  train_samples = {micro_batches}, test_samples = 1, workers = 0 }}
         device = {{ devices = '{names}', strategy = 'pipeline', schedule = '{schedule}', split_points = [{}] }}
         memory.micro_batch = 1
         train = {{ batch = {micro_batches}, steps = 1, eval_every = 'never' }}
         run.directory = '{}'",
        cuts.join(", "),
        folder.path().join("run").display(),
    );
    let registry = Registry::builtin().with_model("slow", slow);
    let session = open(Config::from_toml("slow", &text)?, &registry)?;
    let done = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
    // Each device of a pipeline has an idle share.
    let shares: Vec<f64> = done.devices.iter().filter_map(|device| device.idle_share).collect();
    Ok(shares.iter().sum::<f64>() / shares.len() as f64)
}

/// `stages` stages, each of which takes `milliseconds` forward and twice that backward, whatever the micro-batch.
fn slow(settings: &Section) -> Result<Architecture, ConfigError> {
    let stages = settings.integer("stages", 2, 1..=64)?;
    let microseconds = (settings.number("milliseconds", 10.0, 0.0..=10_000.0)? * 1e3) as u64;
    Ok(Architecture::new("slow", move |spec, init| {
        let outputs = spec.target.outputs();
        let stage = |index: usize| {
            let inputs = if index == 0 { spec.input.elements() } else { outputs };
            Slow { linear: LinearConfig::new(inputs, outputs).init(init.device()), microseconds }
        };
        Ok((0..stages).fold(Stages::new(), |model, index| model.with(format!("stage.{index}"), stage(index))))
    }))
}

/// A linear layer, and a sleep in each direction.
#[derive(Module, Debug)]
struct Slow {
    linear: Linear,
    #[module(skip)]
    microseconds: u64,
}

impl Stage for Slow {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let input = match input.rank() {
            3 => pass.float::<3>(input)?.flatten::<2>(1, 2),
            _ => pass.float::<2>(input)?,
        };
        let output = AnyTensor::from(self.linear.forward(input));
        let plain = output.clone().inner();
        // Planning and counting run on other backends, and must not sleep.
        if pass.mode() != Mode::Train || plain.device() != Device::flex() {
            return Ok(output);
        }
        let time = Duration::from_micros(self.microseconds);
        thread::sleep(time);
        Ok(differentiable([output], plain, move |gradient, _| {
            thread::sleep(2 * time);
            [Some(gradient)]
        }))
    }
}
