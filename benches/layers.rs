//! Times our layers on the CPU: forward, and forward with backward. Takes some minutes.
//!
//! ```sh
//! cargo bench --bench layers
//! ```

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use oomph::burn::{
    self,
    module::Module,
    tensor::{Device, activation::relu},
};
use oomph::{
    AnyTensor, Init, Kernels, Key, ModelError, Pass, Policy, Stage, Stages,
    layers::{BatchNorm, Conv2d, Lstm},
    model::autodiff,
};

/// A model of one layer.
#[derive(Module, Debug)]
struct Norm {
    layer: BatchNorm,
}

impl Stage for Norm {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<4>(input)?;
        Ok(self.layer.forward(x, pass)?.into())
    }
}

/// The block of a ResNet: convolution, batch normalisation, ReLU.
#[derive(Module, Debug)]
struct ConvBlock {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Stage for ConvBlock {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = self.conv.forward(pass.float::<4>(input)?, pass)?;
        Ok(relu(self.norm.forward(x, pass)?).into())
    }
}

#[derive(Module, Debug)]
struct Recurrent {
    layer: Lstm,
}

impl Stage for Recurrent {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<3>(input)?;
        Ok(self.layer.forward(x, None, pass)?.0.into())
    }
}

/// A model of one convolution.
#[derive(Module, Debug)]
struct Convolution {
    layer: Conv2d,
}

impl Stage for Convolution {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<4>(input)?;
        Ok(self.layer.forward(x, pass)?.into())
    }
}

/// Measures both passes of a model with our kernels. The first dimension of `shape` is the batch.
fn measure(criterion: &mut Criterion, name: &str, shape: &[usize], make: impl Fn(&Init) -> Stages) {
    measure_by(criterion, name, shape, Kernels::Cpu, make);
}

fn measure_by(
    criterion: &mut Criterion,
    name: &str,
    shape: &[usize],
    kernels: Kernels,
    make: impl Fn(&Init) -> Stages,
) {
    let policy = Policy { kernels, ..Policy::default() };
    let device = Device::flex();
    let input =
        AnyTensor::floats((0..shape.iter().product()).map(|i| (i as f32).sin()).collect(), shape, &device);
    let shown = shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let mut group = criterion.benchmark_group(name);
    group
        .sampling_mode(SamplingMode::Flat)
        .throughput(Throughput::Elements(shape[0] as u64))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20);

    let model = make(&Init::new(&device, 0));
    group.bench_function(BenchmarkId::new("forward", &shown), |bencher| {
        bencher.iter(|| {
            black_box(
                model.forward(input.clone(), &mut Pass::eval().with_policy(policy)).expect("the shapes fit"),
            )
        });
    });

    let model = make(&Init::new(&device.clone().autodiff(), 0));
    let tracked = input.tracked(false);
    group.bench_function(BenchmarkId::new("forward and backward", &shown), |bencher| {
        bencher.iter(|| {
            let mut pass = Pass::train(Key::new(0)).with_policy(policy);
            let output = model.forward(tracked.clone(), &mut pass).expect("the shapes fit");
            black_box(autodiff::backward(output.sum_of_squares(), &model));
        });
    });
    group.finish();
}

fn layers(criterion: &mut Criterion) {
    measure(criterion, "batch norm", &[8, 64, 32, 32], |init| {
        Stages::single(Norm { layer: BatchNorm::new(init, 64) })
    });
    measure(criterion, "conv block", &[8, 64, 32, 32], |init| {
        let conv = Conv2d::new(&init.at("conv"), [64, 64], 3, 1);
        Stages::single(ConvBlock { conv, norm: BatchNorm::new(&init.at("norm"), 64) })
    });
    // Shapes of ResNet-18 and -50: [channels in and out], kernel, stride, [batch, size].
    for ([input, output], kernel, stride, [batch, size]) in [
        ([64, 64], 3, 1, [8, 32]),
        ([512, 512], 3, 1, [8, 4]),
        ([64, 128], 3, 2, [8, 32]),
        ([3, 64], 7, 2, [2, 224]),
        ([256, 64], 1, 1, [2, 56]),
        ([64, 64], 3, 1, [2, 56]),
    ] {
        for (kernels, whose) in [(Kernels::Cpu, "own"), (Kernels::Composed, "burn's")] {
            let name =
                format!("convolution {input} to {output}, {kernel}x{kernel}, stride {stride}, {whose}");
            measure_by(criterion, &name, &[batch, input, size, size], kernels, |init| {
                Stages::single(Convolution { layer: Conv2d::new(init, [input, output], kernel, stride) })
            });
        }
    }
    measure(criterion, "lstm", &[8, 64, 128], |init| {
        Stages::single(Recurrent { layer: Lstm::new(init, [128, 256]) })
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    layers(&mut criterion);
    criterion.final_summary();
}
