//! How long the devices of a pipeline wait for each other.

#[path = "../../tools/src/pipeline_bubble/slow.rs"]
mod slow;

use slow::idle_share;

/// `cargo xtask pipeline-bubble` holds it to 20 %, on a machine that has time for it.
const TOLERANCE: f64 = 0.35;

#[test]
fn pipelines_wait_as_long_as_the_formula_says() {
    for schedule in ["gpipe", "1f1b"] {
        for (devices, micro_batches) in [(2, 1), (2, 4), (3, 4), (4, 8)] {
            let formula = (devices - 1) as f64 / (micro_batches + devices - 1) as f64;
            // Other programs can only make them wait for longer, or for shorter by chance: the best of some counts.
            let off = |_| idle_share(schedule, devices, micro_batches, 15.0).unwrap() / formula - 1.0;
            let best = (0..5).map(off).map(f64::abs).find(|off| *off <= TOLERANCE);
            assert!(best.is_some(), "{schedule}, {devices} devices, {micro_batches} micro-batches");
        }
    }
}
