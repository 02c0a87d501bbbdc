use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_kernels::{
    AnyTensor, Kernels, differentiable,
    feed_forward::Activation,
    linear::{
        linear, linear_behind, linear_input_backward, linear_weight_backward, linear_weight_backward_behind,
    },
    ranked,
    row_norm::RowNorm as Kernel,
};
use oomph_onnx::{Attribute, Graph, Value};

use super::{
    RowNorm,
    residual::{PassedBy, Residual},
};
use crate::{
    Init, LayerKind, ModelError, Pass, Policy,
    autodiff::{inner, wants_gradient},
};

/// A linear layer, y = x Wᵀ + b, behind a normalisation or an activation if there is one.
///
/// A [lean](crate::Policy::lean) layer keeps the input of [`Before`], and makes its own input again in backward. Of Burn's operations
/// both are kept.
///
/// # Shapes
/// - input `[N, I]`, output `[N, O]`
/// - `weight` `[O, I]` (PyTorch's layout), `bias` `[O]`
#[derive(Module, Debug)]
pub struct Linear {
    /// The matrix, with a row for each output.
    pub weight: Param<Tensor<2>>,
    /// The shift of each output, if there is one.
    pub bias: Option<Param<Tensor<1>>>,
}

/// What makes the input of a [`Linear`] layer.
#[derive(Clone, Copy, Debug)]
pub enum Before<'a> {
    /// Nothing.
    Nothing,
    /// A normalisation.
    Norm(&'a RowNorm),
    /// An activation.
    Activation(Activation),
}

impl Linear {
    /// A layer from `features[0]` to `features[1]` with a bias. Both parameters start uniform in ±1/√I, as PyTorch's.
    pub fn new(init: &Init, features: [usize; 2]) -> Self {
        let [input, output] = features;
        let bound = 1.0 / (input as f64).sqrt();
        Self {
            weight: init.uniform("weight", [output, input], bound),
            bias: Some(init.uniform("bias", [output], bound)),
        }
    }

    /// A layer from `features[0]` to `features[1]`. The weight starts normal with this deviation, as GPT-2's, and the bias at 0.
    pub fn normal(init: &Init, features: [usize; 2], deviation: f64, has_bias: bool) -> Self {
        let [input, output] = features;
        Self {
            weight: init.normal("weight", [output, input], deviation),
            bias: has_bias.then(|| init.constant([output], 0.0)),
        }
    }

    /// Applies the layer.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features.
    pub fn forward(&self, input: Tensor<2>, pass: &mut Pass) -> Result<Tensor<2>, ModelError> {
        self.forward_behind(Before::Nothing, input, pass)
    }

    /// Applies the layer to what `before` makes of the input.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features.
    pub fn forward_behind(
        &self,
        before: Before<'_>,
        input: Tensor<2>,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ModelError> {
        self.projection().behind(before).apply(input, self.elements(), pass)
    }

    /// As [`forward_behind`](Self::forward_behind), at the begin of a branch.
    pub(crate) fn forward_begin(
        &self,
        before: Before<'_>,
        residual: &Residual,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ModelError> {
        let projection = self.projection().behind(before).within(Branch::Begins(residual.gradient.clone()));
        projection.apply(residual.input.clone(), self.elements(), pass)
    }

    /// As [`forward_behind`](Self::forward_behind), at the end of a branch: the sum with what the branch began with.
    pub(crate) fn forward_end(
        &self,
        before: Before<'_>,
        input: Tensor<2>,
        residual: Residual,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ModelError> {
        let projection = self.projection().behind(before).within(Branch::Ends(residual));
        projection.apply(input, self.elements(), pass)
    }

    fn projection(&self) -> Projection<'static> {
        Projection::new(self.weight.val(), self.bias.as_ref().map(Param::val))
    }

    /// Elements of the parameters.
    fn elements(&self) -> usize {
        let [outputs, features] = self.weight.val().dims();
        outputs * features + if self.bias.is_some() { outputs } else { 0 }
    }

    /// Adds the layer to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let weight = graph.parameter("weight", &self.weight.val().dims());
        let bias = self.bias.as_ref().map(|bias| graph.parameter("bias", &bias.val().dims()));
        let inputs: Vec<&Value> = [input, &weight].into_iter().chain(&bias).collect();
        graph.node("Gemm", &inputs, [("transB", Attribute::Int(1))])
    }
}

/// Where a product stands in a branch of a residual block.
#[expect(clippy::large_enum_variant, reason = "there is one for each layer and step")]
pub(crate) enum Branch {
    /// Elsewhere.
    Nowhere,
    /// At the begin: the gradient that passes by the branch is added to that of its input.
    Begins(PassedBy),
    /// At the end: the product is added to what the branch began with.
    Ends(Residual),
}

/// x Wᵀ + b with its surroundings.
pub(crate) struct Projection<'a> {
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    before: Before<'a>,
    branch: Branch,
}

