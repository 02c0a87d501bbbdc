//! A program with a model and data of its own, which knows of oomph only what `oomph` exports.

use std::{
    process::{Command, ExitCode},
    sync::Arc,
};

use oomph::burn::{self, module::Module, nn};
use oomph::{
    AnyTensor, Architecture, ConfigError, DataError, Generator, InputSpec, Key, ModelError, OpenContext,
    OpenSource, Pass, Registry, Sample, SampleError, SampleSpec, Section, Source, Split, Stage, Stages,
    Target, TargetSpec, Values,
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

/// Runs this program once more, as features do whose children may run out of memory.
fn again(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let program = std::env::current_exe().expect("the system knows this program");
    let status = Command::new(program).args(arguments).status().expect("this program can be started");
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A linear layer of Burn's own, and nothing else.
#[derive(Module, Debug)]
struct Plane {
    linear: nn::Linear,
}

impl Stage for Plane {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        let x = pass.float::<2>(input)?;
        Ok(self.linear.forward(x).into())
    }
}

fn plane(settings: &Section) -> Result<Architecture, ConfigError> {
    let bias = settings.boolean("bias", true)?;
    Ok(Architecture::new("plane", move |spec, init| {
        let config = nn::LinearConfig::new(spec.input.elements(), spec.target.outputs()).with_bias(bias);
        Ok(Stages::single(Plane { linear: config.init(init.device()) }))
    }))
}

/// Points of a plane in space: three features, and the height that goes with them.
struct Points(SampleSpec);

fn points(_: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    let (input, target) = (InputSpec::Vector { features: 3 }, TargetSpec::Values { features: 1 });
    Ok(Box::new(Open(SampleSpec { input, target })))
}

struct Open(SampleSpec);

impl OpenSource for Open {
    fn open(&self, _: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        Ok(Arc::new(Points(self.0.clone())))
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
        let mut random = Generator::at(Key::new(1).with_name(&split.to_string()).with(index as u64));
        let [a, b, c] = std::array::from_fn(|_| random.uniform_in(-1.0, 1.0));
        let height = 2.0 * a - 3.0 * b + 0.5 * c + 1.0;
        Ok(Sample { input: Values::Floats(vec![a, b, c]), target: Target::Values(vec![height]) })
    }
}
