//! Messages about wrong configurations. Each topic has a table; each row is a config and its `--set` arguments.

use std::fmt::Write as _;

use oomph_config::{Config, ConfigError, ConfigFile, Section, Sources};

/// A config and its `--set` arguments.
type Case = (&'static str, &'static [&'static str]);

/// Reads the sections of a model and a data source as their readers do.
fn read_open_sections(config: &Config) -> Result<(), ConfigError> {
    let Config { model, data, .. } = config;
    model.choice("name", "resnet18", &[("resnet18", 18), ("resnet50", 50), ("lstm", 0)])?;
    model.integer("width", 64, 1..=4096)?;
    model.number("dropout", 0.0, 0.0..1.0)?;
    model.integers("layers", &[2, 2])?;
    model.integer("block.depth", 1, 1..)?;
    if data.string("source", "digits")? == "folder" {
        data.required_string("path", "the directory of the images")?;
    }
    data.boolean("shuffle", true)?;
    data.numbers("mean", &[0.5])?;
    data.strings("transforms", &[])?;
    data.bytes("cache")?;
    Ok(())
}

fn load(toml: &str, sets: &[&str]) -> Result<Config, ConfigError> {
    let mut sources = Sources::new(ConfigFile::from_text("x.toml", toml));
    for set in sets {
        sources = sources.set(set)?;
    }
    let config = Config::load(&sources)?;
    read_open_sections(&config)?;
    config.check_all_read()?;
    Ok(config)
}

fn check(toml: &str, sets: &[&str]) -> String {
    let error = match load(toml, sets) {
        Ok(_) => return "accepted".to_owned(),
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.ends_with('.'), "style: {message}");
    match error.hint() {
        Some(hint) => format!("{message}\n  hint: {hint}"),
        None => message,
    }
}

fn snapshot(name: &str, cases: &[Case]) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, messages(cases));
    });
}

fn messages(cases: &[Case]) -> String {
    let mut all = String::new();
    for (toml, sets) in cases {
        let mut input: Vec<_> = toml.lines().map(str::to_owned).collect();
        input.extend(sets.iter().map(|set| format!("--set {set}")));
        let message = check(toml, sets);
        assert_ne!(message, "accepted", "{input:?}");
        writeln!(all, "{}\n  {message}\n", input.join(" ⏎ ")).unwrap();
    }
    all
}

#[test]
fn what_is_not_toml_is_refused_with_line_and_column() {
    snapshot(
        "syntax",
        &[
            ("[train", &[]),
            ("[train]\nbatch = ", &[]),
            ("[train]\nbatch = 1\nbatch = 2", &[]),
            ("[train]\nbatch = 1\n[train]\nseed = 1", &[]),
            ("train.batch = 1\n[train.batch]\nx = 1", &[]),
            ("[model]\nname = \"resnet18", &[]),
            ("[model]\nname = lstm", &[]),
            ("\u{0}", &[]),
        ],
    );
}

#[test]
fn values_that_no_key_takes_are_refused() {
    snapshot(
        "values",
        &[
            ("[model]\nborn = 2026-01-31", &[]),
            ("[[model]]\nname = 'lstm'", &[]),
            ("[model]\nlayers = [{ width = 1 }]", &[]),
            ("[optimizer]\nlr = nan", &[]),
            ("[optimizer]\nlr = -inf", &[]),
            ("[optimizer]\nlr = 1e999", &[]),
            ("[train]\nseed = 99999999999999999999", &[]),
            ("[model]\n\"a key\" = 1", &[]),
            ("[model]\n\"\" = 1", &[]),
        ],
    );
}

