//! Counts what happened, by strategy and kind of attack.

use super::training::Strategy;

/// What is done to a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Without a limit: its peak is compared with its plan.
    Measured,
    /// A limit that it fits by plan.
    Fits,
    /// A limit that it does not fit by plan.
    Below,
    /// A limit below what it needs, and no plan is asked.
    RunsOut,
    /// The same with `memory.on_oom = "adapt"`.
    Adapts,
    /// A limit of the process.
    Process,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Measured, Self::Fits, Self::Below, Self::RunsOut, Self::Adapts, Self::Process];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Measured => "no limit",
            Self::Fits => "fits by plan",
            Self::Below => "does not fit by plan",
            Self::RunsOut => "runs out",
            Self::Adapts => "adapts",
            Self::Process => "ulimit",
        }
    }
}

/// One attack on one training.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) strategy: Strategy,
    pub(super) kind: Kind,
    /// How it ended.
    pub(super) end: End,
    /// Whether it was resumed to the bytes of an undisturbed training.
    pub(super) is_resumed: bool,
    /// Planned by measured peak, less 1.
    pub(super) plan_error: Option<f64>,
}

/// How an attacked training ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Well, within its limit.
    Within,
    /// With an exit code that says why, and with a report where there must be one.
    Refused,
    /// Otherwise.
    Harm(String),
}

impl Finding {
    pub(super) fn new(strategy: Strategy, kind: Kind, end: Result<End, String>) -> Self {
        let end = end.unwrap_or_else(End::Harm);
        Self { strategy, kind, end, is_resumed: false, plan_error: None }
    }
}

pub(super) const TITLES: [&str; 9] = [
    "devices",
    "limit",
    ">tried",
    ">ended well",
    ">refused in words",
    ">resumed to the same bytes",
    ">lowest plan",
    ">highest plan",
    ">harms",
];

/// The rows of strategies and kinds that were tried.
pub(super) fn rows(findings: &[Finding]) -> Vec<Vec<String>> {
    let pairs = Strategy::ALL.into_iter().flat_map(|strategy| Kind::ALL.map(|kind| (strategy, kind)));
    pairs.filter_map(|(strategy, kind)| row(findings, strategy, kind)).collect()
}

fn row(findings: &[Finding], strategy: Strategy, kind: Kind) -> Option<Vec<String>> {
    let own = || findings.iter().filter(|finding| finding.strategy == strategy && finding.kind == kind);
    let count = |is: &dyn Fn(&Finding) -> bool| own().filter(|finding| is(finding)).count().to_string();
    let [lowest, highest] = plan_errors(own());
    let row = vec![
        strategy.name().to_owned(),
        kind.name().to_owned(),
        count(&|_| true),
        count(&|finding| finding.end == End::Within),
        count(&|finding| finding.end == End::Refused),
        count(&|finding| finding.is_resumed),
        lowest,
        highest,
        count(&|finding| matches!(finding.end, End::Harm(_))),
    ];
    own().next().map(|_| row)
}

/// The lowest and the highest plan against what was measured, in words.
pub(super) fn plan_errors<'a>(findings: impl Iterator<Item = &'a Finding>) -> [String; 2] {
    let errors: Vec<_> = findings.filter_map(|finding| finding.plan_error).collect();
    let Some(lowest) = errors.iter().copied().reduce(f64::min) else {
        return [(); 2].map(|()| String::new());
    };
    let highest = errors.iter().copied().fold(lowest, f64::max);
    [lowest, highest].map(|error| format!("{:+.2} %", error * 100.0).replace('-', "−"))
}
