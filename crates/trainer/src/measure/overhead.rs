//! What an operation of a training costs beside its kernel.

use oomph_advice::planning::{PlanOptions, plan_with_time};
use oomph_calibration::Calibration;
use oomph_config::Config;
use oomph_plan::time::{DeviceSpeeds, Measured};
use oomph_runs::Quiet;

use super::steps::{MeasureError, measure};
use crate::{Registry, TrainError, open::open};

/// Trainings with many operations and little to compute: their steps consist of what is beside the kernels.
const TRAININGS: [&str; 3] = [
    "model = { name = 'resnet18', stem = 'small', width = 4 }
     data = { source = 'synthetic', height = 16, width = 16, workers = 0 }
     optimizer = { name = 'sgd', momentum = 0.9 }
     train.batch = 2",
    "model = { name = 'resnet50', stem = 'small', width = 4 }
     data = { source = 'synthetic', height = 16, width = 16, workers = 0 }
     optimizer = { name = 'adam' }
     train.batch = 2",
    "model = { name = 'lstm', hidden = 16, layers = 3 }
     data = { source = 'synthetic', kind = 'sequence', steps = 8, features = 8, workers = 0 }
     optimizer = { name = 'adamw' }
     train.batch = 2",
];

/// The least seconds, where kernels alone are planned longer than the whole step.
const LEAST: f64 = 1e-7;

/// Steps of each training.
const STEPS: usize = 40;

/// The seconds that an operation takes beside its kernel, by whole steps of small trainings: autodiff, parameters, gradients and the
/// optimizer keep their books. `calibration` has the kernels. It is the median of several trainings.
///
/// # Errors
/// Where a training fails or memory runs out.
pub fn measured_overhead(calibration: &Calibration) -> Result<f64, MeasureError> {
    let mut found = Vec::new();
    for training in TRAININGS {
        let text = format!("{training}\ndevice.threads = {}", calibration.machine.threads);
        let config = Config::from_toml("calibrate", &text).map_err(crate::SessionError::from);
        let mut session =
            config.and_then(|config| open(config, &Registry::builtin())).map_err(TrainError::from)?;
        let mut planned = |overhead: f64| -> Result<f64, MeasureError> {
            let speeds = Measured::new(&calibration.samples, 0.0).with_overhead(overhead);
            session.speeds = DeviceSpeeds::typical(Measured::default()).with_cpu(speeds);
            let (_, time) = plan_with_time(&session, PlanOptions::default()).map_err(TrainError::from)?;
            // One CPU has a known speed.
            Ok(time.map_or(0.0, |time| time.step_seconds))
        };
        let kernels = planned(0.0)?;
        let operations = planned(1.0)? - kernels;
        let measured = measure(&session, STEPS, &mut Quiet)?.step_seconds;
        found.push(((measured - kernels) / operations.max(1.0)).max(LEAST));
    }
    found.sort_by(f64::total_cmp);
    Ok(found[found.len() / 2])
}
