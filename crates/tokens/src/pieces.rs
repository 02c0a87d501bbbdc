/// Where a text may be cut so that the tokens of both parts are those of the whole: the last place between a character and
/// white space behind it, at or before `most` bytes. `None` if there is none.
///
/// The words that GPT-2's expression finds may begin with one space, and white space is grouped by what follows it. So no
/// word crosses such a place. Added tokens have no white space.
///
/// ```
/// use oomph_tokens::cut;
///
/// assert_eq!(cut("to be  or", 100), Some(5));
/// assert_eq!(cut("to be  or", 4), Some(2));
/// assert_eq!(cut("  question", 100), None);
/// ```
pub fn cut(text: &str, most: usize) -> Option<usize> {
    let most = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at))?;
    let mut behind = text[most..].chars().next();
    let mut found = None;
    for (at, character) in text[..most].char_indices().rev() {
        if !character.is_whitespace() && behind.is_some_and(char::is_whitespace) {
            found = Some(at + character.len_utf8());
            break;
        }
        behind = Some(character);
    }
    found
}

/// A text in consecutive pieces of at most about `most` bytes, cut where [`cut`] allows it; a longer piece has no such place.
pub(crate) fn pieces(text: &str, most: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > most {
        let Some(at) = cut(rest, most) else { break };
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}
