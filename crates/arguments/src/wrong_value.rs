//! Values of the command line that are not accepted.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use oomph_config::error::one_of;

/// What is wrong with a value of the command line, in the words of `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    /// `--steps 0: expected an integer from 1 to 1000`.
    pub message: String,
    /// The nearest value that is accepted.
    pub hint: Option<String>,
}

impl WrongValue {
    /// Reads an answer of clap. `None` for other answers, such as the help or an unknown flag.
    pub fn of(answer: &clap::Error) -> Option<Self> {
        let text = |kind| match answer.get(kind)? {
            ContextValue::String(text) => Some(text.as_str()),
            _ => None,
        };
        let expected = match answer.kind() {
            ErrorKind::ValueValidation => answer.source()?.to_string(),
            ErrorKind::InvalidValue => match answer.get(ContextKind::ValidValue)? {
                ContextValue::Strings(values) if !values.is_empty() => format!("expected {}", one_of(values)),
                _ => return None,
            },
            _ => return None,
        };
        // `--steps <N>`, or `<SHELL>` for a value without a flag.
        let flag = text(ContextKind::InvalidArg)?.split(' ').next().filter(|word| word.starts_with('-'));
        let value = text(ContextKind::InvalidValue)?;
        let words = flag.into_iter().chain(Some(value).filter(|value| !value.is_empty())).collect::<Vec<_>>();
        let hint = text(ContextKind::SuggestedValue).map(|nearest| format!("did you mean `{nearest}`?"));
        Some(Self { message: format!("{}: {expected}", words.join(" ")), hint })
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, builder::PossibleValuesParser};

    use super::*;

    fn wrong(words: &[&str]) -> Option<WrongValue> {
        let steps = |text: &str| text.parse::<u8>().map_err(|_| "expected a small integer".to_owned());
        let shells = PossibleValuesParser::new(["bash", "fish", "zsh"]);
        let command = Command::new("oomph")
            .arg(Arg::new("steps").long("steps").value_name("N").value_parser(steps))
            .arg(Arg::new("shell").value_parser(shells));
        let words = ["oomph"].iter().chain(words);
        WrongValue::of(&command.try_get_matches_from(words).expect_err("a mistake"))
    }

    #[test]
    fn a_wrong_value_says_what_was_expected() {
        let message = |words: &[&str]| wrong(words).expect("a wrong value").message;
        assert_eq!(message(&["--steps", "many"]), "--steps many: expected a small integer");
        assert_eq!(message(&["--steps="]), "--steps: expected a small integer");
        let fis = wrong(&["fis"]).expect("a wrong value");
        assert_eq!(fis.message, "fis: expected one of `bash`, `fish` or `zsh`");
        assert_eq!(fis.hint.as_deref(), Some("did you mean `fish`?"));
        assert_eq!(wrong(&["--help"]), None);
        assert_eq!(wrong(&["--unknown"]), None);
        assert_eq!(wrong(&["--steps"]), None);
    }
}
