//! Integer arithmetic and logic.

use super::lanes::{LANES, Lanes, Scalar, map1, map2, map3, vectorised};
use super::registers::Registers;
use crate::number::bits;
use crate::program::{Count, Int, IntBinary, IntUnary, IntegerOp, Long, Word};

/// Executes an operation in the lanes of a mask.
#[inline(always)]
pub(super) fn execute(r: &mut Registers, op: IntegerOp, mask: u32) {
    match op {
        IntegerOp::Words { op, int, d, a, b } => words(r, op, int, d, a, b, mask),
        IntegerOp::Longs { op, signed, d, a, b } => longs(r, op, signed, d, a, b, mask),
        IntegerOp::ShiftLong { op, signed, d, a, by } => shift_long(r, op, signed, d, a, by, mask),
        IntegerOp::WordUnary { op, int, d, a } => word_unary(r, op, int, d, a, mask),
        IntegerOp::LongUnary { op, d, a } => long_unary(r, op, d, a, mask),
        IntegerOp::CountWord { op, d, a } => count_word(r, op, d, a, mask),
        IntegerOp::CountLong { op, d, a } => count_long(r, op, d, a, mask),
        IntegerOp::MadWord { high, int, d, a, b, c } => mad_word(r, high, int, d, a, b, c, mask),
        IntegerOp::MadLong { high, signed, d, a, b, c } => mad_long(r, high, signed, d, a, b, c, mask),
        IntegerOp::WideWord { signed, d, a, b, c } => wide_word(r, signed, d, a, b, c, mask),
        IntegerOp::WideLong { signed, d, a, b, c } => wide_long(r, signed, d, a, b, c, mask),
        IntegerOp::CarryWord { subtract, carry_in, carry_out, d, a, b } => {
            carry_word(r, subtract, carry_in, carry_out, d, a, b, mask);
        }
        IntegerOp::CarryLong { subtract, carry_in, carry_out, d, a, b } => {
            carry_long(r, subtract, carry_in, carry_out, d, a, b, mask);
        }
        IntegerOp::Permute { d, a, b, selector } => permute(r, d, a, b, selector, mask),
        IntegerOp::Lop3 { d, a, b, c, table } => lop3(r, d, a, b, c, u32::from(table), mask),
        IntegerOp::Funnel { left, wrap, d, low, high, by } => {
            funnel(r, left, wrap, d, low, high, by, mask);
        }
        IntegerOp::ExtractWord { signed, d, a, position, length } => {
            extract_word(r, signed, d, a, position, length, mask);
        }
        IntegerOp::ExtractLong { signed, d, a, position, length } => {
            extract_long(r, signed, d, a, position, length, mask);
        }
        IntegerOp::InsertWord { d, field, a, position, length } => {
            insert_word(r, d, field, a, position, length, mask);
        }
        IntegerOp::InsertLong { d, field, a, position, length } => {
            insert_long(r, d, field, a, position, length, mask);
        }
    }
}

