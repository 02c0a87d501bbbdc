//! Damaged files, in a process of its own: it hides the panics that the crate catches.

mod support;

use oomph_core::{Bytes, Generator, Key};
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::WriterVersion,
};

use crate::support::{encoded, properties, read, texts, written};

/// Damaged files are errors, or texts. None panics past the crate, takes long or allocates without end.
#[test]
fn damaged_files_are_refused() {
    std::panic::set_hook(Box::new(|_| {}));
    let rows = texts(40);
    let delta = encoded(properties(), Encoding::DELTA_LENGTH_BYTE_ARRAY);
    let files = [
        written(&rows, properties()),
        written(&rows, properties().set_compression(Compression::SNAPPY)),
        written(&rows, properties().set_compression(Compression::ZSTD(ZstdLevel::default()))),
        written(&rows, properties().set_writer_version(WriterVersion::PARQUET_2_0)),
        written(&rows, delta),
    ];
    let mut generator = Generator::at(Key::new(3));
    let mut accepted = 0;
    for input in 0..100_000 {
        let mut bytes = files[input % files.len()].clone();
        for _ in 0..1 + generator.below(4) {
            let place = generator.below(bytes.len());
            bytes[place] = if generator.chance(0.5) {
                generator.bits() as u8
            } else {
                bytes[place] ^ 1 << generator.below(8)
            };
        }
        if generator.chance(0.05) {
            bytes.truncate(generator.below(bytes.len()));
        }
        accepted += usize::from(read(bytes, "text", Bytes::mib(16)).is_ok());
    }
    assert!((1_000..90_000).contains(&accepted), "{accepted}");
}
