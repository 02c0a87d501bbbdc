use burn::tensor::{Device, Tensor};
use burn_optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource};
use oomph_kernels::AdamStep;

use super::join;

/// Adam or AdamW, by [`AdamStep`]. Each step sets its learning rate and time.
#[derive(Clone, Debug)]
pub(in crate::optimizer) struct Adam(pub(in crate::optimizer) AdamStep);

/// The moments of one parameter.
#[derive(Clone, Debug)]
pub(in crate::optimizer) struct AdamState<const D: usize> {
    time: usize,
    moments: [Tensor<D>; 2],
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let AdamState { time, moments } = state.unwrap_or_else(|| AdamState {
            time: 0,
            moments: [(); 2].map(|()| AdamStep::first_moment(&grad)),
        });
        let time = time + 1;
        let (tensor, moments) = AdamStep { lr, time, ..self.0 }.apply(tensor, grad, moments);
        (tensor, Some(AdamState { time, moments }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        AdamState { moments: state.moments.map(|moment| moment.to_device(device)), ..state }
    }
}

/// The names of the moments in Burn's record.
const MOMENTS: [&str; 2] = ["moment_1", "moment_2"];

// Burn's derive macro emits paths that exist only in its own crate.
impl<const D: usize> RecordState for AdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let prefix = join(prefix, "momentum");
        out.push_scalar(&prefix, "time", self.time.into());
        for (name, moment) in MOMENTS.into_iter().zip(&self.moments) {
            out.push_tensor(&prefix, name, moment.clone().into_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let prefix = join(prefix, "momentum");
        let time = usize::try_from(src.take_scalar(&prefix, "time")?).ok()?;
        let mut moment = |name| Some(Tensor::from_data(src.take_tensor(&prefix, name)?, device));
        let [first, second] = MOMENTS;
        Some(Self { time, moments: [moment(first)?, moment(second)?] })
    }
}