/// A binary operation on numbers of one type; `$wide` holds a product. Division by zero gives all ones.
macro_rules! binary {
    ($type:ty, $wide:ty, $op:expr, $a:expr, $b:expr) => {
        match $op {
            IntBinary::Add => map2::<$type>($a, $b, <$type>::wrapping_add),
            IntBinary::Sub => map2::<$type>($a, $b, <$type>::wrapping_sub),
            IntBinary::Mul => map2::<$type>($a, $b, <$type>::wrapping_mul),
            IntBinary::MulHigh => map2::<$type>($a, $b, |x, y| high!($type, $wide, x, y)),
            IntBinary::Div => map2::<$type>($a, $b, |x, y| if y == 0 { !0 } else { x.wrapping_div(y) }),
            IntBinary::Rem => map2::<$type>($a, $b, |x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
            IntBinary::Min => map2::<$type>($a, $b, Ord::min),
            IntBinary::Max => map2::<$type>($a, $b, Ord::max),
            IntBinary::And => map2::<$type>($a, $b, |x, y| x & y),
            IntBinary::Or => map2::<$type>($a, $b, |x, y| x | y),
            IntBinary::Xor => map2::<$type>($a, $b, |x, y| x ^ y),
            // Shift amounts are unsigned and 32 bits wide, whatever the type.
            IntBinary::ShiftLeft => {
                map_shift::<$type>(
                    $a,
                    &shift_amounts!($b),
                    |x, by| if by < <$type>::BITS { x << by } else { 0 },
                )
            }
            IntBinary::ShiftRight => map_shift::<$type>($a, &shift_amounts!($b), |x, by| {
                x >> by.min(<$type>::BITS - 1) >> u32::from(by >= <$type>::BITS)
            }),
        }
    };
}

macro_rules! high {
    ($type:ty, $wide:ty, $x:expr, $y:expr) => {
        ((<$wide>::from($x) * <$wide>::from($y)) >> <$type>::BITS) as $type
    };
}

macro_rules! shift_amounts {
    ($b:expr) => {
        Lanes::by_lane(|lane| $b.0[lane] as u32)
    };
}

#[inline(always)]
fn map_shift<S: Scalar>(a: &Lanes<S::Slot>, by: &Lanes<u32>, f: impl Fn(S, u32) -> S) -> Lanes<S::Slot> {
    Lanes::by_lane(|lane| f(S::of(a.0[lane]), by.0[lane]).slot())
}

vectorised! {
    fn words(r: &mut Registers, op: IntBinary, int: Int, d: Word, a: Word, b: Word, mask: u32) {
        let (a, b) = (r.word(a), r.word(b));
        let out = match int {
            Int::U16 => binary!(u16, u32, op, a, b),
            Int::S16 => binary!(i16, i32, op, a, b),
            Int::S32 => binary!(i32, i64, op, a, b),
            Int::U32 | Int::U64 | Int::S64 => binary!(u32, u64, op, a, b),
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn longs(r: &mut Registers, op: IntBinary, signed: bool, d: Long, a: Long, b: Long, mask: u32) {
        let (a, b) = (r.long(a), r.long(b));
        let out = if signed { binary!(i64, i128, op, a, b) } else { binary!(u64, u128, op, a, b) };
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn shift_long(r: &mut Registers, op: IntBinary, signed: bool, d: Long, a: Long, by: Word, mask: u32) {
        let (a, by) = (r.long(a), r.word(by));
        let out = match (op, signed) {
            (IntBinary::ShiftLeft, _) => map_shift::<u64>(a, by, |x, by| if by < 64 { x << by } else { 0 }),
            (_, false) => map_shift::<u64>(a, by, |x, by| if by < 64 { x >> by } else { 0 }),
            (_, true) => map_shift::<i64>(a, by, |x, by| x >> by.min(63)),
        };
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn word_unary(r: &mut Registers, op: IntUnary, int: Int, d: Word, a: Word, mask: u32) {
        let a = r.word(a);
        let narrow = matches!(int, Int::U16 | Int::S16);
        let out = match op {
            IntUnary::Neg => map1::<u32>(a, u32::wrapping_neg),
            IntUnary::Abs if narrow => map1::<i16>(a, i16::wrapping_abs),
            IntUnary::Abs => map1::<i32>(a, i32::wrapping_abs),
            IntUnary::Not => map1::<u32>(a, |x| !x),
            IntUnary::LogicalNot => map1::<u32>(a, |x| u32::from(x == 0)),
            IntUnary::Reverse => map1::<u32>(a, u32::reverse_bits),
        };
        let out = if narrow { map1::<u32>(&out, |x| x & 0xffff) } else { out };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn long_unary(r: &mut Registers, op: IntUnary, d: Long, a: Long, mask: u32) {
        let a = r.long(a);
        let out = match op {
            IntUnary::Neg => map1::<u64>(a, u64::wrapping_neg),
            IntUnary::Abs => map1::<i64>(a, i64::wrapping_abs),
            IntUnary::Not => map1::<u64>(a, |x| !x),
            IntUnary::LogicalNot => map1::<u64>(a, |x| u64::from(x == 0)),
            IntUnary::Reverse => map1::<u64>(a, u64::reverse_bits),
        };
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn mad_word(r: &mut Registers, high: bool, int: Int, d: Word, a: Word, b: Word, c: Word, mask: u32) {
        let (a, b, c) = (r.word(a), r.word(b), r.word(c));
        let out = match (int, high) {
            (Int::U16, true) => map3::<u16>(a, b, c, |x, y, z| high!(u16, u32, x, y).wrapping_add(z)),
            (Int::S16, true) => map3::<i16>(a, b, c, |x, y, z| high!(i16, i32, x, y).wrapping_add(z)),
            (Int::U16 | Int::S16, false) => map3::<u16>(a, b, c, |x, y, z| x.wrapping_mul(y).wrapping_add(z)),
            (Int::S32, true) => map3::<i32>(a, b, c, |x, y, z| high!(i32, i64, x, y).wrapping_add(z)),
            (_, true) => map3::<u32>(a, b, c, |x, y, z| high!(u32, u64, x, y).wrapping_add(z)),
            (_, false) => map3::<u32>(a, b, c, |x, y, z| x.wrapping_mul(y).wrapping_add(z)),
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn mad_long(r: &mut Registers, high: bool, signed: bool, d: Long, a: Long, b: Long, c: Long, mask: u32) {
        let (a, b, c) = (r.long(a), r.long(b), r.long(c));
        let out = match (high, signed) {
            (false, _) => map3::<u64>(a, b, c, |x, y, z| x.wrapping_mul(y).wrapping_add(z)),
            (true, true) => map3::<i64>(a, b, c, |x, y, z| high!(i64, i128, x, y).wrapping_add(z)),
            (true, false) => map3::<u64>(a, b, c, |x, y, z| high!(u64, u128, x, y).wrapping_add(z)),
        };
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    /// 16 × 16 + 32 bits.
    fn wide_word(r: &mut Registers, signed: bool, d: Word, a: Word, b: Word, c: Word, mask: u32) {
        let (a, b, c) = (r.word(a), r.word(b), r.word(c));
        let out = if signed {
            map3::<u32>(a, b, c, |x, y, z| ((i32::from(x as i16) * i32::from(y as i16)) as u32).wrapping_add(z))
        } else {
            map3::<u32>(a, b, c, |x, y, z| ((x & 0xffff).wrapping_mul(y & 0xffff)).wrapping_add(z))
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    /// 32 × 32 + 64 bits.
    fn wide_long(r: &mut Registers, signed: bool, d: Long, a: Word, b: Word, c: Long, mask: u32) {
        let (a, b, c) = (r.word(a), r.word(b), r.long(c));
        let mut out = Lanes::all(0);
        if signed {
            for lane in 0..LANES {
                let product = i64::from(a.0[lane] as i32) * i64::from(b.0[lane] as i32);
                out.0[lane] = (product as u64).wrapping_add(c.0[lane]);
            }
        } else {
            for lane in 0..LANES {
                out.0[lane] = (u64::from(a.0[lane]) * u64::from(b.0[lane])).wrapping_add(c.0[lane]);
            }
        }
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn count_word(r: &mut Registers, op: Count, d: Word, a: Word, mask: u32) {
        let a = r.word(a);
        let out = match op {
            Count::Population => map1::<u32>(a, u32::count_ones),
            Count::LeadingZeros => map1::<u32>(a, u32::leading_zeros),
            Count::Find { signed, shift } => map1::<u32>(a, |x| {
                let x = if signed && (x as i32) < 0 { !x } else { x };
                let zeros = x.leading_zeros();
                if x == 0 { u32::MAX } else if shift { zeros } else { 31 - zeros }
            }),
        };
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn count_long(r: &mut Registers, op: Count, d: Word, a: Long, mask: u32) {
        let a = r.long(a);
        let out = Lanes::by_lane(|lane| {
            let x = a.0[lane];
            match op {
                Count::Population => x.count_ones(),
                Count::LeadingZeros => x.leading_zeros(),
                Count::Find { signed, shift } => {
                    let x = if signed && (x as i64) < 0 { !x } else { x };
                    let zeros = x.leading_zeros();
                    if x == 0 { u32::MAX } else if shift { zeros } else { 63 - zeros }
                }
            }
        });
        r.set_word(d, &out, mask);
    }
}

/// A sum or a difference with a carry in and out; subtraction's carry is a borrow.
macro_rules! carry {
    ($type:ty, $r:expr, $a:expr, $b:expr, $subtract:expr, $carry_in:expr, $mask:expr, $out:expr) => {{
        let before = if $carry_in { $r.carry } else { 0 };
        let mut after = 0;
        for lane in 0..LANES {
            let (x, y, carry) = ($a.0[lane], $b.0[lane], <$type>::from(before >> lane & 1 == 1));
            let (once, first) = if $subtract { x.overflowing_sub(y) } else { x.overflowing_add(y) };
            let (result, second) =
                if $subtract { once.overflowing_sub(carry) } else { once.overflowing_add(carry) };
            $out.0[lane] = result;
            after |= u32::from(first || second) << lane;
        }
        $r.carry & !$mask | after & $mask
    }};
}

/// `add.cc`, `addc`, `sub.cc`, `subc` of 32 bits.
#[allow(clippy::too_many_arguments)]
fn carry_word(
    r: &mut Registers,
    subtract: bool,
    carry_in: bool,
    carry_out: bool,
    d: Word,
    a: Word,
    b: Word,
    mask: u32,
) {
    let (a, b) = (r.word(a), r.word(b));
    let mut out = Lanes::all(0u32);
    let carry = carry!(u32, r, a, b, subtract, carry_in, mask, out);
    r.set_word(d, &out, mask);
    r.carry = if carry_out { carry } else { r.carry };
}

/// `add.cc`, `addc`, `sub.cc`, `subc` of 64 bits.
#[allow(clippy::too_many_arguments)]
fn carry_long(
    r: &mut Registers,
    subtract: bool,
    carry_in: bool,
    carry_out: bool,
    d: Long,
    a: Long,
    b: Long,
    mask: u32,
) {
    let (a, b) = (r.long(a), r.long(b));
    let mut out = Lanes::all(0u64);
    let carry = carry!(u64, r, a, b, subtract, carry_in, mask, out);
    r.set_long(d, &out, mask);
    r.carry = if carry_out { carry } else { r.carry };
}

vectorised! {
    fn permute(r: &mut Registers, d: Word, a: Word, b: Word, selector: Word, mask: u32) {
        let out = map3::<u32>(r.word(a), r.word(b), r.word(selector), bits::permute);
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn lop3(r: &mut Registers, d: Word, a: Word, b: Word, c: Word, table: u32, mask: u32) {
        let out = map3::<u32>(r.word(a), r.word(b), r.word(c), |x, y, z| bits::lop3(x, y, z, table));
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn funnel(
        r: &mut Registers,
        left: bool,
        wrap: bool,
        d: Word,
        low: Word,
        high: Word,
        by: Word,
        mask: u32,
    ) {
        let out = map3::<u32>(r.word(low), r.word(high), r.word(by), |low, high, by| {
            bits::funnel(low, high, by, left, wrap)
        });
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn extract_word(
        r: &mut Registers,
        signed: bool,
        d: Word,
        a: Word,
        position: Word,
        length: Word,
        mask: u32,
    ) {
        let out = map3::<u32>(r.word(a), r.word(position), r.word(length), |x, position, length| {
            if signed {
                bits::extract_signed(i64::from(x as i32), 32, position, length) as u32
            } else {
                bits::extract_unsigned(u64::from(x), 32, position, length) as u32
            }
        });
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn extract_long(
        r: &mut Registers,
        signed: bool,
        d: Long,
        a: Long,
        position: Word,
        length: Word,
        mask: u32,
    ) {
        let (a, position, length) = (r.long(a), r.word(position), r.word(length));
        let out = Lanes::by_lane(|lane| {
            let (x, position, length) = (a.0[lane], position.0[lane], length.0[lane]);
            if signed {
                bits::extract_signed(x as i64, 64, position, length) as u64
            } else {
                bits::extract_unsigned(x, 64, position, length)
            }
        });
        r.set_long(d, &out, mask);
    }
}

vectorised! {
    fn insert_word(
        r: &mut Registers,
        d: Word,
        field: Word,
        a: Word,
        position: Word,
        length: Word,
        mask: u32,
    ) {
        let (field, a, position, length) = (r.word(field), r.word(a), r.word(position), r.word(length));
        let out = Lanes::by_lane(|lane| {
            bits::insert(u64::from(field.0[lane]), u64::from(a.0[lane]), position.0[lane], length.0[lane]) as u32
        });
        r.set_word(d, &out, mask);
    }
}

vectorised! {
    fn insert_long(
        r: &mut Registers,
        d: Long,
        field: Long,
        a: Long,
        position: Word,
        length: Word,
        mask: u32,
    ) {
        let (field, a, position, length) = (r.long(field), r.long(a), r.word(position), r.word(length));
        let out = Lanes::by_lane(|lane| bits::insert(field.0[lane], a.0[lane], position.0[lane], length.0[lane]));
        r.set_long(d, &out, mask);
    }
}
