use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use burn::tensor::{Device, TensorData};
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, ModelError, Named};

use crate::EngineError;

/// A message between two devices, in host memory.
#[derive(Debug)]
pub(crate) enum LinkMessage {
    /// A tensor; `None` if there is no gradient.
    Tensor(Option<TensorData>),
    /// Gradients by parameter name.
    Gradients(Vec<(String, TensorData)>),
}

impl LinkMessage {
    /// Copies a tensor to the host. Its device memory is freed before the peer receives the message.
    pub(super) fn tensor(tensor: Option<AnyTensor>) -> Result<Self, ModelError> {
        charge(Account::Host, || tensor.map(copied).transpose().map(Self::Tensor))
    }

    /// Copies gradients to the host.
    pub(super) fn gradients(gradients: Named<AnyTensor>) -> Result<Self, ModelError> {
        charge(Account::Host, || {
            let copied = gradients.into_iter().map(|(name, gradient)| Ok((name, copied(gradient)?)));
            copied.collect::<Result<_, ModelError>>().map(Self::Gradients)
        })
    }
}

fn copied(tensor: AnyTensor) -> Result<TensorData, ModelError> {
    let data = tensor.into_data()?;
    // The data may share the memory of the device, so it is cloned.
    Ok(TensorData::clone(&data))
}

/// Copies data into the memory of a device.
pub(super) fn onto(data: &TensorData, device: &Device) -> AnyTensor {
    AnyTensor::from_data(data.clone(), device)
}

/// One end of a link between two devices.
pub(crate) struct DeviceLink {
    /// The number of the device at the other end.
    peer: usize,
    to: Sender<LinkMessage>,
    from: Receiver<LinkMessage>,
}

impl DeviceLink {
    /// Waits for the next message from the other end.
    ///
    /// # Errors
    /// [`EngineError::Neighbour`] if the other end stopped, [`EngineError::Silent`] after `timeout`.
    pub(super) fn receive(&self, timeout: Duration) -> Result<LinkMessage, EngineError> {
        self.from.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => EngineError::Neighbour { device: self.peer },
            RecvTimeoutError::Timeout => EngineError::Silent { device: self.peer, waited: timeout },
        })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`EngineError::Neighbour`] if the other end stopped.
    pub(super) fn send(&self, message: LinkMessage) -> Result<(), EngineError> {
        self.to.send(message).map_err(|_| EngineError::Neighbour { device: self.peer })
    }
}

/// Both ends of a link between two devices, given by their numbers.
pub(super) fn link(one: usize, other: usize) -> (DeviceLink, DeviceLink) {
    charge(Account::Host, || {
        let ((to_other, from_one), (to_one, from_other)) = (channel(), channel());
        (
            DeviceLink { peer: other, to: to_other, from: from_other },
            DeviceLink { peer: one, to: to_one, from: from_one },
        )
    })
}
