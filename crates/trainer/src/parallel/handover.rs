use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

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

/// One end of a link between two devices: it sends `S` and receives `R`.
pub(super) struct Link<S, R> {
    /// The number of the device at the other end.
    index: usize,
    to: Sender<S>,
    from: Receiver<R>,
}

impl<S, R> Link<S, R> {
    /// Waits for what the other end hands over next.
    ///
    /// # Errors
    /// Where it has ended, or does not answer in time.
    pub(super) fn receive(&self, timeout: Duration) -> Result<R, TrainError> {
        self.from.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => TrainError::Neighbour { device: self.index },
            RecvTimeoutError::Timeout => TrainError::Silent { device: self.index, waited: timeout },
        })
    }

    /// Hands something over.
    ///
    /// # Errors
    /// Where it has ended.
    pub(super) fn send(&self, handed: S) -> Result<(), TrainError> {
        self.to.send(handed).map_err(|_| TrainError::Neighbour { device: self.index })
    }
}

/// The ends of a link between the devices of these numbers.
pub(super) fn link<S, R>([one, other]: [usize; 2]) -> (Link<S, R>, Link<R, S>) {
    charge(Account::Host, || {
        let ((to_other, from_one), (to_one, from_other)) = (channel(), channel());
        (
            Link { index: other, to: to_other, from: from_other },
            Link { index: one, to: to_one, from: from_one },
        )
    })
}
