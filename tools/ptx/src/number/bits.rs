//! Operations on bits that PTX has and Rust has not.

/// `prmt` in its default mode: each nibble of the selector names a byte of b:a, with its sign spread where bit 3 is set.
#[inline(always)]
pub(crate) fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let mut out = 0;
    for place in 0..4 {
        let nibble = selector >> (4 * place) & 15;
        let byte = (bytes >> (8 * (nibble & 7))) as u32 & 0xff;
        let spread = if byte & 0x80 == 0 { 0 } else { 0xff };
        out |= (if nibble & 8 == 0 { byte } else { spread }) << (8 * place);
    }
    out
}

/// `lop3`: any function of three bits, by its truth table.
#[inline(always)]
pub(crate) fn lop3(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let mut out = 0;
    for row in 0..8 {
        let (of_a, of_b, of_c) = (row & 4 != 0, row & 2 != 0, row & 1 != 0);
        let picked = if of_a { a } else { !a } & if of_b { b } else { !b } & if of_c { c } else { !c };
        out |= if table >> row & 1 == 0 { 0 } else { picked };
    }
    out
}

/// `shf.l` (left) or `shf.r` of the 64 bits high:low, by at most 32 or modulo 32 (`wrap`).
#[inline(always)]
pub(crate) fn funnel(low: u32, high: u32, amount: u32, left: bool, wrap: bool) -> u32 {
    let amount = if wrap { amount & 31 } else { amount.min(32) };
    let value = u64::from(high) << 32 | u64::from(low);
    if left { (value << amount >> 32) as u32 } else { (value >> amount) as u32 }
}

/// `bfe.u`: `length` bits of a value from `position` on.
#[inline(always)]
pub(crate) fn extract_unsigned(value: u64, width: u32, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 255, length & 255);
    if position >= width { 0 } else { value >> position & low_bits(length) }
}

/// `bfe.s`: the same with the sign of the field's last bit, or of the value where the field reaches beyond it.
#[inline(always)]
pub(crate) fn extract_signed(value: i64, width: u32, position: u32, length: u32) -> i64 {
    let (position, length) = (position & 255, length & 255);
    let sign_at = (position + length).saturating_sub(1).min(width - 1);
    let negative = length > 0 && value >> sign_at & 1 == 1;
    let field = if position >= width { 0 } else { (value as u64) >> position };
    let mask = low_bits(length.min(width.saturating_sub(position)));
    (if negative { field | !mask } else { field & mask }) as i64
}

/// `bfi`: `length` bits of `field` in place of those of `value` from `position` on.
#[inline(always)]
pub(crate) fn insert(field: u64, value: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 255, length & 255);
    if position >= 64 {
        return value;
    }
    let mask = low_bits(length) << position;
    value & !mask | field << position & mask
}

#[inline(always)]
fn low_bits(length: u32) -> u64 {
    if length >= 64 { u64::MAX } else { (1 << length) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permute_picks_bytes_and_spreads_signs() {
        assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7531), 0x7755_3311);
        assert_eq!(permute(0x0000_8000, 0, 0x0099), 0x0000_ffff);
    }

    #[test]
    fn lop3_is_the_function_of_its_table() {
        let (a, b, c) = (0xf0f0_1234, 0xcccc_5678, 0xaaaa_9abc);
        assert_eq!(lop3(a, b, c, 0x80), a & b & c);
        assert_eq!(lop3(a, b, c, 0xfe), a | b | c);
        assert_eq!(lop3(a, b, c, 0x96), a ^ b ^ c);
        assert_eq!(lop3(a, b, c, 0xca), a & b | !a & c);
    }

    #[test]
    fn funnels_clamp_or_wrap() {
        assert_eq!(funnel(0x8000_0001, 1, 1, true, true), 3);
        assert_eq!(funnel(7, 9, 32, true, false), 7);
        assert_eq!(funnel(7, 9, 32, false, false), 9);
        assert_eq!(funnel(7, 9, 32, false, true), 7);
    }

    #[test]
    fn fields_are_extracted_with_their_sign() {
        assert_eq!(extract_unsigned(0xabcd, 32, 4, 8), 0xbc);
        assert_eq!(extract_unsigned(1, 32, 32, 8), 0);
        assert_eq!(extract_signed(0xabcd, 32, 4, 8) as i32, 0xffff_ffbc_u32 as i32);
        assert_eq!(extract_signed(-5, 32, 40, 3), -1);
        assert_eq!(extract_signed(0x0fff_ffff, 32, 24, 100), 0x0f);
        assert_eq!(extract_signed(-1, 32, 0, 0), 0);
    }

    #[test]
    fn fields_are_inserted() {
        assert_eq!(insert(0xff, 0, 4, 4), 0xf0);
        assert_eq!(insert(1, 5, 64, 1), 5);
        assert_eq!(insert(0xdead_beef, 0x1111_1111, 32, 32), 0xdead_beef_1111_1111);
    }
}
