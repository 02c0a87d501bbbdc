//! Limits of the process (`ulimit`): errors with a name instead of signals and panics.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use crate::support::{Answer, Folder};

/// Runs the binary below `ulimit LIMIT`. `before` starts the shell.
fn limited(folder: &Folder, before: &[&str], limit: &str, arguments: &[&str]) -> Answer {
    let oomph = folder.command(arguments);
    let shell = [before, &["bash", "-c"]].concat();
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .arg(format!("ulimit {limit} && exec \"$0\" \"$@\""))
        .arg(oomph.get_program())
        .args(oomph.get_args())
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.at("cache"))
        .stdin(Stdio::null())
        .output()
        .expect("the shell starts");
    Answer::new(&output, folder)
}

fn names(folder: &Folder, path: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.at(path)).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The file-size limit in KiB: above the log and below the weights of 32 units.
const FILE_SIZE: &str = "-f 8";

#[test]
fn a_checkpoint_above_the_limit_of_file_sizes_is_an_error() {
    let folder = Folder::new();
    let train = ["train", "--config", "tiny.toml", "--set", "model.hidden=32"];
    let answer = limited(&folder, &[], FILE_SIZE, &train);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(
        answer.stderr.contains("model.safetensors`\n  caused by: File too large (os error 27)"),
        "{answer}"
    );
    assert!(answer.stderr.contains("hint: raise the limit: `ulimit -f unlimited`"), "{answer}");
    assert_eq!(names(&folder, "run/checkpoints"), [""; 0]);
}

#[test]
fn an_export_above_the_limit_of_file_sizes_leaves_nothing() {
    let folder = Folder::new();
    folder.train(&["--set", "model.hidden=32"]).success();
    let before = names(&folder, ".");
    let answer = limited(&folder, &[], FILE_SIZE, &["export", "run", "--to", "w.safetensors"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("cannot write `w.safetensors`\n  caused by: File too large"), "{answer}");
    assert_eq!(names(&folder, "."), before);
}

#[test]
fn a_limit_of_addresses_is_a_memory_limit() {
    let folder = Folder::new();
    let train = ["train", "--config", "tiny.toml", "--set", "model.hidden=4096"];
    for more in [&[][..], &["--memory-limit", "20GiB"]] {
        let answer = limited(&folder, &[], "-v 700000", &[&train[..], more].concat());
        assert_eq!(answer.code, Some(75), "{answer}");
        assert!(answer.stderr.contains("above the limit of"), "{answer}");
        assert!(answer.stderr.contains("hint:"), "{answer}");
    }
    let doctor = limited(&folder, &[], "-v 4000000", &["doctor", "--devices", "cpu"]);
    assert!(doctor.stdout.contains("a training on the CPU ends before it"), "{doctor}");
}

#[test]
fn a_limit_near_what_the_program_needs_to_start_is_a_clear_error() {
    let folder = Folder::new();
    // In KiB: from below what its libraries take to beyond what the program asks for.
    let below =
        |limit: u32| limited(&folder, &[], &format!("-v {limit}"), &["train", "--config", "tiny.toml"]);
    let answers = (20_000..140_000).step_by(2_000).map(below);
    // Below the first of our answers the loader or Rust's runtime ends the process, before its `main`.
    let answers: Vec<_> = answers.skip_while(|answer| answer.code != Some(75)).collect();
    let (to_start, later): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.stderr.contains("oomph needs 32 MiB to start"));
    assert!(to_start.len() > 5 && later.len() > 3, "{} of {}", to_start.len(), answers.len());
    for answer in answers {
        // 1 on a machine of many cores, whose threads take more than that.
        assert!(matches!(answer.code, Some(1 | 75)), "{answer}");
        assert!(answer.stderr.contains("\n\nhint: "), "{answer}");
    }
}

#[test]
fn memory_that_the_system_refuses_is_an_error() {
    let folder = Folder::new();
    folder.train(&["--steps", "1"]).success();
    fs::File::create(folder.at("large.png"))
        .and_then(|file| file.set_len(200 << 20))
        .expect("the folder is ours");
    // Reading the file asks for 128 MiB at once.
    let answer = limited(&folder, &[], "-v 110000", &["predict", "run", "large.png"]);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("error: out of memory: the system refused an allocation of "), "{answer}");
    assert!(answer.stderr.contains("hint: raise the limit of memory (`ulimit -v`"), "{answer}");
}

#[test]
fn a_system_without_threads_is_no_bug() {
    let folder = Folder::new();
    // The limit does not apply to root.
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let user: &[&str] = if is_root { &["setpriv", "--reuid=65534", "--clear-groups"] } else { &[] };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    let answer = limited(&folder, user, "-u 1", &["train", "--config", "tiny.toml"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(!answer.stderr.contains("internal error"), "{answer}");
    assert!(answer.stderr.contains("`ulimit -u`"), "{answer}");
}
