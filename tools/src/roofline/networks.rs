//! The networks that are compared with the limits: those of `tools/speed/networks.py`.

use crate::stock_burn::ours::{LSTM, RESNET};

/// Their names and their configs.
pub(crate) const NETWORKS: [(&str, &str); 6] = [
    ("ResNet-50", RESNET_50),
    ("LSTM", LSTM),
    ("ResNet-18", RESNET),
    ("LSTM-LM", LANGUAGE_MODEL),
    ("GPT", GPT),
    ("ViT", VIT),
];

const RESNET_50: &str = "model = { name = 'resnet50' }
    data = { source = 'synthetic', kind = 'image', channels = 3, height = 224, width = 224, classes = 1000, train_samples = 8 }
    train = { batch = 8 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";

const LANGUAGE_MODEL: &str = "model = { name = 'lstm-lm', hidden = 256, layers = 1 }
    data = { source = 'synthetic', kind = 'tokens', steps = 64, vocabulary = 64, carry = false, train_samples = 32 }
    train = { batch = 32 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";

const GPT: &str = "model = { name = 'gpt', preset = 'char' }
    data = { source = 'synthetic', kind = 'tokens', steps = 256, vocabulary = 65, carry = false, train_samples = 8 }
    train = { batch = 8 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";

const VIT: &str = "model = { name = 'vit', preset = 'tiny' }
    data = { source = 'synthetic', kind = 'image', channels = 3, height = 224, width = 224, classes = 1000, train_samples = 8 }
    train = { batch = 8 }
    optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, weight_decay = 1e-4 }";
