use burn::tensor::{DType, Device, Tensor, module::max_pool2d_with_indices};
use oomph_kernels::{
    norm::{Addend, Norm, moments, rectified_gradient},
    pool::Windows,
};

use super::{CPU, FORMATS, copied, full, full_as, probe};
use crate::probe::{Probe, Ready};

/// Channels, and the size of images.
const SHAPES: [[usize; 2]; 10] =
    [[8, 8], [64, 8], [256, 4], [64, 112], [64, 32], [256, 24], [256, 14], [512, 7], [512, 4], [2048, 3]];

/// The most elements of a probe.
const MOST: usize = 4 << 20;

pub(super) fn probes() -> Vec<Probe> {
    let mut probes: Vec<Probe> = [1, 4, 16].into_iter().map(pool_of_burn).collect();
    for dtype in FORMATS {
        probes.extend([1, 4, 16].into_iter().flat_map(|batch| pools(batch, dtype)));
    }
    for dtype in FORMATS {
        let batches = if dtype == DType::F32 { &[1, 4, 16, 64][..] } else { &[2, 16] };
        for [channels, size] in SHAPES {
            let shapes = batches.iter().map(|batch| [*batch, channels, size, size]);
            for shape in shapes.filter(|shape| shape.iter().product::<usize>() <= MOST) {
                probes.extend(of_images(shape, dtype));
            }
        }
    }
    probes
}

fn norm(channels: usize, device: &Device) -> Norm {
    let vector = || full([channels], device);
    Norm { mean: vector(), inverse: vector(), weight: vector(), shift: vector(), shared: None }
}

fn of_images(shape: [usize; 4], dtype: DType) -> [Probe; 5] {
    let apply = |has_addend: bool| {
        probe("normalise", move |device| {
            let (norm, input) = (norm(shape[1], device), full_as(shape, dtype, device));
            move || -> Ready {
                let (norm, input) = (norm.clone(), input.clone());
                let addend = match has_addend {
                    true => Addend::Plain(Box::new(input.clone())),
                    false => Addend::Nothing,
                };
                Box::new(move || drop(norm.apply(input, addend, true, dtype, CPU)))
            }
        })
    };
    [
        apply(false),
        apply(true),
        with_gradient("channel_moments", shape, dtype, |_, input, _| drop(moments(&input, CPU))),
        with_gradient("normalise_backward", shape, dtype, |norm, input, gradient| {
            drop(norm.backward(input, gradient, true, CPU));
        }),
        with_gradient("rectify_backward", shape, dtype, |_, input, gradient| {
            drop(rectified_gradient(gradient, &input, CPU));
        }),
    ]
}

/// A probe that reads the input and overwrites the gradient.
fn with_gradient(
    kind: &'static str,
    shape: [usize; 4],
    dtype: DType,
    run: fn(&Norm, Tensor<4>, Tensor<4>),
) -> Probe {
    probe(kind, move |device| {
        let (norm, input) = (norm(shape[1], device), full_as(shape, dtype, device));
        move || -> Ready {
            let (norm, input, gradient) = (norm.clone(), input.clone(), copied(&input));
            Box::new(move || run(&norm, input, gradient))
        }
    })
}

/// Our kernels of max pooling, both ways.
fn pools(batch: usize, dtype: DType) -> [Probe; 2] {
    const WINDOWS: Windows = Windows { kernel: 3, stride: 2, padding: 1 };
    let shape = [batch, 64, 48, 48];
    let forward = probe("max_pool", move |device| {
        let images = full_as(shape, dtype, device);
        move || -> Ready {
            let images = images.clone();
            Box::new(move || drop(WINDOWS.maxima(images, CPU)))
        }
    });
    let backward = probe("max_pool_backward", move |device| {
        let maxima = WINDOWS.maxima(full_as(shape, dtype, device), CPU);
        move || -> Ready {
            let (gradient, positions) = (maxima.values.clone(), maxima.positions.clone());
            Box::new(move || drop(WINDOWS.backward(gradient, positions, shape, dtype, CPU)))
        }
    });
    [forward, backward]
}

fn pool_of_burn(batch: usize) -> Probe {
    probe("max_pool2d_with_indices", move |device| {
        let images = full([batch, 64, 48, 48], device);
        move || -> Ready {
            let images = images.clone();
            Box::new(move || drop(max_pool2d_with_indices(images, [3; 2], [2; 2], [1; 2], [1; 2], false)))
        }
    })
}
