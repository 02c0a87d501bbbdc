//! A program with its own model and data source, which uses only the exports of `oomph`.

use std::{
    process::{Command, ExitCode},
    sync::{Arc, Mutex},
};

use oomph::burn::{self, module::Module, nn};
use oomph::{
    AnyTensor, Architecture, ConfigError, DataError, Generator, InputSpec, Key, Mode, ModelError,
    OpenContext, OpenSource, Pass, Registry, Sample, SampleError, SampleSpec, Section, Source, Split, Stage,
    Stages, Target, TargetSpec, Values,
};

oomph::install_meter!();

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|argument| argument == "again").is_some() {
        return again(arguments);
    }
    let registry = Registry::builtin().with_model("plane", plane).with_source("points", points);
    oomph::run(registry)
}

/// Runs this program in a child process, as features do whose children may run out of memory.
fn again(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let program = std::env::current_exe().expect("the system knows this program");
    let status = Command::new(program).args(arguments).status().expect("this program can be started");
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A linear layer of Burn, with an optional memory leak.
#[derive(Module, Debug)]
struct Plane {
    linear: nn::Linear,
    /// The number of elements that every forward pass leaks.
    #[module(skip)]
    hoards: usize,
}

/// The leaked tensors.
static HOARD: Mutex<Vec<burn::tensor::Tensor<1>>> = Mutex::new(Vec::new());

impl Stage for Plane {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        if self.hoards > 0 && pass.mode() == Mode::Train {
            let more = burn::tensor::Tensor::zeros([self.hoards], &x.device());
            HOARD.lock().expect("nobody panics with it").push(more);
        }
        Ok(self.linear.forward(x).into())
    }
}

fn plane(settings: &Section) -> Result<Architecture, ConfigError> {
    let bias = settings.boolean("bias", true)?;
    let hoards = settings.integer("hoards", 0, 0..=1_000_000_000)?;
    Ok(Architecture::new("plane", move |spec, init| {
        let config = nn::LinearConfig::new(spec.input.elements(), spec.target.outputs()).with_bias(bias);
        Ok(Stages::single(Plane { linear: config.init(init.device()), hoards }))
    }))
}

/// Points of a plane: three features and the height. Reading a point from the index `.1` on panics.
struct Points(SampleSpec, usize);

fn points(settings: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    let (input, target) = (InputSpec::Vector { features: 3 }, TargetSpec::Values { features: 1 });
    let panics_from = settings.integer("panics_from", usize::MAX >> 1, 0..=usize::MAX >> 1)?;
    Ok(Box::new(Open(SampleSpec { input, target }, panics_from)))
}

struct Open(SampleSpec, usize);

impl OpenSource for Open {
    fn open(&self, _: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        Ok(Arc::new(Points(self.0.clone(), self.1)))
    }
}

impl Source for Points {
    fn spec(&self) -> &SampleSpec {
        &self.0
    }

    fn len(&self, split: Split) -> usize {
        match split {
            Split::Train => 512,
            Split::Test => 64,
        }
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        assert!(index < self.1, "there is no point {index}");
        let mut random = Generator::at(Key::new(1).with_name(&split.to_string()).with(index as u64));
        let [a, b, c] = std::array::from_fn(|_| random.uniform_in(-1.0, 1.0));
        let height = 2.0 * a - 3.0 * b + 0.5 * c + 1.0;
        Ok(Sample { input: Values::Floats(vec![a, b, c]), target: Target::Values(vec![height]) })
    }
}
