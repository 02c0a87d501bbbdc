//! Kills a training again and again while it saves, and looks after each kill whether `latest` can be read.
//!
//! ```text
//! cargo run --release --example kill_saves -- 200
//! ```
//!
//! The run saves after every step, so that most of its time is saving. The `oomph` binary must be built before
//! (`cargo build --release`). It prints how many kills hit a save, which is seen by what the kill left half-written.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, SystemTime},
};

use oomph_core::{Generator, Key};
use oomph_trainer::state::{Checkpoint, CheckpointStore};

const CONFIG: &str = "
    model = { name = 'resnet18', stem = 'small', width = 32 }
    data = { source = 'digits', workers = 0 }
    train = { steps = 1000000, batch = 2, eval_every = 'never' }
    optimizer = { name = 'adam' }
    run = { save_every = '1 steps', keep_last = 2 }
";

fn main() -> ExitCode {
    let kills = env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, run) = (directory.path().join("kill.toml"), directory.path().join("run"));
    fs::write(&config, CONFIG).expect("a writable temporary directory");
    let mut generator = Generator::at(Key::new(1));
    let (mut during, mut unreadable) = (0, 0);
    for kill in 1..=kills {
        let start = SystemTime::now();
        train_and_kill(&config, &run, Duration::from_secs_f32(generator.uniform_in(0.15, 0.6)));
        during += usize::from(was_writing(&run, start));
        match check(&run) {
            Ok(step) => eprintln!("kill {kill:3}: `latest` is whole, at step {step}"),
            Err(problem) => {
                unreadable += 1;
                eprintln!("kill {kill:3}: {problem}");
            }
        }
    }
    println!("{kills} kills, {during} of them while a checkpoint was being written, {unreadable} unreadable");
    if unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn train_and_kill(config: &Path, run: &Path, after: Duration) {
    let mut child = Command::new(oomph())
        .args(["train", "--quiet", "--resume", "--config"])
        .arg(config)
        .arg("--set")
        .arg(format!("run.directory={}", run.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("the `oomph` binary, from `cargo build --release`");
    sleep(after);
    child.kill().expect("a child to kill");
    child.wait().expect("a child to wait for");
}

/// The binary beside this example's own folder.
fn oomph() -> PathBuf {
    let example = env::current_exe().expect("this program's path");
    example.parent().and_then(Path::parent).expect("target/release/examples").join("oomph")
}

/// Whether the kill left something half-written or half-removed: hidden entries that are not from a kill before.
fn was_writing(run: &Path, start: SystemTime) -> bool {
    let Ok(entries) = fs::read_dir(run.join(CheckpointStore::DIRECTORY)) else { return false };
    entries.flatten().any(|entry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        entry.file_name().to_string_lossy().starts_with('.') && modified.is_ok_and(|time| time >= start)
    })
}

/// The step of the checkpoint that `latest` points to, every file verified.
fn check(run: &Path) -> Result<usize, String> {
    let latest = run.join(CheckpointStore::DIRECTORY).join("latest");
    if latest.symlink_metadata().is_err() {
        // Killed before the first save was done: there must not be any complete checkpoint without the link.
        return Ok(0);
    }
    let state = Checkpoint::open(&latest).and_then(|checkpoint| checkpoint.state());
    state.map(|state| state.progress.step).map_err(|error| error.to_string())
}
