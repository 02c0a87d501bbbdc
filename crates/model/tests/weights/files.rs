//! Files written by PyTorch, compared value by value. A formula gives the values: see `tests/golden/README.md`.

use burn::tensor::{bf16, f16};
use oomph_model::weights::WeightFile;

use crate::golden_path;

/// The number at `index` of the tensor `name`, in [−1, 1).
fn value(name: &str, index: u64) -> f32 {
    let seed = format!("weights/{name}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (2.0 * ((z >> 40) as f64 / 16_777_216.0) - 1.0) as f32
}

const TENSORS: [(&str, &[usize]); 10] = [
    ("fc.bias", &[2]),
    ("fc.weight", &[2, 3]),
    ("lstm.bias_hh_l0", &[12]),
    ("lstm.bias_hh_l1", &[12]),
    ("lstm.bias_ih_l0", &[12]),
    ("lstm.bias_ih_l1", &[12]),
    ("lstm.weight_hh_l0", &[12, 3]),
    ("lstm.weight_hh_l1", &[12, 3]),
    ("lstm.weight_ih_l0", &[12, 2]),
    ("lstm.weight_ih_l1", &[12, 3]),
];

fn check(file: &str, prefix: &str, kind: &str, rounded: fn(f32) -> f32) {
    let file = WeightFile::open(&golden_path(file)).unwrap();
    let found: Vec<_> =
        file.tensors().map(|tensor| (tensor.name.to_owned(), tensor.shape.to_vec())).collect();
    let expected = TENSORS.map(|(name, shape)| (format!("{prefix}{name}"), shape.to_vec()));
    assert_eq!(found, expected, "{file:?}");
    assert!(file.tensors().all(|tensor| tensor.kind == kind && tensor.is_float), "{file:?}");
    for (name, shape) in TENSORS {
        let values = file.read(&format!("{prefix}{name}")).unwrap().unwrap();
        let count: usize = shape.iter().product();
        let expected: Vec<f32> = (0..count as u64).map(|index| rounded(value(name, index))).collect();
        assert_eq!(values, expected, "`{name}` of {file:?}");
    }
}

#[test]
fn an_archive_is_read() {
    check("weights_zip.pth", "", "float32", |value| value);
}

#[test]
fn a_file_from_before_archives_is_read() {
    check("weights_legacy.pth", "", "float32", |value| value);
}

#[test]
fn a_pickle_of_protocol_4_is_read() {
    check("weights_protocol_4.pth", "", "float32", |value| value);
}

#[test]
fn the_state_dict_of_a_training_of_parallel_modules_is_found_and_widened() {
    check("weights_nested_half.pth", "module.", "float16", |value| f16::from_f32(value).to_f32());
}

#[test]
fn parameters_that_are_transposed_parts_of_one_storage_of_doubles_are_read() {
    check("weights_views_double.pth", "", "float64", |value| value);
}

#[test]
fn safetensors_of_bfloat16_are_read() {
    check("weights_bfloat16.safetensors", "", "bfloat16", |value| bf16::from_f32(value).to_f32());
}
