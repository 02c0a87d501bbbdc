//! The page of runs as training makes them, with hostile names, and in a browser. Without one its test reports a skip.

mod browser;
mod samples;

use std::{fs, path::PathBuf};

use oomph_run_page::write;
use oomph_runs::RunSummary;
use serde_json::Value;

fn written(runs: &[RunSummary]) -> String {
    let mut out = Vec::new();
    write(&samples::page(runs), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The path of a page for other programs.
fn file(name: &str, runs: &[RunSummary]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("run-page");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, written(runs)).unwrap();
    path
}

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_data_has_each_reading() {
    let runs = samples::three();
    let data = data(&written(&runs));
    for (index, run) in runs.iter().enumerate() {
        let training = &data["runs"][index]["training"];
        for (at, point) in run.curves.training.iter().enumerate() {
            assert_eq!(training["step"][at], point.step);
            assert_eq!(training["memory"][at], point.in_use_bytes.unwrap().get());
            let [loss, speed] = ["loss", "speed"].map(|column| training[column][at].as_f64().unwrap());
            assert!((loss - point.loss.unwrap()).abs() <= point.loss.unwrap() * 1e-5);
            assert!((speed - point.samples_per_second).abs() <= point.samples_per_second * 1e-5);
        }
        let evaluations = &data["runs"][index]["evaluations"];
        assert_eq!(evaluations["step"].as_array().unwrap().len(), run.curves.evaluations.len());
        assert_eq!(evaluations["accuracy"].as_array().unwrap().len(), run.curves.evaluations.len());
        assert!(evaluations["perplexity"].as_array().unwrap().iter().all(Value::is_null));
    }
}

#[test]
fn the_head_names_the_best_run_and_a_single_run_is_the_title() {
    let runs = samples::three();
    let page = written(&runs);
    assert!(page.contains("<h1>3 runs</h1>"));
    assert!(page.contains("<small>runs/resnet-adam</small>"), "{page}");
    assert!(written(&runs[..1]).contains("<h1>runs/resnet</h1>"));
}

#[test]
fn the_tables_have_the_results_and_the_keys_that_differ() {
    let page = written(&samples::three());
    let (_, tables) = page.split_once("id=\"results\"").unwrap();
    for text in ["2 keys differ", "optimizer.lr</th><td>0.1</td>", "<td class=\"unset\">not set</td>"] {
        assert!(tables.contains(text), "{text}");
    }
    assert!(tables.contains("the loss of step 401 is not finite") && tables.contains("3000 / 675"));
    assert!(!tables.contains("model.name"));
    assert!(!written(&samples::language()).contains("differing keys"));
    // More runs than columns: a row for each value.
    assert!(written(&samples::many()).contains("<th scope=\"col\">value</th><th scope=\"col\">runs</th>"));
}

#[test]
fn the_page_loads_nothing() {
    let page = written(&samples::three());
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "@import", "url(", " src=", "<link", "fetch(", "{{", "innerHTML"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn hostile_texts_stay_text() {
    let [plain, hostile] = [samples::three(), samples::hostile()].map(|runs| written(&runs));
    for tag in ["<script", "</script", "<img", "</title", "<b>", "<b "] {
        assert_eq!(hostile.matches(tag).count(), plain.matches(tag).count(), "{tag}");
    }
    // Only within the data, as a string of JSON.
    let (markup, _) = hostile.split_once("id=\"data\">").unwrap();
    assert!(!markup.contains('\u{202e}'));
}

#[test]
fn many_runs_are_a_small_file() {
    let page = written(&samples::many());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}
