//! Gradients of parameters that rows were multiplied by: sums over those rows, added to the sums of earlier rows.
//!
//! Letters: B batch, T steps of a sequence, k of a run, N = B·k rows, R and C features of both factors.

mod by_unit;

use std::{mem::MaybeUninit, ops::Range};

use burn::tensor::Tensor;
use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use by_unit::ByUnit;

use crate::{
    any_tensor::AnyTensor,
    cast::cast,
    custom_op::{CustomOp, Workspace},
    flex_tensor::floats,
    kernels::Kernels,
    panels::{OutputRows, Panelled, Panels},
    sequence::{RunRows, zeros},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, round, with_values},
    tile::Start,
    workers,
};

/// Rows that are multiplied at once: they stay in the second cache.
const AT_ONCE: usize = 512;

/// Rows of the sums that a task computes, at most.
const ROWS: usize = 64;

/// Some steps of a sequence: rows to multiply.
pub struct StepRange {
    /// The sequence, `[B, T, C]`.
    pub of: Tensor<3>,
    /// The steps T to multiply.
    pub steps: Range<usize>,
}

impl StepRange {
    /// The rows, `[N, C]`.
    fn rows(self) -> Tensor<2> {
        let [batch, _, features] = self.of.dims();
        let rows = batch * self.steps.len();
        self.of.narrow(1, self.steps.start, self.steps.len()).reshape([rows, features])
    }
}

/// Factors whose products are summed over rows.
pub struct RowTerms {
    /// `[B, k, R]` of 32 bits.
    pub left: Tensor<3>,
    /// The second factors, `[B, k, C]` each, if their sums are wanted.
    pub rights: [Option<StepRange>; 2],
    /// Whether the sums of the rows of `left` are wanted too.
    pub rows: bool,
    /// The format of products.
    pub dtype: DType,
}

/// The wanted sums over rows, in 32 bits.
#[derive(Default)]
pub struct RowSums {
    /// leftᵀ · right for each second factor, `[R, C]`.
    pub products: [Option<Tensor<2>>; 2],
    /// The sums of the rows of left, `[R]`.
    pub rows: Option<Tensor<1>>,
}

impl RowSums {
    /// Adds more rows: in place, if nobody else holds the sums.
    pub fn add(self, terms: RowTerms, kernels: Kernels) -> Self {
        match kernels {
            Kernels::Cpu => self.add_own(terms),
            Kernels::Gpu | Kernels::Composed => self.add_composed(terms),
        }
    }

    fn add_composed(self, RowTerms { left, rights, rows, dtype }: RowTerms) -> Self {
        let kernels = Kernels::Composed;
        let [batch, steps, features] = left.dims();
        let left = left.reshape([batch * steps, features]);
        let rows = rows.then(|| added(self.rows, left.clone().sum_dim(0).reshape([features])));
        let left = cast(left, dtype, kernels).transpose();
        let [first, second] = self.products;
        let product = |sum, right: Option<StepRange>| {
            let product = left.clone().matmul(cast(right?.rows(), dtype, kernels));
            Some(added(sum, cast(product, DType::F32, kernels)))
        };
        let [of_first, of_second] = rights;
        Self { products: [product(first, of_first), product(second, of_second)], rows }
    }

    fn add_own(self, RowTerms { left, rights, rows, dtype }: RowTerms) -> Self {
        let [batch, steps, features] = left.dims();
        let mut inputs: Vec<AnyTensor> = Vec::new();
        let mut outputs = Vec::new();
        let like = || left.clone();
        let factor = |right: &StepRange| (right.of.dims()[2], right.steps.start);
        let factors = rights.each_ref().map(|right| right.as_ref().map(factor));
        for (sum, factor) in self.products.into_iter().zip(factors) {
            let Some((columns, _)) = factor else { continue };
            let dims = [features, columns];
            inputs.push(sum.unwrap_or_else(|| zeros(dims, DType::F32, like(), Kernels::Cpu)).into());
            outputs.push((dims.to_vec(), DType::F32));
        }
        if rows {
            let sum = self.rows.unwrap_or_else(|| zeros([features], DType::F32, like(), Kernels::Cpu));
            inputs.push(sum.into());
            outputs.push((vec![features], DType::F32));
        }
        let in_place = inputs.len();
        if in_place == 0 {
            return Self::default();
        }
        let accumulate = Accumulate { count: batch * steps, features, factors, steps, dtype };
        inputs.push(left.into());
        inputs.extend(rights.into_iter().flatten().map(|right| AnyTensor::from(right.of)));
        let operation = CustomOp { name: "add_products", inputs, outputs, in_place };
        let made = operation.run_all(accumulate.workspace(), |mut inputs| {
            let read = inputs.split_off(in_place);
            accumulate.run(&mut inputs, &read);
            inputs
        });
        let mut made = made.into_iter();
        let products = factors.map(|factor| factor.and_then(|_| made.next()?.float()));
        let rows = rows.then(|| made.next()?.float()).flatten();
        Self { products, rows }
    }
}

