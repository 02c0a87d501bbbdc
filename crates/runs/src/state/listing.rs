use std::{fs, io, path::Path};

use oomph_core::system::link_target;

use super::{Manifest, StateError, checkpoint::read_manifest};

pub(super) const LATEST: &str = "latest";
pub(super) const BEST: &str = "best";
const PREFIX: &str = "step-";

/// The checkpoints of a run, as their manifests tell it. The links `latest` and `best` may be wrong: a crash or a full disk
/// may come between a save and its links.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In the order of their saves.
    checkpoints: Vec<Listed>,
    /// Other things that are named like checkpoints, such as files.
    pub(super) others: Vec<String>,
    /// Manifests that the system refused to read, in words. Their checkpoints may be whole.
    pub(super) refused: Vec<String>,
}

/// A directory that is named like a checkpoint.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    /// The step in the name, and the number among the checkpoints of that step.
    place: (usize, usize),
    /// The number of its save within the run.
    save_number: u64,
    is_best: bool,
    is_linked: IsLinked,
}

/// A listing, and whether nothing changed while it was read.
struct Reading {
    listing: Listing,
    is_settled: bool,
}

/// Which links point to a checkpoint. They decide between checkpoints of older versions, which do not number their saves.
#[derive(Clone, Copy, Debug)]
struct IsLinked {
    latest: bool,
    best: bool,
}

impl Listing {
    /// Reads the manifests in the directory `checkpoints/` of a run. A missing directory has no checkpoints.
    ///
    /// A training may save and remove checkpoints at the same time. The reading starts again then.
    pub(super) fn read(directory: &Path) -> Result<Self, StateError> {
        const MOST_READINGS: usize = 20;
        let mut reading = Self::read_once(directory)?;
        for _ in 1..MOST_READINGS {
            if reading.is_settled {
                break;
            }
            reading = Self::read_once(directory)?;
        }
        Ok(reading.listing)
    }

    fn read_once(directory: &Path) -> Result<Reading, StateError> {
        let mut reading = Reading { listing: Self::default(), is_settled: true };
        if !directory.is_dir() {
            return Ok(reading);
        }
        let mut names = Vec::new();
        for name in entries(directory)? {
            match place(&name) {
                Some(place) if directory.join(&name).is_dir() => names.push((place, name)),
                Some(_) if directory.join(&name).symlink_metadata().is_ok() => {
                    reading.listing.others.push(name)
                }
                Some(_) => reading.is_settled = false,
                None => {}
            }
        }
        names.sort();
        let links = [LATEST, BEST].map(|link| linked(directory, link));
        // The system may leave out an entry that is made while it lists the others.
        let is_listed = |link: &String| names.iter().any(|(_, name)| name == link);
        reading.is_settled &= links.iter().flatten().all(is_listed);
        let mut last_number = 0;
        for (place, name) in names {
            let [latest, best] = links.each_ref().map(|link| link.as_ref() == Some(&name));
            let path = directory.join(&name);
            let manifest = match read_manifest(&path) {
                Err(error @ StateError::Io { .. }) => {
                    reading.listing.refused.push(error.to_string());
                    None
                }
                result => result.ok(),
            };
            reading.is_settled &= manifest.is_some() || path.exists();
            // A manifest that cannot be read has no number: the checkpoint counts as saved after those of earlier steps.
            let save_number = manifest.as_ref().map_or(last_number, |manifest| manifest.save_number);
            last_number = save_number.max(last_number);
            // A checkpoint that cannot be read now may be readable later.
            let is_best = manifest.map_or(best, |Manifest { progress, .. }| progress.is_best());
            let is_linked = IsLinked { latest, best };
            reading.listing.checkpoints.push(Listed { name, place, save_number, is_best, is_linked });
        }
        reading.listing.checkpoints.sort_by_key(|it| (it.save_number, it.is_linked.latest, it.place));
        Ok(reading)
    }

    /// Enters what is known of the newest checkpoint: its manifest may be among those that cannot be read now.
    pub(super) fn enter(&mut self, name: &str, save_number: u64, is_best: bool) {
        let Some(place) = self.checkpoints.iter().position(|it| it.name == name) else { return };
        let newest = Listed { save_number, is_best, ..self.checkpoints.remove(place) };
        self.checkpoints.push(newest);
    }

    /// The names, from the last save to the first.
    pub(super) fn newest_first(&self) -> Vec<String> {
        self.checkpoints.iter().rev().map(|it| it.name.clone()).collect()
    }

    /// The last save.
    pub(super) fn latest(&self) -> Option<&Listed> {
        self.checkpoints.last()
    }

