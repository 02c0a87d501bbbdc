//! Event files, read by an independent reader that checks all checksums and fields.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::support::Folder;

/// CRC-32C by its definition in RFC 3720, without a table.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut checksum = u32::MAX;
    for byte in bytes {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = if checksum & 1 == 1 { checksum >> 1 ^ 0x82f6_3b78 } else { checksum >> 1 };
        }
    }
    !checksum
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The complete records of a file with correct checksums, and the bytes after the last one.
fn records(mut file: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut records = Vec::new();
    while file.len() >= 12 {
        let length = little_endian(&file[..8]) as usize;
        assert_eq!(little_endian(&file[8..12]), u64::from(masked(&file[..8])));
        let Some(record) = file.get(12..12 + length) else { break };
        let Some(checksum) = file.get(12 + length..16 + length) else { break };
        assert_eq!(little_endian(checksum), u64::from(masked(record)));
        records.push(record);
        file = &file[16 + length..];
    }
    (records, file)
}

/// A field of a message: a number, or length-delimited bytes.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at(length);
            bytes = rest;
            taken.to_vec()
        };
        let field = match key & 7 {
            1 => Field::Number(little_endian(&take(8))),
            5 => Field::Number(little_endian(&take(4))),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken.to_vec())
            }
            0 => Field::Number(varint(&mut bytes)),
            wire => panic!("wire type {wire}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn number(fields: &[(u64, Field)], key: u64) -> Option<u64> {
    fields.iter().find_map(|(found, field)| match field {
        Field::Number(number) if *found == key => Some(*number),
        _ => None,
    })
}

fn bytes(fields: &[(u64, Field)], key: u64) -> Vec<Vec<u8>> {
    let of_key = fields.iter().filter(|(found, _)| *found == key);
    of_key
        .filter_map(|(_, field)| match field {
            Field::Bytes(bytes) => Some(bytes.clone()),
            Field::Number(_) => None,
        })
        .collect()
}

/// The contents of a run's event files, in the order of the files.
#[derive(Debug, Default)]
struct Events {
    /// By tag: step and number.
    scalars: BTreeMap<String, Vec<(u64, f32)>>,
    /// By tag: step, count and the sum of the buckets.
    histograms: BTreeMap<String, Vec<(u64, f64, f64)>>,
    /// The first step of each process.
    starts: Vec<u64>,
    files: usize,
}

impl Events {
    fn of(folder: &Folder) -> Self {
        let mut names: Vec<_> = fs::read_dir(folder.at("run"))
            .expect("a run")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().contains("/events.out.tfevents."))
            .collect();
        names.sort();
        let mut events = Self { files: names.len(), ..Self::default() };
        for name in names {
            let file = fs::read(&name).expect("a file");
            let (records, rest) = records(&file);
            assert_eq!(rest, b"", "{name:?}");
            assert_eq!(bytes(&fields(records[0]), 3), [b"brain.Event:2"]);
            records[1..].iter().for_each(|record| events.record(record));
        }
        events
    }

    fn record(&mut self, record: &[u8]) {
        let event = fields(record);
        let wall_time = f64::from_bits(number(&event, 1).expect("a time"));
        assert!(wall_time > 1.7e9, "{wall_time}");
        let step = number(&event, 2).unwrap_or(0);
        for log in bytes(&event, 7) {
            assert_eq!(number(&fields(&log), 1), Some(1));
            self.starts.push(step);
        }
        for summary in bytes(&event, 5) {
            for value in bytes(&fields(&summary), 1) {
                let value = fields(&value);
                let tag = String::from_utf8(bytes(&value, 1).concat()).expect("a tag");
                if let Some(bits) = number(&value, 2) {
                    self.scalars.entry(tag).or_default().push((step, f32::from_bits(bits as u32)));
                    continue;
                }
                let histogram = fields(&bytes(&value, 5).concat());
                let count = f64::from_bits(number(&histogram, 3).expect("a count"));
                let doubles = |key| -> Vec<f64> {
                    let packed = bytes(&histogram, key).concat();
                    packed.chunks(8).map(|bytes| f64::from_bits(little_endian(bytes))).collect()
                };
                let (limits, counts) = (doubles(6), doubles(7));
                assert_eq!(limits.len(), counts.len());
                assert!(limits.is_sorted(), "{limits:?}");
                self.histograms.entry(tag).or_default().push((step, count, counts.iter().sum()));
            }
        }
    }
}

/// Step and value of a metric in `metrics.jsonl`.
fn logged(folder: &Folder, event: &str, pointer: &str) -> Vec<(u64, f32)> {
    let text = String::from_utf8(folder.read("run/metrics.jsonl")).expect("text");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events
        .filter(|found| found["event"] == event)
        .map(|found| {
            (found["step"].as_u64().unwrap(), found.pointer(pointer).unwrap().as_f64().unwrap() as f32)
        })
        .collect()
}

#[test]
fn the_reader_of_this_test_knows_the_checksum() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
}

