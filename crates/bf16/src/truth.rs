//! The products of the unit, as its manual has them, one number at a time.

use half::bf16;

use crate::{Element, Vectors, line::SIDE, unit::Instructions};

/// The parts of an element, as [`Element`] says.
pub(crate) fn parts<E: Element + Into<f64>>(element: E) -> Vec<bf16> {
    let mut rest = element.into() as f32;
    let next = || {
        let nearest = bf16::from_bits(((rest.to_bits() + 0x8000) >> 16) as u16);
        // The greatest numbers would be rounded to infinity.
        let part = if nearest.is_finite() { nearest } else { bf16::from_bits((rest.to_bits() >> 16) as u16) };
        rest -= part.to_f32();
        part
    };
    std::iter::repeat_with(next).take(E::PARTS).collect()
}

/// The sum over the inner indices of row `row` of `left` times column `column` of `right`, in the order and with the roundings of the
/// instructions. Tiles sum the even and the odd elements of 32 alone, and add their sum. Dot products add one element after the other, of
/// each two the odd one first.
pub(crate) fn product<E: Element + Into<f64>>(
    instructions: Instructions,
    left: Vectors<'_, E>,
    right: Vectors<'_, E>,
    [row, column]: [usize; 2],
    before: f32,
) -> f32 {
    let value = |vectors: &Vectors<'_, E>, vector, index, part: usize| {
        parts(vectors.element(vector, index))[part].to_f32()
    };
    let steps = (0..left.inner.next_multiple_of(SIDE)).step_by(SIDE);
    let products = steps.flat_map(|first| E::PRODUCTS.iter().map(move |pair| (first, pair)));
    products.fold(before, |sum, (first, pair)| {
        let plus = |sum: f32, index| {
            value(&left, row, index, pair[0]).mul_add(value(&right, column, index, pair[1]), sum)
        };
        let indices = |begin: usize| (first + begin..first + SIDE).step_by(2);
        match instructions {
            Instructions::Tiles => sum + (indices(0).fold(0.0, plus) + indices(1).fold(0.0, plus)),
            Instructions::Dots | Instructions::Wide => {
                indices(0).fold(sum, |sum, even| plus(plus(sum, even + 1), even))
            }
        }
    })
}

