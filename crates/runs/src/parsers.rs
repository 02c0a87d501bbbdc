//! The parsers of the files of runs, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the interface.
//!
//! Their errors are bytes that they refuse.

use std::{collections::BTreeMap, path::Path};

use oomph_engine::{
    HostTensor,
    record::{RecordError, Scalar},
    tensor_file,
};

use crate::{
    RunError, RunStatus,
    run::{read_log, started_in},
    state::{FORMAT_VERSION, Manifest, StateError, TrainProgress, place, sha256},
};

/// The file name in error messages.
const NAME: &str = "memory";

/// `state.json`.
pub fn state(bytes: &[u8]) -> Result<(), StateError> {
    Manifest::decode(bytes, Path::new(NAME)).map(drop)
}

/// The tensors of a checkpoint, and its optimizer state.
pub fn tensors(bytes: &[u8]) -> Result<(), RecordError> {
    tensor_file::decode_state(bytes)?;
    tensor_file::decode(bytes).map(drop)
}

/// `metrics.jsonl`.
pub fn log(bytes: &[u8]) -> Result<RunStatus, RunError> {
    read_log(bytes)
}

/// `environment.json`: the time that a run lists.
pub fn environment(bytes: &[u8]) -> Option<u64> {
    started_in(bytes)
}

/// The name of a checkpoint's directory: its step and number.
pub fn checkpoint_name(name: &str) -> Option<(usize, usize)> {
    place(name)
}

/// `state.json` around a state, with the checksum that it has.
pub fn sealed(state: &[u8]) -> Vec<u8> {
    let checksum = sha256(state);
    [format!("{{\"sha256\":\"{checksum}\",\"state\":").as_bytes(), state, b"}"].concat()
}

/// A state as a checkpoint has it, without its seal.
pub fn example_state() -> Vec<u8> {
    let manifest = Manifest {
        format_version: FORMAT_VERSION,
        oomph_version: "0".to_owned(),
        save_number: 1,
        progress: TrainProgress { step: 12, loss: Some(0.5), ..TrainProgress::default() },
        optimizer_scalars: BTreeMap::from([
            ("a.time".to_owned(), Scalar::Uint(12)),
            ("a.scale".to_owned(), Scalar::FloatBits(1)),
        ]),
        optimizer_ranks: BTreeMap::from([("a".to_owned(), 2)]),
        loss_scale: None,
        average_updates: None,
        files: BTreeMap::from([("model.safetensors".to_owned(), "0".repeat(64))]),
    };
    serde_json::to_vec(&manifest).unwrap_or_default()
}

/// A file of tensors.
pub fn example_tensors() -> Vec<u8> {
    let tensor = |shape: &[usize]| HostTensor {
        shape: shape.to_vec(),
        values: (0..shape.iter().product()).map(|value: usize| value as f32).collect(),
    };
    let tensors = [("a.weight".into(), tensor(&[2, 3])), ("b".into(), tensor(&[4]))].into();
    tensor_file::encode(&tensors).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn the_examples_are_right() {
        assert!(state(&sealed(&example_state())).is_ok());
        assert!(tensors(&example_tensors()).is_ok());
        let mut changed = sealed(&example_state());
        // A digit of the step, behind the checksum.
        let place = changed.windows(9).position(|text| text == b"\"step\":12").expect("it has a step");
        changed[place + 8] = b'3';
        assert!(matches!(state(&changed), Err(StateError::Checksum { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(state(&bytes).is_err() && state(&sealed(&bytes)).is_err());
            let _ = tensors(&bytes);
            let _ = (log(&bytes), environment(&bytes));
        }

        #[test]
        fn a_damaged_state_is_read_or_refused(place in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = example_state();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = state(&sealed(&bytes));
        }
    }
}
