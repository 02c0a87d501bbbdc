//! `find-batch` over several devices: its result fits on each of them, and one sample more does not.

use serde_json::Value;

use crate::support::Folder;

const LSTM: &str = "
    model = { name = 'lstm', hidden = 64 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { batch = 16, steps = 4, eval_every = '2 steps', eval_batch = 16 }
    optimizer = { name = 'adam' }
    memory.lean = false
    run.directory = 'run'
    ";

const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { batch = 64, steps = 2, eval_every = 'never' }
    optimizer = { name = 'sgd', lr = 0.01 }
    run.directory = 'run'
    ";

/// The planned peak of a batch on the fullest device.
fn peak(folder: &Folder, about: &[&str], batch: usize) -> u64 {
    let batch = batch.to_string();
    let arguments = [&["plan", "--json", "--batch", &batch], about].concat();
    let plan = folder.oomph(&arguments).success().last_json();
    let of = |row: &Value| row["planned_peak_bytes"].as_u64().expect("bytes");
    match plan["devices"].as_array() {
        Some(devices) => devices.iter().map(of).max().expect("a device"),
        None => of(&plan["batches"][0]),
    }
}

/// Checks that the search finds about the batch that sets the limit, and that training succeeds with the result.
fn check(config: &str, about: &[&str], batch: usize) {
    let folder = Folder::new();
    folder.write("net.toml", config);
    let about = [&["--config", "net.toml"], about].concat();
    // A long training keeps more losses than a try, and each device has a copy of the configuration.
    let (limit, margin) = ((peak(&folder, &about, batch) + 2000) * 100 / 98, ["--margin", "2%"]);
    let limit_text = limit.to_string();
    let about = [&about[..], &["--memory-limit", &limit_text]].concat();
    let find = [&["find-batch", "--json"], &margin[..], &about].concat();
    let found = folder.oomph(&find).success().last_json();
    let largest = found["largest_batch"].as_u64().expect("a batch") as usize;
    // Another batch may need the same memory.
    assert!(largest >= batch && largest <= batch + 32, "{batch}: {found}");
    assert_eq!(found["is_proven"], true, "{found}");
    let tried = found["probes"].as_array().expect("probes");
    let probe = tried.iter().find(|probe| probe["batch"] == largest).expect("it was tried");
    let [planned, measured] =
        ["planned_peak_bytes", "peak_in_use_bytes"].map(|key| probe[key].as_f64().expect(key));
    assert!((planned / measured - 1.0).abs() < 0.03, "{probe}");
    let train = |batch: usize| {
        let batch = format!("train.batch={batch}");
        folder.oomph(&[&["train", "--quiet", "--no-plan-check", "--set", &batch], &about[..]].concat())
    };
    train(largest).success();
    assert!(peak(&folder, &about, largest + 1) >= limit * 98 / 100, "{found}");
    assert!(!tried.iter().any(|probe| probe["verdict"] == "failed"), "{found}");
}

#[test]
fn the_largest_batch_of_replicas_is_that_of_all_of_them() {
    check(LSTM, &["--devices", "cpu,cpu"], 300);
    check(LSTM, &["--devices", "cpu,cpu,cpu"], 301);
}

#[test]
fn the_largest_batch_of_a_cut_model_is_that_with_which_every_part_fits() {
    check(RESNET, &["--devices", "cpu,cpu", "--strategy", "pipeline"], 192);
    check(RESNET, &["--devices", "cpu,cpu", "--strategy", "model"], 100);
}

#[test]
fn a_micro_batch_is_found_for_the_share_of_each_device() {
    let folder = Folder::new();
    folder.write("net.toml", LSTM);
    let about = ["--config", "net.toml", "--devices", "cpu,cpu"];
    let limit = (peak(&folder, &about, 200) + 1000).to_string();
    let find = ["find-batch", "--json", "--effective-batch", "400", "--memory-limit", &limit];
    let found = folder.oomph(&[&find[..], &about].concat()).success().last_json();
    let [micro_batch, count] = ["micro_batch", "micro_batches"].map(|key| found[key].as_u64().expect(key));
    // Each device has 200 samples; about half of them fit beside the gradients of the previous micro-batches.
    assert!(count >= 2 && micro_batch * count >= 200 && micro_batch < 200, "{found}");
}

#[test]
fn where_no_batch_fits_the_report_is_of_the_device_that_ran_out() {
    let folder = Folder::new();
    folder.write("net.toml", RESNET);
    // The second device has most of the model, so the first one fits on every machine.
    let split = "device.split_points=['layer3']";
    let about = ["--config", "net.toml", "--devices", "cpu,cpu", "--strategy", "pipeline", "--set", split];
    let limit = (peak(&folder, &about, 10) * 8 / 10).to_string();
    let find = [&["find-batch", "--json", "--memory-limit", &limit], &about[..]].concat();
    let answer = folder.oomph(&find);
    assert_eq!(answer.code, Some(75), "{answer}");
    let probe = &answer.last_json()["probes"][0];
    let reason = probe["reason"].as_str().expect("a reason");
    assert!(reason.contains("device 1 (`cpu`) failed: out of memory in "), "{reason}");
    let title = probe["out_of_memory"]["title"].as_str().expect("a title");
    assert!(title.ends_with("· device 1"), "{title}");
}
