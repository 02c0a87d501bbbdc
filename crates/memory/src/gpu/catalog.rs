use std::fmt;

use oomph_core::Bytes;

use super::{models::FAMILIES, names::Words};

/// Models that share a data sheet.
pub(super) struct Family {
    pub(super) sheet: &'static str,
    pub(super) error_correction: ErrorCorrection,
    pub(super) models: &'static [Model],
}

/// One line of the catalogue.
pub(super) struct Model {
    /// Its common name, with a size if the model exists with several.
    pub(super) name: &'static str,
    pub(super) marketed_gb: u32,
    pub(super) driver_total_mib: Option<u32>,
    pub(super) peak: Option<GpuPeak>,
}

/// What a data sheet promises of a GPU's speed. Slices of a card have no such figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuPeak {
    /// 10⁹ multiplications and additions a second, in 32 bits.
    pub gigaflops: u32,
    /// The same of its matrix units in 16 bits, summed in 32 bits and without sparsity.
    pub narrow_gigaflops: u32,
    /// 10⁹ bytes a second from and to its memory.
    pub gigabytes: u32,
}

/// The storage of error correction bits, which decides how much of the marketed memory is left.
#[derive(Clone, Copy)]
pub(super) enum ErrorCorrection {
    /// In separate memory, or none.
    Apart,
    /// In the memory itself, on by default: one byte in 16.
    Inline,
    /// A slice of a card: every slice bears its share of the card's reserve.
    Instance,
}

impl ErrorCorrection {
    /// The remaining fraction of the memory, as numerator and denominator.
    fn left(self) -> (u64, u64) {
        match self {
            Self::Apart => (1, 1),
            // A T4 of 16 GiB reports 15,360 MiB.
            Self::Inline => (15, 16),
            // `nvidia-smi` prints 4,864 MiB for a `1g.5gb`: exactly this share.
            Self::Instance => (19, 20),
        }
    }
}

/// The reserve of the driver, its firmware and page tables: at least this …
const DRIVER_LEAST: Bytes = Bytes::mib(256);
/// … and this fraction of the total. An RTX 4090 of 24,564 MiB leaves 24,110 MiB to CUDA, which is one in 54.
const DRIVER_SHARE: u64 = 50;
/// The context of a program: CUDA itself, its kernels and their stacks. It differs by card, driver and program; this is a
/// round number, not a measurement.
const CONTEXT: Bytes = Bytes::mib(512);

/// A GPU model of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, such as `RTX 4090` or `A100 80GB`.
    pub name: &'static str,
    /// Its marketed memory. Vendors write GB and mean GiB.
    pub marketed_bytes: Bytes,
    /// Its memory as the driver reports it. If [`reported`](Self::reported), `nvidia-smi` printed the figure. Otherwise
    /// it is the marketed memory minus default error correction in the same memory (one byte in 16), or minus one part
    /// in 20 for a MIG instance.
    pub driver_total_bytes: Bytes,
    /// Whether [`driver_total_bytes`](Self::driver_total_bytes) was printed by `nvidia-smi` for such a card, rather than
    /// computed by the rule.
    pub reported: bool,
    /// The data sheet with the marketed memory.
    pub sheet: &'static str,
    /// Its speed by its data sheet.
    pub peak: Option<GpuPeak>,
}

impl Gpu {
    /// The memory available to a training: the driver's total, minus a reserve of one part in 50 (at least 256 MiB) for the
    /// driver and 512 MiB for the CUDA context.
    ///
    /// This is a rule, not a measurement: drivers and kernels differ, and a display or another program takes its share. It
    /// errs on the small side, so a plan for a card fits it.
    pub fn usable_bytes(&self) -> Bytes {
        let total = self.driver_total_bytes.get();
        let driver = DRIVER_LEAST.get().max(total / DRIVER_SHARE);
        Bytes::new(total.saturating_sub(driver + CONTEXT.get()))
    }

