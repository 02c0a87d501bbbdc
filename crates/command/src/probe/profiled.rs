use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_memory::gpu::Breakdown;
use oomph_runs::Observer;
use oomph_trainer::{
    PoolReading, Session,
    profile::{ProfileOptions, profile, profile_device},
};
use serde::{Deserialize, Serialize};

use crate::{card::own_card, error::CliError};

/// The memory of some steps, planned and measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Profiled {
    /// Bytes in use: on the CPU at their peak, on a GPU at the boundary of a stage or phase where they are highest.
    pub in_use: PlannedAndMeasured,
    /// The most bytes that the pools of a GPU reserve.
    pub reserved: Option<PlannedAndMeasured>,
    /// The pools of a GPU beside the driver's account of its card.
    pub card: Option<CardAccount>,
}

/// Bytes by plan and by measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PlannedAndMeasured {
    /// By the plan.
    pub planned_bytes: Bytes,
    /// By the meter, or by the pools.
    pub measured_bytes: Bytes,
}

/// A reading of a GPU's pools, and of its card at the same time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CardAccount {
    /// Reserved by the pools.
    pub reserved_bytes: Bytes,
    /// `None` if the driver does not answer.
    pub driver: Option<Breakdown>,
}

impl PlannedAndMeasured {
    /// Planned minus measured, as a share of measured.
    pub fn difference(self) -> f64 {
        self.planned_bytes.get() as f64 / self.measured_bytes.get().max(1) as f64 - 1.0
    }
}

impl Profiled {
    /// Trains some steps.
    pub(super) fn of(
        session: &Session,
        warmup: usize,
        steps: usize,
        observer: &mut dyn Observer,
    ) -> Result<Self, CliError> {
        let options = ProfileOptions { warmup, steps, ..ProfileOptions::default() };
        match session.config.device.devices[0] {
            DeviceName::Cpu => Self::of_cpu(session, options, observer),
            device => Self::of_gpu(session, device, options, observer),
        }
    }

    fn of_cpu(
        session: &Session,
        options: ProfileOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, CliError> {
        let found = profile(session, options, observer)?;
        let [planned_bytes, measured_bytes] =
            [&found.first.planned, &found.first.measured].map(|timeline| timeline.peak().categories.total());
        let in_use = PlannedAndMeasured { planned_bytes, measured_bytes };
        Ok(Self { in_use, reserved: None, card: None })
    }

    fn of_gpu(
        session: &Session,
        device: DeviceName,
        options: ProfileOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, CliError> {
        let found = profile_device(session, options, observer)?;
        let (boundary, planned_bytes) = found.fullest(&session.config)?;
        let in_use = PlannedAndMeasured { planned_bytes, measured_bytes: boundary.reading.padded_bytes() };
        let reserved = found.planned.reserved_peak().map(|planned_bytes| PlannedAndMeasured {
            planned_bytes,
            measured_bytes: found.reserved_bytes(),
        });
        // The model is gone, and the pools may have changed since the last step.
        let card = PoolReading::of(&session.device).map(|pools| CardAccount {
            reserved_bytes: pools.reserved_bytes,
            driver: own_card(device, &pools),
        });
        Ok(Self { in_use, reserved, card })
    }
}