impl Projection<'static> {
    /// A product alone.
    pub(crate) fn new(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Self {
        Self { weight, bias, before: Before::Nothing, branch: Branch::Nowhere }
    }
}

impl Projection<'_> {
    /// Of what `before` makes of the input.
    pub(crate) fn behind(self, before: Before<'_>) -> Projection<'_> {
        let Self { weight, bias, branch, .. } = self;
        Projection { weight, bias, before, branch }
    }

    /// In a branch.
    fn within(self, branch: Branch) -> Self {
        Self { branch, ..self }
    }

    /// Multiplies, and reports a layer with `elements` of its own beside those of what stands before it.
    pub(crate) fn apply(
        self,
        input: Tensor<2>,
        elements: usize,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ModelError> {
        let dims @ [_, found] = input.dims();
        let [_, features] = self.weight.dims();
        let needed = self.before.inputs(features);
        pass.expect_shape(found == needed, &format!("[N, {needed}]"), &dims)?;
        let (policy, elements) = (pass.policy(), self.before.elements() + elements);
        // The gradient of an input in 32 bits has 32 bits too. What stands before the product sees to that by itself.
        let input = if matches!(self.before, Before::Nothing) { policy.narrow(input) } else { input };
        let output = if policy.lean { self.lean(input, policy) } else { self.composed(input, policy) };
        pass.layer(LayerKind("Linear"), &dims, &output.dims(), elements);
        Ok(output)
    }

    fn composed(self, input: Tensor<2>, policy: Policy) -> Tensor<2> {
        let Self { weight, bias, before, branch } = self;
        let made = match before {
            Before::Nothing => input,
            Before::Norm(norm) => norm.composed(input, policy),
            Before::Activation(activation) => policy.narrow(activation.composed(policy.widen(input))),
        };
        let onto = match branch {
            Branch::Ends(residual) => Some(residual.input),
            Branch::Nowhere | Branch::Begins(_) => None,
        };
        let bias = bias.map(|bias| policy.narrow(bias));
        linear(made, policy.narrow(weight), bias, onto, Kernels::Composed)
    }

    fn lean(self, input: Tensor<2>, policy: Policy) -> Tensor<2> {
        let Self { weight, bias, before, branch } = self;
        let made = Made::of(before);
        let (begins, ends) = match branch {
            Branch::Nowhere => (None, None),
            Branch::Begins(passed) => (Some(passed), None),
            Branch::Ends(Residual { input, gradient }) => (None, Some((inner(input), gradient))),
        };
        let (onto, ends) = ends.unzip();
        if !input.device().is_autodiff() && !weight.device().is_autodiff() {
            // Without a backward pass the input goes as soon as it is read.
            return made.product(input, weight, bias, onto, policy);
        }
        let [scale, shift] = before.parameters();
        let wants = |tensor: &AnyTensor| tensor.wants_gradient();
        let of_before = [&scale, &shift].into_iter().flatten().any(wants);
        let of_weight = wants_gradient(&weight) || bias.as_ref().is_some_and(wants_gradient);
        let of_made = wants_gradient(&input) || of_before;
        let (plain, plain_weight) = (inner(input.clone()), inner(weight.clone()));
        let output = made.product(plain.clone(), plain_weight.clone(), bias.clone().map(inner), onto, policy);
        // Of a frozen layer, and of one whose input is not trained, backward does not read all.
        let reads_input = of_weight || (of_made && !matches!(made, Made::Nothing));
        let kept = Kept {
            made,
            input: reads_input.then_some(plain),
            weight: of_made.then_some(plain_weight.clone()),
            passed: begins,
            policy,
        };
        // An input that is not there is a constant.
        let absent = || AnyTensor::from(plain_weight.clone());
        let shift_of_output = bias.map_or_else(absent, AnyTensor::from);
        let [scale, shift] = [scale, shift].map(|parameter| parameter.unwrap_or_else(absent));
        let inputs = [input.into(), weight.into(), shift_of_output, scale, shift];
        ranked(differentiable(inputs, output.into(), move |gradient, wanted| {
            if let Some(passed) = ends {
                passed.put(gradient.clone());
            }
            kept.backward(ranked(gradient), wanted)
        }))
    }
}

/// What makes the input of the product, with plain parameters.
#[expect(clippy::large_enum_variant, reason = "there is one for each layer and step")]
enum Made {
    Nothing,
    Norm(Kernel, Tensor<1>, Option<Tensor<1>>),
    Activation(Activation),
}

impl Made {
    fn of(before: Before<'_>) -> Self {
        match before {
            Before::Nothing => Self::Nothing,
            Before::Norm(norm) => {
                let bias = norm.bias.as_ref().map(|bias| inner(bias.val()));
                Self::Norm(norm.kernel(), inner(norm.weight.val()), bias)
            }
            Before::Activation(activation) => Self::Activation(activation),
        }
    }

    /// x Wᵀ + b of what it makes of a plain input, plus `onto`.
    fn product(
        &self,
        input: Tensor<2>,
        weight: Tensor<2>,
        bias: Option<Tensor<1>>,
        onto: Option<Tensor<2>>,
        policy: Policy,
    ) -> Tensor<2> {
        let (weight, bias) = (policy.narrow(weight), bias.map(|bias| policy.narrow(bias)));
        match self {
            Self::Activation(activation) => {
                linear_behind(*activation, policy.narrow(input), weight, bias, onto, policy.kernels)
            }
            Self::Nothing | Self::Norm(..) => {
                linear(self.input(input, policy), weight, bias, onto, policy.kernels)
            }
        }
    }

    /// The gradients of the product's weight and bias, of a plain input.
    fn weight_backward(
        &self,
        gradient: Tensor<2>,
        input: Tensor<2>,
        policy: Policy,
    ) -> (Tensor<2>, Tensor<1>) {
        match self {
            Self::Activation(activation) => {
                linear_weight_backward_behind(*activation, gradient, policy.narrow(input), policy.kernels)
            }
            Self::Nothing | Self::Norm(..) => {
                linear_weight_backward(gradient, self.input(input, policy), policy.kernels)
            }
        }
    }

    /// The input of the product, from a plain input.
    fn input(&self, input: Tensor<2>, policy: Policy) -> Tensor<2> {
        policy.narrow(match self {
            Self::Nothing => input,
            Self::Norm(norm, weight, bias) => norm.apply(input, weight.clone(), bias.clone(), policy.kernels),
            Self::Activation(activation) => activation.apply(input, policy.kernels),
        })
    }
}

/// What a lean layer keeps for backward.
struct Kept {
    made: Made,
    /// For the gradient of the weight, and for that of what makes the input of the product.
    input: Option<Tensor<2>>,
    /// For the gradient of the input of the product.
    weight: Option<Tensor<2>>,
    /// What is added to the gradient of the input, at the begin of a branch.
    passed: Option<PassedBy>,
    policy: Policy,
}

impl Kept {
    /// The gradients of input, weight, bias, and of the scale and the shift of a normalisation, as far as they are wanted.
    fn backward(self, gradient: Tensor<2>, wanted: [bool; 5]) -> [Option<AnyTensor>; 5] {
        let [of_input, of_weight, of_bias, of_scale, of_shift] = wanted;
        let Self { made, input, weight: matrix, passed, policy } = self;
        let read = input.as_ref().filter(|_| of_weight || of_bias);
        let sums = read.map(|input| made.weight_backward(gradient.clone(), input.clone(), policy));
        let (weight, bias) = sums.unzip();
        let weight = weight.filter(|_| of_weight).map(AnyTensor::from);
        let bias = bias.filter(|_| of_bias).map(AnyTensor::from);
        // Nothing reads the input of a bare product again.
        let input = input.filter(|_| !matches!(made, Made::Nothing));
        let Some(matrix) = matrix else { return [None, weight, bias, None, None] };
        let gradient = linear_input_backward(gradient, policy.narrow(matrix), policy.kernels);
        let passed = passed.and_then(|passed| passed.take()).map(ranked);
        let (input, scale, shift) = match (made, input) {
            (Made::Activation(activation), Some(input)) => {
                (onto(activation.backward(input, gradient, policy.kernels), passed), None, None)
            }
            (Made::Norm(norm, scale, _), Some(input)) => {
                let made = norm.backward(input, gradient, scale, passed, policy.kernels);
                (made.input, Some(made.weight), Some(made.shift))
            }
            (_, _) => (onto(gradient, passed), None, None),
        };
        let scale = scale.filter(|_| of_scale).map(AnyTensor::from);
        let shift = shift.filter(|_| of_shift).map(AnyTensor::from);
        [of_input.then(|| input.into()), weight, bias, scale, shift]
    }
}

/// A gradient, plus what passes by a branch.
fn onto(gradient: Tensor<2>, passed: Option<Tensor<2>>) -> Tensor<2> {
    match passed {
        Some(passed) => gradient + passed,
        None => gradient,
    }
}

impl Before<'_> {
    /// The features that it needs to make so many.
    fn inputs(self, features: usize) -> usize {
        match self {
            Self::Nothing | Self::Norm(_) => features,
            Self::Activation(activation) => activation.inputs(features),
        }
    }

    /// Elements of its parameters.
    fn elements(self) -> usize {
        match self {
            Self::Norm(norm) => norm.elements(),
            Self::Nothing | Self::Activation(_) => 0,
        }
    }

    /// Its scale and its shift, in the graph.
    fn parameters(self) -> [Option<AnyTensor>; 2] {
        match self {
            Self::Norm(norm) => {
                [Some(norm.weight.val().into()), norm.bias.as_ref().map(|bias| bias.val().into())]
            }
            Self::Nothing | Self::Activation(_) => [None, None],
        }
    }
}
