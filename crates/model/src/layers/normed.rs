use burn::tensor::{Tensor, activation::relu};

use oomph_kernels::{
    conv::{Convolved, Finish, Slide, conv2d, conv2d_backward},
    differentiable,
    norm::{Addend, Norm, NormGradients, rectified_gradient},
    pool::{Maxima, Windows},
    ranked,
};

use crate::{AnyTensor, Policy, autodiff};

/// A batch normalisation that is not yet computed: [`BatchNorm::normed`](super::BatchNorm::normed) gives it. The operation
/// that follows decides what backward must keep.
///
/// Composed of Burn's operations, a normalisation, a ReLU and the next convolution keep about five tensors of the
/// activation's size; PyTorch keeps two. Ours keep only the input of the normalisation. Backward recomputes the normalised,
/// rectified activation in one pass (as in "In-Place Activated BatchNorm", Rota Bulò et al. 2018,
/// <https://arxiv.org/abs/1712.02616>, which inverts the normalisation instead).
#[derive(Debug)]
pub struct Normed(Form);

#[derive(Debug)]
pub(super) enum Form {
    /// Computed by Burn's operations.
    Made(Box<Tensor<4>>),
    /// Computed together with the operation that follows, in the graph.
    Deferred(Box<Deferred>),
    /// The same off the graph: in evaluation, and in a stage without gradients. Nothing is kept.
    Plain(Box<Plain>),
}

/// The other branch of a residual block, which is added to a normalised activation before the ReLU.
#[derive(Debug)]
pub enum Shortcut {
    /// A plain activation.
    Identity(Box<Tensor<4>>),
    /// An activation that is normalised too.
    Normed(Normed),
}

#[derive(Debug)]
pub(super) struct Deferred {
    /// The input, in the graph.
    input: Tensor<4>,
    norm: Norm,
    /// Weight and bias in the graph.
    parameters: [Tensor<1>; 2],
    policy: Policy,
}

#[derive(Debug)]
pub(super) struct Plain {
    input: Convolved,
    norm: Norm,
    policy: Policy,
}

impl Normed {
    pub(super) fn made(output: Tensor<4>) -> Self {
        Self(Form::Made(Box::new(output)))
    }

    pub(super) fn deferred(input: Tensor<4>, norm: Norm, parameters: [Tensor<1>; 2], policy: Policy) -> Self {
        Self(Form::Deferred(Box::new(Deferred { input, norm, parameters, policy })))
    }

    /// Of an input off the graph.
    pub(super) fn plain(input: Convolved, norm: Norm, policy: Policy) -> Self {
        Self(Form::Plain(Box::new(Plain { input, norm, policy })))
    }

    pub(super) fn into_form(self) -> Form {
        self.0
    }

    /// The activation. Keeps the input.
    pub fn into_tensor(self) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => *output,
            Form::Deferred(deferred) => deferred.alone(false),
            Form::Plain(plain) => plain.made(None, false),
        }
    }

    /// The activation rectified. Keeps the input.
    pub fn rectified(self) -> Tensor<4> {
        match self.0 {
            Form::Made(output) => relu(*output),
            Form::Deferred(deferred) => deferred.alone(true),
            Form::Plain(plain) => plain.made(None, true),
        }
    }

    /// The sum with a shortcut, rectified: the end of a residual block. Keeps the inputs of the normalisations and the output,
    /// which the next convolution keeps too.
    pub fn add_rectified(self, shortcut: Shortcut) -> Tensor<4> {
        match (self.0, shortcut) {
            (Form::Made(output), Shortcut::Identity(shortcut)) => relu(*output + *shortcut),
            (Form::Made(output), Shortcut::Normed(shortcut)) => relu(*output + shortcut.into_tensor()),
            (Form::Deferred(deferred), Shortcut::Identity(shortcut)) => deferred.add_identity(*shortcut),
            (Form::Deferred(deferred), Shortcut::Normed(shortcut)) => match shortcut.0 {
                Form::Deferred(shortcut) => deferred.add_normed(*shortcut),
                shortcut => deferred.add_identity(Self(shortcut).into_tensor()),
            },
            (Form::Plain(plain), Shortcut::Identity(shortcut)) => plain.made(Some(*shortcut), true),
            (Form::Plain(plain), Shortcut::Normed(shortcut)) => plain.add_normed(shortcut),
        }
    }
}

fn into_any(gradients: NormGradients) -> [Option<AnyTensor>; 3] {
    [Some(gradients.input.into()), Some(gradients.weight.into()), Some(gradients.shift.into())]
}

impl Plain {
    pub(super) fn dims(&self) -> [usize; 4] {
        self.input.dims()
    }

    fn made(self, addend: Option<Tensor<4>>, rectify: bool) -> Tensor<4> {
        let Self { input, norm, policy } = self;
        input.finished(Finish { norm, addend, rectify }, policy.dtype(), policy.kernels)
    }

    fn add_normed(self, shortcut: Normed) -> Tensor<4> {
        match shortcut.0 {
            // Both are there: one pass over memory normalises both.
            Form::Plain(shortcut) if !self.input.is_pending() => {
                let Self { input, norm, policy } = self;
                let addend = Addend::Normed(Box::new((shortcut.norm, shortcut.input.into_tensor())));
                norm.apply(input.into_tensor(), addend, true, policy.dtype(), policy.kernels)
            }
            shortcut => self.made(Some(Normed(shortcut).into_tensor()), true),
        }
    }

