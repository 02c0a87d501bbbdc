//! Integer instructions at edge values, against Rust's own arithmetic.

mod kit;

use kit::{apply, triples};

const EDGES: &[u64] = &[
    0,
    1,
    2,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0x1234_5678_9abc_def0,
];

fn check(instruction: &str, expected: impl Fn(u64, u64, u64) -> u64) {
    let operands = triples(EDGES);
    for (&[a, b, c], found) in operands.iter().zip(apply(instruction, &operands)) {
        let expected = expected(a, b, c);
        assert_eq!(found, expected, "{instruction} of {a:#x}, {b:#x}, {c:#x}: {found:#x}, not {expected:#x}");
    }
}

/// An expected result in terms of the low 32 bits.
fn words(f: impl Fn(u32, u32, u32) -> u32) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| u64::from(f(a as u32, b as u32, c as u32))
}

fn signed(f: impl Fn(i32, i32, i32) -> i32) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| u64::from(f(a as i32, b as i32, c as i32) as u32)
}

fn halves(f: impl Fn(u16, u16, u16) -> u16) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| u64::from(f(a as u16, b as u16, c as u16))
}

fn signed_halves(f: impl Fn(i16, i16, i16) -> i16) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| u64::from(f(a as i16, b as i16, c as i16) as u16)
}

#[test]
fn arithmetic_of_32_bits() {
    check("add.s32 %d, %a, %b;", words(|a, b, _| a.wrapping_add(b)));
    check("sub.u32 %d, %a, %b;", words(|a, b, _| a.wrapping_sub(b)));
    check("mul.lo.s32 %d, %a, %b;", words(|a, b, _| a.wrapping_mul(b)));
    check("mul.hi.s32 %d, %a, %b;", signed(|a, b, _| ((i64::from(a) * i64::from(b)) >> 32) as i32));
    check("mul.hi.u32 %d, %a, %b;", words(|a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32));
    check("mad.lo.s32 %d, %a, %b, %c;", words(|a, b, c| a.wrapping_mul(b).wrapping_add(c)));
    check(
        "mad.hi.u32 %d, %a, %b, %c;",
        words(|a, b, c| (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)),
    );
    check("min.s32 %d, %a, %b;", signed(|a, b, _| a.min(b)));
    check("max.s32 %d, %a, %b;", signed(|a, b, _| a.max(b)));
    check("min.u32 %d, %a, %b;", words(|a, b, _| a.min(b)));
    check("max.u32 %d, %a, %b;", words(|a, b, _| a.max(b)));
    check("neg.s32 %d, %a;", signed(|a, _, _| a.wrapping_neg()));
    check("abs.s32 %d, %a;", signed(|a, _, _| a.wrapping_abs()));
    check("div.u32 %d, %a, %b;", words(|a, b, _| a.checked_div(b).unwrap_or(u32::MAX)));
    check("rem.u32 %d, %a, %b;", words(|a, b, _| a.checked_rem(b).unwrap_or(a)));
    check("div.s32 %d, %a, %b;", signed(|a, b, _| if b == 0 { -1 } else { a.wrapping_div(b) }));
    check("rem.s32 %d, %a, %b;", signed(|a, b, _| if b == 0 { a } else { a.wrapping_rem(b) }));
}