    /// The last save that was the best when it was saved.
    pub(super) fn best(&self) -> Option<&Listed> {
        let best = self.checkpoints.iter().filter(|it| it.is_best);
        best.max_by_key(|it| (it.save_number, it.is_linked.best, it.place))
    }

    /// The last checkpoint of a step.
    pub(super) fn of_step(&self, step: usize) -> Option<&Listed> {
        let of_step = self.checkpoints.iter().filter(|it| it.place.0 == step);
        of_step.max_by_key(|it| it.place)
    }

    /// The steps that there are checkpoints of.
    pub(super) fn steps(&self) -> Vec<usize> {
        let mut steps: Vec<_> = self.checkpoints.iter().map(|it| it.place.0).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// The number of the next save: above all others, also above those of manifests that the system refuses to read.
    pub(super) fn next_number(&self) -> u64 {
        /// A step is saved again only where a run was resumed from before it.
        const MOST_SAVES_OF_A_STEP: u64 = 1_000;
        let known = self.latest().map_or(0, |latest| latest.save_number);
        let last_step = self.checkpoints.iter().map(|it| it.place.0 as u64).max().unwrap_or(0);
        let unread = if self.refused.is_empty() { 0 } else { last_step.saturating_mul(MOST_SAVES_OF_A_STEP) };
        known.max(unread).saturating_add(1)
    }

    /// The checkpoints to remove so that `keep_last` are left, besides the best and the latest. Those of the lowest steps go
    /// first. Before them go those beyond the latest: the run was resumed from an earlier checkpoint and left them behind.
    pub(super) fn removable(&self, keep_last: usize) -> Vec<String> {
        let latest = self.latest().map(|it| it.place);
        let mut by_step: Vec<_> = self.checkpoints.iter().collect();
        by_step.sort_by_key(|it| (Some(it.place) <= latest, it.place));
        let kept = [self.latest(), self.best()].map(|it| it.map(|it| it.place));
        let removable = by_step.len().saturating_sub(keep_last);
        let removed = by_step.into_iter().take(removable).filter(|it| !kept.contains(&Some(it.place)));
        removed.map(|it| it.name.clone()).collect()
    }
}

/// The names in a directory.
pub(super) fn entries(directory: &Path) -> Result<Vec<String>, StateError> {
    let names = || -> io::Result<Vec<String>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    names().map_err(StateError::io("read", directory))
}

/// The name that a link in a directory points to.
fn linked(directory: &Path, link: &str) -> Option<String> {
    let target = link_target(&directory.join(link)).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

/// Whether a name is that of a checkpoint.
pub(super) fn is_name(name: &str) -> bool {
    place(name).is_some()
}

/// The step in a checkpoint's name.
pub(super) fn step_of(name: &str) -> Option<usize> {
    place(name).map(|(step, _)| step)
}

/// The step and the number in a checkpoint's name.
pub(crate) fn place(name: &str) -> Option<(usize, usize)> {
    let rest = name.strip_prefix(PREFIX)?;
    match rest.split_once('.') {
        Some((step, number)) => Some((step.parse().ok()?, number.parse().ok()?)),
        None => Some((rest.parse().ok()?, 1)),
    }
}

/// The names for a checkpoint of a step, without end: `step-00000120`, then `step-00000120.2` … where a run that was
/// resumed from earlier saves the step again.
pub(super) fn names_of(step: usize) -> impl Iterator<Item = String> {
    let first = format!("{PREFIX}{step:08}");
    let later = (2usize..).map({
        let first = first.clone();
        move |number| format!("{first}.{number}")
    });
    std::iter::once(first).chain(later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_beside_manifests_that_cannot_be_read_is_the_newest() {
        let listed = |step: usize, save_number| Listed {
            name: format!("{PREFIX}{step:08}"),
            place: (step, 1),
            save_number,
            is_best: true,
            is_linked: IsLinked { latest: false, best: false },
        };
        let of = |checkpoints, refused: &[&str]| Listing {
            checkpoints,
            refused: refused.iter().map(|it| (*it).to_owned()).collect(),
            ..Listing::default()
        };
        assert_eq!(of(Vec::new(), &[]).next_number(), 1);
        assert_eq!(of(vec![listed(3, 6), listed(4, 7)], &[]).next_number(), 8);
        // Three of seven saves are left, and none of them can be read.
        let unread = of(vec![listed(3, 0), listed(4, 0), listed(5, 0)], &["", "", ""]);
        assert!(unread.next_number() > 7);
    }
}
