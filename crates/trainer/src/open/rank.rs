//! The session of one of several ranks.

use std::ops::Range;

use burn::tensor::Device;
use oomph_config::DeviceName;
use oomph_engine::{
    ranks::Replicas,
    session::{Session, threads_of_each},
};

/// The session of one rank, on the device `name`.
pub(crate) fn rank_session(
    session: &Session,
    name: DeviceName,
    device: Device,
    replicas: Replicas,
) -> Session {
    let mut config = session.config.clone();
    config.device.threads = threads_of_each(&config);
    let devices = std::mem::replace(&mut config.device.devices, vec![name]);
    Session {
        replicas,
        device,
        limits: Vec::new(),
        process_devices: Some(devices),
        ..session.with_config(config)
    }
}

/// The rows of a batch that rank `rank` of `world` trains on.
pub(crate) fn rows_of(session: &Session, rank: usize, world: usize) -> Range<usize> {
    oomph_parallel::rows(session.config.train.batch, rank, world)
}

/// Whether all devices are GPUs, and no GPU is named twice.
pub(crate) fn are_different_gpus(names: &[DeviceName]) -> bool {
    let is_first = |index: usize| !names[..index].contains(&names[index]);
    !names.contains(&DeviceName::Cpu) && (0..names.len()).all(is_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_sums_neither_on_a_gpu_named_twice_nor_on_the_cpu() {
        use DeviceName::{Cpu, Cuda};
        assert!(are_different_gpus(&[Cuda(0)]) && are_different_gpus(&[Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cpu]) && !are_different_gpus(&[Cpu, Cpu]));
    }
}
