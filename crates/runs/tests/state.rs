//! Checkpoints on disk: what they hold, what is skipped, what is refused.

mod support;

use std::{fs, path::Path};

use oomph_core::{Bytes, InputSpec, SampleSpec, TargetSpec};
use oomph_data::{
    Columns, DataDigest, ImageReader, SourceRecord,
    transform::{ImageShape, Statistics},
};
use oomph_engine::HostTensor;
use oomph_runs::{
    RunDirectory, RunError,
    state::{About, AverageState, Checkpoint, CheckpointStore, StateError, TrainState, Which},
};
use support::{about, evaluated, names, state, store};

/// Changes one byte in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_state_survives_to_the_bit() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[7]);
    let found = store.newest().unwrap().unwrap();
    assert!(found.skipped.is_empty());
    assert_eq!(found.checkpoint.state().unwrap(), state(7));
    assert_eq!(found.checkpoint.config().unwrap(), "train = { batch = 4 }\n");
}

#[test]
fn a_loss_scale_is_kept_and_a_checkpoint_without_one_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[7, 9]);
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.state().unwrap(), state(9));
    // As versions wrote it that knew of none.
    let without = Checkpoint::open(&directory.path().join("checkpoints/step-00000007")).unwrap();
    let text = fs::read_to_string(without.path().join("state.json")).unwrap();
    assert!(!text.contains("loss_scale"));
    assert_eq!(without.state().unwrap().loss_scale, None);
}

#[test]
fn the_last_three_and_the_best_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let store = CheckpointStore::at(directory.path().join("checkpoints"));
    for step in 1..=6 {
        store.save(evaluated(step, 2), about(""), 3).unwrap();
    }
    let kept = ["best", "latest", "step-00000002", "step-00000004", "step-00000005", "step-00000006"];
    assert_eq!(names(directory.path()), kept);
    let step_of = |path: &str| {
        Checkpoint::open(&directory.path().join("checkpoints").join(path)).unwrap().progress().step
    };
    assert_eq!((step_of("best"), step_of("latest")), (2, 6));
}

#[test]
fn a_step_saved_twice_keeps_both_and_the_later_is_the_latest() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[5, 9, 5]);
    assert_eq!(names(directory.path()), ["latest", "step-00000005", "step-00000005.2", "step-00000009"]);
    let found = store.newest().unwrap().unwrap();
    assert!(found.checkpoint.path().ends_with("step-00000005.2"));
}

#[test]
fn damage_anywhere_is_noticed_and_the_one_before_is_taken() {
    for file in ["model.safetensors", "optimizer.safetensors", "config.toml", "state.json"] {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), &[1, 2]);
        damage(&directory.path().join("checkpoints/step-00000002").join(file));
        let found = store.newest().unwrap().unwrap();
        assert_eq!(found.checkpoint.progress().step, 1, "{file}");
        assert_eq!(found.skipped.len(), 1, "{file}");
    }
}

#[test]
fn the_largest_tensor_of_a_state_may_be_in_any_part() {
    assert_eq!(state(1).largest_tensor(), Bytes::new(4 * 4));
    let mut averages = AverageState { model: state(1).model, updates: 1 };
    averages.model.insert("head".into(), HostTensor { shape: vec![9], values: vec![0.0; 9] });
    assert_eq!(TrainState { average: Some(averages), ..state(1) }.largest_tensor(), Bytes::new(9 * 4));
}

#[test]
fn a_reader_of_weights_reads_them_once_and_needs_no_optimizer() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), &[1, 2]);
    let newest = directory.path().join("checkpoints/step-00000002");
    damage(&newest.join("optimizer.safetensors"));
    let found = Checkpoint::find_weights(directory.path()).unwrap();
    assert_eq!((found.checkpoint.progress().step, found.skipped.len()), (2, 0));
    // What was read before the damage is not read again; the second call reads the file.
    damage(&newest.join("model.safetensors"));
    assert_eq!(found.checkpoint.weights().unwrap(), state(2).model);
    assert!(matches!(found.checkpoint.weights(), Err(StateError::Checksum { .. })));
    let found = Checkpoint::find_weights(directory.path()).unwrap();
    assert_eq!((found.checkpoint.progress().step, found.skipped.len()), (1, 1));
}

