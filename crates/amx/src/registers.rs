//! The tile registers of AMX. The standard library has no stable functions for them, so their instructions stand here by name.

use std::{
    arch::{asm, x86_64::__cpuid_count},
    ptr,
};

use crate::{Line, line::OF_TILE, line::SIDE};

/// `arch_prctl`, its request for the right to use a feature of the processor with large registers, and the number of AMX's tiles (Linux,
/// `Documentation/arch/x86/xstate.rst`).
const ARCH_PRCTL: usize = 158;
const REQUEST_PERMISSION: usize = 0x1023;
const TILES: usize = 18;

/// Bits of `cpuid`'s leaf 7 in EDX: bf16 products, and tiles.
const HAS_UNIT: u32 = 1 << 22 | 1 << 24;

/// Whether the processor has tiles for bf16, and the system permits this process to use them.
pub(crate) fn is_permitted() -> bool {
    let has_vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    if !has_vectors || __cpuid_count(7, 0).edx & HAS_UNIT != HAS_UNIT {
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

/// Multiplies all strips of `left` by all of `right`.
///
/// # Safety
/// [`is_permitted`] is true. Both have whole strips of `of_strip` lines, and `sums` has the rows of all left strips, `stride` elements
/// apart, of the columns of all right ones.
pub(crate) unsafe fn multiply(
    [left, right]: [&[Line]; 2],
    of_strip: usize,
    sums: &mut [f32],
    stride: usize,
    add: bool,
) {
    let configuration = ptr::from_ref(const { &Configuration::WHOLE_TILES });
    // SAFETY: the tiles are this thread's, and nothing else in this program uses them.
    unsafe { asm!("ldtilecfg [{}]", in(reg) configuration, options(nostack, readonly)) };
    // A strip of columns stays in the cache while it is multiplied by all rows.
    for (column, right) in right.chunks_exact(of_strip).enumerate() {
        for (row, left) in left.chunks_exact(of_strip).enumerate() {
            // SAFETY: the block of these strips is within the sums, by the condition of this function.
            unsafe {
                let to = sums.as_mut_ptr().add(row * SIDE * stride + column * SIDE);
                block(left, right, to, stride, add);
            }
        }
    }
    // SAFETY: as above. Without tiles in use the system saves fewer registers.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Multiplies a strip of rows by a strip of columns: four tiles of sums, which stay in registers.
///
/// # Safety
/// The tiles are configured; both strips have as many lines, and behind `to` there are 32 rows of 32 numbers, `stride` apart.
#[inline(always)]
unsafe fn block(left: &[Line], right: &[Line], to: *mut f32, stride: usize, add: bool) {
    let row_bytes = stride * size_of::<f32>();
    // SAFETY: the tiles of the sums are within the memory behind `to`.
    let [below, right_of, last] =
        unsafe { [to.add(OF_TILE * stride), to.add(OF_TILE), to.add(OF_TILE * stride + OF_TILE)] };
    // SAFETY: registers and memory are those of this block, by the condition of this function.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jz 2f",
            "tileloadd tmm0, [{to} + {stride}]",
            "tileloadd tmm1, [{right_of} + {stride}]",
            "tileloadd tmm2, [{below} + {stride}]",
            "tileloadd tmm3, [{last} + {stride}]",
            "jmp 3f",
            "2:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "3:",
            "tileloadd tmm4, [{left} + {line}]",
            "tileloadd tmm6, [{right} + {line}]",
            "tileloadd tmm7, [{right} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{left} + {line} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {left}, 2048",
            "add {right}, 2048",
            "dec {steps}",
            "jnz 3b",
            "tilestored [{to} + {stride}], tmm0",
            "tilestored [{right_of} + {stride}], tmm1",
            "tilestored [{below} + {stride}], tmm2",
            "tilestored [{last} + {stride}], tmm3",
            add = in(reg) usize::from(add),
            left = inout(reg) left.as_ptr() => _,
            right = inout(reg) right.as_ptr() => _,
            steps = inout(reg) left.len() / SIDE => _,
            line = in(reg) size_of::<Line>(),
            to = in(reg) to,
            right_of = in(reg) right_of,
            below = in(reg) below,
            last = in(reg) last,
            stride = in(reg) row_bytes,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
