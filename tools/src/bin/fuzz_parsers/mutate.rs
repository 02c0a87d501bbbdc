//! Makes inputs: random bytes, and valid inputs with changes.

use oomph_core::Generator;

use crate::targets::{MOST_BYTES, Target};

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

/// The largest input of the usual kind, unless a seed is larger.
const USUAL_BYTES: usize = 4096;
/// So many of the usual inputs have one with a repetition, which may nest thousands of levels.
const USUAL_TO_REPEATED: usize = 128;

/// An input for a parser. A few are large, up to [`MOST_BYTES`]: they show time that grows faster than the input.
pub(crate) fn input(generator: &mut Generator, target: &Target) -> Vec<u8> {
    let seeds = &target.seeds;
    let usual = USUAL_BYTES.max(seeds.iter().map(Vec::len).max().unwrap_or(0) + 1).min(target.largest);
    if seeds.is_empty() || generator.below(16) == 0 {
        let count = generator.below(256);
        return (0..count).map(|_| generator.bits() as u8).collect();
    }
    let mut bytes = seeds[generator.below(seeds.len())].clone();
    if generator.below(target.one_large_in) == 0 {
        // As many of each size: a parser that is slow at 64 KiB shows it sooner than at the largest.
        let most = (USUAL_BYTES << generator.below((MOST_BYTES / USUAL_BYTES).ilog2() as usize + 1))
            .min(target.largest);
        if generator.chance(0.5) {
            change(generator, &mut bytes, target);
        }
        repeat(generator, &mut bytes, target, most);
        bytes.truncate(most);
        return bytes;
    }
    if generator.below(USUAL_TO_REPEATED) == 0 {
        repeat(generator, &mut bytes, target, usual);
    }
    // Mostly few changes, so that the parser reads far.
    let changes = 1 + generator.below(2) * generator.below(8);
    for _ in 0..changes {
        change(generator, &mut bytes, target);
    }
    bytes.truncate(usual);
    bytes
}

fn change(generator: &mut Generator, bytes: &mut Vec<u8>, target: &Target) {
    let Target { seeds, words, .. } = target;
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

/// Inserts one thing again and again, until the input has `most` bytes: an opening token, which nests; a token; a part
/// of the input, such as a line or an entry; or the whole. Parts may be numbered, so that names are not the same.
fn repeat(generator: &mut Generator, bytes: &mut Vec<u8>, target: &Target, most: usize) {
    let place = generator.below(bytes.len() + 1);
    let room = most.saturating_sub(bytes.len());
    let (mut open, mut close): (Vec<u8>, &[u8]) = (bytes.clone(), &[]);
    let mut number_at = None;
    match generator.below(8) {
        0..3 if !target.pairs.is_empty() => {
            let (opening, closing) = target.pairs[generator.below(target.pairs.len())];
            // Half of them are never closed.
            (open, close) = (opening.to_vec(), if generator.chance(0.5) { closing } else { &[] });
        }
        3 if !target.words.is_empty() => open = target.words[generator.below(target.words.len())].to_vec(),
        4..7 => {
            let start = generator.below(bytes.len() + 1);
            // Short ones more often.
            let longest = 1 + generator.below(bytes.len() - start + 1);
            let length = (1 + generator.below(longest)).min(bytes.len() - start);
            open = bytes[start..start + length].to_vec();
            number_at = generator.chance(0.5).then(|| generator.below(open.len() + 1));
        }
        _ => {}
    }
    if open.is_empty() {
        open = vec![generator.bits() as u8];
        number_at = None;
    }
    let mut opened = Vec::with_capacity(room + open.len() + 20);
    let mut count = 0usize;
    while opened.len() + count * close.len() < room {
        match number_at {
            Some(at) => {
                opened.extend_from_slice(&open[..at]);
                opened.extend_from_slice(count.to_string().as_bytes());
                opened.extend_from_slice(&open[at..]);
            }
            None => opened.extend_from_slice(&open),
        }
        count += 1;
    }
    opened.extend(close.repeat(count));
    insert(bytes, place, &opened);
}

fn insert(bytes: &mut Vec<u8>, place: usize, new: &[u8]) {
    drop(bytes.splice(place..place, new.iter().copied()));
}

fn overwrite(bytes: &mut [u8], place: usize, new: &[u8]) {
    for (byte, new) in bytes[place..].iter_mut().zip(new) {
        *byte = *new;
    }
}
