//! Float instructions at edge values, against Rust's own arithmetic and the `half` crate.

mod kit;

use half::{bf16, f16};
use kit::{Noise, apply, triples};

const SINGLES: &[f32] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    3.0e38,
    -3.0e38,
    1e-40,
    -1e-45,
    1.1754944e-38,
    8388609.0,
    16777217.0,
    2147483648.0,
    -2147483904.0,
    4294967296.0,
    65504.0,
    65519.0,
    65520.0,
    6e-8,
    1e-8,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

fn check32(instruction: &str, expected: impl Fn(f32, f32, f32) -> f32) {
    let operands = triples(&SINGLES.iter().map(|x| u64::from(x.to_bits())).collect::<Vec<_>>());
    for (bits, found) in operands.iter().zip(apply(instruction, &operands)) {
        let [a, b, c] = bits.map(|bits| f32::from_bits(bits as u32));
        let (found, expected) = (f32::from_bits(found as u32), expected(a, b, c));
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{instruction} of {a:e}, {b:e}, {c:e}: {found:e}, not {expected:e}");
    }
}

fn check64(instruction: &str, expected: impl Fn(f64, f64, f64) -> f64) {
    let values: Vec<u64> = SINGLES.iter().map(|&x| (f64::from(x) * 1.000_000_001).to_bits()).collect();
    let operands = triples(&values);
    for (bits, found) in operands.iter().zip(apply(instruction, &operands)) {
        let [a, b, c] = bits.map(f64::from_bits);
        let (found, expected) = (f64::from_bits(found), expected(a, b, c));
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{instruction} of {a:e}, {b:e}, {c:e}: {found:e}, not {expected:e}");
    }
}

/// A result as bits, of operands given as bits of a 32-bit float.
fn check_bits(instruction: &str, expected: impl Fn(f32) -> u64) {
    let operands: Vec<[u64; 3]> = SINGLES.iter().map(|x| [u64::from(x.to_bits()), 0, 0]).collect();
    for (bits, found) in operands.iter().zip(apply(instruction, &operands)) {
        let a = f32::from_bits(bits[0] as u32);
        let expected = expected(a);
        assert_eq!(found, expected, "{instruction} of {a:e}: {found:#x}, not {expected:#x}");
    }
}

fn least(a: f32, b: f32) -> f32 {
    if a.is_nan() || a == b && b.is_sign_negative() { b } else { a.min(b) }
}

#[test]
fn arithmetic_of_binary32() {
    check32("add.f32 %d, %a, %b;", |a, b, _| a + b);
    check32("sub.rn.f32 %d, %a, %b;", |a, b, _| a - b);
    check32("mul.f32 %d, %a, %b;", |a, b, _| a * b);
    check32("fma.rn.f32 %d, %a, %b, %c;", f32::mul_add);
    check32("div.rn.f32 %d, %a, %b;", |a, b, _| a / b);
    check32("min.f32 %d, %a, %b;", |a, b, _| least(a, b));
    check32("max.f32 %d, %a, %b;", |a, b, _| -least(-a, -b));
    check32(
        "min.NaN.f32 %d, %a, %b;",
        |a, b, _| if a.is_nan() || b.is_nan() { f32::NAN } else { least(a, b) },
    );
    check32("neg.f32 %d, %a;", |a, _, _| -a);
    check32("abs.f32 %d, %a;", |a, _, _| a.abs());
    check32("sqrt.rn.f32 %d, %a;", |a, _, _| a.sqrt());
    check32("rcp.rn.f32 %d, %a;", |a, _, _| 1.0 / a);
    check32("copysign.f32 %d, %a, %b;", |a, b, _| b.copysign(a));
    check32("add.sat.f32 %d, %a, %b;", |a, b, _| (a + b).clamp(0.0, 1.0).max(0.0) + 0.0);
    check32("add.f32 %d, %a, 0f3FC00000;", |a, _, _| a + 1.5);
}