#[test]
fn arithmetic_of_16_bits() {
    check("add.s16 %hd, %ha, %hb;", halves(|a, b, _| a.wrapping_add(b)));
    check("sub.s16 %hd, %ha, %hb;", halves(|a, b, _| a.wrapping_sub(b)));
    check("mul.lo.s16 %hd, %ha, %hb;", halves(|a, b, _| a.wrapping_mul(b)));
    check("mul.hi.u16 %hd, %ha, %hb;", halves(|a, b, _| ((u32::from(a) * u32::from(b)) >> 16) as u16));
    check("mul.hi.s16 %hd, %ha, %hb;", signed_halves(|a, b, _| ((i32::from(a) * i32::from(b)) >> 16) as i16));
    check("mad.lo.u16 %hd, %ha, %hb, %hc;", halves(|a, b, c| a.wrapping_mul(b).wrapping_add(c)));
    check("min.s16 %hd, %ha, %hb;", signed_halves(|a, b, _| a.min(b)));
    check("max.u16 %hd, %ha, %hb;", halves(|a, b, _| a.max(b)));
    check("neg.s16 %hd, %ha;", halves(|a, _, _| a.wrapping_neg()));
    check("abs.s16 %hd, %ha;", signed_halves(|a, _, _| a.wrapping_abs()));
    check("not.b16 %hd, %ha;", halves(|a, _, _| !a));
    check("shl.b16 %hd, %ha, %b;", |a, b, _| if b as u32 > 15 { 0 } else { a << b & 0xffff });
    check("shr.s16 %hd, %ha, %b;", |a, b, _| u64::from((a as i16 >> (b as u32).min(15)) as u16));
    check("shr.u16 %hd, %ha, %b;", |a, b, _| if b as u32 > 15 { 0 } else { (a & 0xffff) >> b });
    check("setp.lt.s16 %pd, %ha, %hb;", |a, b, _| u64::from((a as i16) < b as i16));
    check("setp.lt.u16 %pd, %ha, %hb;", |a, b, _| u64::from((a as u16) < b as u16));
    check("mul.wide.s16 %d, %ha, %hb;", |a, b, _| {
        u64::from((i32::from(a as i16) * i32::from(b as i16)) as u32)
    });
    check("mul.wide.u16 %d, %ha, %hb;", |a, b, _| (a & 0xffff) * (b & 0xffff));
    check("add.s16 %hd, %ha, -2;", halves(|a, _, _| a.wrapping_sub(2)));
}

#[test]
fn arithmetic_of_64_bits() {
    check("add.s64 %d64, %a64, %b64;", |a, b, _| a.wrapping_add(b));
    check("sub.s64 %d64, %a64, %b64;", |a, b, _| a.wrapping_sub(b));
    check("mul.lo.s64 %d64, %a64, %b64;", |a, b, _| a.wrapping_mul(b));
    check("mul.hi.u64 %d64, %a64, %b64;", |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    check("mul.hi.s64 %d64, %a64, %b64;", |a, b, _| {
        ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
    });
    check("mad.lo.u64 %d64, %a64, %b64, %c64;", |a, b, c| a.wrapping_mul(b).wrapping_add(c));
    check("mul.wide.s32 %d64, %a, %b;", |a, b, _| (i64::from(a as i32) * i64::from(b as i32)) as u64);
    check("mul.wide.u32 %d64, %a, %b;", |a, b, _| u64::from(a as u32) * u64::from(b as u32));
    check("mad.wide.s32 %d64, %a, %b, %c64;", |a, b, c| {
        ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c)
    });
    check("div.u64 %d64, %a64, %b64;", |a, b, _| a.checked_div(b).unwrap_or(u64::MAX));
    check(
        "rem.s64 %d64, %a64, %b64;",
        |a, b, _| {
            if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 }
        },
    );
    check("min.s64 %d64, %a64, %b64;", |a, b, _| (a as i64).min(b as i64) as u64);
    check("max.u64 %d64, %a64, %b64;", |a, b, _| a.max(b));
    check("neg.s64 %d64, %a64;", |a, _, _| a.wrapping_neg());
    check("abs.s64 %d64, %a64;", |a, _, _| (a as i64).wrapping_abs() as u64);
    check("shl.b64 %d64, %a64, %b;", |a, b, _| a.checked_shl(b as u32).unwrap_or(0));
    check("shr.u64 %d64, %a64, %b;", |a, b, _| a.checked_shr(b as u32).unwrap_or(0));
    check("shr.s64 %d64, %a64, %b;", |a, b, _| (a as i64 >> (b as u32).min(63)) as u64);
    check(
        "{ add.cc.u32 %r5, %a, %b; addc.u32 %d, %r5, %c; }",
        words(|a, b, c| {
            let (sum, carry) = a.overflowing_add(b);
            sum.wrapping_add(c).wrapping_add(u32::from(carry))
        }),
    );
    check("{ sub.cc.u64 %e64, %a64, %b64; subc.u64 %d64, %c64, 0; }", |a, b, c| {
        c.wrapping_sub(u64::from(a < b))
    });
}

