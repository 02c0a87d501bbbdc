use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, SampleSpec};

use super::{
    block::BlockStage,
    layouts,
    settings::{Transformer, VISION},
};
use crate::{
    AnyTensor, Architecture, Init, ModelError, Pass, Stage, Stages,
    layers::{Before, Dropout, Linear, RowNorm, positioned},
};

/// Reads a vision transformer from `[model]` (Dosovitskiy et al. 2021, <https://arxiv.org/abs/2010.11929>): `preset` gives the defaults
/// of other settings, or `config` names the `config.json` of Hugging Face that does, and `patch` is the side of a patch in pixels.
///
/// Stages are `embedding`, `block.0` and so on, and `head`. A token beside the patches holds the image's class, as in the paper.
///
/// # Errors
/// A setting has a wrong type or is out of range, or does not go with another.
pub fn vit(settings: &Section) -> Result<Architecture, ConfigError> {
    oomph_hub::assume(settings, "vit")?;
    let transformer = Transformer::read(settings, &VISION)?;
    let patch = settings.integer("patch", 16, 1..=1024)?;
    let architecture = Architecture::new("vit", move |spec, init| build(&transformer, patch, spec, init));
    Ok(architecture
        .with_unshown_settings(transformer.unshown())
        .with_layout(layouts::torchvision(patch))
        .with_layout(layouts::hugging_face_vit(&transformer, patch)))
}

fn build(settings: &Transformer, patch: usize, spec: &SampleSpec, init: &Init) -> Result<Stages, ModelError> {
    let refused =
        |expected: String| ModelError::Input { model: "vit".into(), expected, found: spec.input.to_string() };
    let InputSpec::Image { channels, height, width } = spec.input else {
        return Err(refused("images".into()));
    };
    if !height.is_multiple_of(patch) || !width.is_multiple_of(patch) {
        return Err(refused(format!("images whose sides are multiples of `model.patch` (= {patch})")));
    }
    let patches = (height / patch) * (width / patch);
    let embedding = EmbeddingStage::new(&init.at("embedding"), settings, [channels, patch, patches]);
    let mut stages = Stages::new().with("embedding", embedding);
    for index in 0..settings.layers {
        let name = format!("block.{index}");
        let block = BlockStage::new(&init.at(&name), settings, false);
        stages = stages.with(name, block);
    }
    let init = init.at("head");
    let features = [settings.hidden, spec.target.outputs()];
    let fc = Linear::normal(&init.at("fc"), features, Transformer::DEVIATION, true);
    Ok(stages.with("head", HeadStage { norm: settings.norm(&init.at("norm")), fc }))
}

/// Images `[B, C, H, W]` to a vector for the class and one for each patch, `[B, 1 + T, F]`.
#[derive(Module, Debug)]
struct EmbeddingStage {
    /// From the pixels of a patch: channels, rows, columns.
    patches: Linear,
    /// `[1, F]`.
    class: Param<Tensor<2>>,
    /// `[1 + T, F]`.
    positions: Param<Tensor<2>>,
    dropout: Dropout,
    /// The side of a patch.
    #[module(skip)]
    side: usize,
}

impl EmbeddingStage {
    fn new(init: &Init, settings: &Transformer, [channels, side, patches]: [usize; 3]) -> Self {
        let (hidden, pixels) = (settings.hidden, channels * side * side);
        let deviation = Transformer::DEVIATION;
        Self {
            patches: Linear::normal(
                &init.at("patches"),
                [pixels, hidden],
                1.0 / (pixels as f64).sqrt(),
                true,
            ),
            class: init.normal("class", [1, hidden], deviation),
            positions: init.normal("positions", [1 + patches, hidden], deviation),
            dropout: Dropout::new(settings.dropout),
            side,
        }
    }
}

impl Stage for EmbeddingStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<4>(input)?;
        let dims @ [batch, channels, height, width] = x.dims();
        let (side, [tokens, features]) = (self.side, self.positions.val().dims());
        let [rows, columns] = [height, width].map(|size| size / side);
        let fits = rows * columns + 1 == tokens && rows * side == height && columns * side == width;
        pass.expect_shape(
            fits,
            &format!("[B, C, H, W] of {} patches of {side} × {side}", tokens - 1),
            &dims,
        )?;
        let x = x.reshape([batch, channels, rows, side, columns, side]).permute([0, 2, 4, 1, 3, 5]);
        let x = x.reshape([batch * (tokens - 1), channels * side * side]);
        let x = pass.scope("patches", |pass| self.patches.forward(x, pass))?;
        let policy = pass.policy();
        let class = policy.narrow(self.class.val()).unsqueeze::<3>().expand([batch, 1, features]);
        let x = Tensor::cat(vec![class, x.reshape([batch, tokens - 1, features])], 1);
        let x = positioned(x, self.positions.val(), policy);
        Ok(pass.scope("dropout", |pass| self.dropout.forward(x, pass)).into())
    }
}

/// A linear layer on the vector of the class, `[B, 1 + T, F]` to `[B, K]`.
#[derive(Module, Debug)]
struct HeadStage {
    norm: RowNorm,
    fc: Linear,
}

impl Stage for HeadStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<3>(input)?;
        let [batch, _, features] = x.dims();
        let class = x.narrow(1, 0, 1).reshape([batch, features]);
        Ok(pass.scope("fc", |pass| self.fc.forward_behind(Before::Norm(&self.norm), class, pass))?.into())
    }
}
