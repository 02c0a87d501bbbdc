//! Transports bring a device its batches, the activations of the device before and the gradients of the device after.

mod blank;
mod links;

use std::ops::Range;

use burn::tensor::Device;
use oomph_memory::record::{TrackGuard, track};
use oomph_model::{AnyTensor, Carried, Named};
use oomph_timeline::TrackKind;

pub use blank::{BlankShapes, BlankTransport, blank_targets};
pub use oomph_kernels::offload::left_device;

pub(crate) use links::{LinkTransport, chain_links, star_links};

use crate::{EngineError, task::DeviceTargets};

/// Another device of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The device with the stages before.
    Before,
    /// The device with the stages after. For a replica: the coordinator.
    After,
    /// The replica of this number, as the coordinator sees it.
    Replica(usize),
}

/// A tensor that crosses a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTensor {
    /// The input of the stages of this device.
    Input,
    /// The output of the stages of this device, or its gradient.
    Output,
}

/// Brings a device the tensors that it does not compute. An `index` is that of a micro-batch in the step, from 0.
pub trait Transport {
    /// A received message that is not yet on the device.
    type Handed;

    /// Whether operations execute; otherwise they are recorded for a plan.
    const EXECUTES: bool;

    /// The input of these rows of a micro-batch, on the device: `[rows, …]`.
    fn input(&mut self, index: usize, rows: Range<usize>, device: &Device) -> AnyTensor;

    /// The targets of a whole micro-batch, on the device.
    fn targets(&mut self, index: usize, device: &Device) -> DeviceTargets;

    /// Waits for the next message of a peer. `awaited` names the wait on the track of the device.
    ///
    /// # Errors
    /// If the peer stopped, or sent nothing within the timeout.
    fn wait(
        &mut self,
        peer: Peer,
        awaited: &'static str,
        index: Option<usize>,
    ) -> Result<Self::Handed, EngineError>;

    /// Copies a received tensor of `samples` samples to the device; `None` if the peer sent none. A blank tensor gets
    /// its shape from `crossing` and `samples`.
    fn unpack(
        &mut self,
        handed: Self::Handed,
        crossing: LinkTensor,
        samples: usize,
        device: &Device,
    ) -> Option<AnyTensor>;

    /// Copies received gradients to the device, one at a time. `shapes` are the names and shapes of the gradients of
    /// this device.
    fn unpack_gradients(
        &mut self,
        handed: Self::Handed,
        shapes: &[(String, Vec<usize>)],
        device: &Device,
    ) -> impl Iterator<Item = (String, AnyTensor)>;

    /// The carried state of these rows, copied to the device of a replica.
    fn carried(&mut self, carried: &Carried, rows: Range<usize>, device: &Device) -> Carried;

    /// Sends a tensor to a peer; `None` tells the peer that there is none.
    ///
    /// # Errors
    /// If the peer stopped.
    fn send(&mut self, peer: Peer, tensor: Option<AnyTensor>) -> Result<(), EngineError>;

    /// Sends gradients to a peer.
    ///
    /// # Errors
    /// If the peer stopped.
    fn send_gradients(&mut self, peer: Peer, gradients: Named<AnyTensor>) -> Result<(), EngineError>;

    /// Shows the current work on the track of the device until the guard is dropped. `None` while recording a plan.
    fn track(&self, kind: TrackKind, name: &'static str, number: Option<usize>) -> Option<TrackGuard> {
        Self::EXECUTES.then(|| track(kind, name, number))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use burn::tensor::DType;
    use oomph_core::{InputSpec, SampleSpec, TargetSpec};
    use oomph_data::{Batch, Targets, Values};

    use super::*;

    const SAMPLES: usize = 4;

    fn spec() -> SampleSpec {
        SampleSpec {
            input: InputSpec::Image { channels: 3, height: 2, width: 5 },
            target: TargetSpec::Class { count: 10 },
        }
    }

    fn batch() -> Batch {
        Batch {
            input: Values::Floats((0..SAMPLES * 30).map(|index| index as f32).collect()),
            shape: vec![SAMPLES, 3, 2, 5],
            targets: Targets::Classes(vec![1, 2, 3, 4]),
            size: SAMPLES,
            position: 0,
            continues: false,
            skipped: Vec::new(),
        }
    }

    /// Shapes of a device that takes `[B, 8]` and puts out three rows of 7 per sample.
    fn shapes() -> BlankShapes {
        BlankShapes { samples: SAMPLES, input: vec![SAMPLES, 8], output: vec![SAMPLES * 3, 7] }
    }

    /// Calls `check` with the transports of two devices in a chain, and with a blank one.
    fn with_transports(check: impl FnOnce([LinkTransport<'_>; 2], BlankTransport<'_>)) {
        let (batches, spec, shapes) = ([batch()], spec(), shapes());
        let links = chain_links(2).into_iter();
        let transports: Vec<_> = links
            .map(|links| LinkTransport { links, micro_batches: &batches, timeout: Duration::from_secs(10) })
            .collect();
        let (sizes, dtype, mixes) = (vec![SAMPLES], DType::F32, false);
        let blank = BlankTransport { spec: &spec, sizes, shapes: &shapes, dtype, mixes };
        let Ok(transports) = transports.try_into() else { panic!("a chain of two devices has two ends") };
        check(transports, blank);
    }

    #[test]
    fn blank_batches_have_the_shapes_of_uploaded_ones() {
        let device = Device::flex();
        with_transports(|[mut link, _], mut blank| {
            for rows in [0..SAMPLES, 1..3] {
                let uploaded = link.input(0, rows.clone(), &device);
                assert_eq!(blank.input(0, rows.clone(), &device).dims(), uploaded.dims(), "{rows:?}");
                assert_eq!(uploaded.to_host().expect("the CPU does not fail")[0], 30.0 * rows.start as f32);
            }
            let (DeviceTargets::Classes(uploaded), DeviceTargets::Classes(blank)) =
                (link.targets(0, &device), blank.targets(0, &device))
            else {
                panic!("the targets are classes")
            };
            assert_eq!(blank.dims(), uploaded.dims());
        });
    }

    #[test]
    fn blank_tensors_have_the_shapes_of_received_ones() {
        let device = Device::flex();
        for (crossing, samples, shape) in [
            (LinkTensor::Input, SAMPLES, vec![SAMPLES, 8]),
            (LinkTensor::Input, 1, vec![1, 8]),
            (LinkTensor::Output, 2, vec![6, 7]),
        ] {
            with_transports(|[mut before, mut after], mut blank| {
                let sent = AnyTensor::zeros(&shape, &device);
                before.send(Peer::After, Some(sent)).expect("the other end is there");
                let handed = after.wait(Peer::Before, "waits", Some(0)).expect("the tensor was sent");
                let received = after.unpack(handed, crossing, samples, &device).expect("it is a tensor");
                let blank = blank.unpack((), crossing, samples, &device).expect("a blank is always there");
                assert_eq!(blank.dims(), received.dims(), "{samples} of {crossing:?}");
            });
        }
    }

    #[test]
    fn a_peer_that_stopped_is_an_error() {
        with_transports(|[before, mut after], _| {
            drop(before);
            let error = after.wait(Peer::Before, "waits", None).expect_err("the peer stopped");
            assert!(matches!(error, EngineError::Neighbour { device: 0 }), "{error}");
        });
    }
}
