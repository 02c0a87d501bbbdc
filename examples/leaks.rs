//! The classic memory leaks of training loops, each with its fix, and how the leak watch of oomph finds them.
//!
//! ```sh
//! cargo run --release --example leaks
//! ```
//!
//! `train` has this watch built in. Here it runs in hand-written loops: see [`Lab::steps`]. Every loop runs 20 steps of a
//! small ResNet on the built-in digits.

use oomph_engine::session::train_order;
use oomph_trainer::open;
use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use oomph::burn::tensor::{Device, Tensor, TensorData};
use oomph::data::{Loader, Targets};
use oomph::engine::optimizer::Optimizer;
use oomph::memory::{
    Account, charge,
    leak::{Leak, LeakWatch, Point},
};
use oomph::model::autodiff;
use oomph::{
    AnyTensor, Config, DeviceTargets, Key, Named, Pass, Phase, Registry, Session, SessionError, Split,
    Stages, TrainError, Values, phase,
};

// The watch reads the meter. (The test of this file installs its own.)
#[cfg(not(test))]
oomph::install_meter!();

/// Runs every mistake and every fix, and prints the reports of the watch.
#[cfg(not(test))]
fn main() -> Result<(), TrainError> {
    println!("{:66} {:12} {:>11}   the fix", "mistake", "found after", "a step adds");
    let mut said = Vec::new();
    for Mistake { name, leaking, cured } in MISTAKES {
        let found = Lab::new()?.run(leaking)?;
        let [after, adds] = match &found {
            Some(Found { step, leak }) => [format!("step {step}"), leak.growth.bytes_per_step.to_string()],
            None => ["never".to_owned(), String::new()],
        };
        let cure = if Lab::new()?.run(cured)?.is_none() { "no alarm" } else { "leaks too" };
        println!("{name:66} {after:12} {adds:>11}   {cure}");
        said.extend(found.map(|found| (name, found.leak)));
    }
    for (name, leak) in said {
        println!("\n{name}:\n{leak}");
    }
    Ok(())
}

/// A mistake and its fix.
pub(crate) struct Mistake {
    /// The mistake in words.
    pub(crate) name: &'static str,
    /// The loop with the mistake.
    pub(crate) leaking: Steps,
    /// The loop with the fix.
    pub(crate) cured: Steps,
}

/// A loop of steps under the watch.
pub(crate) type Steps = fn(&mut Lab) -> Result<(), TrainError>;

/// All mistakes.
pub(crate) const MISTAKES: [Mistake; 7] = [
    Mistake { name: "losses are summed as tensors", leaking: sum_of_tensors, cured: sum_of_numbers },
    Mistake { name: "outputs are kept on the device", leaking: kept_outputs, cured: counted_outputs },
    Mistake {
        name: "evaluation runs on the autodiff device, and its results are kept",
        leaking: evaluation_with_autodiff,
        cured: evaluation_without,
    },
    Mistake { name: "gradients are kept after their step", leaking: kept_gradients, cured: kept_norms },
    Mistake { name: "a closure holds a clone of the model", leaking: many_clones, cured: newest_clone },
    Mistake { name: "tensors lie in a cycle of `Rc`s", leaking: strong_cycle, cured: weak_link },
    Mistake {
        name: "a forward pass on the autodiff device has no backward",
        leaking: looking_with_autodiff,
        cured: looking_without,
    },
];

// Summing losses ------------------------------------------------------------------------------------------------------

/// A loss tensor holds its graph, and so every activation. A sum of tensors holds the graphs of all its losses.
///
/// Burn frees a graph in `backward`, so a sum of training losses would grow by only a few bytes per step. This loop sums a
/// loss without a backward pass.
fn sum_of_tensors(lab: &mut Lab) -> Result<(), TrainError> {
    let mut total: Option<Tensor<1>> = None;
    lab.steps(|lab| {
        lab.train()?;
        let loss = lab.loss()?;
        total = Some(match total.take() {
            Some(total) => total + loss,
            None => loss,
        });
        Ok(())
    })
}

