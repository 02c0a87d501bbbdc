//! The parsers. A new one is an entry of [`targets`].

use std::{io::Write as _, sync::LazyLock};

use flate2::{Compression, write::GzEncoder};
use oomph_config::Config;
use oomph_data::parsers as data;
use oomph_model::weights::read_bytes;
use oomph_runs::parsers as trainer;
use oomph_trainer::Registry;

/// A parser and its inputs.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Whether the parser accepts an input.
    pub(crate) parse: fn(&[u8]) -> bool,
    /// Valid inputs, to be damaged.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Parts of valid inputs, where they are text.
    pub(crate) words: &'static [&'static [u8]],
    /// Completes a damaged input, such as by compression or a checksum, so that the parser reads on.
    pub(crate) finish: fn(Vec<u8>) -> Vec<u8>,
    /// The most bytes that parsing an input may allocate.
    pub(crate) bound: fn(&[u8]) -> usize,
}

const KIB: usize = 1 << 10;

/// All parsers of files and text from outside.
pub(crate) fn targets() -> Vec<Target> {
    [data_files(), checkpoints(), vec![weights(), config()]].into_iter().flatten().collect()
}

/// A parser of data files, which may be compressed.
fn plain(name: &'static str, parse: fn(&[u8]) -> bool, seeds: Vec<Vec<u8>>) -> Target {
    Target { name, parse, seeds, words: &[], finish: |bytes| bytes, bound: unpacking }
}

