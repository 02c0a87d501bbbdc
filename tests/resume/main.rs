//! A run that is stopped at any moment and resumed ends with the same bytes as one that never was.

mod loss_scale;
mod pauses;

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use oomph_core::{Generator, Key};
use oomph_runs::state::Checkpoint;

/// The train command on digits; mid-epoch saves, statistics, dropout-free augmentation, momentum: all that has state.
struct Recipe {
    name: &'static str,
    config: &'static str,
}

const RESNET: Recipe = Recipe {
    name: "resnet",
    config: "
        model = { name = 'resnet18', stem = 'small', width = 2 }
        data = { source = 'digits', crop_padding = 1, workers = 2, augment = { rotate = 15, erase = 0.3, mixup = 0.2, cutmix = 1.0 } }
        train = { steps = 120, batch = 64, eval_every = '20 steps', seed = 3, ema = 0.9, best = 'macro f1' }
        optimizer = { name = 'sgd', lr = 0.05, momentum = 0.9, nesterov = true, weight_decay = 5e-4 }
        schedule = { name = 'one-cycle' }
        run = { save_every = '7 steps', log_every = 3 }
        ",
};

const LSTM: Recipe = Recipe {
    name: "lstm",
    config: "
        model = { name = 'lstm', hidden = 12, layers = 2, dropout = 0.2 }
        data = { source = 'digits', layout = 'rows', workers = 1 }
        train = { steps = 150, batch = 50, eval_every = '1 epoch', seed = 5 }
        optimizer = { name = 'adamw', lr = 3e-3, clip_global_norm = 1.0 }
        memory = { micro_batch = 20 }
        run = { save_every = '11 steps', log_every = 4 }
        ",
};

/// A language model, whose layers carry their state from batch to batch.
const LANGUAGE: Recipe = Recipe {
    name: "language",
    config: "
        model = { name = 'lstm-lm', hidden = 12, layers = 2, dropout = 0.2, tied = true }
        data = { source = 'synthetic', kind = 'tokens', steps = 12, train_samples = 800, test_samples = 90, workers = 1 }
        train = { steps = 150, batch = 30, eval_every = '1 epoch', seed = 5 }
        optimizer = { name = 'adamw', lr = 3e-3, clip_global_norm = 1.0 }
        memory = { micro_batch = 20 }
        run = { save_every = '11 steps', log_every = 4 }
        ",
};

/// A text whose samples begin at other places in each epoch, of 13 steps.
const TEXT: Recipe = Recipe {
    name: "text",
    config: "
        model = { name = 'gpt', layers = 1, hidden = 12, heads = 2, dropout = 0.1 }
        data = { source = 'text', path = 'text.txt', steps = 12, carry = false, workers = 1 }
        train = { steps = 150, batch = 10, eval_every = '1 epoch', seed = 5 }
        optimizer = { name = 'adamw', lr = 3e-3, clip_global_norm = 1.0 }
        memory = { micro_batch = 4 }
        run = { save_every = '11 steps', log_every = 4 }
        ",
};

/// With a loss scale, which is state too.
const HALF: Recipe = Recipe {
    name: "half",
    config: "
        model = { name = 'resnet18', stem = 'small', width = 2 }
        data = { source = 'digits', crop_padding = 1, workers = 2 }
        train = { steps = 60, batch = 32, eval_every = '20 steps', seed = 3 }
        optimizer = { name = 'adam', lr = 1e-3, clip_global_norm = 1.0 }
        memory = { precision = 'fp16', micro_batch = 20 }
        run = { save_every = '7 steps', log_every = 3 }
        ",
};

/// Drawn from balanced classes, with weights of the classes.
const BALANCED: Recipe = Recipe {
    name: "balanced",
    config: "
        model = { name = 'lstm', hidden = 12, layers = 2, dropout = 0.2 }
        data = { source = 'digits', layout = 'rows', workers = 1, sampling = 'balanced' }
        train = { steps = 150, batch = 50, eval_every = '1 epoch', seed = 5, class_weights = 'balanced' }
        optimizer = { name = 'adamw', lr = 3e-3, clip_global_norm = 1.0 }
        memory = { micro_batch = 20 }
        run = { save_every = '11 steps', log_every = 4 }
        ",
};

/// A place of its own with the recipe's config in it.
struct Bench {
    directory: tempfile::TempDir,
    config: PathBuf,
    runs: PathBuf,
}

