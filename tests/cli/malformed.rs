//! Error messages for malformed input. Each file in `snapshots/` holds the messages and exit codes of one group of mistakes.

use std::{fs, process::Command};

use crate::{
    photos::{cats_and_dogs, jpeg, truncated},
    support::{Case, Folder, check},
};

#[test]
fn config_files() {
    check(
        "malformed_config_files",
        &[
            Case::new("a config that does not exist", &["train", "--config", "resent"]),
            Case::new("a path that does not exist", &["train", "--config", "nowhere/x.toml"]),
            Case::new("a directory", &["train", "--config", "configs"])
                .after(|folder| fs::create_dir(folder.at("configs")).unwrap()),
            Case::new("not UTF-8", &["train", "--config", "x.toml"])
                .after(|folder| folder.write("x.toml", b"[model]\nname = '\xff'")),
            Case::new("larger than any config", &["train", "--config", "x.toml"])
                .after(|folder| folder.write("x.toml", vec![b'#'; 2 << 20])),
            Case::new("an empty file", &["train", "--config", "x.toml"])
                .after(|folder| folder.write("x.toml", "")),
            Case::config("not TOML", "[model\nname = 'lstm'"),
            Case::config("a string without quotes", "[model]\nname = lstm"),
            Case::config("a key twice", "[train]\nbatch = 1\nbatch = 2"),
        ],
    );
}

#[test]
fn config_values() {
    check(
        "malformed_config_values",
        &[
            Case::config("an unknown key", "[train]\nbacth = 32"),
            Case::config("an unknown section", "[trian]\nbatch = 32"),
            Case::config(
                "an unknown key of the model",
                "[model]\nname = 'lstm'\nhiden = 8\n[data]\nsource = 'digits'",
            ),
            Case::config(
                "a key of another section",
                "[model]\nname = 'lstm'\n[data]\nsource = 'digits'\nbatch = 8",
            ),
            Case::config("a wrong type", "[train]\nbatch = 'many'"),
            Case::config("a negative batch", "[train]\nbatch = -1"),
            Case::config("no steps", "[train]\nsteps = 0"),
            Case::config("an impossible learning rate", "[optimizer]\nlr = 0"),
            Case::config("nesterov without momentum", "[optimizer]\nnesterov = true"),
            Case::config("a key of another optimizer", "[optimizer]\nname = 'adam'\nmomentum = 0.9"),
            Case::config("a micro-batch beyond the batch", "[train]\nbatch = 8\n[memory]\nmicro_batch = 16"),
            Case::config("early stopping without evaluation", "[train]\npatience = 3\neval_every = 'never'"),
            Case::config("an unknown model", "[model]\nname = 'vgg16'\n[data]\nsource = 'digits'"),
            Case::config("an unknown source", "[model]\nname = 'lstm'\n[data]\nsource = 'imagenet'"),
            Case::config("no model", "[data]\nsource = 'digits'"),
            Case::config(
                "an unknown task",
                "[model]\nname = 'lstm'\n[data]\nsource = 'digits'\n[train]\ntask = 'segmentation'",
            ),
            Case::config("an unknown precision", "[memory]\nprecision = 'fp8'"),
            Case::config("recompute to come", "[memory]\nrecompute = 'stages'"),
            Case::config("a limit to come", "[memory]\nlimit = '24GiB'\n[device]\ndevices = 'cuda:0'"),
            Case::config("a strategy for several devices", "[device]\nstrategy = 'pipeline'"),
        ],
    );
}

#[test]
fn flags() {
    check(
        "malformed_flags",
        &[
            Case::new("an unknown command", &["trian"]),
            Case::new("an unknown flag", &["train", "--btach", "8"]),
            Case::new("a summary of nothing", &["summary", "--batch", "0"]),
            Case::new("an unknown shell", &["completions", "tcsh"]),
            Case::train("--set without a value", &["--set", "train.batch"]),
            Case::train("--set of an unknown key", &["--set", "train.bacth=8"]),
            Case::train("--set of a wrong type", &["--set", "train.batch=many"]),
            Case::train("--set of half a list", &["--set", "device.devices=[cpu"]),
            Case::train("a memory limit to come", &["--memory-limit", "24GiB", "--devices", "cuda:0"]),
            Case::train("a memory limit that is no size", &["--memory-limit", "24 gigs"]),
            Case::train("an unknown device", &["--devices", "tpu"]),
            Case::train("two devices, one sample", &["--devices", "cpu,cpu", "--set", "train.batch=1"]),
            Case::train("an error as JSON", &["--devices", "tpu", "--json"]),
        ],
    );
}

/// With the feature `cuda` the message depends on the machine.
#[cfg(not(feature = "cuda"))]
#[test]
fn a_gpu_without_cuda_in_the_build() {
    check("malformed_no_cuda", &[Case::train("a GPU", &["--devices", "cuda:0"])]);
}

