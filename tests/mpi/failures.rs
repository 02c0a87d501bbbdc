//! What becomes of all ranks when one of them fails.

use std::{
    fs,
    path::PathBuf,
    thread::sleep,
    time::{Duration, SystemTime},
};

use image::{Rgb, RgbImage};

use crate::{
    job::{Job, has_mpirun, run},
    support::{LSTM, Runs, State},
};

/// What the user may have to wait until a job that failed is over.
const LIMIT: Duration = Duration::from_secs(10);
/// Over some 100 steps sums in another order have grown to this.
const TOLERANCE: f64 = 1e-5;

/// A training that would go on for long and saves often, with more in its config.
fn config(runs: &Runs, more: &str) -> String {
    let long = "train.steps = 1000000\nrun.save_every = '5 steps'\nrun.log_every = 1\n";
    let path = runs.path("job.toml");
    fs::write(&path, runs.text("run", &format!("{long}{more}"))).unwrap();
    path.display().to_string()
}

/// Kills a rank at some moment after the first save, and goes on with each of so many ranks.
fn killed_and_resumed(rank: usize, wait: Duration, resumed: usize) {
    let runs = Runs::new(LSTM);
    let config = config(&runs, "");
    let mut job = Job::start(4, &runs.path(""), &["train", "--config", &config, "--json"]);
    job.wait_for("checkpoint");
    sleep(wait);
    job.signal_rank(rank, "-KILL");
    let answer = job.ends_within(LIMIT);
    assert_ne!(answer.code, Some(0), "{answer}");
    assert_eq!(answer.says(&format!("rank {rank} with PID")), 1, "{answer}");

    let found = oomph::runs::state::Checkpoint::find(&runs.path("run")).unwrap().checkpoint;
    let steps = found.progress().step + 20;
    let length = format!("train.steps={steps}");
    let path = runs.path("run").display().to_string();
    let arguments = ["train", "--resume", &path, "--set", &length, "--json"];
    let answer = run(resumed, &runs.path(""), &arguments).success();
    assert_eq!(answer.events("started")[0]["first_step"], steps - 20, "{answer}");
    let alone = runs.trained("alone", steps, "");
    State::of(&runs.path("run")).check(&alone, TOLERANCE, &format!("killed, and resumed by {resumed} ranks"));
}

#[test]
fn a_killed_rank_ends_the_job_and_its_last_checkpoint_goes_on() {
    if !has_mpirun() {
        return;
    }
    for (rank, milliseconds, resumed) in [(2, 20, 4), (0, 170, 2), (3, 330, 4)] {
        killed_and_resumed(rank, Duration::from_millis(milliseconds), resumed);
    }
}

#[test]
#[ignore = "takes minutes"]
fn ranks_are_killed_at_ten_moments() {
    if !has_mpirun() {
        return;
    }
    for kill in 0..10 {
        let random = SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_micros() % 1000;
        killed_and_resumed(kill % 4, Duration::from_millis(u64::from(random)), 4 - 2 * (kill % 2));
    }
}

#[test]
fn a_rank_that_hangs_is_named_once_and_ends_the_job() {
    if !has_mpirun() {
        return;
    }
    for rank in [3, 0] {
        let runs = Runs::new(LSTM);
        let config = config(&runs, "device.timeout = 2\n");
        let mut job = Job::start(4, &runs.path(""), &["train", "--config", &config, "--json"]);
        job.wait_for("checkpoint");
        job.signal_rank(rank, "-STOP");
        let answer = job.ends_within(LIMIT);
        assert_eq!(answer.code, Some(1), "{answer}");
        assert_eq!(answer.says("did not join"), 1, "{answer}");
        // Rank 0 tells of another; of rank 0 it is rank 1 that does.
        let head = if rank == 0 { "caused by: rank 0 on `" } else { "error: rank 3 on `" };
        assert_eq!(answer.says(head), 1, "{answer}");
        assert_eq!(answer.says("error: "), 1, "{answer}");
        assert_eq!(answer.says("device.timeout"), 1, "{answer}");
    }
}

