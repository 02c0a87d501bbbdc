//! Scores beside those of scikit-learn, and beside hand calculations.

use oomph_core::TargetSpec;
use oomph_data::Targets;
use oomph_engine::ranks::Replicas;
use oomph_scores::{Averages, ClassScore, ClassScores, Scores};
use serde_json::Value;

fn classified(classes: usize, outputs: &[f32], truth: &[i64]) -> ClassScores {
    let mut scores = Scores::of(&TargetSpec::Class { count: classes }).expect("scores");
    // In two batches, and by way of the sums of ranks.
    let half = truth.len() / 2;
    scores.add(&outputs[..half * classes], &Targets::Classes(truth[..half].to_vec()));
    scores.add(&outputs[half * classes..], &Targets::Classes(truth[half..].to_vec()));
    let sums = scores.sums();
    match scores.with_sums(&sums) {
        Scores::Classes(scores) => scores,
        _ => unreachable!(),
    }
}

/// The metrics that `tools/golden/scores.py` wrote.
fn golden() -> Value {
    serde_json::from_str(include_str!("golden/scores.json")).expect("JSON")
}

fn floats(value: &Value) -> Vec<f32> {
    let rows = value.as_array().expect("rows").iter();
    rows.flat_map(|row| row.as_array().expect("a row"))
        .map(|it| it.as_f64().expect("a number") as f32)
        .collect()
}

fn close(name: &Value, here: f64, there: &Value) {
    let there = there.as_f64().expect("a number");
    assert!((here - there).abs() < 1e-12, "{name}: {here} instead of {there}");
}

#[test]
fn scores_equal_those_of_scikit_learn() {
    let golden = golden();
    for case in golden["classes"].as_array().expect("cases") {
        let name = &case["name"];
        let truth: Vec<_> =
            case["truth"].as_array().expect("truth").iter().filter_map(Value::as_i64).collect();
        let count = case["classes"].as_u64().expect("a number") as usize;
        let scores = classified(count, &floats(&case["outputs"]), &truth);
        close(name, scores.accuracy(), &case["accuracy"]);
        close(name, scores.accuracy(), &case["micro"]);
        assert_eq!(scores.top_5().is_some(), !case["top_5"].is_null());
        scores.top_5().iter().for_each(|top_5| close(name, *top_5, &case["top_5"]));
        let Averages { precision, recall, f1 } = scores.averages();
        [precision, recall, f1]
            .iter()
            .enumerate()
            .for_each(|(it, here)| close(name, *here, &case["macro"][it]));
        for (class, score) in scores.of_classes().into_iter().enumerate() {
            let there = &case["each"][class];
            let here = [score.precision, score.recall, score.f1, score.samples as f64];
            here.iter().enumerate().for_each(|(it, here)| close(name, *here, &there[it]));
            for predicted in 0..count {
                assert_eq!(
                    Some(scores.count(class, predicted)),
                    case["confusion"][class][predicted].as_u64()
                );
            }
        }
    }
    for case in golden["values"].as_array().expect("cases") {
        let features = case["features"].as_u64().expect("a number") as usize;
        let mut scores = Scores::of(&TargetSpec::Values { features }).expect("scores");
        scores.add(&floats(&case["outputs"]), &Targets::Values { data: floats(&case["targets"]), features });
        let Scores::Values(scores) = scores else { unreachable!() };
        close(&case["name"], scores.mae(), &case["mae"]);
        close(&case["name"], scores.rmse(), &case["rmse"]);
        close(&case["name"], scores.r2(), &case["r2"]);
    }
}

#[test]
fn scores_of_labels_equal_those_of_scikit_learn() {
    let golden = golden();
    for case in golden["labels"].as_array().expect("cases") {
        let name = &case["name"];
        let (outputs, data) = (floats(&case["outputs"]), floats(&case["truth"]));
        let count = case["labels"].as_u64().expect("a number") as usize;
        let mut scores = Scores::of(&TargetSpec::Labels { count }).expect("scores");
        // In two batches, and by way of the sums of ranks.
        let (half, targets) =
            (data.len() / count / 2 * count, |data: &[f32]| Targets::Labels { data: data.to_vec(), count });
        scores.add(&outputs[..half], &targets(&data[..half]));
        scores.add(&outputs[half..], &targets(&data[half..]));
        let sums = scores.sums();
        let scores = scores.with_sums(&sums).ranked(&Replicas::alone()).expect("no other rank");
        let Scores::Labels(scores) = scores else { unreachable!() };
        close(name, scores.label_accuracy(), &case["label_accuracy"]);
        close(name, scores.mean_average_precision().expect("samples"), &case["map"]);
        for (averages, key) in [(scores.micro(), "micro"), (scores.averages(), "macro")] {
            let here = [averages.precision, averages.recall, averages.f1];
            here.iter().enumerate().for_each(|(it, here)| close(name, *here, &case[key][it]));
        }
        for (label, score) in scores.of_labels().into_iter().enumerate() {
            let here = [score.precision, score.recall, score.f1];
            here.iter().enumerate().for_each(|(it, here)| close(name, *here, &case["each"][label][it]));
            let there = &case["average_precision"][label];
            assert_eq!(score.average_precision.is_none(), there.is_null());
            score.average_precision.iter().for_each(|here| close(name, *here, there));
            let counts = [score.true_positives, score.false_positives, score.false_negatives];
            assert_eq!(serde_json::json!(counts), case["counts"][label]);
        }
    }
}

