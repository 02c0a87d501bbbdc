use oomph_core::Bytes;

use crate::check::Check;
use oomph_memory::{
    gpu::{Card, CardState, ComputeMode, DeviceReading, NvmlError},
    processes::GpuProcess,
};

/// Checks one card: its free memory and who holds the rest, its compute mode, and its memory errors.
///
/// `on` are the processes on all cards. `own` is the id of this process, which is not counted.
pub fn gpu(card: &Card, on: &[GpuProcess], state: CardState, own: u32) -> Check {
    let name = format!("GPU {}", card.index);
    let others: Vec<&GpuProcess> =
        on.iter().filter(|process| process.card == card.index && process.pid != own).collect();
    let mut finding = card.name.clone();
    match largest(card).and_then(|part| part.memory) {
        Some(memory) => finding += &format!(", {} of {} free", memory.free_bytes, memory.total_bytes),
        None => finding += ", memory unknown",
    }
    if !others.is_empty() {
        finding += &format!("; {}", holders(&others));
    }
    if let Some((wrong, hint)) = unusable(card, state, !others.is_empty()) {
        return Check::problem(name, format!("{finding}; {wrong}"), hint);
    }
    if let Some((wrong, hint)) = unsound(state) {
        return Check::warning(name, format!("{finding}; {wrong}"), hint);
    }
    let memory = largest(card).and_then(|part| part.memory).unwrap_or_default();
    // A desktop holds some hundred MiB; that is no problem.
    if memory.used_bytes > Bytes::mib(1 << 10).max(Bytes::new(memory.total_bytes.get() / 10)) {
        let hint = "training cannot use memory that others hold; `oomph monitor` shows idle processes";
        return Check::warning(name, format!("{finding}; others hold {}", memory.used_bytes), hint);
    }
    if state.compute_mode == Some(ComputeMode::ExclusiveProcess) {
        finding += "; exclusive: one process at a time";
    }
    Check::ok(name, finding)
}

/// The check of cards that cannot be queried, because the driver lost one or fails.
pub fn lost(error: &NvmlError) -> Check {
    if error.is_lost_card() {
        let hint = "`dmesg` has a line with `Xid 79`; restart the machine, and check power and cooling";
        return Check::problem("GPUs", "the driver lost a card: it has fallen off the bus", hint);
    }
    let hint = error.hint().unwrap_or("`nvidia-smi` shows details; a restart of the machine may help");
    Check::problem("GPUs", error.to_string(), hint)
}

/// The device that programs see: the card, or in MIG mode its first instance.
fn largest(card: &Card) -> Option<DeviceReading<'_>> {
    if card.mig { card.mig_instances.first().map(|part| part.reading()) } else { Some(card.reading()) }
}

/// Why the card cannot compute now, and the hint.
fn unusable(card: &Card, state: CardState, taken: bool) -> Option<(&'static str, &'static str)> {
    match state.compute_mode {
        Some(ComputeMode::Prohibited) => {
            return Some((
                "no process can compute on it (compute mode `Prohibited`)",
                "`nvidia-smi -c DEFAULT` (as root)",
            ));
        }
        Some(ComputeMode::ExclusiveProcess) if taken => {
            return Some((
                "it serves one process at a time (compute mode `Exclusive_Process`), and another uses it",
                "wait for it to end, or `nvidia-smi -c DEFAULT` (as root)",
            ));
        }
        _ => {}
    }
    let without_instance = card.mig && card.mig_instances.is_empty();
    without_instance.then_some((
        "MIG mode is on without an instance, so programs see no GPU",
        "`nvidia-smi mig -cgi 0 -C` creates one, `nvidia-smi -mig 0` turns MIG off (both as root)",
    ))
}

/// What is wrong with the card's memory, and the hint.
fn unsound(state: CardState) -> Option<(String, &'static str)> {
    let restart = "restart the machine or reset the GPU to retire the broken memory cells";
    if let Some(errors) = state.uncorrected_errors.filter(|errors| *errors > 0) {
        return Some((format!("{errors} uncorrectable memory errors since the driver was loaded"), restart));
    }
    let pending = state.retirement_pending == Some(true);
    pending.then(|| ("broken memory cells wait for a restart".to_owned(), restart))
}

