//! Planned memory is held against measured memory: a sample of what `cargo xtask plan-accuracy` does.

#[allow(dead_code)] // The tool runs all cases, the test a sample.
#[path = "../../tools/src/plan_accuracy/grid.rs"]
mod grid;
#[path = "../../tools/src/plan_accuracy/measure.rs"]
pub(crate) mod measure;

use std::{env, process::Command};

use measure::{Outcome, errors};

/// Names the configuration in the environment of a child.
pub(crate) const CASE: &str = "OOMPH_TEST_CASE";
/// Begins the child's answer among what the test harness prints.
pub(crate) const ANSWER: &str = "outcome: ";

#[test]
fn what_is_planned_is_what_is_measured() {
    let mut sizes = Vec::new();
    for case in grid::sample() {
        let label = case.label().join(", ");
        let outcome = in_a_process(&label, &case.config());
        for (what, error) in ["training", "evaluation"].into_iter().zip(errors(&outcome)) {
            println!("{label}: {what} {:+.2} %", 100.0 * error);
            assert!(error.abs() <= 0.05, "{label}: {what} is off by {:+.1} %: {outcome:?}", 100.0 * error);
            sizes.push(error.abs());
        }
    }
    sizes.sort_by(f64::total_cmp);
    assert!(sizes[sizes.len() / 2] <= 0.02, "the median error is {:.2} %", 100.0 * sizes[sizes.len() / 2]);
}

/// The scaled loss, the check of all gradients and their unscaling are in the plan as they are in a step.
#[test]
fn a_step_with_a_loss_scale_is_planned_as_it_is_measured() {
    let config = "model = { name = 'resnet18', stem = 'small' }
                  data = { source = 'digits', workers = 0 }
                  train = { steps = 3, batch = 32 }
                  optimizer = { name = 'adam', clip_global_norm = 1.0 }
                  memory = { precision = 'fp16', micro_batch = 16 }";
    let outcome = in_a_process("half precision", config);
    for error in errors(&outcome) {
        println!("half precision {:+.2} %", 100.0 * error);
        assert!(error.abs() <= 0.02, "{:+.1} %: {outcome:?}", 100.0 * error);
    }
}

