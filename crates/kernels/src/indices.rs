use burn_backend::DType;
use burn_flex::FlexTensor;

/// Integers of 32 or 64 bits as indices. A negative one becomes an index past the end of everything.
pub(crate) fn indices(integers: &FlexTensor) -> Vec<usize> {
    let index = |integer: i64| usize::try_from(integer).unwrap_or(usize::MAX);
    match integers.dtype() {
        DType::I64 => integers.storage::<i64>().iter().map(|integer| index(*integer)).collect(),
        _ => integers.storage::<i32>().iter().map(|integer| index(i64::from(*integer))).collect(),
    }
}
