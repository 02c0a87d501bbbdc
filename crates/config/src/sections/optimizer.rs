//! `[optimizer]`.

use crate::{
    error::ConfigError,
    precedence::{Owners, Rule},
    range::POSITIVE,
    section::{Section, name_of},
};

/// `[optimizer]`: how gradients become steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// `name` and the optimizer's own settings; default `sgd`.
    pub kind: OptimizerKind,
    /// `lr`: the learning rate before the schedule; greater than 0. Where a higher layer than the file names
    /// another optimizer, the file's is set aside. Default 0.1 for sgd, 0.01 for rmsprop, adagrad and
    /// adafactor, 0.0001 for lion, 0.001 for the others.
    pub lr: f64,
    /// `weight_decay`: at least 0; default 0, for adamw 0.01. Adamw, lion, adafactor and adan (by a proximal step, as in
    /// its paper) decouple it from the gradient; the others add it to the gradient (an L2 penalty).
    pub weight_decay: f64,
    /// `weight_decay_on`: which parameters decay; default `all`.
    pub weight_decay_on: DecayOn,
    /// `state`: how the optimizer stores its state, for sgd with momentum, adam, adamw and lion: `fp32`, `bf16` or `int8`;
    /// default `fp32`.
    pub state: StateFormat,
    /// `clip_value`, `clip_norm` or `clip_global_norm`; by default gradients are not clipped.
    pub clip: Option<Clip>,
}

/// The parameters whose weights decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecayOn {
    /// `all`: all of them, as in PyTorch's optimizers.
    All,
    /// `matrices`: those of two dimensions and more, embeddings and convolutions included; no biases and no scales or shifts of
    /// normalisations. Transformers are trained so.
    Matrices,
}

const DECAYS: [(&str, DecayOn); 2] = [("all", DecayOn::All), ("matrices", DecayOn::Matrices)];

/// The format of optimizer state. Parameters of fewer than 4,096 elements have 32 bits in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFormat {
    /// `fp32`: 32 bits.
    Fp32,
    /// `bf16`: 16 bits with the exponent of 32, rounded stochastically.
    Bf16,
    /// `int8`: 8 bits, with a scale of 32 bits for each 128 elements: block-wise dynamic quantisation (Dettmers et al. 2022,
    /// <https://arxiv.org/abs/2110.02861>). The state of an embedding has 32 bits.
    Int8,
}

impl StateFormat {
    /// All formats with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("fp32", Self::Fp32), ("bf16", Self::Bf16), ("int8", Self::Int8)];

    /// As `optimizer.state` has it.
    pub fn name(self) -> &'static str {
        name_of(&Self::ALL, &self)
    }

    /// Reads the key for optimizers that have it: the others write none.
    fn read(section: &Section, kind: &OptimizerKind) -> Result<Self, ConfigError> {
        let read = || section.choice("state", "fp32", &Self::ALL);
        match kind {
            OptimizerKind::Sgd { momentum, .. } if *momentum == 0.0 => {
                if read()? != Self::Fp32 {
                    section.ledger.yield_to("state", "momentum", &STATE_NEEDS_MOMENTUM)?;
                }
            }
            OptimizerKind::Adam(moments) | OptimizerKind::AdamW(moments) if moments.amsgrad => {
                if read()? != Self::Fp32 {
                    section.ledger.yield_to("state", "amsgrad", &STATE_WITHOUT_AMSGRAD)?;
                }
            }
            OptimizerKind::Sgd { .. }
            | OptimizerKind::Adam(_)
            | OptimizerKind::AdamW(_)
            | OptimizerKind::Lion { .. } => {}
            _ => return Ok(Self::Fp32),
        }
        read()
    }
}

