use std::{collections::HashMap, sync::Arc};

use super::work::{FROM_HOST, Work};
use crate::Backend;

/// A measured operation: its work, and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The work.
    pub work: Work,
    /// The median of its times.
    pub seconds: f64,
}

/// The speed of a device.
#[derive(Clone, Debug)]
pub enum Speeds {
    /// Measured on this device.
    Measured(Measured),
    /// From a data sheet.
    Peak(Peak),
}

/// The speed that kernels reach on a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Multiplications and additions a second, in 32 bits.
    arithmetic: f64,
    /// Multiplications and additions a second, in 16 bits.
    narrow_arithmetic: f64,
    /// Bytes read and written a second.
    bytes: f64,
}

/// The share of the arithmetic of a data sheet that kernels are taken to reach.
pub const ARITHMETIC_SHARE: f64 = 0.4;

/// The share of the bandwidth of a data sheet that kernels are taken to reach.
pub const BANDWIDTH_SHARE: f64 = 0.7;

/// Seconds that the host takes to record and launch an operation. With it ResNet-18 and -50 take as long as on an H100
/// (`docs/tables/speed-cuda0.json`).
const LAUNCH: f64 = 11.5e-6;

/// Bytes a second between a GPU and memory of the host that is not pinned. So fast was the state of AdamW for a ResNet-50 and an
/// LSTM on an H100.
const HOST_BYTES: f64 = 4.2e9;

impl Peak {
    /// About an H100.
    const TYPICAL: Self = Self::of_data_sheet(67e12, 989e12, 3.35e12);

    /// From what a data sheet promises: multiplications and additions a second in 32 bits and in 16, and bytes a second.
    pub const fn of_data_sheet(arithmetic: f64, narrow_arithmetic: f64, bytes: f64) -> Self {
        Self {
            arithmetic: arithmetic * ARITHMETIC_SHARE,
            narrow_arithmetic: narrow_arithmetic * ARITHMETIC_SHARE,
            bytes: bytes * BANDWIDTH_SHARE,
        }
    }

    /// The longer of both, as in a roofline (Williams et al. 2009, <https://doi.org/10.1145/1498765.1498785>).
    fn seconds(&self, work: &Work) -> f64 {
        if work.kind == FROM_HOST {
            return work.bytes / HOST_BYTES + LAUNCH;
        }
        let rate = if work.kind.ends_with("16-bit") { self.narrow_arithmetic } else { self.arithmetic };
        (work.arithmetic / rate).max(work.bytes / self.bytes) + LAUNCH
    }
}

/// Measured samples by kind.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    kinds: HashMap<String, Vec<Rate>>,
    /// Seconds that an operation takes beside its kernel.
    overhead: f64,
    /// Seconds for each byte of new memory that the system maps.
    mapping: f64,
}

/// How long a unit of work took.
#[derive(Clone, Debug)]
struct Rate {
    /// The logarithms of the sizes, to base 2.
    place: Vec<f64>,
    /// The logarithm of the seconds for each multiplication and addition, or for each byte without such.
    log_seconds: f64,
}

impl Speeds {
    /// The seconds that work takes. `None` stands for a view.
    pub fn seconds(&self, work: Option<&Work>) -> f64 {
        match (self, work) {
            (Self::Measured(measured), Some(work)) => measured.seconds(work),
            (Self::Measured(measured), None) => measured.overhead,
            (Self::Peak(peak), Some(work)) => peak.seconds(work),
            (Self::Peak(_), None) => 0.0,
        }
    }
}

impl Measured {
    /// From samples of kernels, and the seconds that an operation takes beside its kernel.
    pub fn new(samples: &[Sample], overhead: f64) -> Self {
        let zeros = samples.iter().filter(|sample| sample.work.kind == "zeros" && sample.work.mapped > 0.0);
        let mapping = zeros.map(|zeros| zeros.seconds / zeros.work.mapped).fold(0.0, f64::max);
        let mut measured = Self { kinds: HashMap::new(), overhead, mapping };
        for Sample { work, seconds } in samples {
            // At least a tenth is left, where the noise of a measurement is as long as what is subtracted.
            let own = (seconds - work.mapped * mapping).max(seconds * 0.1);
            let rate = Rate { place: place(work), log_seconds: (own / amount(work)).ln() };
            measured.kinds.entry(work.kind.clone()).or_default().push(rate);
        }
        measured
    }

    /// The same kernels, with other seconds beside each.
    #[must_use]
    pub fn with_overhead(self, overhead: f64) -> Self {
        Self { overhead, ..self }
    }

    fn seconds(&self, work: &Work) -> f64 {
        let beside = self.overhead + work.mapped * self.mapping;
        match self.rates(work) {
            Some(rates) => interpolated(rates, &place(work)).exp() * amount(work) + beside,
            None => beside,
        }
    }

    /// The rates of the kind, or of the next more general one: `conv2d 3x3` for `conv2d 3x3 strided`.
    fn rates(&self, work: &Work) -> Option<&[Rate]> {
        let mut kind = work.kind.as_str();
        loop {
            if let Some(rates) = self.kinds.get(kind) {
                return Some(rates);
            }
            match kind.rsplit_once(' ') {
                Some((general, _)) => kind = general,
                None => break,
            }
        }
        let like = if work.arithmetic > 0.0 { "product" } else { "add" };
        self.kinds.get(like).map(Vec::as_slice)
    }
}

/// The amount that time is proportional to.
fn amount(work: &Work) -> f64 {
    if work.arithmetic > 0.0 { work.arithmetic } else { work.bytes }
}

fn place(work: &Work) -> Vec<f64> {
    work.sizes.iter().map(|size| size.max(1.0).log2()).collect()
}

