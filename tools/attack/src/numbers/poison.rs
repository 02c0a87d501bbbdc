//! A poison: a value, and the place and moment at which the program `poisoned` puts it.

use oomph_core::Generator;

use super::recipes::{PoisonRecipe, SAMPLES, STEPS};

/// The places, in the order of the table.
pub(super) const PLACES: [&str; 10] = [
    "input",
    "target",
    "held-out",
    "forward",
    "loss",
    "gradient",
    "parameter",
    "mean",
    "variance",
    "carried",
];

/// A poison.
#[derive(Clone, Debug)]
pub(super) struct Poison {
    pub(super) place: &'static str,
    /// The step from 0; for data the index of the sample.
    pub(super) step: u64,
    pub(super) value: &'static str,
    stage: &'static str,
    is_everywhere: bool,
    part: &'static str,
}

/// Values that are not finite come up as often as those that are; a finite one overflows 32 bits, its square does, or 16
/// bits; or it is a denormal.
const VALUES: [&str; 12] =
    ["nan", "nan", "inf", "inf", "-inf", "-inf", "3e38", "-3e38", "1e20", "-1e30", "1e5", "1e-42"];

impl Poison {
    /// Whether the recipe has the place.
    pub(super) fn is_possible(recipe: &PoisonRecipe, place: &str) -> bool {
        match place {
            "target" => !recipe.has_classes,
            "carried" => recipe.carries,
            // Frozen stages evaluate.
            "mean" | "variance" => !recipe.frozen.contains(&"norm"),
            _ => true,
        }
    }

    /// A poison for a place that the recipe has.
    pub(super) fn draw(recipe: &PoisonRecipe, place: &'static str, random: &mut Generator) -> Self {
        let step = match place {
            "input" | "target" => random.below(SAMPLES),
            "held-out" => random.below(16),
            _ => random.below(STEPS as usize),
        };
        let value = VALUES[random.below(VALUES.len())];
        let stages: &[_] = match place {
            "parameter" => &["hidden", "deep", "head"],
            _ => &["norm", "hidden", "deep", "head"],
        };
        // A frozen stage evaluates. The graph begins behind the frozen stages that come first.
        let stages: Vec<_> = stages.iter().filter(|stage| !recipe.frozen.contains(*stage)).collect();
        let stage = stages[random.below(stages.len())];
        let is_everywhere = random.chance(0.3);
        let part = match random.below(4) {
            0 => "first",
            1 if recipe.has_replicas => "last",
            _ => "all",
        };
        Self { place, step: step as u64, value, stage, is_everywhere, part }
    }

    /// The variable `POISON`.
    pub(super) fn variable(&self) -> String {
        let Self { place, step, value, stage, is_everywhere, part } = self;
        let extent = if *is_everywhere { "all" } else { "one" };
        format!("place={place},step={step},value={value},stage={stage},extent={extent},part={part}")
    }

    /// Whether it is of a sample, which any step of the first epoch may take.
    pub(super) fn is_of_data(&self) -> bool {
        ["input", "target", "held-out"].contains(&self.place)
    }

    /// The last step whose checkpoint cannot know of it, of a training that ended with an error of step `named`, or with none.
    pub(super) fn clean_until(&self, named: Option<u64>) -> u64 {
        match (self.place, named) {
            // These are not trained on.
            ("held-out", _) => STEPS,
            // The step that took the sample has a loss that is not finite.
            ("input" | "target", Some(step)) if self.is_bad() => step.saturating_sub(1),
            // Any step of the first epoch may have taken it.
            ("input" | "target", _) => 0,
            _ => self.step,
        }
    }

    /// Whether the value itself is not finite.
    fn is_bad(&self) -> bool {
        ["nan", "inf", "-inf"].contains(&self.value)
    }

    /// Whether a training that completes has lost something: it must have seen this.
    pub(super) fn cannot_be_absorbed(&self, recipe: &PoisonRecipe) -> bool {
        let is_bad = self.is_bad();
        match self.place {
            "loss" => is_bad && !recipe.skips,
            // The statistics of the first device are saved. Later micro-batches start from the old ones, and the last counts.
            "mean" | "variance" => is_bad && !recipe.skips && self.part == "all",
            "target" => is_bad,
            "input" => self.value == "nan",
            "carried" => is_bad && self.part == "all",
            _ => false,
        }
    }

    /// The step that an error must name, where there is just one.
    pub(super) fn named_step(&self) -> Option<u64> {
        (self.place == "loss" && self.is_bad()).then_some(self.step + 1)
    }

    /// The parameter that an error must name, where nothing else can be broken.
    pub(super) fn named(&self) -> Option<&'static str> {
        match self.place {
            "mean" => Some("norm.norm.running_mean"),
            "variance" => Some("norm.norm.running_var"),
            _ => None,
        }
    }
}
