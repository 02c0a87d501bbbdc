//! All ranks together see the samples that one device sees, in its order, and augmented as it does.

use oomph_engine::session::train_order;
use oomph_trainer::open;
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use oomph::burn::{
    self,
    module::Module,
    nn::{Linear, LinearConfig},
};
use oomph::{
    AnyTensor, Architecture, Config, ConfigError, DataError, Key, ModelError, OpenContext, OpenSource, Pass,
    Quiet, Registry, Sample, SampleError, SampleSpec, Section, Source, Split, Stage, Stages, Stop,
    TrainOptions, Values, digits, train,
};
use sha2::{Digest, Sha256};

use crate::support::{LSTM, RESNET, Runs};

const EPOCHS: usize = 2;
const BATCH: usize = 100;

/// The hash of a sample.
type Hash = [u8; 32];

/// What of the training data was asked for: by which thread, and what it was given.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(String, Hash)>>>);

struct Watched(Arc<dyn Source>, Asked);

impl Source for Watched {
    fn spec(&self) -> &SampleSpec {
        self.0.spec()
    }

    fn len(&self, split: Split) -> usize {
        self.0.len(split)
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let sample = self.0.sample(split, index, augment)?;
        let Values::Floats(pixels) = &sample.input else { panic!("digits are floats") };
        let mut hash = Sha256::new();
        hash.update(index.to_le_bytes());
        pixels.iter().for_each(|pixel| hash.update(pixel.to_le_bytes()));
        let name = thread::current().name().unwrap_or("").to_owned();
        self.1.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, hash.finalize().into()));
        Ok(sample)
    }
}

struct Open(Box<dyn OpenSource + Send + Sync>, Asked);

impl OpenSource for Open {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        Ok(Arc::new(Watched(self.0.open(context)?, self.1.clone())))
    }
}

/// As small a model as there can be.
#[derive(Module, Debug)]
struct Flat {
    linear: Linear,
}

impl Stage for Flat {
    fn forward(&self, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
        Ok(self.linear.forward(pass.float::<4>(input)?.flatten::<2>(1, 3)).into())
    }
}

fn flat(_: &Section) -> Result<Architecture, ConfigError> {
    Ok(Architecture::new("flat", |spec, init| {
        let linear = LinearConfig::new(spec.input.elements(), spec.target.outputs()).init(init.device());
        Ok(Stages::single(Flat { linear }))
    }))
}

/// The samples of a training in their order, by batch: of several ranks those of the first, then those of the next.
fn seen(world: usize, settings: &str) -> Vec<Vec<Hash>> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let text = format!(
        "model.name = 'flat'
         data = {{ source = 'watched', workers = 0, {settings} }}
         train = {{ batch = {BATCH}, epochs = {EPOCHS}, eval_every = 'never', seed = 7 }}
         device = {{ devices = '{}', strategy = 'ddp' }}
         run.directory = '{}'",
        vec!["cpu"; world].join(","),
        folder.path().join("run").display(),
    );
    let asked = Asked::default();
    let watching = asked.clone();
    let registry = Registry::builtin()
        .with_model("flat", flat)
        .with_source("watched", move |section| Ok(Box::new(Open(digits(section)?, watching.clone()))));
    let session = open(Config::from_toml("samples", &text).unwrap(), &registry).unwrap();
    let order = train_order(&session);
    assert_eq!(session.world_size(), world);
    train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new()).unwrap();

    // Without workers a rank loads in the thread that trains it.
    let asked = asked.0.lock().unwrap();
    let leader = thread::current().name().unwrap_or("").to_owned();
    let of_rank = |rank: usize| {
        let own = |name: &str| match rank {
            0 => name == leader,
            rank => name == format!("oomph-device-{rank}-0"),
        };
        asked.iter().filter(|(name, _)| own(name)).map(|(_, hash)| *hash).collect::<Vec<_>>().into_iter()
    };
    let mut ranks: Vec<_> = (0..world).map(of_rank).collect();
    assert_eq!(ranks.iter().map(|rank| rank.len()).sum::<usize>(), asked.len(), "another thread asked");
    let batches = (0..EPOCHS).flat_map(|epoch| (0..order.batches()).map(move |batch| (epoch, batch)));
    let batches = batches.map(|(epoch, batch)| {
        let whole = order.indices(epoch, batch).len();
        let mut samples = Vec::new();
        for (rank, own) in ranks.iter_mut().enumerate() {
            samples.extend(own.take(whole * (rank + 1) / world - whole * rank / world));
        }
        samples
    });
    let batches = batches.collect();
    assert!(ranks.iter().all(|rank| rank.len() == 0), "more samples than those of the batches");
    batches
}

#[test]
fn any_number_of_replicas_sees_the_same_samples() {
    let mut all = Vec::new();
    for settings in [
        "crop_padding = 1, flip = true, last_batch = 'keep'",
        "crop_padding = 1, flip = true, last_batch = 'drop'",
        "last_batch = 'keep'",
        "last_batch = 'drop'",
    ] {
        let alone = seen(1, settings);
        let sizes: Vec<_> = alone.iter().map(Vec::len).collect();
        let last: &[usize] = if settings.contains("keep") { &[38] } else { &[] };
        assert_eq!(sizes, [[&[BATCH; 14][..], last].concat(), [&[BATCH; 14][..], last].concat()].concat());
        for world in 2..=5 {
            assert_eq!(seen(world, settings), alone, "{world} replicas with {settings}");
        }
        // Another order in each epoch.
        assert_ne!(alone[0], alone[alone.len() / 2]);
        all.push(alone);
    }
    // What is augmented is something else, and what is dropped is the last batch.
    assert_ne!(all[0][0], all[2][0]);
    assert_eq!(all[0][..14], all[1][..14]);
    assert_eq!(all[2][..14], all[3][..14]);
}

#[test]
fn one_replica_ends_with_the_bytes_of_training_without_replicas() {
    for recipe in [LSTM, RESNET] {
        let runs = Runs::new(recipe);
        let alone = runs.trained("alone", 12, "device.devices = 'cpu'\n");
        let replica = runs.trained("replica", 12, "device.devices = 'cpu'\ndevice.strategy = 'ddp'\n");
        assert_eq!(replica.tensors, alone.tensors);
        assert_eq!(replica.eval_loss, alone.eval_loss);
    }
}