#[test]
fn subnormals_are_flushed_where_asked() {
    let flush = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
    check32("add.ftz.f32 %d, %a, %b;", |a, b, _| flush(flush(a) + flush(b)));
    check32("mul.ftz.f32 %d, %a, %b;", |a, b, _| flush(flush(a) * flush(b)));
    check32("fma.rn.ftz.f32 %d, %a, %b, %c;", |a, b, c| flush(flush(a).mul_add(flush(b), flush(c))));
    check32("selp.f32 %d, %a, %b, %pa;", |a, b, c| if c.to_bits() != 0 { a } else { b });
}

/// The exact result lies on the asked side of the rounded one, and nowhere further than its neighbour.
fn directed(instruction: &str, direction: i32, exact: impl Fn(f64, f64, f64) -> f64) {
    let mut noise = Noise(7);
    let mut value = || u64::from(noise.next() & 0x807f_ffff | (100 + noise.next() % 40) << 23);
    let operands: Vec<[u64; 3]> = (0..2000).map(|_| [value(), value(), value()]).collect();
    for (bits, found) in operands.iter().zip(apply(instruction, &operands)) {
        let [a, b, c] = bits.map(|bits| f64::from(f32::from_bits(bits as u32)));
        let (found, exact) = (f32::from_bits(found as u32), exact(a, b, c));
        let toward = if direction == 0 { if exact > 0.0 { -1 } else { 1 } } else { direction };
        let (low, high) = if toward < 0 { (found, found.next_up()) } else { (found.next_down(), found) };
        assert!(f64::from(low) <= exact && exact <= f64::from(high), "{instruction}: {found:e} of {exact:e}");
        let tight = if toward < 0 { f64::from(high) != exact } else { f64::from(low) != exact };
        assert!(tight, "{instruction}: {found:e} of {exact:e}, which is its neighbour");
    }
}

#[test]
fn directed_rounding_of_binary32() {
    // Products of two binary32 are exact in binary64; so are sums of numbers so close in size.
    directed("mul.rm.f32 %d, %a, %b;", -1, |a, b, _| a * b);
    directed("mul.rp.f32 %d, %a, %b;", 1, |a, b, _| a * b);
    directed("mul.rz.f32 %d, %a, %b;", 0, |a, b, _| a * b);
    directed("add.rz.f32 %d, %a, %b;", 0, |a, b, _| a + b);
    directed("add.rm.f32 %d, %a, %b;", -1, |a, b, _| a + b);
    directed("sub.rp.f32 %d, %a, %b;", 1, |a, b, _| a - b);
    directed(
        "cvt.rz.f32.f64 %d, %e64;"
            .replace("cvt", "cvt.f64.f32 %e64, %a; mul.f64 %e64, %e64, 0d3FF000001AD7F29B; cvt")
            .as_str(),
        0,
        |a, _, _| a * f64::from_bits(0x3ff0_0000_1ad7_f29b),
    );
}

#[test]
fn approximations_are_close() {
    let close = |instruction: &str, exact: fn(f64) -> f64| {
        let operands: Vec<[u64; 3]> =
            (1..400).map(|i| [u64::from((i as f32 * 0.037).to_bits()), 0, 0]).collect();
        for (bits, found) in operands.iter().zip(apply(instruction, &operands)) {
            let a = f64::from(f32::from_bits(bits[0] as u32));
            let (found, exact) = (f64::from(f32::from_bits(found as u32)), exact(a));
            assert!(
                (found - exact).abs() <= 1e-6 * exact.abs().max(1.0),
                "{instruction} of {a}: {found}, not {exact}"
            );
        }
    };
    close("ex2.approx.f32 %d, %a;", f64::exp2);
    close("lg2.approx.f32 %d, %a;", f64::log2);
    close("sin.approx.f32 %d, %a;", f64::sin);
    close("cos.approx.ftz.f32 %d, %a;", f64::cos);
    close("tanh.approx.f32 %d, %a;", f64::tanh);
    close("rsqrt.approx.f32 %d, %a;", |x| 1.0 / x.sqrt());
    close("sqrt.approx.f32 %d, %a;", f64::sqrt);
    close("rcp.approx.ftz.f32 %d, %a;", |x| 1.0 / x);
    close("div.full.f32 %d, %a, 0f40400000;", |x| x / 3.0);
}

