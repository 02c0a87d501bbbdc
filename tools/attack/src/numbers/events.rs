//! Reads TensorBoard event files, in the encoding of Protocol Buffers, without oomph's code.

/// A field of a message: its number, and its bytes. A number of 64 or 32 bits has eight or four.
type Field<'a> = (u64, &'a [u8]);

/// Checks that each value is finite but the loss of an evaluation, which may be infinite or not a number.
pub(super) fn check(mut file: &[u8]) -> Result<(), String> {
    const AROUND: usize = 16;
    while let Some(length) = file.first_chunk().map(|length| u64::from_le_bytes(*length) as usize) {
        let Some(record) = file.get(12..12 + length) else { return Ok(()) };
        event(record)?;
        file = file.get(length + AROUND..).unwrap_or_default();
    }
    Ok(())
}

fn event(record: &[u8]) -> Result<(), String> {
    const SUMMARY: u64 = 5;
    const VALUE: u64 = 1;
    let summaries = fields(record)?.into_iter().filter(|(number, _)| *number == SUMMARY);
    for (_, summary) in summaries {
        let mut values = fields(summary)?.into_iter().filter(|(number, _)| *number == VALUE);
        values.try_for_each(|(_, entry)| value(entry))?;
    }
    Ok(())
}

/// A value with its tag: one number, or a histogram.
fn value(entry: &[u8]) -> Result<(), String> {
    let fields_of_value = fields(entry)?;
    let of =
        |number: u64| fields_of_value.iter().find(|(found, _)| *found == number).map(|(_, bytes)| *bytes);
    let tag = String::from_utf8_lossy(of(1).unwrap_or_default()).into_owned();
    if let Some(bytes) = of(2).and_then(|bytes| bytes.first_chunk()) {
        let value = f32::from_le_bytes(*bytes);
        if !value.is_finite() && tag != "loss/eval" {
            return Err(format!("`{tag}` is {value}"));
        }
    }
    for (number, bytes) in of(5).map_or(Ok(Vec::new()), fields)? {
        let (numbers, _) = bytes.as_chunks();
        let wrong = numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).find(|value| !value.is_finite());
        if let Some(value) = wrong {
            return Err(format!("the histogram `{tag}` has {value} in field {number}"));
        }
    }
    Ok(())
}

fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let length = match key & 7 {
            0 => {
                varint(&mut bytes)?;
                continue;
            }
            1 => 8,
            5 => 4,
            2 => varint(&mut bytes)? as usize,
            wire => return Err(format!("a field has the wire type {wire}")),
        };
        let (field, rest) = bytes.split_at_checked(length).ok_or("a field is longer than its record")?;
        fields.push((key >> 3, field));
        bytes = rest;
    }
    Ok(fields)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or("a number has no end")?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number has no end".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of fewer than 128 bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    /// A file with one record: a value, or a histogram's.
    fn file(tag: &str, rest: &[u8]) -> Vec<u8> {
        let record = field(5, &field(1, &[&field(1, tag.as_bytes()), rest].concat()));
        [&(record.len() as u64).to_le_bytes()[..], &[0; 4], &record, &[0; 4]].concat()
    }

    #[test]
    fn a_value_that_is_not_finite_is_found() {
        let number = |value: f32| [&[0x15][..], &value.to_le_bytes()].concat();
        check(&file("loss/train", &number(1.0))).expect("it is finite");
        check(&file("loss/train", &number(f32::NAN))).expect_err("it is none");
        check(&file("loss/eval", &number(f32::INFINITY))).expect("an evaluation may have no loss");
        // Behind a good record too.
        let both = [file("loss/train", &number(1.0)), file("speed", &number(f32::INFINITY))].concat();
        check(&both).expect_err("the second is none");
    }

    #[test]
    fn a_histogram_that_is_not_finite_is_found() {
        let histogram =
            |last: f64| field(5, &field(6, &[1.0_f64.to_le_bytes(), last.to_le_bytes()].concat()));
        check(&file("parameters/a", &histogram(1e300))).expect("it is finite");
        check(&file("parameters/a", &histogram(f64::NAN))).expect_err("it has a limit that is none");
    }
}
