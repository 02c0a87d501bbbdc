//! The tile registers of AMX. The standard library has no stable functions for them, so their instructions stand here by name.

use std::{
    arch::{asm, x86_64::__cpuid_count},
    ptr,
};

use crate::{
    Element, Line,
    blocks::Blocks,
    line::{OF_TILE, SIDE},
};

/// `arch_prctl`, its request for the right to use a feature of the processor with large registers, and the number of AMX's tiles (Linux,
/// `Documentation/arch/x86/xstate.rst`).
const ARCH_PRCTL: usize = 158;
const REQUEST_PERMISSION: usize = 0x1023;
const TILES: usize = 18;

/// Bits of `cpuid`'s leaf 7 in EDX: bf16 products, and tiles.
const HAS_UNIT: u32 = 1 << 22 | 1 << 24;

/// Whether the processor has tiles for bf16, and the system permits this process to use them.
pub(crate) fn is_permitted() -> bool {
    if !crate::packing::is_possible() || __cpuid_count(7, 0).edx & HAS_UNIT != HAS_UNIT {
        return false;
    }
    let refused: isize;
    // SAFETY: the request changes nothing but what the system saves of this process's registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => refused,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILES,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    refused == 0
}

/// The sizes of all tiles, as the processor reads them: of each tile 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Configuration {
    const WHOLE_TILES: Self = Self {
        palette: 1,
        start_row: 0,
        reserved: [0; 14],
        row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };
}

/// Tiles that are this thread's until it ends.
pub(crate) struct WholeTiles;

impl WholeTiles {
    /// # Safety
    /// [`is_permitted`] is true.
    pub(crate) unsafe fn configured() -> Self {
        let configuration = ptr::from_ref(const { &Configuration::WHOLE_TILES });
        // SAFETY: the tiles are this thread's, and nothing else in this program uses them.
        unsafe { asm!("ldtilecfg [{}]", in(reg) configuration, options(nostack, readonly)) };
        Self
    }
}

