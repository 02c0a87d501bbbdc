use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_core::{ExecutionPoint, at_point, current_point};

use super::{Finish, Slide, conv2d, conv2d_finished};
use crate::kernels::Kernels;

/// The output of a convolution, to [normalise](Self::finished) or as a [tensor](Self::into_tensor).
///
/// Off the autodiff graph on a CPU it is not yet computed: a normalisation that follows, with a residual addition and a ReLU,
/// is computed while the output is in a core's cache.
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
    pub fn plain(input: Tensor<4>, weight: Tensor<4>, slide: Slide, kernels: Kernels) -> Self {
        match kernels {
            Kernels::Cpu => {
                Self(Form::Pending(Box::new(Pending { input, weight, slide, point: current_point() })))
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

    /// Whether it is off the autodiff graph.
    pub fn is_plain(&self) -> bool {
        match &self.0 {
            Form::Made(output) => !output.device().is_autodiff(),
            Form::Pending(_) => true,
        }
    }

    /// Whether it is not yet computed.
    pub fn is_pending(&self) -> bool {
        matches!(self.0, Form::Pending(_))
    }

    /// The output.
    pub fn into_tensor(self) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => *output,
            Form::Pending(pending) => {
                let Pending { input, weight, slide, point } = *pending;
                at_point(point, || conv2d(input, weight, slide, Kernels::Cpu))
            }
        }
    }

    /// The output normalised, in the format `dtype`. An output that was made is overwritten.
    pub fn finished(self, finish: Finish, dtype: DType, kernels: Kernels) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => finish.apply(*output, dtype, kernels),
            Form::Pending(pending) => {
                let Pending { input, weight, slide, point } = *pending;
                at_point(point, || conv2d_finished(input, weight, slide, finish, kernels))
            }
        }
    }
}
