//! The list of the catalogue.
//!
//! Marketed memory is from the data sheet named at the head of each family. The driver's total is the one that
//! `nvidia-smi` prints. Without such a print it is computed by a rule: see [`Gpu::driver_total_bytes`](super::Gpu::driver_total_bytes).

use super::catalog::{ErrorCorrection, Family, GpuPeak, Model};

const fn model(name: &'static str, marketed_gb: u32) -> Model {
    Model { name, marketed_gb, driver_total_mib: None, peak: None }
}

/// A model with a known print of `nvidia-smi`.
const fn seen(name: &'static str, marketed_gb: u32, driver_total_mib: u32) -> Model {
    Model { name, marketed_gb, driver_total_mib: Some(driver_total_mib), peak: None }
}

impl Model {
    /// Adds what its data sheet promises: GFLOP/s in 32 bits and of matrix units in 16 bits, and GB/s.
    const fn at(self, gigaflops: u32, narrow_gigaflops: u32, gigabytes: u32) -> Self {
        Self { peak: Some(GpuPeak { gigaflops, narrow_gigaflops, gigabytes }), ..self }
    }
}

const fn family(sheet: &'static str, error_correction: ErrorCorrection, models: &'static [Model]) -> Family {
    Family { sheet, error_correction, models }
}

/// All models, in the order of listings.
pub(super) const FAMILIES: [Family; 9] = [
    family("GeForce RTX 20 series, specifications", ErrorCorrection::Apart, &RTX_20),
    family("GeForce RTX 30 series, specifications", ErrorCorrection::Apart, &RTX_30),
    family("GeForce RTX 40 series, specifications", ErrorCorrection::Apart, &RTX_40),
    family("GeForce RTX 50 series, specifications", ErrorCorrection::Apart, &RTX_50),
    family("NVIDIA RTX professional GPUs, data sheets", ErrorCorrection::Apart, &RTX_PRO),
    family("NVIDIA T4, L4, A10, A40, L40 and L40S, data sheets", ErrorCorrection::Inline, &GDDR),
    family("NVIDIA P100, V100, A30 and A100, data sheets", ErrorCorrection::Apart, &HBM),
    family("NVIDIA H100, H200, GH200 and B200, data sheets", ErrorCorrection::Apart, &HOPPER),
    family("NVIDIA Multi-Instance GPU, user guide", ErrorCorrection::Instance, &MIG),
];

const RTX_20: [Model; 8] = [
    model("RTX 2060 6GB", 6).at(6_500, 26_000, 336),
    model("RTX 2060 12GB", 12).at(7_200, 29_000, 336),
    model("RTX 2060 SUPER", 8).at(7_200, 29_000, 448),
    model("RTX 2070", 8).at(7_500, 30_000, 448),
    model("RTX 2070 SUPER", 8).at(9_100, 36_000, 448),
    model("RTX 2080", 8).at(10_100, 40_000, 448),
    model("RTX 2080 SUPER", 8).at(11_200, 45_000, 496),
    model("RTX 2080 Ti", 11).at(13_400, 54_000, 616),
];

const RTX_30: [Model; 12] = [
    model("RTX 3050 6GB", 6).at(6_800, 14_000, 168),
    model("RTX 3050 8GB", 8).at(9_100, 18_000, 224),
    model("RTX 3060 8GB", 8).at(12_700, 25_000, 240),
    model("RTX 3060 12GB", 12).at(12_700, 25_000, 360),
    model("RTX 3060 Ti", 8).at(16_200, 32_000, 448),
    model("RTX 3070", 8).at(20_300, 41_000, 448),
    model("RTX 3070 Ti", 8).at(21_700, 43_000, 608),
    model("RTX 3080 10GB", 10).at(29_800, 60_000, 760),
    model("RTX 3080 12GB", 12).at(30_600, 61_000, 912),
    model("RTX 3080 Ti", 12).at(34_100, 68_000, 912),
    model("RTX 3090", 24).at(35_600, 71_000, 936),
    seen("RTX 3090 Ti", 24, 24_564).at(40_000, 80_000, 1008),
];

