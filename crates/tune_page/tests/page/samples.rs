//! Studies as a search would leave them.

use std::collections::BTreeMap;

use oomph_core::{Bytes, Generator, Key};
use oomph_tune_page::{
    Goal, PageParameter, PageTrial, ParameterKind, ParameterValue, StudyPage, TrialStatus,
};

const LEVELS: [u64; 4] = [1, 3, 9, 27];

fn parameter(name: &str, kind: ParameterKind) -> PageParameter {
    PageParameter { name: name.into(), kind, when: None }
}

fn choice<const N: usize>(name: &str, choices: [&str; N]) -> PageParameter {
    let choices = choices.map(ParameterValue::from).into();
    parameter(name, ParameterKind::Choice { choices })
}

fn space() -> Vec<PageParameter> {
    let momentum = PageParameter {
        when: Some("optimizer.name = sgd".into()),
        ..parameter("optimizer.momentum", ParameterKind::Float { low: 0.0, high: 0.99, log: false })
    };
    vec![
        parameter("optimizer.lr", ParameterKind::Float { low: 1e-4, high: 1e-1, log: true }),
        choice("optimizer.name", ["sgd", "adamw", "lion"]),
        momentum,
        parameter("optimizer.weight_decay", ParameterKind::Float { low: 1e-6, high: 1e-2, log: true }),
        parameter("model.width", ParameterKind::Integer { low: 8, high: 64, log: false }),
        parameter("train.batch", ParameterKind::Integer { low: 16, high: 256, log: true }),
        parameter("model.dropout", ParameterKind::Float { low: 0.0, high: 0.5, log: false }),
    ]
}

/// A trial of a sample: its values, and what they lead to.
struct Sampled {
    trial: PageTrial,
    /// The loss after endless training.
    floor: f64,
    speed: f64,
    planned: u64,
}

/// Values that come nearer to good ones from trial to trial, as a search's do.
fn sampled(number: u64, count: u64) -> Sampled {
    let mut generator = Generator::at(Key::new(7).with(number));
    let mut uniform = || f64::from(generator.uniform());
    let near = (number as f64 / count as f64 - 0.1).clamp(0.0, 0.8);
    let mut towards = |good: f64| {
        let [far, spread] = [uniform(), uniform()];
        if uniform() < near { (good + (spread - 0.5) * 0.3).clamp(0.0, 1.0) } else { far }
    };
    let [lr, decay, width, batch, dropout, momentum, optimizer] =
        [0.6, 0.5, 0.75, 0.35, 0.3, 0.9, 0.5].map(&mut towards);
    let optimizer = ["sgd", "adamw", "lion"][((optimizer * 3.0) as usize).min(2)];
    let width_value = 8 + 8 * (width * 7.0).round() as i64;
    let batch_value = 16 << (batch * 4.0).round() as i64;
    let mut parameters: BTreeMap<String, ParameterValue> = BTreeMap::new();
    let mut set = |name: &str, value: ParameterValue| _ = parameters.insert(name.into(), value);
    set("optimizer.lr", (1e-4 * 1e3_f64.powf(lr)).into());
    set("optimizer.name", optimizer.into());
    set("optimizer.weight_decay", (1e-6 * 1e4_f64.powf(decay)).into());
    set("model.width", width_value.into());
    set("train.batch", batch_value.into());
    set("model.dropout", ((dropout * 50.0).round() / 100.0).into());
    if optimizer == "sgd" {
        set("optimizer.momentum", ((momentum * 99.0).round() / 100.0).into());
    }
    let off = (lr - 0.6) * if optimizer == "sgd" { 1.0 } else { 1.5 };
    let floor = 0.11
        + 1.6 * off * off
        + 0.12 * (1.0 - width)
        + 0.1 * (dropout - 0.3).powi(2)
        + 0.04 * uniform()
        + if optimizer == "lion" { 0.05 } else { 0.0 };
    let planned =
        (38.0 + width_value as f64 * 1.9 + batch_value as f64 * width_value as f64 * 0.034) * 1048576.0;
    let trial = PageTrial {
        parameters,
        planned_peak_bytes: Some(Bytes::new(planned as u64)),
        ..PageTrial::new(number, TrialStatus::Waiting)
    };
    Sampled { trial, floor, speed: 0.5 + lr, planned: planned as u64 }
}

impl Sampled {
    /// Trained for `epochs`.
    fn trained(mut self, epochs: u64, status: TrialStatus) -> PageTrial {
        let mut generator = Generator::at(Key::new(8).with(self.trial.number));
        for epoch in 1..=epochs {
            let noise = 1.0 + 0.03 * f64::from(generator.normal());
            let value = (self.floor + 2.0 * (1.0 + epoch as f64 * self.speed).powf(-1.25)) * noise;
            self.trial.steps.insert(epoch, value);
        }
        self.trial.status = status;
        self.trial.value = self.trial.steps.get(&epochs).copied().filter(|_| status == TrialStatus::Complete);
        let error = 1.0 + 0.01 * f64::from(generator.normal());
        self.trial.measured_peak_bytes = Some(Bytes::new((self.planned as f64 * error) as u64));
        self.trial.seconds = Some(epochs as f64 * (4.0 + self.planned as f64 / 6e7));
        self.trial
    }
}

fn study(name: &str, trials: Vec<PageTrial>) -> StudyPage {
    StudyPage {
        name: name.into(),
        metric: "eval loss".into(),
        goal: Goal::Minimize,
        unit: "epochs".into(),
        levels: LEVELS.into(),
        parameters: space(),
        trials,
        limit_bytes: Some(Bytes::mib(512)),
        made: "2026-11-24 18:30 UTC".into(),
    }
}

