//! Networks of Burn's own layers.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, Linear, LinearConfig, Lstm, LstmConfig, PaddingConfig2d,
        conv::{Conv2d, Conv2dConfig},
    },
    tensor::{Device, Tensor, activation::relu},
};

/// A network with an output for each of ten classes.
pub(crate) trait Classifies<const D: usize> {
    fn classify(&self, input: Tensor<D>) -> Tensor<2>;
}

#[derive(Module, Debug)]
struct Normed {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Normed {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> Self {
        let padding = PaddingConfig2d::Explicit(kernel / 2, kernel / 2, kernel / 2, kernel / 2);
        let conv = Conv2dConfig::new(channels, [kernel; 2]).with_stride([stride; 2]).with_padding(padding);
        Self {
            conv: conv.with_bias(false).init(device),
            norm: BatchNormConfig::new(channels[1]).init(device),
        }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(input))
    }
}

#[derive(Module, Debug)]
struct Block {
    first: Normed,
    second: Normed,
    shortcut: Option<Normed>,
}

impl Block {
    fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        let shortcut =
            (stride != 1 || channels[0] != channels[1]).then(|| Normed::new(channels, 1, stride, device));
        Self {
            first: Normed::new(channels, 3, stride, device),
            second: Normed::new([channels[1]; 2], 3, 1, device),
            shortcut,
        }
    }

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let output = self.second.forward(relu(self.first.forward(input.clone())));
        let beside = match &self.shortcut {
            Some(shortcut) => shortcut.forward(input),
            None => input,
        };
        relu(output + beside)
    }
}

/// ResNet-18 with the stem for small images.
#[derive(Module, Debug)]
pub(crate) struct ResNet {
    stem: Normed,
    blocks: Vec<Block>,
    head: Linear,
}

impl ResNet {
    pub(crate) fn new(device: &Device) -> Self {
        let blocks = [([64, 64], 1), ([64, 64], 1), ([64, 128], 2), ([128, 128], 1)].into_iter().chain([
            ([128, 256], 2),
            ([256, 256], 1),
            ([256, 512], 2),
            ([512, 512], 1),
        ]);
        Self {
            stem: Normed::new([3, 64], 3, 1, device),
            blocks: blocks.map(|(channels, stride)| Block::new(channels, stride, device)).collect(),
            head: LinearConfig::new(512, 10).init(device),
        }
    }
}

impl Classifies<4> for ResNet {
    fn classify(&self, input: Tensor<4>) -> Tensor<2> {
        let stem = relu(self.stem.forward(input));
        let output = self.blocks.iter().fold(stem, |x, block| block.forward(x));
        let [batch, channels, _, _] = output.dims();
        self.head.forward(output.mean_dim(3).mean_dim(2).reshape([batch, channels]))
    }
}

/// One LSTM layer; a head classifies its last step.
#[derive(Module, Debug)]
pub(crate) struct Recurrent {
    layer: Lstm,
    head: Linear,
}

impl Recurrent {
    pub(crate) fn new(device: &Device) -> Self {
        let layer = LstmConfig::new(128, 256, true).init(device);
        Self { layer, head: LinearConfig::new(256, 10).init(device) }
    }
}

impl Classifies<3> for Recurrent {
    fn classify(&self, input: Tensor<3>) -> Tensor<2> {
        let (output, _) = self.layer.forward(input, None);
        let [batch, steps, units] = output.dims();
        self.head.forward(output.narrow(1, steps - 1, 1).reshape([batch, units]))
    }
}