/// The fix: a number has no graph. Without the autodiff device there is no graph at all.
fn sum_of_numbers(lab: &mut Lab) -> Result<(), TrainError> {
    let mut total = 0.0;
    lab.steps(|lab| {
        lab.train()?;
        let loss: f32 = lab.loss_without_autodiff()?.into_scalar();
        total += loss;
        Ok(())
    })
}

// Keeping outputs -----------------------------------------------------------------------------------------------------

/// Keeps the predictions of an epoch as tensors for a metric: one more batch on the device every step.
fn kept_outputs(lab: &mut Lab) -> Result<(), TrainError> {
    let mut outputs = Vec::new();
    lab.steps(|lab| {
        outputs.push(lab.train()?);
        Ok(())
    })
}

/// The fix: the metric needs one number per batch. For a metric of all predictions, `to_host` moves them to the host.
fn counted_outputs(lab: &mut Lab) -> Result<(), TrainError> {
    let mut right = 0.0;
    lab.steps(|lab| {
        let output = lab.train()?;
        if let Some(correct) = lab.session.task.correct(&output, &lab.targets) {
            let correct: f32 = correct.into_scalar();
            right += correct;
        }
        Ok(())
    })
}

// Evaluating with autodiff --------------------------------------------------------------------------------------------

/// An evaluation has no `backward`, so on the autodiff device the activations of every batch stay. The graphs are large,
/// not the results: these take 640 bytes per batch.
fn evaluation_with_autodiff(lab: &mut Lab) -> Result<(), TrainError> {
    let mut results = Vec::new();
    lab.eval_batches(|lab| {
        let _phase = phase(Phase::Eval);
        results.push(lab.model.forward(lab.input.clone(), &mut Pass::eval())?);
        Ok(())
    })
}

/// The fix: `inference` gives the model without the autodiff device, sharing the parameters. The results go to the host.
fn evaluation_without(lab: &mut Lab) -> Result<(), TrainError> {
    let mut results = Vec::new();
    let model = lab.model.inference();
    lab.eval_batches(|lab| {
        let _phase = phase(Phase::Eval);
        let output = model.forward(lab.input.clone().inner(), &mut Pass::eval())?;
        results.push(charge(Account::Host, || output.to_host())?);
        Ok(())
    })
}

// Keeping gradients ---------------------------------------------------------------------------------------------------

/// Keeps the gradients of every step for later. Gradients are as large as the parameters.
fn kept_gradients(lab: &mut Lab) -> Result<(), TrainError> {
    let mut history: Vec<Named<AnyTensor>> = Vec::new();
    lab.steps(|lab| {
        let gradients = lab.gradients()?;
        history.push(gradients.clone()); // shares the memory, and keeps it alive
        lab.update(gradients);
        Ok(())
    })
}

/// The fix: keep only the figure of interest, here the norm.
fn kept_norms(lab: &mut Lab) -> Result<(), TrainError> {
    let mut history: Vec<f32> = Vec::new();
    lab.steps(|lab| {
        let gradients = lab.gradients()?;
        let squares = gradients.values().map(|gradient| gradient.clone().sum_of_squares());
        let square: f32 = squares.map(|square| square.into_scalar::<f32>()).sum();
        history.push(square.sqrt());
        lab.update(gradients);
        Ok(())
    })
}

// A clone in a closure ------------------------------------------------------------------------------------------------

/// Deferred work on the current model.
type Later = Box<dyn Fn() -> usize>;

/// A clone of a model shares its memory until the optimizer replaces the parameters. From then on the clone alone keeps the
/// old ones alive. Deferred closures hold such clones, and so do lists of "best models" and caches.
fn many_clones(lab: &mut Lab) -> Result<(), TrainError> {
    let mut at_the_end: Vec<Later> = Vec::new();
    lab.steps(|lab| {
        lab.train()?;
        let model = lab.model.clone();
        at_the_end.push(Box::new(move || model.trainable_elements()));
        Ok(())
    })
}

/// The fix: keep only the newest clone; older ones are checkpoints on disk.
fn newest_clone(lab: &mut Lab) -> Result<(), TrainError> {
    let mut at_the_end: Option<Later> = None;
    lab.steps(|lab| {
        lab.train()?;
        let model = lab.model.clone();
        at_the_end = Some(Box::new(move || model.trainable_elements()));
        Ok(())
    })?;
    at_the_end.map(|later| later());
    Ok(())
}