#[test]
fn unknown_keys_and_sections_are_refused_with_the_nearest_known() {
    snapshot(
        "unknown",
        &[
            ("[trian]\nbatch = 1", &[]),
            ("[hyperparameters]", &[]),
            ("batch = 1", &[]),
            ("colour = 1", &[]),
            ("train = 1", &[]),
            ("[train]\nbacth = 1", &[]),
            ("[train]\neval-every = '1 epoch'", &[]),
            ("[train]\nlr = 0.1", &[]),
            ("[train]\nfrobnicate = 1", &[]),
            ("[train]\nbatch.size = 1", &[]),
            ("[model]\nwidht = 1", &[]),
            ("[data]\nbatch = 1", &[]),
            ("", &["train.bacth=1"]),
            ("", &["trian.batch=1"]),
            ("", &["batch=1"]),
        ],
    );
}

#[test]
fn train_is_checked() {
    snapshot(
        "train",
        &[
            ("[train]\nbatch = 0", &[]),
            ("[train]\nbatch = -1", &[]),
            ("[train]\nbatch = 1.5", &[]),
            ("[train]\nbatch = \"abc\"", &[]),
            ("[train]\nbatch = [1]", &[]),
            ("[train]\nbatch = '0 tokens'", &[]),
            ("[train]\nbatch = '1024 tokens'", &[]),
            ("[train]\nbatch = '1000 tokens'\n[data]\nsteps = 256", &[]),
            ("[data]\nsteps = 256", &["train.batch=100 tokens"]),
            ("[train]\nbatch = '1024 tokens'\n[data]\nsteps = 0", &[]),
            ("[train]\nbatch = '1024 tokens'\n[data]\nsteps = 256", &["memory.micro_batch=8"]),
            ("[train]\nepochs = 0", &[]),
            ("[train]\nsteps = true", &[]),
            ("[train]\nseed = -1", &[]),
            ("[train]\nlabel_smoothing = 1", &[]),
            ("[train]\neval_every = 5", &[]),
            ("[train]\neval_every = '10 minutes'", &[]),
            ("[train]\neval_every = '0 steps'", &[]),
            ("[train]\ntask = 1", &[]),
            ("[train]\npatience = 2\neval_every = 'never'", &[]),
            ("[train]\nmin_delta = 0.1", &[]),
        ],
    );
}

#[test]
fn optimizer_is_checked() {
    snapshot(
        "optimizer",
        &[
            ("[optimizer]\nstate = 'int8'", &[]),
            ("[optimizer]\nstate = 'int4'\nmomentum = 0.9", &[]),
            ("[optimizer]\nname = 'rmsprop'\nstate = 'int8'", &[]),
            ("[optimizer]\nname = 'adamw'\nstate = 'bf16'\namsgrad = true", &[]),
            ("[optimizer]\nname = 'adm'", &[]),
            ("[optimizer]\nname = 'muon'", &[]),
            ("[optimizer]\nlr = 0", &[]),
            ("[optimizer]\nlr = '0.1'", &[]),
            ("[optimizer]\nmomentum = 1", &[]),
            ("[optimizer]\nname = 'adam'\nmomentum = 0.9", &[]),
            ("[optimizer]\nbeta1 = 0.9", &[]),
            ("[optimizer]\nname = 'adamw'\nbeta2 = 1.0", &[]),
            ("[optimizer]\nnesterov = true", &[]),
            ("[optimizer]\nnesterov = true\nmomentum = 0.9\ndampening = 0.1", &[]),
            ("[optimizer]\ndampening = 0.1", &[]),
            ("[optimizer]\nnesterov = 'yes'", &[]),
            ("[optimizer]\nclip_norm = 1\nclip_value = 1", &[]),
            ("[optimizer]\nclip_global_norm = 0", &[]),
            ("[optimizer]\nweight_decay = -1e-4", &[]),
            ("[optimizer]\nname = 'adam'", &["optimizer.momentum=0.9"]),
            ("[optimizer]\nname = 'adafactor'\nbeta2_decay = 0.8", &[]),
            ("[optimizer]\nname = 'adafactor'\nd = 0.5", &[]),
            ("[optimizer]\nname = 'adafactor'\nepsilon1 = 0", &[]),
            ("[optimizer]\nname = 'lion'\nepsilon = 1e-8", &[]),
        ],
    );
}

