use std::error::Error;

use super::{Group, GroupError};

/// Why ranks do not go on together.
#[derive(Debug, thiserror::Error)]
pub enum Refusal<E: Error + 'static> {
    /// This rank cannot, and no rank before it says the same: it is this one that tells.
    #[error(transparent)]
    Own(E),
    /// Another rank tells why.
    #[error("another rank tells why it cannot go on")]
    Told,
    /// The ranks did not hear each other.
    #[error(transparent)]
    Group(#[from] GroupError),
}

/// Goes on where every rank can: with `result` where it is right on all of them. What is wrong on several is told by one.
///
/// It is a collective, after which all ranks know that all go on or that none does. The group is as good as before.
///
/// # Errors
/// Where a rank cannot go on.
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
    // Nothing is said by who can go on; a message begins with a byte of its own, since it may be empty.
    let bytes = said.map(|said| [&[1], said.as_bytes()].concat()).unwrap_or_default();
    let answers = group.all_gather(bytes)?;
    let own = group.rank();
    match result {
        Ok(value) if answers.iter().all(Vec::is_empty) => Ok(value),
        Err(error) if !answers[..own].contains(&answers[own]) => Err(Refusal::Own(error)),
        _ => Err(Refusal::Told),
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
                    Err(Refusal::Told) => Err(None),
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
