//! What a session is among replicas that train together.

use std::{ops::Range, sync::Arc};

use oomph_config::{DeviceName, Sharing};
use oomph_core::Bytes;
use oomph_model::{Peers, Stages};

use super::{Session, SessionError, devices::threads_of_each};
use crate::{open_device, parallel::Replicas};

impl Session {
    /// The same for one of several replicas, on a device of its own.
    ///
    /// # Errors
    /// Where the device cannot be opened.
    pub(crate) fn replica(&self, name: DeviceName, replicas: Replicas) -> Result<Self, SessionError> {
        let mut config = self.config.clone();
        config.device.threads = threads_of_each(&config);
        let devices = std::mem::replace(&mut config.device.devices, vec![name]);
        let limits = Vec::new();
        Ok(Self { replicas, limits, all_devices: Some(devices), ..self.with(config, open_device(name)?) })
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
        let batch = self.config.train.batch;
        batch * rank / world..batch * (rank + 1) / world
    }

    /// Samples that one device has of a batch of so many, the most that any has.
    pub fn share_of(&self, batch: usize) -> usize {
        batch.div_ceil(self.world_size())
    }

    /// The last stages of the runs whose gradients are to travel together, where there is more than one replica: behind
    /// each of them backward stops for a moment.
    pub(crate) fn bucket_ends(&self, model: &Stages) -> Vec<usize> {
        let Sharing::Ddp(ddp) = &self.config.device.sharing else { return Vec::new() };
        if self.world_size() == 1 {
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
