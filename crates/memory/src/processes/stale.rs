use std::{collections::HashMap, time::Duration};

use super::Process;

/// The idle time on all GPUs after which a process is stale.
pub const STALE_AFTER: Duration = Duration::from_secs(60);

/// The longest gap between two looks that still covers the time between them: drivers keep samples for some seconds.
pub const LONGEST_GAP: Duration = Duration::from_secs(30);

/// The observation of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The time since any fixed moment.
    pub at: Duration,
    /// Whether it held memory of a GPU.
    pub holds_memory: bool,
    /// Whether its kernels ran since the previous look; `None` if unknown.
    pub busy: Option<bool>,
    /// Whether its parent had ended.
    pub parent_is_gone: bool,
}

impl Look {
    fn is_idle(&self) -> bool {
        self.holds_memory && self.busy == Some(false)
    }
}

/// Whether a process is stale: it holds GPU memory, has run no kernel for [`STALE_AFTER`], and its parent has ended.
/// `looks` are in the order of time.
///
/// In doubt a process is not stale: without utilization by process, none is.
pub fn is_stale(looks: &[Look]) -> bool {
    let Some(last) = looks.last() else { return false };
    if !(last.is_idle() && last.parent_is_gone) {
        return false;
    }
    let mut since = last.at;
    for look in looks.iter().rev() {
        if !look.is_idle() || since.saturating_sub(look.at) > LONGEST_GAP {
            break;
        }
        since = look.at;
    }
    last.at.saturating_sub(since) >= STALE_AFTER
}

/// The history of looks at processes.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By id and start time: ids are reused.
    looks: HashMap<(u32, Duration), Vec<Look>>,
}

impl Watch {
    /// Records a look, and returns whether the process is stale.
    pub fn observe(&mut self, process: &Process, look: Look) -> bool {
        let looks = self.looks.entry((process.pid, process.started)).or_default();
        looks.push(look);
        // Only the last minute matters, with the look that begins it.
        let old = looks.iter().take_while(|old| old.at + STALE_AFTER <= look.at).count();
        looks.drain(..old.saturating_sub(1));
        is_stale(looks)
    }

    /// Forgets the processes that were not looked at since `at`.
    pub fn forget_before(&mut self, at: Duration) {
        self.looks.retain(|_, looks| looks.last().is_some_and(|look| look.at >= at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(second: u64) -> Look {
        Look { at: Duration::from_secs(second), holds_memory: true, busy: Some(false), parent_is_gone: true }
    }

    fn looks(seconds: impl IntoIterator<Item = u64>) -> Vec<Look> {
        seconds.into_iter().map(look).collect()
    }

    #[test]
    fn an_idle_orphan_is_stale_after_a_minute() {
        assert!(!is_stale(&[]));
        assert!(!is_stale(&looks((0..60).step_by(2))));
        assert!(is_stale(&looks((0..=60).step_by(2))));
    }

    #[test]
    fn work_within_the_minute_keeps_it() {
        let mut seen = looks((0..=100).step_by(10));
        seen[5].busy = Some(true);
        assert!(!is_stale(&seen));
        seen[5].busy = None;
        assert!(!is_stale(&seen));
        seen[5].busy = Some(false);
        assert!(is_stale(&seen));
        seen[3].busy = Some(true);
        assert!(is_stale(&seen));
    }

    #[test]
    fn a_parent_or_no_memory_keeps_it() {
        let mut seen = looks((0..=100).step_by(10));
        seen[10].parent_is_gone = false;
        assert!(!is_stale(&seen));
        seen[10] = Look { holds_memory: false, ..look(100) };
        assert!(!is_stale(&seen));
    }

    #[test]
    fn a_parent_may_have_gone_within_the_minute() {
        let mut seen = looks((0..=100).step_by(10));
        seen[..10].iter_mut().for_each(|look| look.parent_is_gone = false);
        assert!(is_stale(&seen));
    }

    #[test]
    fn two_looks_far_apart_prove_nothing() {
        assert!(!is_stale(&looks([0, 600])));
        assert!(!is_stale(&looks([0, 10, 20, 600, 610])));
        assert!(is_stale(&looks([0, 30, 60])));
    }

    #[test]
    fn a_watch_remembers_no_more_than_it_needs_and_tells_processes_apart() {
        let tree = crate::processes::procfs::tests::Tree::new();
        tree.process(7, 1, 3, "python x.py");
        let mut process = tree.procfs().process(7).unwrap();
        let mut watch = Watch::default();
        let stale: Vec<bool> = (0..500).map(|second| watch.observe(&process, look(second))).collect();
        assert_eq!(stale.iter().position(|&it| it), Some(60));
        assert!(watch.looks.values().all(|looks| looks.len() <= 62));
        process.started += Duration::from_secs(1);
        assert!(!watch.observe(&process, look(500)));
        watch.forget_before(Duration::from_secs(500));
        assert_eq!(watch.looks.len(), 1);
    }
}
