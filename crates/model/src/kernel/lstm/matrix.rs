use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use super::operand;
use crate::kernel::{Kernels, Own, panels::Panelled};

/// Weights, as products of a pass want them.
pub(crate) struct Matrix {
    form: Form,
    /// Features of what is multiplied, and of what comes of it.
    pub(super) inner: usize,
    pub(super) columns: usize,
    /// The format of products.
    pub(super) dtype: DType,
}

enum Form {
    Panels(Tensor<1>),
    Plain(Tensor<2>),
}

impl Matrix {
    /// To multiply rows by the transpose of `weight`, as forward does.
    pub(crate) fn transposed(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        let [columns, inner] = weight.dims();
        Self::new(weight, [inner, columns], dtype, kernels, Panelled::of_columns, Tensor::transpose)
    }

    /// To multiply rows by `weight`, as backward does.
    pub(crate) fn plain(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        let sizes = weight.dims();
        Self::new(weight, sizes, dtype, kernels, Panelled::of_rows, |weight| weight)
    }

    /// Of so many rows and columns, which `panels` and `tensor` make of the weight.
    fn new(
        weight: Tensor<2>,
        [inner, columns]: [usize; 2],
        dtype: DType,
        kernels: Kernels,
        panels: fn(Panelled, &[f32]) -> FlexTensor,
        tensor: fn(Tensor<2>) -> Tensor<2>,
    ) -> Self {
        let weight = operand(weight, dtype, kernels);
        let form = match kernels {
            Kernels::Own => Form::Panels(in_panels(weight, Panelled::new(inner, columns), panels)),
            Kernels::Composed => Form::Plain(tensor(weight)),
        };
        Self { form, inner, columns, dtype }
    }

    pub(super) fn sizes(&self) -> Panelled {
        Panelled::new(self.inner, self.columns)
    }

    /// The panels, where there are kernels of our own.
    ///
    /// # Panics
    /// Panics if there are none.
    pub(super) fn panels(&self) -> Tensor<1> {
        match &self.form {
            Form::Panels(panels) => panels.clone(),
            // Matrices of one pass are all made for the same kernels.
            Form::Plain(_) => unreachable!("our own kernels are given panels"),
        }
    }

    /// The matrix, for operations of Burn.
    ///
    /// # Panics
    /// Panics if it is in panels.
    pub(super) fn tensor(&self) -> Tensor<2> {
        match &self.form {
            Form::Plain(matrix) => matrix.clone(),
            // As above.
            Form::Panels(_) => unreachable!("Burn's operations are given matrices"),
        }
    }
}

fn in_panels(weight: Tensor<2>, sizes: Panelled, panels: fn(Panelled, &[f32]) -> FlexTensor) -> Tensor<1> {
    let operation = Own {
        name: "matrix_panels",
        outputs: vec![(vec![sizes.elements()], DType::F32)],
        inputs: vec![weight.into()],
        in_place: 0,
    };
    operation.run_one(|inputs| panels(sizes, inputs[0].storage()))
}
