//! Counts how cases ended, by kind.

use crate::{Answer, Outcome};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The command did what was asked: the damage did not matter to it.
    Accepted,
    /// The command said what is wrong.
    Refused,
    /// The command still worked after some seconds, and ended when it was asked to.
    Interrupted,
}

/// A case that was tried.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) kind: &'static str,
    pub(crate) end: End,
    /// What was wrong, with all that is needed to repeat it.
    pub(crate) harm: Option<String>,
    /// How many cases it counts for, where one command tries several texts.
    pub(crate) count: usize,
}

impl End {
    /// How an answer ended.
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer.code() {
            Some(0) => Self::Accepted,
            Some(130 | 143) | None => Self::Interrupted,
            Some(_) => Self::Refused,
        }
    }
}

/// The table and the harms of all cases. Kinds come in the order of `kinds`; one without cases has no row.
pub(crate) fn outcome(kinds: &[&'static str], tried: Vec<Tried>) -> Outcome {
    let mut outcome = Outcome {
        titles: vec!["what is attacked", ">tried", ">accepted", ">refused", ">interrupted", ">harms"],
        ..Outcome::default()
    };
    for kind in kinds {
        let of_kind: Vec<_> = tried.iter().filter(|it| it.kind == *kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let sum = |is_counted: &dyn Fn(&Tried) -> bool| {
            let counted = of_kind.iter().filter(|it| is_counted(it));
            counted.map(|it| it.count).sum::<usize>().to_string()
        };
        outcome.rows.push(vec![
            (*kind).to_owned(),
            sum(&|_| true),
            sum(&|it| it.end == End::Accepted),
            sum(&|it| it.end == End::Refused),
            sum(&|it| it.end == End::Interrupted),
            of_kind.iter().filter(|it| it.harm.is_some()).count().to_string(),
        ]);
    }
    outcome.tried = tried.iter().map(|it| it.count).sum();
    outcome.harms = tried.into_iter().filter_map(|it| it.harm).collect();
    outcome
}
