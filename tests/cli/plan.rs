//! `plan`: its tables, and that training agrees with them.

use std::fs;

use serde_json::Value;

use crate::support::{Folder, snapshot};

/// The table of a GPU, which does not depend on the machine that plans.
#[test]
fn a_plan_is_a_table() {
    let folder = Folder::new();
    let plan = |arguments: &[&str]| {
        let answer = folder.oomph(&[&["plan"], arguments].concat()).success();
        without_time(&answer.stdout)
    };
    snapshot("plan_lstm", &plan(&["--config", "lstm", "--gpu", "64MiB"]));
    let resnet = ["--config", "synthetic-resnet50", "--batch", "1,64,512", "--gpu", "RTX 4090"];
    snapshot("plan_resnet50", &plan(&resnet));
    let micro_batches = ["--config", "lstm", "--set", "memory.micro_batch=8", "--gpu", "64MiB"];
    snapshot("plan_micro_batches", &plan(&micro_batches));
    assert!(!folder.at("runs").exists());
}

fn without_time(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("planned in ") {
        Some((before, _)) => format!("{before}planned in [TIME]"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_plan_says_what_auto_chooses_for_each_batch() {
    let folder = Folder::new();
    let arguments = ["plan", "synthetic-resnet50", "--batch", "2,32", "--gpu", "2GiB"];
    let auto = [&arguments[..], &["--set", "memory.recompute=auto"]].concat();
    let text = folder.oomph(&auto).success().stdout;
    assert!(text.lines().next().is_some_and(|head| head.contains("· recompute auto ·")), "{text}");
    assert!(text.contains("chosen by `auto`"), "{text}");
    let plan = folder.oomph(&[&auto[..], &["--json"]].concat()).success().last_json();
    let chosen = [0, 1].map(|at| plan["batches"][at]["auto"].as_str().unwrap().to_owned());
    assert_eq!(chosen[0], "no recompute");
    assert!(chosen[1].starts_with("recompute ") && text.contains(&chosen[1]), "{chosen:?}\n{text}");
    let plain = folder.oomph(&arguments).success().stdout;
    assert!(!plain.contains("auto"), "{plain}");
}

#[test]
fn a_plan_says_where_there_are_fewer_samples() {
    let folder = Folder::new();
    let few = ["--set", "data.source=synthetic", "--set", "data.train_samples=100", "--gpu", "2GiB"];
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "resnet", "--batch", "64,512"], &few[..], more].concat();
        folder.oomph(&arguments).success().stdout
    };
    let text = plan(&[]);
    let row =
        |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    assert!(row("64 ").ends_with("fits") && row("512 ").ends_with("fits, of 100 samples"), "{text}");
    // Without `--batch`, only batches that there are samples for.
    let usual = folder.oomph(&[&["plan", "resnet", "--json"], &few[..]].concat()).success().last_json();
    let usual: Vec<_> =
        usual["batches"].as_array().unwrap().iter().map(|row| row["batch"].as_u64()).collect();
    assert_eq!(usual, [1, 8, 32, 64].map(Some));
}

#[test]
fn a_plan_as_json_adds_up() {
    let folder = Folder::new();
    let arguments = ["plan", "--config", "tiny.toml", "--batch", "4,64", "--gpu", "2GiB", "--json"];
    let plan = folder.oomph(&arguments).success().last_json();
    assert_eq!(plan["limit_bytes"], 2_u64 << 30);
    assert_eq!((&plan["rules_verified"], &plan["margin"]), (&Value::from(true), &Value::from(0.02)));
    // All 1,438 training samples fit.
    assert_eq!(plan["largest_batch"], 1438);
    assert!(plan["plan_seconds"].as_f64().unwrap() > 0.0);
    let batches = plan["batches"].as_array().unwrap();
    assert_eq!(batches.iter().map(|batch| batch["batch"].as_u64()).collect::<Vec<_>>(), [Some(4), Some(64)]);
    for batch in batches {
        assert_eq!(batch["fits"], true);
        let categories = batch["categories"].as_object().unwrap();
        let sum: u64 = categories.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(batch["planned_peak_bytes"], sum, "{batch}");
    }
}

#[test]
fn training_peaks_where_the_plan_says() {
    let folder = Folder::new();
    let config = ["--config", "tiny.toml", "--json"];
    let plan = folder.oomph(&[&["plan", "--batch", "32"], &config[..]].concat()).success().last_json();
    let events = folder.oomph(&[&["train"], &config[..]].concat()).success().json_lines();
    let planned = plan["batches"][0]["planned_peak_bytes"].as_f64().unwrap();
    let (first, last) = (events.first().unwrap(), events.last().unwrap());
    assert_eq!(first["planned_peak_bytes"], planned as u64);
    let measured = last["peak_in_use_bytes"].as_f64().unwrap();
    assert!((planned / measured - 1.0).abs() < 0.02, "planned {planned}, in use {measured}");
}

