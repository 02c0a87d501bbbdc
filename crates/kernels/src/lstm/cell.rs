//! The cell of an LSTM, for one row of a batch.

use burn_backend::DType;

use crate::{
    activations::{sigmoid, tanh},
    simd::multiply_add,
    stored_float::round,
};

/// Adds the bias to gates and activates them.
#[inline(always)]
pub(super) fn activate<const FUSED: bool>(gates: &mut [f32], bias: &[f32]) {
    let units = bias.len() / 4;
    let parts = gates.chunks_exact_mut(units).zip(bias.chunks_exact(units));
    for (part, (gates, bias)) in parts.enumerate() {
        let all = gates.iter_mut().zip(bias);
        match part {
            2 => all.for_each(|(gate, bias)| *gate = tanh::<FUSED>(*gate + bias)),
            _ => all.for_each(|(gate, bias)| *gate = sigmoid::<FUSED>(*gate + bias)),
        }
    }
}

/// Computes the next cell from activated gates. Backward computes it again.
#[inline(always)]
pub(super) fn next_cell<const FUSED: bool>(gates: &[f32], cell: &mut [f32]) {
    let units = cell.len();
    let [i, f, g] = [0, 1, 2].map(|gate| &gates[gate * units..][..units]);
    for unit in 0..units {
        cell[unit] = multiply_add::<FUSED>(f[unit], cell[unit], i[unit] * g[unit]);
    }
}

/// Computes the hidden units from activated gates and the cell, rounded. Backward computes them again.
#[inline(always)]
pub(super) fn put_out<const FUSED: bool>(gates: &[f32], cell: &[f32], hidden: &mut [f32], dtype: DType) {
    let opened = &gates[3 * cell.len()..];
    for ((hidden, cell), opened) in hidden.iter_mut().zip(cell).zip(opened) {
        *hidden = opened * tanh::<FUSED>(*cell);
    }
    round(hidden, dtype);
}