#[test]
fn data_folders() {
    let train = |about, more: &[&'static str]| {
        Case::new(about, &[&["train", "--config", "photos.toml"], more].concat())
    };
    check(
        "malformed_data",
        &[
            train("no path", &["--set", "data.path="]).after(cats_and_dogs),
            train("a path that does not exist", &["--set", "data.path=nowhere"]).after(cats_and_dogs),
            train("a file for a folder", &["--set", "data.path=tiny.toml"]).after(cats_and_dogs),
            train("a photo alone, and no test part", &[]).after(|folder| {
                cats_and_dogs(folder);
                fs::remove_dir_all(folder.at("photos/test")).unwrap();
                let photos = fs::read_dir(folder.at("photos/train/cat")).unwrap().skip(1);
                photos.for_each(|photo| fs::remove_file(photo.unwrap().path()).unwrap());
            }),
            train("no classes", &[]).after(|folder| {
                cats_and_dogs(folder);
                fs::remove_dir_all(folder.at("photos/train")).unwrap();
                fs::create_dir(folder.at("photos/train")).unwrap();
            }),
            train("a class of the test part alone", &[]).after(|folder| {
                cats_and_dogs(folder);
                folder.write("photos/test/bird/1.jpg", jpeg(9));
            }),
            train("an empty class", &[]).after(|folder| {
                cats_and_dogs(folder);
                folder.write("photos/train/bird/readme.txt", "birds to come");
            }),
            train("a truncated JPEG", &[]).after(truncated),
            train("a text called JPEG", &[]).after(|folder| {
                cats_and_dogs(folder);
                folder.write("photos/train/dog/1.jpg", "woof");
            }),
            train("nothing but damaged photos", &["--set", "data.on_corrupt=skip"]).after(|folder| {
                cats_and_dogs(folder);
                for photo in ["cat/1", "cat/2", "cat/3", "dog/1", "dog/2", "dog/3"] {
                    folder.write(&format!("photos/train/{photo}.jpg"), "");
                }
            }),
            train(
                "a batch larger than the data",
                &["--set", "train.batch=50", "--set", "data.last_batch=drop"],
            )
            .after(cats_and_dogs),
        ],
    );
}

/// Damaged and missing files with many samples each.
#[test]
fn data_files() {
    let idx_files = |labels: &'static [u8]| {
        move |folder: &Folder| {
            for part in ["train", "t10k"] {
                let images = [&[0u8, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1][..], &[7, 8]].concat();
                folder.write(&format!("mine/{part}-images-idx3-ubyte"), images);
                let labels = [&[0, 0, 8, 1, 0, 0, 0][..], labels].concat();
                folder.write(&format!("mine/{part}-labels-idx1-ubyte"), labels);
            }
        }
    };
    let series = |text: &'static str| move |folder: &Folder| folder.write("series.csv", text);
    macro_rules! case {
        ($about:literal, $data:literal) => {
            Case::config($about, concat!("[model]\nname = 'lstm'\n[data]\n", $data))
        };
    }
    check(
        "malformed_data_files",
        &[
            case!("no files of MNIST", "source = 'idx'\npath = 'nowhere'\nname = 'mnist'"),
            case!("a download of nothing", "source = 'idx'\npath = 'nowhere'\ndownload = true"),
            case!("labels that are cut short", "source = 'idx'\npath = 'mine'").after(idx_files(&[2, 0])),
            case!("a label that is none", "source = 'idx'\npath = 'mine'\nclasses = 3")
                .after(idx_files(&[2, 0, 3])),
            case!("no files of CIFAR-10", "source = 'cifar10'\npath = 'nowhere'"),
            case!("no series", "source = 'csv'\npath = 'series.csv'"),
            case!("a series of words", "source = 'csv'\npath = 'series.csv'")
                .after(series("day,temp\nMonday,3\n")),
            case!("a column that is not there", "source = 'csv'\npath = 'series.csv'\ntargets = ['wind']")
                .after(series("day,temp\n1,3\n")),
            case!("a series that is too short", "source = 'csv'\npath = 'series.csv'\nsteps = 4")
                .after(series("a\n1\n2\n3\n4\n5\n")),
        ],
    );
}

#[test]
fn model_and_data() {
    check(
        "malformed_model_and_data",
        &[
            Case::config(
                "a model of images, given rows",
                "[model]\nname = 'resnet18'\n[data]\nsource = 'digits'\nlayout = 'rows'",
            ),
            Case::new("a summary of them", &["summary", "--set", "data.layout=rows"]),
            Case::train("augmentation of rows", &["--set", "data.flip=true"]),
            Case::train("a task for other targets", &["--set", "train.task=regression", "--quiet"]),
            Case::train("a loss that is no number", &["--set", "optimizer.lr=3e38", "--quiet"]),
            Case::train(
                "a loss that is no number, after a checkpoint",
                &["--set", "optimizer.lr=3e38", "--set", "run.save_every='1 steps'", "--quiet"],
            ),
        ],
    );
}