fn added<const D: usize>(sum: Option<Tensor<D>>, more: Tensor<D>) -> Tensor<D> {
    match sum {
        Some(sum) => sum + more,
        None => more,
    }
}

/// C of a second factor, and the first step of the run in it.
type Factor = (usize, usize);

#[derive(Clone, Copy)]
struct Accumulate {
    /// N.
    count: usize,
    /// R.
    features: usize,
    factors: [Option<Factor>; 2],
    /// k.
    steps: usize,
    /// The format of products.
    dtype: DType,
}

impl Accumulate {
    /// The sizes of the second factors, for `rows` rows.
    fn rights(self, rows: usize) -> impl Iterator<Item = Panelled> {
        self.factors.into_iter().flatten().map(move |(columns, _)| Panelled::new(rows, columns))
    }

    fn workspace(self) -> Workspace {
        self.by_unit().map_or_else(|| self.workspace_of_vectors(), |by_unit| by_unit.workspace())
    }

    fn workspace_of_vectors(self) -> Workspace {
        let left = self.left(self.count.min(AT_ONCE));
        Workspace {
            shared: self.rights(left.inner).map(Panelled::elements).sum(),
            of_each: left.elements_beside(ROWS.min(self.features)),
            tasks: self.features.div_ceil(left.tile.rows),
            ..Workspace::default()
        }
    }

    /// The sizes of the first factor, for `rows` rows.
    fn left(self, rows: usize) -> Panelled {
        Panelled::new(rows, 0)
    }

    /// The sums by the processor's matrix unit, where it is faster.
    fn by_unit(self) -> Option<ByUnit> {
        match self.factors {
            [Some(first), Some(second)] => ByUnit::both(self, [first, second]),
            [Some(one), None] | [None, Some(one)] => ByUnit::one(self, [one]),
            [None, None] => None,
        }
    }

    /// Adds to the wanted `sums`. `read`: the first factor and then the second ones.
    fn run(self, sums: &mut [FlexTensor], read: &[FlexTensor]) {
        match self.by_unit() {
            Some(by_unit) => by_unit.add(self, sums, read),
            None => self.by_vectors(sums, read),
        }
    }

