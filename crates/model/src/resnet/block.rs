use burn::{module::Module, tensor::Tensor};
use oomph_onnx::{Graph, Value};

use crate::{
    AnyTensor, Init, Kernels, ModelError, Pass, Stage,
    layers::{BatchNorm, Conv2d, Shortcut, forked},
};

/// The shape of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockShape {
    pub(crate) input: usize,
    /// Channels inside the block; a bottleneck gives four times as many.
    pub(crate) width: usize,
    pub(crate) stride: usize,
    /// The initial scale of the last normalisation.
    pub(crate) last_scale: f32,
}

/// Projects the input to the shape of the output if they differ: a 1 × 1 convolution, normalised.
#[derive(Module, Debug)]
struct Downsample {
    conv: Conv2d,
    bn: BatchNorm,
}

impl Downsample {
    fn where_needed(init: &Init, channels: [usize; 2], stride: usize) -> Option<Self> {
        (stride != 1 || channels[0] != channels[1]).then(|| Self {
            conv: Conv2d::new(&init.at("downsample.conv"), channels, 1, stride),
            bn: BatchNorm::new(&init.at("downsample.bn"), channels[1]),
        })
    }
}

/// The input for both branches, whose gradients backward adds.
fn twice(input: Tensor<4>, pass: &Pass) -> [Tensor<4>; 2] {
    let policy = pass.policy();
    match policy.kernels {
        Kernels::Cpu if policy.lean => return forked(input, policy.kernels),
        Kernels::Cpu | Kernels::Composed => return [input.clone(), input],
        Kernels::Gpu => {}
    }
    // A GPU's gradients lie channels-last. Behind this view they are contiguous, and Burn adds them by whole vectors.
    let pixels = input.permute([0, 2, 3, 1]);
    [pixels.clone(), pixels].map(|pixels| pixels.permute([0, 3, 1, 2]))
}

/// A convolution and its normalisation in an ONNX graph.
fn onnx_normed(graph: &mut Graph, names: [&str; 2], conv: &Conv2d, bn: &BatchNorm, input: &Value) -> Value {
    let x = graph.scope(names[0], |graph| conv.to_onnx(graph, input));
    graph.scope(names[1], |graph| bn.to_onnx(graph, &x))
}

/// The end of a block in an ONNX graph: the residual addition, rectified.
fn onnx_added(graph: &mut Graph, x: &Value, downsample: Option<&Downsample>, input: Value) -> Value {
    let shortcut = match downsample {
        Some(Downsample { conv, bn }) => {
            graph.scope("downsample", |graph| onnx_normed(graph, ["conv", "bn"], conv, bn, &input))
        }
        None => input,
    };
    let sum = graph.node("Add", &[x, &shortcut], []);
    graph.node("Relu", &[&sum], [])
}

fn shortcut(
    downsample: Option<&Downsample>,
    input: Tensor<4>,
    pass: &mut Pass,
) -> Result<Shortcut, ModelError> {
    let Some(downsample) = downsample else { return Ok(Shortcut::Identity(Box::new(input))) };
    pass.scope("downsample", |pass| {
        let x = pass.scope("conv", |pass| downsample.conv.convolved(input, pass))?;
        pass.scope("bn", |pass| downsample.bn.normed(x, pass)).map(Shortcut::Normed)
    })
}

/// The block of ResNet-18 and -34: two 3 × 3 convolutions.
///
/// `[B, C, H, W]` to `[B, width, H/stride, W/stride]`.
#[derive(Module, Debug)]
pub(crate) struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Option<Downsample>,
}

impl BasicBlock {
    pub(crate) const EXPANSION: usize = 1;

