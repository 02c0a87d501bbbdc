use std::fmt;

use super::shown::names;

/// The tensors of a file that do not fit a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// The names in the file and the names in the model, if none is in both.
    pub strangers: Option<(Vec<String>, Vec<String>)>,
    /// Tensors that the model needs and the file does not have, by the file's names.
    pub missing: Vec<String>,
    /// Tensors of the file that the model does not know.
    pub unexpected: Vec<String>,
    /// Tensors of another shape or kind, each in words.
    pub different: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((theirs, ours)) = &self.strangers {
            if theirs.is_empty() {
                return f.write_str("there is no tensor in it");
            }
            return write!(f, "it has {}, and the model needs {}", names(theirs), names(ours));
        }
        let named =
            |what: &str, list: &[String]| (!list.is_empty()).then(|| format!("{what}: {}", names(list)));
        const MOST: usize = 8;
        let mut different = self.different.iter().take(MOST).cloned().collect::<Vec<_>>();
        let more = self.different.len().saturating_sub(MOST);
        different.extend((more > 0).then(|| format!("{more} more are of another shape or kind")));
        let parts = [named("missing", &self.missing), named("unexpected", &self.unexpected)];
        write!(f, "{}", parts.into_iter().flatten().chain(different).collect::<Vec<_>>().join("; "))
    }
}

impl Mismatch {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