#[test]
fn arithmetic_of_binary64() {
    check64("add.f64 %d64, %a64, %b64;", |a, b, _| a + b);
    check64("mul.rn.f64 %d64, %a64, %b64;", |a, b, _| a * b);
    check64("fma.rn.f64 %d64, %a64, %b64, %c64;", f64::mul_add);
    check64("div.rn.f64 %d64, %a64, %b64;", |a, b, _| a / b);
    check64("sqrt.rn.f64 %d64, %a64;", |a, _, _| a.sqrt());
    check64("neg.f64 %d64, %a64;", |a, _, _| -a);
    check64("abs.f64 %d64, %a64;", |a, _, _| a.abs());
    check64("add.f64 %d64, %a64, 0d4008000000000000;", |a, _, _| a + 3.0);
}

type Relation = fn(f32, f32) -> bool;

#[test]
#[expect(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord, reason = "NaNs make the difference")]
fn comparisons_of_floats() {
    let relations: [(&str, Relation); 14] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a < b || a > b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
        ("equ", |a, b| !(a < b || a > b)),
        ("neu", |a, b| a != b),
        ("ltu", |a, b| !(a >= b)),
        ("leu", |a, b| !(a > b)),
        ("gtu", |a, b| !(a <= b)),
        ("geu", |a, b| !(a < b)),
        ("num", |a, b| !a.is_nan() && !b.is_nan()),
        ("nan", |a, b| a.is_nan() || b.is_nan()),
    ];
    for (name, holds) in relations {
        let one = |truth: bool| f32::from_bits(u32::from(truth));
        check32(&format!("{{ setp.{name}.f32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1; }}"), |a, b, _| {
            one(holds(a, b))
        });
        check32(
            &format!(
                "{{ cvt.f64.f32 %e64, %a; cvt.f64.f32 %b64, %b; setp.{name}.f64 %p1, %e64, %b64; selp.b32 %d, 1, 0, %p1; }}"
            ),
            |a, b, _| one(holds(a, b)),
        );
    }
    check_bits("testp.subnormal.f32 %pd, %a;", |a| u64::from(a.is_subnormal()));
    check_bits("testp.finite.f32 %pd, %a;", |a| u64::from(a.is_finite()));
}

#[test]
fn floats_to_integers_clamp() {
    check_bits("cvt.rzi.s32.f32 %d, %a;", |a| u64::from(a as i32 as u32));
    check_bits("cvt.rni.s32.f32 %d, %a;", |a| u64::from(a.round_ties_even() as i32 as u32));
    check_bits("cvt.rmi.s32.f32 %d, %a;", |a| u64::from(a.floor() as i32 as u32));
    check_bits("cvt.rpi.u32.f32 %d, %a;", |a| u64::from(a.ceil() as u32));
    check_bits("cvt.rzi.u8.f32 %d, %a;", |a| u64::from(a as u8));
    check_bits("cvt.rzi.s64.f32 %d64, %a;", |a| if a.is_nan() { 1 << 63 } else { a as i64 as u64 });
    check_bits("cvt.rni.f32.f32 %d, %a;", |a| {
        u64::from(if a.is_nan() { 0x7fc0_0000 } else { a.round_ties_even().to_bits() })
    });
    check_bits("cvt.sat.f32.f32 %d, %a;", |a| u64::from(if a > 0.0 { a.min(1.0) } else { 0.0 }.to_bits()));
}

