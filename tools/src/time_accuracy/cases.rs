//! The trainings whose time is planned and measured.

/// A model with its data, and the settings that are varied.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// Model, data and optimizer.
    pub(super) config: &'static str,
    pub(super) cases: &'static [Case],
}

/// A training of a group.
pub(super) struct Case {
    /// Samples of a step.
    pub(super) batch: usize,
    /// A line of the configuration; empty for none.
    setting: &'static str,
}

impl Case {
    /// The setting in words: `micro_batch 8`.
    pub(super) fn settings(&self) -> String {
        let setting = self.setting.rsplit_once('.').map_or(self.setting, |(_, setting)| setting);
        setting.replace(" = ", " ").replace('\'', "")
    }

    /// The configuration of a group with this case.
    pub(super) fn config(&self, group: &str) -> String {
        // The optimizer of the group makes place for that of the case.
        let is_kept =
            |line: &&str| !self.setting.starts_with("optimizer") || !line.trim().starts_with("optimizer");
        let lines: Vec<&str> = group.lines().filter(is_kept).collect();
        format!("{}\n{}\ntrain.batch = {}\n", lines.join("\n"), self.setting, self.batch)
    }
}

const fn case(batch: usize, setting: &'static str) -> Case {
    Case { batch, setting }
}

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "resnet18 small stem, 32×32",
        config: "model = { name = 'resnet18', stem = 'small' }
            data = { source = 'synthetic', height = 32, width = 32 }
            optimizer = { name = 'sgd', momentum = 0.9 }",
        cases: &[
            case(4, ""),
            case(16, ""),
            case(64, ""),
            case(32, ""),
            case(32, "memory.micro_batch = 8"),
            case(32, "memory.micro_batch = 2"),
            case(32, "memory.recompute = 'stages'"),
            case(32, "memory.precision = 'bf16'"),
            case(32, "memory.lean = false"),
            case(32, "memory.gradients = 'release'"),
            case(32, "optimizer.name = 'adam'"),
        ],
    },
    Group {
        name: "resnet18 width 32, 32×32",
        config: "model = { name = 'resnet18', stem = 'small', width = 32 }
            data = { source = 'synthetic', height = 32, width = 32 }
            optimizer = { name = 'adamw' }",
        cases: &[
            case(64, ""),
            case(64, "memory.micro_batch = 16"),
            case(64, "memory.micro_batch = 4"),
            case(64, "memory.recompute = 'stages'"),
            case(64, "memory.precision = 'bf16'"),
        ],
    },
    Group {
        name: "resnet50, 96×96",
        config: "model = { name = 'resnet50' }
            data = { source = 'synthetic', height = 96, width = 96 }
            optimizer = { name = 'sgd', momentum = 0.9 }",
        cases: &[
            case(2, ""),
            case(16, ""),
            case(16, "memory.micro_batch = 4"),
            case(16, "memory.micro_batch = 1"),
            case(16, "memory.recompute = 'stages'"),
            case(16, "memory.precision = 'bf16'"),
            case(16, "memory.lean = false"),
            case(16, "memory.gradients = 'release'"),
        ],
    },
    Group {
        name: "resnet50, 160×160",
        config: "model = { name = 'resnet50' }
            data = { source = 'synthetic', height = 160, width = 160 }
            optimizer = { name = 'adam' }",
        cases: &[case(8, ""), case(8, "memory.micro_batch = 2"), case(8, "memory.recompute = 'stages'")],
    },
    Group {
        name: "resnet50 width 16, 64×64",
        config: "model = { name = 'resnet50', width = 16 }
            data = { source = 'synthetic', height = 64, width = 64 }
            optimizer = { name = 'adam' }",
        cases: &[case(32, ""), case(32, "memory.micro_batch = 8"), case(32, "memory.micro_batch = 2")],
    },
    Group {
        name: "lstm 256, 32 steps",
        config: "model = { name = 'lstm', hidden = 256 }
            data = { source = 'synthetic', kind = 'sequence', steps = 32, features = 64 }
            optimizer = { name = 'sgd', momentum = 0.9 }",
        cases: &[
            case(128, ""),
            case(16, ""),
            case(128, "memory.micro_batch = 32"),
            case(128, "memory.micro_batch = 8"),
            case(128, "memory.recompute = 'stages'"),
            case(128, "memory.precision = 'bf16'"),
            case(128, "memory.lean = false"),
            case(128, "optimizer.name = 'adam'"),
        ],
    },
    Group {
        name: "lstm 1024, 8 steps",
        config: "model = { name = 'lstm', hidden = 1024 }
            data = { source = 'synthetic', kind = 'sequence', steps = 8, features = 64 }
            optimizer = { name = 'adam' }",
        cases: &[case(64, ""), case(64, "memory.micro_batch = 16"), case(64, "memory.micro_batch = 4")],
    },
    Group {
        name: "lstm-lm 256, 64 steps, 70 characters",
        config: "model = { name = 'lstm-lm', hidden = 256 }
            data = { source = 'synthetic', kind = 'tokens', steps = 64, vocabulary = 70 }
            optimizer = { name = 'adamw' }",
        cases: &[
            case(64, ""),
            case(8, ""),
            case(64, "memory.micro_batch = 16"),
            case(64, "memory.recompute = 'stages'"),
            case(64, "memory.precision = 'bf16'"),
        ],
    },
    Group {
        name: "lstm-lm 256, 2 layers, 35 steps, 8,000 words",
        config: "model = { name = 'lstm-lm', hidden = 256, layers = 2, dropout = 0.2 }
            data = { source = 'synthetic', kind = 'tokens', steps = 35, vocabulary = 8000 }
            optimizer = { name = 'adamw' }",
        cases: &[case(20, ""), case(20, "memory.micro_batch = 5"), case(20, "memory.lean = false")],
    },
];