#[test]
fn gradients_that_are_needed_after_backward_are_not_released() {
    snapshot(
        "release",
        &[
            ("[memory]\ngradients = 'free'", &[]),
            ("[memory]\ngradients = 'release'\n[optimizer]\nclip_global_norm = 1", &[]),
            ("[optimizer]\nclip_global_norm = 1", &["memory.gradients=release"]),
            ("[memory]\ngradients = 'release'\nprecision = 'fp16'", &[]),
            ("[memory]\ngradients = 'release'\n[device]\ndevices = 'cpu,cpu'\nstrategy = 'dp'", &[]),
        ],
    );
}

#[test]
fn what_there_is_not_is_not_offloaded() {
    snapshot(
        "offload",
        &[
            ("[memory]\noffload = 'state'", &[]),
            ("[memory]\noffload = []", &[]),
            ("[memory]\noffload = ['activations']", &[]),
            ("[memory]\noffload = ['optimizer']", &[]),
            ("[memory]\noffload = ['optimizer']\n[optimizer]\nname = 'adan'", &[]),
            ("[memory]\noffload = ['optimizer']\n[optimizer]\nname = 'adam'\namsgrad = true", &[]),
            ("[optimizer]\nname = 'lion'", &["memory.offload=optimizer,activations", "memory.recompute=ops"]),
        ],
    );
}

#[test]
fn what_is_needed_whole_is_not_sharded() {
    snapshot(
        "shard",
        &[
            ("[device]\ndevices = ['cpu', 'cpu']\nshard = 'state'", &[]),
            ("[device]\nshard = 'optimizer'", &[]),
            ("[device]\ndevices = ['cpu', 'cpu']\nstrategy = 'pipeline'\nshard = 'optimizer'", &[]),
            ("[device]\ndevices = ['cpu', 'cpu']\nshard = 'optimizer'\n[optimizer]\nname = 'adafactor'", &[]),
            (
                "[run]\ntensorboard = true\nhistograms = '1 epochs'",
                &["device.devices=cpu,cpu", "device.shard=gradients"],
            ),
        ],
    );
}

#[test]
fn what_fit_may_choose_is_named() {
    snapshot(
        "fit",
        &[
            ("[memory]\nfit = 'on'", &[]),
            ("[memory]\nfit = 'auto'\nallow = 'int8'", &[]),
            ("[memory]\nfit = 'auto'\nallow = []", &[]),
            ("[memory]\nfit = 'auto'\nallow = ['bf16', 'fp16']", &[]),
        ],
    );
}

#[test]
fn schedule_is_checked() {
    snapshot(
        "schedule",
        &[
            ("[schedule]\nname = 'onecycle'", &[]),
            ("[schedule]\nname = 'one-cycle'\nwarmup_steps = 10", &[]),
            ("[schedule]\nname = 'one-cycle'\nwarmup_fraction = 1.0", &[]),
            ("[schedule]\nname = 'one-cycle'\nanneal = 'cos'", &[]),
            ("[schedule]\nname = 'one-cycle'\ndiv = 0.5", &[]),
            ("[schedule]\nname = 'cosine'\ngamma = 0.1", &[]),
            ("[schedule]\nname = 'cosine'\nfinal_lr = -1", &[]),
            ("[schedule]\nfinal_lr = 0.1", &[]),
            ("[schedule]\nname = 'step'", &[]),
            ("[schedule]\nname = 'step'\nevery_steps = 10\nevery_epochs = 1", &[]),
            ("[schedule]\nname = 'step'\nevery_steps = 10\ngamma = 2", &[]),
            ("[schedule]\nname = 'step'\nmilestones_epochs = [60, 30]", &[]),
            ("[schedule]\nname = 'step'\nmilestones_epochs = []", &[]),
            ("[schedule]\nname = 'step'\nmilestones_epochs = [1.5]", &[]),
            ("[schedule]\nwarmup_start = 0.1", &[]),
        ],
    );
}