#[test]
fn integers_to_floats_are_rounded_once() {
    let values = [
        0,
        1,
        16_777_217,
        0x7fff_ffff,
        0x8000_0001,
        0xffff_ff7f,
        0xffff_ffff,
        0x7fff_ffbf_ffff_ffff,
        u64::MAX,
    ];
    let operands: Vec<[u64; 3]> = values.map(|value| [value, 0, 0]).to_vec();
    let check = |instruction: &str, expected: &dyn Fn(u64) -> u64| {
        for ([a, _, _], found) in operands.iter().zip(apply(instruction, &operands)) {
            assert_eq!(found, expected(*a), "{instruction} of {a:#x}");
        }
    };
    check("cvt.rn.f32.s32 %d, %a;", &|a| u64::from((a as i32 as f32).to_bits()));
    check("cvt.rn.f32.u32 %d, %a;", &|a| u64::from((a as u32 as f32).to_bits()));
    check("cvt.rn.f32.u64 %d, %a64;", &|a| u64::from((a as f32).to_bits()));
    check("cvt.rn.f32.s64 %d, %a64;", &|a| u64::from((a as i64 as f32).to_bits()));
    check("cvt.rn.f64.u64 %d64, %a64;", &|a| (a as f64).to_bits());
    check("cvt.rz.f32.u32 %d, %a;", &|a| {
        let near = a as u32 as f32;
        u64::from(if f64::from(near) > f64::from(a as u32) { near.next_down() } else { near }.to_bits())
    });
    check("cvt.rn.f16.u32 %hd, %a;", &|a| u64::from(f16::from_f64(f64::from(a as u32)).to_bits()));
}

fn same16(found: u64, expected: u16) -> bool {
    let nan = |bits: u16, exponent: u16| bits & 0x7fff > exponent;
    found == u64::from(expected) || nan(found as u16, 0x7c00) && nan(expected, 0x7c00)
}

#[test]
fn conversions_to_halves() {
    for &x in SINGLES {
        let found = |instruction: &str| apply(instruction, &[[u64::from(x.to_bits()), 0, 0]])[0];
        assert!(same16(found("cvt.rn.f16.f32 %hd, %a;"), f16::from_f32(x).to_bits()), "{x:e}");
        assert!(same16(found("cvt.rn.bf16.f32 %hd, %a;"), bf16::from_f32(x).to_bits()), "{x:e}");
        let toward_zero = bf16::from_bits((x.to_bits() >> 16) as u16);
        assert!(same16(found("cvt.rz.bf16.f32 %hd, %a;"), toward_zero.to_bits()), "{x:e}");
        let pair = found("cvt.rn.f16x2.f32 %d, %a, 0f3FC00000;");
        assert_eq!(pair & 0xffff, 0x3e00, "the second operand is the lower half");
        assert!(same16(pair >> 16, f16::from_f32(x).to_bits()));
        let tf32 = found("cvt.rna.tf32.f32 %d, %a;") as u32;
        if x.is_finite() {
            assert_eq!(tf32 & 0x1fff, 0);
            assert_eq!(tf32, (x.to_bits() + 0x1000) & !0x1fff);
        }
    }
    let f16_bits: Vec<[u64; 3]> = (0..=0xffff).map(|bits| [bits, 0, 0]).collect();
    for ([bits, _, _], found) in f16_bits.iter().zip(apply("cvt.f32.f16 %d, %ha;", &f16_bits)) {
        let (found, expected) = (f32::from_bits(found as u32), f16::from_bits(*bits as u16).to_f32());
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:#x}");
    }
}

/// Halves whose products and sums need every kind of rounding.
fn halves(count: usize) -> Vec<[u64; 3]> {
    let mut noise = Noise(3);
    (0..count).map(|_| [0; 3].map(|_| u64::from(noise.next()) & 0xffff_ffff)).collect()
}