fn data_files() -> Vec<Target> {
    let images = || vec![idx(&[2, 3, 4]), idx(&[3, 2, 2, 3]), idx(&[1, 1, 1])];
    let csv = |name, parse| Target {
        words: &[b",", b"\n", b"\r\n", b"\"", b"\"\"", b"nan", b"inf", b"1e39", b"-0", b"\xef\xbb\xbf"],
        // A row of two bytes takes an entry of 32, also a refused one; vectors double as they grow.
        bound: |bytes| 64 * bytes.len() + 4 * KIB + packed(bytes),
        ..plain(name, parse, vec![SERIES.to_vec(), b"a\n1\n2\n3\n4\n".to_vec(), b"a,a\n1,2\n".to_vec()])
    };
    vec![
        plain("idx images", |bytes| data::idx_images(bytes).is_ok(), images()),
        plain("idx labels", |bytes| data::idx_labels(bytes).is_ok(), vec![idx(&[5]), idx(&[1])]),
        Target {
            finish: |bytes| packed_file(&bytes),
            ..plain("idx packed", |bytes| data::idx_images(bytes).is_ok(), images())
        },
        plain(
            "gzip",
            |bytes| data::idx_images(bytes).is_ok(),
            images().iter().map(|file| packed_file(file)).collect(),
        ),
        plain("cifar10", |bytes| data::cifar10(bytes, false).is_ok(), vec![records(1), records(2)]),
        plain("cifar10 skipping", |bytes| data::cifar10(bytes, true).is_ok(), vec![records(1), records(2)]),
        plain("cifar10 names", |bytes| data::cifar10_names(bytes).is_ok(), vec![NAMES.to_vec()]),
        plain("text", |bytes| data::text(bytes).is_ok(), vec!["to be, ō ∀ 𝄞\n".into()]),
        Target {
            words: JSON,
            // Each token is in a list and in a map.
            bound: |bytes| 256 * bytes.len() + 4 * KIB,
            ..plain(
                "vocabulary",
                |bytes| data::vocabulary(bytes).is_ok(),
                vec![br#"["<unk>","a"," "]"#.to_vec(), vocabulary_in_weights()],
            )
        },
        csv("csv", |bytes| data::csv(bytes, false).is_ok()),
        csv("csv skipping", |bytes| data::csv(bytes, true).is_ok()),
    ]
}

/// The header of a file of weights, with the specification of its samples.
fn vocabulary_in_weights() -> Vec<u8> {
    let source = r#"{\"spec\":{\"input\":{\"tokens\":{\"steps\":4,\"vocabulary\":2}},\"target\":{\"tokens\":{\"steps\":4,\"vocabulary\":2}}},\"class_names\":[\"<unk>\",\"a\"],\"level\":\"char\"}"#;
    let header = format!(r#"{{"__metadata__":{{"oomph.source":"{source}"}}}}"#);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

fn checkpoints() -> Vec<Target> {
    let state = trainer::example_state();
    let file = |name, parse, seed| Target {
        words: JSON,
        bound: |bytes| 32 * bytes.len() + 4 * KIB,
        ..plain(name, parse, vec![seed])
    };
    let parse_state = |bytes: &[u8]| trainer::state(bytes).is_ok();
    vec![
        file("state.json", parse_state, trainer::sealed(&state)),
        Target { finish: |bytes| trainer::sealed(&bytes), ..file("state.json sealed", parse_state, state) },
        file("safetensors", |bytes| trainer::tensors(bytes).is_ok(), trainer::example_tensors()),
    ]
}

/// Files of PyTorch and torchvision.
fn weights() -> Target {
    let seeds = [
        &include_bytes!("../../../../tests/golden/weights_zip.pth")[..],
        include_bytes!("../../../../tests/golden/weights_legacy.pth"),
        include_bytes!("../../../../tests/golden/weights_protocol_4.pth"),
        include_bytes!("../../../../tests/golden/weights_nested_half.pth"),
        include_bytes!("../../../../tests/golden/weights_bfloat16.safetensors"),
    ];
    Target {
        words: &[
            b"c",
            b"R",
            b"(",
            b"t",
            b"}",
            b"]",
            b"K\x01",
            b"M\xff\xff",
            b"J\xff\xff\xff\x7f",
            b"q\x00",
            b"h\x00",
            b"Q",
            b".",
            b"PK\x03\x04",
            b"PK\x01\x02",
        ],
        bound: |bytes| 64 * bytes.len() + 64 * KIB,
        ..plain("weights", |bytes| read_bytes(bytes).is_ok(), seeds.map(<[u8]>::to_vec).to_vec())
    }
}

fn config() -> Target {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::builtin);
    let text = |bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        Config::from_toml("fuzz", text).is_ok_and(|config| REGISTRY.read(&config).is_ok())
    };
    let seeds = [
        include_str!("../../../../configs/resnet.toml"),
        include_str!("../../../../configs/lstm.toml"),
        include_str!("../../../../configs/mnist.toml"),
    ];
    Target {
        words: &[
            b"[",
            b"]",
            b"=",
            b".",
            b"\"",
            b"'''",
            b"{",
            b"}",
            b"\n",
            b"#",
            b"1979-05-27",
            b"nan",
            b"[[x]]",
        ],
        // The tree of a TOML file, the settings with their lines, and the value of each key.
        bound: |bytes| 256 * bytes.len() + 32 * KIB,
        ..plain("config", text, seeds.map(|text| text.as_bytes().to_vec()).to_vec())
    }
}

/// The bound of files that may be compressed: the content, which doubles as it grows, and a buffer.
fn unpacking(bytes: &[u8]) -> usize {
    4 * bytes.len() + 2 * KIB + packed(bytes)
}

/// The bound added for compressed files: deflate shrinks by at most 1,032, and its decoder takes 64 KiB.
fn packed(bytes: &[u8]) -> usize {
    if bytes.starts_with(&[0x1f, 0x8b]) { 3 * 1032 * bytes.len() + 128 * KIB } else { 0 }
}

fn packed_file(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written to memory");
    encoder.finish().expect("written to memory")
}

/// An IDX file of unsigned bytes with these dimensions.
fn idx(dims: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    bytes.extend(dims.iter().flat_map(|dim| dim.to_be_bytes()));
    bytes.extend((0..dims.iter().product()).map(|value: u32| value as u8));
    bytes
}

/// Records of CIFAR-10.
fn records(count: usize) -> Vec<u8> {
    (0..count * 3073).map(|place| (place % 3073 % 10) as u8).collect()
}

const NAMES: &[u8] = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
const SERIES: &[u8] = b"day,temp,\"rain, mm\"\n1,20.5,0\n2,21e0,1.5\n\n3,\"-4\",2\n";
const JSON: &[&[u8]] =
    &[b"{", b"}", b"[", b"]", b"\"", b",", b":", b"null", b"true", b"-1", b"1e999", b"\\u0000", b"\"F32\""];
