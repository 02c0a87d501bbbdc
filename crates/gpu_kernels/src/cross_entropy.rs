//! Cross-entropy between logits `[B, K]` and one class for each row.

use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise,
    ir::{ElemType, IntKind},
    prelude::*,
};

use crate::{
    launch::{Output, THREADS, addresses, element},
    reduce::{cube_max, cube_sum},
    tensor::{contiguous, empty, sizes},
};

/// The loss of each row, and the values that backward needs: log softmax(x)ᵢ is xᵢ − greatest − log_sum.
#[derive(Clone, Debug)]
pub struct RowLosses<R: CubeRuntime> {
    /// The losses, `[B]`.
    pub losses: CubeTensor<R>,
    /// The greatest logit of each row, `[B]`.
    pub greatest: CubeTensor<R>,
    /// log Σ exp(xᵢ − greatest) of each row, `[B]`.
    pub log_sum: CubeTensor<R>,
}

/// −Σ q log softmax(logits) of each row of `logits`, `[B, K]` in 32 bits. q is `smoothing / K` for every class, and
/// `1 − smoothing` more for the row's class. `classes`, `[B]`, are integers of any format. The loss is NaN where the class is
/// not one of the K.
///
/// One launch.
pub fn row_losses<R: CubeRuntime>(
    logits: CubeTensor<R>,
    classes: CubeTensor<R>,
    smoothing: f32,
) -> RowLosses<R> {
    let [logits, classes] = [logits, classes].map(contiguous);
    let [batch, width] = sizes(&logits);
    let [losses, greatest, log_sum] = [(); 3].map(|()| empty(&logits, &[batch], DType::F32));
    // SAFETY: each cube reads one row, one class, and writes one element of each output.
    unsafe {
        write_losses::launch_unchecked::<R>(
            &logits.client,
            row_cubes(&logits, batch, width),
            row_cube(&logits, width),
            addresses(&[&logits]),
            logits.clone().into_buffer_arg(),
            classes.clone().into_buffer_arg(),
            losses.clone().into_buffer_arg(),
            greatest.clone().into_buffer_arg(),
            log_sum.clone().into_buffer_arg(),
            batch,
            width,
            smoothing,
            f32::NEG_INFINITY,
            f32::NAN,
            element(&classes),
            signed(&classes),
        );
    }
    RowLosses { losses, greatest, log_sum }
}

/// What the gradient of a mean loss is computed from, beside the logits.
#[derive(Clone, Debug)]
pub struct LossGradient<R: CubeRuntime> {
    /// The classes, `[B]`, integers of any format.
    pub classes: CubeTensor<R>,
    /// [`RowLosses::greatest`].
    pub greatest: CubeTensor<R>,
    /// [`RowLosses::log_sum`].
    pub log_sum: CubeTensor<R>,
    /// The gradient of the mean loss over B, `[1]`.
    pub scale: CubeTensor<R>,
    /// The share of a row's target that is spread over all classes.
    pub smoothing: f32,
}

/// The gradient of the mean loss of all rows. It overwrites `logits`, `[B, K]` in 32 bits, if nobody else holds them.
///
/// One launch.
pub fn mean_loss_backward<R: CubeRuntime>(logits: CubeTensor<R>, loss: LossGradient<R>) -> CubeTensor<R> {
    let LossGradient { classes, greatest, log_sum, scale, smoothing } = loss;
    let logits = contiguous(logits);
    let [classes, greatest, log_sum, scale] = [classes, greatest, log_sum, scale].map(contiguous);
    let [batch, width] = sizes(&logits);
    let output = Output::over(&logits, DType::F32);
    let (format, compared) = (element(&classes), signed(&classes));
    // SAFETY: each cube reads and writes one row, and reads one element of each vector.
    unsafe {
        write_gradient::launch_unchecked::<R>(
            &logits.client,
            row_cubes(&logits, batch, width),
            row_cube(&logits, width),
            addresses(&[&logits]),
            logits.clone().into_buffer_arg(),
            output.argument,
            classes.into_buffer_arg(),
            greatest.into_buffer_arg(),
            log_sum.into_buffer_arg(),
            scale.into_buffer_arg(),
            batch,
            width,
            smoothing / width as f32,
            1.0 - smoothing,
            format,
            compared,
        );
    }
    output.tensor
}