#[test]
fn scalars_are_the_numbers_of_the_log() {
    let folder = Folder::new();
    folder.train(&["--set", "train.eval_every='3 steps'"]).success();
    let events = Events::of(&folder);
    for (tag, event, pointer) in [
        ("loss/train", "step", "/loss"),
        ("accuracy/train", "step", "/accuracy"),
        ("optimizer/learning_rate", "step", "/lr"),
        ("speed/samples_per_second", "step", "/samples_per_second"),
        ("memory/in_use", "step", "/in_use_bytes"),
        ("memory/peak_in_use", "step", "/peak_in_use_bytes"),
        ("memory/activations", "step", "/step_peak_bytes/activations"),
        ("memory/optimizer_state", "step", "/step_peak_bytes/optimizer_state"),
        ("loss/eval", "eval", "/eval_loss"),
        ("accuracy/eval", "eval", "/eval_accuracy"),
    ] {
        assert_eq!(events.scalars[tag], logged(&folder, event, pointer), "{tag}");
    }
    // At every second step, and before the evaluation at step 3.
    assert_eq!(events.scalars["loss/train"].iter().map(|(step, _)| *step).collect::<Vec<_>>(), [2, 3, 4, 6]);
    assert_eq!((events.files, events.starts, events.histograms.len()), (1, vec![1], 0));
}

#[test]
fn a_resumed_run_says_from_which_step_on_it_counts() {
    let folder = Folder::new();
    folder.train(&["--set", "run.save_every='4 steps'"]).success();
    folder.train(&["--resume", "run/checkpoints/step-00000004"]).success();
    let events = Events::of(&folder);
    assert_eq!((events.files, events.starts), (2, vec![1, 5]));
    let steps: Vec<_> = events.scalars["loss/train"].iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [2, 4, 6, 6]);
}

#[test]
fn histograms_are_of_every_parameter_and_its_gradient() {
    let folder = Folder::new();
    folder.train(&["--set", "run.histograms='3 steps'"]).success();
    let events = Events::of(&folder);
    let names: Vec<_> = events.histograms.keys().map(String::as_str).collect();
    for name in
        ["parameters/lstm.0.layer.weight_hh", "gradients/lstm.0.layer.weight_hh", "gradients/head.fc.bias"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for (tag, found) in &events.histograms {
        assert_eq!(found.iter().map(|(step, ..)| *step).collect::<Vec<_>>(), [3, 6], "{tag}");
        for (_, count, in_buckets) in found {
            assert!(*count > 0.0 && count == in_buckets, "{tag}");
        }
    }
    assert_eq!(events.histograms["gradients/lstm.0.layer.weight_hh"][0].1, 4.0 * 8.0 * 8.0);
}

#[test]
fn histograms_change_no_bit_of_the_training() {
    let (plain, looked_at) = (Folder::new(), Folder::new());
    plain.train(&[]).success();
    looked_at.train(&["--set", "run.histograms='1 step'"]).success();
    let path = "run/checkpoints/step-00000006/model.safetensors";
    assert!(plain.read(path) == looked_at.read(path));
}

#[test]
fn without_it_there_is_no_event_file_and_no_histogram() {
    let folder = Folder::new();
    folder.train(&["--set", "run.tensorboard=false"]).success();
    assert_eq!(Events::of(&folder).files, 0);
    let answer =
        Folder::new().train(&["--set", "run.tensorboard=false", "--set", "run.histograms='1 epoch'"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("histograms need an event file"), "{answer}");
}

#[test]
fn memory_is_told_by_category() {
    let folder = Folder::new();
    // More steps than the recording holds, so that no event shows the parameters and the optimizer state.
    let adam = ["--set", "optimizer.name=adam", "--set", "memory.record=8192", "--set", "train.steps=40"];
    folder.train(&adam).success();
    // Four gates of 8 input and 8 hidden weights and two biases, the head of ten classes.
    let parameters = 4 * (4 * 8 * (8 + 8) + 2 * 4 * 8 + 8 * 10 + 10);
    let last = |category: &str| {
        let found = logged(&folder, "step", &format!("/step_peak_bytes/{category}"));
        found.last().expect("a step").1 as i64
    };
    // Storage is rounded up to 16 bytes, for six tensors.
    let about = |found: i64, expected: i64| (expected..=expected + 2 * 6 * 16).contains(&found);
    assert!(about(last("parameters"), parameters), "{} and not {parameters}", last("parameters"));
    let state = last("optimizer_state");
    assert!(about(state, 2 * parameters), "{state} and not twice {parameters}");
    assert!(last("activations") > 0 && last("inputs") >= 32 * 64 * 4);
    let total: i64 =
        ["parameters", "gradients", "optimizer_state", "activations", "inputs", "workspace", "other"]
            .map(last)
            .iter()
            .sum();
    let peak = logged(&folder, "step", "/peak_in_use_bytes").last().expect("a step").1 as i64;
    assert!(total <= peak && total * 10 > peak * 9, "{total} of {peak}");
    // In a new process the first step finds an optimizer state from a checkpoint.
    folder.train(&[&adam[..4], &["--set", "train.steps=41", "--resume"]].concat()).success();
    assert!(about(last("optimizer_state"), 2 * parameters), "{}", last("optimizer_state"));
}
