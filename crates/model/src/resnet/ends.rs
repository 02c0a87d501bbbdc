use burn::module::Module;
use oomph_onnx::{Attribute, Graph, Value};

use super::Stem;
use crate::{
    AnyTensor, Init, ModelError, Pass, Stage,
    layers::{BatchNorm, Conv2d, Linear, MaxPool2d, global_average},
};

/// The first stage: a convolution, normalised and rectified, and for large images a max-pool.
#[derive(Module, Debug)]
pub(crate) struct StemStage {
    conv1: Conv2d,
    bn1: BatchNorm,
    maxpool: Option<MaxPool2d>,
}

impl StemStage {
    /// The standard stem gives a quarter of the height and width, the small one all of both.
    pub(crate) fn new(init: &Init, stem: Stem, channels: [usize; 2]) -> Self {
        let (kernel, stride, maxpool) = match stem {
            Stem::Standard => (7, 2, Some(MaxPool2d::new(3, 2))),
            Stem::Small => (3, 1, None),
        };
        Self {
            conv1: Conv2d::new(&init.at("conv1"), channels, kernel, stride),
            bn1: BatchNorm::new(&init.at("bn1"), channels[1]),
            maxpool,
        }
    }
}

impl Stage for StemStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let x = pass.scope("conv1", |pass| self.conv1.convolved(x, pass))?;
        let x = pass.scope("bn1", |pass| self.bn1.normed(x, pass))?;
        match &self.maxpool {
            Some(maxpool) => Ok(pass.scope("maxpool", |pass| maxpool.forward_rectified(x, pass))?.into()),
            None => Ok(x.rectified().into()),
        }
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let x = graph.scope("conv1", |graph| self.conv1.to_onnx(graph, &input));
        let x = graph.scope("bn1", |graph| self.bn1.to_onnx(graph, &x));
        let x = graph.node("Relu", &[&x], []);
        let Some(maxpool) = &self.maxpool else { return Some(x) };
        Some(graph.scope("maxpool", |graph| maxpool.to_onnx(graph, &x)))
    }
}

/// The last stage: the mean over space, then a linear layer to the classes.
#[derive(Module, Debug)]
pub(crate) struct HeadStage {
    pub(crate) fc: Linear,
}

impl Stage for HeadStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let x = pass.scope("avgpool", |pass| global_average(x, pass));
        Ok(pass.scope("fc", |pass| self.fc.forward(x, pass))?.into())
    }

    fn to_onnx(&self, graph: &mut Graph, input: Value) -> Option<Value> {
        let x = graph.node("GlobalAveragePool", &[&input], []);
        let x = graph.node("Flatten", &[&x], [("axis", Attribute::Int(1))]);
        Some(graph.scope("fc", |graph| self.fc.to_onnx(graph, &x)))
    }
}