#[test]
fn weights_that_are_not_finite_are_refused_by_every_reader() {
    let directory = tempfile::tempdir().unwrap();
    let store = CheckpointStore::at(directory.path().join("checkpoints"));
    let mut state = state(7);
    // As a file whose checksum is right, which no training writes.
    state.model.get_mut("layer.weight").unwrap().values[2] = f32::NAN;
    store.save(state, about(""), 3).unwrap();
    let path = directory.path().join("checkpoints/step-00000007");
    let readings = [
        Checkpoint::open(&path).map(drop),
        Checkpoint::find(&path).map(drop),
        Checkpoint::find_weights(&path).map(drop),
    ];
    for reading in readings {
        let refused = reading.unwrap_err().to_string();
        assert!(refused.contains("layer.weight") && refused.contains("model.safetensors"), "{refused}");
    }
}

#[test]
fn of_averaged_weights_the_averages_are_read_and_the_raw_ones_on_demand() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[]);
    let averages = AverageState { model: state(7).model, updates: 1 };
    store.save(TrainState { average: Some(averages.clone()), ..state(1) }, about(""), 3).unwrap();
    let found = || Checkpoint::find_weights(directory.path()).unwrap().checkpoint;
    assert_eq!(found().weights().unwrap(), averages.model);
    assert_eq!(found().raw(true).weights().unwrap(), state(1).model);
}

#[test]
fn a_missing_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1]);
    fs::remove_file(directory.path().join("checkpoints/step-00000001/optimizer.safetensors")).unwrap();
    let error = store.newest().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("none of the 1 checkpoints in "), "{text}");
    assert!(text.ends_with("has no `optimizer.safetensors`"), "{text}");
}

#[test]
fn leftovers_of_a_crash_are_no_checkpoints_and_are_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1]);
    let leftover = directory.path().join("checkpoints/.writing-step-00000002");
    fs::create_dir(&leftover).unwrap();
    fs::write(leftover.join("model.safetensors"), "half").unwrap();
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 1);
    store.save(state(3), about(""), 3).unwrap();
    assert_eq!(names(directory.path()), ["latest", "step-00000001", "step-00000003"]);
}

#[test]
fn a_lost_or_dangling_link_falls_back_to_the_highest_step() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[1, 2]);
    let link = directory.path().join("checkpoints/latest");
    fs::remove_file(&link).unwrap();
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 2);
    std::os::unix::fs::symlink("step-00000099", &link).unwrap();
    assert_eq!(store.newest().unwrap().unwrap().checkpoint.progress().step, 2);
}

#[test]
fn another_format_version_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), &[1]);
    let path = directory.path().join("checkpoints/step-00000001/state.json");
    let text = fs::read_to_string(&path).unwrap();
    let raw = text.split_once("\"state\":").unwrap().1.strip_suffix('}').unwrap();
    let raw = raw.replace("\"format_version\":1", "\"format_version\":2");
    fs::write(&path, format!("{{\"sha256\":\"{}\",\"state\":{raw}}}", sha256(raw.as_bytes()))).unwrap();
    let error = Checkpoint::open(path.parent().unwrap()).unwrap_err();
    assert!(matches!(error, StateError::Version { found: 2, known: 1, .. }), "{error}");
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_path_without_a_checkpoint_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let error = Checkpoint::find(directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("is not a checkpoint, nor a run directory that has one"));
    assert!(error.hint().is_some());
}

#[test]
fn a_torn_line_of_metrics_is_cut_on_resume() {
    let directory = tempfile::tempdir().unwrap();
    let metrics = directory.path().join("metrics.jsonl");
    fs::write(&metrics, "{\"event\":\"started\"}\n{\"event\":\"st").unwrap();
    let run = RunDirectory::resume(directory.path()).unwrap();
    run.log(&serde_json::json!({ "event": "started" })).unwrap();
    let text = fs::read_to_string(&metrics).unwrap();
    assert_eq!(text, "{\"event\":\"started\"}\n{\"event\":\"started\"}\n");
}