    fn new(family: &Family, model: &Model) -> Self {
        let marketed = Bytes::mib(u64::from(model.marketed_gb) * 1024);
        let (left, of) = family.error_correction.left();
        let by_rule = Bytes::new(marketed.get() / of * left);
        Self {
            name: model.name,
            marketed_bytes: marketed,
            driver_total_bytes: model.driver_total_mib.map_or(by_rule, |mib| Bytes::mib(mib.into())),
            reported: model.driver_total_mib.is_some(),
            sheet: family.sheet,
            peak: model.peak,
        }
    }
}

/// Name and marketed memory.
impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} GB)", self.name, self.marketed_bytes.get() >> 30)
    }
}

/// Every GPU that [`find`] knows.
pub fn catalogue() -> impl Iterator<Item = Gpu> {
    FAMILIES.iter().flat_map(|family| family.models.iter().map(|model| Gpu::new(family, model)))
}

/// The name matches no GPU, or several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownGpu {
    /// No GPU has this name.
    #[error("`{text}` is not a GPU of the catalogue")]
    NoSuchGpu {
        /// The requested name.
        text: String,
        /// The most similar names.
        nearest: Vec<&'static str>,
    },
    /// The model exists with several sizes of memory.
    #[error("`{text}` is ambiguous: {}", listed(candidates))]
    Ambiguous {
        /// The requested name.
        text: String,
        /// The matching GPUs.
        candidates: Vec<Gpu>,
    },
}

fn listed(candidates: &[Gpu]) -> String {
    let name = |gpu: &Gpu| format!("`{}` with {} GB", gpu.name, gpu.marketed_bytes.get() >> 30);
    candidates.iter().map(name).collect::<Vec<_>>().join(" or ")
}

impl UnknownGpu {
    /// The remedy.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuchGpu { nearest, .. } => {
                let nearest = nearest.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                format!("the nearest names are {nearest}; a size such as `24GiB` works for any GPU")
            }
            Self::Ambiguous { candidates, .. } => {
                let name = candidates.last().map_or("", |gpu| gpu.name);
                format!("give the full name, such as `{name}`")
            }
        }
    }
}

/// The most names that an error suggests.
const SUGGESTIONS: usize = 3;

/// The GPU of that name: `RTX 4090`, `rtx4090`, `4090`, `NVIDIA GeForce RTX 4090`, `NVIDIA A100-SXM4-80GB`, or a MIG
/// profile such as `1g.10gb`.
///
/// # Errors
/// If no GPU has this name, or several with different memory do.
pub fn find(text: &str) -> Result<Gpu, UnknownGpu> {
    let asked = Words::of(text);
    let known: Vec<(Words, Gpu)> = catalogue().map(|gpu| (Words::of(gpu.name), gpu)).collect();
    // First with the form factor, then without: `A100-SXM4-80GB` is an `A100 80GB`, and `H100` is any of its forms.
    let exact = |words: &Words| words.model == asked.model && words.form == asked.form;
    let formless =
        |words: &Words| words.model == asked.model && (words.form.is_none() || asked.form.is_none());
    let mut candidates = matching(&known, &asked, exact);
    if candidates.is_empty() {
        candidates = matching(&known, &asked, formless);
    }
    match candidates.as_slice() {
        [] => Err(UnknownGpu::NoSuchGpu { text: text.trim().to_owned(), nearest: nearest(&asked, &known) }),
        // Form factors with the same memory are equivalent here.
        [first, rest @ ..] if rest.iter().all(|gpu| gpu.marketed_bytes == first.marketed_bytes) => {
            Ok(first.clone())
        }
        _ => Err(UnknownGpu::Ambiguous { text: text.trim().to_owned(), candidates }),
    }
}

fn matching(known: &[(Words, Gpu)], asked: &Words, same: impl Fn(&Words) -> bool) -> Vec<Gpu> {
    let fits = |gpu: &Gpu| asked.gb.is_none_or(|gb| u64::from(gb) == gpu.marketed_bytes.get() >> 30);
    known.iter().filter(|(words, gpu)| same(words) && fits(gpu)).map(|(_, gpu)| gpu.clone()).collect()
}

