//! The layers that Burn has beside ours, on the same backend: the seconds that a training step takes, in turns.
//!
//! ```text
//! cargo run --release --example stock_burn -- 5
//! ```
//!
//! Same networks, batch, precision, optimizer and threads as in `tools/speed`. Prints the fastest step of each and the
//! ratio, the median over the rounds with the lowest and the highest.

mod networks;
mod ours;

use std::{env, error::Error, time::Instant};

use burn::{
    module::AutodiffModule,
    nn::loss::CrossEntropyLossConfig,
    optim::{GradientsParams, SgdConfig, decay::WeightDecayConfig, momentum::MomentumConfig},
    tensor::{Device, Int, Tensor},
};

use networks::{Classifies, Recurrent, ResNet};

oomph_memory::install_meter!();

/// Steps of a round, of which the fastest counts.
const STEPS: usize = 3;
const LR: f64 = 0.01;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    println!("| network | Burn's layers, s a step | ours | times as fast |\n|---|---:|---:|---:|");
    let device = Device::flex().autodiff();
    row(
        "ResNet-18, width 64, 32×32, batch 32",
        rounds,
        || stock(ResNet::new(&device), [32, 3, 32, 32]),
        || ours::step_seconds(ours::RESNET, STEPS),
    )?;
    row(
        "LSTM, 128 → 256, 64 steps, batch 32",
        rounds,
        || stock(Recurrent::new(&device), [32, 64, 128]),
        || ours::step_seconds(ours::LSTM, STEPS),
    )
}

/// Measures both sides in turns.
fn row(
    network: &str,
    rounds: usize,
    stock: impl Fn() -> f64,
    ours: impl Fn() -> Result<f64, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (mut theirs, mut own, mut ratios) = (f64::MAX, f64::MAX, Vec::new());
    for _ in 0..rounds {
        let (stock, ours) = (stock(), ours()?);
        (theirs, own) = (theirs.min(stock), own.min(ours));
        ratios.push(stock / ours);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!("| {network} | {theirs:.3} | {own:.3} | {median:.1} ({least:.1}–{most:.1}) |");
    Ok(())
}

/// Seconds of the fastest step of a network of Burn's layers, trained by Burn's optimizer.
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
