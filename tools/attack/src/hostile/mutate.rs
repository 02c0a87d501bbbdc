//! Damages valid files.

use oomph_core::Generator;

/// Values at limits of common types, little and big end first.
const LIMITS: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX >> 1, u64::MAX];

/// A valid file with one to three damages, and these in words.
pub(crate) fn bytes(random: &mut Generator, valid: &[u8]) -> (Vec<u8>, String) {
    let mut bytes = valid.to_vec();
    let mut abouts = Vec::new();
    for _ in 0..=random.below(3) {
        abouts.push(damage(random, &mut bytes));
    }
    (bytes, abouts.join(", "))
}

/// A place in the bytes; heads are damaged as often as all the rest.
fn place(random: &mut Generator, length: usize) -> usize {
    let bound = if random.chance(0.5) { length.min(64) } else { length };
    random.below(bound + 1)
}

fn damage(random: &mut Generator, bytes: &mut Vec<u8>) -> String {
    let at = place(random, bytes.len());
    let span = at..(at + 1 + random.below(40)).min(bytes.len()).max(at);
    match random.below(9) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 | 2 if at < bytes.len() => {
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of {at} flipped")
        }
        3 | 4 => {
            let limit = LIMITS[random.below(LIMITS.len())];
            let width = 1usize << random.below(4);
            let word =
                if random.chance(0.5) { limit.to_le_bytes() } else { limit.swap_bytes().to_le_bytes() };
            let word = if word[0] == 0 { &word[8 - width..] } else { &word[..width] };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&word[..end - at]);
            format!("{width} bytes of {limit:#x} at {at}")
        }
        5 => {
            let mut new = vec![0; 1 + random.below(20)];
            random.fill(&mut new);
            let about = format!("{} bytes more at {at}", new.len());
            bytes.splice(at..at, new);
            about
        }
        6 => {
            bytes.drain(span.clone());
            format!("without {span:?}")
        }
        7 => {
            let again = bytes[span.clone()].to_vec();
            bytes.splice(at..at, again);
            format!("{span:?} twice")
        }
        _ => {
            bytes.rotate_left(at);
            format!("parts swapped at {at}")
        }
    }
}

/// How many of the values are numbers, which come first.
const NUMBERS: usize = 34;

/// Values that stand for others in a text.
pub(crate) const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "255",
    "256",
    "65535",
    "65536",
    "65537",
    "1000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "1e308",
    "1e309",
    "-1e308",
    "1e-308",
    "1e39",
    "3.5e38",
    "1e-46",
    "0.99999999999",
    "1.0",
    "-0.0",
    "0.0",
    "nan",
    "inf",
    "-inf",
    "0xffffffff",
    "1_000",
    "true",
    "false",
    "''",
    "'x'",
    "[]",
    "[[]]",
    "{}",
    "[1, 'x']",
    "1979-05-27T07:32:00Z",
    "'1 epoch'",
    "'0 steps'",
    "'18446744073709551615 epochs'",
    "'never'",
    "'1e30 minutes'",
    "'16EiB'",
    "'0B'",
    "'99999999999GiB'",
    "'\\u0000'",
    "'''\n\n'''",
    "'cpu,cpu'",
    "['cpu', 'cpu', 'cpu']",
    "'nowhere/x'",
    "'.'",
    "'..'",
];

/// Lines that stand between others.
const LINES: &[&[u8]] = &[
    b"\xef\xbb\xbf",
    b"\0",
    b"\xff\xfe",
    b"[",
    b"]",
    b"[[model]]",
    b"[train]",
    b"[model]",
    b"[model.name]",
    b"[data.x.y.z]",
    b"x = 1",
    b"name = 1",
    b"= 1",
    b"x",
    b"'",
    b"\"\"\"",
    b"x = \"\\uD800\"",
    b"\"\" = 1",
    b"model.name.x = 1",
    b"train.steps = 1",
    b"a.b.c.d.e.f.g.h = 1",
    b"\r",
    b"# \x1b[2J",
    b"x = \"\xc3\x28\"",
    b"[run]\ndirectory = ''",
    b"include = '/etc/passwd'",
    b"\xe2\x80\xae = 1",
    b"[\"\"]",
    b"[ model ]",
];

