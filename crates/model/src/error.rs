use oomph_kernels::DeviceError;

/// Why a model cannot be built or run forward.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A layer was given an activation of a shape that it does not take.
    #[error("`{place}` takes {expected}, got {found:?}")]
    Shape {
        /// Stage and layer, such as `layer1.0.conv1`.
        place: String,
        /// The shape it takes, in words and letters.
        expected: String,
        /// The shape it was given.
        found: Vec<usize>,
    },
    /// Batch normalisation was given a single value for each channel in training: its variance is zero.
    #[error("`{place}` takes more than one value a channel in training, got {found:?}")]
    SingleValue {
        /// Stage and layer.
        place: String,
        /// The shape it was given.
        found: Vec<usize>,
    },
    /// A stage was given integers where it takes floats, or the other way round, or another rank.
    #[error("`{place}` takes a tensor of {expected}, got one of {found}")]
    Kind {
        /// Stage and layer.
        place: String,
        /// Rank and kind it takes.
        expected: String,
        /// Rank and kind it was given.
        found: String,
    },
    /// The model cannot take the samples of the data source.
    #[error("model `{model}` takes {expected}, but the data source gives {found}")]
    Input {
        /// The model's name.
        model: String,
        /// The samples it takes.
        expected: String,
        /// The samples the source gives.
        found: String,
    },
    /// A stage computes with a parameter of another one that does not lend it.
    #[error("`{place}` borrows `{name}`, which no stage lends")]
    NotLent {
        /// The stage that borrows.
        place: String,
        /// What it asks for.
        name: String,
    },
    /// A stage panicked: in its own code, or in a tensor operation whose shapes do not match.
    #[error("stage `{stage}` panicked on an activation of shape {input:?}: {message}")]
    StagePanicked {
        /// The stage's name.
        stage: String,
        /// The shape of what it was given.
        input: Vec<usize>,
        /// The panic's message.
        message: String,
    },
    /// A stage has no form in ONNX.
    #[error(
        "stage `{stage}` (`{kind}`) cannot be exported to ONNX: its type does not implement `Stage::to_onnx`"
    )]
    NotExported {
        /// The stage's name.
        stage: String,
        /// Its type.
        kind: &'static str,
    },
    /// No weight has an adapter, or a target is no part of the name of one.
    #[error(
        "{}; layers with weights are {}",
        match .target {
            Some(target) => format!("`model.lora.targets` has `{target}`, which is no part of the name of a weight"),
            None => "no weight has an adapter by `model.lora`".to_owned(),
        },
        .layers.join(", ")
    )]
    NotAdapted {
        /// The target.
        target: Option<String>,
        /// The names of layers that may be targets.
        layers: Vec<String>,
    },
    /// Two stages of a chain have one name.
    #[error("stage `{name}` is twice in the model; each stage needs a name of its own")]
    DuplicateStage {
        /// The name.
        name: String,
    },
    /// A chain of no stages.
    #[error("the model has no stages")]
    Empty,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl ModelError {
    /// A remedy for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Input { .. } => Some(
                "set `data.source` to one that gives such samples, or `model.name` to a model that takes them".into(),
            ),
            Self::SingleValue { .. } => {
                Some("batch normalisation needs a batch of at least 2 here, or larger inputs".into())
            }
            Self::Shape { .. } | Self::Kind { .. } | Self::StagePanicked { .. } => {
                Some("`oomph summary` shows the shapes that go through each layer".into())
            }
            Self::NotLent { .. } => {
                Some("call `Stages::lend` on the pass before a stage runs alone: the pass then has the parameters that stages share".into())
            }
            Self::NotExported { .. } => {
                Some("export the weights with `--to FILE.safetensors`, or implement `Stage::to_onnx` for the stage".into())
            }
            Self::NotAdapted { layers, .. } => {
                let layer = layers.first()?;
                Some(format!("name layers or stages, as in `--set 'model.lora.targets=[\"{layer}\"]'`"))
            }
            Self::DuplicateStage { .. } | Self::Empty | Self::Device(_) => None,
        }
    }
}
