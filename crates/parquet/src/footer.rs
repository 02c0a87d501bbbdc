//! The footer of a file, checked before the decoder allocates what it announces.

use crate::{
    ColumnProblem,
    chunks::ReadAt,
    compact::{Compact, Field, I32, LIST, STRUCT},
};

/// The first and the last bytes of a file.
const MARK: &[u8; 4] = b"PAR1";

/// A larger footer is refused: the decoder takes some dozen times its bytes.
const MOST_BYTES: u64 = 16 << 20;

/// A file with more columns is refused.
const MOST_COLUMNS: u64 = 10_000;

/// Groups within groups.
const DEEPEST: usize = 32;

/// Checks that the file is one of Parquet, and the columns that its footer announces.
pub(crate) fn check(file: &impl ReadAt) -> Result<(), ColumnProblem> {
    let unreadable = |error: std::io::Error| ColumnProblem::Footer { reason: error.to_string() };
    let damaged = |reason: &str| ColumnProblem::Footer { reason: reason.to_owned() };
    let size = file.size();
    let mut tail = [0; 8];
    let tail_at = size.checked_sub(tail.len() as u64).ok_or(ColumnProblem::NotParquet { place: "end" })?;
    file.read_at(&mut tail, tail_at).map_err(unreadable)?;
    let [length @ .., a, b, c, d] = tail;
    if [a, b, c, d] != *MARK {
        return Err(ColumnProblem::NotParquet { place: "end" });
    }
    let mut head = [0; 4];
    file.read_at(&mut head, 0).map_err(unreadable)?;
    if head != *MARK {
        return Err(ColumnProblem::NotParquet { place: "begin" });
    }
    let length = u64::from(u32::from_le_bytes(length));
    let at = tail_at.checked_sub(length).ok_or_else(|| damaged("it is longer than the file"))?;
    if length > MOST_BYTES {
        return Err(damaged("it is longer than 16 MiB"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, at).map_err(unreadable)?;
    match columns(Compact(&bytes)) {
        Some(Ok(())) => Ok(()),
        Some(Err(reason)) => Err(damaged(reason)),
        None => Err(damaged("it ends too early, or is in no encoding of Parquet")),
    }
}

/// Checks the list of columns in the metadata of a file.
fn columns(mut bytes: Compact<'_>) -> Option<Result<(), &'static str>> {
    let mut last = 0;
    while let Some(Field { id, kind }) = bytes.field(last)? {
        last = id;
        if id != 2 {
            bytes.skip(kind)?;
            continue;
        }
        let (count, of) = if kind == LIST { bytes.list()? } else { return None };
        if of != STRUCT {
            return None;
        }
        if count > MOST_COLUMNS {
            return Some(Err("it has more than 10,000 columns"));
        }
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(of_column(&mut bytes)?);
        }
        if let Err(reason) = check_tree(&children) {
            return Some(Err(reason));
        }
    }
    Some(Ok(()))
}

/// The number of columns within a column.
fn of_column(bytes: &mut Compact<'_>) -> Option<u64> {
    let (mut last, mut children) = (0, 0);
    while let Some(Field { id, kind }) = bytes.field(last)? {
        last = id;
        match (id, kind) {
            (5, I32) => children = u64::try_from(bytes.signed()?).ok()?,
            (5, _) => return None,
            _ => bytes.skip(kind)?,
        }
    }
    Some(children)
}

/// Checks that columns are as many as they say, and not too deep within each other. Each is followed by those within it.
fn check_tree(children: &[u64]) -> Result<(), &'static str> {
    // Of each open group the columns that are still to come.
    let mut open: Vec<u64> = Vec::new();
    for (index, children) in children.iter().enumerate() {
        match open.last_mut() {
            Some(left) => *left -= 1,
            None if index == 0 => {}
            None => return Err("it has several lists of columns"),
        }
        if *children > 0 {
            open.push(*children);
        }
        if open.len() > DEEPEST {
            return Err("its columns are more than 32 levels deep");
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if open.is_empty() { Ok(()) } else { Err("it announces more columns than it has") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_many_as_announced() {
        assert!(check_tree(&[2, 0, 0]).is_ok() && check_tree(&[2, 1, 0, 2, 0, 0]).is_ok());
        assert!(check_tree(&[0]).is_ok() && check_tree(&[]).is_ok());
        assert!(check_tree(&[3, 0, 0]).is_err() && check_tree(&[1, 0, 0]).is_err());
        assert!(check_tree(&[1 << 31]).is_err());
        let nested = |levels| [vec![1; levels], vec![0]].concat();
        assert!(check_tree(&nested(32)).is_ok() && check_tree(&nested(33)).is_err());
    }
}
