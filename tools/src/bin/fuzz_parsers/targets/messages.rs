//! Messages of other processes: children, other ranks, drivers; and texts that go to a terminal.

use oomph_cli::parsers as cli;
use oomph_doctor::{explain, is_of_device, is_out_of_memory, without_backtrace};
use oomph_optimizer::parsers as optimizer;
use oomph_parallel::parsers as parallel;
use oomph_terminal::stream::shown;
use oomph_trainer::parsers as trainer;
use oomph_tuner::parsers as tuner;

use super::{KIB, Target, lossy};

pub(super) fn targets() -> Vec<Target> {
    let json = |name, parse, seeds: &[&str]| {
        let seeds = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
        Target { bound: |bytes| 256 * bytes.len() + 8 * KIB, ..Target::json(name, parse, seeds) }
    };
    vec![
        json("request to a child", cli::request, &REQUESTS),
        json("message of a child", cli::message, &MESSAGES),
        json("request to a trial", cli::trial_request, &[TRIAL_REQUEST]),
        json("message of a trial", news, &NEWS),
        json(
            "command to a rank",
            trainer::rank_command,
            &[
                r#"{"Step":{"lr":4591870180066957722,"norms":true}}"#,
                r#""State""#,
                r#""LastBatch""#,
                r#"{"Evaluate":7}"#,
            ],
        ),
        Target {
            // A byte that is no UTF-8 becomes three, in a text that doubles as it grows: the old and the new one exist at
            // once. The error that quotes it is a second such text.
            bound: |bytes| 24 * bytes.len() + 4 * KIB,
            ..Target::new(
                "farewell of a rank",
                parallel::farewell,
                vec![
                    vec![1, 7, 0, 0, 0, 0, 0, 0, 0],
                    b"\0out of memory".to_vec(),
                    parallel::example_farewell(),
                ],
            )
        },
        Target {
            // Names and shapes are in lists and maps.
            bound: |bytes| 64 * bytes.len() + 16 * KIB,
            ..Target::new("shards of a rank's state", optimizer::shards_of_state, vec![state()])
        },
        Target::new("collective of a rank", collective, vec![[1u8, 0, 0, 0, 0, 0, 0, 0].repeat(3)]),
        Target {
            words: &[b"CUDA_ERROR_OUT_OF_MEMORY", b"\n", b" ", b"(", b"Backtrace:", b"failed to reserve "],
            bound: |bytes| 64 * bytes.len() + 8 * KIB,
            ..Target::text("driver's message", driver_message, &DRIVER).rare(15)
        },
        Target {
            words: &[b"\x1b[", b"m", b"\x1b]0;", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae"],
            pairs: &[(b"\x1b[", b"m")],
            // An escape is up to ten bytes long, and the text doubles as it grows.
            bound: |bytes| 96 * bytes.len() + 4 * KIB,
            ..Target::text(
                "text to a terminal",
                terminal_text,
                &["\u{1b}[1m\u{1b}[31merror:\u{1b}[0m \u{9b}2J é\t\n"],
            )
        },
    ]
}

/// Numbers, and a file without tensors.
fn state() -> Vec<u8> {
    let numbers = br#"[{"a.momentum.time":{"uint":3}},{"a":2}]"#;
    let file = b"{}";
    let length = |bytes: &[u8]| (bytes.len() as u64).to_le_bytes();
    [&length(numbers)[..], numbers, &length(file), file].concat()
}

fn news(bytes: &[u8]) -> bool {
    tuner::news(&lossy(bytes))
}

fn collective(bytes: &[u8]) -> bool {
    let mut words = [0; 3];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    parallel::collective(words)
}

fn driver_message(bytes: &[u8]) -> bool {
    let text = lossy(bytes);
    let _ = (without_backtrace(&text), is_out_of_memory(&text), is_of_device(&text));
    explain(&text).is_some()
}

/// Accepted if nothing had to be escaped.
fn terminal_text(bytes: &[u8]) -> bool {
    let text = lossy(bytes);
    let _ = oomph_core::printable(&*text);
    shown(&text) == text
}

const TRIAL_REQUEST: &str =
    r#"{"name":"lstm","config":"[train]\nbatch = 8\n","pause_at":{"unit":"epochs","count":3}}"#;
const NEWS: [&str; 4] = [
    r#"{"event":"started","steps":6,"steps_per_epoch":3}"#,
    r#"{"event":"step","step":1,"loss":2.3,"samples_per_second":9e3,"peak_in_use_bytes":7000}"#,
    r#"{"event":"done","step":6,"ended":"complete","loss":null,"seconds":0.5,"eval_loss":0.5,"eval_accuracy":0.9}"#,
    r#"{"event":"error","message":"no","causes":["why"],"out_of_memory":{"levers":[{"settings":[["memory.lean","true"]],"keeps_mathematics":true}]}}"#,
];

const REQUESTS: [&str; 3] = [
    r#"{"name":"lstm","config":"[train]\nbatch = 8\n","work":{"measure":{"steps":3}}}"#,
    r#"{"name":"lstm","config":"","work":{"profile":{"warmup":1,"steps":3}}}"#,
    r#"{"name":"lstm","config":"","work":{"rehearse":{"steps":3,"report":"runs/x"}}}"#,
];
const MESSAGES: [&str; 6] = [
    r#"{"event":"planned","model":"lstm","parameters":10,"limit_bytes":1048576,"peak":{"parameters":40,"optimizer_state":80},"state_bytes_per_parameter":8.0}"#,
    r#"{"event":"step","step":3}"#,
    r#"{"event":"measured","peak_in_use_bytes":70,"state_bytes_per_parameter":8.0,"first_step_seconds":0.1,"step_seconds":0.1,"samples_per_second":9.0,"losses":[0.5,null],"opening_seconds":0.1,"compiled_kernels":0}"#,
    r#"{"event":"profiled","in_use":{"planned_bytes":70,"measured_bytes":70},"reserved":null,"card":null}"#,
    r#"{"event":"rehearsed","peak_in_use_bytes":70,"growth_bytes":0,"reserved_bytes":null,"step_seconds":0.1,"samples_per_second":9.0}"#,
    r#"{"event":"error","message":"no","causes":["why"],"hint":null,"out_of_memory":null}"#,
];
const DRIVER: [&str; 3] = [
    "An error happened with the error: failed to reserve 1048576 bytes of device memory (CUDA_ERROR_OUT_OF_MEMORY)",
    "DriverError(CUDA_ERROR_NO_DEVICE, \"no CUDA-capable device is detected\")\nBacktrace:\n   0: x\n   1: y",
    "Unable to dynamically load the \"cuda\" shared library",
];
