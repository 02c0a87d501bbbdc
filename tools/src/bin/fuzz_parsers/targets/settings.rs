//! Configurations, their values, and the command line.

use std::{str::FromStr, sync::LazyLock};

use oomph_config::{Config, ConfigFile, DeviceName, Interval, Sources, Value};
use oomph_core::Bytes;
use oomph_memory::gpu::{Card, MultiGpu, cuda_devices};
use oomph_trainer::Registry;

use super::{KIB, Target, lossy};

pub(super) fn targets() -> Vec<Target> {
    let file = |name, parse, share| Target {
        words: TOML,
        pairs: TOML_PAIRS,
        // The tree of a TOML file, the settings with their lines, and the value of each key.
        bound: |bytes| 256 * bytes.len() + 32 * KIB,
        ..Target::text(name, parse, &CONFIGS).rare(share)
    };
    vec![
        file("config", config, 2),
        file("config of a checkpoint", stored_config, 2),
        file("config values", |bytes| oomph_config::values("fuzz", &lossy(bytes)).is_ok(), 4),
        Target {
            // Beside each value the document keeps the text around it.
            bound: |bytes| 384 * bytes.len() + 32 * KIB,
            ..file("config to edit", edited_config, 4)
        },
        Target {
            words: TOML,
            pairs: TOML_PAIRS,
            // The configuration with all its defaults.
            bound: |bytes| 256 * bytes.len() + 64 * KIB,
            largest: ARGUMENT,
            ..Target::text(
                "--set",
                set,
                &["train.batch=64", "model={name='lstm',hidden=8}", "data.path=../x"],
            )
            .rare(10)
        },
        Target {
            largest: ARGUMENT,
            // The tree of all commands, which every command line builds.
            bound: |bytes| 512 * bytes.len() + 4096 * KIB,
            ..Target::text("command line", |bytes| oomph_cli::parsers::command_line(&lossy(bytes)), &COMMANDS)
                .rare(1)
        },
        word::<Bytes>("size", &["24GiB", "1.5 GiB", "8GB", "512mib", "1_000B"]),
        word::<MultiGpu>(
            "--gpu",
            &["24GiB", "2x24GiB", "2xRTX 4090,1x16GiB", "a100 80gb", "H100 MIG 1g.10gb+me"],
        )
        .rare(5),
        word::<Interval>("interval", &["4 steps", "1 epoch", "10 minutes", "never", "0.5 minutes"]),
        word::<DeviceName>("device", &["cpu", "cuda:0", "vulkan:12"]),
        Target::text("CUDA_VISIBLE_DEVICES", visible_devices, &["0,1", "GPU-1,GPU-2", "MIG-1"]),
    ]
}

/// The longest argument that Linux passes to a program.
const ARGUMENT: usize = 128 * KIB;

/// A parser of a short text, which is given by hand.
fn word<T: FromStr>(name: &'static str, seeds: &[&str]) -> Target {
    Target {
        words: &[b"x", b",", b".", b"_", b" ", b"9", b"GiB", b"\xc3\x97", b"1e9", b"nan"],
        // The most GPUs, each of 40 bytes.
        bound: |bytes| 64 * bytes.len() + 128 * KIB,
        largest: ARGUMENT,
        ..Target::text(name, |bytes| lossy(bytes).parse::<T>().is_ok(), seeds)
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::builtin);

fn is_read(file: ConfigFile) -> bool {
    Config::load(&Sources::new(file)).is_ok_and(|config| REGISTRY.read(&config).is_ok())
}

fn config(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| is_read(ConfigFile::from_text("fuzz", text)))
}

fn stored_config(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| is_read(ConfigFile::from_text("fuzz", text).stored()))
}

fn edited_config(bytes: &[u8]) -> bool {
    let values = [("train.batch", Value::from(8usize)), ("memory.precision", Value::from("bf16"))];
    ConfigFile::from_text("fuzz", lossy(bytes)).with_values(&values).is_ok()
}

fn set(bytes: &[u8]) -> bool {
    Sources::default().set(&lossy(bytes)).is_ok_and(|sources| Config::load(&sources).is_ok())
}

/// What the variable shows of three cards.
fn visible_devices(bytes: &[u8]) -> bool {
    static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| (0..3).map(card).collect());
    !cuda_devices(&CARDS, Some(&lossy(bytes))).is_empty()
}

fn card(index: u32) -> Card {
    Card {
        index,
        uuid: format!("GPU-{index}"),
        name: "card".to_owned(),
        pci_bus_id: None,
        minor: None,
        memory: None,
        gpu_utilization_percent: None,
        memory_utilization_percent: None,
        temperature_celsius: None,
        power_watts: None,
        power_limit_watts: None,
        processes: Vec::new(),
        mig_instances: Vec::new(),
        mig: false,
    }
}

const CONFIGS: [&str; 3] = [
    include_str!("../../../../../configs/resnet.toml"),
    include_str!("../../../../../configs/lstm.toml"),
    include_str!("../../../../../configs/mnist.toml"),
];
const COMMANDS: [&str; 5] = [
    "train\n--config\nlstm\n--set\ntrain.epochs=5",
    "plan\n--gpu\n2x24GiB\n--batch\n32",
    "find-batch\n--max\n512\n--memory-limit\n2GiB",
    "compare\n--optimizers\nadam,sgd\n--batches\n8,16",
    "predict\n--run\nruns/resnet\nphoto.png",
];
const TOML: &[&[u8]] = &[
    b"[",
    b"]",
    b"=",
    b".",
    b"\"",
    b"'''",
    b"{",
    b"}",
    b"\n",
    b"#",
    b"1979-05-27",
    b"nan",
    b"[[x]]",
    b"0x",
    b"\\u0000",
];
/// Lists, tables and dotted keys in each other.
const TOML_PAIRS: &[(&[u8], &[u8])] =
    &[(b"[", b"]"), (b"{a=", b"}"), (b"a.", b""), (b"[a.", b"a]"), (b"[[", b"]]"), (b"\n[[x.a]]\n", b"")];
