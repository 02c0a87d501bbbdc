use burn::tensor::{Device, Tensor};
use burn_optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_model::AnyTensor;

/// Adafactor (Shazeer and Stern 2018, <https://arxiv.org/abs/1804.04235>). It factors the mean of squares of an R × C
/// matrix into a column and a row, so it keeps R + C values instead of R · C. For a vector it keeps all values.
///
/// At step t from 1, with ρ = min(lr, 1 / √t) and β = 1 − t^τ, where τ is `beta2_decay`:
///
/// ```text
/// a = max(ε₂, rms(p)) ρ
/// p = p (1 − lr λ)
/// r = β r + (1 − β) mean of g² over columns            [R, 1]
/// c = β c + (1 − β) mean of g² over rows               [1, C]
/// v = r c / max(mean(r), ε₁)
/// u = g / max(√v, ε₁)
/// p = p − a u / max(1, rms(u) / d)
/// ```
///
/// PyTorch's `torch.optim.Adafactor` differs for tensors with more than two dimensions: its matrix is the last two
/// dimensions. For a convolution kernel `[O, I, 3, 3]` that keeps two thirds of a full mean. Here the matrix is `[O,
/// I·3·3]`, as in the matrix multiplication of the convolution. `[512, 512, 3, 3]` keeps 5,120 values, not 1,572,864.
#[derive(Clone, Debug)]
pub(crate) struct Adafactor {
    /// τ ≤ 0. The closer to 0, the sooner old squares are forgotten.
    pub(crate) beta2_decay: f64,
    /// ε₁: the smallest root mean square that a gradient is divided by.
    pub(crate) epsilon1: f64,
    /// ε₂: the smallest root mean square of a parameter that scales its steps.
    pub(crate) epsilon2: f64,
    /// d: the largest root mean square of an update before it is scaled.
    pub(crate) d: f64,
    /// λ, decoupled weight decay.
    pub(crate) weight_decay: f64,
}

/// The means of squares of one parameter.
#[derive(Clone, Debug)]
pub(crate) struct AdafactorState {
    step: usize,
    /// The mean of each row, `[R, 1]`; `None` for a vector, which is a single row.
    rows: Option<Tensor<2>>,
    /// The mean of each column, `[1, C]`.
    columns: Tensor<2>,
}

impl Optimizer for Adafactor {
    type State<const D: usize> = AdafactorState;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdafactorState>,
    ) -> (Tensor<D>, Option<AdafactorState>) {
        let shape = tensor.dims();
        let elements: usize = shape.iter().product();
        let rows = if D > 1 { shape[0] } else { 1 };
        let gradient = grad.reshape([rows, elements / rows.max(1)]);
        let state = self.seen(gradient.clone(), D > 1, state);

        let rate = lr.min(1.0 / (state.step as f64).sqrt());
        let size = rms(tensor.clone().reshape([elements])).clamp_min(self.epsilon2).mul_scalar(rate);
        let tensor =
            if self.weight_decay > 0.0 { tensor.mul_scalar(1.0 - lr * self.weight_decay) } else { tensor };
        let update = gradient / self.root(&state);
        let excess = rms(update.clone().reshape([elements])).div_scalar(self.d).clamp_min(1.0);
        let update = update * (size / excess).unsqueeze();
        (tensor - update.reshape(shape), Some(state))
    }

    fn to_device<const D: usize>(state: AdafactorState, device: &Device) -> AdafactorState {
        let AdafactorState { step, rows, columns } = state;
        let rows = rows.map(|rows| rows.to_device(device));
        AdafactorState { step, rows, columns: columns.to_device(device) }
    }
}

impl Adafactor {
    /// The means, updated with one more gradient `[R, C]`.
    fn seen(&self, gradient: Tensor<2>, is_matrix: bool, state: Option<AdafactorState>) -> AdafactorState {
        let (step, rows, columns) = match state {
            Some(AdafactorState { step, rows, columns }) => (step + 1, rows, Some(columns)),
            None => (1, None, None),
        };
        let share = (step as f64).powf(self.beta2_decay);
        let squares = gradient.square();
        let rows = is_matrix.then(|| mixed(rows, squares.clone().mean_dim(1), share));
        AdafactorState { step, rows, columns: mixed(columns, squares.mean_dim(0), share) }
    }

    /// The root of the means of squares, `[R, C]`. The gradient is divided by it.
    fn root(&self, state: &AdafactorState) -> Tensor<2> {
        let columns = state.columns.clone();
        let squares = match state.rows.clone() {
            Some(rows) => rows.clone() / rows.mean_dim(0).clamp_min(self.epsilon1) * columns,
            None => columns,
        };
        squares.clamp_min(self.epsilon1 * self.epsilon1).sqrt()
    }
}

/// The moving average of `mean` and `newest`, which has the weight `share`. Without a mean it is `newest`.
fn mixed(mean: Option<Tensor<2>>, newest: Tensor<2>, share: f64) -> Tensor<2> {
    match mean {
        Some(mean) => mean.mul_scalar(1.0 - share) + newest.mul_scalar(share),
        None => newest,
    }
}

/// The root mean square, `[1]`, on the device. The order of the sum is fixed, so results are reproducible to the bit.
fn rms(flat: Tensor<1>) -> Tensor<1> {
    let [elements] = flat.dims();
    AnyTensor::from(flat).sum_of_squares().div_scalar(elements as f64).sqrt()
}

// Burn's derive macro emits paths that exist only in its own crate.
impl RecordState for AdafactorState {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "step", self.step.into());
        if let Some(rows) = &self.rows {
            out.push_tensor(prefix, "rows", rows.clone().into_data());
        }
        out.push_tensor(prefix, "columns", self.columns.clone().into_data());
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let step = src.take_scalar(prefix, "step")?.try_into().ok()?;
        let rows = src.take_tensor(prefix, "rows").map(|rows| Tensor::from_data(rows, device));
        Some(Self { step, rows, columns: Tensor::from_data(src.take_tensor(prefix, "columns")?, device) })
    }
}
