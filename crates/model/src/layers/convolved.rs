use burn::tensor::Tensor;

use oomph_core::{ExecutionPoint, at_point, current_point};
use oomph_kernels::{
    Kernels,
    conv::{Finish, Slide, conv2d, conv2d_finished},
    norm::{Addend, Norm},
};

use crate::Policy;

/// The output of a convolution, for a [`BatchNorm`](super::BatchNorm) or as a [tensor](Self::into_tensor).
///
/// Off the autodiff graph on a CPU it is not yet computed: a normalisation that follows, with a residual addition and a ReLU,
/// is computed while the output is in a core's cache. Nothing else reads it, so it never needs memory of its own.
#[derive(Debug)]
pub struct Convolved(Form);

#[derive(Debug)]
enum Form {
    Made(Box<Tensor<4>>),
    Pending(Box<Pending>),
}

#[derive(Debug)]
struct Pending {
    input: Tensor<4>,
    weight: Tensor<4>,
    slide: Slide,
    kernels: Kernels,
    /// Where the layer runs: its output belongs there.
    point: ExecutionPoint,
}

impl From<Tensor<4>> for Convolved {
    fn from(output: Tensor<4>) -> Self {
        Self(Form::Made(Box::new(output)))
    }
}

impl Convolved {
    /// A convolution off the graph. On a CPU it waits.
    pub(super) fn plain(input: Tensor<4>, weight: Tensor<4>, slide: Slide, kernels: Kernels) -> Self {
        match kernels {
            Kernels::Cpu => {
                let point = current_point();
                Self(Form::Pending(Box::new(Pending { input, weight, slide, kernels, point })))
            }
            Kernels::Gpu | Kernels::Composed => conv2d(input, weight, slide, kernels).into(),
        }
    }

    /// The shape, `[B, C, H, W]`.
    pub fn dims(&self) -> [usize; 4] {
        match &self.0 {
            Form::Made(output) => output.dims(),
            Form::Pending(pending) => pending.slide.output(pending.input.dims(), pending.weight.dims()),
        }
    }

    /// The output.
    pub fn into_tensor(self) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => *output,
            Form::Pending(pending) => {
                let Pending { input, weight, slide, kernels, point } = *pending;
                at_point(point, || conv2d(input, weight, slide, kernels))
            }
        }
    }

    /// Whether it is off the autodiff graph.
    pub(super) fn is_plain(&self) -> bool {
        match &self.0 {
            Form::Made(output) => !output.device().is_autodiff(),
            Form::Pending(_) => true,
        }
    }

    /// Whether it is not yet computed.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.0, Form::Pending(_))
    }

    /// The output normalised, with an addend; rectified if `rectify`. An output that was made is overwritten.
    pub(super) fn normed(
        self,
        norm: Norm,
        addend: Option<Tensor<4>>,
        rectify: bool,
        policy: Policy,
    ) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => {
                let addend = addend.map_or(Addend::Nothing, |addend| Addend::Plain(Box::new(addend)));
                norm.apply(*output, addend, rectify, policy.dtype(), policy.kernels)
            }
            Form::Pending(pending) => {
                let Pending { input, weight, slide, kernels, point } = *pending;
                let finish = Finish { norm, addend, rectify };
                at_point(point, || conv2d_finished(input, weight, slide, finish, kernels))
            }
        }
    }
}
