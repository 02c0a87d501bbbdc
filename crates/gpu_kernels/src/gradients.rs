//! Operations on all gradients of a model, in few launches.

use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    batches::{Grid, GridPlace, Kind, at_once, batches, position},
    launch::{addresses, cube, owned},
    reduce::cube_sum,
    tensor::{contiguous, empty},
    tensor_sums::OF_THREAD,
};

/// What the elements of gradients are summed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The square of each element.
    Square,
    /// 0 for a finite element, else NaN.
    Finite,
}

/// The sum of `term` over all elements of all `tensors` of 32 bits, `[1]`; `None` without tensors. The order of summation depends
/// on the shapes alone.
///
/// One launch for each 48 tensors whose elements are a multiple of 4, one for each 48 others, and one more. The workspace has 4
/// bytes for each of [`tensor_sums`](crate::tensor_sums).
pub fn sum<R: CubeRuntime>(tensors: Vec<CubeTensor<R>>, term: Term) -> Option<CubeTensor<R>> {
    let tensors: Vec<_> = tensors.into_iter().map(contiguous).collect();
    let like = tensors.first()?;
    let planned: Vec<(_, Grid)> = batches(&tensors, at_once(like, 1, 1), |tensor| Kind::of(tensor, false))
        .into_iter()
        .map(|batch| {
            let grid = batch.grid(OF_THREAD, |tensor| tensor);
            (batch, grid)
        })
        .collect();
    let cubes_of_all = planned.iter().map(|(_, grid)| grid.cubes).sum();
    let sums = empty(like, &[cubes_of_all], DType::F32);
    let mut first = 0;
    for (batch, grid) in &planned {
        let arguments =
            batch.tensors.iter().zip(&grid.places).map(|(tensor, GridPlace { vectors, first_cube })| {
                PlacedLaunch::new((*tensor).clone().into_buffer_arg(), *vectors, *first_cube)
            });
        // SAFETY: each tensor has as many vectors as are stated, and each cube writes a sum of its own.
        unsafe {
            write_sums::launch_unchecked::<R>(
                &like.client,
                grid.count(like),
                cube(),
                addresses(&batch.tensors),
                batch.kind.width,
                arguments.collect(),
                sums.clone().into_buffer_arg(),
                first,
                grid.cubes,
                term == Term::Square,
            );
        }
        first += grid.cubes;
    }
    let total = empty(like, &[1], DType::F32);
    // SAFETY: `sums` has that many elements, and `total` has one.
    unsafe {
        write_total::launch_unchecked::<R>(
            &like.client,
            CubeCount::new_single(),
            cube(),
            addresses(&[&sums]),
            sums.clone().into_buffer_arg(),
            total.clone().into_buffer_arg(),
            cubes_of_all,
            f32::NAN,
            term == Term::Square,
        );
    }
    Some(total)
}

/// A number to multiply with.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives for a moment")]
pub enum Factor<R: CubeRuntime> {
    /// One that the host knows.
    Number(f32),
    /// The only element of a tensor.
    Element(CubeTensor<R>),
}

/// All `tensors` of 32 bits times `factor`. They overwrite the old ones where nobody else holds those; otherwise they are copied
/// before.
///
/// One launch for each 48 tensors whose elements are a multiple of 4, and one for each 48 others. None beside these, if nothing is
/// copied.
pub fn scale<R: CubeRuntime>(tensors: Vec<CubeTensor<R>>, factor: &Factor<R>) -> Vec<CubeTensor<R>> {
    let tensors: Vec<_> = tensors.into_iter().map(owned).collect();
    let at_once = tensors.first().map_or(1, |like| at_once(like, 1, 1));
    for batch in batches(&tensors, at_once, |tensor| Kind::of(tensor, false)) {
        let grid = batch.grid(1, |tensor| tensor);
        let arguments =
            batch.tensors.iter().zip(&grid.places).map(|(tensor, GridPlace { vectors, first_cube })| {
                PlacedLaunch::new((*tensor).clone().into_buffer_arg(), *vectors, *first_cube)
            });
        let (number, element) = match factor {
            Factor::Number(number) => (*number, None),
            Factor::Element(element) => (1.0, Some(element.clone().into_buffer_arg())),
        };
        // SAFETY: each tensor has as many vectors as are stated, and the kernel touches no others.
        unsafe {
            write_scaled::launch_unchecked::<R>(
                &tensors[0].client,
                grid.count(&tensors[0]),
                cube(),
                addresses(&batch.tensors),
                batch.kind.width,
                arguments.collect(),
                FactorArgumentLaunch::new(number, element.into()),
            );
        }
    }
    tensors
}

#[derive(CubeType, CubeLaunch)]
struct Placed<N: Size> {
    values: Box<[Vector<f32, N>]>,
    vectors: usize,
    first_cube: usize,
}

