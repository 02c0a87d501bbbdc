//! The characters that stand for bytes in a `tokenizer.json`: GPT-2 shows each byte as a visible character, so that tokens are
//! text. See `bytes_to_unicode` in <https://github.com/openai/gpt-2/blob/master/src/encoder.py>.

/// Whether the character of this byte is the one with its number.
fn is_visible(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The bytes in the order of GPT-2's first 256 tokens: the visible ones, then the others.
pub(crate) fn bytes() -> impl Iterator<Item = u8> {
    let with = |visible| (0..=u8::MAX).filter(move |byte| is_visible(*byte) == visible);
    with(true).chain(with(false))
}

/// The character of each byte.
pub(crate) fn characters() -> [char; 256] {
    let mut characters = ['\0'; 256];
    let mut hidden = '\u{100}'..;
    for byte in 0..=u8::MAX {
        let next = if is_visible(byte) { None } else { hidden.next() };
        characters[usize::from(byte)] = next.unwrap_or(char::from(byte));
    }
    characters
}

/// The byte of each character, by its number; characters from U+0144 on stand for none.
pub(crate) fn bytes_of_characters() -> [Option<u8>; 0x144] {
    let mut bytes = [None; 0x144];
    for (byte, character) in (0..=u8::MAX).zip(characters()) {
        bytes[character as usize] = Some(byte);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        let (characters, back) = (characters(), bytes_of_characters());
        for byte in 0..=u8::MAX {
            assert_eq!(back[characters[usize::from(byte)] as usize], Some(byte));
        }
        assert_eq!([b'a', b' ', b'\n', 0xad].map(|byte| characters[usize::from(byte)]), ['a', 'Ġ', 'Ċ', 'Ń']);
        assert_eq!(bytes().take(2).collect::<Vec<_>>(), *b"!\"");
        assert_eq!(bytes().count(), 256);
    }
}
