use burn::tensor::Tensor;
use burn_backend::DType;

use super::{factor::FactorSizes, on_gpu};
use crate::{
    any_tensor::{AnyTensor, ranked},
    cast::cast,
    custom_op::CustomOp,
    kernels::Kernels,
};

/// Weights in the layout of the kernels' products. Clones share them.
#[derive(Clone, Debug)]
pub struct RecurrentMatrix {
    /// The packed matrix for our own kernels on the CPU, or the matrix.
    factor: AnyTensor,
    /// Its rows and columns are the features of the input and of the output of the product.
    pub(crate) sizes: FactorSizes,
    /// The format of products.
    pub(crate) dtype: DType,
}

impl RecurrentMatrix {
    /// The matrix to multiply rows by the transpose of `weight`, as in forward: `rows` rows at once.
    pub fn transposed(weight: Tensor<2>, dtype: DType, rows: usize, kernels: Kernels) -> Self {
        let [columns, inner] = weight.dims();
        Self::new(weight, FactorSizes::new([inner, columns], dtype, rows), kernels, true)
    }

    /// The matrix to multiply rows by `weight`, as in backward: `rows` rows at once.
    pub fn plain(weight: Tensor<2>, dtype: DType, rows: usize, kernels: Kernels) -> Self {
        let sizes = FactorSizes::new(weight.dims(), dtype, rows);
        Self::new(weight, sizes, kernels, false)
    }

    /// A matrix of some sizes: the weight, or its transpose.
    fn new(weight: Tensor<2>, sizes: FactorSizes, kernels: Kernels, is_transposed: bool) -> Self {
        let dtype = sizes.dtype;
        let narrow = |weight: Tensor<2>| cast(weight, dtype, kernels);
        let ordered = |weight: Tensor<2>| if is_transposed { weight.transpose() } else { weight };
        let factor = match kernels {
            Kernels::Cpu if sizes.rounds() => packed(weight, sizes, is_transposed).into(),
            Kernels::Cpu => packed(cast(narrow(weight), DType::F32, kernels), sizes, is_transposed).into(),
            Kernels::Gpu => on_gpu::contiguous(ordered(narrow(weight))).into(),
            Kernels::Composed => ordered(narrow(weight)).into(),
        };
        Self { factor, sizes, dtype }
    }

    /// The packed matrix, for our own kernels on the CPU.
    ///
    /// # Panics
    /// Panics if the matrix was made for others.
    pub(crate) fn packed(&self) -> Tensor<1> {
        ranked(self.factor.clone())
    }

    /// The tensor, for Burn's operations and for our own kernels on a GPU.
    ///
    /// # Panics
    /// Panics if the matrix was made for our own kernels on the CPU.
    pub(crate) fn tensor(&self) -> Tensor<2> {
        ranked(self.factor.clone())
    }
}

fn packed(weight: Tensor<2>, sizes: FactorSizes, are_columns_along: bool) -> Tensor<1> {
    let operation = CustomOp {
        name: "matrix_panels",
        outputs: vec![(vec![sizes.elements()], DType::F32)],
        inputs: vec![weight.into()],
        in_place: 0,
    };
    operation.run_one(|inputs| sizes.packed(&inputs[0], are_columns_along))
}
