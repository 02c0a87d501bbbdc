use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use burn::tensor::{Device, TensorData};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, ModelError};

use crate::TrainError;

/// A tensor on its way from one device to another, in host memory; nothing where no gradient is wanted.
#[derive(Debug)]
pub(crate) struct Handed(Option<TensorData>);

impl Handed {
    /// Takes a tensor off its device. Copied, so that the device has its memory back before the other end takes it.
    pub(crate) fn of(tensor: Option<AnyTensor>) -> Result<Self, ModelError> {
        let copied = |tensor: AnyTensor| {
            let data = tensor.into_data()?;
            Ok(TensorData::clone(&data))
        };
        charge(Account::Host, || tensor.map(copied).transpose().map(Self))
    }

    /// Puts it onto a device.
    pub(crate) fn onto(self, device: &Device) -> Option<AnyTensor> {
        // Copied, so that what the device holds is on its own account.
        self.0.map(|data| AnyTensor::from_data(data.clone(), device))
    }
}

/// What connects a device with those beside it in the chain.
#[derive(Default)]
pub(super) struct Links {
    pub(super) before: Option<Neighbour>,
    pub(super) after: Option<Neighbour>,
}

/// The other end of a link.
pub(super) struct Neighbour {
    /// Its number.
    pub(super) index: usize,
    to: Sender<Handed>,
    from: Receiver<Handed>,
}

impl Neighbour {
    /// Waits for what it hands over next.
    ///
    /// # Errors
    /// Where it has ended, or does not answer in time.
    pub(super) fn receive(&self, timeout: Duration) -> Result<Handed, TrainError> {
        self.from.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => TrainError::Neighbour { device: self.index },
            RecvTimeoutError::Timeout => TrainError::Silent { device: self.index, waited: timeout },
        })
    }

    /// Hands something over.
    ///
    /// # Errors
    /// Where it has ended.
    pub(super) fn send(&self, handed: Handed) -> Result<(), TrainError> {
        self.to.send(handed).map_err(|_| TrainError::Neighbour { device: self.index })
    }
}

/// The links of so many devices, in their order.
pub(super) fn links(devices: usize) -> Vec<Links> {
    charge(Account::Host, || {
        let mut links: Vec<_> = (0..devices).map(|_| Links::default()).collect();
        for index in 1..devices {
            let ((to_after, from_before), (to_before, from_after)) = (channel(), channel());
            links[index - 1].after = Some(Neighbour { index, to: to_after, from: from_after });
            links[index].before = Some(Neighbour { index: index - 1, to: to_before, from: from_before });
        }
        links
    })
}
