use std::rc::Rc;

use burn::tensor::{DType, Device, Tensor};
use oomph_kernels::{
    RowSums, RowTerms, StepRange,
    gru::{GruBack, gru_backward, gru_forward},
    lstm::{lstm_backward, lstm_forward},
    recurrent::{RecurrentMatrix, RunEnd, RunInput, RunOutputs, RunStart, place_products},
};

use super::{CPU, FORMATS, copied, full, full_as, probe};
use crate::probe::{Probe, Ready};

/// Samples, steps, features and units. A training computes a sequence in runs of a few steps.
const SHAPES: [[usize; 4]; 24] = [
    [4, 3, 64, 1024],
    [8, 6, 64, 256],
    [16, 6, 64, 256],
    [32, 8, 64, 256],
    [16, 8, 256, 256],
    [64, 8, 256, 256],
    [4, 8, 1024, 1024],
    [16, 8, 1024, 1024],
    [2, 8, 8, 16],
    [8, 1, 64, 64],
    [2, 32, 64, 256],
    [8, 32, 64, 256],
    [32, 32, 64, 256],
    [128, 16, 64, 256],
    [4, 8, 64, 1024],
    [16, 8, 64, 1024],
    [64, 8, 64, 1024],
    [32, 64, 128, 128],
    [64, 28, 28, 128],
    [4, 16, 512, 512],
    [32, 16, 512, 512],
    [32, 64, 32, 64],
    [4, 16, 256, 256],
    [16, 32, 256, 256],
];

/// Those at which a GRU is measured. Elsewhere its speed differs from an LSTM's as at these.
const GRU_SHAPES: [[usize; 4]; 8] = [
    [8, 6, 64, 256],
    [32, 8, 64, 256],
    [64, 8, 256, 256],
    [16, 8, 1024, 1024],
    [2, 8, 8, 16],
    [32, 32, 64, 256],
    [32, 64, 128, 128],
    [4, 16, 512, 512],
];

/// A run of steps of an LSTM or a GRU.
#[derive(Clone, Copy)]
struct Run {
    batch: usize,
    steps: usize,
    features: usize,
    units: usize,
    /// The format of products.
    dtype: DType,
}

pub(super) fn probes() -> Vec<Probe> {
    let of_format = |dtype| {
        let run =
            move |[batch, steps, features, units]: [usize; 4]| Run { batch, steps, features, units, dtype };
        let of_lstm = SHAPES.into_iter().map(run).flat_map(|run| {
            [run.matrix(), run.forward(), run.backward(), run.place_products(), run.weight_backward()]
        });
        let of_gru = GRU_SHAPES.into_iter().map(run).flat_map(|run| [run.gru_forward(), run.gru_backward()]);
        of_lstm.chain(of_gru)
    };
    FORMATS.into_iter().flat_map(of_format).collect()
}

impl Run {
    fn weight(self, columns: usize, device: &Device) -> Tensor<2> {
        full([4 * self.units, columns], device)
    }

    /// A sequence in the format of products.
    fn sequence(self, features: usize, device: &Device) -> Tensor<3> {
        full_as([self.batch, self.steps, features], self.dtype, device)
    }

    /// A sequence in 32 bits, as gradients of gates.
    fn wide(self, features: usize, device: &Device) -> Tensor<3> {
        full([self.batch, self.steps, features], device)
    }

    fn gates(self, device: &Device) -> Tensor<3> {
        self.wide(4 * self.units, device)
    }

    fn state(self, device: &Device) -> [Tensor<2>; 2] {
        [(); 2].map(|()| full([self.batch, self.units], device))
    }

    fn matrix(self) -> Probe {
        probe("matrix_panels", move |device| {
            let weight = self.weight(self.units, device);
            move || -> Ready {
                let weight = weight.clone();
                Box::new(move || drop(RecurrentMatrix::transposed(weight, self.dtype, self.batch, CPU)))
            }
        })
    }

    fn forward(self) -> Probe {
        probe("lstm_forward", move |device| {
            let (input, state) = (self.sequence(self.features, device), self.state(device));
            let bias = full([4 * self.units], device);
            // Inputs of several steps are multiplied at once.
            let matrices = [(self.features, self.batch * self.steps), (self.units, self.batch)];
            let matrices = matrices.map(|(columns, rows)| {
                RecurrentMatrix::transposed(self.weight(columns, device), self.dtype, rows, CPU)
            });
            move || -> Ready {
                let [of_input, recurrent] = matrices.clone();
                let start = RunStart {
                    input: RunInput::Sequence { values: input.clone(), weights: of_input },
                    steps: 0..self.steps,
                    run: self.steps,
                    bias: bias.clone(),
                    state: state.clone(),
                    outputs: RunOutputs::New,
                    keeps_gates: true,
                };
                Box::new(move || drop(lstm_forward(start, &recurrent, CPU)))
            }
        })
    }

