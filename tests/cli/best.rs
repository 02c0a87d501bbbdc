//! `train.best`: the measure of the best evaluation.

use serde_json::Value;

use crate::support::Folder;

/// Evaluations of a training with these settings, and its last event.
fn trained(settings: &[&str]) -> (Vec<Value>, Value) {
    let folder = Folder::new();
    let set = settings.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<_> = ["--json", "--set", "train.eval_every=2 steps"].into_iter().chain(set).collect();
    let events = folder.train(&arguments).success().json_lines();
    let done = events.last().cloned().expect("the end");
    (events.into_iter().filter(|event| event["event"] == "eval").collect(), done)
}

#[test]
fn the_best_evaluation_is_that_of_the_best_measure() {
    for (name, key, is_maximized) in [
        ("eval loss", "eval_loss", false),
        ("eval accuracy", "eval_accuracy", true),
        ("top-5 accuracy", "eval_top_5_accuracy", true),
        ("macro f1", "eval_macro_f1", true),
    ] {
        let best = format!("train.best={name}");
        let (evaluations, done) = trained(&[&best, "train.steps=40", "optimizer.lr=0.5"]);
        assert_eq!(evaluations.len(), 20);
        let mut so_far: Option<f64> = None;
        for evaluation in &evaluations {
            let value = evaluation[key].as_f64().expect(key);
            let is_better = so_far.is_none_or(|best| if is_maximized { value > best } else { value < best });
            assert_eq!(evaluation["best"], is_better, "{name}: {evaluation}");
            so_far = if is_better { Some(value) } else { so_far };
        }
        assert_eq!((done["best_metric"].as_str(), done["best_value"].as_f64()), (Some(name), so_far));
    }
}

#[test]
fn early_stopping_goes_by_the_best_measure() {
    // No evaluation gains as much as all there is.
    let settings = ["train.best=eval accuracy", "train.patience=2", "train.min_delta=1", "train.steps=20"];
    let (evaluations, done) = trained(&settings);
    assert_eq!((evaluations.len(), done["ended"].as_str()), (3, Some("early_stopping")));
    assert_eq!(done["best_step"], 2);
}

#[test]
fn a_measure_that_the_task_does_not_offer_is_refused_with_those_it_offers() {
    let folder = Folder::new();
    let answer = folder.train(&["--set", "train.best=r2"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    for offered in ["`eval loss`", "`eval accuracy`", "`top-5 accuracy`", "`macro f1`"] {
        assert!(answer.stderr.contains(offered), "{answer}");
    }
    assert!(!answer.stderr.contains("`perplexity`") && !answer.stderr.contains("`mae`"), "{answer}");
    assert!(!folder.at("run").exists(), "nothing was begun");
    let answer = folder.train(&["--set", "train.best=acuracy"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("train.best"), "{answer}");
}

#[test]
fn a_resumed_run_keeps_its_best_and_finds_it_anew_by_another_measure() {
    let folder = Folder::new();
    let set = ["--json", "--set", "train.eval_every=1 steps", "--set", "train.best=eval accuracy"];
    let first = folder.train(&[&set[..], &["--set", "train.steps=3"]].concat()).success().last_json();
    let resumed = folder.train(&[&set[..], &["--set", "train.steps=3", "--resume"]].concat());
    let resumed = resumed.success().last_json();
    assert_eq!((&resumed["best_value"], &resumed["best_step"]), (&first["best_value"], &first["best_step"]));
    let other = ["--set", "train.best=eval loss", "--set", "train.steps=4", "--resume"];
    let other = folder.train(&[&set[..3], &other].concat()).success().last_json();
    assert_eq!((other["best_metric"].as_str(), other["best_step"].as_u64()), (Some("eval loss"), Some(4)));
}