#[test]
fn a_torn_line_longer_than_a_piece_is_cut_too() {
    for (whole, torn) in
        [("", 200_000), ("{}\n", 200_000), ("{}\n{}\n", 0), ("{}\n", 65_535), ("{}\n", 65_536)]
    {
        let directory = tempfile::tempdir().unwrap();
        let metrics = directory.path().join("metrics.jsonl");
        fs::write(&metrics, format!("{whole}{}", "x".repeat(torn))).unwrap();
        drop(RunDirectory::resume(directory.path()).unwrap());
        assert_eq!(fs::read_to_string(&metrics).unwrap(), whole, "{torn}");
    }
}

#[test]
fn a_run_directory_that_was_removed_or_replaced_takes_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let refused = |run: &RunDirectory| {
        let error = run.save(state(2), about(""), 3).unwrap_err();
        assert!(matches!(error, RunError::Removed { .. }), "{error}");
        assert!(run.log(&"event").is_err());
        error.to_string()
    };
    let run = RunDirectory::create(&path).unwrap();
    run.save(state(1), about(""), 3).unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert!(refused(&run).contains("run` was removed or moved while the training ran"));
    assert!(!path.exists());
    let other = RunDirectory::create(&path).unwrap();
    other.save(state(1), about(""), 3).unwrap();
    assert!(refused(&run).contains("run` was replaced while the training ran"));
    assert_eq!(names(&path), ["latest", "step-00000001"]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn any_state_json_is_read_or_refused_without_a_panic(text in ".{0,300}") {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("state.json"), text).unwrap();
        proptest::prop_assert!(Checkpoint::open(directory.path()).is_err());
    }
}

#[test]
fn a_checkpoint_is_found_by_name_or_step() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), &[]);
    assert!(matches!(store.get(Which::Latest), Err(StateError::NotACheckpoint { .. })));
    assert!(matches!(store.get(Which::Best), Err(StateError::NoBest { .. })));
    for step in [1, 2, 3] {
        store.save(evaluated(step, 2), about(""), 3).unwrap();
    }
    // Saved once more, by a run that was resumed from before.
    store.save(state(3), about("# again"), 9).unwrap();
    let found = |which| store.get(which).unwrap().checkpoint;
    assert_eq!(found(Which::Best).progress().step, 2);
    assert_eq!(found(Which::Step(1)).progress().step, 1);
    assert!(found(Which::Step(3)).path().ends_with("step-00000003.2"));
    assert!(found(Which::Latest).path().ends_with("step-00000003.2"));
    let error = store.get(Which::Step(7)).unwrap_err().to_string();
    assert!(error.ends_with("has no checkpoint of step 7; it has: 1, 2, 3"), "{error}");
}

#[test]
fn what_is_known_of_the_data_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = CheckpointStore::at(directory.path().join("checkpoints"));
    let input = InputSpec::Image { channels: 1, height: 2, width: 3 };
    let shape = ImageShape { channels: 1, height: 2, width: 3 };
    let statistics = Statistics { mean: vec![0.1 + 0.2], std: vec![1.0 / 3.0] };
    let source = SourceRecord {
        spec: SampleSpec { input, target: TargetSpec::Class { count: 2 } },
        class_names: Some(vec!["cat".to_owned(), "dog".to_owned()]),
        images: Some(ImageReader::new(shape, statistics.clone())),
        level: None,
        tokenizer: None,
        statistics: Some(statistics),
        columns: Some(Columns { inputs: vec!["a".to_owned()], targets: vec!["b".to_owned()] }),
        digest: Some(DataDigest { train_samples: 3, held_out_samples: 1, sha256: Some("ab".to_owned()) }),
    };
    let path = store.save(state(1), About { config: "", source: Some(&source) }, 3).unwrap().path;
    assert_eq!(Checkpoint::open(&path).unwrap().source().unwrap(), source);
    fs::write(path.join("source.json"), "{}").unwrap();
    assert!(matches!(Checkpoint::open(&path), Err(StateError::Checksum { .. })));
    let without = store.save(state(2), about(""), 3).unwrap().path;
    assert!(matches!(Checkpoint::open(&without).unwrap().source(), Err(StateError::NoSource { .. })));
}
