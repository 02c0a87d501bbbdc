use burn::{
    module::{Module, Param},
    tensor::Tensor,
};
use oomph_core::Mode;
use oomph_kernels::{
    conv::Convolved,
    norm::{self, Norm, SharedStatistics, Statistics, StatisticsStep},
};
use oomph_onnx::{Attribute, Graph, Value};

use super::normed::Normed;
use crate::{Init, LayerKind, ModelError, Pass, autodiff};

/// Batch normalisation over images (Ioffe & Szegedy 2015, arXiv:1502.03167).
///
/// y = (x − μ) / √(σ² + ε) · weight + bias for each channel. In training μ and σ² are the mean and the biased variance
/// of the micro-batch, and the running statistics move towards them (the variance's unbiased) by `momentum`; in
/// evaluation they are the running statistics. As PyTorch's `BatchNorm2d`, with ε 1e-5 and momentum 0.1.
///
/// With [`Peers`](crate::Peers) in the pass, the statistics are over the micro-batches of all replicas, as in PyTorch's
/// `SyncBatchNorm`.
///
/// Unlike `burn::nn::BatchNorm`, it follows the [`Pass`]'s mode, whether autodiff is on or not, and its statistics are
/// parameters without gradient. A forward asks for their update and changes nothing itself.
///
/// # Shapes
/// - input and output `[B, C, H, W]`
/// - `weight`, `bias`, `running_mean`, `running_var` `[C]`
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// The scale of each channel.
    pub weight: Param<Tensor<1>>,
    /// The shift of each channel.
    pub bias: Param<Tensor<1>>,
    /// Mean of each channel over past batches.
    pub running_mean: Param<Tensor<1>>,
    /// Variance of each channel over past batches.
    pub running_var: Param<Tensor<1>>,
    #[module(skip)]
    epsilon: f64,
    #[module(skip)]
    momentum: f64,
}

impl BatchNorm {
    /// A layer of `channels` channels whose scale starts at 1.
    pub fn new(init: &Init, channels: usize) -> Self {
        Self::with_scale(init, channels, 1.0)
    }

    /// A layer of `channels` channels whose scale starts at `scale`.
    pub fn with_scale(init: &Init, channels: usize, scale: f32) -> Self {
        Self {
            weight: init.constant([channels], scale),
            bias: init.constant([channels], 0.0),
            running_mean: init.statistic([channels], 0.0),
            running_var: init.statistic([channels], 1.0),
            epsilon: 1e-5,
            momentum: 0.1,
        }
    }

    /// Normalises.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of channels, [`ModelError::SingleValue`] where it has one value
    /// a channel in training.
    pub fn forward(&self, input: Tensor<4>, pass: &mut Pass) -> Result<Tensor<4>, ModelError> {
        Ok(self.normed(input, pass)?.into_tensor())
    }

    /// The normalised input, for a ReLU, a residual addition or a convolution. Backward keeps the input alone.
    ///
    /// # Errors
    /// As those of [`forward`](Self::forward).
    pub fn normed(&self, input: impl Into<Convolved>, pass: &mut Pass) -> Result<Normed, ModelError> {
        let input = input.into();
        let dims @ [batch, found, height, width] = input.dims();
        let [channels] = self.weight.val().dims();
        pass.expect_shape(found == channels, &format!("[B, {channels}, H, W]"), &dims)?;
        let count = batch * height * width;
        if pass.mode() == Mode::Train && pass.peers().is_none() {
            expect_several(count > 1, &dims, pass)?;
        }
        pass.layer(LayerKind("BatchNorm"), &dims, &dims, 2 * channels);
        // Our backward pass does not go through the statistics of an evaluation.
        let is_lean = pass.policy().lean && (pass.mode() == Mode::Train || input.is_plain());
        if is_lean {
            return self.deferred(input, count, pass);
        }
        // Burn's operations go back through the statistics by themselves, and know no other replica.
        pass.expect_shape(pass.peers().is_none(), "lean layers where statistics are shared", &dims)?;
        Ok(self.composed(input.into_tensor(), count, pass))
    }

