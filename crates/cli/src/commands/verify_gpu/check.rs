use oomph_config::DeviceName;

use super::{
    card, device,
    figures::{CheckError, Figures},
    first_step, memory,
    numerics::{self, Numerics},
    runner::Runner,
    speed,
    trainings::Training,
};

/// One check of the list.
#[derive(Debug)]
pub(super) enum GpuCheck {
    Device,
    Numerics(Numerics),
    Memory(&'static Training),
    /// Needs the readings of the memory checks before it.
    Card,
    FirstStep(&'static Training),
    Speed(&'static Training),
}

impl GpuCheck {
    /// The checks, in their order.
    pub(super) fn list(is_quick: bool) -> Vec<Self> {
        let mut checks = vec![Self::Device];
        checks.extend(numerics::list(is_quick).into_iter().map(Self::Numerics));
        checks.extend(memory::list(is_quick).iter().copied().map(Self::Memory));
        checks.push(Self::Card);
        let timed = speed::list(is_quick);
        checks.extend(timed.iter().flat_map(|training| [Self::FirstStep(training), Self::Speed(training)]));
        checks
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Figures, CheckError> {
        match self {
            Self::Device => Ok(device::check(runner.device)),
            Self::Numerics(numerics) => numerics.check(runner),
            Self::Memory(training) => memory::check(training, runner),
            Self::Card => card::check(runner),
            Self::FirstStep(training) => first_step::check(training, runner),
            Self::Speed(training) => speed::check(training, runner),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Numerics(_) => "numerics",
            Self::Memory(_) => "memory",
            Self::Card => "card",
            Self::FirstStep(_) => "first step",
            Self::Speed(_) => "speed",
        }
    }

    pub(super) fn training(&self) -> Option<String> {
        match self {
            Self::Device | Self::Card => None,
            Self::Numerics(numerics) => Some(numerics.label()),
            Self::Memory(training) | Self::FirstStep(training) | Self::Speed(training) => {
                Some(training.name.to_owned())
            }
        }
    }

    /// Name and training, for the progress.
    pub(super) fn label(&self) -> String {
        [Some(self.name().to_owned()), self.training()].into_iter().flatten().collect::<Vec<_>>().join(": ")
    }

    /// What is compared, in words.
    pub(super) fn compares(&self, device: DeviceName) -> String {
        match self {
            Self::Device => format!("whether {device}, its driver and its libraries can train"),
            Self::Numerics(numerics) => numerics.compares(device),
            Self::Memory(_) if device == DeviceName::Cpu => {
                "the planned peak in use against that of the memory meter".to_owned()
            }
            Self::Memory(_) => format!("planned bytes in use and reserved against the pools of {device}"),
            Self::Card => {
                "reserved bytes of the pools against the driver's account of the process".to_owned()
            }
            Self::FirstStep(_) => {
                "time up to the end of the first step, without compiled kernels and with them".to_owned()
            }
            Self::Speed(_) => "nothing: the median time of a step after the warm-up".to_owned(),
        }
    }
}