fn nearest(asked: &Words, known: &[(Words, Gpu)]) -> Vec<&'static str> {
    let likeness = |words: &Words| strsim::jaro_winkler(&asked.model.join(" "), &words.model.join(" "));
    let mut ranked: Vec<_> = known.iter().map(|(words, gpu)| (likeness(words), gpu.name)).collect();
    // A stable sort keeps the order of the catalogue among equals.
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    ranked.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gpu_is_found_by_all_its_names() {
        for text in [
            "RTX 4090",
            "rtx 4090",
            "RTX4090",
            "4090",
            "NVIDIA GeForce RTX 4090",
            "geforce-rtx-4090",
            "RTX 4090 24GB",
            "  rtx_4090 ",
        ] {
            assert_eq!(find(text).map(|gpu| gpu.name), Ok("RTX 4090"), "{text}");
        }
    }

    #[test]
    fn the_names_of_the_driver_are_understood() {
        for (text, name) in [
            ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
            ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
            ("Tesla T4", "T4"),
            ("Tesla V100-SXM2-32GB", "V100 32GB"),
            ("Tesla P100-PCIE-16GB", "P100 16GB"),
            ("NVIDIA H100 80GB HBM3", "H100 SXM"),
            ("NVIDIA H100 PCIe", "H100 PCIe"),
            ("NVIDIA H100 NVL", "H100 NVL"),
            ("NVIDIA H200", "H200"),
            ("NVIDIA GH200 480GB", "GH200 96GB"),
            ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
            ("NVIDIA RTX A6000", "RTX A6000"),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"),
            ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "MIG 3g.40gb"),
        ] {
            assert_eq!(find(text).map(|gpu| gpu.name), Ok(name), "{text}");
        }
    }

    #[test]
    fn suffixes_may_be_written_together() {
        for (text, name) in [
            ("3080ti", "RTX 3080 Ti"),
            ("rtx4070tisuper", "RTX 4070 Ti SUPER"),
            ("2080 super", "RTX 2080 SUPER"),
            ("3080 12gb", "RTX 3080 12GB"),
            ("a100 80 gb", "A100 80GB"),
            ("h100 80gb", "H100 SXM"),
            ("1g.10gb", "MIG 1g.10gb"),
        ] {
            assert_eq!(find(text).map(|gpu| gpu.name), Ok(name), "{text}");
        }
    }

    #[test]
    fn every_gpu_is_found_by_the_name_it_is_listed_with() {
        let all: Vec<_> = catalogue().collect();
        assert!(all.len() > 60, "{}", all.len());
        for gpu in all {
            assert_eq!(find(gpu.name), Ok(gpu.clone()), "{}", gpu.name);
        }
    }

    #[test]
    fn a_name_with_several_sizes_lists_them() {
        let error = find("a100").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`a100` is ambiguous: `A100 40GB` with 40 GB or `A100 80GB` with 80 GB"
        );
        let UnknownGpu::Ambiguous { candidates, .. } = find("h100").unwrap_err() else { panic!("one H100") };
        assert_eq!(candidates.len(), 3);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let UnknownGpu::NoSuchGpu { nearest, .. } = find("rtx 4099").unwrap_err() else { panic!("found") };
        assert!(nearest.contains(&"RTX 4090"), "{nearest:?}");
        for text in ["", "gpu", "A100 60GB", "potato", "🦀"] {
            let error = find(text).unwrap_err();
            assert!(matches!(error, UnknownGpu::NoSuchGpu { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn usable_memory_is_less_than_the_driver_reports_and_that_at_most_what_is_sold() {
        for gpu in catalogue() {
            assert!(gpu.usable_bytes() < gpu.driver_total_bytes, "{gpu}");
            assert!(gpu.driver_total_bytes <= gpu.marketed_bytes, "{gpu}");
            assert!(gpu.usable_bytes().get() * 10 > gpu.marketed_bytes.get() * 7, "{gpu}");
        }
        // CUDA's total for these cards, as programs print it. The usable memory and the context must fit into it.
        for (name, cuda_total_mib) in
            [("RTX 4090", 24_110), ("A100 80GB", 81_050), ("T4", 15_104), ("RTX 2060 6GB", 5_929)]
        {
            let usable = find(name).unwrap().usable_bytes();
            assert!(usable + CONTEXT <= Bytes::mib(cuda_total_mib), "{name}");
        }
    }
}