/// Writes the sum of each of `cubes` behind the `first` ones: of squares, or the number of elements that are not finite.
#[cube(launch_unchecked, address_type = "dynamic")]
fn write_sums<N: Size>(
    tensors: Sequence<Placed<N>>,
    sums: &mut [f32],
    first: usize,
    cubes: usize,
    #[comptime] squares: bool,
) {
    let count = tensors.len();
    let of_thread = sum_among(&tensors, 0usize, count, squares);
    let total = cube_sum(of_thread);
    if UNIT_POS == 0 && CUBE_POS < cubes {
        sums[first + CUBE_POS] = total;
    }
}

/// The thread's sum of the cube's tensor, which is among those from `from` to before `to`.
#[cube]
fn sum_among<N: Size>(
    tensors: &Sequence<Placed<N>>,
    #[comptime] from: usize,
    #[comptime] to: usize,
    #[comptime] squares: bool,
) -> f32 {
    let mut sum = 0.0f32;
    if comptime!(to - from == 1) {
        sum += tensors.index(from).sum(squares);
    } else {
        let middle = comptime!((from + to) / 2);
        if CUBE_POS < tensors.index(middle).first_cube {
            sum += sum_among(tensors, from, middle, squares);
        } else {
            sum += sum_among(tensors, middle, to, squares);
        }
    }
    sum
}

#[cube]
impl<N: Size> Placed<N> {
    fn sum(&self, #[comptime] squares: bool) -> f32 {
        let of_cube = CUBE_DIM as usize * comptime!(OF_THREAD);
        let begin = (CUBE_POS - self.first_cube) * of_cube;
        // A cube behind the last tensor's has none. The order of the operations leaves no sum above all vectors.
        let end = if begin < self.vectors { begin + min(of_cube, self.vectors - begin) } else { begin };
        let size = N::value();
        let mut sum = Vector::<f32, N>::new(0.0f32);
        let mut at = begin + UNIT_POS as usize;
        while at < end {
            let values = self.values[at];
            let terms = if comptime!(squares) { values * values } else { not_finite(values) };
            sum += terms;
            at += CUBE_DIM as usize;
        }
        let mut total = 0.0f32;
        #[unroll]
        for i in 0..size {
            total += sum.extract(i);
        }
        total
    }
}

/// 1 for each element that is not finite, else 0, by their bits: a shader may compute as if all numbers were finite.
#[cube]
fn not_finite<N: Size>(values: Vector<f32, N>) -> Vector<f32, N> {
    let bits = Vector::<u32, N>::reinterpret(values);
    let exponent = (bits >> Vector::new(23u32)) & Vector::new(255u32);
    // Only an exponent of all ones reaches 256.
    Vector::cast_from((exponent + Vector::new(1u32)) >> Vector::new(8u32))
}

/// One cube adds all sums. Where they are not of squares, the total is 0 or `beyond`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn write_total(sums: &[f32], total: &mut [f32], count: usize, beyond: f32, #[comptime] squares: bool) {
    let mut of_thread = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < count {
        of_thread += sums[at];
        at += CUBE_DIM as usize;
    }
    let sum = cube_sum(of_thread);
    if UNIT_POS == 0 {
        total[0] = if comptime!(squares) { sum } else { select(sum > 0.0f32, beyond, 0.0f32) };
    }
}

/// `number`, times the only element if there is one.
#[derive(CubeType, CubeLaunch)]
struct FactorArgument {
    number: f32,
    element: ComptimeOption<Box<[f32]>>,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_scaled<N: Size>(mut tensors: Sequence<Placed<N>>, factor: FactorArgument) {
    let mut by = factor.number;
    #[comptime]
    match &factor.element {
        ComptimeOption::Some(element) => {
            by = element[0];
        }
        ComptimeOption::None => {}
    }
    let count = tensors.len();
    scale_among(&mut tensors, by, 0usize, count);
}

/// Scales the cube's part of its tensor, which is among those from `from` to before `to`.
#[cube]
fn scale_among<N: Size>(
    tensors: &mut Sequence<Placed<N>>,
    factor: f32,
    #[comptime] from: usize,
    #[comptime] to: usize,
) {
    if comptime!(to - from == 1) {
        let tensor = tensors.index_mut(from);
        let at = position(tensor.first_cube);
        if at < tensor.vectors {
            tensor.values[at] = tensor.values[at] * Vector::new(factor);
        }
    } else {
        let middle = comptime!((from + to) / 2);
        if CUBE_POS < tensors.index(middle).first_cube {
            scale_among(tensors, factor, from, middle);
        } else {
            scale_among(tensors, factor, middle, to);
        }
    }
}