#[test]
fn run_directories() {
    let trained = |folder: &Folder| drop(folder.train(&[]).success());
    check(
        "malformed_run_directories",
        &[
            Case::train("a run is there already", &[]).after(trained),
            Case::train("a file is in the way", &["--set", "run.directory=tiny.toml/run"]),
            Case::train("a place that cannot be written", &["--set", "run.directory=/proc/oomph"]),
            Case::train("a directory without a name", &["--set", "run.directory=''"]),
        ],
    );
}

/// The whole path of a checkpoint's file.
fn model_file(step: usize) -> String {
    format!("run/checkpoints/step-{step:08}/model.safetensors")
}

/// Flips a bit in the middle of a file.
pub(crate) fn damage(folder: &Folder, path: &str) {
    let mut bytes = folder.read(path);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    folder.write(path, bytes);
}

#[test]
fn checkpoints() {
    let trained = |folder: &Folder| drop(folder.train(&["--set", "run.save_every='3 steps'"]).success());
    let resume = |about, more: &[&'static str]| {
        Case::train(about, &[&["--resume", "run"], more].concat()).after(trained)
    };
    check(
        "malformed_checkpoints",
        &[
            Case::new("resume from nowhere", &["train", "--resume", "nowhere"]),
            Case::new("resume from a file", &["train", "--resume", "tiny.toml/run"]),
            Case::new("evaluate nothing", &["evaluate", "--config", "tiny.toml"]),
            resume("every checkpoint damaged", &[]).after(move |folder| {
                trained(folder);
                damage(folder, &model_file(3));
                damage(folder, &model_file(6));
            }),
            Case::new(
                "this checkpoint damaged",
                &["evaluate", "--checkpoint", "run/checkpoints/step-00000006"],
            )
            .after(move |folder| {
                trained(folder);
                damage(folder, &model_file(6));
            }),
            Case::new(
                "a checkpoint without its model",
                &["evaluate", "--checkpoint", "run/checkpoints/latest"],
            )
            .after(move |folder| {
                trained(folder);
                fs::remove_file(folder.at(&model_file(6))).unwrap();
            }),
            Case::new(
                "a checkpoint's state is no JSON",
                &["evaluate", "--checkpoint", "run/checkpoints/latest"],
            )
            .after(move |folder| {
                trained(folder);
                folder.write("run/checkpoints/step-00000006/state.json", "{}");
            }),
            resume("a checkpoint of a smaller model", &["--set", "model.hidden=16"]),
            resume("a checkpoint of another optimizer", &["--set", "optimizer.name=adam"]),
            resume(
                "another batch in the middle of an epoch",
                &["--set", "train.batch=16", "--set", "train.steps=9"],
            ),
            Case::new(
                "evaluate with another model",
                &["evaluate", "--checkpoint", "run", "--set", "model.hidden=16"],
            )
            .after(trained),
        ],
    );
}

/// Opening a pipe blocks until it has a writer, so a hang is the failure of this test.
#[test]
fn pipes_are_refused_wherever_a_file_is_expected() {
    let pipe = |folder: &Folder, path: &str| {
        let _ = fs::remove_file(folder.at(path));
        let made = Command::new("mkfifo").arg(folder.at(path)).status().expect("mkfifo starts");
        assert!(made.success());
    };
    let trained = |path: &'static str| {
        move |folder: &Folder| {
            folder.train(&[]).success();
            pipe(folder, path);
        }
    };
    let evaluate = &["evaluate", "--checkpoint", "run/checkpoints/latest"];
    check(
        "malformed_pipes",
        &[
            Case::new("a config", &["train", "--config", "x.toml"])
                .after(move |folder| pipe(folder, "x.toml")),
            Case::train("weights", &["--set", "model.weights=w"]).after(move |folder| pipe(folder, "w")),
            Case::train("weights that are a device", &["--set", "model.weights=/dev/zero"]),
            Case::train("the log", &["--resume"]).after(trained("run/metrics.jsonl")),
            Case::train("the lock", &["--resume"]).after(trained("run/lock")),
            Case::new("the state", evaluate).after(trained("run/checkpoints/latest/state.json")),
            Case::new("the model", evaluate).after(trained("run/checkpoints/latest/model.safetensors")),
        ],
    );
    let folder = Folder::new();
    trained("run/lock")(&folder);
    folder.oomph(&["runs", "run"]).success();
}
