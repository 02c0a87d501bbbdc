//! The order in which the devices of a pipeline work through the micro-batches of a step.

/// One forward or one backward of one micro-batch, through the stages that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Forward of the micro-batch of this index, from 0.
    Forward(usize),
    /// Its backward.
    Backward(usize),
}

impl Work {
    /// The index of the micro-batch.
    pub fn micro_batch(self) -> usize {
        match self {
            Self::Forward(index) | Self::Backward(index) => index,
        }
    }

    /// The device and the work that this work waits for. A forward needs the output of the device before; a backward
    /// needs the gradient of the device after, on the last device its own forward.
    pub(crate) fn needs(self, device: usize, devices: usize) -> Option<(usize, Self)> {
        match self {
            Self::Forward(_) => Some((device.checked_sub(1)?, self)),
            Self::Backward(index) if device + 1 >= devices => Some((device, Self::Forward(index))),
            Self::Backward(_) => Some((device + 1, self)),
        }
    }
}

/// The order in which the devices of a pipeline run the forwards and backwards of a step.
///
/// In every order a device runs its backwards in the order of the micro-batches. Gradients are then summed in one order
/// and are the same to the bit. (GPipe's paper draws the opposite order, which takes the same time and memory.)
///
/// The bubble is the share of time that devices are idle. With p equally fast devices and m micro-batches it is:
///
/// | order | bubble | micro-batches whose activations device d holds |
/// |---|---|---|
/// | [`Sequential`](Self::Sequential) | 1 − 1/p | 1 |
/// | [`GPipe`](Self::GPipe) | (p − 1)/(m + p − 1) | m |
/// | [`OneForwardOneBackward`](Self::OneForwardOneBackward) | (p − 1)/(m + p − 1) | min(p − d, m) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineOrder {
    /// One micro-batch after the other, forward and backward: one device works at a time.
    Sequential,
    /// All forwards, then all backwards (Huang et al. 2019, <https://arxiv.org/abs/1811.06965>).
    GPipe,
    /// Enough forwards to keep the devices behind busy, then one backward and one forward in turn (1F1B with a flush:
    /// Narayanan et al. 2021, <https://arxiv.org/abs/2104.04473>, section 2.2).
    OneForwardOneBackward,
}

impl PipelineOrder {
    /// The work of `device`, counted from 0 and below `devices`, in a step of `micro_batches`, in order.
    ///
    /// ```
    /// use oomph_parallel::{PipelineOrder, Work::{Backward, Forward}};
    ///
    /// let work = PipelineOrder::OneForwardOneBackward.work(0, 2, 3);
    /// assert_eq!(work, [Forward(0), Forward(1), Backward(0), Forward(2), Backward(1), Backward(2)]);
    /// ```
    pub fn work(&self, device: usize, devices: usize, micro_batches: usize) -> Vec<Work> {
        // Each order has some forwards, then backwards and forwards in turn, then the remaining backwards.
        let ahead = self.in_flight(device, devices, micro_batches);
        let mut work: Vec<_> = (0..ahead).map(Work::Forward).collect();
        for index in 0..micro_batches {
            work.push(Work::Backward(index));
            work.extend(Some(index + ahead).filter(|next| *next < micro_batches).map(Work::Forward));
        }
        work
    }

    /// The most micro-batches whose activations `device` holds at once.
    pub fn in_flight(&self, device: usize, devices: usize, micro_batches: usize) -> usize {
        let most = match self {
            Self::Sequential => 1,
            Self::GPipe => micro_batches,
            Self::OneForwardOneBackward => devices.saturating_sub(device).max(1),
        };
        most.min(micro_batches)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::{
        Work::{Backward, Forward},
        *,
    };

    const ALL: [PipelineOrder; 3] =
        [PipelineOrder::Sequential, PipelineOrder::GPipe, PipelineOrder::OneForwardOneBackward];

    fn any_order() -> impl Strategy<Value = PipelineOrder> {
        prop::sample::select(&ALL)
    }

    #[test]
    fn schedules_are_those_of_the_papers() {
        let work = |order: PipelineOrder, device| order.work(device, 2, 2);
        let one_by_one = [Forward(0), Backward(0), Forward(1), Backward(1)];
        let all_forward = [Forward(0), Forward(1), Backward(0), Backward(1)];
        assert_eq!([0, 1].map(|device| work(PipelineOrder::Sequential, device)), [one_by_one, one_by_one]);
        assert_eq!([0, 1].map(|device| work(PipelineOrder::GPipe, device)), [all_forward, all_forward]);
        let one_f_one_b = [0, 1].map(|device| work(PipelineOrder::OneForwardOneBackward, device));
        assert_eq!(one_f_one_b, [all_forward, one_by_one]);
    }

    proptest! {
        #[test]
        fn each_micro_batch_goes_forward_once_and_then_backward_once_in_order(
            order in any_order(), devices in 1usize..12, device in 0usize..12, micro_batches in 0usize..40,
        ) {
            let work = order.work(device % devices, devices, micro_batches);
            let of = |kind: fn(usize) -> Work| {
                let this = |work: &&Work| **work == kind(work.micro_batch());
                work.iter().filter(this).map(|work| work.micro_batch()).collect::<Vec<_>>()
            };
            let in_order: Vec<_> = (0..micro_batches).collect();
            prop_assert_eq!(&of(Forward), &in_order);
            prop_assert_eq!(&of(Backward), &in_order);
            for index in 0..micro_batches {
                let at = |wanted| work.iter().position(|work| *work == wanted);
                prop_assert!(at(Forward(index)) < at(Backward(index)));
            }
        }

        #[test]
        fn devices_that_wait_for_each_other_all_come_to_the_end(
            order in any_order(), devices in 1usize..12, micro_batches in 0usize..40,
        ) {
            let mut left: Vec<_> = (0..devices)
                .map(|device| order.work(device, devices, micro_batches).into_iter().peekable())
                .collect();
            let mut done = HashSet::new();
            // Work that can begin stays able to begin, so one sequence covers all.
            loop {
                let before = done.len();
                for (device, left) in left.iter_mut().enumerate() {
                    let ready = |work: &Work| work.needs(device, devices).is_none_or(|needed| done.contains(&needed));
                    if let Some(work) = left.next_if(ready) {
                        done.insert((device, work));
                    }
                }
                if done.len() == before {
                    break;
                }
            }
            prop_assert_eq!(done.len(), devices * micro_batches * 2);
        }

        #[test]
        fn no_more_micro_batches_are_held_than_the_schedule_says(
            order in any_order(), devices in 1usize..12, device in 0usize..12, micro_batches in 0usize..40,
        ) {
            let device = device % devices;
            let (mut held, mut most) = (0usize, 0);
            for work in order.work(device, devices, micro_batches) {
                match work {
                    Forward(_) => held += 1,
                    Backward(_) => held -= 1,
                }
                most = most.max(held);
            }
            let said = match order {
                PipelineOrder::Sequential => 1.min(micro_batches),
                PipelineOrder::GPipe => micro_batches,
                PipelineOrder::OneForwardOneBackward => (devices - device).min(micro_batches),
            };
            prop_assert_eq!(order.in_flight(device, devices, micro_batches), said);
            prop_assert_eq!(most, said);
        }
    }
}
