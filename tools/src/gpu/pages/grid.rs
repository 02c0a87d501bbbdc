//! The trainings whose memory is compared: four models on cards of four sizes, with the levers that change what is allocated.

use oomph_core::Bytes;

/// A training on a simulated card.
pub(super) struct Cell {
    pub(super) model: &'static Model,
    pub(super) card: &'static Card,
    pub(super) lever: &'static Lever,
    pub(super) batch: usize,
}

/// A model with its data and its optimizer.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    config: &'static str,
    /// For each lever, the batch on the card of 8 GiB.
    batches: [usize; LEVERS.len()],
}

/// A simulated card.
pub(crate) struct Card {
    pub(crate) name: &'static str,
    /// As `CUDA_SIM_CARDS` takes it.
    pub(crate) model: &'static str,
    /// As `CUDA_SIM_MEMORY` takes it, where it is not that of the model.
    pub(crate) memory: Option<Bytes>,
    /// The batches of the grid, as a multiple of those on 8 GiB.
    scale: f64,
}

/// Settings that change what a training allocates.
pub(super) struct Lever {
    pub(super) name: &'static str,
    settings: &'static str,
    /// Batches have so many micro-batches.
    parts: usize,
}

/// The models.
pub(crate) const MODELS: [Model; 4] = [
    Model {
        name: "ResNet-18, 32²",
        config: "model = { name = 'resnet18', stem = 'small' }
            data = { source = 'synthetic', height = 32, width = 32, SAMPLES }
            optimizer = { name = 'sgd', momentum = 0.9, weight_decay = 5e-4 }",
        batches: [1900, 3700, 3800, 5800],
    },
    Model {
        name: "ResNet-50, 224²",
        config: "model.name = 'resnet50'
            data = { source = 'synthetic', height = 224, width = 224, classes = 1000, SAMPLES }
            optimizer = { name = 'sgd', momentum = 0.9, weight_decay = 1e-4 }",
        batches: [96, 184, 256, 340],
    },
    Model {
        name: "LSTM 64 → 2 × 1024, 128 steps",
        config: "model = { name = 'lstm', hidden = 1024, layers = 2 }
            data = { source = 'synthetic', kind = 'sequence', steps = 128, features = 64, SAMPLES }
            optimizer.name = 'adamw'",
        batches: [1200, 1700, 3200, 4400],
    },
    Model {
        name: "language model, 2 × 1024, 128 steps",
        config: "model = { name = 'lstm-lm', hidden = 1024, layers = 2 }
            data = { source = 'synthetic', kind = 'tokens', steps = 128, SAMPLES }
            optimizer.name = 'adam'",
        batches: [1100, 1500, 2600, 4000],
    },
];

/// Cards of 8, 16, 24 and 80 GiB, and a T4: its tensor cores have no TF32 and no bf16, so other kernels compute there.
pub(crate) const CARDS: [Card; 5] = [
    Card { name: "8 GiB, sm_86", model: "RTX 3060", memory: Some(Bytes::mib(8 << 10)), scale: 1.0 },
    Card { name: "16 GiB, sm_89", model: "RTX 4090", memory: Some(Bytes::mib(16 << 10)), scale: 1.9 },
    Card { name: "RTX 4090", model: "RTX 4090", memory: None, scale: 2.9 },
    Card { name: "A100 80GB", model: "A100 80GB", memory: None, scale: 9.0 },
    Card { name: "T4", model: "T4", memory: None, scale: 1.7 },
];

const LEVERS: [Lever; 4] = [
    Lever { name: "fp32", settings: "", parts: 1 },
    Lever { name: "bf16", settings: "memory.precision = 'bf16'", parts: 1 },
    Lever { name: "recompute", settings: "memory.recompute = 'stages'", parts: 1 },
    Lever { name: "4 micro-batches", settings: "", parts: 4 },
];

/// All trainings.
pub(super) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for model in &MODELS {
        for card in &CARDS {
            for (lever, batch) in LEVERS.iter().zip(model.batches) {
                if card.model == "T4" && lever.name == "bf16" {
                    continue;
                }
                let batch = (batch as f64 * card.scale) as usize / lever.parts * lever.parts;
                cells.push(Cell { model, card, lever, batch });
            }
        }
    }
    cells
}

impl Cell {
    /// Model, card, lever and batch.
    pub(super) fn label(&self) -> [String; 4] {
        let [model, card, lever] = [self.model.name, self.card.name, self.lever.name].map(str::to_owned);
        [model, card, lever, self.batch.to_string()]
    }

    /// The configuration.
    pub(super) fn config(&self) -> String {
        let Lever { settings, parts, .. } = self.lever;
        format!("{}\n{settings}\nmemory.micro_batch = {}", self.model.config(self.batch), self.batch / parts)
    }
}

impl Model {
    /// The configuration with a batch: three steps of different samples, and an evaluation of a batch.
    pub(crate) fn config(&self, batch: usize) -> String {
        let samples = format!("train_samples = {}, test_samples = {batch}, workers = 0", 3 * batch);
        let config = self.config.replace("SAMPLES", &samples);
        format!("{config}\ntrain = {{ batch = {batch}, steps = 3, seed = 0, eval_every = '3 steps' }}")
    }
}