/// Numbers between −1 and 1, which need all bits.
pub(crate) fn numbers<E>(seed: u32, count: usize, of: fn(f32) -> E) -> Vec<E> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        of((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FEW_ROWS, Line, MatrixUnit, PlaneUnit, Planes, Rounded, Shift, lines, pair};

    const ALL: [Instructions; 3] = [Instructions::Tiles, Instructions::Dots, Instructions::Wide];

    /// A unit for each kind of instructions that this processor has.
    fn units() -> impl Iterator<Item = (Instructions, MatrixUnit)> {
        ALL.into_iter().filter_map(|instructions| {
            let unit = MatrixUnit::by(instructions);
            if unit.is_none() {
                println!("skipped: this processor has no {instructions:?}");
            }
            Some((instructions, unit?))
        })
    }

    const SIZES: [[usize; 3]; 9] = [
        [1, 1, 1],
        [3, 5, 7],
        [16, 16, 32],
        [32, 32, 64],
        [33, 31, 65],
        [70, 100, 20],
        [64, 96, 257],
        [40, 33, 600],
        [5, 40, 0],
    ];

    fn sums_differ_by_roundings<E: Element + Into<f64>>(of: fn(f32) -> E) {
        for [rows, columns, inner] in SIZES {
            let (left, right) = (numbers(1, rows * inner, of), numbers(2, columns * inner, of));
            let [left, right] = [Vectors::along(&left, inner, rows), Vectors::along(&right, inner, columns)];
            let exact = |row, column| {
                (0..inner)
                    .map(move |index| left.element(row, index).into() * right.element(column, index).into())
            };
            for (row, column) in [(0, 0), (rows - 1, columns - 1)] {
                let (sum, size): (f64, f64) =
                    (exact(row, column).sum(), exact(row, column).map(f64::abs).sum());
                for instructions in ALL {
                    let found = f64::from(product(instructions, left, right, [row, column], 0.0));
                    assert!((found - sum).abs() <= 3e-7 * size, "{found} for {sum}, of {size}");
                }
            }
        }
    }

    #[test]
    fn sums_differ_from_those_of_64_bits_by_their_roundings() {
        sums_differ_by_roundings(bf16::from_f32);
        sums_differ_by_roundings(|number| number);
    }

    #[test]
    fn a_number_of_32_bits_is_the_sum_of_its_parts() {
        for number in numbers(5, 10_000, |number| number * 1e3).into_iter().chain([
            0.0,
            1e-20,
            3e38,
            f32::MAX,
            f32::MIN,
        ]) {
            let sum: f64 = parts(number).into_iter().map(f64::from).sum();
            let error = (sum - f64::from(number)).abs();
            assert!(error <= f64::from(number).abs() * 2f64.powi(-25), "{number}: {sum}");
        }
    }

    fn products_have_the_bits_of_the_manual<E: Element + Into<f64>>(
        (instructions, unit): (Instructions, MatrixUnit),
        of: fn(f32) -> E,
    ) {
        for [rows, columns, inner] in SIZES {
            let (left, right) = (numbers(3, rows * inner, of), numbers(4, columns * inner, of));
            for (left_is_across, right_is_across, add) in
                [(false, false, false), (true, false, true), (false, true, true), (true, true, false)]
            {
                let ordered = |elements, count, is_across| match is_across {
                    true => Vectors::across(elements, count, count, inner),
                    false => Vectors::along(elements, inner, count),
                };
                let (left, right) =
                    (ordered(&left, rows, left_is_across), ordered(&right, columns, right_is_across));
                let mut strips = [rows, columns].map(|count| vec![Line::ZERO; lines(count, inner, E::PARTS)]);
                unit.pack_left(left, &mut strips[0]);
                unit.pack_right(right, &mut strips[1]);
                let padded = rows.next_multiple_of(SIDE);
                let mut sums = vec![0.25; padded * columns.next_multiple_of(SIDE)];
                unit.multiply::<E>([&strips[0], &strips[1]], inner, &mut sums, add);
                for row in 0..rows {
                    for column in 0..columns {
                        let before = if add { 0.25 } else { 0.0 };
                        let expected = product(instructions, left, right, [row, column], before);
                        let found = sums[(column / SIDE * padded + row) * SIDE + column % SIDE];
                        assert_eq!(found.to_bits(), expected.to_bits(), "{rows} × {columns} × {inner}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_have_the_bits_of_the_manual_from_either_order_in_memory() {
        for (instructions, unit) in units() {
            products_have_the_bits_of_the_manual((instructions, unit), bf16::from_f32);
            products_have_the_bits_of_the_manual((instructions, unit), |number| number);
        }
    }

    fn rows_have_the_bits_of_whole_strips<E: Element>(unit: MatrixUnit, of: fn(f32) -> E) {
        for (rows, columns, inner) in [(16, 64, 32), (5, 33, 100), (16, 130, 700), (1, 96, 257), (3, 40, 0)] {
            let (left, right) = (numbers(7, rows * inner, of), numbers(8, columns * inner, of));
            let mut strips = [rows, columns].map(|count| vec![Line::ZERO; lines(count, inner, E::PARTS)]);
            unit.pack_left(Vectors::along(&left, inner, rows), &mut strips[0]);
            unit.pack_right(Vectors::along(&right, inner, columns), &mut strips[1]);
            let both: [&[Line]; 2] = [&strips[0], &strips[1]];
            for add in [false, true] {
                let padded = columns.next_multiple_of(SIDE);
                let mut whole = vec![0.25; SIDE * padded];
                unit.multiply::<E>(both, inner, &mut whole, add);
                for count in [FEW_ROWS, SIDE] {
                    let stride = padded + 3;
                    let mut found = vec![0.25; count * stride - 3];
                    unit.multiply_rows::<E>(both, inner, &mut found, [count, stride], add);
                    for (at, found) in found.iter().enumerate() {
                        let (row, column) = (at / stride, at % stride);
                        let expected = match column < padded {
                            true => whole[(column / SIDE * SIDE + row) * SIDE + column % SIDE],
                            false if inner == 0 && !add => 0.0,
                            false => 0.25,
                        };
                        assert_eq!(found.to_bits(), expected.to_bits(), "{rows} × {columns} × {inner}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_have_the_bits_of_whole_strips_in_either_format() {
        for (_, unit) in units() {
            rows_have_the_bits_of_whole_strips(unit, bf16::from_f32);
            rows_have_the_bits_of_whole_strips(unit, |number| number);
        }
    }

    #[test]
    fn numbers_are_rounded_as_they_are_packed() {
        let Some((_, unit)) = units().next() else { return };
        let (count, inner) = (40, 70);
        let mut wide = numbers(9, count * inner, |number| number);
        // Halfway between two, the greatest, what is not finite, and what has no place in the upper half alone.
        let special =
            [0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0xff80_0000, 0x7f80_0001, 0xff80_ffff, 0x8000_0001];
        wide.iter_mut().zip(special).for_each(|(number, bits)| *number = f32::from_bits(bits));
        let narrow: Vec<bf16> = wide.iter().map(|number| bf16::from_f32(*number)).collect();
        let packed = |pack: &dyn Fn(&mut [Line])| {
            let mut strips = vec![Line::ZERO; lines(count, inner, 1)];
            pack(&mut strips);
            strips
        };
        let wide = Rounded::all(&wide);
        let along = (Vectors::along(wide, inner, count), Vectors::along(&narrow, inner, count));
        let across =
            (Vectors::across(wide, count, count, inner), Vectors::across(&narrow, count, count, inner));
        for (wide, narrow) in [along, across] {
            assert!(packed(&|to| unit.pack_left(wide, to)) == packed(&|to| unit.pack_left(narrow, to)));
            assert!(packed(&|to| unit.pack_right(wide, to)) == packed(&|to| unit.pack_right(narrow, to)));
        }
    }

    #[test]
    fn some_of_larger_vectors_are_packed_as_a_copy_of_them() {
        let Some((_, unit)) = units().next() else { return };
        let (count, inner) = (75, 110);
        let elements = numbers(6, count * inner, |number| number);
        for all in [Vectors::along(&elements, inner, count), Vectors::across(&elements, count, count, inner)]
        {
            for (vectors, indices) in [(3..75, 5..101), (0..32, 32..64), (7..8, 109..110), (70..70, 0..110)] {
                let some = all.some_of(vectors.clone(), indices.clone());
                let copy: Vec<f32> = vectors
                    .clone()
                    .flat_map(|vector| indices.clone().map(move |index| all.element(vector, index)))
                    .collect();
                let copy = Vectors::along(&copy, indices.len(), vectors.len());
                for pack in [MatrixUnit::pack_left, MatrixUnit::pack_right] {
                    let packed = [some, copy].map(|vectors| {
                        let mut strips = vec![Line::ZERO; lines(vectors.count, vectors.inner, 3)];
                        pack(unit, vectors, &mut strips);
                        strips
                    });
                    assert!(packed[0] == packed[1], "{vectors:?} {indices:?}");
                }
            }
        }
    }

    #[test]
    fn the_greatest_numbers_make_finite_products() {
        for (_, unit) in units() {
            for number in [f32::MAX, f32::MIN, f32::from_bits(0x7f7f_8000)] {
                let mut strips = [(); 2].map(|()| vec![Line::ZERO; lines(1, 1, 3)]);
                unit.pack_left(Vectors::along(&[number], 1, 1), &mut strips[0]);
                unit.pack_right(Vectors::along(&[1e-10], 1, 1), &mut strips[1]);
                let mut sums = vec![0.0; SIDE * SIDE];
                unit.multiply::<f32>([&strips[0], &strips[1]], 1, &mut sums, false);
                let expected = number * 1e-10;
                assert!((sums[0] - expected).abs() <= 2e-7 * expected.abs(), "{number} gives {}", sums[0]);
            }
        }
    }

    #[test]
    fn what_is_not_finite_makes_products_that_are_not_finite() {
        for (_, unit) in units() {
            for (number, expected) in [
                (f32::INFINITY, f32::INFINITY),
                (f32::NEG_INFINITY, f32::NEG_INFINITY),
                (f32::from_bits(0x7f80_0001), f32::NAN),
            ] {
                for (left, right) in [([number, 0.5], [2.0, 1.0]), ([2.0, 1.0], [number, 0.5])] {
                    let mut strips = [(); 2].map(|()| vec![Line::ZERO; lines(1, 2, 3)]);
                    unit.pack_left(Vectors::along(&left, 2, 1), &mut strips[0]);
                    unit.pack_right(Vectors::along(&right, 2, 1), &mut strips[1]);
                    let mut sums = vec![0.0; SIDE * SIDE];
                    unit.multiply::<f32>([&strips[0], &strips[1]], 2, &mut sums, false);
                    assert!(sums[0] == expected || sums[0].is_nan(), "{number} gives {}", sums[0]);
                    assert!(!sums[0].is_finite(), "{number} gives {}", sums[0]);
                }
            }
        }
    }

    #[test]
    fn planes_are_multiplied_as_columns_that_are_packed() {
        let of_planes = |(_, unit): (_, MatrixUnit)| Some((unit, unit.for_planes()?));
        for (unit, planes) in units().filter_map(of_planes) {
            planes_are_multiplied_as_columns(unit, planes);
        }
    }

    fn planes_are_multiplied_as_columns(unit: MatrixUnit, planes: PlaneUnit) {
        let (of_plane, steps, shifts, first) = (100, 2, [0, 1, 10, 11, 37], 7);
        let inner = steps * shifts.len() * SIDE;
        let left = numbers(3, 30 * inner, bf16::from_f32);
        let source = numbers(4, steps * SIDE * of_plane, bf16::from_f32);
        let of_pair = |at: usize| {
            let (plane, position) = (at / of_plane, at % of_plane);
            let [even, odd] = [0, 1].map(|odd| source[(2 * plane + odd) * of_plane + position]);
            pair(even, odd)
        };
        let pairs: Vec<f32> = (0..steps * SIDE / 2 * of_plane).map(of_pair).collect();
        // The same columns, as a matrix of all inner indices.
        let element = |index: usize, column: usize| {
            let (step, shift, channel) =
                (index / SIDE / shifts.len(), shifts[index / SIDE % shifts.len()], index % SIDE);
            source[(step * SIDE + channel) * of_plane + first + shift + column]
        };
        let right: Vec<bf16> =
            (0..inner).flat_map(|index| (0..SIDE).map(move |column| element(index, column))).collect();
        let mut strips = [vec![Line::ZERO; lines(30, inner, 1)], vec![Line::ZERO; lines(SIDE, inner, 1)]];
        unit.pack_left(Vectors::along(&left, inner, 30), &mut strips[0]);
        unit.pack_right(Vectors::across(&right, SIDE, SIDE, inner), &mut strips[1]);
        let [mut expected, mut found] = [[1.0; SIDE * SIDE]; 2];
        unit.multiply::<bf16>([&strips[0], &strips[1]], inner, &mut expected, false);
        let right = Planes { pairs: &pairs, of_plane };
        let mut all: Vec<_> = shifts.iter().enumerate().map(|(index, by)| Shift { by: *by, index }).collect();
        planes.multiply(&strips[0], shifts.len(), right, &all, first, &mut found);
        assert_eq!(found, expected);

        // What is left out is not added, as if its rows were zeros.
        let removed = all.remove(2);
        let is_removed = |line: usize| line / SIDE % shifts.len() == removed.index;
        let kept = |(line, row): (usize, &Line)| if is_removed(line) { Line::ZERO } else { *row };
        let rows: Vec<Line> = strips[0].iter().enumerate().map(kept).collect();
        unit.multiply::<bf16>([&rows, &strips[1]], inner, &mut expected, false);
        planes.multiply(&strips[0], shifts.len(), right, &all, first, &mut found);
        assert_eq!(found, expected);
    }
}
