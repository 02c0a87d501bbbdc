//! A training step, and the time of each of its operations.

use std::{error::Error, time::Instant};

use burn::tensor::DType;
use oomph_config::Config;
use oomph_core::Split;
use oomph_data::Loader;
use oomph_engine::session::{Session, on_compute_thread, train_order};
use oomph_kernels::{TimedOperation, timed, timed_for};
use oomph_memory::{Account, charge};
use oomph_trainer::{Registry, new_stepper, open};

/// Steps that fill the allocator and the optimizer's state, and steps that are timed.
const STEPS: [usize; 2] = [2, 8];

/// A step and its operations.
pub(crate) struct Step {
    pub(crate) seconds: f64,
    pub(crate) operations: Vec<TimedOperation>,
}

/// For whom the work of a step is divided.
#[derive(Clone, Copy)]
pub(crate) enum Division {
    /// For the threads that do it: one a core. The fastest time of each operation counts.
    Measured,
    /// For so many threads, while one does it. The fastest step counts.
    Assumed(usize),
}

/// Runs some steps in a format.
pub(crate) fn step_of(config: &str, format: DType, division: Division) -> Result<Step, Box<dyn Error>> {
    let precision = if format == DType::BF16 { "bf16" } else { "fp32" };
    let threads = match division {
        Division::Measured => "",
        Division::Assumed(_) => "device = { threads = 1 }",
    };
    let config = format!("{config}\nmemory = {{ precision = '{precision}' }}\n{threads}");
    let session = open(Config::from_toml("roofline", &config)?, &Registry::builtin())?;
    // As in a training. An error of another thread comes as its text.
    let fastest = || fastest_step(&session, division).map_err(|error| error.to_string());
    Ok(on_compute_thread(&session, fastest)?)
}

fn fastest_step(session: &Session, division: Division) -> Result<Step, Box<dyn Error>> {
    charge(Account::Device, || {
        let mut stepper = new_stepper(session)?.0;
        let mut loader = charge(Account::Host, || {
            let source = session.source.clone();
            Loader::start(source, Split::Train, train_order(session), 0, 0, Some(1), &session.loader)
        });
        let batch = charge(Account::Host, || loader.next()).ok_or("there is no batch")??;
        let mut fastest: Option<Step> = None;
        let [before, after] = STEPS;
        for step in 0..before + after {
            let batch = charge(Account::Host, || batch.clone());
            let begun = Instant::now();
            let work = || stepper.step(batch, step, 0.01, session.task.as_ref());
            let (outcome, operations) = match division {
                Division::Measured => timed(work),
                Division::Assumed(threads) => timed_for(threads, work),
            };
            let seconds = begun.elapsed().as_secs_f64();
            outcome?;
            if step < before {
                continue;
            }
            let step = Step { seconds, operations };
            fastest = Some(match (fastest, division) {
                (None, _) => step,
                (Some(fastest), Division::Measured) => fastest.or(step)?,
                // What is beside its operations is the rest of the step, so all are those of one.
                (Some(fastest), Division::Assumed(_)) if fastest.seconds <= step.seconds => fastest,
                (Some(_), Division::Assumed(_)) => step,
            });
        }
        Ok(fastest.ok_or("no step was timed")?)
    })
}

impl Step {
    /// The fastest times of two steps.
    fn or(mut self, other: Self) -> Result<Self, &'static str> {
        if self.operations.len() != other.operations.len() {
            return Err("two steps have different operations");
        }
        self.seconds = self.seconds.min(other.seconds);
        for (one, other) in self.operations.iter_mut().zip(other.operations) {
            one.time = one.time.min(other.time);
        }
        Ok(self)
    }
}
