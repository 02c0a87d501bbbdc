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

    /// What has to be done before, and where: a forward takes what the device before made, a backward the gradient that
    /// the device after made, and on the last device its own forward.
    pub(crate) fn needs(self, device: usize, devices: usize) -> Option<(usize, Self)> {
        match self {
            Self::Forward(_) => Some((device.checked_sub(1)?, self)),
            Self::Backward(index) if device + 1 >= devices => Some((device, Self::Forward(index))),
            Self::Backward(_) => Some((device + 1, self)),
        }
    }
}

/// In which order devices that each have a run of a model's stages do the forwards and backwards of a step.
///
/// In each the backwards of a device come in the order of the micro-batches, so that gradients are added up in the same
/// order and come out the same to the bit. (GPipe's paper draws them in the opposite order, which takes as long and
/// holds as much.)
///
/// With p devices that each need as long for a micro-batch, and m micro-batches, the share of time that devices are
/// idle, the bubble, is:
///
/// | schedule | bubble | activations held by device d |
/// |---|---|---|
/// | [`Sequential`](Self::Sequential) | 1 − 1/p | of 1 micro-batch |
/// | [`GPipe`](Self::GPipe) | (p − 1)/(m + p − 1) | of m |
/// | [`OneForwardOneBackward`](Self::OneForwardOneBackward) | (p − 1)/(m + p − 1) | of min(p − d, m) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// One micro-batch after the other, forward and backward: one device works at a time.
    Sequential,
    /// All forwards, then all backwards (Huang et al. 2019, <https://arxiv.org/abs/1811.06965>).
    GPipe,
    /// As few forwards as keep the devices behind busy, then one backward and one forward in turn (1F1B with a flush:
    /// Narayanan et al. 2021, <https://arxiv.org/abs/2104.04473>, section 2.2).
    OneForwardOneBackward,
}

impl Schedule {
    /// What `device`, counted from 0 and below `devices`, does in a step of so many micro-batches, in order.
    ///
    /// ```
    /// use oomph_parallel::{Schedule, Work::{Backward, Forward}};
    ///
    /// let work = Schedule::OneForwardOneBackward.work(0, 2, 3);
    /// assert_eq!(work, [Forward(0), Forward(1), Backward(0), Forward(2), Backward(1), Backward(2)]);
    /// ```
    pub fn work(&self, device: usize, devices: usize, micro_batches: usize) -> Vec<Work> {
        // Each schedule is a run of forwards, then backwards and forwards in turn, then the backwards left over.
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

    const ALL: [Schedule; 3] = [Schedule::Sequential, Schedule::GPipe, Schedule::OneForwardOneBackward];

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        prop::sample::select(&ALL)
    }

    #[test]
    fn schedules_are_those_of_the_papers() {
        let work = |schedule: Schedule, device| schedule.work(device, 2, 2);
        let one_by_one = [Forward(0), Backward(0), Forward(1), Backward(1)];
        let all_forward = [Forward(0), Forward(1), Backward(0), Backward(1)];
        assert_eq!([0, 1].map(|device| work(Schedule::Sequential, device)), [one_by_one, one_by_one]);
        assert_eq!([0, 1].map(|device| work(Schedule::GPipe, device)), [all_forward, all_forward]);
        let one_f_one_b = [0, 1].map(|device| work(Schedule::OneForwardOneBackward, device));
        assert_eq!(one_f_one_b, [all_forward, one_by_one]);
    }

    proptest! {
        #[test]
        fn each_micro_batch_goes_forward_once_and_then_backward_once_in_order(
            schedule in any_schedule(), devices in 1usize..12, device in 0usize..12, micro_batches in 0usize..40,
        ) {
            let work = schedule.work(device % devices, devices, micro_batches);
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
            schedule in any_schedule(), devices in 1usize..12, micro_batches in 0usize..40,
        ) {
            let mut left: Vec<_> = (0..devices)
                .map(|device| schedule.work(device, devices, micro_batches).into_iter().peekable())
                .collect();
            let mut done = HashSet::new();
            // In any order of trying, what can be done next can still be done later, so that one order shows them all.
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
            schedule in any_schedule(), devices in 1usize..12, device in 0usize..12, micro_batches in 0usize..40,
        ) {
            let device = device % devices;
            let (mut held, mut most) = (0usize, 0);
            for work in schedule.work(device, devices, micro_batches) {
                match work {
                    Forward(_) => held += 1,
                    Backward(_) => held -= 1,
                }
                most = most.max(held);
            }
            let said = match schedule {
                Schedule::Sequential => 1.min(micro_batches),
                Schedule::GPipe => micro_batches,
                Schedule::OneForwardOneBackward => (devices - device).min(micro_batches),
            };
            prop_assert_eq!(schedule.in_flight(device, devices, micro_batches), said);
            prop_assert_eq!(most, said);
        }
    }
}
