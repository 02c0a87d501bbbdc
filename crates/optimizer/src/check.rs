use std::collections::BTreeMap;

use crate::record::{OptimizerRecord, RecordError, Scalar};

/// Checks recorded optimizer state against the parameters of a model before any of it is used. `shapes` are those of all
/// parameters, `steps` the optimizer steps done.
///
/// Checksums do not suffice: Burn panics on a tensor of another shape, and a step count may overflow.
///
/// # Errors
/// [`RecordError::Contradiction`] with the first value that does not fit.
pub fn check_record(
    record: &OptimizerRecord,
    shapes: &BTreeMap<String, Vec<usize>>,
    steps: usize,
) -> Result<(), RecordError> {
    for (parameter, rank) in &record.ranks {
        let expected = shapes.get(parameter).map(Vec::len);
        expect(parameter, "rank ", *rank, expected)?;
    }
    for (leaf, tensor) in &record.tensors {
        let expected = parameter_of(leaf, shapes).map(|(shape, field)| shape_of_state(shape, field));
        expect(leaf, "", &tensor.shape, expected.as_ref())?;
    }
    for (leaf, packed) in &record.packed {
        let expected = parameter_of(leaf, shapes).map(|(shape, _)| shape.to_vec());
        expect(leaf, "", &packed.shape, expected.as_ref())?;
    }
    for (leaf, scalar) in &record.scalars {
        let count = match *scalar {
            Scalar::Uint(count) => i128::from(count),
            Scalar::Int(count) => i128::from(count),
            Scalar::FloatBits(_) | Scalar::Bool(_) => continue,
        };
        // The integers of all optimizers count steps.
        if !(0..=steps as i128).contains(&count) {
            return Err(RecordError::Contradiction {
                name: leaf.clone(),
                found: count.to_string(),
                expected: format!("0 to {steps}, the steps of the training"),
            });
        }
    }
    Ok(())
}

fn expect<T: PartialEq + std::fmt::Debug>(
    name: &str,
    kind: &str,
    found: T,
    expected: Option<T>,
) -> Result<(), RecordError> {
    if expected.as_ref() == Some(&found) {
        return Ok(());
    }
    let shown = |value: T| format!("{kind}{value:?}");
    Err(RecordError::Contradiction {
        name: name.to_owned(),
        found: shown(found),
        expected: expected.map_or_else(|| "nothing, since the model has no such parameter".to_owned(), shown),
    })
}

/// The shape of the parameter that a leaf belongs to, and the name of the leaf's field. Of nested parameters the innermost
/// counts.
fn parameter_of<'a>(
    leaf: &'a str,
    shapes: &'a BTreeMap<String, Vec<usize>>,
) -> Option<(&'a [usize], &'a str)> {
    let (_, field) = leaf.rsplit_once('.')?;
    let mut ends = leaf.rmatch_indices('.').map(|(end, _)| end);
    ends.find_map(|end| Some((shapes.get(&leaf[..end])?.as_slice(), field)))
}

/// The shape of a field of the state: that of the parameter, but for Adafactor's factors of a matrix.
fn shape_of_state(parameter: &[usize], field: &str) -> Vec<usize> {
    let rows = if parameter.len() > 1 { parameter[0] } else { 1 };
    match field {
        "rows" => vec![rows, 1],
        "columns" => vec![1, parameter.iter().product::<usize>() / rows.max(1)],
        _ => parameter.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use oomph_kernels::packed::{MomentKind, PackedFormat, StoredMoment};

    use super::*;
    use crate::record::{HostTensor, PackedTensor};

    fn tensor(shape: &[usize]) -> HostTensor {
        HostTensor { shape: shape.to_vec(), values: vec![0.0; shape.iter().product()] }
    }

    fn packed(shape: &[usize]) -> PackedTensor {
        let values = vec![0.0; shape.iter().product()];
        let moment = StoredMoment::of_values(PackedFormat::Int8, &values, MomentKind::Square);
        PackedTensor { shape: shape.to_vec(), moment }
    }

    /// The state of a matrix `a` and of a vector `a.b` after 4 steps.
    fn record() -> OptimizerRecord {
        OptimizerRecord {
            tensors: [
                ("a.momentum.moment_1".into(), tensor(&[2, 3])),
                ("a.rows".into(), tensor(&[2, 1])),
                ("a.columns".into(), tensor(&[1, 3])),
                ("a.b.momentum.moment_1".into(), tensor(&[5])),
            ]
            .into(),
            packed: [("a.momentum.moment_2".into(), packed(&[2, 3]))].into(),
            scalars: [("a.momentum.time".into(), Scalar::Uint(4))].into(),
            ranks: [("a".into(), 2), ("a.b".into(), 1)].into(),
        }
    }

    fn checked(change: impl FnOnce(&mut OptimizerRecord)) -> Result<(), RecordError> {
        let mut record = record();
        change(&mut record);
        check_record(&record, &[("a".into(), vec![2, 3]), ("a.b".into(), vec![5])].into(), 4)
    }

    #[test]
    fn what_an_optimizer_records_passes() {
        checked(|_| {}).expect("it is right");
    }

    #[test]
    fn each_value_that_does_not_fit_is_named() {
        type Change = fn(&mut OptimizerRecord);
        let changes: [(&str, Change); 10] = [
            ("a", |record| record.ranks.extend([("a".into(), 99)])),
            ("c", |record| record.ranks.extend([("c".into(), 2)])),
            ("a.rows", |record| record.tensors.extend([("a.rows".into(), tensor(&[2]))])),
            ("a.columns", |record| record.tensors.extend([("a.columns".into(), tensor(&[3, 1]))])),
            ("a.x", |record| record.tensors.extend([("a.x".into(), tensor(&[3, 2]))])),
            ("a.y", |record| record.packed.extend([("a.y".into(), packed(&[6]))])),
            ("c.y", |record| record.packed.extend([("c.y".into(), packed(&[2, 3]))])),
            ("c.x", |record| record.tensors.extend([("c.x".into(), tensor(&[2, 3]))])),
            ("a.time", |record| record.scalars.extend([("a.time".into(), Scalar::Uint(u64::MAX))])),
            ("a.time", |record| record.scalars.extend([("a.time".into(), Scalar::Int(-1))])),
        ];
        for (named, change) in changes {
            match checked(change) {
                Err(RecordError::Contradiction { name, .. }) => assert_eq!(name, named),
                other => panic!("{named}: {other:?}"),
            }
        }
    }
}
