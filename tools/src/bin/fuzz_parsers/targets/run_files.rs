//! Files of runs: checkpoints, the log, the record of the machine.

use oomph_calibration::parsers::calibration;
use oomph_data::{SourceRecord, tokens::Continuation};
use oomph_runs::parsers as runs;

use super::{KIB, Target};

pub(super) fn targets() -> Vec<Target> {
    let state = runs::example_state();
    let parse_state = |bytes: &[u8]| runs::state(bytes).is_ok();
    let tensors =
        |name| Target::json(name, |bytes| runs::tensors(bytes).is_ok(), vec![runs::example_tensors()]);
    vec![
        Target::json("state.json", parse_state, vec![runs::sealed(&state)]),
        Target {
            finish: |bytes| runs::sealed(&bytes),
            ..Target::json("state.json sealed", parse_state, vec![state])
        },
        tensors("optimizer.safetensors"),
        Target {
            // The length of the header is right, so that the header is read.
            finish: with_length,
            ..tensors("optimizer.safetensors header")
        },
        Target {
            // Names of classes are in a list and in the map of a vocabulary.
            bound: |bytes| 256 * bytes.len() + 4 * KIB,
            ..Target::json("source.json", source, SOURCES.map(|seed| seed.as_bytes().to_vec()).to_vec())
        },
        log("metrics.jsonl", vec![LOG.as_bytes().to_vec()]),
        Target {
            finish: |bytes| [bytes, b"\n".to_vec()].concat(),
            ..log("metrics.jsonl line", LOG.lines().map(|line| line.as_bytes().to_vec()).collect())
        },
        Target {
            // A map of an entry of seven bytes takes a node for eleven.
            bound: |bytes| 256 * bytes.len() + 4 * KIB,
            ..Target::json(
                "environment.json",
                |bytes| runs::environment(bytes).is_some(),
                vec![ENVIRONMENT.as_bytes().to_vec()],
            )
        },
        Target {
            words: super::JSON,
            pairs: super::JSON_PAIRS,
            bound: |bytes| 64 * bytes.len() + 1024 * KIB,
            ..Target::text("study.log", |bytes| oomph_study::parse_journal(bytes).is_ok(), &[JOURNAL])
        },
        Target {
            // A sample takes its sizes and a kind.
            bound: |bytes| 256 * bytes.len() + 16 * KIB,
            ..Target::json("calibration", calibration, vec![CALIBRATION.as_bytes().to_vec()])
        },
        Target::text(
            "checkpoint names",
            |bytes| runs::checkpoint_name(&super::lossy(bytes)).is_some(),
            &["step-00000120", "step-00000120.2"],
        ),
    ]
}

const CALIBRATION: &str = r#"{"format":1,"machine":{"processor":"p","threads":2,"version":"0.1.0"},"overhead_seconds":2e-6,
"samples":[{"kind":"add","sizes":[64.0],"arithmetic":0.0,"bytes":64.0,"mapped":0.0,"seconds":1e-6}]}"#;

fn log(name: &'static str, seeds: Vec<Vec<u8>>) -> Target {
    Target {
        // The file is read through a buffer of 8 KiB.
        bound: |bytes| 64 * bytes.len() + 16 * KIB,
        ..Target::json(name, |bytes| runs::log(bytes).is_ok(), seeds)
    }
}

const JOURNAL: &str = include_str!("study.log");

/// A record of data, and what predictions and a resumed training ask it.
fn source(bytes: &[u8]) -> bool {
    let Ok(record) = serde_json::from_slice::<SourceRecord>(bytes) else { return false };
    if let Some(encoding) = record.text_encoding() {
        let mut text = Continuation::of(&encoding, "to be\n");
        for token in encoding.encode("to be\n") {
            let _ = text.push(token);
        }
    }
    let _ = (record.other_data(&record), record.trained_statistics().is_some());
    true
}

/// Sets the first eight bytes to the number of bytes up to the last brace, and to the next multiple of eight.
fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte == b'}').map_or(8, |last| last + 1);
    if bytes.len() >= 8 {
        let length = (end.saturating_sub(8) as u64).next_multiple_of(8).to_le_bytes();
        bytes[..8].copy_from_slice(&length);
    }
    bytes
}

const SOURCES: [&str; 4] = [
    r#"{"spec":{"input":{"tokens":{"steps":4,"vocabulary":2}},"target":{"tokens":{"steps":4,"vocabulary":2}}},"class_names":["<unk>","a"],"level":"char"}"#,
    r#"{"spec":{"input":{"image":{"channels":1,"height":8,"width":8}},"target":{"class":{"count":2}}},"class_names":["a","b"],"images":{"shape":{"channels":1,"height":8,"width":8},"resize":"bilinear","max_file_bytes":67108864,"statistics":{"mean":[0.5],"std":[0.25]}},"statistics":{"mean":[0.5],"std":[0.25]},"digest":{"train_samples":10,"held_out_samples":2,"sha256":"00"}}"#,
    r#"{"spec":{"input":{"vector":{"features":2}},"target":{"class":{"count":2}}},"columns":{"inputs":["a","b"],"targets":["c"]},"statistics":{"mean":[0.5,1],"std":[0.25,2e0]}}"#,
    r#"{"spec":{"input":{"vector":{"features":2}},"target":{"labels":{"count":2}}},"class_names":["a","b"]}"#,
];
const LOG: &str = concat!(
    r#"{"event":"started","run_dir":"runs/x","model":"lstm","steps":6,"first_step":0,"metered":true}"#,
    "\n",
    r#"{"event":"step","step":2,"loss":0.5,"samples_per_second":9.0,"peak_in_use_bytes":70,"seconds":2.0}"#,
    "\n",
    r#"{"event":"eval","step":2,"eval_loss":0.4,"eval_accuracy":0.5,"eval_perplexity":null}"#,
    "\n",
    r#"{"event":"warning","message":"new in a later version"}"#,
    "\n",
    r#"{"event":"error","message":"the disk is full"}"#,
    "\n",
    r#"{"event":"done","step":3,"loss":0.1,"samples_per_second":7.0,"peak_in_use_bytes":80,"seconds":1.5,"ended":"interrupted"}"#,
    "\n",
);
const ENVIRONMENT: &str = r#"{"oomph_version":"0.1.0","processor":"x","cores":[1,2],"host":{"name":"a","kernel":null},"started_unix_seconds":17}"#;
