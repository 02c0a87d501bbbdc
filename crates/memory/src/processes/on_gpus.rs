use std::{fs, time::Duration};

use oomph_core::Bytes;

use super::{Look, Process, Procfs, Watch};
use crate::gpu::{Card, CardProcess, ProcessKind};

/// A process on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuProcess {
    /// Its id by the driver if the driver lists it, else by the kernel.
    pub pid: u32,
    /// The index of the card.
    pub card: u32,
    /// Its memory on the card; `None` if the driver does not provide it.
    pub used_bytes: Option<Bytes>,
    /// The APIs it uses; `None` if the driver does not list the process and only its open files show it.
    pub kind: Option<ProcessKind>,
    /// Share of the time since the last sample in which its kernels ran.
    pub gpu_utilization_percent: Option<u32>,
    /// The kernel's data; `None` if it is hidden or in another container.
    pub process: Option<Process>,
    /// Whether its parent has ended.
    pub parent_is_gone: bool,
    /// Whether it is [stale](super::is_stale).
    pub stale: bool,
}

/// The processes on the cards: those that the driver lists, and others that compute there by their open files. The driver
/// does not know the ids within a container.
///
/// `at` is the time of the sample since any fixed moment; `watch` keeps the earlier samples.
pub fn on_gpus(cards: &[Card], procfs: &Procfs, watch: &mut Watch, at: Duration) -> Vec<GpuProcess> {
    let mut found: Vec<GpuProcess> = cards.iter().flat_map(|card| listed(card, procfs)).collect();
    found.extend(unlisted(cards, &found, procfs));
    let looks: Vec<Option<Look>> = found.iter().map(|process| look(process, &found, cards, at)).collect();
    for (process, look) in found.iter_mut().zip(looks) {
        if let (Some(known), Some(look)) = (&process.process, look) {
            // A process on several cards is read twice, without effect.
            process.stale = watch.observe(known, look);
        }
    }
    watch.forget_before(at);
    found
}

fn listed(card: &Card, procfs: &Procfs) -> Vec<GpuProcess> {
    let of_parts = card.mig_instances.iter().flat_map(|instance| &instance.processes);
    // In MIG mode some drivers list a process with both the card and the instance.
    let own = card.processes.iter().filter(|own| !of_parts.clone().any(|part| part.pid == own.pid));
    own.chain(of_parts.clone()).map(|process| one_listed(card, process, procfs)).collect()
}

fn one_listed(card: &Card, listed: &CardProcess, procfs: &Procfs) -> GpuProcess {
    // Within a container, the driver's id may be another process's here, which has no device file open.
    let is_other = procfs.gpu_files(listed.pid).is_some_and(|files| files.is_empty());
    let process = if is_other { None } else { procfs.process(listed.pid) };
    GpuProcess {
        pid: listed.pid,
        card: card.index,
        used_bytes: listed.used_bytes,
        kind: Some(listed.kind),
        gpu_utilization_percent: listed.gpu_utilization_percent,
        parent_is_gone: process.as_ref().is_some_and(|process| procfs.parent_is_gone(process)),
        process,
        stale: false,
    }
}

fn unlisted(cards: &[Card], listed: &[GpuProcess], procfs: &Procfs) -> Vec<GpuProcess> {
    let known = |pid| listed.iter().any(|process| process.pid == pid && process.process.is_some());
    let mut found = Vec::new();
    for pid in if cards.is_empty() { Vec::new() } else { procfs.pids() } {
        let Some(files) = procfs.gpu_files(pid).filter(|files| files.computes && !known(pid)) else {
            continue;
        };
        let Some(process) = procfs.process(pid) else { continue };
        let parent_is_gone = procfs.parent_is_gone(&process);
        let open = cards.iter().filter(|card| card.minor.is_some_and(|minor| files.minors.contains(&minor)));
        found.extend(open.map(|card| GpuProcess {
            pid,
            card: card.index,
            used_bytes: None,
            kind: None,
            gpu_utilization_percent: None,
            process: Some(process.clone()),
            parent_is_gone,
            stale: false,
        }));
    }
    found
}

/// The look at a process over all its cards. `None` for a desktop, which may be idle.
fn look(process: &GpuProcess, all: &[GpuProcess], cards: &[Card], at: Duration) -> Option<Look> {
    let same: Vec<&GpuProcess> = all.iter().filter(|other| other.pid == process.pid).collect();
    if same.iter().any(|part| part.kind == Some(ProcessKind::Graphics)) {
        return None;
    }
    let states: Vec<Option<bool>> = same.iter().map(|part| is_busy(part, cards)).collect();
    let busy = match states.as_slice() {
        states if states.contains(&Some(true)) => Some(true),
        states if states.contains(&None) => None,
        _ => Some(false),
    };
    let holds_memory = same.iter().any(|part| part.used_bytes.is_none_or(|bytes| bytes.get() > 0));
    Some(Look { at, holds_memory, busy, parent_is_gone: process.parent_is_gone })
}

/// Whether it computes on its card: by the process's utilization, else by the card's.
fn is_busy(process: &GpuProcess, cards: &[Card]) -> Option<bool> {
    let card = cards.iter().find(|card| card.index == process.card)?;
    Some(process.gpu_utilization_percent.or(card.gpu_utilization_percent)? > 0)
}

/// The NVIDIA device files that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFiles {
    /// The cards: the number in `/dev/nvidia0`.
    pub minors: Vec<u32>,
    /// Whether it computes: CUDA opens `/dev/nvidia-uvm`, a monitor does not.
    pub computes: bool,
}

impl GpuFiles {
    /// Whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.minors.is_empty() && !self.computes
    }
}

