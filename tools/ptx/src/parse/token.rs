//! Text to tokens. PTX needs no more than words, numbers and single punctuation marks.

use crate::error::PtxError;

/// A token; words keep their dots, so an opcode with its modifiers is one word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'a> {
    /// A name, a directive or an opcode: `%r1`, `.reg`, `ld.global.u32`, `shared::cta`.
    Word(&'a str),
    /// An integer literal, as the 64 bits it stands for.
    Integer(u64),
    /// `0f…`: the bits of a binary32.
    Single(u32),
    /// `0d…` or a decimal fraction.
    Double(f64),
    /// A string, without its quotes.
    Text(&'a str),
    /// Anything else, one character at a time.
    Mark(char),
}

/// A token and the line it is on, from 1.
pub(crate) type Placed<'a> = (Token<'a>, u32);

/// Splits a module into tokens; comments are dropped.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed<'_>>, PtxError> {
    let mut rest = text;
    let mut line = 1;
    let mut out = Vec::with_capacity(text.len() / 4);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\n' => {
                line += 1;
                1
            }
            // NVRTC ends its text with a NUL.
            c if c.is_whitespace() || c == '\0' => c.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => {
                let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
                line += rest[..end].matches('\n').count() as u32;
                end
            }
            '"' => {
                let end = rest[1..].find('"').ok_or_else(|| syntax(line, "a closing quote", rest))?;
                out.push((Token::Text(&rest[1..=end]), line));
                end + 2
            }
            c if c.is_ascii_digit() => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
                out.push((number(&rest[..end]).ok_or_else(|| syntax(line, "a number", &rest[..end]))?, line));
                end
            }
            c if starts_word(c) => {
                let end = word_end(rest);
                out.push((Token::Word(&rest[..end]), line));
                end
            }
            c => {
                out.push((Token::Mark(c), line));
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Ok(out)
}

fn syntax(line: u32, expected: &'static str, found: &str) -> PtxError {
    PtxError::Syntax { line, expected, found: found.chars().take(40).collect() }
}

fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%' | '.')
}

/// The end of the word that the text begins with. `::` belongs to a word, the `:` of a label does not. Directives have
/// one dot, in front: CUDA's headers write `.reg.b32`, which is two of them.
fn word_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let directive = bytes.first() == Some(&b'.');
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte == b'.' && !directive {
            at += 1;
        } else if byte == b':' && bytes.get(at + 1) == Some(&b':') {
            at += 2;
        } else {
            break;
        }
    }
    at
}

fn number(text: &str) -> Option<Token<'_>> {
    let lower = text.to_ascii_lowercase();
    if let Some(bits) = lower.strip_prefix("0f").filter(|bits| bits.len() == 8) {
        return u32::from_str_radix(bits, 16).ok().map(Token::Single);
    }
    if let Some(bits) = lower.strip_prefix("0d").filter(|bits| bits.len() == 16) {
        return u64::from_str_radix(bits, 16).ok().map(|bits| Token::Double(f64::from_bits(bits)));
    }
    if lower.contains('.') {
        return lower.parse().ok().map(Token::Double);
    }
    let digits = lower.trim_end_matches('u');
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        u64::from_str_radix(binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    value.ok().map(Token::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token<'_>> {
        tokens(text).unwrap().into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn opcodes_keep_their_modifiers_and_labels_lose_their_colon() {
        assert_eq!(
            kinds("$L1: ld.shared::cta.u32 %r1, [%rd2+-4];"),
            [
                Token::Word("$L1"),
                Token::Mark(':'),
                Token::Word("ld.shared::cta.u32"),
                Token::Word("%r1"),
                Token::Mark(','),
                Token::Mark('['),
                Token::Word("%rd2"),
                Token::Mark('+'),
                Token::Mark('-'),
                Token::Integer(4),
                Token::Mark(']'),
                Token::Mark(';'),
            ]
        );
    }

    #[test]
    fn directives_are_apart_without_a_space() {
        assert_eq!(kinds(".reg.b32 f"), [Token::Word(".reg"), Token::Word(".b32"), Token::Word("f")]);
    }

    #[test]
    fn numbers_are_read_in_every_base() {
        assert_eq!(
            kinds("0x1F 0X2u 0b101 017 42 0f3F800000 0d3FF0000000000000 1.5"),
            [
                Token::Integer(31),
                Token::Integer(2),
                Token::Integer(5),
                Token::Integer(15),
                Token::Integer(42),
                Token::Single(0x3f80_0000),
                Token::Double(1.0),
                Token::Double(1.5),
            ]
        );
    }

    #[test]
    fn comments_count_their_lines() {
        let all = tokens("a // one\n/* two\nthree */ b\n").unwrap();
        assert_eq!(all, [(Token::Word("a"), 1), (Token::Word("b"), 3)]);
    }

    #[test]
    fn an_unfinished_number_is_an_error_with_its_line() {
        assert_eq!(
            tokens("\n0xZZ"),
            Err(PtxError::Syntax { line: 2, expected: "a number", found: "0xZZ".into() })
        );
    }
}
