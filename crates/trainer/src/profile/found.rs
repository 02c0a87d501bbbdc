use oomph_advice::out_of_memory::OutOfMemory;
use oomph_core::Bytes;
use oomph_timeline::Timeline;

/// Some steps of a training, measured and planned.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The first device.
    pub first: ProfiledDevice,
    /// The other devices.
    pub others: Vec<ProfiledDevice>,
    /// Seconds of each profiled step.
    pub step_seconds: Vec<f64>,
    /// The most host bytes after a step, the recording left out.
    pub host_bytes: Bytes,
    /// The error that ended the profile early, if memory ran out.
    pub out_of_memory: Option<OutOfMemory>,
}

impl Profile {
    /// All devices, in order.
    pub fn devices(&self) -> impl Iterator<Item = &ProfiledDevice> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// One device of a profile.
#[derive(Clone, Debug)]
pub struct ProfiledDevice {
    /// The first and the last stage of the device's model part, if the model is split.
    pub stages: Option<[String; 2]>,
    /// Bytes in use and the device's work, over the profiled steps and the evaluation. Where memory ran out in the
    /// warm-up, over the warm-up.
    pub measured: Timeline,
    /// The plan of the same steps.
    pub planned: Timeline,
}