/// An optimizer with its own settings. Names and defaults are those of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptimizerKind {
    /// `sgd`: stochastic gradient descent, plain or with momentum.
    Sgd {
        /// `momentum`: from 0 up to but not including 1; default 0.
        momentum: f64,
        /// `dampening`: share of a new gradient kept out of the momentum, from 0 to 1; default 0.
        dampening: f64,
        /// `nesterov`: look ahead along the momentum (Sutskever et al. 2013); default false. Needs momentum and no
        /// dampening.
        nesterov: bool,
    },
    /// `adam` (Kingma and Ba 2015, <https://arxiv.org/abs/1412.6980>).
    Adam(Moments),
    /// `adamw`: with decoupled weight decay (Loshchilov and Hutter 2019, <https://arxiv.org/abs/1711.05101>).
    AdamW(Moments),
    /// `rmsprop` (Tieleman and Hinton 2012).
    RmsProp {
        /// `alpha`: how slowly the mean of squares forgets, from 0 up to but not including 1; default 0.99.
        alpha: f64,
        /// `epsilon`: added to the denominator, greater than 0; default 1e-8.
        epsilon: f64,
        /// `momentum`: from 0 up to but not including 1; default 0.
        momentum: f64,
        /// `centered`: divide by the standard deviation instead of the root of the mean square; default false.
        centered: bool,
    },
    /// `adagrad` (Duchi et al. 2011).
    AdaGrad {
        /// `lr_decay`: at least 0; default 0. At step t the learning rate is `lr / (1 + (t - 1) * lr_decay)`.
        lr_decay: f64,
        /// `epsilon`: added to the denominator, greater than 0; default 1e-10.
        epsilon: f64,
    },
    /// `adan` (Xie et al. 2022, <https://arxiv.org/abs/2208.06677>), with the betas as its authors' code has them.
    Adan {
        /// `beta1`: for the gradient; from 0 up to but not including 1, default 0.98.
        beta1: f64,
        /// `beta2`: for the difference of gradients; from 0 up to but not including 1, default 0.92.
        beta2: f64,
        /// `beta3`: for the square; from 0 up to but not including 1, default 0.99.
        beta3: f64,
        /// `epsilon`: added to the denominator, greater than 0; default 1e-8.
        epsilon: f64,
    },
    /// `lion` (Chen et al. 2023, <https://arxiv.org/abs/2302.06675>).
    Lion {
        /// `beta1`: the share of the momentum in the direction of a step; from 0 up to but not including 1, default
        /// 0.9.
        beta1: f64,
        /// `beta2`: how slowly the momentum forgets; from 0 up to but not including 1, default 0.99.
        beta2: f64,
    },
    /// `adafactor` (Shazeer and Stern 2018, <https://arxiv.org/abs/1804.04235>). As in PyTorch, `lr` is the largest step
    /// relative to the size of a parameter.
    Adafactor {
        /// `beta2_decay`: at step t the newest square has a share of t to this power; at most 0, default -0.8.
        beta2_decay: f64,
        /// `epsilon1`: the least denominator, greater than 0; default 1.1920929e-7, the spacing of 32-bit floats at 1.
        epsilon1: f64,
        /// `epsilon2`: the lower bound of a parameter's assumed size, at least 0; default 1e-3.
        epsilon2: f64,
        /// `d`: the largest root mean square of an update before the learning rate, at least 1; default 1.
        d: f64,
    },
}

/// The settings that adam and adamw share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// `beta1`: for the mean of the gradient; from 0 up to but not including 1, default 0.9.
    pub beta1: f64,
    /// `beta2`: for the mean of its square; from 0 up to but not including 1, default 0.999.
    pub beta2: f64,
    /// `epsilon`: added to the denominator, greater than 0; default 1e-8.
    pub epsilon: f64,
    /// `amsgrad`: never let the mean of squares shrink (Reddi et al. 2018, <https://arxiv.org/abs/1904.09237>);
    /// default false.
    pub amsgrad: bool,
}

/// How gradients are clipped; each limit is greater than 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// `clip_value`: each element is cut to ± the limit.
    Value(f64),
    /// `clip_norm`: each tensor is scaled down to an L2 norm of the limit.
    Norm(f64),
    /// `clip_global_norm`: all gradients together are scaled down to an L2 norm of the limit (Pascanu et al. 2013,
    /// <https://arxiv.org/abs/1211.5063>).
    GlobalNorm(f64),
}

/// The name of an optimizer, as `optimizer.name` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerName {
    /// `sgd`.
    Sgd,
    /// `adam`.
    Adam,
    /// `adamw`.
    AdamW,
    /// `rmsprop`.
    RmsProp,
    /// `adagrad`.
    AdaGrad,
    /// `adan`.
    Adan,
    /// `lion`.
    Lion,
    /// `adafactor`.
    Adafactor,
}

