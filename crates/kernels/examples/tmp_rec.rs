//! T
use std::time::Instant;
use burn::tensor::{Device, Tensor, TensorData};
use burn_backend::DType;
use oomph_kernels::{Kernels, lstm::{lstm_forward, lstm_backward}, recurrent::*};
fn t<const D: usize>(dims: [usize; D], s: f32) -> Tensor<D> {
    let n: usize = dims.iter().product();
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 / 101.0 - 0.5) * s).collect();
    Tensor::from_data(TensorData::new(v, dims), &Device::flex())
}
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (batch, steps, units, features) = (a[0], a[1], a[2], a[3]);
    rayon::ThreadPoolBuilder::new().num_threads(a[4]).build_global().unwrap();
    let k = Kernels::Cpu;
    for dtype in [DType::F32, DType::BF16] {
        let w = [t([4 * units, features], 0.1), t([4 * units, units], 0.1)];
        let [wi, wh] = w.clone().map(|w| RecurrentMatrix::transposed(w, dtype, batch, k));
        let back = RecurrentMatrix::plain(w[1].clone(), dtype, batch, k);
        let input = t([batch, steps, features], 1.0);
        let bias = t([4 * units], 0.1);
        let state = [t([batch, units], 0.5), t([batch, units], 0.5)];
        let mut fwd = vec![]; let mut bwd = vec![];
        for _ in 0..200 {
            let start = RunStart { input: input.clone(), steps: 0..steps, bias: bias.clone(), state: state.clone(), outputs: RunOutputs::New, keeps_gates: true };
            let b = Instant::now();
            let made = lstm_forward(start, &wi, &wh, k);
            fwd.push(b.elapsed().as_secs_f64());
            let end = RunEnd { gates: made.gates.unwrap(), before: state.clone(), steps: 0..steps, outputs: t([batch, steps, units], 0.3), after: state.clone() };
            let b = Instant::now();
            drop(lstm_backward(end, &back, k));
            bwd.push(b.elapsed().as_secs_f64());
        }
        fwd.sort_by(f64::total_cmp); bwd.sort_by(f64::total_cmp);
        println!("{dtype:?} forward {:.0} us a step, backward {:.0}", fwd[100] * 1e6 / steps as f64, bwd[100] * 1e6 / steps as f64);
    }
}