    fn backward(self) -> Probe {
        probe("lstm_backward", move |device| {
            let (gates, outputs) = (self.gates(device), self.sequence(self.units, device));
            let state = self.state(device);
            let recurrent =
                Rc::new(RecurrentMatrix::plain(self.weight(self.units, device), self.dtype, self.batch, CPU));
            move || -> Ready {
                let end = RunEnd {
                    gates: copied(&gates),
                    before: state.clone(),
                    steps: 0..self.steps,
                    outputs: outputs.clone(),
                    after: state.clone(),
                };
                let recurrent = recurrent.clone();
                Box::new(move || drop(lstm_backward(end, &recurrent, CPU)))
            }
        })
    }

    /// The weight of a GRU.
    fn gru_weight(self, columns: usize, device: &Device) -> Tensor<2> {
        full([3 * self.units, columns], device)
    }

    fn gru_forward(self) -> Probe {
        probe("lstm_forward gru", move |device| {
            let (input, [hidden, _]) = (self.sequence(self.features, device), self.state(device));
            let bias = full([6 * self.units], device);
            // Inputs of several steps are multiplied at once.
            let matrices = [(self.features, self.batch * self.steps), (self.units, self.batch)];
            let matrices = matrices.map(|(columns, rows)| {
                RecurrentMatrix::transposed(self.gru_weight(columns, device), self.dtype, rows, CPU)
            });
            move || -> Ready {
                let [of_input, recurrent] = matrices.clone();
                let start = RunStart {
                    input: RunInput::Sequence { values: input.clone(), weights: of_input },
                    steps: 0..self.steps,
                    run: self.steps,
                    bias: bias.clone(),
                    state: [hidden.clone()],
                    outputs: RunOutputs::New,
                    keeps_gates: true,
                };
                Box::new(move || drop(gru_forward(start, &recurrent, CPU)))
            }
        })
    }

    fn gru_backward(self) -> Probe {
        probe("lstm_backward gru", move |device| {
            let gates = self.wide(3 * self.units, device);
            let (outputs, [hidden, _]) = (self.sequence(self.units, device), self.state(device));
            let (weight, bias) = (self.gru_weight(self.units, device), full([6 * self.units], device));
            let back = Rc::new(GruBack::new(weight, bias, self.dtype, self.batch, CPU));
            move || -> Ready {
                let end = RunEnd {
                    gates: copied(&gates),
                    before: [hidden.clone()],
                    steps: 0..self.steps,
                    outputs: outputs.clone(),
                    after: [hidden.clone()],
                };
                let back = back.clone();
                Box::new(move || drop(gru_backward(end, &back, CPU)))
            }
        })
    }

    fn place_products(self) -> Probe {
        probe("lstm_input_backward", move |device| {
            let (gates, whole) = (self.gates(device), self.sequence(self.features, device));
            let of_input = Rc::new(RecurrentMatrix::plain(
                self.weight(self.features, device),
                self.dtype,
                self.batch * self.steps,
                CPU,
            ));
            move || -> Ready {
                let (gates, whole, of_input) = (gates.clone(), copied(&whole), of_input.clone());
                Box::new(move || drop(place_products(whole, gates, &(0..self.steps), &of_input, CPU)))
            }
        })
    }

    fn weight_backward(self) -> Probe {
        probe("add_products", move |device| {
            let left = self.gates(device);
            let rights = [self.sequence(self.features, device), self.wide(self.units, device)];
            let sums = [self.features, self.units].map(|columns| self.weight(columns, device));
            let rows = full([4 * self.units], device);
            move || -> Ready {
                let range = |of: &Tensor<3>| Some(StepRange { of: of.clone(), steps: 0..self.steps });
                let rights = rights.each_ref().map(range);
                let terms = RowTerms { left: left.clone(), rights, rows: true, dtype: self.dtype };
                let products = sums.each_ref().map(|sum| Some(copied(sum)));
                let sums = RowSums { products, rows: Some(copied(&rows)) };
                Box::new(move || drop(sums.add(terms, CPU)))
            }
        })
    }
}
