//! Files of weights: PyTorch's, torchvision's and safetensors; and the settings of Hugging Face's networks beside them.

use std::path::Path;

use oomph_hub::HubConfig;
use oomph_model::weights::read_bytes;

use super::{KIB, Target};

pub(super) fn targets() -> Vec<Target> {
    let pth = [
        &include_bytes!("../../../../../tests/golden/weights_zip.pth")[..],
        include_bytes!("../../../../../tests/golden/weights_legacy.pth"),
        include_bytes!("../../../../../tests/golden/weights_protocol_4.pth"),
        include_bytes!("../../../../../tests/golden/weights_nested_half.pth"),
    ];
    let safetensors = include_bytes!("../../../../../tests/golden/weights_bfloat16.safetensors");
    vec![
        Target {
            words: PICKLE,
            pairs: PICKLE_PAIRS,
            // The values of a pickle, of which a byte makes one, and the entries of the archive around it.
            bound: |bytes| 72 * bytes.len() + 128 * KIB,
            ..Target::new("weights.pth", accepts, pth.map(<[u8]>::to_vec).to_vec()).rare(40)
        },
        Target {
            bound: |bytes| 64 * bytes.len() + 64 * KIB,
            ..Target::json("weights.safetensors", accepts, vec![safetensors.to_vec()])
        },
        Target {
            words: CONFIG,
            // Of all fields only the known ones are kept, but a text with escapes is copied to be read.
            bound: |bytes| 4 * bytes.len() + 64 * KIB,
            ..Target::json("config.json", network, NETWORKS.map(|text| text.as_bytes().to_vec()).to_vec())
        },
    ]
}

/// Networks as `transformers` writes them.
const NETWORKS: [&str; 3] = [
    include_str!("../../../../../tests/golden/hugging_face/gpt2/config.json"),
    include_str!("../../../../../tests/golden/hugging_face/llama/config.json"),
    include_str!("../../../../../tests/golden/hugging_face/vit/config.json"),
];
const CONFIG: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"\"\\u0000\"",
    b"\"model_type\":",
    b"\"gpt2\"",
    b"\"llama\"",
    b"\"n_head\":",
    b"\"head_dim\":",
    b"\"rope_parameters\":{\"rope_theta\":",
    b"\"patch_size\":[1,",
];

fn network(bytes: &[u8]) -> bool {
    HubConfig::of_bytes(Path::new("config.json"), bytes).is_ok()
}

fn accepts(bytes: &[u8]) -> bool {
    read_bytes(bytes).is_ok()
}

const PICKLE: &[&[u8]] = &[
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
    b"PK\x05\x06",
    b"PK\x06\x06",
];
/// Tuples, lists and maps in each other, memoised or not.
const PICKLE_PAIRS: &[(&[u8], &[u8])] =
    &[(b"(", b"t"), (b"]", b"a"), (b"(]", b"e"), (b"}K\x01", b"s"), (b"]q\x00", b"a"), (b"h\x00\x86", b"")];