impl Drop for WholeTiles {
    fn drop(&mut self) {
        // SAFETY: they were configured. Without tiles in use the system saves fewer registers.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

impl Blocks for WholeTiles {
    const NEAR: usize = 384;

    unsafe fn whole<E: Element>(&self, strips: [&[Line]; 2], to: *mut f32, stride: usize, add: bool) {
        // SAFETY: this value shows that the tiles are configured; the rest is the condition of this function.
        unsafe { block::<E>(strips, to, stride, add) }
    }

    unsafe fn halves<E: Element>(
        &self,
        left: &[Line],
        right: [&[Line]; 2],
        to: [*mut f32; 2],
        stride: usize,
        add: bool,
    ) {
        // SAFETY: as above.
        unsafe { half_block::<E>(left, right, to, stride, add) }
    }
}

/// The instruction that loads a tile of the left strip, that many bytes behind its next line.
macro_rules! row_tile {
    ($tile:literal, $at:literal) => {
        concat!("tileloadd ", $tile, ", [{left} + {line} + ", $at, "]")
    };
}

/// As `row_tile`, of a right strip.
macro_rules! column_tile {
    ($strip:literal, $at:literal, $tile:literal) => {
        concat!("tileloadd ", $tile, ", [{", $strip, "} + {line} + ", $at, "]")
    };
}

/// The instruction that adds the products of a tile of rows by one of columns.
macro_rules! product {
    ($sums:literal, $rows:literal, $columns:literal) => {
        concat!("tdpbf16ps ", $sums, ", ", $rows, ", ", $columns)
    };
}

/// The instructions that add the products of a tile of rows by both tiles of columns.
macro_rules! by_rows {
    ($rows:literal => $first:literal, $second:literal) => {
        concat!(product!($first, $rows, "tmm6"), "\n", product!($second, $rows, "tmm7"))
    };
}

/// The instructions that add the products of both tiles of rows by a tile of columns.
macro_rules! by_columns {
    ($columns:literal => $first:literal, $second:literal) => {
        concat!(product!($first, "tmm4", $columns), "\n", product!($second, "tmm5", $columns))
    };
}

/// Multiplies steps of some strips: four tiles of sums stay in registers, two at each place of `$to`, of which rows begin `$stride` numbers
/// behind each other. `{left}`, `{right}` and `{next}` are the lines of a step.
macro_rules! multiply {
    ($parts:literal, [$left:expr, $right:expr, $next:expr], $to:expr, $stride:expr, $add:expr; $($step:expr),*) => {
        asm!(
            "test {add}, {add}",
            "jz 2f",
            "tileloadd tmm0, [{to} + {stride}]",
            "tileloadd tmm1, [{to} + {stride} + 64]",
            "tileloadd tmm2, [{other} + {stride}]",
            "tileloadd tmm3, [{other} + {stride} + 64]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            $($step,)*
            "add {left}, {bytes}",
            "add {right}, {bytes}",
            "add {next}, {bytes}",
            "dec {steps}",
            "jnz 3b",
            "tilestored [{to} + {stride}], tmm0",
            "tilestored [{to} + {stride} + 64], tmm1",
            "tilestored [{other} + {stride}], tmm2",
            "tilestored [{other} + {stride} + 64], tmm3",
            add = in(reg) usize::from($add),
            left = inout(reg) $left.as_ptr() => _,
            right = inout(reg) $right => _,
            next = inout(reg) $next => _,
            steps = inout(reg) $left.len() / (SIDE * $parts) => _,
            bytes = const SIDE * size_of::<Line>() * $parts,
            line = in(reg) size_of::<Line>(),
            to = in(reg) $to[0],
            other = in(reg) $to[1],
            stride = in(reg) $stride * size_of::<f32>(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Multiplies a strip of rows by a strip of columns: four tiles of sums.
///
/// # Safety
/// The tiles are configured; both strips have the lines of as many steps, at least of one, and behind `to` there are 32 rows of 32 numbers,
/// each `stride` numbers behind the one before.
#[inline(always)]
unsafe fn block<E: Element>([left, right]: [&[Line]; 2], to: *mut f32, stride: usize, add: bool) {
    // The second halves of the strip of columns, and of the rows.
    let (right, next) = (right.as_ptr(), right.as_ptr().wrapping_add(OF_TILE));
    let to = [to, to.wrapping_add(OF_TILE * stride)];
    // SAFETY: registers and memory are those of this block, by the condition of this function.
    unsafe {
        match E::PARTS {
            1 => multiply!(
                1, [left, right, next], to, stride, add;
                row_tile!("tmm4", 0),
                row_tile!("tmm5", 1024),
                column_tile!("right", 0, "tmm6"),
                column_tile!("next", 0, "tmm7"),
                by_rows!("tmm4" => "tmm0", "tmm1"),
                by_rows!("tmm5" => "tmm2", "tmm3")
            ),
            // The six largest products of three parts, each of 2048 bytes, in an order that loads few tiles. The largest is the last. A tile is
            // loaded as soon as its last product is on its way.
            _ => multiply!(
                3, [left, right, next], to, stride, add;
                row_tile!("tmm4", 4096),
                column_tile!("right", 0, "tmm6"),
                column_tile!("next", 0, "tmm7"),
                row_tile!("tmm5", 5120),
                by_rows!("tmm4" => "tmm0", "tmm1"),
                row_tile!("tmm4", 2048),
                by_rows!("tmm5" => "tmm2", "tmm3"),
                row_tile!("tmm5", 3072),
                by_columns!("tmm6" => "tmm0", "tmm2"),
                column_tile!("right", 2048, "tmm6"),
                by_columns!("tmm7" => "tmm1", "tmm3"),
                column_tile!("next", 2048, "tmm7"),
                by_rows!("tmm4" => "tmm0", "tmm1"),
                row_tile!("tmm4", 0),
                by_rows!("tmm5" => "tmm2", "tmm3"),
                row_tile!("tmm5", 1024),
                by_columns!("tmm6" => "tmm0", "tmm2"),
                column_tile!("right", 4096, "tmm6"),
                by_columns!("tmm7" => "tmm1", "tmm3"),
                column_tile!("next", 4096, "tmm7"),
                by_columns!("tmm6" => "tmm0", "tmm2"),
                column_tile!("right", 0, "tmm6"),
                by_columns!("tmm7" => "tmm1", "tmm3"),
                column_tile!("next", 0, "tmm7"),
                by_rows!("tmm4" => "tmm0", "tmm1"),
                by_rows!("tmm5" => "tmm2", "tmm3")
            ),
        }
    }
}

/// The instructions that load a tile of one of both right strips, that many bytes behind its next line, and add the products with it.
macro_rules! by_loaded {
    ($strip:literal, $at:literal, $tile:literal => $sums:literal) => {
        concat!(column_tile!($strip, $at, $tile), "\n", product!($sums, "tmm4", $tile))
    };
}

/// Multiplies the upper half of a strip of rows by two strips of columns: four tiles of sums. They have the order of [`block`], and so its bits.
///
/// # Safety
/// The tiles are configured; all strips have the lines of as many steps, at least of one, and behind both of `to` there are 16 rows of 32
/// numbers, each `stride` numbers behind the one before.
#[inline(always)]
unsafe fn half_block<E: Element>(
    left: &[Line],
    right: [&[Line]; 2],
    to: [*mut f32; 2],
    stride: usize,
    add: bool,
) {
    let (right, next) = (right[0].as_ptr(), right[1].as_ptr());
    // SAFETY: registers and memory are those of this block, by the condition of this function.
    unsafe {
        match E::PARTS {
            1 => multiply!(
                1, [left, right, next], to, stride, add;
                row_tile!("tmm4", 0),
                by_loaded!("right", 0, "tmm5" => "tmm0"),
                by_loaded!("right", 1024, "tmm6" => "tmm1"),
                by_loaded!("next", 0, "tmm7" => "tmm2"),
                by_loaded!("next", 1024, "tmm5" => "tmm3")
            ),
            // The products of `block`. A tile of columns stays for a second part of the rows. Products with other tiles are between, so
            // that a sum seldom waits for its last product.
            _ => multiply!(
                3, [left, right, next], to, stride, add;
                row_tile!("tmm4", 4096),
                by_loaded!("right", 0, "tmm5" => "tmm0"),
                by_loaded!("right", 1024, "tmm6" => "tmm1"),
                by_loaded!("next", 0, "tmm7" => "tmm2"),
                by_loaded!("next", 1024, "tmm5" => "tmm3"),
                row_tile!("tmm4", 2048),
                product!("tmm1", "tmm4", "tmm6"),
                product!("tmm2", "tmm4", "tmm7"),
                product!("tmm3", "tmm4", "tmm5"),
                by_loaded!("right", 0, "tmm6" => "tmm0"),
                by_loaded!("right", 3072, "tmm5" => "tmm1"),
                by_loaded!("next", 2048, "tmm7" => "tmm2"),
                by_loaded!("next", 3072, "tmm5" => "tmm3"),
                by_loaded!("right", 2048, "tmm6" => "tmm0"),
                row_tile!("tmm4", 0),
                product!("tmm2", "tmm4", "tmm7"),
                product!("tmm3", "tmm4", "tmm5"),
                product!("tmm0", "tmm4", "tmm6"),
                by_loaded!("right", 3072, "tmm7" => "tmm1"),
                by_loaded!("next", 4096, "tmm5" => "tmm2"),
                by_loaded!("next", 5120, "tmm6" => "tmm3"),
                by_loaded!("right", 4096, "tmm7" => "tmm0"),
                by_loaded!("right", 5120, "tmm5" => "tmm1"),
                by_loaded!("next", 0, "tmm6" => "tmm2"),
                by_loaded!("next", 1024, "tmm7" => "tmm3"),
                by_loaded!("right", 0, "tmm5" => "tmm0"),
                by_loaded!("right", 1024, "tmm6" => "tmm1")
            ),
        }
    }
}
