use burn_backend::DType;

/// The cell of a recurrent layer with `S` states, the hidden units first, as our kernels on the CPU compute it: for one row
/// of a batch.
pub(crate) trait Cell<const S: usize>: Send + Sync {
    /// Gates of a unit.
    const GATES: usize;
    /// The names of its operations, forward and backward.
    const OPERATIONS: [&'static str; 2];
    /// Whether the products of hidden units are added to those of the input. If not, [`step`](Self::step) gets both.
    const IS_SUM: bool;
    /// Elements for each step and unit that [`again`](Self::again) and [`back`](Self::back) write beside the gates.
    const BESIDE: usize;
    /// Whether the gradient of the hidden units' products stands there. If not, it is that of the gates.
    const IS_BESIDE: bool;

    /// Activates the gates of a step, rounds them, and computes the next state. `gates` are the products of the input, or
    /// the sums of both products.
    fn step<const FUSED: bool>(
        gates: &mut [f32],
        product: &[f32],
        bias: &[f32],
        state: [&mut [f32]; S],
        dtype: DType,
    );

    /// Computes the hidden units before each step of a run, as forward did, and what [`back`](Self::back) reads beside them.
    /// `gates` and `beside` are of all steps.
    fn again<const FUSED: bool>(
        gates: &[f32],
        before: [&[f32]; S],
        beside: &mut [f32],
        previous: &mut [f32],
        dtype: DType,
    );

    /// Goes back through a step of a run. The gradients of the gates overwrite the gates.
    fn back<const FUSED: bool>(step: usize, row: BackRow<'_, S>);
}

/// One row of a batch in a backward pass.
pub(crate) struct BackRow<'a, const S: usize> {
    /// The activated gates of the step.
    pub(crate) gates: &'a mut [f32],
    /// What [`Cell::again`] computed of all steps.
    pub(crate) beside: &'a mut [f32],
    /// The states before the first step.
    pub(crate) before: [&'a [f32]; S],
    /// The hidden units before the step.
    pub(crate) previous: &'a [f32],
    /// The bias of the hidden units' products that backward computes again; empty if there are none.
    pub(crate) bias: &'a [f32],
    /// The gradients of the states: after the step, and then before it.
    pub(crate) gradients: [&'a mut [f32]; S],
}

/// `gradient`, or zero if it is too small to matter. Gradients vanish on the way back through a long sequence, and products
/// of subnormal numbers take a processor a hundred times as long (a training step over 320 time steps took 0.8 s instead of
/// 0.1).
#[inline(always)]
pub(crate) fn flushed(gradient: f32) -> f32 {
    const LEAST: f32 = 1e-30;
    if gradient.abs() < LEAST { 0.0 } else { gradient }
}