    /// Adds the layer, with its running statistics, to an ONNX graph.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let dims = self.weight.val().dims();
        let [weight, bias, mean, variance] =
            ["weight", "bias", "running_mean", "running_var"].map(|leaf| graph.parameter(leaf, &dims));
        let epsilon = ("epsilon", Attribute::Float(self.epsilon as f32));
        graph.node("BatchNormalization", &[input, &weight, &bias, &mean, &variance], [epsilon])
    }

    fn deferred(&self, input: Convolved, count: usize, pass: &mut Pass) -> Result<Normed, ModelError> {
        let policy = pass.policy();
        if pass.mode() == Mode::Eval {
            let [mean, variance] = self.running();
            let inverse = variance.add_scalar(self.epsilon).sqrt().recip();
            return Ok(Normed::plain(input, self.norm(mean, inverse, None), policy));
        }
        // Statistics of a batch need all of it.
        let input = input.into_tensor();
        let mut moments = norm::moments(&autodiff::inner(input.clone()), policy.kernels);
        let (mut count, mut shared) = (count as f64, None);
        if let Some(peers) = pass.peers() {
            let (of_all, moments_of_all) = SharedStatistics::moments(peers, moments, count as usize)?;
            (count, moments) = (of_all.count, moments_of_all);
            shared = Some(of_all);
        }
        expect_several(count > 1.0, &input.dims(), pass)?;
        let Statistics { inverse, running } =
            norm::statistics(&moments, self.running(), self.step(count), policy.kernels);
        self.update_running(running, pass);
        let [mean, _] = moments;
        let norm = self.norm(mean, inverse, shared);
        Ok(match input.device().is_autodiff() {
            true => Normed::deferred(input, norm, [self.weight.val(), self.bias.val()], policy),
            false => Normed::plain(input.into(), norm, policy),
        })
    }

    fn norm(&self, mean: Tensor<1>, inverse: Tensor<1>, shared: Option<SharedStatistics>) -> Norm {
        let [weight, shift] = [&self.weight, &self.bias].map(|parameter| autodiff::inner(parameter.val()));
        Norm { mean, inverse, weight, shift, shared }
    }

    /// Composed of Burn's operations, in 32 bits.
    fn composed(&self, input: Tensor<4>, count: usize, pass: &mut Pass) -> Normed {
        let dims @ [batch, channels, height, width] = input.dims();
        let policy = pass.policy();
        let flat = policy.widen(input).reshape([batch, channels, height * width]);
        let (centered, variance) = match pass.mode() {
            Mode::Train => {
                // Over space and then over the batch: the sums keep one order, whatever the number of threads.
                let mean = flat.clone().mean_dim(2).mean_dim(0);
                let centered = flat - mean.clone();
                let variance = centered.clone().square().mean_dim(2).mean_dim(0);
                let vector =
                    |moment: &Tensor<3>| autodiff::inner(moment.clone().detach().reshape([channels]));
                let moments = [vector(&mean), vector(&variance)];
                let running = norm::running_statistics(&moments, self.running(), self.step(count as f64));
                self.update_running(running, pass);
                (centered, variance)
            }
            Mode::Eval => {
                let mean = self.running_mean.val().reshape([1, channels, 1]);
                (flat - mean, self.running_var.val().reshape([1, channels, 1]))
            }
        };
        let weight = self.weight.val().reshape([1, channels, 1]);
        let scale = variance.add_scalar(self.epsilon).sqrt().recip() * weight;
        let output = centered * scale + self.bias.val().reshape([1, channels, 1]);
        Normed::made(policy.narrow(output.reshape(dims)))
    }

    /// How the statistics of a batch with `count` values a channel enter the running ones.
    fn step(&self, count: f64) -> StatisticsStep {
        let unbiased = count / (count - 1.0);
        StatisticsStep {
            kept: 1.0 - self.momentum,
            shares: [self.momentum, self.momentum * unbiased],
            epsilon: self.epsilon,
        }
    }

    /// The running mean and variance, off the autodiff graph.
    fn running(&self) -> [Tensor<1>; 2] {
        [&self.running_mean, &self.running_var].map(|running| autodiff::inner(running.val()))
    }

    fn update_running(&self, [mean, variance]: [Tensor<1>; 2], pass: &mut Pass) {
        pass.update(&self.running_mean, mean);
        pass.update(&self.running_var, variance);
    }
}

/// Refuses a channel with a single value in training.
fn expect_several(are_several: bool, found: &[usize], pass: &Pass) -> Result<(), ModelError> {
    match are_several {
        true => Ok(()),
        false => Err(ModelError::SingleValue { place: pass.place(), found: found.to_vec() }),
    }
}
