use std::path::Path;

use oomph_data::detect::Detected;

use crate::ProposalError;

/// Refuses class folders in the working directory: a training writes its own folder `runs` between them.
///
/// # Errors
/// [`ProposalError::ClassesHere`].
pub fn refuse_classes_here(path: &Path, detected: &Detected) -> Result<(), ProposalError> {
    let is_here = || Some(path.canonicalize().ok()? == std::env::current_dir().ok()?.canonicalize().ok()?);
    let of_classes = detected.settings.iter().all(|setting| setting.key != "labels");
    let has_classes = detected.source == "folder" && of_classes && !path.join("train").is_dir();
    if has_classes && is_here() == Some(true) {
        return Err(ProposalError::ClassesHere { path: path.to_owned() });
    }
    Ok(())
}