#[test]
fn counts_are_those_of_a_hand_calculation() {
    // Predictions 0 0 1 2 2 0, and the truth 0 1 1 2 1 0.
    let outputs = [
        [2.0, 1.0, 0.0],
        [2.0, 1.0, 0.0],
        [0.0, 3.0, 1.0],
        [0.0, 1.0, 2.0],
        [0.0, 1.0, 2.0],
        [1.0, 1.0, 0.0],
    ];
    let scores = classified(3, outputs.as_flattened(), &[0, 1, 1, 2, 1, 0]);
    let row = |truth| [0, 1, 2].map(|predicted| scores.count(truth, predicted));
    assert_eq!([row(0), row(1), row(2)], [[2, 0, 0], [1, 1, 1], [0, 0, 1]]);
    assert_eq!((scores.accuracy(), scores.top_5()), (4.0 / 6.0, None));
    let [zero, one, two] = scores.of_classes().try_into().expect("three classes");
    assert_eq!([zero.precision, zero.recall, zero.f1], [2.0 / 3.0, 1.0, 4.0 / 5.0]);
    assert_eq!([one.precision, one.recall, one.f1], [1.0, 1.0 / 3.0, 0.5]);
    assert_eq!([two.precision, two.recall, two.f1], [0.5, 1.0, 2.0 / 3.0]);
    let averages = scores.averages();
    assert!((averages.f1 - (0.8 + 0.5 + 2.0 / 3.0) / 3.0).abs() < 1e-15);
}

#[test]
fn a_class_without_samples_and_predictions_counts_for_no_average() {
    let scores = classified(4, &[9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0], &[0, 0]);
    assert_eq!(scores.averages(), Averages { precision: 1.0, recall: 1.0, f1: 1.0 });
    assert_eq!(scores.of_classes()[3], ClassScore { samples: 0, precision: 0.0, recall: 0.0, f1: 0.0 });
}

#[test]
fn the_top_five_have_ties_in_order() {
    let logits = [5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 0.0];
    let top = |truth| classified(7, &logits, &[truth]).top_5();
    assert_eq!([top(3), top(4), top(5), top(6)], [Some(1.0), Some(1.0), Some(0.0), Some(0.0)]);
    // The first of equal logits is the prediction.
    let tied = classified(6, &[0.0, 7.0, 7.0, 0.0, 0.0, 0.0], &[2]);
    assert_eq!((tied.count(2, 1), tied.accuracy(), tied.top_5()), (1, 0.0, Some(1.0)));
}

#[test]
fn outputs_that_are_no_scores_are_left_out() {
    let scores = classified(3, &[f32::NAN, 1.0, 0.0, 0.0, 1.0, f32::NAN], &[0, 2]);
    assert_eq!(scores.accuracy(), 1.0, "NaN is the largest in the total order");
    let mut scores = Scores::of(&TargetSpec::Class { count: 3 }).expect("scores");
    scores.add(&[1.0, 2.0], &Targets::Classes(vec![0]));
    scores.add(&[1.0, 2.0, 3.0], &Targets::Values { data: vec![1.0], features: 1 });
    assert_eq!(scores, Scores::of(&TargetSpec::Class { count: 3 }).expect("scores"));
    assert_eq!(Scores::of(&TargetSpec::Class { count: 5000 }), None);
}

#[test]
fn errors_are_those_of_a_hand_calculation() {
    let mut scores = Scores::of(&TargetSpec::Values { features: 2 }).expect("scores");
    let targets = Targets::Values { data: vec![1.0, 10.0, 2.0, 10.0, 3.0, 10.0], features: 2 };
    scores.add(&[1.5, 10.0, 2.0, 10.0, 2.0, 10.0], &targets);
    let sums = scores.sums();
    let Scores::Values(scores) = scores.with_sums(&sums) else { unreachable!() };
    assert_eq!(scores.mae(), 1.5 / 6.0);
    assert_eq!(scores.rmse(), (1.25f64 / 6.0).sqrt());
    // 1 − 1.25/2 for the first, and all outputs are right for the second, whose targets are equal.
    assert_eq!(scores.r2(), (0.375 + 1.0) / 2.0);
}