#[test]
fn a_rank_that_fails_says_why_and_ends_the_job() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new("");
    let image = |path: PathBuf, shade: u8| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        RgbImage::from_pixel(8, 8, Rgb([shade; 3])).save(path).unwrap();
    };
    for index in 0..8 {
        for (split, class) in [("train", "cat"), ("train", "dog"), ("test", "cat"), ("test", "dog")] {
            image(runs.path(&format!("photos/{split}/{class}/{index}.png")), index * 30);
        }
    }
    let config = runs.path("job.toml");
    let text = "model = { name = 'lstm', hidden = 4 }
        data = { source = 'folder', path = 'photos', mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 0.5], workers = 0 }
        train = { epochs = 1, batch = 4 }
        run.directory = 'run'";
    fs::write(&config, text).unwrap();
    let arguments = ["train", "--config", "job.toml"];
    run(4, &runs.path(""), &arguments).success();
    fs::remove_dir_all(runs.path("run")).unwrap();

    // One of the four ranks has it in its part of a batch.
    fs::write(runs.path("photos/train/dog/3.png"), b"no image").unwrap();
    let answer = Job::start(4, &runs.path(""), &arguments).ends_within(LIMIT);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.says("3.png") >= 1, "{answer}");
    assert!(answer.says("error: rank ") >= 1 || answer.says("error: ") == 1, "{answer}");
}

#[test]
fn what_is_wrong_for_all_is_said_once() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new(LSTM);
    let config = config(&runs, "");
    let train = |more: &[&str]| {
        let arguments = [&["train", "--config", &config], more].concat();
        let answer = run(4, &runs.path(""), &arguments);
        assert!(!runs.path("run").exists(), "{answer}");
        answer
    };
    for (more, says) in [
        (&["--set", "train.batch=0"][..], "train.batch"),
        (&["--set", "train.batch=3"], "at least 4 samples, one for each rank"),
        (&["--set", "model.layers=many"], "model.layers"),
        (&["--set", "memory.on_oom=adapt"], "memory.on_oom"),
        (&["--devices", "cpu,cpu"], "expected 4 devices, one for each rank of a machine"),
        (&["--devices", "cpu,cpu", "--strategy", "pipeline"], "expected `auto` or `ddp`"),
        (&["--resume", "nothing-there"], "nothing-there"),
        (&["--devices", "cuda:0,cuda:1,cuda:2,cuda:3"], "cuda:"),
        // What only rank 0 comes to.
        (&["--memory-limit", "1MiB"], "does not fit"),
    ] {
        let answer = train(more);
        assert_ne!(answer.code, Some(0), "{answer}");
        assert_eq!(answer.says("error:"), 1, "{answer}");
        assert!(answer.says(says) >= 1, "{answer}");
        assert!(answer.stdout.is_empty(), "{answer}");
    }
    let answer = train(&["--learn"]);
    assert_eq!((answer.code, answer.says("unexpected argument")), (Some(2), 1), "{answer}");
    let answer = run(3, &runs.path(""), &["plan"]);
    assert_eq!((answer.code, answer.says("only `oomph train`")), (Some(1), 1), "{answer}");
}

#[test]
fn a_rank_that_is_configured_differently_is_refused() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new(LSTM);
    let config = config(&runs, "");
    let one = [env!("CARGO_BIN_EXE_oomph"), "train", "--config", &config];
    let arguments = [&["-n", "2"][..], &one, &[":", "-n", "1"], &one, &["--set", "train.batch=24"]].concat();
    let answer = Job::launch(&runs.path(""), &arguments).ends_within(LIMIT);
    assert_eq!(answer.says("it has `train.batch = 24` where rank 0 has `train.batch = 20`"), 1, "{answer}");
    assert_eq!((answer.code, answer.says("error: rank 2 on `")), (Some(1), 1), "{answer}");
}

