//! Compares the step time of our layers with Burn's layers on the same backend. Takes a minute.
//!
//! ```text
//! cargo xtask stock-burn --save 5
//! ```
//!
//! Networks, batch, precision, optimizer and threads are those of `tools/speed`. Both sides take turns. The table has the
//! fastest step of each, and the median ratio of the rounds with the lowest and the highest.

mod networks;
pub(crate) mod ours;

use std::{error::Error, process::ExitCode, time::Instant};

use burn::{
    module::AutodiffModule,
    nn::loss::CrossEntropyLossConfig,
    optim::{GradientsParams, SgdConfig, decay::WeightDecayConfig, momentum::MomentumConfig},
    tensor::{Device, Int, Tensor},
};

use networks::{Classifies, Recurrent, ResNet};

use crate::{
    Outcome,
    measured::{Measured, without_save},
};

/// Steps of a round. The fastest counts.
const STEPS: usize = 3;
const LR: f64 = 0.01;

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let rounds = arguments.first().map_or(Ok(5), |text| text.parse::<usize>())?.max(1);
    let mut table = Measured::begin(
        "stock-burn",
        is_saved,
        &["network", ">Burn's layers, s a step", ">ours", ">times as fast"],
    );
    let device = Device::flex().autodiff();
    let resnet = row(
        "ResNet-18, width 64, 32×32, batch 32",
        rounds,
        || stock(ResNet::new(&device), [32, 3, 32, 32]),
        || ours::step_seconds(ours::RESNET, STEPS),
    )?;
    table.add(resnet);
    let lstm = row(
        "LSTM, 128 → 256, 64 steps, batch 32",
        rounds,
        || stock(Recurrent::new(&device), [32, 64, 128]),
        || ours::step_seconds(ours::LSTM, STEPS),
    )?;
    table.add(lstm);
    table.end("stock-burn")?;
    Ok(ExitCode::SUCCESS)
}

/// Measures both sides in turns.
fn row(
    network: &str,
    rounds: usize,
    stock: impl Fn() -> f64,
    ours: impl Fn() -> Result<f64, Box<dyn Error>>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let (mut theirs, mut own, mut ratios) = (f64::MAX, f64::MAX, Vec::new());
    for _ in 0..rounds {
        let (stock, ours) = (stock(), ours()?);
        (theirs, own) = (theirs.min(stock), own.min(ours));
        ratios.push(stock / ours);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    let ratio = format!("{median:.1} ({least:.1}–{most:.1})");
    Ok(vec![network.to_owned(), format!("{theirs:.3}"), format!("{own:.3}"), ratio])
}

/// Seconds of the fastest step of Burn's layers with Burn's optimizer.
fn stock<const D: usize, M: AutodiffModule + Classifies<D>>(mut model: M, shape: [usize; D]) -> f64 {
    let device = Device::flex().autodiff();
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
    let decay = WeightDecayConfig { penalty: 1e-4 };
    let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).with_weight_decay(Some(decay)).init();
    let input = Tensor::<D>::random(shape, burn::tensor::Distribution::Normal(0.0, 1.0), &device);
    let targets = Tensor::<1, Int>::arange(0..shape[0] as i64, &device).remainder_scalar(10);
    let mut fastest = f64::MAX;
    for _ in 0..STEPS {
        let begin = Instant::now();
        let loss = CrossEntropyLossConfig::new()
            .init(&device)
            .forward(model.classify(input.clone()), targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(LR, model, gradients);
        fastest = fastest.min(begin.elapsed().as_secs_f64());
    }
    fastest
}
