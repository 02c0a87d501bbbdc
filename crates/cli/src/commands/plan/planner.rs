use oomph_advice::planning::PlanOptions;
use oomph_config::{Config, DeviceName, OptimizerKind, sections::optimizer::StateFormat};
use oomph_core::Bytes;
use oomph_engine::session::backend;
use oomph_memory::gpu::GpuMemory;
use oomph_plan::{
    Backend,
    time::{ARITHMETIC_SHARE, BANDWIDTH_SHARE, Peak, Speeds},
};
use oomph_trainer::{Session, default_limit, limit_of};
use serde::Serialize;

/// What all batches of a plan share.
pub(super) struct Planner {
    pub(super) session: Session,
    /// The name of each device: that of its GPU if it was planned by name.
    pub(super) names: Vec<String>,
    pub(super) backend: Backend,
    /// The memory limit of each device; the smallest one of several.
    pub(super) limit_bytes: Option<Bytes>,
    /// The source of a limit that the user did not set.
    reason: Option<String>,
}

/// The quality of the planner's rules for a device.
#[derive(Debug, Serialize)]
pub(super) struct Rules {
    /// Whether measurements on such a device verified the rules.
    rules_verified: bool,
    /// The share of the limit that a plan must leave free to fit.
    pub(super) margin: f64,
}

impl Planner {
    pub(super) fn new(session: Session, gpus: Vec<GpuMemory>) -> Self {
        let backend = match backend(&session) {
            // A GPU of `--gpu` is a CUDA card, unless the configuration says otherwise.
            Backend::Cpu { .. } if !gpus.is_empty() => Backend::Cuda,
            backend => backend,
        };
        let devices = session.config.device.devices.iter().enumerate();
        let named = |(index, device): (usize, &DeviceName)| match gpus.get(index) {
            Some(GpuMemory { name: Some(name), .. }) => (*name).to_owned(),
            Some(_) if gpus.len() == 1 => "cuda".to_owned(),
            _ => device.to_string(),
        };
        let names = devices.map(named).collect();
        let session = with_peak(session, &gpus);
        if !gpus.is_empty() {
            let session = session.with_limits(gpus.iter().map(|gpu| gpu.limit_bytes).collect());
            return Self { limit_bytes: session.limit_bytes, session, names, backend, reason: None };
        }
        let (limits, reason) = free_memory(&session.config, backend).unzip();
        let session = match limits {
            Some(limits) => session.with_limits(limits),
            None => session,
        };
        Self { limit_bytes: session.limit_bytes, session, names, backend, reason }
    }

    /// `on RTX 4090 with 23.0 GiB`, `ddp over 4 devices with 24.0 GiB each`.
    pub(super) fn place(&self) -> String {
        let session = &self.session;
        let count = session.config.device.devices.len();
        let limits: Vec<_> = (0..count).filter_map(|device| session.limit_of(device)).collect();
        let are_alike = limits.windows(2).all(|pair| pair[0] == pair[1]);
        let each = if count > 1 { " each" } else { "" };
        let with = match limits.first() {
            None => String::new(),
            Some(limit) if are_alike => format!(" with {limit}{each}"),
            Some(_) => format!(" with {}", listed(&limits)),
        };
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let rules = self.backend.caveat().map(|caveat| format!(" · {caveat}")).unwrap_or_default();
        match session.config.device.sharing.name().filter(|_| count > 1) {
            Some(strategy) => format!("{strategy} over {count} devices{with}{reason}{rules}"),
            None => format!("on {}{with}{reason}{rules}", self.names[0]),
        }
    }

    pub(super) fn options(&self) -> PlanOptions {
        PlanOptions { backend: Some(self.backend), limit_bytes: self.limit_bytes, ..PlanOptions::default() }
    }

    /// Where planned times come from, or how to get them.
    pub(super) fn speed(&self) -> Option<String> {
        let is_alone = self.session.config.device.devices.len() == 1;
        let percent = |share: f64| (share * 100.0).round();
        match (self.session.speeds.known(self.backend), self.backend) {
            _ if !is_alone => None,
            (Some(Speeds::Peak(_)), _) => Some(format!(
                "times are unverified: {} % of the arithmetic and {} % of the bandwidth in the data sheet",
                percent(ARITHMETIC_SHARE),
                percent(BANDWIDTH_SHARE)
            )),
            (Some(Speeds::Measured(_)), _) | (None, Backend::Cuda | Backend::Vulkan) => None,
            (None, Backend::Cpu { .. }) => {
                Some("`oomph calibrate` measures this machine once; then plans show times too".to_owned())
            }
        }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules { rules_verified: self.backend.is_verified(), margin: self.backend.margin() }
    }

    /// `sgd momentum 0.9`, `adamw`: the settings that determine the optimizer state.
    pub(super) fn optimizer(&self) -> String {
        let optimizer = &self.session.config.optimizer;
        let name = match &optimizer.kind {
            OptimizerKind::Sgd { momentum, .. } if *momentum > 0.0 => format!("sgd momentum {momentum}"),
            other => other.name().to_owned(),
        };
        match optimizer.state {
            StateFormat::Fp32 => name,
            packed => format!("{name} · {} state", packed.name()),
        }
    }
}

/// The session with the speed of the first GPU, if its data sheet is known.
fn with_peak(session: Session, gpus: &[GpuMemory]) -> Session {
    const GIGA: f64 = 1e9;
    let Some(peak) = gpus.first().and_then(|gpu| gpu.peak) else { return session };
    let figures = [peak.gigaflops, peak.narrow_gigaflops, peak.gigabytes];
    let [arithmetic, narrow, bytes] = figures.map(|figure| f64::from(figure) * GIGA);
    let speeds = session.speeds.clone().with_gpu(Peak::of_data_sheet(arithmetic, narrow, bytes));
    Session { speeds, ..session }
}

/// Without a limit, a plan is compared with the free memory of this machine's devices: the limits, and what they are.
fn free_memory(config: &Config, backend: Backend) -> Option<(Vec<Bytes>, String)> {
    if config.memory.limit.is_some() {
        return None;
    }
    if let Backend::Cpu { .. } = backend {
        let default = default_limit(config)?;
        return Some((vec![default.bytes], format!("{}, less a reserve", default.reason)));
    }
    let limits = config.device.devices.iter().map(|device| limit_of(*device, config));
    Some((limits.collect::<Option<_>>()?, "free memory".to_owned()))
}

/// `24.0 GiB, 24.0 GiB and 16.0 GiB`.
fn listed(limits: &[Bytes]) -> String {
    let limits: Vec<_> = limits.iter().map(Bytes::to_string).collect();
    match limits.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => limits.concat(),
    }
}
