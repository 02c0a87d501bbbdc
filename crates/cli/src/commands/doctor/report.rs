use std::fmt::Write as _;

use console::style;
use oomph_doctor::{Check, CheckState};

use crate::{notices::printable, numbers::plural};

/// One line per check with aligned names and states; the hint is below the finding.
pub(super) fn report(checks: &[Check]) -> String {
    let names = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let states = checks.iter().map(|check| check.state.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { name, state, finding, hint } in checks {
        let shown = style(format!("{state:states$}"));
        let shown = match state {
            CheckState::Ok => shown.green(),
            CheckState::Skipped => shown.dim(),
            CheckState::Warning => shown.yellow().bold(),
            CheckState::Problem => shown.red().bold(),
        };
        // Writing to a string cannot fail; the same below.
        let _ = writeln!(text, "{name:names$}  {shown}  {}", printable(finding));
        if let Some(hint) = hint {
            let indent = " ".repeat(names + 2 + states + 2);
            let _ = writeln!(text, "{indent}{} {}", style("hint:").cyan().bold(), printable(hint));
        }
    }
    let _ = writeln!(text, "\n{}", verdict(checks));
    text
}

/// The last line: the number of problems and warnings.
fn verdict(checks: &[Check]) -> String {
    let counted = |(state, what): (CheckState, &str)| {
        let count = checks.iter().filter(|check| check.state == state).count();
        (count > 0).then(|| plural(count, what))
    };
    let states = [(CheckState::Problem, "problem"), (CheckState::Warning, "warning")];
    let wrong: Vec<_> = states.into_iter().filter_map(counted).collect();
    if wrong.is_empty() { "no problems".to_owned() } else { wrong.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_below_the_findings() {
        console::set_colors_enabled(false);
        let checks = [
            Check::ok("disk", "9.00 GiB free"),
            Check::skipped("GPUs", "none"),
            Check::warning("open files", "at most 256", "`ulimit -n 4096`"),
            Check::problem("x", "y", "z"),
        ];
        insta::assert_snapshot!(report(&checks), @r"
        disk        ok       9.00 GiB free
        GPUs        skipped  none
        open files  warning  at most 256
                             hint: `ulimit -n 4096`
        x           problem  y
                             hint: z

        1 problem, 1 warning
        ");
        insta::assert_snapshot!(report(&checks[..2]), @r"
        disk  ok       9.00 GiB free
        GPUs  skipped  none

        no problems
        ");
    }
}
