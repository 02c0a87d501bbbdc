use std::ops::Range;

use burn::tensor::{DType, Device, Tensor};
use oomph_core::{SampleSpec, TargetSpec};
use oomph_kernels::offload::{arrived, left_device};
use oomph_model::{AnyTensor, Carried, Named, blank_input};

use super::{LinkTensor, Peer, Transport};
use crate::{EngineError, task::DeviceTargets};

/// The shapes of the tensors that cross the links of a device.
#[derive(Clone, Debug, Default)]
pub struct BlankShapes {
    /// The number of samples in `input` and `output`.
    pub samples: usize,
    /// The shape of the input of the device's stages.
    pub input: Vec<usize>,
    /// The shape of their output.
    pub output: Vec<usize>,
}

/// A transport that returns blank tensors of the expected shapes. The planner records a device with it.
#[derive(Clone, Debug)]
pub struct BlankTransport<'a> {
    /// The shapes of inputs and targets.
    pub spec: &'a SampleSpec,
    /// Samples of each micro-batch.
    pub sizes: Vec<usize>,
    /// The shapes of the tensors that cross links.
    pub shapes: &'a BlankShapes,
    /// The format of activations.
    pub dtype: DType,
    /// Whether the samples of a batch are mixed in pairs, so that each has two classes.
    pub mixes: bool,
}

impl BlankTransport<'_> {
    /// A blank for a tensor of `samples` samples that crosses a link.
    pub fn blank(&self, crossing: LinkTensor, samples: usize, device: &Device) -> AnyTensor {
        let mut shape = match crossing {
            LinkTensor::Input => self.shapes.input.clone(),
            LinkTensor::Output => self.shapes.output.clone(),
        };
        if let Some(rows) = shape.first_mut() {
            // An output may have several rows per sample.
            *rows = *rows / self.shapes.samples.max(1) * samples;
        }
        arrived(&shape, self.dtype, device)
    }
}

/// Targets of `samples` samples, all zero.
pub fn blank_targets(spec: &SampleSpec, samples: usize, device: &Device) -> DeviceTargets {
    match spec.target {
        TargetSpec::Class { .. } => DeviceTargets::Classes(Tensor::zeros([samples], device)),
        TargetSpec::Labels { count } => DeviceTargets::Labels(Tensor::zeros([samples, count], device)),
        TargetSpec::Values { features } => DeviceTargets::Values(Tensor::zeros([samples, features], device)),
        TargetSpec::Tokens { steps, .. } => DeviceTargets::Tokens(Tensor::zeros([samples, steps], device)),
    }
}

impl Transport for BlankTransport<'_> {
    type Handed = ();

    const EXECUTES: bool = false;

    fn input(&mut self, _index: usize, rows: Range<usize>, device: &Device) -> AnyTensor {
        blank_input(self.spec, rows.len(), device)
    }

    fn targets(&mut self, index: usize, device: &Device) -> DeviceTargets {
        let samples = self.sizes[index];
        match blank_targets(self.spec, samples, device) {
            DeviceTargets::Classes(classes) if self.mixes => {
                let partners = Tensor::zeros([samples], device);
                DeviceTargets::Mixed { classes, partners, share: 0.5 }
            }
            targets => targets,
        }
    }

    fn wait(
        &mut self,
        _peer: Peer,
        _awaited: &'static str,
        _index: Option<usize>,
    ) -> Result<(), EngineError> {
        Ok(())
    }

    fn unpack(&mut self, (): (), crossing: LinkTensor, samples: usize, device: &Device) -> Option<AnyTensor> {
        Some(self.blank(crossing, samples, device))
    }

    fn unpack_gradients(
        &mut self,
        (): (),
        shapes: &[(String, Vec<usize>)],
        device: &Device,
    ) -> impl Iterator<Item = (String, AnyTensor)> {
        shapes.iter().map(move |(name, shape)| (name.clone(), arrived(shape, DType::F32, device)))
    }

    fn carried(&mut self, carried: &Carried, rows: Range<usize>, device: &Device) -> Carried {
        let blank = |tensor: &AnyTensor| {
            let mut shape = tensor.dims();
            shape[0] = rows.len();
            arrived(&shape, tensor.dtype(), device)
        };
        carried.tensors().iter().map(|(name, tensor)| (name.clone(), blank(tensor))).collect()
    }

    fn send(&mut self, _peer: Peer, tensor: Option<AnyTensor>) -> Result<(), EngineError> {
        tensor.into_iter().for_each(left_device);
        Ok(())
    }

    fn send_gradients(&mut self, _peer: Peer, gradients: Named<AnyTensor>) -> Result<(), EngineError> {
        gradients.into_values().for_each(left_device);
        Ok(())
    }
}
