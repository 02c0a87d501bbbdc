//! The list of the catalogue.
//!
//! Marketed memory is from the data sheet named at the head of each family. The driver's total is the one that
//! `nvidia-smi` prints. Without such a print it is computed by a rule: see [`Gpu::driver_total_bytes`](super::Gpu::driver_total_bytes).

use super::catalog::{ErrorCorrection, Family, Model};

const fn model(name: &'static str, marketed_gb: u32) -> Model {
    Model { name, marketed_gb, driver_total_mib: None }
}

/// A model with a known print of `nvidia-smi`.
const fn seen(name: &'static str, marketed_gb: u32, driver_total_mib: u32) -> Model {
    Model { name, marketed_gb, driver_total_mib: Some(driver_total_mib) }
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
    model("RTX 2060 6GB", 6),
    model("RTX 2060 12GB", 12),
    model("RTX 2060 SUPER", 8),
    model("RTX 2070", 8),
    model("RTX 2070 SUPER", 8),
    model("RTX 2080", 8),
    model("RTX 2080 SUPER", 8),
    model("RTX 2080 Ti", 11),
];

const RTX_30: [Model; 12] = [
    model("RTX 3050 6GB", 6),
    model("RTX 3050 8GB", 8),
    model("RTX 3060 8GB", 8),
    model("RTX 3060 12GB", 12),
    model("RTX 3060 Ti", 8),
    model("RTX 3070", 8),
    model("RTX 3070 Ti", 8),
    model("RTX 3080 10GB", 10),
    model("RTX 3080 12GB", 12),
    model("RTX 3080 Ti", 12),
    model("RTX 3090", 24),
    seen("RTX 3090 Ti", 24, 24_564),
];

const RTX_40: [Model; 10] = [
    model("RTX 4060", 8),
    model("RTX 4060 Ti 8GB", 8),
    model("RTX 4060 Ti 16GB", 16),
    seen("RTX 4070", 12, 12_282),
    seen("RTX 4070 SUPER", 12, 12_282),
    seen("RTX 4070 Ti", 12, 12_282),
    seen("RTX 4070 Ti SUPER", 16, 16_376),
    seen("RTX 4080", 16, 16_376),
    model("RTX 4080 SUPER", 16),
    seen("RTX 4090", 24, 24_564),
];

const RTX_50: [Model; 8] = [
    model("RTX 5050", 8),
    model("RTX 5060", 8),
    model("RTX 5060 Ti 8GB", 8),
    model("RTX 5060 Ti 16GB", 16),
    model("RTX 5070", 12),
    model("RTX 5070 Ti", 16),
    model("RTX 5080", 16),
    seen("RTX 5090", 32, 32_607),
];

const RTX_PRO: [Model; 6] = [
    seen("RTX A4000", 16, 16_376),
    model("RTX A5000", 24),
    seen("RTX A6000", 48, 49_140),
    model("RTX 5000 Ada", 32),
    seen("RTX 6000 Ada", 48, 49_140),
    seen("RTX PRO 6000", 96, 97_887),
];

const GDDR: [Model; 7] = [
    seen("T4", 16, 15_360),
    seen("L4", 24, 23_034),
    seen("A10", 24, 23_028),
    seen("A10G", 24, 23_028),
    seen("A40", 48, 46_068),
    model("L40", 48),
    seen("L40S", 48, 46_068),
];

const HBM: [Model; 7] = [
    model("P100 12GB", 12),
    model("P100 16GB", 16),
    model("V100 16GB", 16),
    seen("V100 32GB", 32, 32_768),
    model("A30", 24),
    seen("A100 40GB", 40, 40_960),
    seen("A100 80GB", 80, 81_920),
];

const HOPPER: [Model; 8] = [
    seen("H100 SXM", 80, 81_559),
    model("H100 PCIe", 80),
    seen("H100 NVL", 94, 95_830),
    seen("H200", 141, 143_771),
    model("H200 NVL", 141),
    seen("GH200 96GB", 96, 97_871),
    model("GH200 144GB", 144),
    seen("B200", 180, 183_359),
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