// A reference cycle ---------------------------------------------------------------------------------------------------

/// An output, with a reference to its explanation.
struct Prediction {
    _output: AnyTensor,
    explanation: RefCell<Option<Rc<Explanation>>>,
}

/// An explanation, with a counted reference back to the output.
struct Explanation {
    _of: Rc<Prediction>,
}

/// Two `Rc`s that refer to each other are never freed, nor are the tensors in them. No growing list points to the leak.
fn strong_cycle(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let prediction = Rc::new(Prediction { _output: lab.train()?, explanation: RefCell::default() });
        let explanation = Rc::new(Explanation { _of: prediction.clone() });
        prediction.explanation.replace(Some(explanation));
        Ok(())
    })
}

/// An output, with a reference to an explanation that does not keep it alive.
struct WeakPrediction {
    _output: AnyTensor,
    explanation: RefCell<Option<Rc<WeakExplanation>>>,
}

/// An explanation with a weak reference back to the output.
struct WeakExplanation {
    _of: Weak<WeakPrediction>,
}

/// The fix: one of the two references is [`Weak`].
fn weak_link(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let prediction = Rc::new(WeakPrediction { _output: lab.train()?, explanation: RefCell::default() });
        let explanation = Rc::new(WeakExplanation { _of: Rc::downgrade(&prediction) });
        prediction.explanation.replace(Some(explanation));
        Ok(())
    })
}

// Forward without backward --------------------------------------------------------------------------------------------

/// Reads the loss and keeps no tensor. But Burn frees graphs only in `backward`, so the graphs stay until the next one
/// (burn #4339 and #4970). A training step in between would free them; agents, samplers and predictors have no such step.
fn looking_with_autodiff(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let _: f32 = lab.loss()?.into_scalar();
        Ok(())
    })
}

/// The fix: compute without the autodiff device if there is no backward.
fn looking_without(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let _: f32 = lab.loss_without_autodiff()?.into_scalar();
        Ok(())
    })
}

// The laboratory ------------------------------------------------------------------------------------------------------

/// The number of steps of each loop.
pub(crate) const STEPS: usize = 20;

/// A leak that the watch reported.
#[derive(Debug)]
pub(crate) struct Found {
    /// The number of steps before the report.
    pub(crate) step: usize,
    /// The report.
    pub(crate) leak: Leak,
}

/// A model, an optimizer and one batch to train it on.
pub(crate) struct Lab {
    session: Session,
    model: Stages,
    optimizer: Optimizer,
    input: AnyTensor,
    targets: DeviceTargets,
    step: usize,
    found: Option<Found>,
}

const SETTINGS: &str = "
    model = { name = 'resnet18', stem = 'small', width = 4 }
    data = { source = 'digits', workers = 0 }
    train = { batch = 16, steps = 20 }
";

impl Lab {
    /// A new model and a batch of digits.
    ///
    /// # Errors
    /// If the built-in data or the model fails.
    pub(crate) fn new() -> Result<Self, TrainError> {
        let config = Config::from_toml("leaks", SETTINGS).map_err(SessionError::from)?;
        let session = open(config, &Registry::builtin())?;
        let device = session.device.clone().autodiff();
        let (source, order) = (session.source.clone(), train_order(&session));
        let mut batches = Loader::start(source, Split::Train, order, 0, 0, None, &session.loader);
        let batch = batches.next().transpose()?.ok_or(TrainError::NothingToEvaluate { unreadable: 0 })?;
        charge(Account::Device, || {
            Ok(Self {
                model: session.build()?,
                optimizer: Optimizer::new(&session.config.optimizer, oomph::Kernels::Cpu),
                input: input(batch.input, &batch.shape, &device),
                targets: targets(batch.targets, &device),
                session,
                step: 0,
                found: None,
            })
        })
    }

    /// Runs a loop and returns the first report of the watch.
    ///
    /// # Errors
    /// The errors of the steps.
    pub(crate) fn run(&mut self, steps: Steps) -> Result<Option<Found>, TrainError> {
        // Charges the allocations of this thread to the device, as `train` does.
        charge(Account::Device, || steps(self))?;
        Ok(self.found.take())
    }

