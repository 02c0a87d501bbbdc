use std::path::PathBuf;

use serde::Serialize;

/// The paths of the written files; as JSON.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Files {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeline: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) svg: Option<PathBuf>,
    #[serde(flatten)]
    pub(super) others: Option<Others>,
}

/// The files beside the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Others {
    pub(super) snapshot: PathBuf,
    pub(super) trace: PathBuf,
    pub(super) events: PathBuf,
}