/// A valid text of lines with `name = value` with one to three damages, and these in words.
pub(crate) fn text(random: &mut Generator, valid: &[u8]) -> (Vec<u8>, String) {
    if random.chance(0.15) {
        return bytes(random, valid);
    }
    let mut lines: Vec<Vec<u8>> = valid.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let mut abouts = Vec::new();
    for _ in 0..=random.below(2) {
        abouts.push(damage_lines(random, &mut lines));
    }
    (lines.join(&b'\n'), abouts.join(", "))
}

fn damage_lines(random: &mut Generator, lines: &mut Vec<Vec<u8>>) -> String {
    let at = random.below(lines.len());
    let number = at + 1;
    match random.below(12) {
        0 => {
            lines.insert(at, lines[at].clone());
            format!("line {number} twice")
        }
        1 if lines.len() > 1 => {
            lines.remove(at);
            format!("without line {number}")
        }
        2 => {
            let other = random.below(lines.len());
            lines.swap(at, other);
            format!("lines {number} and {} swapped", other + 1)
        }
        3 | 4 => {
            let line = LINES[random.below(LINES.len())];
            lines.insert(at, line.to_vec());
            format!("line {number} more: {}", line.escape_ascii())
        }
        5 => {
            let (what, line) = long_line(random);
            lines.insert(at, line);
            format!("line {number} more: {what}")
        }
        _ => {
            let line = &mut lines[at];
            let equals = line.windows(2).position(|window| window == b"= ");
            let value = equals.map_or(&[][..], |equals| &line[equals + 2..]);
            // A number in the place of a number comes further than one in the place of a text.
            let is_number = value.first().is_some_and(u8::is_ascii_digit);
            let known = if is_number && random.chance(0.7) { NUMBERS } else { VALUES.len() };
            let value = VALUES[random.below(known)];
            match equals {
                Some(equals) => line.truncate(equals + 2),
                None => line.extend(b" = "),
            }
            line.extend(value.as_bytes());
            format!("line {number} is `{}`", line.escape_ascii())
        }
    }
}

/// Fields that stand for others in a table.
const FIELDS: &[&str] = &[
    "",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e39",
    "1e-46",
    "x",
    "\"",
    "\"a\nb\"",
    "0x1",
    "1,2",
    "1;2",
    " 1",
    "\t",
    "\0",
    "\u{feff}",
    "-0",
    "9999999999999999999999",
    "\\u0000",
    "\"\\ud800\"",
    "[]",
    "null",
    "day",
    "\u{202e}",
    "\r",
];

/// A valid text of fields with one to three damages, and these in words.
pub(crate) fn table(random: &mut Generator, valid: &[u8]) -> (Vec<u8>, String) {
    let mut lines: Vec<Vec<u8>> = valid.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let mut abouts = Vec::new();
    for _ in 0..=random.below(2) {
        // Heads are damaged as often as all the rest.
        let at = if random.chance(0.4) { 0 } else { random.below(lines.len()) };
        let mut fields: Vec<Vec<u8>> = lines[at].split(|byte| *byte == b',').map(<[u8]>::to_vec).collect();
        let place = random.below(fields.len());
        let field = FIELDS[random.below(FIELDS.len())];
        match random.below(4) {
            0 => fields.insert(place, field.into()),
            1 => drop(fields.remove(place)),
            _ => fields[place] = field.into(),
        }
        abouts.push(format!("field {} of line {}: {}", place + 1, at + 1, field.escape_debug()));
        lines[at] = fields.join(&b',');
    }
    (lines.join(&b'\n'), abouts.join(", "))
}

/// A line that is long or deep.
fn long_line(random: &mut Generator) -> (&'static str, Vec<u8>) {
    const MANY: usize = 100_000;
    match random.below(5) {
        0 => ("100,000 brackets", [b"x = ".to_vec(), b"[".repeat(MANY)].concat()),
        1 => ("100,000 keys deep", [b"a.".repeat(MANY), b"b = 1".to_vec()].concat()),
        2 => ("a string of 100,000 letters", [b"x = '".to_vec(), b"y".repeat(MANY), b"'".to_vec()].concat()),
        3 => ("a number of 100,000 digits", [b"x = ".to_vec(), b"9".repeat(MANY)].concat()),
        _ => ("100,000 tables deep", [b"x = ".to_vec(), b"{a=".repeat(MANY)].concat()),
    }
}
