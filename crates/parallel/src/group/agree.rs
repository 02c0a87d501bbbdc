use std::error::Error;

use super::{Group, GroupError};

/// Why the ranks do not continue.
#[derive(Debug, thiserror::Error)]
pub enum Refusal<E: Error + 'static> {
    /// This rank failed, and no lower rank has the same error. This rank reports it.
    #[error(transparent)]
    Own(E),
    /// Another rank failed and reports its error.
    #[error("another rank failed and reports its error")]
    Reported,
    /// The collective itself failed.
    #[error(transparent)]
    Group(#[from] GroupError),
}

/// Returns the value of `result` if all ranks have one, so that all ranks continue or none does. Of several ranks with
/// the same error only the lowest reports it.
///
/// It is a collective. The group stays usable after a refusal.
///
/// # Errors
/// A rank has an error.
///
/// ```
/// use std::num::ParseIntError;
/// use oomph_parallel::group::{Alone, Refusal, agree};
///
/// assert_eq!(agree(&Alone, "7".parse::<u8>())?, 7);
/// assert!(matches!(agree(&Alone, "many".parse::<u8>()), Err(Refusal::Own(_))));
/// # Ok::<(), Refusal<ParseIntError>>(())
/// ```
pub fn agree<T, E: Error + 'static>(group: &dyn Group, result: Result<T, E>) -> Result<T, Refusal<E>> {
    let said = result.as_ref().err().map(E::to_string);
    // A rank without an error sends nothing. An error message may be empty, so a byte precedes it.
    let bytes = said.map(|said| [&[1], said.as_bytes()].concat()).unwrap_or_default();
    let answers = group.all_gather(bytes)?;
    let own = group.rank();
    match result {
        Ok(value) if answers.iter().all(Vec::is_empty) => Ok(value),
        Err(error) if !answers[..own].contains(&answers[own]) => Err(Refusal::Own(error)),
        _ => Err(Refusal::Reported),
    }
}

#[cfg(test)]
mod tests {
    use std::{fmt::Error, thread};

    use super::*;
    use crate::group::threads;

    fn answers(results: Vec<Result<usize, &'static str>>) -> Vec<Result<usize, Option<String>>> {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Wrong(&'static str);
        let ranks = threads(results.len(), None).unwrap().into_iter().zip(results);
        let ranks: Vec<_> = ranks
            .map(|(group, result)| {
                thread::spawn(move || match agree(&group, result.map_err(Wrong)) {
                    Ok(value) => Ok(value),
                    Err(Refusal::Own(Wrong(said))) => Err(Some(said.to_owned())),
                    Err(Refusal::Reported) => Err(None),
                    Err(Refusal::Group(error)) => panic!("{error}"),
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    }

    #[test]
    fn all_go_on_or_none_and_each_reason_is_told_once() {
        assert_eq!(answers(vec![Ok(4), Ok(5)]), [Ok(4), Ok(5)]);
        let mixed = answers(vec![Ok(4), Err("full"), Err("gone"), Err("full")]);
        let told = |said: &str| Err(Some(said.to_owned()));
        assert_eq!(mixed, [Err(None), told("full"), told("gone"), Err(None)]);
    }

    #[test]
    fn a_reason_without_words_is_one() {
        let result: Result<(), Error> = Err(Error);
        assert!(matches!(agree(&crate::group::Alone, result), Err(Refusal::Own(_))));
        assert_eq!(answers(vec![Ok(1), Err("")]), [Err(None), Err(Some(String::new()))]);
    }
}