#[test]
fn the_largest_batch_that_fits_is_one_that_fits() {
    let folder = Folder::new();
    let plan = |batch: &str| {
        let arguments = ["plan", "--config", "lstm", "--memory-limit", "12MiB", "--batch", batch, "--json"];
        folder.oomph(&arguments).success().last_json()
    };
    let largest = plan("1")["largest_batch"].as_u64().unwrap();
    assert!(largest > 1 && largest < 1438, "{largest}");
    let around = plan(&format!("{largest},{}", largest + 1));
    assert_eq!(around["batches"][0]["fits"], true);
    assert_eq!(around["batches"][1]["fits"], false);
}

#[test]
fn a_page_of_the_plan_is_one_file() {
    let folder = Folder::new();
    folder.oomph(&["plan", "--config", "tiny.toml", "--html", "plan.html"]).success();
    let page = String::from_utf8(folder.read("plan.html")).unwrap();
    assert!(page.contains("planned peak") && !page.contains("http://") && !page.contains("https://"));
    assert!(
        fs::read_dir(folder.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().ends_with(".part") })
    );
}

#[test]
fn a_picture_of_the_plan_is_one_file() {
    let folder = Folder::new();
    let answer = folder.oomph(&["plan", "--config", "tiny.toml", "--svg", "plan.svg"]).success();
    assert!(answer.stdout.ends_with("\ntimeline written to plan.svg\n"), "{answer}");
    let picture = String::from_utf8(folder.read("plan.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    let both = ["plan", "--config", "tiny.toml", "--html", "plan.html", "--svg", "again.svg"];
    let answer = folder.oomph(&both).success();
    let lines = "\ntimeline written to plan.html\ntimeline written to again.svg\n";
    assert!(answer.stdout.ends_with(lines), "{answer}");
    assert_eq!(folder.read("again.svg"), picture.into_bytes());
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let mut text = String::new();
    for arguments in [
        &["--gpu", "RTX 9999"][..],
        &["--gpu", "a100"],
        &["--gpu", "0GiB"],
        &["--gpu", "24 gigs"],
        &["--gpu", "24GiB", "--memory-limit", "8GiB"],
        &["--batch", "0"],
        &["--batch", "8,,9"],
        &["--batch", "many"],
        &["--config", "resnet", "--batch", "1"],
        &["--config", "tiny.toml", "--html", "no/such/folder/plan.html"],
        &["--devices", "tpu:0"],
    ] {
        let answer = folder.oomph(&[&["plan"], arguments].concat());
        assert_ne!(answer.code, Some(0), "{arguments:?}");
        text.push_str(&format!("$ oomph plan {}\n{answer}\n", arguments.join(" ")));
    }
    snapshot("plan_refused", &text);
}

/// A calibration in which everything takes its bytes and its arithmetic at the same rate.
fn calibration(seconds: f64) -> String {
    let sample = |kind: &str, arithmetic: f64| {
        format!(
            "{{\"kind\":\"{kind}\",\"sizes\":[1],\"arithmetic\":{arithmetic},\"bytes\":1,\"mapped\":0,\"seconds\":{seconds:e}}}"
        )
    };
    format!(
        "{{\"format\":1,\"machine\":{{\"processor\":\"none\",\"threads\":1,\"version\":\"0\"}},\"overhead_seconds\":1e-12,\
         \"samples\":[{},{}]}}",
        sample("add", 0.0),
        sample("product", 1.0)
    )
}

#[test]
fn a_plan_has_times_where_a_calibration_says_how_fast_the_cpu_is() {
    let folder = Folder::new();
    let plain = ["plan", "lstm", "--batch", "32", "--memory-limit", "64MiB"];
    let unknown = folder.oomph(&plain).success();
    assert!(unknown.stdout.contains("`oomph calibrate` measures this machine once"), "{}", unknown.stdout);
    assert!(!unknown.stdout.contains("planned time"), "{}", unknown.stdout);
    let seconds = |of_each: f64| {
        fs::write(folder.at("slow.json"), calibration(of_each)).unwrap();
        let by = ["--set", "device.calibration=slow.json"];
        let text = folder.oomph(&[&plain[..], &by].concat()).success().stdout;
        assert!(text.contains("planned time: ") && text.contains(" samples/s, "), "{text}");
        let plan = folder.oomph(&[&plain[..], &by, &["--json"]].concat()).success().last_json();
        let step = plan["batches"][0]["planned_step_seconds"].as_f64().unwrap();
        assert!(plan["planned_seconds"].as_f64().unwrap() > plan["planned_epoch_seconds"].as_f64().unwrap());
        step
    };
    let ratio = seconds(2e-9) / seconds(1e-9);
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    fs::write(folder.at("slow.json"), "{}").unwrap();
    let refused = folder.oomph(&[&plain[..], &["--set", "device.calibration=slow.json"]].concat());
    let message = "`slow.json` is not a calibration of this version of oomph: missing field `format`";
    assert!(
        refused.stderr.contains(message) && refused.stderr.contains("hint: `oomph calibrate`"),
        "{}",
        refused.stderr
    );
}
