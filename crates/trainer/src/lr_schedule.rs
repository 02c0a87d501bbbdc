use std::f64::consts::PI;

use oomph_config::{
    Anneal, Drops, Schedule as ScheduleSettings, ScheduleKind, Warmup,
    sections::averaging::{Averaging, Swa},
};
use oomph_engine::session::{Session, steps, steps_per_epoch};

/// The learning rate as a function of the step alone.
#[derive(Clone, Debug)]
pub struct LrSchedule {
    settings: ScheduleSettings,
    lr: f64,
    steps: usize,
    steps_per_epoch: usize,
    swa: Option<Swa>,
}

impl LrSchedule {
    /// The schedule of a run of `steps` optimizer steps, with `lr` from the optimizer's settings.
    pub fn new(settings: &ScheduleSettings, lr: f64, steps: usize, steps_per_epoch: usize) -> Self {
        let (steps, steps_per_epoch) = (steps.max(1), steps_per_epoch.max(1));
        Self { settings: settings.clone(), lr, steps, steps_per_epoch, swa: None }
    }

    /// The schedule with the learning rate of SWA, if it has one. As by PyTorch's `SWALR` the rate goes to it by a cosine,
    /// here within the first interval, at whose end the first weights are averaged. Then it stays.
    #[must_use]
    pub fn with_swa(self, swa: Swa) -> Self {
        Self { swa: Some(swa), ..self }
    }

    /// The learning rate of step `step`, counted from 0.
    pub fn lr(&self, step: usize) -> f64 {
        let Some((swa, lr)) = self.swa.and_then(|swa| Some((swa, swa.lr?))) else {
            return self.scheduled(step);
        };
        let first = swa.first_step(self.steps);
        if step < first {
            return self.scheduled(step);
        }
        let progress = (step - first) as f64 / swa.interval_steps(self.steps_per_epoch) as f64;
        between(self.scheduled(first), lr, progress.min(1.0), Anneal::Cosine)
    }

    /// The learning rate without SWA.
    fn scheduled(&self, step: usize) -> f64 {
        let Some(Warmup { length, start }) = self.settings.warmup else {
            return self.proper(step, 0);
        };
        let warmup = length.steps(self.steps_per_epoch);
        if step < warmup {
            return self.lr * (start + (1.0 - start) * step as f64 / warmup as f64);
        }
        self.proper(step, warmup)
    }

    /// How much of the run after `warmup` steps is over, from 0 to 1.
    fn progress(&self, step: usize, warmup: usize) -> f64 {
        let steps = self.steps.saturating_sub(warmup).max(1);
        ((step - warmup) as f64 / steps as f64).min(1.0)
    }

    /// The schedule after `warmup` steps. Epochs count from the start of the run, steps from the end of the warm-up.
    fn proper(&self, step: usize, warmup: usize) -> f64 {
        match &self.settings.kind {
            ScheduleKind::Constant => self.lr,
            ScheduleKind::Cosine { final_lr } => {
                final_lr + (self.lr - final_lr) * 0.5 * (1.0 + (PI * self.progress(step, warmup)).cos())
            }
            ScheduleKind::Polynomial { final_lr, power } => {
                final_lr + (self.lr - final_lr) * (1.0 - self.progress(step, warmup)).powf(*power)
            }
            ScheduleKind::Exponential { final_lr } => {
                self.lr * (final_lr / self.lr).powf(self.progress(step, warmup))
            }
            ScheduleKind::Step { at, gamma } => {
                let drops = match at {
                    Drops::EverySteps(every) => (step - warmup) / every,
                    Drops::EveryEpochs(every) => step / self.steps_per_epoch / every,
                    Drops::AfterEpochs(epochs) => {
                        let epoch = step / self.steps_per_epoch;
                        epochs.iter().filter(|milestone| epoch >= **milestone).count()
                    }
                };
                self.lr * gamma.powi(drops as i32)
            }
            &ScheduleKind::OneCycle { warmup_fraction, div, final_div, anneal } => {
                let (first, last) = (self.lr / div, self.lr / div / final_div);
                // PyTorch's `OneCycleLR`: the peak is reached at step fraction × total − 1, the end at total − 1.
                let steps = self.steps as f64;
                let (peak, end) = (warmup_fraction * steps - 1.0, steps - 1.0);
                let step = (step as f64).min(end);
                if step <= peak {
                    between(first, self.lr, step / peak, anneal)
                } else {
                    between(self.lr, last, (step - peak) / (end - peak), anneal)
                }
            }
        }
    }
}