/// The mean of the measured logarithms, weighted by the inverse fourth power of the distance (Shepard 1968,
/// <https://doi.org/10.1145/800186.810616>).
fn interpolated(rates: &[Rate], place: &[f64]) -> f64 {
    /// So near, both are the same.
    const NEAR: f64 = 0.01;
    let (mut sum, mut weights) = (0.0, 0.0);
    for rate in rates {
        let squares = rate.place.iter().zip(place).map(|(measured, wanted)| (measured - wanted).powi(2));
        let weight = (squares.sum::<f64>() + NEAR).powi(-2);
        sum += weight * rate.log_seconds;
        weights += weight;
    }
    sum / weights
}

/// The speeds of the devices that a training may run on.
#[derive(Clone, Debug)]
pub struct DeviceSpeeds {
    cpu: Arc<Speeds>,
    gpu: Arc<Speeds>,
    is_cpu_known: bool,
    is_gpu_known: bool,
}

impl DeviceSpeeds {
    /// The speeds of a typical CPU and of a typical GPU. Only ratios of their times mean something.
    pub fn typical(cpu: Measured) -> Self {
        Self {
            cpu: Arc::new(Speeds::Measured(cpu)),
            gpu: Arc::new(Speeds::Peak(Peak::TYPICAL)),
            is_cpu_known: false,
            is_gpu_known: false,
        }
    }

    /// With the measured speed of the CPU.
    #[must_use]
    pub fn with_cpu(self, cpu: Measured) -> Self {
        Self { cpu: Arc::new(Speeds::Measured(cpu)), is_cpu_known: true, ..self }
    }

    /// With the speed of the GPU by its data sheet.
    #[must_use]
    pub fn with_gpu(self, gpu: Peak) -> Self {
        Self { gpu: Arc::new(Speeds::Peak(gpu)), is_gpu_known: true, ..self }
    }

    /// The speeds of a backend's device, be they its own or typical ones.
    pub fn of(&self, backend: Backend) -> &Speeds {
        match backend {
            Backend::Cpu { .. } => &self.cpu,
            Backend::Cuda | Backend::Vulkan => &self.gpu,
        }
    }

    /// The speeds of a backend's device, if they are its own.
    pub fn known(&self, backend: Backend) -> Option<&Speeds> {
        let is_known = match backend {
            Backend::Cpu { .. } => self.is_cpu_known,
            Backend::Cuda | Backend::Vulkan => self.is_gpu_known,
        };
        is_known.then(|| self.of(backend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(kind: &str, sizes: &[f64], arithmetic: f64) -> Work {
        Work { kind: kind.into(), sizes: sizes.to_vec(), arithmetic, bytes: 1e6, mapped: 0.0 }
    }

    fn sample(work: Work, seconds: f64) -> Sample {
        Sample { work, seconds }
    }

    fn near(one: f64, other: f64) {
        assert!((one / other - 1.0).abs() < 1e-3, "{one} {other}");
    }

    #[test]
    fn measured_work_takes_as_long_as_it_took_and_other_work_is_between() {
        let (small, large) = (work("product", &[64.0], 1e6), work("product", &[4096.0], 1e9));
        let samples = [sample(small.clone(), 1e-4), sample(large.clone(), 1e-2)];
        let speeds = Speeds::Measured(Measured::new(&samples, 1e-9));
        near(speeds.seconds(Some(&small)), 1e-4);
        near(speeds.seconds(Some(&large)), 1e-2);
        // 100 and 10 GFLOP/s: their geometric mean halfway.
        near(speeds.seconds(Some(&work("product", &[512.0], 1e9))), 1e9 / (1e10f64 * 1e11).sqrt());
        // A kind that was not measured takes the rate of the more general one.
        near(speeds.seconds(Some(&work("product 16-bit", &[64.0], 2e6))), 2e-4);
        near(speeds.seconds(Some(&work("wkv_forward", &[64.0], 1e6))), 1e-4);
        near(speeds.seconds(None), 1e-9);
    }

    #[test]
    fn mapped_memory_takes_its_own_time() {
        let zeros = Work { mapped: 6.4e7, bytes: 6.4e7, ..work("zeros", &[6.4e7], 0.0) };
        let samples = [sample(zeros.clone(), 0.0128), sample(work("add", &[1e6], 0.0), 1e-3)];
        let speeds = Speeds::Measured(Measured::new(&samples, 1e-9));
        let add = work("add", &[1e6], 0.0);
        near(speeds.seconds(Some(&add)), 1e-3);
        near(speeds.seconds(Some(&Work { mapped: 3.2e7, ..add })), 1e-3 + 0.0064);
    }

    #[test]
    fn a_gpu_takes_the_longer_of_arithmetic_and_traffic() {
        let peak = Peak::of_data_sheet(1e13, 1e14, 1e12);
        let seconds = |kind, arithmetic| Speeds::Peak(peak).seconds(Some(&work(kind, &[1.0], arithmetic)));
        near(seconds("product", 1e12), 1e12 / 1e13 / ARITHMETIC_SHARE + LAUNCH);
        near(seconds("product 16-bit", 1e12), 1e12 / 1e14 / ARITHMETIC_SHARE + LAUNCH);
        near(seconds("product", 1.0), 1e6 / 1e12 / BANDWIDTH_SHARE + LAUNCH);
    }

    #[test]
    fn typical_speeds_are_not_known_ones() {
        let typical = DeviceSpeeds::typical(Measured::default());
        let cpu = Backend::Cpu { threads: 2 };
        assert!(typical.known(cpu).is_none() && typical.known(Backend::Cuda).is_none());
        let with_both = typical.with_cpu(Measured::default()).with_gpu(Peak::TYPICAL);
        assert!(with_both.known(cpu).is_some() && with_both.known(Backend::Vulkan).is_some());
    }
}
