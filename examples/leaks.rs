//! The classic memory leaks of training loops, a function each, with the cure beside it, and how the leak watch of
//! oomph finds them.
//!
//! ```sh
//! cargo run --release --example leaks
//! ```
//!
//! `train` has this watch built in. Here it is used in loops of our own: see [`Lab::steps`], which is all it takes.
//! Every loop runs for 20 steps, with a small ResNet on the embedded digits.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
};

use oomph::burn::tensor::{Device, Tensor, TensorData};
use oomph::data::{Loader, Targets};
use oomph::memory::{
    Account, charge,
    leak::{Leak, LeakWatch, Point},
};
use oomph::model::autodiff;
use oomph::trainer::Optimizer;
use oomph::{
    AnyTensor, Config, DeviceTargets, Key, Named, Pass, Phase, Registry, Session, SessionError, Split,
    Stages, TrainError, Values, phase,
};

// Leaks are found by what the meter counts. (The test of this file has its own.)
#[cfg(not(test))]
oomph::install_meter!();

/// Runs every mistake and every cure and prints what the watch says.
#[cfg(not(test))]
fn main() -> Result<(), TrainError> {
    println!("{:66} {:12} {:>11}   the cure", "mistake", "found after", "a step adds");
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

/// A mistake and its cure.
pub(crate) struct Mistake {
    /// What is done wrong.
    pub(crate) name: &'static str,
    /// The loop that does it.
    pub(crate) leaking: Steps,
    /// The loop that does it right.
    pub(crate) cured: Steps,
}

/// Some steps, with the watch looking on.
pub(crate) type Steps = fn(&mut Lab) -> Result<(), TrainError>;

/// All of them.
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

/// A loss holds on to the graph it was computed by, and so to every activation. A sum holds on to all its losses.
///
/// Burn takes a graph apart in `backward`, so the sum of the losses that were trained on would be a few bytes a step.
/// This one is of a loss that is only watched.
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

/// The cure: a number has no graph. That it is computed off the autodiff device saves the graph altogether.
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

/// Predictions of a whole epoch, kept as tensors to make a metric of them: a batch more on the device every step.
fn kept_outputs(lab: &mut Lab) -> Result<(), TrainError> {
    let mut outputs = Vec::new();
    lab.steps(|lab| {
        outputs.push(lab.train()?);
        Ok(())
    })
}

/// The cure: what the metric is made of is a number a batch. Where it takes all predictions, `to_host` brings them
/// where there is room for them.
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

/// Nobody calls `backward` in an evaluation, so on the autodiff device every batch leaves all its activations behind.
/// It is the graph that is large here, not the results: of those a list takes 640 bytes a batch.
fn evaluation_with_autodiff(lab: &mut Lab) -> Result<(), TrainError> {
    let mut results = Vec::new();
    lab.eval_batches(|lab| {
        let _phase = phase(Phase::Eval);
        results.push(lab.model.forward(lab.input.clone(), &mut Pass::eval())?);
        Ok(())
    })
}

/// The cure: `inference` is the same model off the autodiff device (it shares the parameters), and results go to the
/// host.
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

/// Gradients take as much as the parameters do. To look at them later they are kept, every step's.
fn kept_gradients(lab: &mut Lab) -> Result<(), TrainError> {
    let mut history: Vec<Named<AnyTensor>> = Vec::new();
    lab.steps(|lab| {
        let gradients = lab.gradients()?;
        history.push(gradients.clone()); // shares the memory, and keeps it
        lab.update(gradients);
        Ok(())
    })
}

/// The cure: keep what you look at, here the norm.
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

/// What is to be done later with the model of now.
type Later = Box<dyn Fn() -> usize>;

/// A clone of a model shares its memory until the optimizer replaces the parameters; then the clone is all that keeps
/// the old ones. A closure that is put off to the end of the run holds one, and so do lists of "best models" and caches.
fn many_clones(lab: &mut Lab) -> Result<(), TrainError> {
    let mut at_the_end: Vec<Later> = Vec::new();
    lab.steps(|lab| {
        lab.train()?;
        let model = lab.model.clone();
        at_the_end.push(Box::new(move || model.trainable_elements()));
        Ok(())
    })
}

/// The cure: one clone, the newest; the others are checkpoints on disk.
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

/// An output and the result that was made of it, which know each other.
struct Prediction {
    _output: AnyTensor,
    explanation: RefCell<Option<Rc<Explanation>>>,
}

/// The result, with a link back of which the count goes up.
struct Explanation {
    _of: Rc<Prediction>,
}

/// Rust frees what nobody refers to. Two `Rc`s that refer to each other are referred to for ever, with the tensors in
/// them, and no list of anything is to be found.
fn strong_cycle(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let prediction = Rc::new(Prediction { _output: lab.train()?, explanation: RefCell::default() });
        let explanation = Rc::new(Explanation { _of: prediction.clone() });
        prediction.explanation.replace(Some(explanation));
        Ok(())
    })
}

