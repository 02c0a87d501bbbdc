use std::time::Instant;

use oomph_core::Bytes;
use oomph_memory::{Account, Timeline, charge};

use super::{Batches, ProfileError, ProfileOptions};
use crate::{
    Boundary, Observer, PlanOptions, PoolReading, PoolWatch, Session, Stepper, Tick, TrainError, plan,
};

/// What a profile of a device with memory pools found: their figures where phases and stages end. What lies between
/// two boundaries is not seen, and reading waits for the device, so that its steps are slower than training's.
#[derive(Clone, Debug)]
pub struct DeviceProfile {
    /// The highest reading of each boundary over the steps behind the warm-up, in the order of a step.
    pub boundaries: Vec<Boundary>,
    /// Seconds of each of these steps, reading the pools included.
    pub step_seconds: Vec<f64>,
    /// The pools after the last step.
    pub last: PoolReading,
    /// A step, predicted.
    pub planned: Timeline,
}

impl DeviceProfile {
    /// A lower bound of the peak in use: the highest that was seen at a boundary.
    pub fn highest_in_use_bytes(&self) -> Bytes {
        self.boundaries.iter().map(|boundary| boundary.reading.in_use_bytes).max().unwrap_or_default()
    }
}

/// Trains for some steps on a device with memory pools, and reads them at every boundary. Nothing is saved.
///
/// # Errors
/// Training's own, and where the device has no pools.
pub fn profile_device(
    session: &Session,
    options: ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<DeviceProfile, ProfileError> {
    session.check_training().map_err(TrainError::from)?;
    let planned = plan(session, PlanOptions::default())?;
    let watch = PoolWatch::new(&session.device);
    let mut stepper = charge(Account::Device, || Stepper::new(session))?;
    let (mut batches, schedule) = (Batches::new(session), session.schedule());
    let mut step_seconds = Vec::with_capacity(options.steps);
    for step in 0..options.warmup + options.steps {
        let Some(batch) = batches.next()? else { break };
        if step == options.warmup {
            stepper.watch(Some(Box::new(watch.clone())));
        }
        let start = Instant::now();
        charge(Account::Device, || stepper.step(batch, step, schedule.lr(step), session.task.as_ref()))?;
        if step >= options.warmup {
            step_seconds.push(start.elapsed().as_secs_f64());
        }
        observer.tick(Tick::Step { step: step + 1 });
    }
    let device = session.config.device.devices[0];
    let last = PoolReading::of(&session.device).ok_or(ProfileError::Device { device })?;
    Ok(DeviceProfile { boundaries: highest(watch.boundaries()), step_seconds, last, planned })
}

/// Of the readings at the same boundary, the one with the most in use.
fn highest(boundaries: Vec<Boundary>) -> Vec<Boundary> {
    let mut highest: Vec<Boundary> = Vec::new();
    for boundary in boundaries {
        let same = |other: &&mut Boundary| (other.phase, &other.stage) == (boundary.phase, &boundary.stage);
        match highest.iter_mut().find(same) {
            None => highest.push(boundary),
            Some(known) if known.reading.in_use_bytes < boundary.reading.in_use_bytes => *known = boundary,
            Some(_) => {}
        }
    }
    highest.sort_by_key(|boundary| boundary.phase);
    highest
}

#[cfg(test)]
mod tests {
    use oomph_core::Phase;

    use super::*;

    #[test]
    fn of_each_boundary_the_highest_reading_is_kept() {
        let at = |phase, stage: &str, in_use| Boundary {
            phase,
            stage: stage.to_owned(),
            reading: PoolReading {
                in_use_bytes: Bytes::new(in_use),
                padding_bytes: Bytes::default(),
                reserved_bytes: Bytes::new(100),
                allocations: 1,
                pages_peak_bytes: None,
            },
        };
        let seen = vec![
            at(Phase::Forward, "stem", 10),
            at(Phase::Backward, "", 30),
            at(Phase::Forward, "stem", 12),
            at(Phase::Backward, "", 25),
        ];
        assert_eq!(highest(seen), [at(Phase::Forward, "stem", 12), at(Phase::Backward, "", 30)]);
    }
}