    fn by_vectors(self, sums: &mut [FlexTensor], read: &[FlexTensor]) {
        let workspace = self.workspace();
        let mut packed: Vec<f32> = Vec::with_capacity(workspace.shared);
        let (left, rights) = (floats(&read[0]), &read[1..]);
        let mut sums: Vec<&mut [f32]> = charge(Account::Host, || sums.iter_mut().map(f32::storage).collect());
        let packed = &mut packed.spare_capacity_mut()[..workspace.shared];
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            for start in (0..self.count).step_by(AT_ONCE) {
                let rows = start..(start + AT_ONCE).min(self.count);
                let panels = self.packed(rows.clone(), rights, &mut *packed);
                let (left, in_tiles) = (&left[rows.start * self.features..], self.left(rows.len()));
                self.add(left, in_tiles, &panels, &mut sums, workspace);
            }
        });
    }

    /// Where the rows lie in a second factor.
    fn in_sequence(self, factor: Factor, right: &FlexTensor) -> RunRows {
        let (features, first_step) = factor;
        RunRows { all_steps: right.shape()[1], first_step, steps: self.steps, features }
    }

    /// The panels of the second factors, for some of the rows.
    fn packed<'a>(
        self,
        rows: Range<usize>,
        rights: &[FlexTensor],
        mut packed: &'a mut [MaybeUninit<f32>],
    ) -> Vec<Panels<'a>> {
        let starts = self.factors.into_iter().flatten();
        let each =
            self.rights(rows.len()).zip(rights).zip(starts).map(|((sizes, right), (_, first_step))| {
                let (some, rest) = std::mem::take(&mut packed).split_at_mut(sizes.elements());
                packed = rest;
                let columns = sizes.columns;
                let in_sequence = self.in_sequence((columns, first_step), right);
                // Stored 16 bits are rounded already.
                let is_wide = right.dtype() == DType::F32;
                let dtype = if is_wide { self.dtype } else { DType::F32 };
                let round = |panel: &mut [f32]| round(panel, dtype);
                let panels = with_values!(StoredFloats::of(right), values => {
                    sizes.put_rows(|row| &values[in_sequence.begin(rows.start + row)..][..columns], some, round)
                });
                Panels::new(panels, sizes)
            });
        let mut panels = charge(Account::Host, || Vec::with_capacity(rights.len()));
        panels.extend(each);
        panels
    }

    /// Adds the products of some of the rows.
    fn add(
        self,
        left: &[f32],
        in_tiles: Panelled,
        panels: &[Panels<'_>],
        sums: &mut [&mut [f32]],
        workspace: Workspace,
    ) {
        // All threads have tasks.
        let even = self.features.div_ceil(2 * workers::threads());
        let of_task = even.next_multiple_of(in_tiles.tile.rows).clamp(1, ROWS);
        let (products, rows) = sums.split_at_mut(panels.len());
        let mut products = products.iter_mut().zip(panels).map(|(sum, panels)| {
            let columns = panels.sizes.columns;
            (panels, sum.chunks_mut((of_task * columns).max(1)))
        });
        let mut products = [products.next(), products.next()];
        let mut rows = rows.first_mut().map(|sum| sum.chunks_mut(of_task));
        let tasks = (0..self.features).step_by(of_task).map(move |first| AccumulateTask {
            left: (&left[first..], self.features),
            in_tiles,
            count: of_task.min(self.features - first),
            products: products.each_mut().map(|product| {
                let (panels, sums) = product.as_mut()?;
                Some((&**panels, sums.next()?))
            }),
            rows: rows.as_mut().and_then(Iterator::next),
        });
        workers::each(tasks, workspace, |part, beside| vectorised(AccumulateWork { part, beside }));
    }
}

