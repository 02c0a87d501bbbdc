use std::{
    ops::Range,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use burn::tensor::{Device, TensorData};
use oomph_data::Batch;
use oomph_memory::{Account, charge};
use oomph_model::{AnyTensor, Carried, ModelError, Named};
use oomph_timeline::TrackKind;

use super::{LinkTensor, Peer, Transport};
use crate::{
    EngineError,
    task::DeviceTargets,
    upload::{upload_input, upload_targets},
};

/// A message between two devices, in host memory.
#[derive(Debug)]
pub(crate) enum LinkMessage {
    /// A tensor; `None` if there is no gradient.
    Tensor(Option<TensorData>),
    /// Gradients by parameter name.
    Gradients(Vec<(String, TensorData)>),
}

/// Copies a tensor to the host.
fn copied(tensor: AnyTensor) -> Result<TensorData, ModelError> {
    let data = tensor.into_data()?;
    // The data may share the memory of the device, so it is cloned.
    Ok(TensorData::clone(&data))
}

/// Copies data into the memory of a device.
fn onto(data: &TensorData, device: &Device) -> AnyTensor {
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
    fn receive(&self, timeout: Duration) -> Result<LinkMessage, EngineError> {
        self.from.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => EngineError::Neighbour { device: self.peer },
            RecvTimeoutError::Timeout => EngineError::Silent { device: self.peer, waited: timeout },
        })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`EngineError::Neighbour`] if the other end stopped.
    fn send(&self, message: LinkMessage) -> Result<(), EngineError> {
        self.to.send(message).map_err(|_| EngineError::Neighbour { device: self.peer })
    }
}

/// Both ends of a link between two devices, given by their numbers.
fn link(one: usize, other: usize) -> (DeviceLink, DeviceLink) {
    charge(Account::Host, || {
        let ((to_other, from_one), (to_one, from_other)) = (channel(), channel());
        (
            DeviceLink { peer: other, to: to_other, from: from_other },
            DeviceLink { peer: one, to: to_one, from: from_one },
        )
    })
}

/// The links of one device.
#[derive(Default)]
pub(crate) struct Links {
    before: Option<DeviceLink>,
    after: Option<DeviceLink>,
    /// The links of the coordinator to the replicas, in the order of devices.
    replicas: Vec<DeviceLink>,
}

/// The links of a chain of devices, in the order of devices.
pub(crate) fn chain_links(devices: usize) -> Vec<Links> {
    let mut links: Vec<_> = charge(Account::Host, || (0..devices).map(|_| Links::default()).collect());
    for index in 1..devices {
        let (after, before) = link(index - 1, index);
        (links[index - 1].after, links[index].before) = (Some(after), Some(before));
    }
    links
}

/// The links between a coordinator, which is the first device, and its replicas.
pub(crate) fn star_links(devices: usize) -> Vec<Links> {
    let mut links: Vec<_> = charge(Account::Host, || (0..devices).map(|_| Links::default()).collect());
    for index in 1..devices {
        let (coordinator, replica) = link(0, index);
        charge(Account::Host, || links[0].replicas.push(coordinator));
        links[index].after = Some(replica);
    }
    links
}

/// A transport over real links, with the batch in host memory.
pub(crate) struct LinkTransport<'a> {
    pub(crate) links: Links,
    pub(crate) micro_batches: &'a [Batch],
    pub(crate) timeout: Duration,
}

impl LinkTransport<'_> {
    /// # Panics
    /// Panics if the role of the device asks for a peer that its layout does not have: a bug of the engine.
    fn link(&self, peer: Peer) -> &DeviceLink {
        let link = match peer {
            Peer::Before => self.links.before.as_ref(),
            Peer::After => self.links.after.as_ref(),
            Peer::Replica(device) => self.links.replicas.get(device - 1),
        };
        // Roles and links come from the same layout.
        link.expect("the layout has a link to the peer")
    }
}

impl Transport for LinkTransport<'_> {
    type Handed = LinkMessage;

    const EXECUTES: bool = true;

    fn input(&mut self, index: usize, rows: Range<usize>, device: &Device) -> AnyTensor {
        let batch = &self.micro_batches[index];
        if rows.len() == batch.size {
            return upload_input(&batch.input, &batch.shape, device);
        }
        let own = charge(Account::Host, || batch.rows(rows));
        let input = upload_input(&own.input, &own.shape, device);
        charge(Account::Host, || drop(own));
        input
    }

    fn targets(&mut self, index: usize, device: &Device) -> DeviceTargets {
        upload_targets(&self.micro_batches[index].targets, device)
    }

    fn wait(
        &mut self,
        peer: Peer,
        awaited: &'static str,
        index: Option<usize>,
    ) -> Result<LinkMessage, EngineError> {
        let _track = self.track(TrackKind::Idle, awaited, index);
        self.link(peer).receive(self.timeout)
    }

    fn unpack(
        &mut self,
        handed: LinkMessage,
        _crossing: LinkTensor,
        _samples: usize,
        device: &Device,
    ) -> Option<AnyTensor> {
        match handed {
            LinkMessage::Tensor(data) => data.map(|data| onto(&data, device)),
            LinkMessage::Gradients(_) => None,
        }
    }

    fn unpack_gradients(
        &mut self,
        handed: LinkMessage,
        _shapes: &[(String, Vec<usize>)],
        device: &Device,
    ) -> impl Iterator<Item = (String, AnyTensor)> {
        let gradients = match handed {
            LinkMessage::Gradients(gradients) => gradients,
            LinkMessage::Tensor(_) => Vec::new(),
        };
        gradients.into_iter().map(move |(name, data)| (name, onto(&data, device)))
    }

    fn carried(&mut self, carried: &Carried, rows: Range<usize>, device: &Device) -> Carried {
        carried.rows(rows).moved(device)
    }

    fn send(&mut self, peer: Peer, tensor: Option<AnyTensor>) -> Result<(), EngineError> {
        // The device memory is freed before the peer receives the message.
        let data = charge(Account::Host, || tensor.map(copied).transpose())?;
        self.link(peer).send(LinkMessage::Tensor(data))
    }

    fn send_gradients(&mut self, peer: Peer, gradients: Named<AnyTensor>) -> Result<(), EngineError> {
        let gradients = gradients.into_iter().map(|(name, gradient)| Ok((name, copied(gradient)?)));
        let data = charge(Account::Host, || gradients.collect::<Result<_, ModelError>>())?;
        self.link(peer).send(LinkMessage::Gradients(data))
    }
}
