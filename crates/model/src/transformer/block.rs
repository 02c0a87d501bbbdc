use burn::{module::Module, tensor::Tensor};
use oomph_kernels::feed_forward::Activation;

use super::settings::Transformer;
use crate::{
    AnyTensor, Init, ModelError, Pass, Stage,
    layers::{Before, Dropout, Linear, Residual, RowNorm, SelfAttention},
};

/// A block of a transformer, `[B, T, C]` to `[B, T, C]`: attention and feed-forward layers, each behind a normalisation and added to its
/// input (pre-norm: Xiong et al. 2020, <https://arxiv.org/abs/2002.04745>).
#[derive(Module, Debug)]
pub(super) struct BlockStage {
    attention_norm: RowNorm,
    /// Queries, keys and values side by side.
    qkv: Linear,
    attention_output: Linear,
    feed_norm: RowNorm,
    up: Linear,
    down: Linear,
    dropout: Dropout,
    #[module(skip)]
    attention: SelfAttention,
    #[module(skip)]
    activation: Activation,
}

impl BlockStage {
    pub(super) fn new(init: &Init, settings: &Transformer, is_causal: bool) -> Self {
        let Transformer { hidden, heads, feed_forward, activation, has_bias, dropout, .. } = *settings;
        let projection =
            |name: &str, features, deviation| Linear::normal(&init.at(name), features, deviation, has_bias);
        // The sum over all blocks keeps its variance (Radford et al. 2019).
        let of_output = Transformer::DEVIATION / ((2 * settings.layers) as f64).sqrt();
        Self {
            attention_norm: settings.norm(&init.at("attention_norm")),
            qkv: projection("qkv", [hidden, heads.width()], Transformer::DEVIATION),
            attention_output: projection("attention_output", [heads.of_queries(), hidden], of_output),
            feed_norm: settings.norm(&init.at("feed_norm")),
            up: projection("up", [hidden, activation.inputs(feed_forward)], Transformer::DEVIATION),
            down: projection("down", [feed_forward, hidden], of_output),
            dropout: Dropout::new(dropout),
            attention: SelfAttention { heads, is_causal, rotary: settings.rotary, dropout },
            activation,
        }
    }
}

/// The end of a branch: a linear layer and dropout, which report these names.
struct End<'a> {
    names: [&'a str; 2],
    linear: &'a Linear,
    before: Before<'a>,
}

impl BlockStage {
    /// The input of a branch, and added to it the branch's end.
    fn end(
        &self,
        end: End<'_>,
        input: Tensor<2>,
        residual: Residual,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ModelError> {
        let End { names: [name, dropout], linear, before } = end;
        if self.dropout.drops(pass) {
            let change = pass.scope(name, |pass| linear.forward_behind(before, input, pass))?;
            return Ok(pass.scope(dropout, |pass| self.dropout.forward_onto(residual, change, pass)));
        }
        let sum = pass.scope(name, |pass| linear.forward_end(before, input, residual, pass))?;
        Ok(pass.scope(dropout, |pass| self.dropout.forward(sum, pass)))
    }
}

impl Stage for BlockStage {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.activation::<3>(input)?;
        let [batch, positions, features] = x.dims();
        let rows = |x: Tensor<3>| {
            let [_, _, width] = x.dims();
            x.reshape([batch * positions, width])
        };
        let residual = Residual::new(rows(x));
        let qkv = pass.scope("qkv", |pass| {
            self.qkv.forward_begin(Before::Norm(&self.attention_norm), &residual, pass)
        })?;
        let [_, width] = qkv.dims();
        let qkv = qkv.reshape([batch, positions, width]);
        let attended = rows(pass.scope("attention", |pass| self.attention.forward(qkv, pass)));
        let names = ["attention_output", "attention_dropout"];
        let end = End { names, linear: &self.attention_output, before: Before::Nothing };
        let residual = Residual::new(self.end(end, attended, residual, pass)?);
        let up =
            pass.scope("up", |pass| self.up.forward_begin(Before::Norm(&self.feed_norm), &residual, pass))?;
        let names = ["down", "feed_dropout"];
        let end = End { names, linear: &self.down, before: Before::Activation(self.activation) };
        Ok(self.end(end, up, residual, pass)?.reshape([batch, positions, features]).into())
    }
}