/// Some trials without a scheduler.
pub(crate) fn few(count: u64) -> StudyPage {
    let trials = (0..count).map(|number| sampled(number, count).trained(5, TrialStatus::Complete)).collect();
    StudyPage { levels: vec![], ..study(&format!("digits-{count}"), trials) }
}

/// ASHA by promotion: of those at a level the best third continues.
pub(crate) fn asha(count: u64) -> StudyPage {
    let mut trials: Vec<PageTrial> = Vec::new();
    let mut at_level = vec![Vec::new(); LEVELS.len()];
    for number in 0..count {
        let sampled = sampled(number, count);
        let planned = Bytes::new(sampled.planned);
        trials.push(match number {
            _ if planned > Bytes::mib(512) => {
                let reason = format!("planned peak {planned}, limit {}", Bytes::mib(512));
                PageTrial { status: TrialStatus::Infeasible, reason: Some(reason), ..sampled.trial }
            }
            _ if number % 29 == 11 => {
                let reason = Some("loss is not a number at epoch 2".into());
                PageTrial { reason, seconds: Some(9.0), ..sampled.trained(1, TrialStatus::Failed) }
            }
            _ => {
                let curve = self::sampled(number, count).trained(27, TrialStatus::Complete).steps;
                let mut level = 0;
                while level < LEVELS.len() {
                    at_level[level].push(curve[&LEVELS[level]]);
                    let rank = at_level[level].iter().filter(|other| **other < curve[&LEVELS[level]]).count();
                    if level + 1 == LEVELS.len() || rank >= at_level[level].len().div_ceil(3) {
                        break;
                    }
                    level += 1;
                }
                let ends =
                    if level + 1 == LEVELS.len() { TrialStatus::Complete } else { TrialStatus::Pruned };
                let mut trial = sampled.trained(LEVELS[level], ends);
                if ends == TrialStatus::Pruned {
                    trial.reason = Some(format!("not in the best third after {} epochs", LEVELS[level]));
                }
                if planned > Bytes::mib(230) && number % 3 == 0 {
                    trial.adapted = [
                        ("memory.micro_batch".into(), 32.into()),
                        ("memory.recompute".into(), "stages".into()),
                    ]
                    .into();
                }
                trial
            }
        });
    }
    let is_late = |number: u64| number * 100 >= count * 92;
    for trial in trials.iter_mut().filter(|trial| is_late(trial.number)) {
        if trial.status == TrialStatus::Pruned {
            (trial.status, trial.reason) = (TrialStatus::Paused, None);
        }
    }
    if let [.., a, b, c] = &mut trials[..] {
        *a = sampled(a.number, count).trained(2, TrialStatus::Running);
        *b = PageTrial { status: TrialStatus::Running, ..sampled(b.number, count).trial };
        *c = sampled(c.number, count).trial;
    }
    study("digits-lstm", trials)
}

/// Accuracies of some trials that mostly diverge, with a parameter of each kind and a limit below all peaks.
pub(crate) fn odd() -> StudyPage {
    let mut study = asha(60);
    (study.name, study.metric, study.goal) = ("accuracies".into(), "eval accuracy".into(), Goal::Maximize);
    study.limit_bytes = Some(Bytes::mib(64));
    let flip = |value: &f64| 1.0 - value / 4.0;
    for trial in &mut study.trials {
        trial.value = trial.value.as_ref().map(flip);
        trial.steps.values_mut().for_each(|value| *value = flip(value));
        trial.measured_peak_bytes = None;
    }
    for trial in study.trials.iter_mut().filter(|trial| trial.number % 17 == 3) {
        trial.steps.values_mut().for_each(|value| *value = -1e30);
        trial.value = trial.value.map(|_| f64::NEG_INFINITY);
    }
    study
}

/// Names and texts that try to become markup, code or structure.
pub(crate) fn hostile() -> StudyPage {
    const EVIL: &str =
        "</script><script>window.owned=1</script><img src=x onerror=window.owned=1>\u{202e}gpj.exe";
    let mut study = asha(40);
    study.name = format!("</title>{EVIL}");
    (study.metric, study.unit, study.made) =
        (format!("{{{{data}}}}{EVIL}"), format!("epochs{EVIL}"), EVIL.into());
    let names = [
        EVIL,
        "__proto__",
        "'; rm -rf $HOME; '",
        "a.\n\u{0}\u{2028}\"b\"",
        "a.constructor",
        "重み 🦀",
        "<b>",
    ];
    let renamed: BTreeMap<String, String> = study
        .parameters
        .iter()
        .zip(names)
        .map(|(parameter, name)| (parameter.name.clone(), name.to_owned()))
        .collect();
    for parameter in &mut study.parameters {
        parameter.name = renamed[&parameter.name].clone();
        parameter.when = Some(EVIL.into());
        if let ParameterKind::Choice { choices } = &mut parameter.kind {
            choices[1] = EVIL.into();
        }
    }
    for trial in &mut study.trials {
        trial.parameters = std::mem::take(&mut trial.parameters)
            .into_iter()
            .map(|(name, value)| {
                (renamed[&name].clone(), if value == "adamw".into() { EVIL.into() } else { value })
            })
            .collect();
        trial.reason = Some(EVIL.into());
        trial.adapted = [(EVIL.into(), EVIL.into())].into();
    }
    study
}
