//! The configs that are built into the program.

use oomph_config::file::Embedded;

// `configs` beside `src` is a link to the folder of that name in the root, for a package has only files of its own folder.
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(Embedded { name: $name, text: include_str!(concat!("../configs/", $name)) }),*]
    };
}

/// The built-in configs: all files of `configs/`.
pub(crate) const CONFIGS: &[Embedded] = &embedded![
    "resnet.toml",
    "lstm.toml",
    "lstm-lm.toml",
    "gru.toml",
    "gpt-shakespeare.toml",
    "gpt-bpe.toml",
    "gpt2-finetune.toml",
    "vit-photos.toml",
    "mnist.toml",
    "resnet-folder.toml",
    "resnet-photos.toml",
    "resnet18-cifar10.toml",
    "resnet50-imagenet.toml",
    "transfer.toml",
    "ddp.toml",
    "dp.toml",
    "model.toml",
    "pipeline.toml",
    "synthetic-resnet50.toml",
    "tune-digits.toml",
    "tune-photos.toml",
];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_config_of_the_repository_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
        let mut there: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        let mut embedded: Vec<_> = CONFIGS.iter().map(|config| config.name).collect();
        there.sort();
        embedded.sort_unstable();
        assert_eq!(embedded, there);
    }

    #[test]
    fn the_default_config_is_embedded() {
        assert_eq!(CONFIGS[0].name, oomph_config::file::DEFAULT_CONFIG);
    }
}
