use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use super::on_gpu;
use crate::{
    any_tensor::{AnyTensor, ranked},
    cast::cast,
    custom_op::CustomOp,
    kernels::Kernels,
    panels::Panelled,
};

/// Weights in the layout of the kernels' products.
#[derive(Debug)]
pub struct RecurrentMatrix {
    /// The panels of the matrix for our own kernels on the CPU, or the matrix.
    factor: AnyTensor,
    /// Its rows and columns are the features of the input and of the output of the product.
    pub(crate) sizes: Panelled,
    /// The format of products.
    pub(crate) dtype: DType,
}

impl RecurrentMatrix {
    /// The matrix to multiply rows by the transpose of `weight`, as in forward.
    pub fn transposed(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        let [columns, inner] = weight.dims();
        Self::new(weight, [inner, columns], dtype, kernels, Panelled::of_columns, Tensor::transpose)
    }

    /// The matrix to multiply rows by `weight`, as in backward.
    pub fn plain(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        let sizes = weight.dims();
        Self::new(weight, sizes, dtype, kernels, Panelled::of_rows, |weight| weight)
    }

    /// A matrix of `inner` rows and `columns` columns: `panels` and `tensor` convert the weight.
    fn new(
        weight: Tensor<2>,
        [inner, columns]: [usize; 2],
        dtype: DType,
        kernels: Kernels,
        panels: fn(Panelled, &[f32]) -> FlexTensor,
        tensor: fn(Tensor<2>) -> Tensor<2>,
    ) -> Self {
        let narrow = cast(weight, dtype, kernels);
        let sizes = Panelled::new(inner, columns);
        let factor = match kernels {
            // 16 bits are a storage format on the CPU: the matrix is rounded to it and widened again.
            Kernels::Cpu => in_panels(cast(narrow, DType::F32, kernels), sizes, panels).into(),
            Kernels::Gpu => on_gpu::contiguous(tensor(narrow)).into(),
            Kernels::Composed => tensor(narrow).into(),
        };
        Self { factor, sizes, dtype }
    }

    /// The panels, for our own kernels on the CPU.
    ///
    /// # Panics
    /// Panics if the matrix was made for others.
    pub(crate) fn panels(&self) -> Tensor<1> {
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

fn in_panels(weight: Tensor<2>, sizes: Panelled, panels: fn(Panelled, &[f32]) -> FlexTensor) -> Tensor<1> {
    let operation = CustomOp {
        name: "matrix_panels",
        outputs: vec![(vec![sizes.elements()], DType::F32)],
        inputs: vec![weight.into()],
        in_place: 0,
    };
    operation.run_one(|inputs| panels(sizes, inputs[0].storage()))
}
