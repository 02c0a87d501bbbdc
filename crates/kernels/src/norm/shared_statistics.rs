use std::{fmt::Debug, sync::Arc};

use burn::tensor::{Tensor, TensorData};

use crate::{any_tensor::AnyTensor, host::DeviceError};

/// The other replicas that compute on parts of the same batch, for an operation over the whole batch: synchronised batch
/// normalisation.
///
/// Every replica runs the same operations in the same order, so that each sum meets the same sum of all others.
pub trait Peers: Send + Sync + Debug {
    /// Replaces `values` by their sums over all replicas (an all-reduce): every replica gets the same sums.
    ///
    /// On failure `values` stay unchanged, and the owner of the replicas reports the error after the step.
    fn sum(&self, values: &mut [f64]);
}

/// Statistics over the samples of several replicas.
#[derive(Clone, Debug)]
pub struct SharedStatistics {
    /// The other replicas.
    pub peers: Arc<dyn Peers>,
    /// Values of each channel, over all replicas.
    pub count: f64,
}

impl SharedStatistics {
    /// The mean and variance over all replicas, from those over the `count` values of this one. The sums of squares have
    /// 64 bits, in which 32-bit moments lose no digits that count.
    ///
    /// # Errors
    /// The device's own error, where the moments cannot be read.
    pub fn moments(
        peers: &Arc<dyn Peers>,
        [mean, variance]: [Tensor<1>; 2],
        count: usize,
    ) -> Result<(Self, [Tensor<1>; 2]), DeviceError> {
        let device = mean.device();
        let [means, variances] = [AnyTensor::from(mean).to_host()?, AnyTensor::from(variance).to_host()?];
        let channels = means.len();
        let weigh = |value: f64| value * count as f64;
        let mut sums = vec![count as f64];
        sums.extend(means.iter().map(|mean| weigh(f64::from(*mean))));
        let squares = means.iter().zip(&variances);
        sums.extend(squares.map(|(mean, variance)| weigh(f64::from(*variance) + f64::from(*mean).powi(2))));
        peers.sum(&mut sums);
        let count = sums[0];
        let (means, squares) = sums[1..].split_at(channels);
        let mean = |channel: usize| means[channel] / count;
        let variance = |channel: usize| (squares[channel] / count - mean(channel).powi(2)).max(0.0);
        let vector = |of: &dyn Fn(usize) -> f64| {
            let values: Vec<f32> = (0..channels).map(|channel| of(channel) as f32).collect();
            Tensor::from_data(TensorData::new(values, [channels]), &device)
        };
        Ok((Self { peers: peers.clone(), count }, [vector(&mean), vector(&variance)]))
    }

    /// The sums over all replicas, scaled to the `count` values of this one.
    pub(super) fn spread(&self, weight: &[f32], shift: &[f32], count: f64) -> [Vec<f32>; 2] {
        let mut sums: Vec<f64> = weight.iter().chain(shift).map(|sum| f64::from(*sum)).collect();
        self.peers.sum(&mut sums);
        let share = count / self.count;
        let (weight, shift) = sums.split_at(weight.len());
        [weight, shift].map(|sums| sums.iter().map(|sum| (sum * share) as f32).collect())
    }

    pub(super) fn spread_vectors(&self, weight: Tensor<3>, shift: Tensor<3>, count: f64) -> [Tensor<3>; 2] {
        let (dims, device) = (weight.dims(), weight.device());
        let host = |tensor: &Tensor<3>| AnyTensor::from(tensor.clone()).to_host();
        // A failed device reports its error again at the end of the step.
        let (Ok(weights), Ok(shifts)) = (host(&weight), host(&shift)) else { return [weight, shift] };
        self.spread(&weights, &shifts, count)
            .map(|sums| Tensor::from_data(TensorData::new(sums, dims), &device))
    }
}
