//! Callbacks: a learning rate, a measure and an end of your own.
//!
//! ```sh
//! cargo run --release --example callbacks
//! ```
//!
//! docs/guides/train-from-code.md explains each part.

use std::{collections::BTreeMap, error::Error, f64::consts::PI};

use oomph::{
    Config, Event, Observer, Registry, Stop, TrainOptions,
    data::Targets,
    open,
    runs::EvalMetrics,
    trainer::{Evaluation, callback::Callback, train_with},
};

// Measures the memory of training.
oomph::install_meter!();

const CONFIG: &str = "
    model = { name = 'lstm', hidden = 32 }
    data = { source = 'digits', layout = 'rows', workers = 0 }
    train = { epochs = 30, eval_every = '1 epoch' }
    optimizer = { name = 'adam', lr = 0.01 }
    run.directory = 'runs/callbacks'
    ";

/// The training of this program.
struct Own {
    /// Steps of a cycle of the learning rate.
    cycle: usize,
    /// The training ends when the worst class reaches this recall.
    target: f64,
    /// For each class its samples, and those that were found.
    found: BTreeMap<i64, [u32; 2]>,
}

impl Callback for Own {
    /// Warm restarts (Loshchilov and Hutter 2016, <https://arxiv.org/abs/1608.03983>). The rate depends on the step alone, so
    /// a resumed run has the same.
    fn lr(&mut self, step: usize, scheduled: f64) -> f64 {
        let progress = (step % self.cycle) as f64 / self.cycle as f64;
        scheduled * 0.5 * (1.0 + (PI * progress).cos())
    }

    fn wants_predictions(&self) -> bool {
        true
    }

    fn predictions(&mut self, outputs: &[f32], targets: &Targets) {
        let Targets::Classes(classes) = targets else { return };
        for (logits, class) in outputs.chunks_exact(outputs.len() / classes.len()).zip(classes) {
            let likeliest = (0..logits.len()).max_by(|one, other| logits[*one].total_cmp(&logits[*other]));
            let [samples, found] = self.found.entry(*class).or_default();
            *samples += 1;
            *found += u32::from(likeliest == usize::try_from(*class).ok());
        }
    }

    fn measures(&mut self, _evaluation: &Evaluation) -> BTreeMap<String, f64> {
        let recalls = std::mem::take(&mut self.found);
        let recalls = recalls.values().map(|[samples, found]| f64::from(*found) / f64::from(*samples));
        [("worst_recall".to_owned(), recalls.fold(1.0, f64::min))].into()
    }

    fn stops(&mut self, event: &Event) -> bool {
        matches!(event, Event::Eval(EvalMetrics { measures, .. }) if measures["worst_recall"] >= self.target)
    }
}

/// Prints evaluations.
struct Printed;

impl Observer for Printed {
    fn event(&mut self, event: &Event) {
        if let Event::Eval(EvalMetrics { epoch, eval_loss, measures, .. }) = event {
            println!("epoch {epoch:2}  loss {eval_loss:.4}  worst recall {:.3}", measures["worst_recall"]);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let session = open(Config::from_toml("callbacks", CONFIG)?, &Registry::builtin())?;
    let mut own = Own { cycle: 225, target: 0.95, found: BTreeMap::new() };
    let done = train_with(&session, &TrainOptions::default(), &mut Printed, &mut own, &Stop::new())?;
    println!("{} steps, saved in {}", done.step, done.checkpoint.display());
    Ok(())
}
