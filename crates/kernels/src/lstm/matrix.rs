use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use crate::{cast::cast, custom_op::CustomOp, kernels::Kernels, panels::Panelled};

/// Weights in the layout of the kernels' products.
#[derive(Debug)]
pub struct LstmMatrix {
    form: MatrixForm,
    /// Features of the input of the product.
    pub(super) inner: usize,
    /// Features of its output.
    pub(super) columns: usize,
    /// The format of products.
    pub(super) dtype: DType,
}

#[derive(Debug)]
enum MatrixForm {
    Panels(Tensor<1>),
    Plain(Tensor<2>),
}

impl LstmMatrix {
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
        let weight = operand(weight, dtype, kernels);
        let form = match kernels {
            Kernels::Own => MatrixForm::Panels(in_panels(weight, Panelled::new(inner, columns), panels)),
            Kernels::Composed => MatrixForm::Plain(tensor(weight)),
        };
        Self { form, inner, columns, dtype }
    }

    pub(super) fn sizes(&self) -> Panelled {
        Panelled::new(self.inner, self.columns)
    }

    /// The panels, for our own kernels.
    ///
    /// # Panics
    /// Panics if the matrix was made for Burn's operations.
    pub(super) fn panels(&self) -> Tensor<1> {
        match &self.form {
            MatrixForm::Panels(panels) => panels.clone(),
            // All matrices of a pass are made for the same kernels.
            MatrixForm::Plain(_) => unreachable!("matrices for our own kernels are panels"),
        }
    }

    /// The tensor, for Burn's operations.
    ///
    /// # Panics
    /// Panics if the matrix was made for our own kernels.
    pub(super) fn tensor(&self) -> Tensor<2> {
        match &self.form {
            MatrixForm::Plain(matrix) => matrix.clone(),
            // As above.
            MatrixForm::Panels(_) => unreachable!("matrices for Burn's operations are tensors"),
        }
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

/// A matrix in the format of products, `dtype`. On the CPU 16 bits are a storage format: there the matrix is rounded to it
/// and widened again.
pub(super) fn operand<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    let narrow = cast(tensor, dtype, kernels);
    match kernels {
        Kernels::Own => cast(narrow, DType::F32, kernels),
        Kernels::Composed => narrow,
    }
}