    pub(crate) fn new(init: &Init, shape: BlockShape) -> Self {
        let BlockShape { input, width, stride, last_scale } = shape;
        Self {
            conv1: Conv2d::new(&init.at("conv1"), [input, width], 3, stride),
            bn1: BatchNorm::new(&init.at("bn1"), width),
            conv2: Conv2d::new(&init.at("conv2"), [width, width], 3, 1),
            bn2: BatchNorm::with_scale(&init.at("bn2"), width, last_scale),
            downsample: Downsample::where_needed(init, [input, width * Self::EXPANSION], stride),
        }
    }
}

impl Stage for BasicBlock {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let [input, other] = twice(pass.activation::<4>(input)?, pass);
        let x = pass.scope("conv1", |pass| self.conv1.convolved(input, pass))?;
        let x = pass.scope("bn1", |pass| self.bn1.normed(x, pass))?;
        let x = pass.scope("conv2", |pass| self.conv2.convolved_rectified(x, pass))?;
        let x = pass.scope("bn2", |pass| self.bn2.normed(x, pass))?;
        let shortcut = shortcut(self.downsample.as_ref(), other, pass)?;
        Ok(x.add_rectified(shortcut).into())
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let x = onnx_normed(graph, ["conv1", "bn1"], &self.conv1, &self.bn1, &input);
        let x = graph.node("Relu", &[&x], []);
        let x = onnx_normed(graph, ["conv2", "bn2"], &self.conv2, &self.bn2, &x);
        Some(onnx_added(graph, &x, self.downsample.as_ref(), input))
    }
}

/// The block of ResNet-50 and deeper: 1 × 1, 3 × 3 (which carries the stride), 1 × 1 convolutions.
///
/// `[B, C, H, W]` to `[B, 4 width, H/stride, W/stride]`.
#[derive(Module, Debug)]
pub(crate) struct Bottleneck {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    conv3: Conv2d,
    bn3: BatchNorm,
    downsample: Option<Downsample>,
}

impl Bottleneck {
    pub(crate) const EXPANSION: usize = 4;

    pub(crate) fn new(init: &Init, shape: BlockShape) -> Self {
        let BlockShape { input, width, stride, last_scale } = shape;
        let output = width * Self::EXPANSION;
        Self {
            conv1: Conv2d::new(&init.at("conv1"), [input, width], 1, 1),
            bn1: BatchNorm::new(&init.at("bn1"), width),
            conv2: Conv2d::new(&init.at("conv2"), [width, width], 3, stride),
            bn2: BatchNorm::new(&init.at("bn2"), width),
            conv3: Conv2d::new(&init.at("conv3"), [width, output], 1, 1),
            bn3: BatchNorm::with_scale(&init.at("bn3"), output, last_scale),
            downsample: Downsample::where_needed(init, [input, output], stride),
        }
    }
}

impl Stage for Bottleneck {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let [input, other] = twice(pass.activation::<4>(input)?, pass);
        let x = pass.scope("conv1", |pass| self.conv1.convolved(input, pass))?;
        let x = pass.scope("bn1", |pass| self.bn1.normed(x, pass))?;
        let x = pass.scope("conv2", |pass| self.conv2.convolved_rectified(x, pass))?;
        let x = pass.scope("bn2", |pass| self.bn2.normed(x, pass))?;
        let x = pass.scope("conv3", |pass| self.conv3.convolved_rectified(x, pass))?;
        let x = pass.scope("bn3", |pass| self.bn3.normed(x, pass))?;
        let shortcut = shortcut(self.downsample.as_ref(), other, pass)?;
        Ok(x.add_rectified(shortcut).into())
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let x = onnx_normed(graph, ["conv1", "bn1"], &self.conv1, &self.bn1, &input);
        let x = graph.node("Relu", &[&x], []);
        let x = onnx_normed(graph, ["conv2", "bn2"], &self.conv2, &self.bn2, &x);
        let x = graph.node("Relu", &[&x], []);
        let x = onnx_normed(graph, ["conv3", "bn3"], &self.conv3, &self.bn3, &x);
        Some(onnx_added(graph, &x, self.downsample.as_ref(), input))
    }
}
