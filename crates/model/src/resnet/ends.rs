use burn::module::Module;

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
    /// 7 × 7 with stride 2, then a max-pool of 3 × 3 with stride 2: an eighth of the height and width.
    pub(crate) fn standard(init: &Init, channels: [usize; 2]) -> Self {
        Self {
            conv1: Conv2d::new(&init.at("conv1"), channels, 7, 2),
            bn1: BatchNorm::new(&init.at("bn1"), channels[1]),
            maxpool: Some(MaxPool2d::new(3, 2)),
        }
    }

    /// 3 × 3 with stride 1 and no pooling: for images of 32 × 32 and below.
    pub(crate) fn small(init: &Init, channels: [usize; 2]) -> Self {
        Self {
            conv1: Conv2d::new(&init.at("conv1"), channels, 3, 1),
            bn1: BatchNorm::new(&init.at("bn1"), channels[1]),
            maxpool: None,
        }
    }
}

impl Stage for StemStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let x = pass.scope("conv1", |pass| self.conv1.forward(x, pass))?;
        let x = pass.scope("bn1", |pass| self.bn1.normed(x, pass))?;
        match &self.maxpool {
            Some(maxpool) => Ok(pass.scope("maxpool", |pass| maxpool.forward_rectified(x, pass))?.into()),
            None => Ok(x.rectified().into()),
        }
    }
}

/// The last stage: the mean over space, then a linear layer to the classes.
#[derive(Module, Debug)]
pub(crate) struct HeadStage {
    fc: Linear,
}

impl HeadStage {
    pub(crate) fn new(init: &Init, features: [usize; 2]) -> Self {
        Self { fc: Linear::new(&init.at("fc"), features) }
    }
}

impl Stage for HeadStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let x = pass.scope("avgpool", |pass| global_average(x, pass));
        Ok(pass.scope("fc", |pass| self.fc.forward(x, pass))?.into())
    }
}