#[test]
fn memory_is_checked() {
    snapshot(
        "memory",
        &[
            ("[memory]\nprecision = 'fp8'", &[]),
            ("[memory]\nrecompute = []", &[]),
            ("[memory]\nrecompute = 'all'", &[]),
            ("[memory]\nlean = 'yes'", &[]),
            ("[memory]\ncleanup = 'always'", &[]),
            ("[memory]\nmicro_batch = 'half'", &[]),
            ("[memory]\nmicro_batch = 0", &[]),
            ("[train]\nbatch = 32\n[memory]\nmicro_batch = 64", &[]),
            ("[memory]\nmicro_batch = 64", &[]),
            ("[memory]\nmicro_batch = 16", &["train.batch=8"]),
            ("[memory]\nlimit = '24GiB'\n[device]\ndevices = 'cuda:0'", &[]),
            ("[memory]\nrecord = -1", &[]),
            ("[memory]\nrecord = 10000001", &[]),
            ("[memory]\nleak_check = 1", &[]),
            ("[memory]\npool = 'exact'", &[]),
            ("[memory]\npool = 'direct'", &[]),
            ("[memory]\nlimit = 0", &[]),
            ("[memory]\nlimit = '24 gigs'", &[]),
            ("", &["memory.precision=fp64"]),
        ],
    );
}

#[test]
fn device_and_run_are_checked() {
    snapshot(
        "device_and_run",
        &[
            ("[device]\ndevices = 'gpu'", &[]),
            ("[device]\ndevices = []", &[]),
            ("[device]\ndevices = 0", &[]),
            ("[device]\ndevices = ['cuda:0', 'cuda:1', 'cuda']", &[]),
            ("[device]\nstrategy = 'fsdp'", &[]),
            ("[device]\nthreads = 0", &[]),
            ("[device]\ntimeout = 0", &[]),
            ("[run]\nsave_every = '1 hour'", &[]),
            ("[run]\nkeep_last = 0", &[]),
            ("[run]\nlog_every = '10 steps'", &[]),
            ("[run]\ndirectory = ''", &[]),
            ("[run]\ndirectory = 5", &[]),
            ("[run]\nhistograms = '10 minutes'", &[]),
            ("[run]\ntensorboard = false\nhistograms = '1 epoch'", &[]),
            ("[run]\ntensorboard = 'no'", &[]),
        ],
    );
}

