//! A model cut into parts, one a device: `model` and `pipeline`.
//!
//! Each device has consecutive [`stages`](Place::stages) and does the forwards and backwards of its part in the order of
//! the [`Schedule`], in a thread of its own. What a part puts out goes to the next, and the gradient of it comes back, as
//! plain tensors through host memory: no graph reaches over a boundary.

mod step;

use std::{sync::Arc, time::Duration};

use oomph_model::{Carried, Policy, Stages};
use oomph_parallel::Schedule;

use super::Place;
use crate::segments::{Position, Segments};

pub(crate) use step::ChainStep;

/// How a model lies on several devices, and in which order these work.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) places: Arc<[Place]>,
    pub(crate) schedule: Schedule,
    /// How long a device waits for another.
    pub(crate) timeout: Duration,
}

impl Chain {
    /// Cuts a model for a step: the parts in the order of devices.
    pub(crate) fn cut(&self, model: Stages) -> Vec<Stages> {
        let mut rest = model;
        let mut parts = Vec::new();
        for place in self.places.iter().rev() {
            parts.push(rest.split_off(place.stages.start));
        }
        parts.reverse();
        parts
    }

    /// Puts the parts together again.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Stages>) -> Stages {
        parts.into_iter().fold(Stages::new(), Stages::followed_by)
    }

    /// What recurrent layers carry, each on the device of its stage.
    pub(crate) fn placed_carried(&self, carried: &Carried, model: &Stages) -> Carried {
        let mut placed = Carried::new();
        for (place, part) in self.places.iter().zip(self.cut(model.clone())) {
            let of_part = carried.of_stages(&part);
            placed.extend(place.run(|| of_part.moved(&place.plain())));
        }
        placed
    }

    /// Puts every part where it belongs.
    pub(crate) fn placed(&self, model: Stages) -> Stages {
        let parts = self.cut(model);
        let placed = self.places.iter().zip(parts).map(|(place, part)| place.run(|| place.moved(part)));
        Self::joined(placed)
    }

    /// The segments of each part, of a model that is cut so.
    pub(crate) fn segments(&self, model: &Stages, recompute: &[bool], policy: &Policy) -> Vec<Segments> {
        let parts = self.cut(model.clone());
        let leading_frozen = model.leading_frozen();
        let last = self.places.len() - 1;
        let of_part = |(index, (place, part)): (usize, (&Place, &Stages))| {
            let stages = place.stages.clone();
            let position = Position {
                first_stage: stages.start,
                continues: stages.start > leading_frozen,
                is_continued: index < last,
            };
            let seeded = Some(place.tracked.clone());
            Segments::new(part, recompute[stages].to_vec(), policy, seeded, &[], position)
        };
        self.places.iter().zip(&parts).enumerate().map(of_part).collect()
    }
}
