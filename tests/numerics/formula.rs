//! Numbers that follow from a name and a place alone, as `tests/golden/README.md` defines them.

/// FNV-1a, 64 bits, of the UTF-8 bytes.
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Output `index` of SplitMix64, its top 24 bits, in [0, 1).
fn unit(seed: u64, index: u64) -> f64 {
    let mut z = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / 16_777_216.0
}

/// Where a family of numbers lies: in [`center` − `half`, `center` + `half`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) center: f64,
    pub(crate) half: f64,
}

/// In [−1, 1), without end.
pub(crate) fn signed_units(name: &str) -> impl Iterator<Item = f64> + use<> {
    let seed = seed(name);
    (0..).map(move |index| 2.0 * unit(seed, index) - 1.0)
}

/// The first `count` numbers of that name, computed in f64 and rounded once.
pub(crate) fn values(name: &str, count: usize, Spread { center, half }: Spread) -> Vec<f32> {
    signed_units(name).take(count).map(|unit| (center + unit * half) as f32).collect()
}

#[test]
fn seeds_and_units_are_those_of_the_readme() {
    assert_eq!(seed(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(seed("a"), 0xaf63_dc4c_8601_ec8c);
    let stem = seed("resnet18/54/conv1.weight");
    assert_eq!(stem, 0xbb82_92a7_8daf_a84d);
    let units = [0, 1, 2, 3, 4].map(|index| unit(stem, index) * 16_777_216.0);
    assert_eq!(units, [7_980_289.0, 6_563_139.0, 3_476_579.0, 13_184_363.0, 8_745_937.0]);
}

#[test]
fn values_are_those_of_the_readme_to_the_bit() {
    let check = |name, center, half, expected: [f32; 5], first_bits| {
        let values = values(name, 5, Spread { center, half });
        assert_eq!(values, expected, "{name}");
        assert_eq!(values[0].to_bits(), first_bits, "{name}");
    };
    let stem = [-0.013_907_262, -0.062_175_103, -0.167_302_71, 0.163_342_45, 0.012_170_553];
    check("resnet18/54/conv1.weight", 0.0, 2.0 * (3.0_f64 / 147.0).sqrt(), stem, 0xbc63_db49);
    let norm = [1.139_062_5, 1.246_350_8, 0.956_776_14, 0.941_353_7, 0.708_269_7];
    check("resnet18/54/layer1.0.bn1.weight", 1.0, 0.5, norm, 0x3f91_cccd);
    let input = [-0.890_554_4, 0.610_952_74, 0.511_222_24, 0.508_194_3, 0.169_930_7];
    check("resnet50/60/input", 0.0, 1.0, input, 0xbf63_fb60);
}