/// The weighted loss is composed of other operations, and uploads the weights. With a thousand classes the loss is most of the
/// step.
#[test]
fn a_step_with_weights_of_classes_is_planned_as_it_is_measured() {
    for policy in ["{ }", "{ micro_batch = 100 }", "{ precision = 'bf16' }"] {
        let config = format!(
            "model = {{ name = 'lstm', hidden = 16 }}
             data = {{ source = 'synthetic', kind = 'sequence', steps = 2, features = 4, classes = 1000, workers = 0 }}
             train = {{ steps = 3, batch = 256, class_weights = 'balanced', label_smoothing = 0.1 }}
             memory = {policy}"
        );
        let label = format!("weights of classes, {policy}");
        let outcome = in_a_process(&label, &config);
        for error in errors(&outcome) {
            println!("{label}: {:+.2} %", 100.0 * error);
            assert!(error.abs() <= 0.02, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
        }
    }
}

/// Mixed samples have two classes, and their loss is computed with both.
#[test]
fn steps_with_mixed_samples_are_planned_as_they_are_measured() {
    for weights in ["none", "balanced"] {
        for policy in
            ["{ micro_batch = 16 }", "{ recompute = 'stages' }", "{ precision = 'bf16' }", "{ lean = false }"]
        {
            let config = format!(
                "model = {{ name = 'resnet18', stem = 'small', width = 8 }}
                 data = {{ source = 'synthetic', height = 8, width = 8, classes = 5000, workers = 0,
                           augment = {{ mixup = 0.2, cutmix = 1.0 }} }}
                 train = {{ steps = 3, batch = 64, label_smoothing = 0.1, class_weights = '{weights}' }}
                 memory = {policy}"
            );
            let label = format!("mixed, weights {weights}, {policy}");
            let outcome = in_a_process(&label, &config);
            for error in errors(&outcome) {
                println!("{label}: {:+.2} %", 100.0 * error);
                assert!(error.abs() <= 0.02, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
            }
        }
    }
}

/// With two thousand labels the loss is most of the step, and counting right samples most of an evaluation.
#[test]
fn steps_with_labels_are_planned_as_they_are_measured() {
    const LABELS: usize = 2000;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let names: String = (0..LABELS).map(|label| format!(",l{label}")).collect();
    let mut table = format!("file{names}\n");
    for index in 0..240_usize {
        let pixel = |x: u32, y: u32| image::Rgb([x as u8 * 20, y as u8 * 20, index as u8]);
        let path = folder.path().join(format!("{index}.png"));
        image::RgbImage::from_fn(8, 8, pixel).save(path).expect("a file");
        let marks = (0..LABELS).map(|label| if (index * 31 + label * 7) % 11 == 0 { ",1" } else { ",0" });
        table += &format!("{index}.png{}\n", marks.collect::<String>());
    }
    let path = folder.path().join("labels.csv");
    std::fs::write(&path, table).expect("a file");
    for (train, policy) in [
        ("", "{ }"),
        ("", "{ micro_batch = 16 }"),
        ("", "{ precision = 'bf16' }"),
        ("", "{ lean = false }"),
        (", class_weights = 'balanced', label_smoothing = 0.1", "{ }"),
    ] {
        let config = format!(
            "model = {{ name = 'lstm', hidden = 16 }}
             data = {{ source = 'folder', labels = '{}', label_columns = 'all', workers = 0, augment = {{ mixup = 0.2 }} }}
             train = {{ steps = 3, batch = 48{train} }}
             memory = {policy}",
            path.display()
        );
        let label = format!("labels{train}, {policy}");
        let outcome = in_a_process(&label, &config);
        for error in errors(&outcome) {
            println!("{label}: {:+.2} %", 100.0 * error);
            assert!(error.abs() <= 0.02, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
        }
    }
}

/// Frozen stages keep nothing where they come first, and pass gradients on where they do not; neither has gradients or
/// state of an optimizer.
#[test]
fn steps_with_frozen_stages_are_planned_as_they_are_measured() {
    for freeze in ["['stem', 'layer1', 'layer2']", "['layer2', 'layer3.0']"] {
        for policy in
            ["{ micro_batch = 16 }", "{ recompute = 'stages' }", "{ precision = 'bf16' }", "{ lean = false }"]
        {
            let config = format!(
                "model = {{ name = 'resnet18', stem = 'small', width = 32, freeze = {freeze} }}
                 data = {{ source = 'digits', workers = 0 }}
                 train = {{ steps = 3, batch = 32 }}
                 optimizer = {{ name = 'adam' }}
                 memory = {policy}"
            );
            let label = format!("freeze {freeze}, {policy}");
            let outcome = in_a_process(&label, &config);
            for error in errors(&outcome) {
                println!("{label}: {:+.2} %", 100.0 * error);
                assert!(error.abs() <= 0.05, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
            }
        }
    }
}

/// Adapters have gradients and state, and the weights that they change none. A changed weight lives from forward to backward.
#[test]
fn steps_with_adapters_are_planned_as_they_are_measured() {
    let photos = "{ source = 'digits', workers = 0 }";
    let text = "{ source = 'synthetic', kind = 'tokens', vocabulary = 70, steps = 64, carry = false }";
    let lora = "lora = { rank = 4 }";
    let down = "lora = { rank = 4, targets = ['down'] }";
    for (model, data, of_model) in [
        ("name = 'resnet18', stem = 'small', width = 32", photos, "lora = { rank = 4, train = ['head'] }"),
        ("name = 'gpt', layers = 2, hidden = 128, heads = 4", text, lora),
        ("name = 'gpt', layers = 2, hidden = 128, heads = 4", text, down),
        ("name = 'gru-lm', hidden = 128", text, lora),
    ] {
        for policy in
            ["", "recompute = 'stages'", "precision = 'bf16'", "lean = false", "gradients = 'release'"]
        {
            let config = format!(
                "model = {{ {model}, {of_model} }}\ndata = {data}\ntrain = {{ steps = 3, batch = 8 }}\n\
                 optimizer = {{ name = 'adamw' }}\nmemory = {{ {policy} }}"
            );
            let label = format!("{model}, {of_model}, {policy}");
            let outcome = in_a_process(&label, &config);
            for error in errors(&outcome) {
                println!("{label}: {:+.2} %", 100.0 * error);
                // On a processor with AVX2 alone, a GRU of Burn's products was measured 2.7 % below its plan of 6 MB.
                let is_in_bounds = (-0.02..=0.03).contains(&error);
                assert!(is_in_bounds, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
            }
        }
    }
}

/// Logits of one chunk exist at a time, in steps and in evaluations.
#[test]
fn steps_with_a_loss_by_chunks_are_planned_as_they_are_measured() {
    let logits = 16 * 64 * 4000 * 4;
    let text = "{ source = 'synthetic', kind = 'tokens', vocabulary = 4000, steps = 64, carry = false, \
                test_samples = 16 }";
    for model in [
        "name = 'gpt', layers = 2, hidden = 64, heads = 4",
        "name = 'gpt', layers = 2, hidden = 64, heads = 4, tied = false",
        "name = 'gru-lm', hidden = 64",
    ] {
        let config = |chunk: &str, policy: &str| {
            format!(
                "model = {{ {model} }}\ndata = {text}\ntrain = {{ steps = 3, batch = 16 }}\n\
                 optimizer = {{ name = 'adamw' }}\nmemory = {{ loss_chunk = {chunk}, {policy} }}"
            )
        };
        for (chunk, policy) in [
            ("100", ""),
            ("256", "recompute = 'stages'"),
            ("256", "precision = 'bf16'"),
            ("256", "lean = false"),
            ("128", "gradients = 'release'"),
        ] {
            let whole = in_a_process(model, &config("'none'", policy)).peak_in_use_bytes;
            let label = format!("{model}, loss_chunk = {chunk}, {policy}");
            let outcome = in_a_process(&label, &config(chunk, policy));
            for error in errors(&outcome) {
                println!("{label}: {:+.2} %", 100.0 * error);
                assert!(error.abs() <= 0.02, "{label}: {:+.1} %: {outcome:?}", 100.0 * error);
            }
            assert!(
                outcome.peak_in_use_bytes + logits / 2 < whole,
                "{label}: {outcome:?} instead of {whole}"
            );
        }
    }
}

/// An average takes as much memory as parameters and running statistics, from the first step on.
#[test]
fn steps_that_average_the_weights_are_planned_as_they_are_measured() {
    let small = "data = { source = 'digits', workers = 0 }";
    let rows = "data = { source = 'digits', layout = 'rows', workers = 0 }";
    let (ema, swa) = ("ema = 0.99", "swa = 0.5, swa_every = '1 step'");
    for (model, data, batch, optimizer, average) in [
        ("name = 'resnet18', stem = 'small'", small, 4, "name = 'sgd', momentum = 0.9", ema),
        ("name = 'resnet18', stem = 'small', freeze = ['stem', 'layer1']", small, 16, "name = 'adam'", ema),
        ("name = 'lstm', hidden = 256", rows, 4, "name = 'adamw', clip_global_norm = 1.0", ema),
        ("name = 'resnet18', stem = 'small', width = 32", small, 4, "name = 'sgd', momentum = 0.9", swa),
        ("name = 'lstm', hidden = 240", rows, 4, "name = 'adamw', clip_global_norm = 1.0", swa),
        // SWA has not begun, and has its memory.
        ("name = 'lstm', hidden = 224", rows, 4, "name = 'adamw'", "swa = 0.9"),
    ] {
        let config = format!(
            "model = {{ {model} }}\n{data}\noptimizer = {{ {optimizer} }}\n\
             train = {{ steps = 3, batch = {batch}, {average} }}"
        );
        let outcome = in_a_process(model, &config);
        for error in errors(&outcome) {
            println!("{model}: {:+.2} %", 100.0 * error);
            assert!(error.abs() <= 0.02, "{model}: {:+.1} %: {outcome:?}", 100.0 * error);
        }
    }
}

/// What a backend keeps for ever, one case would leave to the next.
fn in_a_process(label: &str, config: &str) -> Outcome {
    serde_json::from_str(&answer_of("accuracy::a_case_is_measured", label, config)).unwrap()
}

/// Runs an ignored test of this program in a child with a case, and gives its answer.
pub(crate) fn answer_of(test: &str, label: &str, config: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(CASE, config)
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let answer = stdout.lines().find_map(|line| line.split_once(ANSWER));
    let (_, answer) = answer.unwrap_or_else(|| panic!("{label}:\n{stdout}\n{stderr}"));
    answer.to_owned()
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn a_case_is_measured() {
    let config = env::var(CASE).expect("the test above names the case");
    let outcome = measure::measure(&config).unwrap();
    println!("\n{ANSWER}{}", serde_json::to_string(&outcome).unwrap());
}

#[test]
fn planning_a_large_batch_is_quick_and_small() {
    let config = oomph::Config::from_toml(
        "large",
        "model = { name = 'resnet50' }\n\
         data = { source = 'synthetic', kind = 'image', height = 224, width = 224, classes = 1000 }\n\
         train = { batch = 512 }",
    )
    .unwrap();
    let session = oomph::open_to_plan(config, &oomph::Registry::builtin()).unwrap();
    let _alone = crate::alone();
    let host_before = oomph::memory::read().host_bytes;
    let planned = oomph::plan(&session, oomph::PlanOptions::default()).unwrap();
    let kept = oomph::memory::read().host_bytes.get().saturating_sub(host_before.get());
    // 512 images of 67 MB each, as a hand count of convolutions' and blocks' outputs gives at the least.
    assert!(planned.peak().categories.total().get() > 512 * 67_000_000);
    assert!(kept < 200_000_000, "the plan itself takes {kept} bytes");
}