#[test]
fn strategies_are_checked_with_what_belongs_to_them() {
    snapshot(
        "strategies",
        &[
            ("[device]\nstrategy = 'pipeline'", &[]),
            ("[device]\nstrategy = 'dp'\ndevices = 'cuda:3'", &[]),
            ("[device]\nsync_batch_norm = true", &[]),
            ("[device]\ndevices = 'cpu'\nbucket = '1MiB'", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nsplit_points = ['layer3']", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\nschedule = 'gpipe'", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'dp'\nbucket = '1MiB'", &[]),
            ("[device]\ndevices = 'cpu,cpu'\ncoordinator_share = 0.2", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'dp'\ncoordinator_share = 1", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nbucket = 0", &[]),
            ("[device]\ndevices = 'cpu,cpu'\ncheck_every = 100", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'pipeline'\nschedule = 'zero-bubble'", &[]),
            (
                "[device]\ndevices = 'cpu,cpu'\nstrategy = 'pipeline'\nbalance = 'time'\nsplit_points = 'layer3'",
                &[],
            ),
            (
                "[device]\ndevices = 'cpu,cpu'\nstrategy = 'pipeline'\nsplit_points = ['layer2', 'layer3']",
                &[],
            ),
            ("[device]\ndevices = 'cpu,cpu,cpu'\nstrategy = 'model'\nsplit_points = 'layer2'", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\nsplit_points = []", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\nsplit_points = [3]", &[]),
            ("[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\nsplit_points = 'layer2,,layer3'", &[]),
            ("[device]\ndevices = 'cpu,cpu,cpu'\n[train]\nbatch = 2", &[]),
            ("[device]\ndevices = 'cpu,cpu,cpu'\n", &["train.batch=2"]),
            ("[train]\nbatch = 1", &["device.devices=cpu,cpu"]),
        ],
    );
}

#[test]
fn open_sections_are_checked_by_their_readers() {
    snapshot(
        "open_sections",
        &[
            ("[model]\nname = 'resnet181'", &[]),
            ("[model]\nwidth = 5000", &[]),
            ("[model]\ndropout = 1.0", &[]),
            ("[model]\nlayers = [2, -1]", &[]),
            ("[model]\nlayers = 2", &[]),
            ("[model.block]\ndepth = 0", &[]),
            ("[model]\nblock = 3", &[]),
            ("[data]\nsource = 'folder'", &[]),
            ("[data]\nshuffle = 1", &[]),
            ("[data]\nmean = [0.5, 'x']", &[]),
            ("[data]\ntransforms = 'flip'", &[]),
            ("[data]\ncache = -5", &[]),
        ],
    );
}

#[test]
fn the_command_line_is_checked() {
    snapshot(
        "command_line",
        &[
            ("", &["train.batch"]),
            ("", &["=5"]),
            ("", &["train.batch="]),
            ("", &["train=5"]),
            ("", &["train={ batch = 0 }"]),
            ("", &["train.batch=0"]),
            ("", &["train.batch=many"]),
            ("", &["train.batch='8'"]),
            ("", &["device.devices=[cpu]"]),
            ("", &["model.name='lstm"]),
            ("", &["model..name=lstm"]),
            ("", &["model.my name=lstm"]),
            ("", &["model.block=3", "model.block.depth=2"]),
            ("", &["model.name=line\nbreak"]),
            ("", &["run.directory=5"]),
        ],
    );
}

#[test]
fn a_flag_is_named_as_it_was_typed() {
    let load = |flag, key, value| Config::load(&Sources::default().flag(flag, key, value).unwrap());
    let message = |flag, key, value| load(flag, key, value).unwrap_err().to_string();
    insta::assert_snapshot!(
        message("--devices", "device.devices", "cpu,tpu"),
        @"--devices cpu,tpu: expected devices such as `cpu`, `cuda:0`, `vulkan:0` or `cuda:0,cuda:1`"
    );
    insta::assert_snapshot!(
        message("--memory-limit", "memory.limit", "24 gigs"),
        @"--memory-limit 24 gigs: expected a size such as `512MiB` or `24GiB`"
    );
}

#[test]
fn a_reader_s_own_check_names_value_and_origin() {
    let section = Section::from_toml("model", "hidden = 30\nheads = 4").unwrap();
    insta::assert_snapshot!(
        section.invalid("hidden", "a multiple of `model.heads`"),
        @"model:1: `model.hidden` is `30`; expected a multiple of `model.heads`"
    );
    assert_eq!(section.integer("depth", 7, ..).unwrap(), 7);
    insta::assert_snapshot!(
        section.invalid("depth", "an even number"),
        @"`model.depth` is `7` by default; expected an even number"
    );
    insta::assert_snapshot!(section.invalid("other", "a name"), @"`model.other` is missing; expected a name");
}

#[test]
fn a_long_value_is_shortened_and_a_long_word_is_no_trouble() {
    let long = "x".repeat(100_000);
    let message = check(&format!("[model]\nname = '{long}'"), &[]);
    assert!(message.len() < 250, "{message}");
    let message = check(&format!("[model]\n{long} = 1"), &[]);
    assert!(message.len() < 250, "{message}");
}

#[test]
fn nesting_without_end_is_refused_and_overflows_nothing() {
    for deep in [
        format!("{}x = 1", "a.".repeat(50_000)),
        format!("[{}x]", "a.".repeat(50_000)),
        format!("model.x = {}", "[".repeat(100_000)),
        format!("model.x = {}", "{a=".repeat(30_000)),
        format!("model.{}x = 1", "a.".repeat(60)),
    ] {
        assert_ne!(check(&deep, &[]), "accepted");
        assert_ne!(check("", &[&deep]), "accepted");
    }
}
