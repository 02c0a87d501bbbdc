//! The products of the unit, as its manual has them, one number at a time.

use half::bf16;

use crate::{Vectors, line::SIDE};

/// The sum over the inner indices of row `row` of `left` times column `column` of `right`, in the order and with the roundings of the
/// unit: in each step the even and the odd elements of 32 are summed alone, and their sum is added.
pub(crate) fn product(left: Vectors<'_>, right: Vectors<'_>, [row, column]: [usize; 2], before: f32) -> f32 {
    let value = |vectors: &Vectors<'_>, vector, index| bf16::from_bits(vectors.bits(vector, index)).to_f32();
    (0..left.inner.next_multiple_of(SIDE)).step_by(SIDE).fold(before, |sum, first| {
        let of = |odd: usize| {
            (first + odd..first + SIDE).step_by(2).fold(0.0f32, |sum, index| {
                value(&left, row, index).mul_add(value(&right, column, index), sum)
            })
        };
        sum + (of(0) + of(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Line, MatrixUnit, lines};

    /// Numbers between −1 and 1, which need all bits of bf16.
    fn numbers(seed: u32, count: usize) -> Vec<bf16> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bf16::from_f32((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
        };
        (0..count).map(|_| next()).collect()
    }

    const SIZES: [[usize; 3]; 8] = [
        [1, 1, 1],
        [3, 5, 7],
        [16, 16, 32],
        [32, 32, 64],
        [33, 31, 65],
        [70, 100, 20],
        [64, 96, 257],
        [5, 40, 0],
    ];

    #[test]
    fn sums_differ_from_those_of_64_bits_by_their_roundings() {
        for [rows, columns, inner] in SIZES {
            let (left, right) = (numbers(1, rows * inner), numbers(2, columns * inner));
            let [left, right] = [Vectors::along(&left, inner, rows), Vectors::along(&right, inner, columns)];
            let exact = |row, column| {
                (0..inner).map(move |index| {
                    let [a, b] = [left.bits(row, index), right.bits(column, index)];
                    f64::from(bf16::from_bits(a)) * f64::from(bf16::from_bits(b))
                })
            };
            for (row, column) in [(0, 0), (rows - 1, columns - 1)] {
                let found = f64::from(product(left, right, [row, column], 0.0));
                let (sum, size): (f64, f64) =
                    (exact(row, column).sum(), exact(row, column).map(f64::abs).sum());
                assert!((found - sum).abs() <= 1e-7 * inner as f64 * size, "{found} for {sum}");
            }
        }
    }

    #[test]
    fn products_have_the_bits_of_the_manual_from_either_order_in_memory() {
        let Some(unit) = MatrixUnit::of_this_processor() else {
            println!("skipped: this processor has no matrix unit");
            return;
        };
        for [rows, columns, inner] in SIZES {
            let (left, right) = (numbers(3, rows * inner), numbers(4, columns * inner));
            for (left_is_across, right_is_across, add) in
                [(false, false, false), (true, false, true), (false, true, true), (true, true, false)]
            {
                let of = |elements, count, is_across| match is_across {
                    true => Vectors::across(elements, count, count, inner),
                    false => Vectors::along(elements, inner, count),
                };
                let (left, right) = (of(&left, rows, left_is_across), of(&right, columns, right_is_across));
                let mut strips = [rows, columns].map(|count| vec![Line::ZERO; lines(count, inner)]);
                unit.pack_left(left, &mut strips[0]);
                unit.pack_right(right, &mut strips[1]);
                let stride = columns.next_multiple_of(SIDE) + 16;
                let mut sums = vec![0.25; rows.next_multiple_of(SIDE) * stride];
                unit.multiply([&strips[0], &strips[1]], inner, &mut sums, stride, add);
                for row in 0..rows {
                    for column in 0..columns {
                        let expected = product(left, right, [row, column], if add { 0.25 } else { 0.0 });
                        let found = sums[row * stride + column];
                        assert_eq!(found.to_bits(), expected.to_bits(), "{rows} × {columns} × {inner}");
                    }
                    // Nothing is written behind the strips.
                    if inner > 0 {
                        assert_eq!(sums[row * stride + stride - 16..][..16], [0.25; 16]);
                    }
                }
            }
        }
    }
}
