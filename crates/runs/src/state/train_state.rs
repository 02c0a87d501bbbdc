use oomph_engine::{HostTensor, loss_scale::LossScale, record::OptimizerRecord};
use oomph_model::Named;

use super::TrainProgress;

/// The state that a resumed training needs to continue with the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    /// How far the training has come.
    pub progress: TrainProgress,
    /// Parameters and running statistics by name.
    pub model: Named<HostTensor>,
    /// The optimizer's state.
    pub optimizer: OptimizerRecord,
    /// The loss scale, with fp16.
    pub loss_scale: Option<LossScale>,
    /// The carried state by layer; empty without one.
    pub carried: Named<HostTensor>,
}
