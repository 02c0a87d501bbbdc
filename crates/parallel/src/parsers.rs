//! The parsers of messages between processes, over bytes in memory. For `cargo xtask fuzz-parsers`, not part of the
//! interface.

use crate::group::wire::{Farewell, Hosts, header, operation};

/// The last message of a rank, and the error that it causes; whether it is one that this rank passes on.
pub fn farewell(bytes: &[u8]) -> bool {
    let hosts = Hosts(vec!["a".into(), "b".into()]);
    let error = Farewell::decode(bytes).error(1, &hosts);
    let passed_on =
        error.as_ref().and_then(|error| Farewell::after(error, 1)).map(|farewell| farewell.encode());
    error.is_some_and(|error| !error.to_string().is_empty()) && passed_on.is_some()
}

/// The first message of a rank in a collective; whether it names one of our operations.
pub fn collective(words: [u64; 3]) -> bool {
    header(operation(words), words[2] as usize) == words
}

/// The farewell of a rank that missed the ranks 0 and 3.
pub fn example_farewell() -> Vec<u8> {
    let operation = operation([1, 64, 0]);
    Farewell::Missed { ranks: vec![0, 3], operation, number: 7, waited_ms: Some(500) }.encode()
}
