/// A device failed, maybe in a kernel that was started earlier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device failed: {reason}")]
pub struct DeviceError {
    /// The device's own words.
    pub reason: String,
}

impl DeviceError {
    pub(crate) fn of(error: &impl std::fmt::Debug) -> Self {
        Self { reason: format!("{error:?}") }
    }
}