#[test]
fn a_rank_with_other_data_is_refused() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new("");
    // Each rank finds the file of its own machine.
    for (machine, last) in [("a", 0.5), ("b", 0.25)] {
        fs::create_dir(runs.path(machine)).unwrap();
        let rows: String = (0..40).map(|row| format!("{},{}\n", row % 7, row % 5)).collect();
        fs::write(runs.path(&format!("{machine}/x.csv")), format!("x,y\n{rows}1,{last}\n")).unwrap();
    }
    let config = runs.path("job.toml");
    let text = format!(
        "model = {{ name = 'lstm', hidden = 4 }}
        data = {{ source = 'csv', path = 'x.csv', steps = 4, held_out = 0.5, workers = 0 }}
        train = {{ steps = 20, batch = 4 }}
        run.directory = '{}'",
        runs.path("run").display()
    );
    fs::write(&config, text).unwrap();
    let (a, b, config) = (runs.path("a"), runs.path("b"), config.display().to_string());
    let (a, b) = (a.display().to_string(), b.display().to_string());
    let one = [env!("CARGO_BIN_EXE_oomph"), "train", "--config", &config];
    let same = [&["-n", "3", "--wdir", &a][..], &one].concat();
    let answer = Job::launch(&runs.path(""), &same).ends_within(LIMIT);
    assert_eq!(answer.code, Some(0), "{answer}");
    fs::remove_dir_all(runs.path("run")).unwrap();
    let other = [&["-n", "2", "--wdir", &a][..], &one, &[":", "-n", "1", "--wdir", &b], &one].concat();
    let answer = Job::launch(&runs.path(""), &other).ends_within(LIMIT);
    assert_eq!((answer.code, answer.says("error: rank 2 on `")), (Some(1), 1), "{answer}");
    assert_eq!(answer.says("this rank has data of "), 1, "{answer}");
    assert!(!runs.path("run").exists(), "nothing was begun");
}

#[test]
fn a_rank_that_hangs_before_it_joins_ends_the_job() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new(LSTM);
    let config = config(&runs, "device.timeout = 2\n");
    let hangs = format!(
        "[ \"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\" = 1 ] && kill -STOP $$; exec {} train --config {config}",
        env!("CARGO_BIN_EXE_oomph")
    );
    let answer = Job::launch(&runs.path(""), &["-n", "3", "sh", "-c", &hangs]).ends_within(2 * LIMIT);
    assert_ne!(answer.code, Some(0), "{answer}");
    assert!(answer.says("MPI did not start all ranks within 2s") >= 1, "{answer}");
}

#[test]
fn rank_0_alone_prints_and_writes() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new(LSTM);
    let config = config(&runs, "");
    let arguments = ["train", "--config", &config, "--set", "train.steps=12"];
    let answer = run(4, &runs.path(""), &[&arguments[..], &["--json"]].concat()).success();
    assert_eq!((answer.events("started").len(), answer.events("done").len()), (1, 1), "{answer}");
    assert_eq!(answer.events("step").len(), 12, "{answer}");
    assert_eq!(answer.stderr, "", "{answer}");
    fs::remove_dir_all(runs.path("run")).unwrap();
    let answer = run(2, &runs.path(""), &arguments).success();
    assert_eq!((answer.says("step 12/12"), answer.says("planned peak")), (1, 1), "{answer}");
}

#[test]
fn sigterm_saves_and_ends_all_ranks() {
    if !has_mpirun() {
        return;
    }
    // Slurm sends it to all. An evaluation looks whether any rank was asked.
    for asked in [&[0, 1, 2, 3][..], &[2]] {
        let runs = Runs::new(LSTM);
        let config = config(&runs, "");
        let arguments = ["train", "--config", &config, "--json", "--set", "run.save_every=never"];
        let mut job = Job::start(4, &runs.path(""), &arguments);
        job.wait_for("step");
        asked.iter().for_each(|rank| job.signal_rank(*rank, "-TERM"));
        let done = job.wait_for("done");
        assert_eq!(done["ended"], "terminated");
        let answer = job.ends_within(LIMIT);
        assert_eq!((answer.code, answer.says("error:")), (Some(143), 0), "{answer}");
        let found = oomph::runs::state::Checkpoint::find(&runs.path("run")).unwrap().checkpoint;
        assert_eq!(done["step"], found.progress().step);
    }
}