/// The cube that has a row: one plane for short rows.
fn row_cube<R: CubeRuntime>(like: &CubeTensor<R>, width: usize) -> CubeDim {
    let plane = like.client.properties().hardware.plane_size_max;
    CubeDim::new_1d(if width <= THREADS as usize { plane } else { THREADS })
}

/// A cube for each row, and perhaps some more.
fn row_cubes<R: CubeRuntime>(like: &CubeTensor<R>, batch: usize, width: usize) -> CubeCount {
    let cube = row_cube(like, width);
    calculate_cube_count_elemwise(&like.client, batch * cube.num_elems() as usize, cube)
}

/// The format in which classes are compared: not every Vulkan driver has integers of 64 bits.
fn signed(classes: &CubeTensor<impl CubeRuntime>) -> ElemType {
    let kind = if classes.dtype.size() == 8 { IntKind::I64 } else { IntKind::I32 };
    ElemType::Int(kind)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_losses<I: Int, S: Int>(
    logits: &[f32],
    classes: &[I],
    losses: &mut [f32],
    greatest: &mut [f32],
    log_sum: &mut [f32],
    rows: usize,
    width: usize,
    smoothing: f32,
    lowest: f32,
    outside: f32,
    #[define(I)] _format: ElemType,
    #[define(S)] _compared: ElemType,
) {
    // A cube behind the last row computes that row once more, since all threads of a cube meet in reductions.
    let row = min(CUBE_POS, rows - 1);
    let begin = row * width;
    let mut of_thread = lowest;
    let mut at = UNIT_POS as usize;
    while at < width {
        of_thread = max(of_thread, logits[begin + at]);
        at += CUBE_DIM as usize;
    }
    let greatest_of_row = cube_max(of_thread);
    let mut exponentials = 0.0f32;
    let mut differences = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < width {
        let difference = logits[begin + at] - greatest_of_row;
        exponentials += difference.exp();
        differences += difference;
        at += CUBE_DIM as usize;
    }
    let log_sum_of_row = cube_sum(exponentials).ln();
    let mean = cube_sum(differences) / f32::cast_from(width as u32);
    if UNIT_POS == 0 && CUBE_POS < rows {
        let class = S::cast_from(classes[row]);
        let mut picked = outside;
        if class >= S::new(0) && class < S::cast_from(width as u32) {
            picked = logits[begin + usize::cast_from(class)] - greatest_of_row;
        }
        losses[row] = log_sum_of_row - ((1.0f32 - smoothing) * picked + smoothing * mean);
        greatest[row] = greatest_of_row;
        log_sum[row] = log_sum_of_row;
    }
}

/// scale · (softmax(x)ᵢ − `spread`), and `share` times the scale less for the row's class.
#[cube(launch_unchecked, address_type = "dynamic")]
fn write_gradient<I: Int, S: Int>(
    logits: &[f32],
    gradient: &mut [f32],
    classes: &[I],
    greatest: &[f32],
    log_sum: &[f32],
    scale: &[f32],
    rows: usize,
    width: usize,
    spread: f32,
    share: f32,
    #[define(I)] _format: ElemType,
    #[define(S)] _compared: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let begin = row * width;
    let class = S::cast_from(classes[row]);
    let scale = scale[0];
    let greatest = greatest[row];
    let log_sum = log_sum[row];
    let mut at = UNIT_POS as usize;
    while at < width {
        let probability = (logits[begin + at] - greatest - log_sum).exp();
        let of_class = select(S::cast_from(at as u32) == class, share, 0.0f32);
        gradient[begin + at] = scale * (probability - spread) - scale * of_class;
        at += CUBE_DIM as usize;
    }
}
