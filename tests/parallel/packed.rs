//! Optimizer state of 8 and 16 bits: the same training on any number of devices, with every lever, and after a resume.

use oomph::runs::state::Checkpoint;
use oomph_engine::record::OptimizerRecord;

use crate::support::{RESNET, Runs};

const RULES: [&str; 3] = ["sgd', momentum = 0.9, lr = 2e-3", "adamw', lr = 1e-3", "lion', lr = 1e-4"];

fn packed(rule: &str, format: &str) -> String {
    format!("optimizer = {{ name = '{rule}, state = '{format}' }}\n")
}

/// The optimizer's name.
fn name_of(rule: &str) -> &str {
    rule.split('\'').next().unwrap_or(rule)
}

/// The recipe without its optimizer.
fn runs() -> Runs {
    let lines = RESNET.lines().filter(|line| !line.contains("optimizer"));
    Runs::new(lines.collect::<Vec<_>>().join("\n").leak())
}

fn state(runs: &Runs, name: &str) -> OptimizerRecord {
    let found = Checkpoint::find(&runs.path(name)).expect("a checkpoint");
    found.checkpoint.state().expect("a state").optimizer
}

#[test]
fn packed_state_goes_together_with_released_gradients_and_parts_of_a_model() {
    let runs = runs();
    for rule in RULES {
        let wide = runs.trained(&format!("{}-fp32", name_of(rule)), 10, &packed(rule, "fp32"));
        for format in ["bf16", "int8"] {
            let name = |what: &str| format!("{}-{format}-{what}", name_of(rule));
            let chosen = packed(rule, format);
            let plain = runs.trained(&name("plain"), 10, &chosen);
            assert_ne!(plain.tensors, wide.tensors, "{rule} {format}: the state is rounded");
            // Not the weights: a rounded moment may change the sign of a step of Lion.
            let [one, other] = [plain.eval_loss, wide.eval_loss];
            assert!((one / other - 1.0).abs() < 0.05, "{rule} {format}: a loss of {one}, not {other}");
            for (what, lever) in [
                ("released", "memory.gradients = 'release'\n"),
                ("recompute", "memory.recompute = 'stages'\nmemory.gradients = 'release'\n"),
                ("model", "device.devices = 'cpu,cpu'\ndevice.strategy = 'model'\n"),
            ] {
                runs.trained(&name(what), 10, &(chosen.clone() + lever)).check(&plain, 0.0, &name(what));
            }
            let ddp = "device.devices = 'cpu,cpu'\ndevice.strategy = 'ddp'\n";
            let two = runs.trained(&name("ddp"), 10, &(chosen.clone() + ddp));
            let released = runs.trained(
                &name("ddp released"),
                10,
                &format!("{chosen}{ddp}memory.gradients = 'release'\n"),
            );
            released.check(&two, 0.0, &name("ddp released"));
        }
    }
}

#[test]
fn packed_state_resumes_exactly() {
    let runs = runs();
    for rule in RULES {
        for format in ["bf16", "int8"] {
            let (whole, halves) =
                (format!("{}-{format}", name_of(rule)), format!("{}-{format}-halves", name_of(rule)));
            let chosen = packed(rule, format);
            let right = runs.trained(&whole, 10, &chosen);
            runs.trained(&halves, 4, &chosen);
            runs.resumed(&halves, 10, &chosen).check(&right, 0.0, &halves);
            let [right, found] = [whole, halves].map(|name| state(&runs, &name));
            assert_eq!(found, right);
            assert!(
                !found.packed.is_empty() && found.tensors.keys().all(|leaf| !found.packed.contains_key(leaf))
            );
            for (leaf, tensor) in &found.tensors {
                assert!(tensor.values.len() < 4096, "{leaf} has {} elements of 32 bits", tensor.values.len());
            }
        }
    }
}

/// A training that is short of memory goes on with less state, and one that is no longer, with more.
#[test]
fn a_resumed_training_converts_its_state() {
    let runs = runs();
    for rule in RULES {
        let name = name_of(rule);
        runs.trained(name, 3, &packed(rule, "fp32"));
        let mut steps = 3;
        for format in ["int8", "bf16", "int8", "fp32"] {
            let before = state(&runs, name);
            steps += 1;
            runs.resumed_with(name, steps, &packed(rule, format));
            let after = state(&runs, name);
            assert_eq!(after.packed.is_empty(), format == "fp32", "{rule} {format}");
            assert_eq!(after.ranks, before.ranks, "{rule} {format}: no state is lost");
        }
    }
}

#[test]
fn embeddings_keep_8_bits_out_of_their_state() {
    let recipe = "
        model = { name = 'lstm-lm', hidden = 64 }
        data = { source = 'synthetic', kind = 'tokens', steps = 12, vocabulary = 100, train_samples = 60, test_samples = 20, workers = 0 }
        train.eval_every = '10 steps'
        optimizer.name = 'adam'
        ";
    let runs = Runs::new(recipe);
    for (format, is_packed) in [("int8", false), ("bf16", true)] {
        runs.trained(format, 3, &format!("optimizer.state = '{format}'\n"));
        let found = state(&runs, format);
        let of = |part: &str| found.packed.keys().any(|leaf| leaf.contains(part));
        assert_eq!(of("embedding"), is_packed, "{format}: {:?}", found.packed.keys());
        assert!(of("head.fc.weight") || of("lstm"), "{format}: {:?}", found.packed.keys());
    }
}
