use std::panic::catch_unwind;

use oomph_config::DeviceName;
use oomph_memory::health::Check;
use oomph_trainer::{TrialError, try_device};

use crate::bug::{self, Bug};

/// Whether a device that was asked for works: it is opened, and computes something.
pub(super) fn trial(device: DeviceName) -> Check {
    let name = device.to_string();
    match catch_unwind(|| try_device(device)) {
        Ok(Ok(())) => Check::ok(name, "opened, and a product of matrices is right"),
        Ok(Err(TrialError::Device(error))) => {
            let hint = error.hint().unwrap_or_else(|| "`nvidia-smi` says more".to_owned());
            Check::problem(name, error.to_string(), hint)
        }
        // Where the thread of the device panicked at a kernel, nobody but the result tells.
        Ok(Err(error @ TrialError::Wrong { .. })) => match bug::known_panic() {
            Some(panic) => panicked(name, &panic),
            None => {
                let hint = "restart the machine; where it stays so, the hardware or a kernel is broken";
                Check::problem(name, error.to_string(), hint)
            }
        },
        Err(_) => panicked(name, &bug::last_panic()),
    }
}

fn panicked(name: String, panic: &Bug) -> Check {
    let explanation = panic.explanation().map(|it| format!("; likely, {}", it.what));
    Check::problem(name, format!("{panic}{}", explanation.unwrap_or_default()), panic.hint())
}