    /// The convolution of the rectified activation.
    pub(super) fn rectified_convolution(self, weight: Tensor<4>, slide: Slide) -> Convolved {
        let kernels = self.policy.kernels;
        Convolved::plain(self.made(None, true), weight, slide, kernels)
    }

    /// The maxima of the rectified activation.
    pub(super) fn rectified_maxima(self, windows: Windows) -> Tensor<4> {
        let kernels = self.policy.kernels;
        windows.maxima(self.made(None, true), kernels).values
    }
}

impl Deferred {
    pub(super) fn dims(&self) -> [usize; 4] {
        self.input.dims()
    }

    /// The input off the graph, which backward keeps.
    fn kept(&self) -> Tensor<4> {
        autodiff::inner(self.input.clone())
    }

    /// The inputs of the operation in the graph.
    fn inputs(self) -> [AnyTensor; 3] {
        let [weight, bias] = self.parameters;
        [self.input.into(), weight.into(), bias.into()]
    }

    fn alone(self, rectify: bool) -> Tensor<4> {
        let (kept, norm, policy) = (self.kept(), self.norm.clone(), self.policy);
        let output = norm.apply(kept.clone(), Addend::Nothing, rectify, policy.dtype(), policy.kernels);
        ranked(differentiable(self.inputs(), output.into(), move |gradient, _| {
            into_any(norm.backward(kept, ranked(gradient), rectify, policy.kernels))
        }))
    }

    fn add_identity(self, shortcut: Tensor<4>) -> Tensor<4> {
        let (kept, norm, Policy { kernels, .. }) = (self.kept(), self.norm.clone(), self.policy);
        let addend = Addend::Plain(Box::new(autodiff::inner(shortcut.clone())));
        let output = norm.apply(kept.clone(), addend, true, self.policy.dtype(), kernels);
        let [input, weight, bias] = self.inputs();
        let kept_output = output.clone();
        let inputs = [input, weight, bias, shortcut.into()];
        ranked(differentiable(inputs, output.into(), move |gradient, _| {
            let gradient = rectified_gradient(ranked(gradient), &kept_output, kernels);
            drop(kept_output);
            let [input, weight, bias] = into_any(norm.backward(kept, gradient.clone(), false, kernels));
            [input, weight, bias, Some(gradient.into())]
        }))
    }

    fn add_normed(self, shortcut: Self) -> Tensor<4> {
        let Policy { kernels, .. } = self.policy;
        let (kept, norm) = (self.kept(), self.norm.clone());
        let (other, other_norm) = (shortcut.kept(), shortcut.norm.clone());
        let addend = Addend::Normed(Box::new((other_norm.clone(), other.clone())));
        let output = norm.apply(kept.clone(), addend, true, self.policy.dtype(), kernels);
        let kept_output = output.clone();
        let ([input, weight, bias], [input2, weight2, bias2]) = (self.inputs(), shortcut.inputs());
        let inputs = [input, weight, bias, input2, weight2, bias2];
        ranked(differentiable(inputs, output.into(), move |gradient, _| {
            let gradient = rectified_gradient(ranked(gradient), &kept_output, kernels);
            drop(kept_output);
            let [input, weight, bias] = into_any(norm.backward(kept, gradient.clone(), false, kernels));
            let [input2, weight2, bias2] = into_any(other_norm.backward(other, gradient, false, kernels));
            [input, weight, bias, input2, weight2, bias2]
        }))
    }

    /// The convolution of the rectified activation. Keeps the input.
    pub(super) fn rectified_convolution(self, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
        let (kept, norm, dims) = (self.kept(), self.norm.clone(), self.dims());
        let (kernels, dtype) = (self.policy.kernels, self.policy.dtype());
        let kept_weight = autodiff::inner(weight.clone());
        let rectified = move |norm: &Norm, kept| norm.apply(kept, Addend::Nothing, true, dtype, kernels);
        let input = rectified(&norm, kept.clone());
        let output = conv2d(input, kept_weight.clone(), slide, kernels);
        let [input, scale, bias] = self.inputs();
        let inputs = [input, scale, bias, weight.into()];
        ranked(differentiable(inputs, output.into(), move |gradient, wanted| {
            let input = || rectified(&norm, kept.clone());
            let wanted = [wanted[..3].contains(&true), wanted[3]];
            let gradients =
                conv2d_backward(input, dims, kept_weight, ranked(gradient), slide, wanted, kernels);
            let normed = gradients.input.map(|gradient| norm.backward(kept, gradient, true, kernels));
            let [input, scale, bias] = normed.map_or([None, None, None], into_any);
            [input, scale, bias, gradients.weight.map(AnyTensor::from)]
        }))
    }

    /// The maxima of the rectified activation. Keeps the input and the positions of the maxima.
    pub(super) fn rectified_maxima(self, windows: Windows) -> Tensor<4> {
        let (kept, norm, dims) = (self.kept(), self.norm.clone(), self.dims());
        let (kernels, dtype) = (self.policy.kernels, self.policy.dtype());
        let rectified = norm.apply(kept.clone(), Addend::Nothing, true, dtype, kernels);
        let Maxima { values, positions } = windows.maxima(rectified, kernels);
        ranked(differentiable(self.inputs(), values.into(), move |gradient, _| {
            let gradient = windows.backward(ranked(gradient), positions, dims, dtype, kernels);
            into_any(norm.backward(kept, gradient, true, kernels))
        }))
    }
}
