use burn::{
    module::Module,
    tensor::{Tensor, TensorData},
};
use oomph_core::Mode;

use crate::{LayerKind, Pass};

/// Dropout (Srivastava et al. 2014): in training each element becomes 0 with probability p, the rest is scaled by
/// 1/(1 − p); in evaluation nothing happens.
///
/// The mask is a function of the pass's key and the place in the model, so a recomputed stage drops the same elements.
#[derive(Module, Debug)]
pub struct Dropout {
    #[module(skip)]
    probability: f64,
}

impl Dropout {
    /// Drops with `probability`, from 0 up to but not including 1.
    pub fn new(probability: f64) -> Self {
        Self { probability }
    }

    /// Drops. Input and output have any one shape.
    pub fn forward<const D: usize>(&self, input: Tensor<D>, pass: &mut Pass) -> Tensor<D> {
        let dims = input.dims();
        pass.layer(LayerKind("Dropout"), &dims, &dims, 0);
        if pass.mode() == Mode::Eval || self.probability == 0.0 {
            return input;
        }
        let mut generator = pass.generator();
        let (probability, kept) = (self.probability as f32, (1.0 / (1.0 - self.probability)) as f32);
        let mask: Vec<f32> = (0..input.shape().num_elements())
            .map(|_| if generator.chance(probability) { 0.0 } else { kept })
            .collect();
        let mask = Tensor::from_data(TensorData::new(mask, dims), &input.device());
        input * mask
    }
}