#[test]
fn bits_and_fields() {
    check("and.b32 %d, %a, %b;", words(|a, b, _| a & b));
    check("or.b64 %d64, %a64, %b64;", |a, b, _| a | b);
    check("xor.b32 %d, %a, %b;", words(|a, b, _| a ^ b));
    check("not.b32 %d, %a;", words(|a, _, _| !a));
    check("cnot.b32 %d, %a;", words(|a, _, _| u32::from(a == 0)));
    check("shl.b32 %d, %a, %b;", words(|a, b, _| a.checked_shl(b).unwrap_or(0)));
    check("shr.u32 %d, %a, %b;", words(|a, b, _| a.checked_shr(b).unwrap_or(0)));
    check("shr.s32 %d, %a, %b;", |a, b, _| u64::from((a as i32 >> (b as u32).min(31)) as u32));
    check("popc.b64 %d, %a64;", |a, _, _| u64::from(a.count_ones()));
    check("popc.b32 %d, %a;", words(|a, _, _| a.count_ones()));
    check("clz.b32 %d, %a;", words(|a, _, _| a.leading_zeros()));
    check("clz.b64 %d, %a64;", |a, _, _| u64::from(a.leading_zeros()));
    check("brev.b32 %d, %a;", words(|a, _, _| a.reverse_bits()));
    check("brev.b64 %d64, %a64;", |a, _, _| a.reverse_bits());
    check("bfind.u32 %d, %a;", words(|a, _, _| if a == 0 { u32::MAX } else { a.ilog2() }));
    check("bfind.shiftamt.u32 %d, %a;", words(|a, _, _| if a == 0 { u32::MAX } else { a.leading_zeros() }));
    check(
        "bfind.s32 %d, %a;",
        words(|a, _, _| {
            let a = if (a as i32) < 0 { !a } else { a };
            if a == 0 { u32::MAX } else { a.ilog2() }
        }),
    );
    check(
        "shf.l.wrap.b32 %d, %a, %b, %c;",
        words(|a, b, c| ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32),
    );
    check(
        "shf.r.clamp.b32 %d, %a, %b, %c;",
        words(|a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32),
    );
    check("lop3.b32 %d, %a, %b, %c, 0xca;", words(|a, b, c| a & b | !a & c));
    check("prmt.b32 %d, %a, %b, 0x5410;", words(|a, b, _| b << 16 | a & 0xffff));
    check("bfi.b32 %d, %a, %b, 8, 4;", words(|a, b, _| b & !0xf00 | (a & 15) << 8));
    check("bfi.b64 %d64, %a64, %b64, 32, 32;", |a, b, _| b & 0xffff_ffff | a << 32);
    check("bfe.u32 %d, %a, 4, 8;", words(|a, _, _| a >> 4 & 255));
    check("bfe.s32 %d, %a, 4, 8;", words(|a, _, _| ((a << 20) as i32 >> 24) as u32));
}

#[test]
fn comparisons_and_selections() {
    check("setp.lt.s32 %pd, %a, %b;", |a, b, _| u64::from((a as i32) < b as i32));
    check("setp.ge.u32 %pd, %a, %b;", |a, b, _| u64::from(a as u32 >= b as u32));
    check("setp.hi.u64 %pd, %a64, %b64;", |a, b, _| u64::from(a > b));
    check("setp.le.s64 %pd, %a64, %b64;", |a, b, _| u64::from(a as i64 <= b as i64));
    check("setp.ne.s32 %pd, %a, %b;", |a, b, _| u64::from(a as u32 != b as u32));
    check("setp.eq.and.s32 %pd, %a, %b, %pa;", |a, b, c| u64::from(a as u32 == b as u32 && c != 0));
    check("setp.eq.or.s32 %pd, %a, %b, !%pa;", |a, b, c| u64::from(a as u32 == b as u32 || c == 0));
    check("{ setp.eq.xor.s32 %p1|%p2, %a, %b, %pa; and.pred %pd, %p1, %p2; }", |_, _, _| 0);
    check("set.gt.u32.s32 %d, %a, %b;", |a, b, _| if a as i32 > b as i32 { 0xffff_ffff } else { 0 });
    check("set.gt.f32.u32 %d, %a, %b;", |a, b, _| if a as u32 > b as u32 { 0x3f80_0000 } else { 0 });
    check("selp.b32 %d, %a, %b, %pa;", words_if);
    check("selp.b64 %d64, %a64, 7, %pa;", |a, _, c| if c != 0 { a } else { 7 });
    check(
        "{ mov.u32 %d, %a; @%pa mov.u32 %d, %b; }",
        |a, b, c| if c != 0 { b & 0xffff_ffff } else { a & 0xffff_ffff },
    );
    check("{ mov.u32 %d, %a; @!%pa mov.u32 %d, %b; }", words_if);
    check("{ not.pred %p1, %pa; xor.pred %pd, %p1, %pa; }", |_, _, _| 1);
}

