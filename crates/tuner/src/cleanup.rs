//! Which checkpoints of trials stay on disk.

use std::{collections::BTreeSet, fs};

use oomph_config::sections::tune::{Checkpoints, Tune};
use oomph_search::TrialState;
use oomph_study::StudyState;

use crate::{policy::Policy, setup::Folder};

/// The folder of checkpoints within a run directory.
const CHECKPOINTS: &str = "checkpoints";

/// Removes the checkpoints that `tune.checkpoints` does not keep; logs and configurations stay. Of a trial whose checkpoints
/// are gone and that continues all the same, training starts again from its first step, and comes to the same bytes.
///
/// What cannot be removed stays: a study does not end for that.
pub(crate) fn clean(folder: &Folder, state: &StudyState, policy: &Policy, tune: &Tune) {
    if tune.checkpoints == Checkpoints::All {
        return;
    }
    let kept = kept(state, policy, tune);
    for trial in state.trials() {
        if trial.stage() != TrialState::Waiting && !kept.contains(&trial.number) {
            // Most have been removed before.
            drop(fs::remove_dir_all(folder.trial(trial.number).join(CHECKPOINTS)));
        }
    }
}

/// The trials whose checkpoints stay.
fn kept(state: &StudyState, policy: &Policy, tune: &Tune) -> BTreeSet<usize> {
    let running = state.trials().iter().filter(|trial| trial.stage() == TrialState::Running);
    let mut kept: BTreeSet<_> = running.map(|trial| trial.number).collect();
    kept.extend(state.best().map(|trial| trial.number));
    if tune.checkpoints == Checkpoints::Promotable {
        let seen = state.seen(state.jobs().count(), None);
        let trials = state.view(seen);
        let left = tune.trials.saturating_sub(trials.len());
        kept.extend(policy.promotable(&trials, left));
    }
    kept
}
