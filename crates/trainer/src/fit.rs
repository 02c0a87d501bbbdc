//! `memory.fit = "auto"` at the start of a training.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use oomph_advice::planning::{PlanOptions, choice_of, fit_changes, planned_peak, with_choice};
use oomph_config::{Change, Config};
use oomph_engine::session::Session;
use oomph_memory::{Account, charge};
use oomph_runs::{Fitted, RunDirectory, state::Checkpoint};

use crate::{Resume, TrainError, device::find_precision, open::SessionError};

/// The session with what `memory.fit = "auto"` chooses. The devices compute in the precision that it chose.
///
/// # Errors
/// Where the model cannot be planned, or a device lacks the precision.
pub fn fitted(session: &Session) -> Result<Cow<'_, Session>, TrainError> {
    match fit_changes(session, PlanOptions::default())? {
        Some(changes) => Ok(Cow::Owned(with_changes(session, &changes)?)),
        None => Ok(Cow::Borrowed(session)),
    }
}

/// As [`fitted`], for a training: one that resumes keeps what its checkpoint was trained with. With the event that says so, if
/// anything is chosen.
pub(crate) fn fitted_to_train<'a>(
    session: &'a Session,
    resume: &Resume,
) -> Result<(Cow<'a, Session>, Option<Fitted>), TrainError> {
    if !session.awaits_fit() {
        return Ok((Cow::Borrowed(session), None));
    }
    // All of it is memory of the host.
    charge(Account::Host, || {
        let kept = earlier(session, resume).map(|earlier| choice_of(&earlier, &session.config));
        let changes = match kept {
            Some(kept) => Some(kept),
            None => fit_changes(session, PlanOptions::default())?,
        };
        let Some(changes) = changes else { return Ok((Cow::Borrowed(session), None)) };
        let session = with_changes(session, &changes)?;
        let event = (!changes.is_empty()).then(|| event(&session, &changes)).transpose()?;
        Ok((Cow::Owned(session), event))
    })
}

fn with_changes(session: &Session, changes: &[Change]) -> Result<Session, TrainError> {
    let fitted = with_choice(session, changes)?;
    let precision = fitted.config.memory.precision;
    if precision != session.config.memory.precision {
        let devices = &session.config.device.devices;
        devices.iter().try_for_each(|name| find_precision(*name, precision)).map_err(SessionError::from)?;
    }
    Ok(fitted)
}

/// The configuration of the checkpoint that a training resumes from. Starting it reports what is wrong with it.
fn earlier(session: &Session, resume: &Resume) -> Option<Config> {
    let path: PathBuf = match resume {
        Resume::No => return None,
        Resume::Latest => {
            let configured = session.config.run.directory.clone();
            configured.unwrap_or_else(|| RunDirectory::last(session.config.name()))
        }
        Resume::From(path) => path.clone(),
    };
    let config = Checkpoint::find(&path).ok()?.checkpoint.config().ok()?;
    Config::from_toml("the checkpoint's config", &config).ok()
}

fn event(session: &Session, changes: &[Change]) -> Result<Fitted, TrainError> {
    let settings: BTreeMap<String, String> = changes.iter().map(Change::setting).collect();
    Ok(Fitted { settings, planned_peak_bytes: planned_peak(session, PlanOptions::default())? })
}