fn words_if(a: u64, b: u64, c: u64) -> u64 {
    (if c != 0 { a } else { b }) & 0xffff_ffff
}

#[test]
fn pieces_of_registers() {
    check("mov.b64 %d64, {%a, %b};", |a, b, _| b << 32 | a & 0xffff_ffff);
    check("mov.b32 %d, {%ha, %hb};", |a, b, _| (b & 0xffff) << 16 | a & 0xffff);
    check("mov.b32 %d, {0, %hb};", |_, b, _| (b & 0xffff) << 16);
    check("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %a64; sub.u32 %d, hi, lo; }", |a, _, _| {
        u64::from(((a >> 32) as u32).wrapping_sub(a as u32))
    });
    check("mov.b32 {_, %hd}, %a;", |a, _, _| a >> 16 & 0xffff);
    check("mov.b64 {%ha, %hb, %hc, %hd}, %a64;", |a, _, _| a >> 48);
}

#[test]
fn conversions_between_integers() {
    check("cvt.s32.s8 %d, %a;", |a, _, _| u64::from(a as i8 as i32 as u32));
    check("cvt.u32.u8 %d, %a;", |a, _, _| a & 255);
    check("cvt.s64.s32 %d64, %a;", |a, _, _| a as i32 as i64 as u64);
    check("cvt.u64.u32 %d64, %a;", |a, _, _| a & 0xffff_ffff);
    check("cvt.s64.s16 %d64, %ha;", |a, _, _| a as i16 as i64 as u64);
    check("cvt.s16.s8 %hd, %ha;", |a, _, _| u64::from(a as i8 as i16 as u16));
    check("cvt.s32.s16 %d, %ha;", |a, _, _| u64::from(a as i16 as i32 as u32));
    check("cvt.sat.s8.s32 %d, %a;", |a, _, _| u64::from((a as i32).clamp(-128, 127) as u32));
    check("cvt.sat.u8.s32 %d, %a;", |a, _, _| (a as i32).clamp(0, 255) as u64);
    check("cvt.sat.u32.s64 %d, %a64;", |a, _, _| (a as i64).clamp(0, 0xffff_ffff) as u64);
    check("cvt.sat.s32.u32 %d, %a;", |a, _, _| u64::from((a as u32).min(0x7fff_ffff)));
}

#[test]
fn signed_loads_fill_their_register() {
    let local = |load: &str| {
        format!(
            "{{ .reg .b64 at; .shared .align 8 .b8 s[512]; mov.u32 %r5, %tid.x; shl.b32 %r5, %r5, 3; cvt.u64.u32 at, %r5; mov.u64 %e64, s; add.u64 at, at, %e64; st.shared.u64 [at], %a64; {load} }}"
        )
    };
    check(&local("ld.shared.s8 %d, [at];"), |a, _, _| u64::from(a as i8 as i32 as u32));
    check(
        &local("ld.shared.s8 %hd, [at]; setp.lt.u16 %p1, %hd, 0x100; selp.u16 %hd, 1, 0, %p1;"),
        |a, _, _| u64::from((a as i8) >= 0),
    );
    check(
        &local("ld.shared.s16 %hd, [at]; setp.eq.u16 %p1, %hd, 0xffff; selp.u16 %hd, 1, 0, %p1;"),
        |a, _, _| u64::from(a as u16 == 0xffff),
    );
    check(&local("ld.shared.v2.s8 {%hd, %hb}, [at]; sub.u16 %hd, %hd, %hb;"), |a, _, _| {
        u64::from((a as i8 as i16).wrapping_sub((a >> 8) as i8 as i16) as u16)
    });
    check(&local("ld.shared.s16 %d64, [at];"), |a, _, _| a as i16 as i64 as u64);
    check(&local("ld.shared.s32 %d64, [at+4];"), |a, _, _| (a as i64 >> 32) as u64);
    check(&local("ld.shared.u16 %d64, [at+2];"), |a, _, _| a >> 16 & 0xffff);
}
