use std::ops::Range;

use oomph_parallel::{PipelineOrder, Work};

use super::Scatter;

/// The role of a device in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// The device has consecutive stages of the model. A single device has all stages.
    Stages {
        /// The number of the device, from 0.
        device: usize,
        /// The number of devices that the model is split over.
        devices: usize,
        /// The order of forwards and backwards.
        order: PipelineOrder,
    },
    /// The device has a replica, computes the loss of all replicas' outputs, and sums their gradients (`dp`).
    Coordinator(Scatter),
    /// The device has a replica that works for the coordinator (`dp`).
    Replica {
        /// The number of the device, from 1.
        device: usize,
        /// How a batch is scattered.
        scatter: Scatter,
    },
}

/// One piece of work of a device in a step. The number is that of the micro-batch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkItem {
    /// The forward pass of a micro-batch through the stages of the device.
    Forward(usize),
    /// The loss of the outputs of all replicas.
    Compare(usize),
    /// The backward pass of a micro-batch through the stages of the device.
    Backward(usize),
    /// The coordinator sums the gradients of all replicas.
    SumGradients,
    /// A replica sends its gradients to the coordinator.
    SendGradients,
}

impl WorkItem {
    /// The item in a pipeline trace. The loss of all replicas counts as backward; sums of gradients are not shown.
    pub(crate) fn traced(self) -> Option<Work> {
        match self {
            Self::Forward(index) => Some(Work::Forward(index)),
            Self::Compare(index) | Self::Backward(index) => Some(Work::Backward(index)),
            Self::SumGradients | Self::SendGradients => None,
        }
    }
}

impl Role {
    /// The role of a single device.
    pub fn alone() -> Self {
        Self::Stages { device: 0, devices: 1, order: PipelineOrder::Sequential }
    }

    /// Whether the device receives its input from the device before.
    pub(crate) fn takes_activations(&self) -> bool {
        matches!(self, Self::Stages { device, .. } if *device > 0)
    }

    /// Whether the device sends its output to another device and receives the gradient of the output.
    pub(crate) fn sends_outputs(&self) -> bool {
        match self {
            Self::Stages { device, devices, .. } => device + 1 < *devices,
            Self::Coordinator(_) => false,
            Self::Replica { .. } => true,
        }
    }

    /// Whether the device computes the loss of its own output.
    pub(crate) fn has_loss(&self) -> bool {
        matches!(self, Self::Stages { device, devices, .. } if device + 1 == *devices)
    }

    /// Whether the device runs the optimizer, for its own stages or for the whole model.
    pub fn has_optimizer(&self) -> bool {
        !matches!(self, Self::Replica { .. })
    }

    /// Whether the parameters are on several devices. Their global norm is then summed on the host.
    pub(crate) fn is_split(&self) -> bool {
        matches!(self, Self::Stages { devices, .. } if *devices > 1)
    }

    /// The rows that the device forwards, of a micro-batch of `samples` rows.
    pub fn rows(&self, samples: usize) -> Range<usize> {
        match self {
            Self::Stages { .. } => 0..samples,
            Self::Coordinator(scatter) => scatter.rows_of(samples, 0),
            Self::Replica { device, scatter } => scatter.rows_of(samples, *device),
        }
    }

    /// All work of the device in a step, in order. `sizes` are the samples of each micro-batch.
    pub fn work(&self, sizes: &[usize]) -> Vec<WorkItem> {
        let forwards = |index: &usize| !self.rows(sizes[*index]).is_empty();
        let mut items = Vec::new();
        match self {
            Self::Stages { device, devices, order } => {
                items.extend(order.work(*device, *devices, sizes.len()).into_iter().map(|work| match work {
                    Work::Forward(index) => WorkItem::Forward(index),
                    Work::Backward(index) => WorkItem::Backward(index),
                }));
            }
            Self::Coordinator(_) => {
                for index in 0..sizes.len() {
                    let own = forwards(&index);
                    items.extend(own.then_some(WorkItem::Forward(index)));
                    items.push(WorkItem::Compare(index));
                    items.extend(own.then_some(WorkItem::Backward(index)));
                }
                items.push(WorkItem::SumGradients);
            }
            Self::Replica { .. } => {
                for index in (0..sizes.len()).filter(forwards) {
                    items.extend([WorkItem::Forward(index), WorkItem::Backward(index)]);
                }
                items.push(WorkItem::SendGradients);
            }
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use super::{
        WorkItem::{Backward, Compare, Forward, SendGradients, SumGradients},
        *,
    };

    #[test]
    fn one_device_goes_forward_and_back_with_each_micro_batch() {
        assert_eq!(Role::alone().work(&[4, 2]), [Forward(0), Backward(0), Forward(1), Backward(1)]);
    }

    fn pipeline(device: usize, order: PipelineOrder) -> Vec<WorkItem> {
        Role::Stages { device, devices: 2, order }.work(&[4, 4, 2])
    }

    #[test]
    fn gpipe_runs_all_forwards_before_the_backwards() {
        for device in 0..2 {
            let work = pipeline(device, PipelineOrder::GPipe);
            let forwards = [Forward(0), Forward(1), Forward(2)];
            assert_eq!(work[..3], forwards, "device {device}");
            assert!(work[3..].iter().all(|item| matches!(item, Backward(_))), "{work:?}");
            assert_eq!(work.len(), 6);
        }
    }

    #[test]
    fn one_forward_one_backward_holds_fewer_micro_batches_on_later_devices() {
        let order = PipelineOrder::OneForwardOneBackward;
        assert_eq!(
            pipeline(0, order),
            [Forward(0), Forward(1), Backward(0), Forward(2), Backward(1), Backward(2)]
        );
        assert_eq!(
            pipeline(1, order),
            [Forward(0), Backward(0), Forward(1), Backward(1), Forward(2), Backward(2)]
        );
    }

    #[test]
    fn only_the_last_device_computes_the_loss_and_only_later_ones_take_activations() {
        let role = |device| Role::Stages { device, devices: 3, order: PipelineOrder::GPipe };
        assert_eq!([0, 1, 2].map(|device| role(device).has_loss()), [false, false, true]);
        assert_eq!([0, 1, 2].map(|device| role(device).takes_activations()), [false, true, true]);
        assert_eq!([0, 1, 2].map(|device| role(device).sends_outputs()), [true, true, false]);
        assert!(Role::alone().has_loss() && Role::alone().has_optimizer() && !Role::alone().is_split());
    }

    #[test]
    fn the_coordinator_compares_a_round_whose_one_sample_is_the_replicas() {
        let scatter = Scatter { devices: 2, share: None };
        let coordinator = Role::Coordinator(scatter).work(&[2, 1]);
        assert_eq!(coordinator, [Forward(0), Compare(0), Backward(0), Compare(1), SumGradients]);
        let replica = Role::Replica { device: 1, scatter }.work(&[2, 1]);
        assert_eq!(replica, [Forward(0), Backward(0), Forward(1), Backward(1), SendGradients]);
    }
}
