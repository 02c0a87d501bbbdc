use std::fmt;

use oomph_config::{Config, Precision, ScheduleKind, Value};
use oomph_core::significant;

/// Settings that make a training steadier whose loss is not finite: only those that its configuration accepts and does not have
/// yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Steadier(Vec<(&'static str, Value)>);

impl Steadier {
    /// The settings for a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        // Far above the optimizer's default, a tenth would fail too.
        let optimizer = &config.optimizer;
        let lower = (optimizer.lr / 10.0).min(optimizer.kind.optimizer_name().default_lr());
        let mut settings = vec![("optimizer.lr", Value::Number(significant(lower, 2)))];
        if config.memory.precision == Precision::Fp16 {
            settings.push(("memory.precision", Value::from("bf16")));
        }
        // One cycle has a warm-up of its own.
        let is_cycle = matches!(config.schedule.kind, ScheduleKind::OneCycle { .. });
        if config.schedule.warmup.is_none() && !is_cycle {
            settings.push(("schedule.warmup_steps", Value::from(WARMUP_STEPS)));
        }
        if config.optimizer.clip.is_none() {
            settings.push(("optimizer.clip_global_norm", Value::Number(1.0)));
        }
        Self(settings)
    }
}

const WARMUP_STEPS: usize = 100;

/// ``try `--set optimizer.lr=0.01` or `--set optimizer.clip_global_norm=1.0` ``.
impl fmt::Display for Steadier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("try ")?;
        for (index, (key, value)) in self.0.iter().enumerate() {
            let between = match index {
                0 => "",
                _ if index + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{between}`--set {key}={}`", value.typed())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use oomph_config::{ConfigFile, Sources};

    use super::*;

    #[test]
    fn what_it_proposes_is_accepted_and_new() {
        for (text, says) in [
            (
                "",
                "`--set optimizer.lr=0.01`, `--set schedule.warmup_steps=100` or `--set optimizer.clip_global_norm=1.0`",
            ),
            ("schedule.name = 'one-cycle'\noptimizer.clip_global_norm = 1", "`--set optimizer.lr=0.01`"),
            (
                "schedule = { name = 'cosine', warmup_steps = 5 }\nmemory.precision = 'fp16'\noptimizer = { lr = 3e-4, clip_norm = 2 }",
                "`--set optimizer.lr=3e-5` or `--set memory.precision=bf16`",
            ),
        ] {
            let file = ConfigFile::from_text("x.toml", text);
            let steadier = Steadier::of(&Config::load(&Sources::new(file.clone())).expect("a config"));
            assert_eq!(steadier.to_string(), format!("try {says}"));
            for (key, value) in &steadier.0 {
                let sources =
                    Sources::new(file.clone()).set(&format!("{key}={}", value.typed())).expect("a setting");
                Config::load(&sources).unwrap_or_else(|error| panic!("{text}: {key}: {error}"));
            }
        }
    }
}
