//! The page of studies as large as real ones, with hostile names, and in a browser. Without one its test reports a skip.

mod browser;
mod samples;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use oomph_tune_page::{StudyPage, TrialStatus, write};
use serde_json::Value;

fn written(study: &StudyPage) -> String {
    let mut out = Vec::new();
    write(study, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The path of a page for other programs.
fn file(name: &str, study: &StudyPage) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tune-page");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, written(study)).unwrap();
    path
}

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_samples_have_trials_of_each_status() {
    let study = samples::asha(100);
    for status in TrialStatus::ALL {
        assert!(study.count(status) > 0, "{}", status.name());
    }
}

#[test]
fn the_head_says_how_many_trials_there_are_and_which_is_best() {
    let study = samples::asha(100);
    let page = written(&study);
    let best = &study.trials[study.best().unwrap()];
    assert!(page.contains(&format!("<small>trial {}</small>", best.number)));
    for status in TrialStatus::ALL {
        assert!(page.contains(&format!("<b>{}</b> {}</button>", study.count(status), status.name())));
    }
}

#[test]
fn the_data_has_each_trial() {
    let study = samples::asha(100);
    let data = data(&written(&study));
    let trials = &data["trials"];
    for (index, trial) in study.trials.iter().enumerate() {
        assert_eq!(trials["number"][index], trial.number);
        assert_eq!(data["statuses"][trials["status"][index].as_u64().unwrap() as usize], trial.status.name());
        // The parser of the test may be off by the last bit.
        let error =
            trials["value"][index].as_f64().zip(trial.value).map_or(0.0, |(read, value)| read - value);
        assert!(error.abs() < 1e-14 && trials["value"][index].is_null() == trial.value.is_none());
        assert_eq!(trials["steps"][index].as_array().unwrap().len(), trial.steps.len());
    }
    let choices = data["parameters"][1]["choices"].as_array().unwrap();
    let chosen = trials["parameters"][1][0].as_f64().unwrap() as usize;
    assert_eq!(choices[chosen], serde_json::to_value(&study.trials[0].parameters["optimizer.name"]).unwrap());
}

#[test]
fn the_page_loads_nothing() {
    let page = written(&samples::asha(30));
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "@import", "url(", " src=", "<link", "fetch(", "{{", "innerHTML"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn hostile_texts_stay_text() {
    let [plain, hostile] = [samples::asha(40), samples::hostile()].map(|study| written(&study));
    for tag in ["<script", "</script", "<img", "</title", "<b>"] {
        assert_eq!(hostile.matches(tag).count(), plain.matches(tag).count(), "{tag}");
    }
    // Only within the data, as a string of JSON.
    let (markup, _) = hostile.split_once("id=\"data\">").unwrap();
    assert!(!markup.contains('\u{202e}'));
}

#[test]
fn the_same_study_makes_the_same_bytes() {
    assert_eq!(written(&samples::asha(100)), written(&samples::asha(100)));
}

#[test]
fn two_thousand_trials_are_a_small_file_soon_written() {
    let study = samples::asha(2_000);
    let started = Instant::now();
    let page = written(&study);
    // Far above the seconds of a quiet machine: tests run beside others.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}
