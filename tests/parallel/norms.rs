//! The norms in the log, with every strategy.

use std::fs;

use serde_json::Value;

use crate::support::{LSTM, Runs};

/// The lines of steps in the log of a run.
fn lines(runs: &Runs, name: &str) -> Vec<Value> {
    let log = fs::read_to_string(runs.path(name).join("metrics.jsonl")).expect("a log");
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events.filter(|event| event["event"] == "step").collect()
}

#[test]
fn every_strategy_logs_the_norms_of_one_device() {
    let runs = Runs::new(LSTM);
    let often = "run.log_every = 3\n";
    runs.trained("alone", 10, often);
    let alone = lines(&runs, "alone");
    assert_eq!(alone.iter().filter_map(|line| line["step"].as_u64()).collect::<Vec<_>>(), [3, 6, 9, 10]);
    for strategy in ["ddp", "dp", "model", "pipeline"] {
        let more = format!("device.devices = 'cpu,cpu'\ndevice.strategy = '{strategy}'\n{often}");
        runs.trained(strategy, 10, &more);
        let there = lines(&runs, strategy);
        assert_eq!(there.len(), alone.len());
        for (line, expected) in there.iter().zip(&alone) {
            for norm in ["gradient_norm", "parameter_norm"] {
                let [here, expected] = [line, expected].map(|line| line[norm].as_f64().expect(norm));
                assert!(expected > 0.0 && (here - expected).abs() < 1e-4 * expected, "{strategy}: {line}");
            }
        }
    }
}