/// Some rows of the sums, for one task.
struct AccumulateTask<'a> {
    /// The first factor from the task's first column on, and elements between its rows.
    left: (&'a [f32], usize),
    in_tiles: Panelled,
    /// Columns of the first factor.
    count: usize,
    products: [Option<(&'a Panels<'a>, &'a mut [f32])>; 2],
    rows: Option<&'a mut [f32]>,
}

struct AccumulateWork<'a, 'b> {
    part: AccumulateTask<'a>,
    beside: &'b mut [f32],
}

impl SimdLoops for AccumulateWork<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { part: AccumulateTask { left: (left, stride), in_tiles, count, products, rows }, beside } =
            self;
        let mut unwanted = [0.0; ROWS];
        let sums = rows.unwrap_or(&mut unwanted[..count]);
        let (tiles, last) = in_tiles.columns_in_tiles(left, stride, sums, beside);
        for (panels, sums) in products.into_iter().flatten() {
            let output = OutputRows { elements: sums, stride: panels.sizes.columns };
            panels.multiply_tiles(count, tiles, output, &mut *last, Start::adding(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData, bf16};

    use super::*;

    fn values(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 37 + at / 7 * salt) % 11) as f32 - 5.0).collect()
    }

    fn tensor<const D: usize>(values: &[f32], dims: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), dims), &Device::flex())
    }

    fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        AnyTensor::from(tensor).to_host().expect("the CPU does not fail")
    }

    /// leftᵀ · right over all steps of a run, of which `right` has more.
    fn products(
        left: &[f32],
        right: &[f32],
        features: usize,
        columns: usize,
        at: impl Fn(usize) -> usize,
    ) -> Vec<f32> {
        let count = left.len() / features;
        let of = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            (0..count).map(|i| left[i * features + row] * right[at(i) * columns + column]).sum::<f32>()
        };
        (0..features * columns).map(of).collect()
    }

    #[test]
    fn sums_over_rows_are_added() {
        for (batch, steps, features, columns) in [
            (1, 1, 1, [1, 2]),
            (5, 1, 3, [7, 4]),
            (4, 8, 64, [32, 33]),
            (20, 55, 9, [40, 1]),
            (10, 55, 260, [200, 70]),
        ] {
            let (all, first) = (steps + 3, 2);
            let left = values(batch * steps * features, 1);
            let rights = [
                (values(batch * steps * columns[0], 3), steps, 0),
                (values(batch * all * columns[1], 5), all, first),
            ];
            let mut expected: Vec<Vec<f32>> = Vec::new();
            for ((right, all, first), columns) in rights.iter().zip(columns) {
                let at = |row: usize| row / steps * all + first + row % steps;
                expected.push(products(&left, right, features, columns, at));
            }
            expected.push((0..features).map(|row| left.iter().skip(row).step_by(features).sum()).collect());
            for kernels in [Kernels::Cpu, Kernels::Composed] {
                for wanted in
                    [[true, true, true], [true, false, false], [false, true, true], [false, false, true]]
                {
                    let terms = || RowTerms {
                        left: tensor(&left, [batch, steps, features]),
                        rights: [0, 1].map(|index| {
                            let (right, all, first) = &rights[index];
                            let of = tensor(right, [batch, *all, columns[index]]);
                            wanted[index].then(|| StepRange { of, steps: *first..first + steps })
                        }),
                        rows: wanted[2],
                        dtype: DType::F32,
                    };
                    let sums = RowSums::default().add(terms(), kernels).add(terms(), kernels);
                    let [first, second] = sums.products.map(|product| product.map(host));
                    let sums = [first, second, sums.rows.map(host)];
                    assert_eq!(sums.each_ref().map(Option::is_some), wanted);
                    for (found, expected) in sums.iter().zip(&expected) {
                        // Small whole numbers are exact in any order.
                        let twice: Vec<f32> = expected.iter().map(|sum| 2.0 * sum).collect();
                        assert!(
                            found.as_ref().is_none_or(|found| *found == twice),
                            "{batch} × {steps} × {features} × {columns:?}, {kernels:?}, {wanted:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        let (left, right) = (values(80 * 260, 1), values(80 * 200, 2));
        for dtype in [DType::F32, DType::BF16] {
            let sums = || {
                let right = tensor(&right, [10, 8, 200]).div_scalar(7.0);
                let terms = RowTerms {
                    left: tensor(&left, [10, 8, 260]).div_scalar(3.0),
                    rights: [Some(StepRange { of: right, steps: 0..8 }), None],
                    rows: true,
                    dtype,
                };
                let RowSums { products: [product, _], rows } = RowSums::default().add(terms, Kernels::Cpu);
                (product.map(host), rows.map(host))
            };
            let [one, three] = [1, 3].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                pool.expect("a pool of few threads").install(sums)
            });
            assert!(one == three, "{dtype:?}");
        }
    }

    #[test]
    fn what_is_multiplied_with_is_rounded_to_the_format_of_products() {
        let right = values(40, 1).into_iter().map(|value| 1.0 + value / 1000.0).collect::<Vec<_>>();
        let rounded: Vec<f32> = right.iter().map(|value| bf16::from_f32(*value).to_f32()).collect();
        let of = |right: &[f32]| {
            let terms = RowTerms {
                left: tensor(&[1.0; 8], [2, 4, 1]),
                rights: [Some(StepRange { of: tensor(right, [2, 4, 5]), steps: 0..4 }), None],
                rows: false,
                dtype: DType::BF16,
            };
            RowSums::default().add(terms, Kernels::Cpu).products[0].take().map(host)
        };
        assert_eq!(of(&right), of(&rounded));
        assert_ne!(right, rounded);
    }
}
