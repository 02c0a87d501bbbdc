//! The names of the sections.

/// The sections, in the order in which they are written.
pub(crate) const SECTIONS: [&str; 9] =
    ["model", "data", "train", "optimizer", "schedule", "memory", "device", "run", TUNE];

/// The sections whose readers are not in this crate.
pub(crate) const OPEN_SECTIONS: [&str; 2] = ["model", "data"];

/// The section of a search, which a training does not read.
pub(crate) const TUNE: &str = "tune";

/// The keys that a search varies are below this one.
pub(crate) const SPACE: &str = "tune.space";

/// The keys of a parameter's table.
pub(crate) const PARAMETER_KEYS: [&str; 6] = ["low", "high", "step", "log", "choices", "when"];
