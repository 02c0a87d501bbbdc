//! Dropout by the numbers of a ChaCha8 stream: the same bits as the CPU's.

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use crate::{
    launch::{Output, addresses, cube, cubes, element, length, vector_width},
    tensor::contiguous,
};

/// Words of a block of the stream.
const BLOCK: usize = 16;

/// The factors of a dropout: element i takes the word `word` + i of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutMask {
    /// The key of the stream, in words of which the first byte is the lowest.
    pub key: [u32; 8],
    /// The word of the first element.
    pub word: u64,
    /// The probability that an element is dropped: where its word's upper 24 bits, as a fraction, are below it.
    pub probability: f32,
    /// The factor of the elements that are not dropped.
    pub scale: f32,
}

/// The tensor times the mask, in the tensor's format. It overwrites the tensor if nobody else holds it.
///
/// One launch. Each thread draws a block of 16 numbers.
pub fn dropped<R: CubeRuntime>(input: CubeTensor<R>, mask: &DropoutMask) -> CubeTensor<R> {
    let input = contiguous(input);
    let elements = length(&input);
    // Elements before the first in its block.
    let before = (mask.word % BLOCK as u64) as usize;
    let first_block = mask.word / BLOCK as u64;
    // All positions in blocks are multiples of the greatest common factor.
    let width = vector_width(if elements.is_multiple_of(4) { before } else { 1 }, &[input.dtype]).min(4);
    let output = Output::over(&input, input.dtype);
    let key: SequenceArg<R, u32> = mask.key.into_iter().collect();
    // SAFETY: both tensors have that many vectors, and the kernel touches no others.
    unsafe {
        drop_some::launch_unchecked::<R>(
            &input.client,
            cubes(&input, (before + elements).div_ceil(BLOCK)),
            cube(),
            addresses(&[&input]),
            width,
            input.clone().into_buffer_arg(),
            output.argument,
            key,
            first_block as u32,
            (first_block >> 32) as u32,
            before / width,
            elements / width,
            mask.probability,
            mask.scale,
            element(&input),
        );
    }
    output.tensor
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn drop_some<E: Float, N: Size>(
    input: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    key: Sequence<u32>,
    first_block: u32,
    above_first: u32,
    before: usize,
    vectors: usize,
    probability: f32,
    scale: f32,
    #[define(E)] _format: ElemType,
) {
    let size = N::value();
    let of_block = comptime!(BLOCK / size);
    let begin = ABSOLUTE_POS * of_block;
    if begin >= before + vectors {
        terminate!();
    }
    // Not every Vulkan driver has integers of 64 bits.
    let block = first_block + ABSOLUTE_POS as u32;
    let above = above_first + select(block < first_block, 1u32, 0u32);
    let words = chacha8(&key, block, above);
    #[unroll]
    for index in 0..of_block {
        let place = begin + index;
        if place >= before && place < before + vectors {
            let mut factors = Vector::<f32, N>::empty();
            #[unroll]
            for i in 0..size {
                // A fraction of 24 bits, which 32-bit floats hold.
                let uniform = f32::cast_from(words[index * size + i] >> 8u32) * 5.960_464_5e-8f32;
                factors.insert(i, select(uniform < probability, 0.0f32, scale));
            }
            let at = place - before;
            output[at] = Vector::cast_from(Vector::<f32, N>::cast_from(input[at]) * factors);
        }
    }
}

/// A block of the ChaCha8 stream (Bernstein 2008, with a block counter of 64 bits): 16 words. `above` are the upper 32 bits of its
/// number.
#[cube]
fn chacha8(key: &Sequence<u32>, block: u32, above: u32) -> Array<u32> {
    let mut start = Array::<u32>::new(BLOCK);
    // "expand 32-byte k".
    start[0] = 0x6170_7865u32;
    start[1] = 0x3320_646eu32;
    start[2] = 0x7962_2d32u32;
    start[3] = 0x6b20_6574u32;
    #[unroll]
    for i in 0..8usize {
        start[4 + i] = *key.index(i);
    }
    start[12] = block;
    start[13] = above;
    start[14] = 0u32;
    start[15] = 0u32;
    let mut words = Array::<u32>::new(BLOCK);
    #[unroll]
    for i in 0..BLOCK {
        words[i] = start[i];
    }
    #[unroll]
    for _ in 0..4usize {
        #[unroll]
        for i in 0..4usize {
            quarter_round(&mut words, i, 4 + i, 8 + i, 12 + i);
        }
        #[unroll]
        for i in 0..4usize {
            quarter_round(&mut words, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    #[unroll]
    for i in 0..BLOCK {
        words[i] += start[i];
    }
    words
}

#[cube]
fn quarter_round(
    words: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    words[a] += words[b];
    words[d] = turned(words[d] ^ words[a], 16u32);
    words[c] += words[d];
    words[b] = turned(words[b] ^ words[c], 12u32);
    words[a] += words[b];
    words[d] = turned(words[d] ^ words[a], 8u32);
    words[c] += words[d];
    words[b] = turned(words[b] ^ words[c], 7u32);
}

/// The word, turned left by `bits`.
#[cube]
fn turned(word: u32, #[comptime] bits: u32) -> u32 {
    (word << bits) | (word >> comptime!(32 - bits))
}
