//! All exceptions to the rules about shape and words, each with its reason.

use crate::{Finding, tree};

/// A place that may break a rule.
pub(crate) struct Exception {
    pub(crate) rule: &'static str,
    /// The file or crate of the finding.
    pub(crate) place: &'static str,
    /// What breaks the rule: a function, a type, a word.
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
}

const fn exception(
    rule: &'static str,
    place: &'static str,
    name: &'static str,
    reason: &'static str,
) -> Exception {
    Exception { rule, place, name, reason }
}

/// Programs read these files: their fields are the interface.
const FLAT_JSON: &str = "one flat JSON object that programs read";

/// Its registers and shared memory are its local variables, which no function outside can have.
const GPU_KERNEL: &str = "one GPU kernel: its registers and shared memory are its locals";

/// The one list. An exception of a place that exists and breaks no rule any more is a finding.
const EXCEPTIONS: &[Exception] = &[
    exception("re-exports", "src/lib.rs", ".", "the facade: its users import from one place"),
    exception("retired words", "crates/kernels/", "lane", "the lanes of a SIMD vector"),
    exception("retired words", "crates/kernels/", "lanes", "the lanes of a SIMD vector"),
    exception("retired words", "crates/plan/src/flex/gemm.rs", "lanes", "the lanes of a SIMD vector"),
    exception("retired words", "crates/config/", "device.cut", "the error for the retired key names it"),
    exception("retired words", "docs/writing.md", "*", "lists the retired words"),
    exception("retired words", "CHANGELOG.md", "*", "names what was renamed"),
    exception("retired words", "crates/optimizer/src/", "State", "the name in Burn's trait `Optimizer`"),
    exception(
        "retired words",
        "crates/kernels/src/differentiable.rs",
        "State",
        "the name in Burn's trait `Backward`",
    ),
    exception(
        "large structs",
        "crates/engine/src/session/mod.rs",
        "Session",
        "plain data that every command takes: what was opened, and how fast it is",
    ),
    exception(
        "large crates",
        "crates/kernels",
        "crates/kernels",
        "convolutions, LSTMs and transformers are made of the same tiles, panels, tasks and workspaces, which are private",
    ),
    exception("retired words", "tests/cli/runs.rs", "device.cut", "a run of an earlier version has the key"),
    exception(
        "retired words",
        "crates/config/src/sections/schedule.rs",
        "Schedule",
        "the section `[schedule]`, named as the types of the other sections are",
    ),
    exception(
        "retired words",
        "crates/config/src/interval.rs",
        "Interval",
        "steps or epochs between two events: the noun has no other meaning in a config file",
    ),
    exception(
        "large types",
        "crates/kernels/src/any_tensor.rs",
        "AnyTensor",
        "Burn's `Tensor` of a rank known at run time: one method for each operation, called in chains",
    ),
    exception("long functions", "crates/gpu_kernels/src/conv/correlate.rs", "sum_products", GPU_KERNEL),
    exception("long functions", "crates/gpu_kernels/src/lstm/backward.rs", "backward_steps", GPU_KERNEL),
    exception("long functions", "crates/gpu_kernels/src/lstm/forward.rs", "forward_steps", GPU_KERNEL),
    exception(
        "large types",
        "crates/plan/src/allocator_sim.rs",
        "AllocatorSim",
        "one allocator with its clock, layouts and pools, whose methods the rules of all backends call",
    ),
    exception(
        "large structs",
        "crates/plan/src/allocator_sim.rs",
        "AllocatorSim",
        "the state of one allocator: what is live, what it recorded, and the pools beside it",
    ),
    exception("opened files", "crates/core/src/files.rs", "*", "opens files that it has created"),
    exception("opened files", "crates/doctor/src/health/hardware.rs", "File::options", "opens device files"),
    exception(
        "opened files",
        "crates/memory/src/",
        "*",
        "reads files of the kernel, which are no regular ones",
    ),
    exception(
        "opened files",
        "crates/runs/src/run/mod.rs",
        "fs::read_to_string",
        "reads files of the kernel",
    ),
    exception("opened files", "crates/core/src/system/unix.rs", "File::open", "flushes directories"),
    exception(
        "opened files",
        "crates/core/src/system/windows.rs",
        "*",
        "creates a file, and looks at what has a path without reading it; Windows has no pipes in folders",
    ),
    exception(
        "opened files",
        "crates/runs/src/tensorboard/file.rs",
        "OpenOptions::open",
        "creates a new file",
    ),
    exception("large structs", "crates/advice/src/out_of_memory/report.rs", "OutOfMemoryReport", FLAT_JSON),
    exception("large structs", "crates/runs/src/event.rs", "Started", FLAT_JSON),
    exception("large structs", "crates/runs/src/event.rs", "Done", FLAT_JSON),
    exception("large structs", "crates/runs/src/run/summary.rs", "RunSummary", FLAT_JSON),
];

// ---- to be straightened in issue 20: the lead empties this list ------------------------------------------------------
/// Rules that a crate may break until issue 20 is done: the rule, and the beginning of the paths.
const ISSUE_20: &[[&str; 2]] = &[];
// ---- end of issue 20 -------------------------------------------------------------------------------------------------

impl Exception {
    fn covers(&self, finding: &Finding) -> bool {
        let is_place = match self.place.ends_with('/') {
            true => finding.place.starts_with(self.place),
            false => finding.place == self.place,
        };
        is_place && (self.name == "*" || self.name == finding.name)
    }
}

/// The findings that no exception covers, and the exceptions that cover none.
pub(crate) fn unexcused(rule: &str, findings: Vec<Finding>) -> Vec<Finding> {
    unexcused_by(EXCEPTIONS, ISSUE_20, rule, findings)
}

fn unexcused_by(
    exceptions: &[Exception],
    issue_20: &[[&str; 2]],
    rule: &str,
    findings: Vec<Finding>,
) -> Vec<Finding> {
    let of_rule: Vec<_> = exceptions.iter().filter(|exception| exception.rule == rule).collect();
    let idle = of_rule.iter().filter(|exception| {
        tree::own().root().join(exception.place).exists() && !findings.iter().any(|it| exception.covers(it))
    });
    let idle = idle.map(|it| {
        let says =
            format!("the exception `{}` of {} covers nothing ({}); remove it", it.name, it.place, it.reason);
        Finding::new("tests/tidy/exceptions.rs", 1, says)
    });
    let idle: Vec<_> = idle.collect();
    let is_excused = |finding: &Finding| {
        of_rule.iter().any(|exception| exception.covers(finding))
            || issue_20.iter().any(|[of, path]| *of == rule && finding.place.starts_with(path))
    };
    findings.into_iter().filter(|finding| !is_excused(finding)).chain(idle).collect()
}

#[test]
fn exceptions_cover_their_findings_and_idle_ones_are_found() {
    let exceptions = [exception("r", "a.rs", "f", "why"), exception("r", "Cargo.toml", "f", "why")];
    let findings = || ["a.rs", "c.rs", "x/d.rs"].map(|place| Finding::new(place, 1, "s").named("f")).into();
    let left = unexcused_by(&exceptions, &[["r", "x/"]], "r", findings());
    let left: Vec<_> = left.iter().map(|finding| finding.place.as_str()).collect();
    assert_eq!(left, ["c.rs", "tests/tidy/exceptions.rs"]);
    assert_eq!(unexcused_by(&exceptions, &[], "other", findings()).len(), 3);
}
