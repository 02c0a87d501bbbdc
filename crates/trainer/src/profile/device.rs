use oomph_config::Config;
use oomph_core::Bytes;
use oomph_memory::{Account, charge};
use oomph_timeline::Timeline;

use oomph_advice::{
    check_training,
    planning::{PlanOptions, plan},
};
use oomph_engine::{device_failure, exhausted, session::Session};
use oomph_runs::{Observer, Tick};

use super::{PlannedBoundaries, ProfileError, ProfileOptions};
use crate::{
    Boundary, PoolReading, PoolWatch, TrainError, batches::Batches, driver::Driver, fit::fitted,
    open::new_stepper,
};

/// The profile of a device with memory pools: readings where phases and stages end. Memory between two boundaries is not
/// seen. Each reading waits for the device, so steps are slower than in training.
#[derive(Clone, Debug)]
pub struct DeviceProfile {
    /// The highest reading of each boundary over the profiled steps, in the order of a step.
    pub boundaries: Vec<Boundary>,
    /// Seconds of each profiled step, with the time of the readings.
    pub step_seconds: Vec<f64>,
    /// The pools after the last step.
    pub last: PoolReading,
    /// The plan of a step.
    pub planned: Timeline,
}

impl DeviceProfile {
    /// The boundary with the most bytes in use, padding included, and the bytes that the plan has there, in a training with
    /// this configuration. Nothing is seen between boundaries, so the reading is a lower bound of the peak.
    ///
    /// # Errors
    /// Without a reading, and where the plan lacks the boundary.
    pub fn fullest(&self, config: &Config) -> Result<(&Boundary, Bytes), ProfileError> {
        let planned = PlannedBoundaries::of(&self.planned, config);
        let is_comparable =
            |boundary: &&Boundary| planned.is_comparable(boundary.phase.name(), &boundary.stage);
        let boundaries = self.boundaries.iter().filter(is_comparable);
        let fullest = boundaries.max_by_key(|boundary| boundary.reading.padded_bytes());
        let fullest = fullest.ok_or(ProfileError::NoSteps)?;
        let Boundary { phase, stage, .. } = fullest;
        let planned = planned.bytes(phase.name(), stage);
        let unplanned = || ProfileError::Unplanned { phase: *phase, stage: stage.clone() };
        Ok((fullest, planned.ok_or_else(unplanned)?))
    }

    /// The most reserved bytes of all readings.
    pub fn reserved_bytes(&self) -> Bytes {
        let readings = self.boundaries.iter().map(|boundary| boundary.reading).chain([self.last]);
        readings.map(|reading| reading.reserved_bytes).max().unwrap_or_default()
    }
}

/// Trains for some steps on a device with memory pools, and reads the pools at every boundary. Nothing is saved.
///
/// # Errors
/// Where training fails, and where the device has no pools.
pub fn profile_device(
    session: &Session,
    options: ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<DeviceProfile, ProfileError> {
    let session = &*fitted(session)?;
    check_training(session).map_err(TrainError::from)?;
    let planned = plan(session, PlanOptions::default()).map_err(TrainError::from)?;
    let watch = PoolWatch::new(&session.device);
    let (stepper, _) = charge(Account::Device, || new_stepper(session))?;
    let devices = &session.config.device.devices;
    let mut batches = Batches::new(session);
    let mut driver = Driver::leading(session, stepper, 0);
    let mut step_seconds = Vec::with_capacity(options.steps);
    for step in 0..options.warmup + options.steps {
        let Some(batch) = batches.next()? else { break };
        if step == options.warmup {
            driver.stepper.watch(Some(Box::new(watch.clone())));
        }
        let driven = driver.step(batch)?;
        exhausted::check().map_err(TrainError::from)?;
        // Kernels are launched ahead: without waiting, the time would be that of the launches.
        device_failure::on(devices, || device_failure::settle(&session.device)).map_err(TrainError::from)?;
        if step >= options.warmup {
            step_seconds.push(driven.begun.elapsed().as_secs_f64());
        }
        observer.tick(Tick::Step { step: step + 1 });
    }
    let device = devices[0];
    let last = PoolReading::of(&session.device).ok_or(ProfileError::Device { device })?;
    Ok(DeviceProfile { boundaries: highest(watch.boundaries()), step_seconds, last, planned })
}

/// The highest reading of each boundary.
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
