use serde_json::Value;

use crate::{
    malformed::damage,
    photos::{cats_and_dogs, jpeg},
    support::{Folder, snapshot, without_numbers},
};

fn last_evaluation(events: &[Value]) -> &Value {
    events.iter().rfind(|event| event["event"] == "eval").expect("an evaluation")
}

#[test]
fn it_finds_what_training_found_last() {
    let folder = Folder::new();
    let events = folder.train(&["--json"]).success().json_lines();
    let last = last_evaluation(&events);
    for arguments in [
        &["evaluate", "--checkpoint", "run", "--json"][..],
        &["evaluate", "--checkpoint", "run/checkpoints/latest", "--json"],
        &["evaluate", "--config", "tiny.toml", "--json"],
    ] {
        let evaluated = folder.oomph(arguments).success().last_json();
        assert_eq!(evaluated["event"], "done");
        assert_eq!(evaluated["step"], 6);
        assert_eq!(evaluated["eval_loss"], last["eval_loss"]);
        assert_eq!(evaluated["eval_accuracy"], last["eval_accuracy"]);
        assert_eq!(evaluated["samples"], 359);
    }
}

#[test]
fn it_reports_in_a_table() {
    let folder = Folder::new();
    folder.train(&[]).success();
    let answer = folder.oomph(&["evaluate", "--checkpoint", "run"]).success();
    // The widths of the tables depend on the counts, and these on the machine.
    let (rows, tables) = answer.stdout.split_once("\n\n").expect("tables below the rows");
    snapshot("evaluate", &without_numbers(rows));
    assert!(tables.starts_with("class  samples  precision"), "{tables}");
}

#[test]
fn it_passes_over_a_damaged_checkpoint_with_a_warning() {
    let folder = Folder::new();
    folder.train(&["--set", "run.save_every='3 steps'"]).success();
    damage(&folder, "run/checkpoints/step-00000006/model.safetensors");
    let answer = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success();
    let events = answer.json_lines();
    assert_eq!((&events[0]["event"], &events[1]["step"]), (&"warning".into(), &3.into()), "{answer}");
}

#[test]
fn unreadable_photos_are_counted_and_cannot_be_all() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    folder.write("photos/test/cat/5.jpg", &jpeg(1)[..100]);
    folder.oomph(&["train", "--config", "photos.toml", "--set", "data.on_corrupt=skip"]).success();
    let evaluated = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success().last_json();
    assert_eq!((&evaluated["samples"], &evaluated["skipped"]), (&2.into(), &1.into()));
    for photo in ["cat/4", "dog/4"] {
        folder.write(&format!("photos/test/{photo}.jpg"), "");
    }
    let answer = folder.oomph(&["evaluate", "--checkpoint", "run"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(
        answer.stderr,
        "error: none of the 3 held-out samples can be read, so there is nothing to evaluate\n"
    );
}
