//! `profile` over several devices: the memory and the activity of each, in the report and in the files.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Case, Folder, check, snapshot, without_numbers, without_units};

/// No evaluation: with a split model only the first device would evaluate.
const RESNET: &str = "
    model = { name = 'resnet18', stem = 'small', width = 16 }
    data = { source = 'digits', workers = 0, last_batch = 'drop' }
    train = { batch = 32, steps = 8, eval_every = 'never' }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }
    ";

const STRATEGIES: [&str; 3] = ["ddp", "model", "pipeline"];

fn profiled(strategy: &str, devices: &str) -> (Folder, Value) {
    let folder = Folder::new();
    folder.write("net.toml", RESNET);
    let arguments = ["profile", "--config", "net.toml", "--devices", devices, "--strategy", strategy];
    let answer = folder.oomph(&[&arguments[..], &["--steps", "3", "--out", "found", "--json"]].concat());
    let found = answer.success().last_json();
    (folder, found)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

fn text(folder: &Folder, path: &str) -> String {
    String::from_utf8(folder.read(path)).expect("UTF-8")
}

/// The lines of `found/timeline.jsonl` by kind and device.
fn lines(folder: &Folder) -> BTreeMap<(String, String), Vec<Value>> {
    let mut lines: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for line in text(folder, "found/timeline.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let key = ["kind", "device"].map(|key| line[key].as_str().expect("a text").to_owned());
        lines.entry(key.into()).or_default().push(line);
    }
    lines
}

#[test]
fn each_device_holds_what_is_planned_for_it_and_its_times_add_up() {
    for (strategy, names) in STRATEGIES.into_iter().zip(["cpu,cpu", "cpu,cpu,cpu", "cpu,cpu"]) {
        let (_folder, found) = profiled(strategy, names);
        let devices = found["devices"].as_array().expect("devices");
        assert_eq!((devices.len(), &found["strategy"]), (names.split(',').count(), &strategy.into()));
        let mut peaks = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            assert_eq!(device["device"], format!("{index} cpu"));
            assert_eq!(device.get("stages").is_some(), strategy != "ddp");
            let [planned, peak] = ["planned_peak_bytes", "peak_in_use_bytes"].map(|key| number(device, key));
            assert!((planned / peak - 1.0).abs() < 0.05, "{strategy}: {device}");
            peaks.push(peak);
            let shares = ["busy_share", "communication_share", "idle_share"].map(|key| number(device, key));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
            assert!(shares[0] > 0.0 && shares[1] > 0.0 && shares[2] > 0.0, "{strategy}: {shares:?}");
        }
        // The other figures belong to the device with the highest peak.
        let largest = peaks.iter().copied().fold(0.0, f64::max);
        assert_eq!(number(&found, "peak_in_use_bytes"), largest);
        assert_eq!(found["device"], devices[peaks.iter().position(|it| *it == largest).unwrap()]["device"]);
    }
}

#[test]
fn a_device_never_does_two_things_at_once_and_does_all_of_a_step() {
    for strategy in STRATEGIES {
        let (folder, _) = profiled(strategy, "cpu,cpu");
        let lines = lines(&folder);
        for device in ["0 cpu", "1 cpu"] {
            let of =
                |kind: &str| lines.get(&(kind.to_owned(), device.to_owned())).cloned().unwrap_or_default();
            let track = of("track");
            for pair in track.windows(2) {
                assert!(number(&pair[0], "end_ns") <= number(&pair[1], "start_ns"), "{pair:?}");
            }
            let micro_batches = if strategy == "pipeline" { 8 } else { 1 };
            for work in ["forward", "backward"] {
                let mut names: Vec<_> = track
                    .iter()
                    .filter(|span| span["does"] == work)
                    .map(|span| span["name"].clone())
                    .collect();
                names.sort_by_key(Value::to_string);
                names.dedup();
                assert_eq!(names.len(), micro_batches, "{strategy}, {device}: {names:?}");
            }
            for does in ["step", "communication", "idle"] {
                assert!(track.iter().any(|span| span["does"] == does), "{strategy}, {device}: {does}");
            }
            // All-reduces overlap with other work, transfers do not.
            assert_eq!(of("transfer").is_empty(), strategy != "ddp");
            let steps = of("span").into_iter().filter(|span| span["span"] == "step").count();
            assert_eq!((of("timeline").len(), steps), (1, 3), "{strategy}, {device}");
        }
    }
}

