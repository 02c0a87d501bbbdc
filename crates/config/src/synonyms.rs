//! Names that other frameworks have for our keys.

/// Words of PyTorch, Lightning, Accelerate, Hugging Face and Keras, each with our key.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("train.batch", &["batch_size", "batchsize", "bs", "train_batch_size", "per_device_train_batch_size"]),
    ("train.epochs", &["max_epochs", "num_epochs", "n_epochs", "num_train_epochs", "nb_epoch"]),
    ("train.steps", &["max_steps", "num_steps", "n_steps", "iterations", "max_iters", "iters"]),
    ("train.patience", &["early_stopping", "early_stop", "early_stopping_patience"]),
    (
        "train.best",
        &["monitor", "metric", "eval_metric", "best_metric", "metric_for_best_model", "checkpoint_metric"],
    ),
    ("train.ema", &["ema_decay", "model_ema", "model_ema_decay", "use_ema", "averaging"]),
    ("train.swa", &["swa_start", "swa_epoch_start", "stochastic_weight_averaging"]),
    ("train.swa_lr", &["swa_lrs"]),
    ("train.seed", &["random_seed", "manual_seed", "random_state"]),
    (
        "train.eval_every",
        &["eval_interval", "eval_steps", "val_every", "val_check_interval", "check_val_every_n_epoch"],
    ),
    (
        "memory.micro_batch",
        &[
            "grad_accum",
            "grad_accumulation",
            "gradient_accumulation",
            "gradient_accumulation_steps",
            "accumulate_grad_batches",
            "accumulation_steps",
            "microbatch",
            "micro_batch_size",
        ],
    ),
    ("memory.precision", &["amp", "fp16", "bf16", "half", "mixed_precision", "dtype", "autocast"]),
    (
        "memory.recompute",
        &[
            "gradient_checkpointing",
            "grad_checkpointing",
            "activation_checkpointing",
            "checkpointing",
            "remat",
        ],
    ),
    ("memory.limit", &["max_memory", "memory_limit", "gpu_memory", "vram"]),
    ("optimizer.lr", &["learning_rate", "learningrate", "lr0", "base_lr", "max_lr"]),
    ("optimizer.name", &["optim", "optimizer"]),
    ("optimizer.weight_decay", &["wd", "decay", "l2"]),
    (
        "optimizer.clip_global_norm",
        &["clip", "grad_clip", "clip_grad_norm", "gradient_clip_val", "max_grad_norm", "gradient_clipping"],
    ),
    ("schedule.name", &["scheduler", "lr_scheduler", "lr_schedule", "lr_scheduler_type"]),
    ("schedule.warmup_steps", &["warmup", "num_warmup_steps", "warmup_iters"]),
    ("model.weights", &["pretrained", "checkpoint", "init_from", "resume_from"]),
    ("model.name", &["arch", "architecture", "backbone", "model"]),
    ("data.source", &["dataset", "dataset_name"]),
    ("train.class_weights", &["class_weight", "pos_weight", "loss_weights"]),
    ("data.sampling", &["sampler", "weighted_sampler", "balanced_sampling", "oversample"]),
    ("data.path", &["data_dir", "data_path", "dataset_path", "root", "folder"]),
    ("data.workers", &["num_workers", "n_workers", "dataloader_num_workers"]),
    ("device.devices", &["gpus", "gpu", "device", "accelerator", "cuda"]),
    ("run.directory", &["output_dir", "out_dir", "save_dir", "log_dir", "logdir", "default_root_dir"]),
    ("run.save_every", &["save_interval", "save_steps", "checkpoint_every", "every_n_epochs"]),
    ("run.log_every", &["log_interval", "logging_steps", "log_every_n_steps"]),
];

/// The full key of ours for a word that others use.
pub(crate) fn meant(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase().replace('-', "_");
    SYNONYMS.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Config;

    #[test]
    fn each_word_stands_for_one_key_that_there_is() {
        let config = Config::from_toml("x.toml", "").expect("a config");
        let known: BTreeSet<_> = config.resolved().into_iter().map(|entry| entry.key).collect();
        let mut seen = BTreeSet::new();
        for (key, words) in SYNONYMS {
            let is_open =
                key.starts_with("model.") || key.starts_with("data.") || *key == "schedule.warmup_steps";
            assert!(is_open || known.contains(*key), "{key}");
            words.iter().for_each(|word| assert!(seen.insert(word), "{word} twice"));
        }
        assert_eq!((meant("Batch-Size"), meant("batch")), (Some("train.batch"), None));
    }
}