#[test]
fn arithmetic_of_halves_is_rounded_once() {
    let operands = halves(20_000);
    let check = |name: &str, expected: &dyn Fn([f64; 3]) -> f64| {
        let arity = if name.starts_with("fma") { ", %hc" } else { "" };
        for kind in ["f16", "bf16"] {
            let instruction = format!("{name}.{kind} %hd, %ha, %hb{arity};");
            for (bits, found) in operands.iter().zip(apply(&instruction, &operands)) {
                let value = |bits: u64| match kind {
                    "f16" => f16::from_bits(bits as u16).to_f64(),
                    _ => bf16::from_bits(bits as u16).to_f64(),
                };
                let exact = expected(bits.map(value));
                let found = value(found);
                // The nearest number of the format is no further away than its neighbours.
                if exact.is_nan() || exact.is_infinite() {
                    assert!(found == exact || found.is_nan() && exact.is_nan(), "{instruction} of {bits:x?}");
                } else if found.is_finite() {
                    let step =
                        |by: i32| match kind {
                            "f16" => f16::from_bits((i32::from(f16::from_f64(found).to_bits()) + by) as u16)
                                .to_f64(),
                            _ => bf16::from_bits((i32::from(bf16::from_f64(found).to_bits()) + by) as u16)
                                .to_f64(),
                        };
                    for neighbour in [step(1), step(-1)] {
                        let closer = (neighbour - exact).abs() < (found - exact).abs();
                        assert!(
                            !closer,
                            "{instruction} of {bits:x?}: {found:e}, nearer to {exact:e} is {neighbour:e}"
                        );
                    }
                }
            }
        }
    };
    check("add", &|[a, b, _]| a + b);
    check("sub", &|[a, b, _]| a - b);
    check("mul", &|[a, b, _]| a * b);
    check("fma.rn", &|[a, b, c]| a.mul_add(b, c));
}

#[test]
fn pairs_of_halves_compute_like_single_ones() {
    let operands = halves(2000);
    for operation in ["add", "sub", "mul", "fma.rn", "min", "max", "max.NaN", "neg", "abs"] {
        for kind in ["f16", "bf16"] {
            let operands_of = |r: &str| match operation {
                "fma.rn" => format!("%{r}a, %{r}b, %{r}c"),
                "neg" | "abs" => format!("%{r}a"),
                _ => format!("%{r}a, %{r}b"),
            };
            let pairs = apply(&format!("{operation}.{kind}x2 %d, {};", operands_of("")), &operands);
            let high: Vec<[u64; 3]> = operands.iter().map(|o| o.map(|bits| bits >> 16)).collect();
            let single = format!("{operation}.{kind} %hd, {};", operands_of("h"));
            let (low, high) = (apply(&single, &operands), apply(&single, &high));
            for ((pair, low), high) in pairs.iter().zip(low).zip(high) {
                assert_eq!(*pair, high << 16 | low, "{operation}.{kind}x2");
            }
        }
    }
}

#[test]
fn comparisons_of_halves() {
    let bits = |x: f32| u64::from(f16::from_f32(x).to_bits());
    let found =
        apply("set.gt.f16.f16 %hd, %ha, %hb;", &[[bits(2.0), bits(1.0), 0], [bits(1.0), bits(1.0), 0]]);
    assert_eq!(found, [0x3c00, 0]);
    let found =
        apply("setp.lt.bf16 %pd, %ha, %hb;", &[[0xbf80, 0x3f80, 0], [0x3f80, 0xbf80, 0], [0x7fff, 0, 0]]);
    assert_eq!(found, [1, 0, 0]);
}

#[test]
fn subnormal_halves_are_flushed_where_asked() {
    // 2⁻¹⁵ is subnormal; its double is the least normal number.
    let found = apply("add.f16 %hd, %ha, %hb;", &[[0x0200, 0x0200, 0], [0x0001, 0x0001, 0]]);
    assert_eq!(found, [0x0400, 0x0002]);
    let found = apply("add.ftz.f16 %hd, %ha, %hb;", &[[0x0200, 0x0200, 0], [0x3c00, 0x8001, 0]]);
    assert_eq!(found, [0, 0x3c00]);
    assert_eq!(apply("mul.ftz.f16 %hd, %ha, %hb;", &[[0x0400, 0xb800, 0]]), [0x8000]);
}
