use burn::tensor::{Device, Tensor};
use burn_optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_model::AnyTensor;

/// Adafactor: the mean of squares of a matrix as the product of a column and a row (Shazeer and Stern 2018,
/// <https://arxiv.org/abs/1804.04235>), so that of R × C parameters it keeps R + C values. Of a vector it keeps all.
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
/// It is PyTorch's `torch.optim.Adafactor` but for tensors of more than two dimensions. There PyTorch takes the last two
/// for the matrix, which for the kernels of a convolution `[O, I, 3, 3]` keeps two thirds of a full mean. Here the matrix is
/// `[O, I·3·3]`, what the convolution multiplies by: of `[512, 512, 3, 3]` that is 5,120 values and not 1,572,864.
#[derive(Clone, Debug)]
pub(super) struct Adafactor {
    /// τ, at most 0: the nearer to 0, the sooner squares are forgotten.
    pub(super) beta2_decay: f64,
    /// ε₁: the least root of a mean of squares.
    pub(super) epsilon1: f64,
    /// ε₂: the least size of a parameter that steps are made for.
    pub(super) epsilon2: f64,
    /// d: the largest root mean square of an update before it is scaled.
    pub(super) d: f64,
    /// λ, decoupled from the gradient.
    pub(super) weight_decay: f64,
}

/// The means of squares of one parameter.
#[derive(Clone, Debug)]
pub(super) struct AdafactorState {
    step: usize,
    /// Of each row `[R, 1]`; none for a vector, which is a single row.
    rows: Option<Tensor<2>>,
    /// Of each column `[1, C]`.
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
    /// The means with those of one more gradient `[R, C]`.
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

    /// What a gradient is divided by, `[R, C]`: the root of the means of squares.
    fn root(&self, state: &AdafactorState) -> Tensor<2> {
        let columns = state.columns.clone();
        let squares = match state.rows.clone() {
            Some(rows) => rows.clone() / rows.mean_dim(0).clamp_min(self.epsilon1) * columns,
            None => columns,
        };
        squares.clamp_min(self.epsilon1 * self.epsilon1).sqrt()
    }
}

/// A mean with a share of the newest value in it; of the first one it is all.
fn mixed(mean: Option<Tensor<2>>, newest: Tensor<2>, share: f64) -> Tensor<2> {
    match mean {
        Some(mean) => mean.mul_scalar(1.0 - share) + newest.mul_scalar(share),
        None => newest,
    }
}

/// The root of the mean of squares, as one element on the device. It is summed in a fixed order, as bytes have to repeat.
fn rms(flat: Tensor<1>) -> Tensor<1> {
    let [elements] = flat.dims();
    AnyTensor::from(flat).sum_of_squares().div_scalar(elements as f64).sqrt()
}

// Burn's derive writes paths that only its own crate has.
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
