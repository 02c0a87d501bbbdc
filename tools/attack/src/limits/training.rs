//! Draws trainings: a model with the settings that change how much memory it needs.

use oomph_core::Generator;

/// How devices share a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    Single,
    Ddp,
    Dp,
    Model,
    Pipeline,
}

impl Strategy {
    pub(super) const ALL: [Self; 5] = [Self::Single, Self::Ddp, Self::Dp, Self::Model, Self::Pipeline];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Ddp => "ddp",
            Self::Dp => "dp",
            Self::Model => "model",
            Self::Pipeline => "pipeline",
        }
    }
}

/// A training, drawn at random.
#[derive(Debug)]
pub(super) struct Training {
    pub(super) strategy: Strategy,
    /// The configuration, whose run directory is `run`.
    pub(super) config: String,
    pub(super) batch: usize,
    /// Whether the limit changes what is trained: `auto` chooses other micro-batches below it.
    pub(super) is_free: bool,
}

/// The steps of each training: an epoch has three and a part, so two epochs begin.
pub(super) const STEPS: usize = 6;

/// The lines of a configuration, with a section each.
struct Draw<'a> {
    random: &'a mut Generator,
    batch: usize,
    strategy: Strategy,
}

impl Training {
    /// The training of a case.
    pub(super) fn draw(random: &mut Generator, strategy: Strategy) -> Self {
        // Language models, sequences, images.
        let kind = random.below(4);
        let batch = match kind {
            0 => 8 + random.below(24),
            1 => 24 + random.below(200),
            _ => 12 + random.below(28),
        };
        let mut draw = Draw { random, batch, strategy };
        let model = match kind {
            0 => draw.language(),
            1 => draw.sequences(),
            _ => draw.images(),
        };
        let (mut memory, is_free) = draw.memory();
        let devices = draw.devices();
        if devices.contains("sync_batch_norm") {
            // Layers of Burn's operations cannot share statistics, and replicas with different numbers of micro-batches neither.
            memory = memory.replace("lean = false", "lean = true");
            if let Some((before, _)) = memory.split_once(", micro_batch = ").filter(|_| !is_free) {
                memory = format!("{before} }}\n");
            }
        }
        let sections = [
            model,
            draw.train(),
            format!("optimizer = {{ {} }}\n", draw.optimizer()),
            memory,
            devices,
            "run = { directory = 'run', save_every = '2 steps', keep_last = 2, log_every = 1, tensorboard = false }\n"
                .to_owned(),
        ];
        Self { strategy, config: sections.concat(), batch, is_free }
    }
}