impl Bench {
    fn new(recipe: &Recipe) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join(format!("{}.toml", recipe.name));
        fs::write(&config, recipe.config).unwrap();
        let words: String = (0..600u32).map(|word| format!("{} ", word * word % 97)).collect();
        fs::write(directory.path().join("text.txt"), words).unwrap();
        let runs = directory.path().join("runs");
        Self { directory, config, runs }
    }

    fn start(&self, run: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_oomph"))
            .args(["train", "--json", "--resume", "--config"])
            .arg(&self.config)
            .arg("--set")
            .arg(format!("run.directory={}", self.runs.join(run).display()))
            .current_dir(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The bytes of the model at the end of the run, and those of its average, if it has one.
    fn model(&self, run: &str, steps: usize) -> Vec<u8> {
        let checkpoint = Checkpoint::find(&self.runs.join(run)).unwrap().checkpoint;
        assert_eq!(checkpoint.progress().step, steps, "{run} is not at its end");
        let mut bytes = fs::read(checkpoint.path().join("model.safetensors")).unwrap();
        if checkpoint.has_average() {
            bytes.extend(fs::read(checkpoint.path().join("average.safetensors")).unwrap());
        }
        bytes
    }
}

/// Runs to the end, stopping by `signal` again and again at random moments; how often it was stopped.
fn run_with_stops(bench: &Bench, run: &str, signal: i32, stops: usize, whole: Duration) -> usize {
    let mut generator = Generator::at(Key::new(signal as u64).with_name(run));
    let mut stopped = 0;
    loop {
        let mut child = bench.start(run);
        if stopped < stops {
            // Anywhere from before the first step to near the end of what is left.
            sleep(whole.mul_f32(generator.uniform_in(0.02, 0.6)));
            // SAFETY: the child has not been waited for, so its id is its own.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
        let status = child.wait().unwrap();
        match status.code() {
            Some(0) => return stopped,
            Some(130) if signal == libc::SIGINT => stopped += 1,
            None if signal == libc::SIGKILL => stopped += 1,
            // Before its handlers are there, the signal's own effect is the end of the process.
            None if signal == libc::SIGINT => stopped += 1,
            code => panic!("the run ended with {code:?}"),
        }
    }
}

fn check(recipe: &Recipe, steps: usize, signal: i32) {
    let bench = Bench::new(recipe);
    let start = Instant::now();
    assert!(bench.start("whole").wait().unwrap().success());
    let whole = start.elapsed();
    let expected = bench.model("whole", steps);
    let mut stopped = 0;
    for round in 0.. {
        let run = format!("stopped-{round}");
        stopped += run_with_stops(&bench, &run, signal, 5, whole);
        assert!(bench.model(&run, steps) == expected, "{run} ended with other bytes");
        if stopped >= 20 {
            break;
        }
    }
}

#[test]
fn a_resnet_killed_20_times_ends_with_the_same_bytes() {
    check(&RESNET, 120, libc::SIGKILL);
}

#[test]
fn a_resnet_interrupted_20_times_ends_with_the_same_bytes() {
    check(&RESNET, 120, libc::SIGINT);
}

#[test]
fn a_resnet_in_half_precision_killed_20_times_ends_with_the_same_bytes() {
    check(&HALF, 60, libc::SIGKILL);
}

#[test]
fn an_lstm_killed_20_times_ends_with_the_same_bytes() {
    check(&LSTM, 150, libc::SIGKILL);
}

#[test]
fn an_lstm_interrupted_20_times_ends_with_the_same_bytes() {
    check(&LSTM, 150, libc::SIGINT);
}

#[test]
fn a_run_of_balanced_classes_killed_20_times_ends_with_the_same_bytes() {
    check(&BALANCED, 150, libc::SIGKILL);
}

#[test]
fn a_language_model_killed_20_times_ends_with_the_same_bytes() {
    check(&LANGUAGE, 150, libc::SIGKILL);
}

#[test]
fn a_text_in_shifted_windows_killed_20_times_ends_with_the_same_bytes() {
    check(&TEXT, 150, libc::SIGKILL);
}

#[test]
fn the_number_of_loader_threads_changes_no_bit() {
    let bench = Bench::new(&RESNET);
    let model = |workers: usize| {
        let run = format!("workers-{workers}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_oomph"))
            .args(["train", "--quiet", "--config"])
            .arg(&bench.config)
            .args(["--set", &format!("data.workers={workers}"), "--set", "train.steps=30"])
            .args(["--set", &format!("run.directory={}", bench.runs.join(&run).display())])
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        bench.model(&run, 30)
    };
    let expected = model(0);
    assert!([1, 4].into_iter().all(|workers| model(workers) == expected));
}