impl Procfs {
    /// The device files that a process has open. `None` without permission: only root may read those of other users.
    pub fn gpu_files(&self, pid: u32) -> Option<GpuFiles> {
        let mut files = GpuFiles::default();
        for entry in fs::read_dir(self.path(format!("proc/{pid}/fd"))).ok()?.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let Some(name) = target.to_str().and_then(|path| path.strip_prefix("/dev/nvidia")) else {
                continue;
            };
            match name.parse::<u32>() {
                Ok(minor) => files.minors.push(minor),
                Err(_) => files.computes |= name == "-uvm",
            }
        }
        files.minors.sort_unstable();
        files.minors.dedup();
        Some(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gpu::{Cards, NvmlError},
        processes::procfs::tests::Tree,
    };

    /// A machine with one card and the given processes.
    struct Fake {
        processes: Vec<CardProcess>,
        busy_percent: Option<u32>,
    }

    impl Cards for Fake {
        fn sample(&mut self) -> Result<Vec<Card>, NvmlError> {
            Ok(vec![Card {
                index: 0,
                uuid: "GPU-1".into(),
                name: "card".into(),
                pci_bus_id: None,
                minor: Some(4),
                memory: None,
                gpu_utilization_percent: self.busy_percent,
                memory_utilization_percent: None,
                temperature_celsius: None,
                power_watts: None,
                power_limit_watts: None,
                processes: self.processes.clone(),
                mig_instances: Vec::new(),
                mig: false,
            }])
        }
    }

    fn listed(pid: u32, kind: ProcessKind) -> CardProcess {
        CardProcess { pid, used_bytes: Some(Bytes::mib(9)), kind, gpu_utilization_percent: None }
    }

    fn on_cuda(tree: &Tree, pid: u32) {
        tree.process(pid, 1, 3, "python train.py");
        tree.link(&format!("proc/{pid}/fd/3"), "/dev/nvidia4");
        tree.link(&format!("proc/{pid}/fd/4"), "/dev/nvidia-uvm");
    }

    /// The processes on the card after watching for `seconds`: their ids, and whether they are stale.
    fn watched(tree: &Tree, mut cards: Fake, seconds: u64) -> Vec<(u32, bool)> {
        let mut watch = Watch::default();
        let mut last = Vec::new();
        for second in (0..=seconds).step_by(10) {
            last = on_gpus(&cards.sample().unwrap(), &tree.procfs(), &mut watch, Duration::from_secs(second));
        }
        last.into_iter().map(|process| (process.pid, process.stale)).collect()
    }

    #[test]
    fn an_idle_orphan_on_an_idle_card_is_stale_after_a_minute() {
        let tree = Tree::new();
        on_cuda(&tree, 42);
        let cards = |busy_percent| Fake { processes: vec![listed(42, ProcessKind::Compute)], busy_percent };
        assert_eq!(watched(&tree, cards(Some(0)), 50), [(42, false)]);
        assert_eq!(watched(&tree, cards(Some(0)), 60), [(42, true)]);
        assert_eq!(watched(&tree, cards(Some(5)), 60), [(42, false)]);
        assert_eq!(watched(&tree, cards(None), 60), [(42, false)]);
    }

    #[test]
    fn what_the_driver_says_of_a_process_counts_more_than_its_card() {
        let tree = Tree::new();
        on_cuda(&tree, 42);
        let mut process = listed(42, ProcessKind::Compute);
        process.gpu_utilization_percent = Some(0);
        let cards = Fake { processes: vec![process], busy_percent: Some(100) };
        assert_eq!(watched(&tree, cards, 60), [(42, true)]);
    }

    #[test]
    fn a_desktop_is_never_stale() {
        let tree = Tree::new();
        on_cuda(&tree, 42);
        let cards = Fake { processes: vec![listed(42, ProcessKind::Graphics)], busy_percent: Some(0) };
        assert_eq!(watched(&tree, cards, 60), [(42, false)]);
    }

    #[test]
    fn whom_the_driver_does_not_list_is_found_by_open_files() {
        let tree = Tree::new();
        on_cuda(&tree, 42);
        tree.process(43, 1, 3, "nvidia-smi");
        tree.link("proc/43/fd/3", "/dev/nvidia4");
        let cards = Fake { processes: Vec::new(), busy_percent: Some(0) };
        assert_eq!(watched(&tree, cards, 60), [(42, true)]);
    }

    #[test]
    fn an_id_of_the_machine_is_not_taken_for_one_of_the_container() {
        let tree = Tree::new();
        on_cuda(&tree, 42);
        tree.process(7, 1, 3, "bash");
        tree.link("proc/7/fd/0", "/dev/null");
        let mut cards = Fake { processes: vec![listed(7, ProcessKind::Compute)], busy_percent: Some(0) };
        let found = on_gpus(&cards.sample().unwrap(), &tree.procfs(), &mut Watch::default(), Duration::ZERO);
        let seen: Vec<_> = found.iter().map(|it| (it.pid, it.process.is_some(), it.kind.is_some())).collect();
        assert_eq!(seen, [(7, false, true), (42, true, false)]);
    }

    #[test]
    fn open_files_tell_cards_and_computing() {
        let tree = Tree::new();
        for (fd, target) in
            ["/dev/nvidiactl", "/dev/nvidia3", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/null", "socket:[7]"]
                .iter()
                .enumerate()
        {
            tree.link(&format!("proc/42/fd/{fd}"), target);
        }
        tree.link("proc/43/fd/0", "/dev/nvidiactl");
        let files = tree.procfs().gpu_files(42).unwrap();
        assert_eq!((files.minors.as_slice(), files.computes), (&[3][..], true));
        assert!(tree.procfs().gpu_files(43).unwrap().is_empty());
        assert_eq!(tree.procfs().gpu_files(44), None);
    }
}