impl Draw<'_> {
    fn one<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.random.below(texts.len())]
    }

    /// Whether the devices have different stages.
    fn splits(&self) -> bool {
        matches!(self.strategy, Strategy::Model | Strategy::Pipeline)
    }

    /// So many samples that the last batch of an epoch is a smaller one.
    fn samples(&mut self) -> usize {
        self.batch * 3 + 4 + self.random.below(self.batch - 4)
    }

    fn language(&mut self) -> String {
        let (hidden, embedding) = (32 << self.random.below(3), 16 << self.random.below(4));
        // Stages that share parameters stay on one device.
        let tied = self.random.chance(0.3) && !self.splits();
        let embedding = if tied { hidden } else { embedding };
        let (steps, vocabulary) = (16 + self.random.below(48), 64 + self.random.below(2000));
        let model = format!(
            "model = {{ name = 'lstm-lm', hidden = {hidden}, embedding = {embedding}, tied = {tied} }}"
        );
        let samples = self.samples();
        format!(
            "{model}\ndata = {{ source = 'synthetic', kind = 'tokens', steps = {steps}, vocabulary = {vocabulary}, \
             train_samples = {samples}, test_samples = {}, workers = 0 }}\n",
            self.batch * 2
        )
    }

    fn sequences(&mut self) -> String {
        // Each device has a stage: a layer or the head.
        let least = if self.splits() { 2 } else { 1 };
        let (hidden, layers) = (16 << self.random.below(4), least + self.random.below(3));
        let dropout = if layers > 1 { self.one(&["0.0", "0.2"]) } else { "0.0" };
        let model =
            format!("model = {{ name = 'lstm', hidden = {hidden}, layers = {layers}, dropout = {dropout} }}");
        let (steps, features) = (8 + self.random.below(24), 4 + self.random.below(28));
        let samples = self.samples();
        format!(
            "{model}\ndata = {{ source = 'synthetic', kind = 'sequence', steps = {steps}, features = {features}, \
             train_samples = {samples}, test_samples = {}, workers = 0 }}\n",
            self.batch
        )
    }

    fn images(&mut self) -> String {
        let (name, width) = if self.random.chance(0.9) {
            ("resnet18", 4 + 2 * self.random.below(5))
        } else {
            ("resnet50", 2 + self.random.below(3))
        };
        // The last group of blocks has at least 2×2 pixels: a micro-batch of one sample is none for its normalisation otherwise.
        let (stem, side) = if self.random.chance(0.8) { ("small", 16) } else { ("standard", 64) };
        let more =
            self.one(&["", ", zero_init = true", ", freeze = ['stem']", ", freeze = ['stem', 'layer1']"]);
        let samples = self.samples();
        let transformed = self.one(&["", ", flip = true", ", crop_padding = 2", ", last_batch = 'drop'"]);
        format!(
            "model = {{ name = '{name}', stem = '{stem}', width = {width}{more} }}\ndata = {{ source = 'synthetic', \
             height = {side}, width = {side}, train_samples = {samples}, test_samples = {}, workers = 0{transformed} }}\n",
            self.batch
        )
    }

    fn train(&mut self) -> String {
        let evaluations = match self.random.below(3) {
            0 => "eval_every = 'never'".to_owned(),
            1 => "eval_every = '2 steps'".to_owned(),
            _ => format!("eval_every = '3 steps', eval_batch = {}", 1 + self.random.below(self.batch * 2)),
        };
        let seed = self.random.below(1000);
        format!("train = {{ batch = {}, steps = {STEPS}, seed = {seed}, {evaluations} }}\n", self.batch)
    }

    fn optimizer(&mut self) -> String {
        let name = self.one(&[
            "name = 'sgd', lr = 1e-3",
            "name = 'sgd', lr = 1e-3, momentum = 0.9",
            "name = 'adam', lr = 1e-4",
            "name = 'adamw', lr = 1e-4",
            "name = 'adamw', lr = 1e-4, amsgrad = true",
            "name = 'rmsprop', lr = 1e-4",
            "name = 'rmsprop', lr = 1e-4, centered = true, momentum = 0.9",
            "name = 'adagrad', lr = 1e-4",
            "name = 'adan', lr = 1e-4",
            "name = 'lion', lr = 1e-5",
            "name = 'adafactor', lr = 1e-4",
        ]);
        let clip = self.one(&["", "", ", clip_value = 0.5", ", clip_norm = 0.5", ", clip_global_norm = 1.0"]);
        format!("{name}{clip}")
    }

    /// The section, and whether the limit chooses.
    fn memory(&mut self) -> (String, bool) {
        let precision = self.one(&["fp32", "fp32", "fp32", "bf16", "fp16"]);
        let recompute =
            self.one(&["none", "none", "none", "none", "none", "ops", "ops", "stages", "stages", "auto"]);
        let lean = self.random.chance(0.7);
        let mut lines = format!("precision = '{precision}', recompute = '{recompute}', lean = {lean}");
        // A pipeline without a number has micro-batches of its own.
        let most = if self.strategy == Strategy::Ddp || self.strategy == Strategy::Dp {
            self.batch / 3
        } else {
            self.batch
        };
        let mut is_free = false;
        match self.random.below(10) {
            0..4 => {}
            4..7 => lines += &format!(", micro_batch = {}", 2 + self.random.below(most - 1)),
            _ => {
                lines += ", micro_batch = 'auto'";
                is_free = true;
            }
        }
        (format!("memory = {{ {lines} }}\n"), is_free)
    }

    fn devices(&mut self) -> String {
        let threads = self.one(&["", ", threads = 1", ", threads = 2"]);
        let devices = if self.random.chance(0.7) { "'cpu', 'cpu'" } else { "'cpu', 'cpu', 'cpu'" };
        let name = self.strategy.name();
        let own = match self.strategy {
            Strategy::Single => return format!("device = {{ devices = ['cpu']{threads} }}\n"),
            Strategy::Ddp => {
                self.one(&["", "", ", bucket = 65536", ", bucket = 1", ", sync_batch_norm = true"])
            }
            Strategy::Dp => self.one(&["", "", ", coordinator_share = 0.2"]),
            Strategy::Model => self.one(&["", ", balance = 'time'"]),
            Strategy::Pipeline => self.one(&["", ", schedule = 'gpipe'", ", balance = 'time'"]),
        };
        format!("device = {{ devices = [{devices}], strategy = '{name}'{own}{threads} }}\n")
    }
}