#[test]
fn every_file_has_all_devices() {
    let (folder, found) = profiled("pipeline", "cpu,cpu");
    let page = text(&folder, "found/timeline.html");
    assert!(page.contains("layer4") && page.contains("0 cpu") && page.contains("1 cpu"));
    for outside in ["http:", "https:", " src=", "<link", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let trace: Value = serde_json::from_str(&text(&folder, "found/trace.json")).expect("JSON");
    let timelines = trace["otherData"]["timelines"].as_array().expect("timelines");
    let about: Vec<_> = timelines.iter().map(|it| (it["device"].clone(), it["origin"].clone())).collect();
    let expected = [("0 cpu", "measured"), ("0 cpu", "planned"), ("1 cpu", "measured"), ("1 cpu", "planned")];
    assert_eq!(about, expected.map(|(device, origin)| (device.into(), origin.into())));
    let devices = found["devices"].as_array().expect("devices");
    for (device, pid) in devices.iter().zip([1, 3]) {
        assert_eq!(timelines[pid - 1]["peak_bytes"], device["peak_in_use_bytes"]);
        let of = |name: &str| {
            let events = trace["traceEvents"].as_array().expect("events").iter();
            events
                .filter(|it| it["pid"] == pid && it["ph"] == "X" && it["tid"] == 4 && it["name"] == name)
                .count()
        };
        assert_eq!(["forward 3", "backward 3"].map(of), [3, 3]);
    }
    let snapshot = folder.read("found/snapshot.pickle");
    assert!(snapshot.starts_with(&[0x80, 2]) && snapshot.ends_with(b"."), "a pickle");
}

#[test]
fn the_report_is_a_table_of_devices_and_one_of_them_in_full() {
    let folder = Folder::new();
    folder.write("net.toml", RESNET);
    let shape = |strategy: &str| {
        let arguments = ["profile", "--config", "net.toml", "--devices", "cpu,cpu", "--strategy", strategy];
        let answer = folder.oomph(&[&arguments[..], &["--steps", "2", "--out", strategy]].concat()).success();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let head = answer.stdout.split("\nat the peak").next().unwrap_or_default().lines().map(words);
        // Either of two replicas may have the higher peak.
        let about = |line: String| line.replace("device N cpu, which", "device, which");
        head.map(|line| about(without_units(&without_numbers(&line))) + "\n").collect::<String>()
    };
    snapshot("profile_devices", &format!("{}\n{}", shape("ddp"), shape("pipeline")));
}

#[test]
fn a_training_that_is_asked_shows_the_tracks_of_all_its_devices() {
    for strategy in ["ddp", "pipeline"] {
        let folder = Folder::new();
        folder.write("net.toml", RESNET);
        let more = ["--devices", "cpu,cpu", "--strategy", strategy, "--set", "run.directory=run"];
        let mut running = folder.start_long_of("net.toml", &more);
        running.signal(libc::SIGUSR2);
        let written = running.wait_for("warning")["message"].as_str().expect("a message").to_owned();
        let path = written.split('`').nth(1).unwrap_or_else(|| panic!("a path in {written}"));
        let page = text(&folder, path);
        for part in ["0 cpu", "1 cpu", "\"forward 0\"", "waits for", "communication"] {
            assert!(page.contains(part), "{strategy}: {part}");
        }
        running.signal(libc::SIGTERM);
        running.end();
    }
}

#[test]
fn what_cannot_be_profiled_together_is_said() {
    check(
        "malformed_profile_devices",
        &[
            Case::new("no such strategy", &["profile", "--devices", "cpu,cpu", "--strategy", "tpd"]),
            Case::new("a GPU among them", &["profile", "--devices", "cpu,cuda:0"]),
        ],
    );
}
