//! The kernels that are timed, with their sizes.
//!
//! Sizes are those of usual models, from a batch of one to one that fills the caches, so that most trainings lie between two
//! of them.

mod convolutions;
mod elementwise;
mod normalisation;
mod optimizers;
mod products;
mod recurrent;
mod transformer;

use burn::tensor::{DType, Device, Tensor};
use oomph_kernels::{Kernels, cast, leave_caches};

use crate::probe::{Prepare, Probe, Ready};

/// The kernels of the CPU.
const CPU: Kernels = Kernels::Cpu;

/// The formats of activations.
const FORMATS: [DType; 2] = [DType::F32, DType::BF16];

/// All probes.
pub(crate) fn all() -> Vec<Probe> {
    let lists = [
        convolutions::probes(),
        normalisation::probes(),
        products::probes(),
        recurrent::probes(),
        elementwise::probes(),
        optimizers::probes(),
        transformer::probes(),
    ];
    lists.into_iter().flatten().collect()
}

/// A probe of the kind `kind`: `on` makes the tensors on a device, and gives what makes the operation ready.
fn probe<P>(kind: &'static str, on: impl Fn(&Device) -> P + 'static) -> Probe
where
    P: FnMut() -> Ready + 'static,
{
    Probe { kind, on: Box::new(move |device| Box::new(on(device)) as Prepare) }
}

/// A tensor of one value, with memory of its own.
fn full<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::full(shape, 0.5, device)
}

/// As [`full`], in the format `dtype`.
fn full_as<const D: usize>(shape: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
    cast(full(shape, device), dtype, CPU)
}

/// Elements of a parameter from which on a training finds it in no cache: a model with such parameters has many of them.
const COLD: usize = 1 << 18;

/// Takes a parameter, or what belongs to one, out of the caches if a training would not find it there.
fn cool<const D: usize>(tensor: &Tensor<D>) {
    if tensor.shape().num_elements() >= COLD {
        leave_caches(tensor);
    }
}

/// Another tensor of the same shape and format, which nobody else holds: a kernel may overwrite it.
fn copied<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    let dtype = tensor.dtype();
    cast(tensor.clone().add_scalar(0.25), dtype, CPU)
}
