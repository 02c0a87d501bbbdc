use std::fmt;

use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing that was checked.
    pub name: String,
    /// Its state.
    pub state: CheckState,
    /// The finding: one sentence, with the numbers.
    pub finding: String,
    /// The remedy, if there is one.
    pub hint: Option<String>,
}

/// The state of a checked thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Nothing is wrong.
    Ok,
    /// There is nothing to check on this machine or in this build.
    Skipped,
    /// Training works, but will be slow or fail at times.
    Warning,
    /// Training does not work.
    Problem,
}

impl fmt::Display for CheckState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}

impl Check {
    /// A check that found nothing wrong.
    pub fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { name: name.into(), state: CheckState::Ok, finding: finding.into(), hint: None }
    }

    /// A check that does not apply.
    pub fn skipped(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { state: CheckState::Skipped, ..Self::ok(name, finding) }
    }

    /// A check that found a risk.
    pub fn warning(name: impl Into<String>, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: CheckState::Warning, hint: Some(hint.into()), ..Self::ok(name, finding) }
    }

    /// A check that found a defect.
    pub fn problem(name: impl Into<String>, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: CheckState::Problem, hint: Some(hint.into()), ..Self::ok(name, finding) }
    }

    /// Turns a problem into a warning unless the checked thing is `needed`.
    #[must_use]
    pub fn unless_needed(mut self, needed: bool) -> Self {
        if self.state == CheckState::Problem && !needed {
            self.state = CheckState::Warning;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_something_unneeded_is_a_warning() {
        let check = Check::problem("x", "y", "z");
        assert_eq!(check.clone().unless_needed(true).state, CheckState::Problem);
        assert_eq!(check.unless_needed(false).state, CheckState::Warning);
        assert_eq!(Check::ok("x", "y").unless_needed(false).state, CheckState::Ok);
    }

    #[test]
    fn json_keys_and_states_are_lower_case() {
        let json = serde_json::to_string(&Check::skipped("a b", "c")).unwrap();
        assert_eq!(json, r#"{"name":"a b","state":"skipped","finding":"c","hint":null}"#);
    }
}