/// The optimizers each key applies to; `lr`, `weight_decay` and the clipping apply to all.
const OWNERS: &Owners = &[
    ("momentum", &["sgd", "rmsprop"]),
    ("dampening", &["sgd"]),
    ("nesterov", &["sgd"]),
    ("beta1", &["adam", "adamw", "adan", "lion"]),
    ("beta2", &["adam", "adamw", "adan", "lion"]),
    ("beta3", &["adan"]),
    ("epsilon", &["adam", "adamw", "rmsprop", "adagrad", "adan"]),
    ("amsgrad", &["adam", "adamw"]),
    ("state", &["sgd", "adam", "adamw", "lion"]),
    ("alpha", &["rmsprop"]),
    ("centered", &["rmsprop"]),
    ("lr_decay", &["adagrad"]),
    ("beta2_decay", &["adafactor"]),
    ("epsilon1", &["adafactor"]),
    ("epsilon2", &["adafactor"]),
    ("d", &["adafactor"]),
];

/// Keys that mean the same for every optimizer. Others, the learning rate first of all, are chosen for one.
const SHARED: &[&str] =
    &["name", "weight_decay", "weight_decay_on", "state", "clip_value", "clip_norm", "clip_global_norm"];

impl OptimizerName {
    /// All optimizers with their names, in the order of the documentation.
    pub const ALL: [(&'static str, Self); 8] = [
        ("sgd", Self::Sgd),
        ("adam", Self::Adam),
        ("adamw", Self::AdamW),
        ("rmsprop", Self::RmsProp),
        ("adagrad", Self::AdaGrad),
        ("adan", Self::Adan),
        ("lion", Self::Lion),
        ("adafactor", Self::Adafactor),
    ];

    /// The name as text, such as `adamw`.
    pub fn as_str(self) -> &'static str {
        name_of(&Self::ALL, &self)
    }

    /// The learning rate without `optimizer.lr`.
    pub fn default_lr(self) -> f64 {
        match self {
            Self::Sgd => 0.1,
            Self::RmsProp | Self::AdaGrad | Self::Adafactor => 0.01,
            Self::Adam | Self::AdamW | Self::Adan => 1e-3,
            Self::Lion => 1e-4,
        }
    }
}

impl Optimizer {
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        let name = section.choice("name", "sgd", &OptimizerName::ALL)?;
        section.ledger.set_others_aside("name", "sgd", SHARED);
        section.ledger.keep_applicable("name", OWNERS)?;
        let weight_decay = if name == OptimizerName::AdamW { 0.01 } else { 0.0 };
        let lr = section.number("lr", name.default_lr(), POSITIVE)?;
        let kind = OptimizerKind::read(section, name)?;
        Ok(Self {
            lr,
            state: StateFormat::read(section, &kind)?,
            kind,
            weight_decay: section.number("weight_decay", weight_decay, 0.0..)?,
            weight_decay_on: section.choice("weight_decay_on", "all", &DECAYS)?,
            clip: Clip::read(section)?,
        })
    }
}