const RTX_40: [Model; 10] = [
    model("RTX 4060", 8).at(15_100, 30_000, 272),
    model("RTX 4060 Ti 8GB", 8).at(22_100, 44_000, 288),
    model("RTX 4060 Ti 16GB", 16).at(22_100, 44_000, 288),
    seen("RTX 4070", 12, 12_282).at(29_100, 58_000, 504),
    seen("RTX 4070 SUPER", 12, 12_282).at(35_500, 71_000, 504),
    seen("RTX 4070 Ti", 12, 12_282).at(40_100, 80_000, 504),
    seen("RTX 4070 Ti SUPER", 16, 16_376).at(44_100, 88_000, 672),
    seen("RTX 4080", 16, 16_376).at(48_700, 97_000, 717),
    model("RTX 4080 SUPER", 16).at(52_200, 104_000, 736),
    seen("RTX 4090", 24, 24_564).at(82_600, 165_000, 1008),
];

const RTX_50: [Model; 8] = [
    model("RTX 5050", 8).at(13_200, 26_000, 320),
    model("RTX 5060", 8).at(19_200, 38_000, 448),
    model("RTX 5060 Ti 8GB", 8).at(23_700, 47_000, 448),
    model("RTX 5060 Ti 16GB", 16).at(23_700, 47_000, 448),
    model("RTX 5070", 12).at(30_900, 62_000, 672),
    model("RTX 5070 Ti", 16).at(43_900, 88_000, 896),
    model("RTX 5080", 16).at(56_300, 113_000, 960),
    seen("RTX 5090", 32, 32_607).at(104_800, 210_000, 1792),
];

const RTX_PRO: [Model; 6] = [
    seen("RTX A4000", 16, 16_376).at(19_200, 77_000, 448),
    model("RTX A5000", 24).at(27_800, 111_000, 768),
    seen("RTX A6000", 48, 49_140).at(38_700, 155_000, 768),
    model("RTX 5000 Ada", 32).at(65_300, 261_000, 576),
    seen("RTX 6000 Ada", 48, 49_140).at(91_100, 364_000, 960),
    seen("RTX PRO 6000", 96, 97_887).at(125_000, 500_000, 1792),
];

const GDDR: [Model; 7] = [
    seen("T4", 16, 15_360).at(8_100, 65_000, 320),
    seen("L4", 24, 23_034).at(30_300, 121_000, 300),
    seen("A10", 24, 23_028).at(31_200, 125_000, 600),
    seen("A10G", 24, 23_028).at(31_200, 70_000, 600),
    seen("A40", 48, 46_068).at(37_400, 150_000, 696),
    model("L40", 48).at(90_500, 181_000, 864),
    seen("L40S", 48, 46_068).at(91_600, 362_000, 864),
];

const HBM: [Model; 7] = [
    model("P100 12GB", 12).at(9_300, 19_000, 549),
    model("P100 16GB", 16).at(9_300, 19_000, 732),
    model("V100 16GB", 16).at(15_700, 125_000, 900),
    seen("V100 32GB", 32, 32_768).at(15_700, 125_000, 900),
    model("A30", 24).at(10_300, 165_000, 933),
    seen("A100 40GB", 40, 40_960).at(19_500, 312_000, 1555),
    seen("A100 80GB", 80, 81_920).at(19_500, 312_000, 2039),
];

const HOPPER: [Model; 8] = [
    seen("H100 SXM", 80, 81_559).at(67_000, 989_000, 3350),
    model("H100 PCIe", 80).at(51_000, 756_000, 2000),
    seen("H100 NVL", 94, 95_830).at(60_000, 835_000, 3900),
    seen("H200", 141, 143_771).at(67_000, 989_000, 4800),
    model("H200 NVL", 141).at(60_000, 835_000, 4800),
    seen("GH200 96GB", 96, 97_871).at(67_000, 989_000, 4000),
    model("GH200 144GB", 144).at(67_000, 989_000, 4900),
    seen("B200", 180, 183_359).at(75_000, 2_250_000, 8000),
];

const MIG: [Model; 20] = [
    seen("MIG 1g.5gb", 5, 4_864),
    model("MIG 1g.6gb", 6),
    model("MIG 1g.10gb", 10),
    model("MIG 1g.12gb", 12),
    model("MIG 1g.18gb", 18),
    model("MIG 1g.20gb", 20),
    model("MIG 2g.10gb", 10),
    model("MIG 2g.12gb", 12),
    model("MIG 2g.20gb", 20),
    model("MIG 2g.35gb", 35),
    model("MIG 3g.20gb", 20),
    model("MIG 3g.40gb", 40),
    model("MIG 3g.71gb", 71),
    model("MIG 4g.20gb", 20),
    model("MIG 4g.40gb", 40),
    model("MIG 4g.71gb", 71),
    model("MIG 4g.24gb", 24),
    model("MIG 7g.40gb", 40),
    model("MIG 7g.80gb", 80),
    model("MIG 7g.141gb", 141),
];
