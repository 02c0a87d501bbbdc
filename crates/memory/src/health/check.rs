use std::fmt;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it is.
    pub state: State,
    /// What was found: one sentence, with the numbers.
    pub finding: String,
    /// What can be done, where there is something.
    pub hint: Option<String>,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// There is nothing to look at on this machine, or in this build.
    Skipped,
    /// Training works, and something will go wrong or slowly at times.
    Warning,
    /// Training does not work like this.
    Problem,
}

impl fmt::Display for State {
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
    /// All is well.
    pub fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, finding: finding.into(), hint: None }
    }

    /// There is nothing to look at.
    pub fn skipped(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { state: State::Skipped, ..Self::ok(name, finding) }
    }

    /// It works, but.
    pub fn warning(name: impl Into<String>, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Warning, hint: Some(hint.into()), ..Self::ok(name, finding) }
    }

    /// It does not work.
    pub fn problem(name: impl Into<String>, finding: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Problem, hint: Some(hint.into()), ..Self::ok(name, finding) }
    }

    /// The same, where nobody needs what does not work: a problem is a warning then.
    #[must_use]
    pub fn unless_needed(mut self, needed: bool) -> Self {
        if self.state == State::Problem && !needed {
            self.state = State::Warning;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_that_nobody_has_is_a_warning() {
        let check = Check::problem("x", "y", "z");
        assert_eq!(check.clone().unless_needed(true).state, State::Problem);
        assert_eq!(check.unless_needed(false).state, State::Warning);
        assert_eq!(Check::ok("x", "y").unless_needed(false).state, State::Ok);
    }

    #[test]
    fn what_programs_read_is_lower_case() {
        let json = serde_json::to_string(&Check::skipped("a b", "c")).unwrap();
        assert_eq!(json, r#"{"name":"a b","state":"skipped","finding":"c","hint":null}"#);
    }
}