impl OptimizerKind {
    /// The name as text, as `optimizer.name` has it.
    pub fn name(&self) -> &'static str {
        self.optimizer_name().as_str()
    }

    /// The name, as `optimizer.name` has it.
    pub fn optimizer_name(&self) -> OptimizerName {
        match self {
            Self::Sgd { .. } => OptimizerName::Sgd,
            Self::Adam(_) => OptimizerName::Adam,
            Self::AdamW(_) => OptimizerName::AdamW,
            Self::RmsProp { .. } => OptimizerName::RmsProp,
            Self::AdaGrad { .. } => OptimizerName::AdaGrad,
            Self::Adan { .. } => OptimizerName::Adan,
            Self::Lion { .. } => OptimizerName::Lion,
            Self::Adafactor { .. } => OptimizerName::Adafactor,
        }
    }

    fn read(section: &Section, name: OptimizerName) -> Result<Self, ConfigError> {
        let share = |key: &str, default: f64| section.number(key, default, 0.0..1.0);
        let epsilon = |default: f64| section.number("epsilon", default, POSITIVE);
        let moments = || {
            Ok(Moments {
                beta1: share("beta1", 0.9)?,
                beta2: share("beta2", 0.999)?,
                epsilon: epsilon(1e-8)?,
                amsgrad: section.boolean("amsgrad", false)?,
            })
        };
        Ok(match name {
            OptimizerName::Sgd => Self::read_sgd(section)?,
            OptimizerName::Adam => Self::Adam(moments()?),
            OptimizerName::AdamW => Self::AdamW(moments()?),
            OptimizerName::RmsProp => Self::RmsProp {
                alpha: share("alpha", 0.99)?,
                epsilon: epsilon(1e-8)?,
                momentum: share("momentum", 0.0)?,
                centered: section.boolean("centered", false)?,
            },
            OptimizerName::AdaGrad => {
                Self::AdaGrad { lr_decay: section.number("lr_decay", 0.0, 0.0..)?, epsilon: epsilon(1e-10)? }
            }
            OptimizerName::Adan => Self::Adan {
                beta1: share("beta1", 0.98)?,
                beta2: share("beta2", 0.92)?,
                beta3: share("beta3", 0.99)?,
                epsilon: epsilon(1e-8)?,
            },
            OptimizerName::Lion => Self::Lion { beta1: share("beta1", 0.9)?, beta2: share("beta2", 0.99)? },
            OptimizerName::Adafactor => Self::Adafactor {
                beta2_decay: section.number("beta2_decay", -0.8, ..=0.0)?,
                epsilon1: section.number("epsilon1", 1.1920929e-7, POSITIVE)?,
                epsilon2: section.number("epsilon2", 1e-3, 0.0..)?,
                d: section.number("d", 1.0, 1.0..)?,
            },
        })
    }

    fn read_sgd(section: &Section) -> Result<Self, ConfigError> {
        let momentum = section.number("momentum", 0.0, 0.0..1.0)?;
        if section.number("dampening", 0.0, 0.0..=1.0)? > 0.0 && momentum == 0.0 {
            section.ledger.yield_to("dampening", "momentum", &DAMPENING_NEEDS_MOMENTUM)?;
        }
        let dampening = section.number("dampening", 0.0, 0.0..=1.0)?;
        if section.boolean("nesterov", false)? {
            if momentum == 0.0 {
                section.ledger.yield_to("nesterov", "momentum", &NESTEROV_NEEDS_MOMENTUM)?;
            }
            if dampening > 0.0 {
                section.ledger.yield_to("nesterov", "dampening", &NESTEROV_WITHOUT_DAMPENING)?;
            }
        }
        Ok(Self::Sgd { momentum, dampening, nesterov: section.boolean("nesterov", false)? })
    }
}

const DAMPENING_NEEDS_MOMENTUM: Rule = Rule {
    says: "dampening has no effect without momentum",
    fix: "set `optimizer.momentum`, for example to 0.9, or remove `optimizer.dampening`",
};
const STATE_NEEDS_MOMENTUM: Rule = Rule {
    says: "plain sgd has no state to store",
    fix: "remove `optimizer.state`, or set `optimizer.momentum`, for example to 0.9",
};
const STATE_WITHOUT_AMSGRAD: Rule = Rule {
    says: "amsgrad needs the greatest mean square in 32 bits",
    fix: "remove `optimizer.amsgrad` or `optimizer.state`",
};
const NESTEROV_NEEDS_MOMENTUM: Rule = Rule {
    says: "nesterov needs momentum",
    fix: "set `optimizer.momentum`, for example to 0.9, or remove `optimizer.nesterov`",
};
const NESTEROV_WITHOUT_DAMPENING: Rule = Rule {
    says: "nesterov needs zero dampening",
    fix: "remove `optimizer.dampening` or `optimizer.nesterov`",
};

impl Clip {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        section.ledger.keep_one(&["clip_value", "clip_norm", "clip_global_norm"], &ONE_CLIPPING)?;
        let value = section.optional_number("clip_value", POSITIVE)?.map(Self::Value);
        let norm = section.optional_number("clip_norm", POSITIVE)?.map(Self::Norm);
        let global = section.optional_number("clip_global_norm", POSITIVE)?.map(Self::GlobalNorm);
        Ok(value.or(norm).or(global))
    }
}

const ONE_CLIPPING: Rule = Rule { says: "only one kind of clipping applies", fix: "keep one of the two" };
