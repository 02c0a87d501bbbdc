//! Which checkpoint is the latest, which the best, and which are removed.

mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use oomph_runs::state::{Checkpoint, CheckpointStore, Which};
use support::{about, evaluated, names, state, store};

/// Points a link elsewhere, as a crash between a save and its links leaves it.
fn relink(directory: &Path, link: &str, target: &str) {
    let link = directory.join("checkpoints").join(link);
    fs::remove_file(&link).unwrap();
    symlink(target, link).unwrap();
}

fn linked(directory: &Path, link: &str) -> String {
    let target = fs::read_link(directory.join("checkpoints").join(link)).unwrap();
    target.to_str().unwrap().to_owned()
}

#[test]
fn links_that_a_crash_left_behind_are_moved_where_a_training_starts() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[]);
    for step in 1..=3 {
        // Each is the best when it is saved.
        store.save(evaluated(step, step), about(""), 3).unwrap();
    }
    relink(directory.path(), "best", "step-00000001");
    relink(directory.path(), "latest", "step-00000002");
    // Readers do not wait for the links.
    for which in [Which::Best, Which::Latest] {
        assert_eq!(store.get(which).unwrap().checkpoint.progress().step, 3);
    }
    assert_eq!(store.recover().unwrap(), Vec::<String>::new());
    for link in ["best", "latest"] {
        assert_eq!(linked(directory.path(), link), "step-00000003");
    }
}

#[test]
fn pruning_keeps_the_best_whatever_its_link_says() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[]);
    for step in 1..=3 {
        store.save(evaluated(step, 2.min(step)), about(""), 1).unwrap();
    }
    relink(directory.path(), "best", "step-00000003");
    store.save(evaluated(4, 2), about(""), 1).unwrap();
    assert_eq!(names(directory.path()), ["best", "latest", "step-00000002", "step-00000004"]);
    assert_eq!(linked(directory.path(), "best"), "step-00000002");
}

#[test]
fn pruning_goes_by_step_and_not_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1, 2, 3]);
    // As `touch -d tomorrow` or a copy leaves them: the oldest looks newest.
    for (step, hours) in [(1, 48), (2, 24)] {
        let path = directory.path().join(format!("checkpoints/step-{step:08}"));
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(hours * 3600);
        fs::File::open(path).unwrap().set_modified(later).unwrap();
    }
    store.save(state(4), about(""), 3).unwrap();
    let kept = ["latest", "step-00000002", "step-00000003", "step-00000004"];
    assert_eq!(names(directory.path()), kept);
}

#[test]
fn a_run_resumed_from_earlier_prunes_what_it_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[3, 9, 12]);
    store.save(state(4), about(""), 3).unwrap();
    assert_eq!(names(directory.path()), ["latest", "step-00000003", "step-00000004", "step-00000012"]);
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 4);
    store.save(state(5), about(""), 3).unwrap();
    assert_eq!(names(directory.path()), ["latest", "step-00000003", "step-00000004", "step-00000005"]);
}

#[test]
fn checkpoints_without_numbered_saves_go_by_their_links() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[3, 9, 12, 4]);
    for step in [3, 4, 9, 12] {
        let path = directory.path().join(format!("checkpoints/step-{step:08}/state.json"));
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let state = text.split_once("\"state\":").unwrap().1.strip_suffix('}').unwrap();
        let (start, rest) = state.split_once("\"save_number\":").unwrap();
        let state = format!("{start}{}", rest.split_once(',').unwrap().1);
        fs::write(&path, oomph_runs::parsers::sealed(state.as_bytes())).unwrap();
    }
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 4);
    fs::remove_file(directory.path().join("checkpoints/latest")).unwrap();
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 12);
}

#[test]
fn what_cannot_be_removed_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[2, 3]);
    let path = |name: &str| directory.path().join("checkpoints").join(name);
    fs::write(path("step-00000001"), "no checkpoint").unwrap();
    fs::write(path(".removing-step-00000000"), "a leftover that is a file").unwrap();
    fs::set_permissions(path("step-00000002"), fs::Permissions::from_mode(0o555)).unwrap();
    for step in [4, 5] {
        let saved = store.save(state(step), about(""), 1).unwrap();
        assert_eq!(
            saved.warnings,
            [format!("`{}` is read-only, so it is not removed", path("step-00000002").display())]
        );
    }
    assert_eq!(names(directory.path()), ["latest", "step-00000001", "step-00000002", "step-00000005"]);
    let warnings = store.recover().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("step-00000001` is named like a checkpoint, but is not a directory"));
    assert_eq!(store.newest().unwrap().unwrap().skipped.len(), 0);
    fs::set_permissions(path("step-00000002"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_link_that_cannot_be_moved_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1]);
    let latest = directory.path().join("checkpoints/latest");
    // As a copy leaves it that follows links.
    fs::remove_file(&latest).unwrap();
    fs::create_dir(&latest).unwrap();
    fs::write(latest.join("state.json"), "{}").unwrap();
    let saved = store.save(state(2), about(""), 3).unwrap();
    assert!(saved.warnings[0].contains("latest` does not point to `step-00000002`"), "{:?}", saved.warnings);
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 2);
}

#[test]
fn a_reader_keeps_a_checkpoint_that_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1]);
    let found = Checkpoint::find(&directory.path().join("checkpoints/latest")).unwrap();
    assert!(found.checkpoint.path().ends_with("step-00000001"), "the link is resolved");
    store.save(state(2), about(""), 1).unwrap();
    assert!(!found.checkpoint.path().exists());
    assert_eq!(found.checkpoint.state().unwrap(), state(1));
    assert_eq!(found.checkpoint.config().unwrap(), "train = { batch = 4 }\n");
}

#[test]
fn readers_beside_a_training_that_prunes_always_find_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[]);
    let run = directory.path();
    store.save(evaluated(1, 1), about(""), 1).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for step in 2..150 {
                store.save(evaluated(step, step), about(""), 1).unwrap();
            }
        });
        while !writer.is_finished() {
            let reader = CheckpointStore::at(run.join("checkpoints"));
            for found in [
                Checkpoint::find(run),
                Checkpoint::find(&run.join("checkpoints/latest")),
                reader.get(Which::Best),
            ] {
                let found = found.unwrap();
                assert_eq!(found.skipped.len(), 0, "{:?}", found.skipped);
                found.checkpoint.state().unwrap();
            }
        }
    });
}
