//! ResNet-18 to -152 (He et al. 2016, arXiv:1512.03385), exactly as torchvision's: the stride of a bottleneck is in
//! its 3 × 3 convolution ("v1.5").

mod block;
mod ends;

use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec};

use crate::{Architecture, Init, ModelError, Stages, layers::Linear};

use block::{BasicBlock, BlockShape, Bottleneck};
use ends::{HeadStage, StemStage};

/// The first stage of a ResNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stem {
    /// 7 × 7 convolution with stride 2 and a max-pool: torchvision's, for photos of about 224 × 224.
    Standard,
    /// 3 × 3 convolution with stride 1: for images of 32 × 32 and below.
    Small,
}

/// The settings of a ResNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNet {
    /// The number of layers with weights on the longest path: 18, 34, 50, 101 or 152.
    pub depth: Depth,
    /// The first stage.
    pub stem: Stem,
    /// Channels of the stem and the first group of blocks; each later group has twice as many. torchvision's is 64.
    pub width: usize,
    /// Whether the last normalisation of each block starts with scale 0, so that every block starts as the identity
    /// (Goyal et al. 2017, arXiv:1706.02677).
    pub zero_init: bool,
}

/// The depths of the paper, each with its own number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the documentation.
pub enum Depth {
    D18,
    D34,
    D50,
    D101,
    D152,
}

impl Depth {
    /// Blocks in each of the four groups, and whether they are bottlenecks.
    fn blocks(self) -> ([usize; 4], bool) {
        match self {
            Self::D18 => ([2, 2, 2, 2], false),
            Self::D34 => ([3, 4, 6, 3], false),
            Self::D50 => ([3, 4, 6, 3], true),
            Self::D101 => ([3, 4, 23, 3], true),
            Self::D152 => ([3, 8, 36, 3], true),
        }
    }
}

/// Reads a ResNet from `[model]`: `name` (`resnet18` … `resnet152`), `stem`, `width`, `zero_init`.
///
/// # Errors
/// A setting has a wrong type or is out of range.
pub fn resnet(settings: &Section) -> Result<Architecture, ConfigError> {
    let names = [
        ("resnet18", Depth::D18),
        ("resnet34", Depth::D34),
        ("resnet50", Depth::D50),
        ("resnet101", Depth::D101),
        ("resnet152", Depth::D152),
    ];
    let depth = settings.choice("name", "resnet18", &names)?;
    let stem =
        settings.choice("stem", "standard", &[("standard", Stem::Standard), ("small", Stem::Small)])?;
    let resnet = ResNet {
        depth,
        stem,
        width: settings.integer("width", 64, 1..=4096)?,
        zero_init: settings.boolean("zero_init", false)?,
    };
    let name = settings.string("name", "resnet18")?;
    let architecture = Architecture::new(name.clone(), move |spec, init| resnet.build(&name, spec, init));
    Ok(architecture.with_pytorch_names(torchvision_name))
}

impl ResNet {
    /// Builds the model: stages `stem`, `layer1.0` … `layer4.n`, `head`.
    ///
    /// # Errors
    /// [`ModelError::Input`] if the samples are not images.
    pub fn build(&self, name: &str, spec: &SampleSpec, init: &Init) -> Result<Stages, ModelError> {
        let InputSpec::Image { channels, .. } = spec.input else {
            return Err(ModelError::Input {
                model: name.to_owned(),
                expected: "images".into(),
                found: spec.input.to_string(),
            });
        };
        let stem = StemStage::new(&init.at("stem"), self.stem, [channels, self.width]);
        let (stages, features) = self.blocks(Stages::new().with("stem", stem), init);
        let fc = Linear::new(&init.at("head").at("fc"), [features, spec.target.outputs()]);
        Ok(stages.with("head", HeadStage { fc }))
    }

    fn blocks(&self, mut stages: Stages, init: &Init) -> (Stages, usize) {
        let (groups, bottleneck) = self.depth.blocks();
        let mut input = self.width;
        for (group, count) in groups.into_iter().enumerate() {
            for block in 0..count {
                let name = format!("layer{}.{block}", group + 1);
                let shape = BlockShape {
                    input,
                    width: self.width << group,
                    stride: if group > 0 && block == 0 { 2 } else { 1 },
                    last_scale: if self.zero_init { 0.0 } else { 1.0 },
                };
                let init = init.at(&name);
                stages = if bottleneck {
                    input = shape.width * Bottleneck::EXPANSION;
                    stages.with(name, Bottleneck::new(&init, shape))
                } else {
                    input = shape.width * BasicBlock::EXPANSION;
                    stages.with(name, BasicBlock::new(&init, shape))
                };
            }
        }
        (stages, input)
    }
}

/// The name in torchvision of the ResNet parameter `name`.
pub fn torchvision_name(name: &str) -> String {
    let name = name.strip_prefix("stem.").or_else(|| name.strip_prefix("head.")).unwrap_or(name);
    name.replace("downsample.conv.", "downsample.0.").replace("downsample.bn.", "downsample.1.")
}
