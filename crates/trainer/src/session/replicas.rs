//! What a session is among replicas that train together.

use std::{ops::Range, sync::Arc};

use burn::tensor::Device;
use oomph_config::{DeviceName, Sharing};
use oomph_core::Bytes;
use oomph_model::{Peers, Stages};

use super::{Leaves, Session, SessionError, devices::threads_of_each};
use crate::parallel::{
    Replicas,
    coordinator::{Coordinator, largest_share, round, scattered},
};

impl Session {
    /// The same for one of several replicas, on the device of that name.
    pub(crate) fn replica(&self, name: DeviceName, device: Device, replicas: Replicas) -> Self {
        let mut config = self.config.clone();
        config.device.threads = threads_of_each(&config);
        let devices = std::mem::replace(&mut config.device.devices, vec![name]);
        let limits = Vec::new();
        Self { replicas, limits, all_devices: Some(devices), ..self.with(config, device) }
    }

    /// How many replicas train together.
    pub fn world_size(&self) -> usize {
        match &self.config.device.sharing {
            _ if !self.replicas.is_alone() => self.replicas.world_size(),
            sharing if sharing.is_of_replicas() => self.config.device.devices.len(),
            _ => 1,
        }
    }

    /// The devices of this process.
    pub(crate) fn devices_here(&self) -> &[DeviceName] {
        self.all_devices.as_deref().unwrap_or(&self.config.device.devices)
    }

    /// All of them, with commas between.
    pub(crate) fn device_names(&self) -> String {
        let names: Vec<_> = self.devices_here().iter().map(DeviceName::to_string).collect();
        names.join(",")
    }

    /// Those that batch normalisation shares its statistics with, where `device.sync_batch_norm` is set.
    pub(crate) fn peers(&self) -> Option<Arc<dyn Peers>> {
        match &self.config.device.sharing {
            Sharing::Ddp(ddp) if ddp.sync_batch_norm => self.replicas.peers(),
            _ => None,
        }
    }

    /// Replicas that share statistics do so in every micro-batch: all of them must have as many.
    pub(super) fn check_micro_batches(&self) -> Result<(), SessionError> {
        let world = self.world_size();
        match &self.config.device.sharing {
            Sharing::Ddp(ddp) if ddp.sync_batch_norm && world > 1 => {}
            _ => return Ok(()),
        }
        let (batch, order) = (self.config.train.batch, self.train_order());
        let whole = (order.len() >= batch).then_some(batch);
        for samples in [whole, Some(order.len() % batch).filter(|rest| *rest > 0)].into_iter().flatten() {
            let [most, least] = [samples.div_ceil(world), samples / world];
            if least == 0 || most.div_ceil(self.micro_batch()) != least.div_ceil(self.micro_batch()) {
                return Err(SessionError::Uneven { samples, world });
            }
        }
        Ok(())
    }

    /// The places of a whole batch whose samples are this replica's.
    pub(crate) fn own_rows(&self) -> Range<usize> {
        self.rows_of(self.replicas.rank(), self.replicas.world_size())
    }

    /// The places of a whole batch whose samples are those of one of so many ranks.
    pub(crate) fn rows_of(&self, rank: usize, world: usize) -> Range<usize> {
        oomph_parallel::rows(self.config.train.batch, rank, world)
    }

    /// Samples that one device has of a batch of so many, the most that any has.
    pub fn share_of(&self, batch: usize) -> usize {
        match self.config.device.sharing {
            Sharing::Dp { coordinator_share } => largest_share(batch, self.world_size(), coordinator_share),
            _ => batch.div_ceil(self.world_size()),
        }
    }

    /// The smaller micro-batches of a coordinator and its replicas, where there are such.
    pub(super) fn rests_of_rounds(&self) -> Option<Vec<(usize, Leaves)>> {
        let Sharing::Dp { coordinator_share: share } = self.config.device.sharing else { return None };
        let (devices, micro_batch) = (self.world_size(), self.micro_batch());
        let whole = self.config.train.batch;
        let mut rests = Vec::new();
        for (batch, leaves) in
            [(whole, Leaves::Devices), (self.train_order().len() % whole, Leaves::LastBatch)]
        {
            let round = round(batch, micro_batch, devices, share);
            for samples in [round.min(batch), batch % round] {
                let rows = scattered(samples, devices, share).into_iter().map(|rows| rows.len());
                rests.extend(rows.filter(|rows| *rows > 0).map(|rows| (rows, leaves)));
            }
        }
        Some(rests)
    }

    /// The devices of which the first coordinates the others, where that is so.
    ///
    /// # Errors
    /// Where one cannot be opened.
    pub(crate) fn open_coordinator(&self) -> Result<Option<Coordinator>, SessionError> {
        let Sharing::Dp { coordinator_share: share } = self.config.device.sharing else { return Ok(None) };
        let device = &self.config.device;
        let all = vec![0..self.stages.len(); device.devices.len()];
        Ok(Some(Coordinator { places: self.open_places(all)?, share, timeout: device.timeout }))
    }

    /// The last stages of the runs whose gradients are to travel together, where there is more than one replica: behind
    /// each of them backward stops for a moment.
    pub(crate) fn bucket_ends(&self, model: &Stages) -> Vec<usize> {
        let Sharing::Ddp(ddp) = &self.config.device.sharing else { return Vec::new() };
        if self.world_size() == 1 && !self.replicas.reduce() {
            return Vec::new();
        }
        let mut bytes = vec![0; model.len()];
        model.visit(&mut |info, tensor| {
            if info.trainable {
                bytes[info.stage] += (tensor.elements() * size_of::<f32>()) as u64;
            }
        });
        // In the order in which backward comes to them.
        let sizes: Vec<_> = bytes.into_iter().rev().map(Bytes::new).collect();
        let runs = oomph_parallel::buckets(&sizes, ddp.bucket);
        runs.iter().skip(1).map(|run| model.len() - 1 - run.start).collect()
    }
}
