//! Cuts of a chain of stages into one consecutive run of stages per device.

mod best;

use std::ops::Range;

use oomph_core::is_within;

pub use best::best_cut;

/// Why a model cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// There are fewer stages than devices.
    #[error("{stages} stages are too few for {devices} devices; each device needs at least one")]
    TooFewStages {
        /// The number of stages.
        stages: usize,
        /// The number of devices.
        devices: usize,
    },
    /// The number of split points does not match the devices.
    #[error("the split points are for {} devices, but there are {devices}", cuts + 1)]
    WrongCount {
        /// The split points given.
        cuts: usize,
        /// The number of devices.
        devices: usize,
    },
    /// No stage or group of stages has this name.
    #[error("no stage is called `{name}`; the stages are {}", listed(.stages))]
    UnknownStage {
        /// The name given.
        name: String,
        /// The known stages, in order.
        stages: Vec<String>,
    },
    /// The first stage, which the first device has in any case.
    #[error("`{name}` is the first stage of the model; the first device always begins there")]
    AtTheBeginning {
        /// The name given.
        name: String,
    },
    /// Two split points at one stage, or in the wrong order.
    #[error(
        "`{name}` does not come after `{before}` in the model; split points follow the order of the model"
    )]
    NotAscending {
        /// The name given later.
        name: String,
        /// The name given before it.
        before: String,
    },
}

fn listed(stages: &[String]) -> String {
    let quoted: Vec<_> = stages.iter().map(|stage| format!("`{stage}`")).collect();
    quoted.join(", ")
}

/// The runs of stages of `devices`, where each name in `cuts` begins the run of the next device.
///
/// A name is that of a stage or of a group of stages: `layer3` stands for `layer3.0`, the first of `layer3.0` and
/// `layer3.1`.
///
/// ```
/// let stages = ["stem", "layer1.0", "layer1.1", "layer2.0", "head"];
/// let runs = oomph_parallel::cut_by_names(&stages, &["layer2".to_owned()], 2)?;
/// assert_eq!(runs, [0..3, 3..5]);
/// # Ok::<(), oomph_parallel::CutError>(())
/// ```
///
/// # Errors
/// The names are not one fewer than the devices, name no stage or the first one, or are not in the order of the
/// model.
pub fn cut_by_names(stages: &[&str], cuts: &[String], devices: usize) -> Result<Vec<Range<usize>>, CutError> {
    if cuts.len() + 1 != devices {
        return Err(CutError::WrongCount { cuts: cuts.len(), devices });
    }
    let mut runs = Vec::with_capacity(devices);
    let mut start = 0;
    let mut before: Option<&String> = None;
    for name in cuts {
        let unknown = || CutError::UnknownStage {
            name: name.clone(),
            stages: stages.iter().map(|stage| (*stage).to_owned()).collect(),
        };
        let cut = stages.iter().position(|stage| is_within(stage, name)).ok_or_else(unknown)?;
        match before {
            _ if cut == 0 => return Err(CutError::AtTheBeginning { name: name.clone() }),
            Some(before) if cut <= start => {
                return Err(CutError::NotAscending { name: name.clone(), before: before.clone() });
            }
            _ => {}
        }
        runs.push(start..cut);
        (start, before) = (cut, Some(name));
    }
    if start == stages.len() {
        // Only a model without stages gets here, as every cut is before the end.
        return Err(CutError::TooFewStages { stages: 0, devices });
    }
    runs.push(start..stages.len());
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [&str; 6] = ["stem", "layer1.0", "layer1.1", "layer10.0", "layer2.0", "head"];

    fn cut(cuts: &[&str]) -> Result<Vec<Range<usize>>, CutError> {
        let cuts: Vec<_> = cuts.iter().map(|cut| (*cut).to_owned()).collect();
        cut_by_names(&STAGES, &cuts, cuts.len() + 1)
    }

    #[test]
    fn a_device_begins_with_the_stage_or_the_group_named() {
        assert_eq!(cut(&[]).as_deref(), Ok(std::slice::from_ref(&(0..6))));
        assert_eq!(cut(&["head"]), Ok(vec![0..5, 5..6]));
        assert_eq!(cut(&["layer1", "layer10"]), Ok(vec![0..1, 1..3, 3..6]));
        assert_eq!(cut(&["layer1.1", "layer2.0"]), Ok(vec![0..2, 2..4, 4..6]));
    }

    #[test]
    fn what_is_no_cut_is_refused_by_name() {
        let message = |cuts| cut(cuts).unwrap_err().to_string();
        assert_eq!(
            message(&["layer3"]),
            "no stage is called `layer3`; the stages are `stem`, `layer1.0`, `layer1.1`, `layer10.0`, `layer2.0`, `head`"
        );
        assert_eq!(
            message(&["stem"]),
            "`stem` is the first stage of the model; the first device always begins there"
        );
        assert_eq!(
            message(&["head", "stem"]),
            "`stem` is the first stage of the model; the first device always begins there"
        );
        assert_eq!(
            message(&["head", "layer1"]),
            "`layer1` does not come after `head` in the model; split points follow the order of the model"
        );
        assert_eq!(
            message(&["layer2", "layer2.0"]),
            "`layer2.0` does not come after `layer2` in the model; split points follow the order of the model"
        );
        let error = cut_by_names(&STAGES, &["head".to_owned()], 3).unwrap_err();
        assert_eq!(error.to_string(), "the split points are for 2 devices, but there are 3");
        assert_eq!(cut_by_names(&[], &[], 1), Err(CutError::TooFewStages { stages: 0, devices: 1 }));
    }
}
