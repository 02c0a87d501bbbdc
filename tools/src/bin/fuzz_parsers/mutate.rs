//! Makes inputs: random bytes, and valid inputs with changes.

use oomph_core::Generator;

/// Numbers at the limits of integer types.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// The largest input, unless a seed is larger.
const MOST_BYTES: usize = 4096;

/// An input for a parser. `seeds` are valid inputs; `words` are parts of them.
pub(crate) fn input(generator: &mut Generator, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    if seeds.is_empty() || generator.below(16) == 0 {
        let count = generator.below(256);
        return (0..count).map(|_| generator.bits() as u8).collect();
    }
    let mut bytes = seeds[generator.below(seeds.len())].clone();
    // Mostly few changes, so that the parser reads far.
    let changes = 1 + generator.below(2) * generator.below(8);
    for _ in 0..changes {
        change(generator, &mut bytes, seeds, words);
    }
    bytes.truncate(MOST_BYTES.max(seeds.iter().map(Vec::len).max().unwrap_or(0) + 1));
    bytes
}

fn change(generator: &mut Generator, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&[u8]]) {
    let place = generator.below(bytes.len() + 1);
    match generator.below(9) {
        0 => bytes.truncate(place),
        1 => insert(bytes, place, &[generator.bits() as u8]),
        2 if !words.is_empty() => insert(bytes, place, words[generator.below(words.len())]),
        3 => drop(bytes.drain(place..(place + 1 + generator.below(16)).min(bytes.len()).max(place))),
        4 => {
            // A part of another input, or of the same one.
            let other = &seeds[generator.below(seeds.len())];
            let start = generator.below(other.len() + 1);
            let end = (start + generator.below(64)).min(other.len());
            insert(bytes, place, &other[start..end]);
        }
        5 => {
            let number = NUMBERS[generator.below(NUMBERS.len())];
            let width = [1, 2, 4, 8][generator.below(4)];
            let little = number.to_le_bytes();
            let mut number = little[..width].to_vec();
            if generator.chance(0.5) {
                number.reverse();
            }
            overwrite(bytes, place, &number);
        }
        6 => overwrite(bytes, place, NUMBERS[generator.below(NUMBERS.len())].to_string().as_bytes()),
        7 if place < bytes.len() => bytes[place] ^= 1 << generator.below(8),
        _ => overwrite(bytes, place, &[generator.bits() as u8]),
    }
}

fn insert(bytes: &mut Vec<u8>, place: usize, new: &[u8]) {
    drop(bytes.splice(place..place, new.iter().copied()));
}

fn overwrite(bytes: &mut [u8], place: usize, new: &[u8]) {
    for (byte, new) in bytes[place..].iter_mut().zip(new) {
        *byte = *new;
    }
}
