//! Kills a training again and again while it saves. After each kill the checkpoint `latest` must be readable. 200 kills
//! take two minutes.
//!
//! ```text
//! cargo xtask kill-saves 200
//! ```
//!
//! The run saves after every step, so that saving takes most of its time. The tool prints how many kills hit a save:
//! those that left a file or folder half-written.

use std::{
    fs, io,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, SystemTime},
};

use oomph_core::{Generator, Key};
use oomph_runs::state::{Checkpoint, CheckpointStore};

use crate::{Outcome, program};

const CONFIG: &str = "
    model = { name = 'resnet18', stem = 'small', width = 32 }
    data = { source = 'digits', workers = 0 }
    train = { steps = 1000000, batch = 2, eval_every = 'never' }
    optimizer = { name = 'adam' }
    run = { save_every = '1 steps', keep_last = 2 }
";

/// Runs the tool.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let kills = arguments.first().map_or(Ok(200), |text| text.parse())?;
    let oomph = program::oomph()?;
    let directory = tempfile::tempdir()?;
    let (config, run) = (directory.path().join("kill.toml"), directory.path().join("run"));
    fs::write(&config, CONFIG)?;
    let mut generator = Generator::at(Key::new(1));
    let (mut during, mut unreadable) = (0, 0);
    for kill in 1..=kills {
        let start = SystemTime::now();
        let after = Duration::from_secs_f32(generator.uniform_in(0.15, 0.6));
        train_and_kill(&oomph, &config, &run, after)?;
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
    Ok(if unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn train_and_kill(oomph: &Path, config: &Path, run: &Path, after: Duration) -> io::Result<()> {
    let mut child = Command::new(oomph)
        .args(["train", "--quiet", "--resume", "--config"])
        .arg(config)
        .arg("--set")
        .arg(format!("run.directory={}", run.display()))
        .stderr(Stdio::null())
        .spawn()?;
    sleep(after);
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Whether the kill left something half-written or half-removed: hidden entries newer than `start`.
fn was_writing(run: &Path, start: SystemTime) -> bool {
    let Ok(entries) = fs::read_dir(run.join(CheckpointStore::DIRECTORY)) else { return false };
    entries.flatten().any(|entry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        entry.file_name().to_string_lossy().starts_with('.') && modified.is_ok_and(|time| time >= start)
    })
}

/// The step of the checkpoint `latest`, whose files are all verified; 0 without one.
fn check(run: &Path) -> Result<usize, String> {
    let latest = run.join(CheckpointStore::DIRECTORY).join("latest");
    if latest.symlink_metadata().is_err() {
        // The kill came before the end of the first save.
        return Ok(0);
    }
    let state = Checkpoint::open(&latest).and_then(|checkpoint| checkpoint.state());
    state.map(|state| state.progress.step).map_err(|error| error.to_string())
}