/// The same with a link back that does not count.
struct WeakPrediction {
    _output: AnyTensor,
    explanation: RefCell<Option<Rc<WeakExplanation>>>,
}

/// The result, which does not keep what it explains.
struct WeakExplanation {
    _of: Weak<WeakPrediction>,
}

/// The cure: one of the two links is [`Weak`].
fn weak_link(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let prediction = Rc::new(WeakPrediction { _output: lab.train()?, explanation: RefCell::default() });
        let explanation = Rc::new(WeakExplanation { _of: Rc::downgrade(&prediction) });
        prediction.explanation.replace(Some(explanation));
        Ok(())
    })
}

// Forward without backward --------------------------------------------------------------------------------------------

/// Nothing is kept here at all: the loss is read and dropped. But Burn takes graphs apart in `backward` only, and there
/// is none: the graphs stay until the next one (burn #4339 and #4970 are about this). With a training step in between
/// there is no leak; an agent that acts, a sampler that draws and a program that only predicts have no such step.
fn looking_with_autodiff(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let _: f32 = lab.loss()?.into_scalar();
        Ok(())
    })
}

/// The cure: what is not trained on is computed off the autodiff device.
fn looking_without(lab: &mut Lab) -> Result<(), TrainError> {
    lab.steps(|lab| {
        let _: f32 = lab.loss_without_autodiff()?.into_scalar();
        Ok(())
    })
}

// The laboratory ------------------------------------------------------------------------------------------------------

/// How long each loop runs.
pub(crate) const STEPS: usize = 20;

/// What the watch said, and when.
#[derive(Debug)]
pub(crate) struct Found {
    /// After how many steps.
    pub(crate) step: usize,
    /// What.
    pub(crate) leak: Leak,
}

/// A model with all that it takes to train it on one batch over and over.
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
    /// Where the embedded data or a built-in model fail.
    pub(crate) fn new() -> Result<Self, TrainError> {
        let config = Config::from_toml("leaks", SETTINGS).map_err(SessionError::from)?;
        let session = Session::open(config, &Registry::builtin())?;
        let device = session.device.clone().autodiff();
        let (source, order) = (session.source.clone(), session.train_order());
        let mut batches = Loader::start(source, Split::Train, order, 0, 0, None, &session.loader);
        let batch = batches.next().transpose()?.ok_or(TrainError::NothingToEvaluate { unreadable: 0 })?;
        charge(Account::Device, || {
            Ok(Self {
                model: session.build()?,
                optimizer: Optimizer::new(&session.config.optimizer, oomph::Kernels::Own),
                input: input(batch.input, &batch.shape, &device),
                targets: targets(batch.targets, &device),
                session,
                step: 0,
                found: None,
            })
        })
    }

    /// Runs some steps; what the watch said first.
    ///
    /// # Errors
    /// Those of the steps.
    pub(crate) fn run(&mut self, steps: Steps) -> Result<Option<Found>, TrainError> {
        // What this thread allocates from here on is the device's, as in `train`.
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

    /// A training step; what the model put out in it.
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
        // The phases are for the report: it says in which one a tensor was made.
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

    /// The loss, to be watched and not trained on; with its graph.
    fn loss(&self) -> Result<Tensor<1>, TrainError> {
        let _phase = phase(Phase::Eval);
        let output = self.model.forward(self.input.clone(), &mut Pass::eval())?;
        Ok(self.session.task.loss(&output, &self.targets)?)
    }

    /// The same without a graph.
    fn loss_without_autodiff(&self) -> Result<Tensor<1>, TrainError> {
        let _phase = phase(Phase::Eval);
        let output = self.model.inference().forward(self.input.clone().inner(), &mut Pass::eval())?;
        Ok(autodiff::inner(self.session.task.loss(&output, &self.targets)?))
    }
}

fn input(values: Values, shape: &[usize], device: &Device) -> AnyTensor {
    match values {
        Values::Floats(values) => AnyTensor::floats(values, shape, device),
        // Digits are not made of tokens.
        Values::Tokens(_) => AnyTensor::zeros(shape, device),
    }
}

fn targets(targets: Targets, device: &Device) -> DeviceTargets {
    match targets {
        Targets::Classes(classes) => {
            let count = classes.len();
            DeviceTargets::Classes(Tensor::from_data(TensorData::new(classes, [count]), device))
        }
        Targets::Values { data, features } => {
            let shape = [data.len() / features.max(1), features];
            DeviceTargets::Values(Tensor::from_data(TensorData::new(data, shape), device))
        }
        // Nor have they any to tell.
        Targets::Tokens { steps, .. } => DeviceTargets::Tokens(Tensor::zeros([0, steps], device)),
    }
}