/// The learning rate over the session's whole run.
pub fn lr_schedule(session: &Session) -> LrSchedule {
    let lr = session.config.optimizer.lr;
    let schedule = LrSchedule::new(&session.config.schedule, lr, steps(session), steps_per_epoch(session));
    match session.config.train.average {
        Some(Averaging::Swa(swa)) => schedule.with_swa(swa),
        _ => schedule,
    }
}

/// Interpolates from `from` to `to` as `progress` goes from 0 to 1. An empty interval (0 / 0) counts as 1.
fn between(from: f64, to: f64, progress: f64, anneal: Anneal) -> f64 {
    let progress = if progress.is_finite() { progress } else { 1.0 };
    match anneal {
        Anneal::Cosine => to + (from - to) * 0.5 * (1.0 + (PI * progress).cos()),
        Anneal::Linear => from + (to - from) * progress,
    }
}

#[cfg(test)]
mod tests {
    use oomph_config::{Config, Interval};

    use super::*;

    fn schedule(text: &str) -> LrSchedule {
        let text = format!("optimizer = {{ lr = 1.0 }}\n[schedule]\n{text}");
        LrSchedule::new(&Config::from_toml("test", &text).unwrap().schedule, 1.0, 40, 5)
    }

    #[test]
    fn drops_after_epochs_fall_on_epochs_with_and_without_warm_up() {
        let step = "name = 'step'\nmilestones_epochs = [2, 4]\ngamma = 0.5";
        for text in [step.to_owned(), format!("{step}\nwarmup_steps = 3")] {
            let schedule = schedule(&text);
            let rates = [9, 10, 19, 20].map(|step| schedule.lr(step));
            assert_eq!(rates, [1.0, 0.5, 0.5, 0.25], "{text}");
        }
    }

    #[test]
    fn a_polynomial_and_an_exponential_end_at_their_final_rate() {
        let of = |text: &str, steps: [usize; 3]| {
            let schedule = schedule(text);
            steps.map(|step| (schedule.lr(step) * 1e6).round() / 1e6)
        };
        // A run of 40 steps: after 20 of them, half is over.
        assert_eq!(of("name = 'polynomial'", [0, 20, 40]), [1.0, 0.5, 0.0]);
        assert_eq!(of("name = 'polynomial'\npower = 2\nfinal_lr = 0.2", [0, 20, 40]), [1.0, 0.4, 0.2]);
        assert_eq!(of("name = 'exponential'\nfinal_lr = 1e-4", [0, 20, 40]), [1.0, 0.01, 1e-4]);
        assert_eq!(of("name = 'exponential'\nfinal_lr = 100", [0, 20, 40]), [1.0, 10.0, 100.0]);
        // Two epochs of five steps of warm-up.
        assert_eq!(of("name = 'polynomial'\nwarmup_epochs = 2", [5, 10, 25]), [0.5, 1.0, 0.5]);
    }

    #[test]
    fn swa_anneals_to_its_rate_within_its_first_interval() {
        // 40 steps in epochs of 5: SWA begins after step 20.
        let swa = Swa { start: 0.5, every: Interval::Epochs(2), lr: Some(0.2) };
        let schedule = schedule("name = 'polynomial'").with_swa(swa);
        let rates = [10, 19, 20, 25, 30, 39].map(|step| (schedule.lr(step) * 1e6).round() / 1e6);
        assert_eq!(rates, [0.75, 0.525, 0.5, 0.35, 0.2, 0.2]);
        let without_rate = schedule.with_swa(Swa { lr: None, ..swa });
        assert_eq!(without_rate.lr(30), 0.25);
    }

    #[test]
    fn a_cosine_goes_over_what_warm_up_leaves() {
        let schedule = schedule("name = 'cosine'\nwarmup_steps = 10");
        let rates = [0, 5, 10, 25].map(|step| schedule.lr(step));
        assert_eq!(rates[..3], [0.0, 0.5, 1.0]);
        assert!((rates[3] - 0.5).abs() < 1e-12);
        assert!(schedule.lr(39) < 0.01);
    }
}