    /// A training loop with the leak watch in it.
    fn steps(&mut self, mut step: impl FnMut(&mut Self) -> Result<(), TrainError>) -> Result<(), TrainError> {
        let mut watch = LeakWatch::new(oomph::memory::limit());
        for _ in 0..STEPS {
            step(self)?;
            self.step += 1;
            self.note(watch.check(Point::step(16)));
        }
        Ok(())
    }

    /// An evaluation with the leak watch in it.
    fn eval_batches(
        &mut self,
        mut batch: impl FnMut(&mut Self) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let mut watch = LeakWatch::new(oomph::memory::limit());
        for _ in 0..STEPS {
            batch(self)?;
            self.step += 1;
            self.note(watch.check(Point::eval_batch(16)));
        }
        Ok(())
    }

    fn note(&mut self, leak: Option<Leak>) {
        let step = self.step;
        self.found = self.found.take().or(leak.map(|leak| Found { step, leak }));
    }

    /// Runs a training step and returns the output of the model.
    fn train(&mut self) -> Result<AnyTensor, TrainError> {
        let (output, loss) = self.forward()?;
        let gradients = self.backward(loss);
        self.update(gradients);
        Ok(output)
    }

    /// The gradients of a step.
    fn gradients(&mut self) -> Result<Named<AnyTensor>, TrainError> {
        let (_, loss) = self.forward()?;
        Ok(self.backward(loss))
    }

    /// Output and loss, with their graph.
    fn forward(&mut self) -> Result<(AnyTensor, Tensor<1>), TrainError> {
        // The report names the phase that allocated a tensor.
        let _phase = phase(Phase::Forward);
        let mut pass = Pass::train(Key::new(self.step as u64));
        let output = self.model.forward(self.input.clone(), &mut pass)?;
        self.model.apply(pass.into_updates());
        let loss = self.session.task.loss(&output, &self.targets)?;
        Ok((output, loss))
    }

    fn backward(&self, loss: Tensor<1>) -> Named<AnyTensor> {
        let _phase = phase(Phase::Backward);
        autodiff::backward(loss, &self.model)
    }

    fn update(&mut self, gradients: Named<AnyTensor>) {
        let _phase = phase(Phase::Step);
        self.optimizer.step(0.01, &mut self.model, gradients);
    }

    /// The loss with its graph, not used for training.
    fn loss(&self) -> Result<Tensor<1>, TrainError> {
        let _phase = phase(Phase::Eval);
        let output = self.model.forward(self.input.clone(), &mut Pass::eval())?;
        Ok(self.session.task.loss(&output, &self.targets)?)
    }

    /// The loss without a graph.
    fn loss_without_autodiff(&self) -> Result<Tensor<1>, TrainError> {
        let _phase = phase(Phase::Eval);
        let output = self.model.inference().forward(self.input.clone().inner(), &mut Pass::eval())?;
        Ok(autodiff::inner(self.session.task.loss(&output, &self.targets)?))
    }
}

fn input(values: Values, shape: &[usize], device: &Device) -> AnyTensor {
    match values {
        Values::Floats(values) => AnyTensor::floats(values, shape, device),
        // The digits have no tokens.
        Values::Tokens(_) => AnyTensor::zeros(shape, device),
    }
}

fn targets(targets: Targets, device: &Device) -> DeviceTargets {
    match targets {
        // The config mixes no samples.
        Targets::Classes(classes) | Targets::Mixed { classes, .. } => {
            let count = classes.len();
            DeviceTargets::Classes(Tensor::from_data(TensorData::new(classes, [count]), device))
        }
        Targets::Labels { data, count } => {
            let shape = [data.len() / count.max(1), count];
            DeviceTargets::Labels(Tensor::from_data(TensorData::new(data, shape), device))
        }
        Targets::Values { data, features } => {
            let shape = [data.len() / features.max(1), features];
            DeviceTargets::Values(Tensor::from_data(TensorData::new(data, shape), device))
        }
        // The digits have no tokens as targets either.
        Targets::Tokens { steps, .. } => DeviceTargets::Tokens(Tensor::zeros([0, steps], device)),
    }
}
