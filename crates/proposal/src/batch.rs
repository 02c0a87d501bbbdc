use oomph_advice::{
    check_training,
    planning::{PlanOptions, largest_batch, plan},
    varied,
};
use oomph_config::{Change, Config, ConfigFile, Sources};
use oomph_core::Bytes;
use oomph_engine::session::{Session, backend};
use oomph_trainer::{Registry, default_limit, open_to_plan};

use crate::{Proposal, ProposalError, config_text};

/// A batch, and what a step with it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittingBatch {
    /// Its samples.
    pub batch: usize,
    /// The planned peak of a step, or on a GPU what its pools reserve.
    pub planned_peak_bytes: Option<Bytes>,
    /// The memory of the device; `None` if it is not known.
    pub limit_bytes: Option<Bytes>,
    /// The largest batch that fits, of at most all training samples.
    pub largest_batch: Option<usize>,
}

impl FittingBatch {
    /// Plans the proposed training, and finds the largest power of two up to the proposal's that fits and can be trained.
    /// `name` is the file of the config.
    ///
    /// # Errors
    /// Model and data that do not fit each other or the memory.
    pub fn find(proposal: &Proposal, name: &str, registry: &Registry) -> Result<Self, ProposalError> {
        let most = proposal.largest_batch();
        let unknown = Self { batch: most, planned_peak_bytes: None, limit_bytes: None, largest_batch: None };
        let text = config_text(proposal, name, &unknown);
        let config = Config::load(&Sources::new(ConfigFile::from_text("the proposed config", text)))?;
        let session = open_to_plan(config, registry)?;
        let of_cpu = || default_limit(&session.config).map(|limit| limit.bytes);
        let limit_bytes = proposal.gpu.as_ref().map(|gpu| gpu.limit_bytes).or_else(of_cpu);
        let options = PlanOptions { backend: Some(backend(&session)), limit_bytes, ..PlanOptions::default() };
        let largest_of = |limit_bytes: Bytes| -> Result<usize, ProposalError> {
            let found = largest_batch(&session, options, limit_bytes, proposal.facts.train_samples, &[])?;
            let model = proposal.model.clone();
            Ok(found.ok_or(ProposalError::TooLarge { model, limit_bytes })?.batch)
        };
        let largest_batch = limit_bytes.map(largest_of).transpose()?;
        let batch = allowed(&session, most.min(largest_batch.unwrap_or(most)))?;
        let planned = plan(&session, PlanOptions { batch: Some(batch), ..options })?;
        Ok(Self { batch, planned_peak_bytes: Some(planned.needed_bytes()), limit_bytes, largest_batch })
    }
}

/// The largest power of two up to `most` that can be trained: a last batch of one sample may be too small for batch
/// normalisation.
fn allowed(session: &Session, most: usize) -> Result<usize, ProposalError> {
    let mut batch = 1 << most.max(1).ilog2();
    loop {
        match check_training(&varied(session, &[Change::Batch(batch)])?) {
            Ok(()) => return Ok(batch),
            Err(_) if batch > 1 => batch /= 2,
            Err(error) => return Err(error.into()),
        }
    }
}
