use burn_backend::DType;

use crate::{
    activations::{sigmoids, tanh},
    recurrent::{
        cell::{BackRow, Cell, flushed},
        parts_of,
    },
    simd::multiply_add,
    stored_float::round,
};

/// The cell of a GRU. Beside the gates, backward has the gradients of the hidden units' products. The last third of them
/// holds q, the product of the candidate, until backward has read it.
pub(super) struct GruCell;

impl Cell<1> for GruCell {
    const GATES: usize = 3;
    const OPERATIONS: [&'static str; 2] = ["gru_forward", "gru_backward"];
    const IS_SUM: bool = false;
    const BESIDE: usize = 3;
    const IS_BESIDE: bool = true;

    #[inline(always)]
    fn step<const FUSED: bool>(
        gates: &mut [f32],
        product: &[f32],
        bias: &[f32],
        [hidden]: [&mut [f32]; 1],
        dtype: DType,
    ) {
        let units = hidden.len();
        let (of_input, of_hidden) = bias.split_at(3 * units);
        let (opened, candidate) = gates.split_at_mut(2 * units);
        let (r, z) = opened.split_at_mut(units);
        let [of_input_r, of_input_z] = parts_of(of_input, units);
        let [of_hidden_r, of_hidden_z] = parts_of(of_hidden, units);
        let [of_r, of_z] = parts_of(product, units);
        let resets = r.iter_mut().zip(of_r).zip(of_input_r.iter().zip(of_hidden_r));
        let updates = z.iter_mut().zip(of_z).zip(of_input_z.iter().zip(of_hidden_z));
        // Not by index: a loop that checks each one has a tail of single numbers.
        for (((r, of_r), bias_r), ((z, of_z), bias_z)) in resets.zip(updates) {
            [*r, *z] =
                sigmoids::<FUSED>(*r + of_r + (bias_r.0 + bias_r.1), *z + of_z + (bias_z.0 + bias_z.1));
        }
        round(opened, dtype);
        let [r, _] = parts_of(opened, units);
        let (candidate, product) = (&mut candidate[..units], &product[2 * units..][..units]);
        let [of_input, of_hidden] = [of_input, of_hidden].map(|bias| &bias[2 * units..][..units]);
        for unit in 0..units {
            let of_hidden = product[unit] + of_hidden[unit];
            let of_input = candidate[unit] + of_input[unit];
            candidate[unit] = tanh::<FUSED>(multiply_add::<FUSED>(r[unit], of_hidden, of_input));
        }
        round(candidate, dtype);
        next_hidden::<FUSED>(gates, hidden, dtype);
    }

    #[inline(always)]
    fn again<const FUSED: bool>(
        gates: &[f32],
        [hidden]: [&[f32]; 1],
        _beside: &mut [f32],
        previous: &mut [f32],
        dtype: DType,
    ) {
        let units = hidden.len();
        previous[..units].copy_from_slice(hidden);
        // The last hidden units are no step's previous ones.
        let steps = previous.len() / units - 1;
        for (step, gates) in gates.chunks_exact(3 * units).take(steps).enumerate() {
            let (hidden, next) = previous[step * units..].split_at_mut(units);
            next[..units].copy_from_slice(hidden);
            next_hidden::<FUSED>(gates, &mut next[..units], dtype);
        }
    }

    /// With σ′ = σ(1 − σ) and tanh′ = 1 − tanh²:
    /// dn = dh·(1 − z)·tanh′, dz = dh·(h₋₁ − n)·σ′, dr = dn·q·σ′, dq = dn·r, dh₋₁ = dh·z + the product of dr, dz and dq.
    ///
    /// dh is the sum of the gradients from the output and from the next step.
    #[inline(always)]
    fn back<const FUSED: bool>(step: usize, row: BackRow<'_, 1>) {
        let BackRow { gates, beside, previous, bias, gradients: [of_hidden], .. } = row;
        let units = of_hidden.len();
        let (r, rest) = gates[..3 * units].split_at_mut(units);
        let (z, n) = rest.split_at_mut(units);
        let (of_r, rest) = beside[step * 3 * units..][..3 * units].split_at_mut(units);
        let (of_z, q) = rest.split_at_mut(units);
        let (previous, bias) = (&previous[..units], &bias[..units]);
        for unit in 0..units {
            let of_next = of_hidden[unit];
            let (reset, update, candidate) = (r[unit], z[unit], n[unit]);
            let of_candidate = flushed(of_next * (1.0 - update) * (1.0 - candidate * candidate));
            of_hidden[unit] = flushed(of_next * update);
            let of_update = flushed(of_next * (previous[unit] - candidate) * (update * (1.0 - update)));
            let of_reset = flushed(of_candidate * (q[unit] + bias[unit]) * (reset * (1.0 - reset)));
            (r[unit], z[unit], n[unit]) = (of_reset, of_update, of_candidate);
            (of_r[unit], of_z[unit], q[unit]) = (of_reset, of_update, flushed(of_candidate * reset));
        }
    }
}

/// Computes the hidden units after a step, rounded, from activated gates and those before it. Backward computes them again.
#[inline(always)]
fn next_hidden<const FUSED: bool>(gates: &[f32], hidden: &mut [f32], dtype: DType) {
    let units = hidden.len();
    let [_, z, n] = parts_of(gates, units);
    for unit in 0..units {
        hidden[unit] = multiply_add::<FUSED>(z[unit], hidden[unit] - n[unit], n[unit]);
    }
    round(hidden, dtype);
}