/// `python (42, ada) holds 1.00 GiB`, the largest three.
fn holders(others: &[&GpuProcess]) -> String {
    let mut others = others.to_vec();
    others.sort_by_key(|process| std::cmp::Reverse(process.used_bytes));
    let one = |process: &&GpuProcess| {
        let who = process.process.as_ref().map_or_else(
            || format!("process {}", process.pid),
            |known| {
                let program = known.command.first().map_or("", String::as_str);
                let program = program.rsplit('/').next().unwrap_or(program);
                format!("{program} ({}, {})", process.pid, known.user)
            },
        );
        match process.used_bytes {
            Some(bytes) => format!("{who} holds {bytes}"),
            None => format!("{who} uses it"),
        }
    };
    let mut text = others.iter().take(3).map(one).collect::<Vec<_>>().join(", ");
    if others.len() > 3 {
        text += &format!(", and {} more", others.len() - 3);
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use oomph_memory::gpu::{CardMemory, MigInstance, ProcessKind};

    use crate::{check::CheckState, health::tree::state_and_finding};

    /// A card of 16 GiB without processes.
    pub(in crate::health) fn card(index: u32) -> Card {
        Card {
            index,
            uuid: format!("GPU-{index}"),
            name: "NVIDIA X".into(),
            pci_bus_id: None,
            minor: Some(index),
            memory: Some(memory(0)),
            gpu_utilization_percent: None,
            memory_utilization_percent: None,
            temperature_celsius: None,
            power_watts: None,
            power_limit_watts: None,
            processes: Vec::new(),
            mig_instances: Vec::new(),
            mig: false,
        }
    }

    fn memory(used_mib: u64) -> CardMemory {
        CardMemory {
            total_bytes: Bytes::mib(16384),
            used_bytes: Bytes::mib(used_mib),
            free_bytes: Bytes::mib(16384 - used_mib),
            reserved_bytes: Bytes::mib(0),
        }
    }

    fn on(pid: u32, used: Option<u64>) -> GpuProcess {
        GpuProcess {
            pid,
            card: 0,
            used_bytes: used.map(Bytes::mib),
            kind: Some(ProcessKind::Compute),
            gpu_utilization_percent: None,
            process: None,
            parent_is_gone: false,
            stale: false,
        }
    }

    fn mode(compute_mode: ComputeMode) -> CardState {
        CardState { compute_mode: Some(compute_mode), ..CardState::default() }
    }

    #[test]
    fn a_free_card_is_well() {
        let check = gpu(&card(0), &[on(1, Some(300))], CardState::default(), 1);
        assert_eq!(state_and_finding(&check), (CheckState::Ok, "NVIDIA X, 16.0 GiB of 16.0 GiB free"));
        let alone = gpu(&card(0), &[], mode(ComputeMode::ExclusiveProcess), 1);
        assert_eq!(
            state_and_finding(&alone),
            (CheckState::Ok, "NVIDIA X, 16.0 GiB of 16.0 GiB free; exclusive: one process at a time")
        );
    }

    #[test]
    fn who_holds_its_memory_is_named() {
        let card = Card { memory: Some(memory(8192)), ..card(0) };
        let others = [on(7, Some(1024)), on(8, Some(7168)), on(9, None), on(10, None)];
        let check = gpu(&card, &others, CardState::default(), 1);
        assert_eq!(
            state_and_finding(&check),
            (
                CheckState::Warning,
                "NVIDIA X, 8.00 GiB of 16.0 GiB free; process 8 holds 7.00 GiB, process 7 holds 1.00 GiB, process 9 uses \
                 it, and 1 more; others hold 8.00 GiB"
            )
        );
    }

    #[test]
    fn a_card_that_takes_nobody_is_a_problem() {
        let state = |mode_of, others: &[GpuProcess]| gpu(&card(0), others, mode(mode_of), 1).state;
        assert_eq!(state(ComputeMode::Prohibited, &[]), CheckState::Problem);
        assert_eq!(state(ComputeMode::ExclusiveProcess, &[on(7, None)]), CheckState::Problem);
        assert_eq!(state(ComputeMode::Default, &[on(7, None)]), CheckState::Ok);
    }

    #[test]
    fn mig_without_instances_is_a_problem() {
        let empty = Card { mig: true, ..card(0) };
        assert_eq!(gpu(&empty, &[], CardState::default(), 1).state, CheckState::Problem);
        let part = MigInstance {
            uuid: "MIG-1".into(),
            name: "part".into(),
            memory: Some(memory(100)),
            processes: Vec::new(),
        };
        let cut = Card { mig_instances: vec![part], ..empty };
        assert_eq!(gpu(&cut, &[], CardState::default(), 1).state, CheckState::Ok);
    }

    #[test]
    fn broken_memory_is_a_warning() {
        let broken = CardState { uncorrected_errors: Some(2), ..CardState::default() };
        let check = gpu(&card(0), &[], broken, 1);
        assert!(
            state_and_finding(&check)
                .1
                .ends_with("2 uncorrectable memory errors since the driver was loaded")
        );
        let waiting = CardState { retirement_pending: Some(true), ..CardState::default() };
        assert_eq!(gpu(&card(0), &[], waiting, 1).state, CheckState::Warning);
    }

    #[test]
    fn a_lost_card_is_a_problem() {
        let error =
            NvmlError::Query { query: "handle of a card", source: nvml_wrapper::error::NvmlError::GpuLost };
        assert_eq!(
            state_and_finding(&lost(&error)),
            (CheckState::Problem, "the driver lost a card: it has fallen off the bus")
        );
        assert_eq!(lost(&NvmlError::NotLoaded).state, CheckState::Problem);
    }
}
