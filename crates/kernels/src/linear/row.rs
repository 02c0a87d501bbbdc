use burn_backend::{Shape, TensorMetadata};
use burn_flex::FlexTensor;

use super::{Plus, widened};
use crate::{
    custom_op::Workspace,
    reduce::dot,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit, workers,
};

/// Rows of the matrix that a task reads.
const ROWS: usize = 64;

/// The workspace of one row times a matrix: the row, and for each task a row of the matrix.
pub(super) fn workspace(inner: usize, outputs: usize) -> Workspace {
    Workspace { shared: inner, of_each: inner, tasks: outputs.div_ceil(ROWS), ..Workspace::default() }
}

/// One row times the transpose of a matrix, plus what is added. Panels would be read once, so the matrix is read where it lies.
pub(super) fn times(
    row: &FlexTensor,
    matrix: &FlexTensor,
    plus: Plus<'_>,
    workspace: Workspace,
) -> FlexTensor {
    let (row_values, outputs) = (&widened(row), matrix.shape()[0]);
    let matrix = StoredFloats::of(matrix);
    by_dtype!(row.dtype(), E => {
        let (made, ()) = uninit::made::<E, _>(outputs, |made| {
            workers::each(made.parts(ROWS).enumerate(), workspace, |(part, mut made), loaded| {
                let (first, mut results) = (part * ROWS, [0.0; ROWS]);
                let results = &mut results[..ROWS.min(outputs - first)];
                vectorised(Dots { matrix, first, row: row_values, loaded, results });
                if let Some(plus) = plus.row {
                    results.iter_mut().zip(&plus[first..]).for_each(|(result, plus)| *result += plus);
                }
                if let Some(onto) = plus.rows::<E>(first) {
                    results.iter_mut().zip(onto).for_each(|(result, onto)| *result += onto.widened());
                }
                made.write_first(results);
            });
        });
        E::tensor(made, Shape::from([1, outputs]))
    })
}

/// The products of rows of a matrix, from the `first` on, with one row.
struct Dots<'a> {
    matrix: StoredFloats<'a>,
    first: usize,
    row: &'a [f32],
    /// A row of the matrix in 32 bits.
    loaded: &'a mut [f32],
    results: &'a mut [f32],
}

impl SimdLoops for Dots<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { matrix, first, row, loaded, results } = self;
        for (index, result) in results.iter_mut().enumerate() {
            let start = (first + index) * row.len();
            *result = match matrix {
                StoredFloats::F32(values) => dot(&values[start..][..row.len()], row),
                matrix => {
                    matrix.load(start, loaded);
                    dot(loaded, row)
                }
            };
        }
    }
}
