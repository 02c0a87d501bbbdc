use std::collections::HashMap;

use crate::names::{Name, Names};

/// Maps scopes to stages.
#[derive(Debug)]
pub(super) struct StageTable {
    stages: HashMap<String, Name>,
    /// The results so far, by scope.
    known: HashMap<Name, Option<Name>>,
}

impl StageTable {
    pub(super) fn new(stages: &[String], names: &mut Names) -> Self {
        let stages = stages.iter().filter(|stage| !stage.is_empty());
        Self { stages: stages.map(|stage| (stage.clone(), names.of(stage))).collect(), known: HashMap::new() }
    }

    /// The longest stage name that equals the scope or is a prefix of it at a dot.
    pub(super) fn of(&mut self, scope: Name, names: &Names) -> Option<Name> {
        *self.known.entry(scope).or_insert_with(|| {
            let text = names.text(scope);
            // Tries the whole name first, its first part last.
            let mut ends = std::iter::once(text.len()).chain(text.rmatch_indices('.').map(|(at, _)| at));
            ends.find_map(|end| self.stages.get(&text[..end]).copied())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stage_at_a_dot_wins() {
        let mut names = Names::default();
        let stages = ["stem", "layer1", "layer1.0", "layer1.10", ""].map(str::to_owned);
        let mut table = StageTable::new(&stages, &mut names);
        for (scope, expected) in [
            ("stem", Some("stem")),
            ("stem.conv", Some("stem")),
            ("stems", None),
            ("layer1.0.conv1", Some("layer1.0")),
            ("layer1.10.conv1", Some("layer1.10")),
            ("layer1.1.conv1", Some("layer1")),
            ("loss", None),
            ("", None),
        ] {
            let scope_name = names.of(scope);
            for _ in 0..2 {
                let stage = table.of(scope_name, &names).map(|stage| names.text(stage));
                assert_eq!(stage, expected, "{scope}");
            }
        }
    }
}
