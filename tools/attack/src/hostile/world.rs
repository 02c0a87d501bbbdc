//! Valid folders, one a data source: a configuration, data, a trained run, weights. Cases damage copies of them.

use std::fs;

use super::formats::{Tensor, gz, idx, jpeg, png, pth};
use crate::{Arena, Error, Folder, forged::tensors::TensorFile};

/// A data source.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    /// Its section `[model]` and `[data]`, a key a line.
    config: &'static str,
    /// Its files.
    pub(crate) files: &'static [&'static str],
    /// What `predict` is given; nothing if the model is one that cannot predict.
    pub(crate) predicts: &'static [&'static str],
}

const SERIES: &str =
    "[model]\nname = \"lstm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"csv\"\nsteps = 4\n";

/// All of them. `config.toml` is also there as `resnet.toml`, the default of `--config`.
pub(crate) const SOURCES: [Source; 8] = [
    Source {
        name: "idx",
        config: "[model]\nname = \"lstm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"idx\"\npath = \"data\"\n",
        files: &[
            "data/train-images-idx3-ubyte",
            "data/train-labels-idx1-ubyte",
            "data/t10k-images-idx3-ubyte",
            "data/t10k-labels-idx1-ubyte",
        ],
        predicts: &["image.png"],
    },
    Source {
        name: "idx.gz",
        config: "[model]\nname = \"resnet18\"\nstem = \"small\"\nwidth = 2\n[data]\nworkers = 1\nsource = \"idx\"\npath = \"data\"\nname = \"mnist\"\n",
        files: &[
            "data/train-images-idx3-ubyte.gz",
            "data/train-labels-idx1-ubyte.gz",
            "data/t10k-images-idx3-ubyte.gz",
            "data/t10k-labels-idx1-ubyte.gz",
        ],
        predicts: &["image.jpg"],
    },
    Source {
        name: "cifar10",
        config: "[model]\nname = \"lstm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"cifar10\"\npath = \"data\"\n",
        files: &["data/data_batch_1.bin", "data/test_batch.bin", "data/batches.meta.txt"],
        predicts: &["image.png"],
    },
    Source {
        name: "folder",
        config: "[model]\nname = \"lstm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"folder\"\npath = \"data\"\nsize = 8\n",
        files: &[
            "data/train/cat/1.png",
            "data/train/dog/2.jpg",
            "data/test/cat/1.png",
            "data/test/dog/2.jpg",
        ],
        predicts: &["data/test"],
    },
    Source { name: "csv", config: SERIES, files: &["series.csv"], predicts: &[] },
    Source { name: "csv.gz", config: SERIES, files: &["series.csv.gz"], predicts: &[] },
    Source {
        name: "text",
        config: "[model]\nname = \"lstm-lm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"text\"\npath = \"text.txt\"\nsteps = 8\n",
        files: &["text.txt"],
        predicts: &["--prompt", "the", "--length", "5"],
    },
    Source {
        name: "vocabulary",
        config: "[model]\nname = \"lstm-lm\"\nhidden = 4\n[data]\nworkers = 0\nsource = \"text\"\npath = \"text.txt.gz\"\nsteps = 8\nlevel = \"word\"\nvocabulary_file = \"tokens.json\"\n",
        files: &["tokens.json", "text.txt.gz"],
        predicts: &["--prompt", "the fox", "--length", "5"],
    },
];

impl Source {
    fn config(&self) -> String {
        let path = match self.name {
            "csv" | "csv.gz" => format!("path = \"{}\"\n", self.files[0]),
            _ => String::new(),
        };
        let run = "[run]\ndirectory = \"run\"\ntensorboard = false\nlog_every = 1\n";
        format!("{}{path}[train]\nsteps = 2\nbatch = 2\n{run}", self.config)
    }
}

/// Makes the folders of all sources, and trains in each.
pub(crate) fn make(arena: &Arena) -> Result<Folder, Error> {
    let world = arena.folder()?;
    for source in &SOURCES {
        write(&world, source)?;
        let folder = world.at(source.name);
        for words in
            [&["train", "--config", "config.toml"][..], &["export", "run", "--to", "weights.safetensors"]]
        {
            let answer = arena.oomph(&folder).arguments(words).run()?;
            if !answer.is_success() {
                return Err(format!("`{}` cannot be prepared: {}", source.name, answer.last_words()).into());
            }
        }
        let weights = fs::read(folder.join("weights.safetensors"))?;
        let weights = TensorFile::decode(&weights).ok_or("the export is no safetensors file")?;
        fs::write(folder.join("weights.pth"), pth(&tensors(&weights)))?;
    }
    Ok(world)
}

/// The tensors of 32-bit floats in a file.
fn tensors(file: &TensorFile) -> Vec<Tensor> {
    let read = |name: String| {
        let (begin, end) = file.place(&name)?;
        let shape = file.head[&name]["shape"].as_array()?.iter().filter_map(|it| it.as_u64());
        let values = file.data[begin..end].as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        let is_float = file.head[&name]["dtype"] == "F32";
        is_float.then(|| (name.clone(), shape.map(|size| size as usize).collect(), values.collect()))
    };
    file.names().into_iter().filter_map(read).collect()
}

/// Writes configuration and data of a source.
fn write(world: &Folder, source: &Source) -> Result<(), Error> {
    let at = |file: &str| format!("{}/{file}", source.name);
    world.write(at("config.toml"), source.config())?;
    world.write(at("resnet.toml"), source.config())?;
    world.write(at("image.png"), png(3)?)?;
    world.write(at("image.jpg"), jpeg(3))?;
    let bytes = || (0..=255).cycle();
    let text = "the quick brown fox jumps over the lazy dog\n".repeat(20);
    let row = |row: u32| format!("{row},{}.5,{}\n", row % 7, row * row % 11);
    let series: String = std::iter::once("day,wind,rain\n".to_owned()).chain((0..40).map(row)).collect();
    for file in source.files {
        let count = if file.contains("train") { 8 } else { 4 };
        let content = match *file {
            name if name.contains("images") => idx(&[count, 8, 8], bytes()),
            name if name.contains("labels") => idx(&[count], bytes()),
            "data/batches.meta.txt" => {
                (0..10).map(|class| format!("class {class}\n")).collect::<String>().into()
            }
            name if name.ends_with(".bin") => {
                (0..4 * 3073).map(|at| if at % 3073 == 0 { 3 } else { at as u8 }).collect()
            }
            name if name.ends_with(".png") => png(1)?,
            name if name.ends_with(".jpg") => jpeg(9),
            "tokens.json" => b"[\"<unk>\",\"the\",\"quick\",\"brown\",\"fox\",\"\\n\"]".to_vec(),
            name if name.starts_with("series") => series.clone().into_bytes(),
            _ => text.clone().into_bytes(),
        };
        world.write(at(file), if file.ends_with(".gz") { gz(&content)? } else { content })?;
    }
    if source.name == "cifar10" {
        let first = fs::read(world.at(at("data/data_batch_1.bin")))?;
        (2..=5).try_for_each(|number| world.write(at(&format!("data/data_batch_{number}.bin")), &first))?;
    }
    if source.name == "vocabulary" {
        world.write(at("text.txt"), text)?;
    }
    Ok(())
}
