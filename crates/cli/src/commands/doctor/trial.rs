use std::panic::catch_unwind;

use oomph_config::DeviceName;
use oomph_doctor::Check;
use oomph_trainer::device::{TrialError, try_device};

use crate::bug::{self, Bug};

/// Opens a device and checks a matrix product on it.
pub(super) fn trial(device: DeviceName) -> Check {
    let name = device.to_string();
    match catch_unwind(|| try_device(device)) {
        Ok(Ok(())) => Check::ok(name, "opened; a matrix product is correct"),
        Ok(Err(TrialError::Device(error))) => {
            let hint = error.hint().unwrap_or_else(|| "`nvidia-smi` shows the state of the GPU".to_owned());
            Check::problem(name, error.to_string(), hint)
        }
        // If the device thread panicked in a kernel, only the wrong result shows it.
        Ok(Err(error @ TrialError::Wrong { .. })) => match bug::known_panic() {
            Some(panic) => panicked(name, &panic),
            None => {
                let hint =
                    "restart the machine; if the result is still wrong, the hardware or a kernel is broken";
                Check::problem(name, error.to_string(), hint)
            }
        },
        Err(_) => panicked(name, &bug::last_panic()),
    }
}

fn panicked(name: String, panic: &Bug) -> Check {
    let explanation = panic.explanation().map(|it| format!("; likely: {}", it.what));
    Check::problem(name, format!("{panic}{}", explanation.unwrap_or_default()), panic.hint())
}
