//! The models of cards: what each says of itself, and its limits.
//!
//! Figures are from NVIDIA's data sheets and the table of compute capabilities in the CUDA programming guide. Memory is
//! the driver's total, as `nvidia-smi` prints it.

/// A model of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The name that the driver gives.
    pub name: &'static str,
    /// A short name, for `CUDA_SIM_CARDS`.
    pub model: &'static str,
    /// Compute capability, as `(9, 0)`.
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: i32,
    /// Most bytes of shared memory of a block that asked for more than [`SHARED_BYTES`].
    pub most_shared_bytes: i32,
    /// Threads that a multiprocessor holds.
    pub threads: i32,
    /// Bytes of its L2 cache.
    pub cache_bytes: i32,
    /// Width of its memory's bus, in bits.
    pub bus_bits: i32,
}

/// Shared memory of a block that asked for no more.
pub const SHARED_BYTES: i32 = 49_152;

const MIB: u64 = 1 << 20;

/// All models.
pub const CARDS: [Card; 10] = [
    card("GTX 1080", "NVIDIA GeForce GTX 1080", (6, 1), 8_120, [20, 49_152, 2_048, 2 << 20, 256]),
    card("T4", "Tesla T4", (7, 5), 15_102, [40, 65_536, 1_024, 4 << 20, 256]),
    card("A100 40GB", "NVIDIA A100-SXM4-40GB", (8, 0), 40_339, [108, 166_912, 2_048, 40 << 20, 5_120]),
    card("A100 80GB", "NVIDIA A100-SXM4-80GB", (8, 0), 81_051, [108, 166_912, 2_048, 40 << 20, 5_120]),
    card("RTX 3060", "NVIDIA GeForce RTX 3060", (8, 6), 12_044, [28, 101_376, 1_536, 3 << 20, 192]),
    card("RTX 3090", "NVIDIA GeForce RTX 3090", (8, 6), 24_258, [82, 101_376, 1_536, 6 << 20, 384]),
    card("RTX 4090", "NVIDIA GeForce RTX 4090", (8, 9), 24_217, [128, 101_376, 1_536, 72 << 20, 384]),
    card("H100", "NVIDIA H100 80GB HBM3", (9, 0), 81_106, [132, 232_448, 2_048, 50 << 20, 5_120]),
    card("B200", "NVIDIA B200", (10, 0), 182_632, [148, 232_448, 2_048, 126 << 20, 8_192]),
    card("RTX 5090", "NVIDIA GeForce RTX 5090", (12, 0), 32_109, [170, 101_376, 1_536, 96 << 20, 512]),
];

/// `figures`: multiprocessors, most shared bytes, threads, bytes of cache, bits of the bus.
const fn card(
    model: &'static str,
    name: &'static str,
    capability: (i32, i32),
    memory_mib: u64,
    figures: [i32; 5],
) -> Card {
    let [multiprocessors, most_shared_bytes, threads, cache_bytes, bus_bits] = figures;
    Card {
        name,
        model,
        capability,
        memory_bytes: memory_mib * MIB,
        multiprocessors,
        most_shared_bytes,
        threads,
        cache_bytes,
        bus_bits,
    }
}

/// The model of that name, whatever its case and spaces; `A100` alone is the smaller one.
pub fn find(name: &str) -> Option<&'static Card> {
    let plain = |text: &str| -> String { text.split_whitespace().collect::<String>().to_lowercase() };
    let wanted = plain(name);
    let is_it = |card: &&Card| plain(card.model) == wanted;
    CARDS
        .iter()
        .find(is_it)
        .or_else(|| CARDS.iter().find(|card| wanted == "a100" && card.model == "A100 40GB"))
}

/// An attribute by its number in `cuda.h`; `None` where the simulated card has none.
pub(crate) fn attribute(card: &Card, number: i32) -> Option<i32> {
    Some(match number {
        1 => 1_024,
        2 | 3 => 1_024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => SHARED_BYTES,
        9 => 65_536,
        10 => 32,
        12 | 82 => 65_536,
        13 => 1_500_000,
        16 => card.multiprocessors,
        36 => 5_000_000,
        37 => card.bus_bits,
        38 => card.cache_bytes,
        39 => card.threads,
        // Unified addressing, managed memory, concurrent kernels, asynchronous engines, memory pools.
        41 | 83 | 31 | 115 => 1,
        40 => 2,
        75 => card.capability.0,
        76 => card.capability.1,
        81 => card.most_shared_bytes + 1_024,
        97 => card.most_shared_bytes,
        106 => {
            if card.capability.0 >= 8 {
                32
            } else {
                16
            }
        }
        // Cooperative launches; a timeout by a display, integrated memory and error correction are absent.
        95 => 1,
        17 | 18 | 32 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_their_names() {
        assert_eq!(find("rtx4090").unwrap().capability, (8, 9));
        assert_eq!(find(" A100 ").unwrap().memory_bytes, 40_339 * MIB);
        assert_eq!(find("A100 80GB").unwrap().memory_bytes, 81_051 * MIB);
        assert_eq!(find("H200"), None);
        assert!(CARDS.iter().all(|card| find(card.model) == Some(card)));
    }

    #[test]
    fn attributes_are_those_of_the_model() {
        let hopper = find("H100").unwrap();
        assert_eq!(attribute(hopper, 75), Some(9));
        assert_eq!(attribute(hopper, 97), Some(232_448));
        assert_eq!(attribute(hopper, 100_000), None);
    }
}
