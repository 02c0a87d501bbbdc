//! Messages about wrong `[tune]` sections, when a config is loaded and when a study is opened.

use std::fmt::Write as _;

use oomph_config::{Config, ConfigError, ConfigFile, Sources};

/// A config and its `--set` arguments.
type Case = (&'static str, &'static [&'static str]);

/// Reads the open sections as the readers of a model and a source do.
fn read(config: &Config) -> Result<(), ConfigError> {
    match config.model.choice("name", "resnet18", &[("resnet18", 18), ("lstm", 0)])? {
        0 => config.model.integer("hidden", 128, 1..=65536)?,
        _ => config.model.integer("width", 64, 1..=4096)?,
    };
    config.data.string("source", "digits")?;
    config.data.integer("workers", 2, 0..=64)?;
    config.check_all_read()
}

fn message(error: &ConfigError) -> String {
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.ends_with('.'), "style: {message}");
    match error.hint() {
        Some(hint) => format!("{message}\n  hint: {hint}"),
        None => message,
    }
}

fn snapshot(name: &str, cases: &[Case], check: impl Fn(Sources) -> Result<(), ConfigError>) {
    let mut all = String::new();
    for (toml, sets) in cases {
        let mut input: Vec<_> = toml.lines().map(str::to_owned).collect();
        input.extend(sets.iter().map(|set| format!("--set {set}")));
        let start = Sources::new(ConfigFile::from_text("x.toml", *toml));
        let sources = sets.iter().try_fold(start, |sources, set| sources.set(set));
        let error = sources.and_then(&check).expect_err(toml);
        writeln!(all, "{}\n  {}\n", input.join(" ⏎ "), message(&error)).unwrap();
    }
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, all);
    });
}

#[test]
fn settings_of_a_study_are_checked() {
    let cases: &[Case] = &[
        ("[tune]\ntrails = 5", &[]),
        ("[tune]\nfrobnicate = 5", &[]),
        ("[tune]\nmetric = 'eval_loss'", &[]),
        ("[tune]\nmetric = 'f1'", &[]),
        ("[tune]\nsampler = 'bayes'", &[]),
        ("[tune]\nscheduler = 'ahsa'", &[]),
        ("[tune]\ntrials = 0", &[]),
        ("[tune]\ntrials = 1e3", &[]),
        ("[tune]\nmin_epochs = 0", &[]),
        ("[tune]\nmin_epochs = 1\nmin_steps = 100", &[]),
        ("[tune]\neta = 1", &[]),
        ("[tune]\neta = 2.5", &[]),
        ("[tune]\nparallel = 0", &[]),
        ("[tune]\nparallel = 'all'", &[]),
        ("[tune]\nlease = 0", &[]),
        ("[tune]\nlease = '2 minutes'", &[]),
        ("[tune]\non_too_large = 'skip'", &[]),
        ("[tune]\ndeterministic = 'yes'", &[]),
        ("[tune]\ncheckpoints = 'last'", &[]),
        ("[tune]\nseed = -1", &[]),
        ("[tune]\nstartup = 0", &[]),
        ("tune = 3", &[]),
        ("", &["tune.trials=many"]),
    ];
    snapshot("tune_settings", cases, |sources| Config::load(&sources).map(drop));
}

#[test]
fn parameters_are_checked() {
    let cases: &[Case] = &[
        ("[tune]\nspace = 3", &[]),
        ("[tune.space]\n'optimizer.lr' = 0.1", &[]),
        ("[tune.space]\n'optimizer.lr' = { lwo = 1e-4, high = 0.1 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 1e-4, high = 0.1, prior = 3 }", &[]),
        ("[tune.space.optimizer]\nlr = { from = 1e-4, to = 0.1 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 1e-4 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = '1e-4', high = 0.1 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 0.1, high = 1e-4 }", &[]),
        ("[tune.space]\n'train.batch' = { low = 8, high = 8 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 0, high = 0.1, log = true }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 0.1, high = 0.5, log = 1 }", &[]),
        ("[tune.space]\n'train.batch' = { low = 8, high = 64, step = 100 }", &[]),
        ("[tune.space]\n'train.batch' = { low = 8, high = 64, step = 10 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 0.1, high = 0.55, step = 0.1 }", &[]),
        ("[tune.space]\n'train.batch' = { low = 8, high = 64, step = 0 }", &[]),
        ("[tune.space]\n'train.batch' = { low = 8, high = 64, step = 8, log = true }", &[]),
        ("[tune.space]\n'train.seed' = { low = 0, high = 18446744073709551615 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = -1.7e308, high = 1.7e308 }", &[]),
        ("[tune.space]\n'optimizer.name' = []", &[]),
        ("[tune.space]\n'optimizer.name' = ['sgd', 'adam', 'sgd']", &[]),
        ("[tune.space]\n'optimizer.lr' = [1, 1.0]", &[]),
        ("[tune.space]\n'optimizer.lr' = { choices = [1], low = 1 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { choices = 1 }", &[]),
        ("[tune]\nsampler = 'grid'\n[tune.space]\n'optimizer.lr' = { low = 0.1, high = 0.5 }", &[]),
        ("[tune.space]\n'optimizer.lr' = [0.1]\n[tune.space.optimizer]\nlr = [0.2]", &[]),
        ("[tune.space]\n'a key' = [1]", &[]),
        ("[tune.space]\n'model.x' = [1]\n'model.x.y' = [1]", &[]),
        ("", &["tune.space.optimizer.lr={low=1"]),
        ("", &["tune.space.optimizer.lr={low=2,high=1}"]),
        ("", &["tune.space.optimizer.lr={low=1,hihg=2}"]),
    ];
    snapshot("tune_space", cases, |sources| Config::load(&sources).map(drop));
}

#[test]
fn keys_and_conditions_are_checked() {
    let cases: &[Case] = &[
        ("[tune.space]\nlr = { low = 0.1, high = 0.5 }", &[]),
        ("[tune.space]\nfrobnicate = [1]", &[]),
        ("[tune]\n'optimizer.lr' = { low = 0.1, high = 0.5 }", &[]),
        ("[tune]\noptimizer.name = ['sgd']", &[]),
        ("[tune.space]\n'optmizer.lr' = [0.1]", &[]),
        ("[tune.space]\n'run.directory' = ['a', 'b']", &[]),
        ("[tune.space]\n'tune.eta' = [2, 3]", &[]),
        ("[tune.space]\n'device.devices' = ['cpu', 'cuda:0']", &[]),
        ("[tune.space]\n'memory.limit' = ['1GiB']", &[]),
        ("[tune.space]\n'memory.on_oom' = ['stop']", &[]),
        ("[tune.space]\n'train.eval_every' = ['1 epoch', '2 epochs']", &[]),
        ("[tune.space]\n'train.epochs' = [1, 2]", &[]),
        ("[tune.space]\n'optimizer.momentum' = { low = 0.1, high = 0.9, when = 'sgd' }", &[]),
        ("[tune.space]\n'optimizer.momentum' = { low = 0.1, high = 0.9, when = true }", &[]),
        ("[tune.space]\n'optimizer.momentum' = { low = 0.1, high = 0.9, when = 'optimizer.name in sgd, adam' }", &[]),
        (
            "[tune.space]\n'optimizer.name' = ['sgd', 'adam']\n'optimizer.momentum' = { choices = [0.9], when = 'optimizer.name = sdg' }",
            &[],
        ),
        (
            "[tune.space]\n'optimizer.lr' = { low = 0.1, high = 0.9 }\n'optimizer.momentum' = { choices = [0.9], when = 'optimizer.lr = 0.1' }",
            &[],
        ),
        ("[tune.space]\n'train.batch' = { choices = [8], when = 'train.batch = 8' }", &[]),
        (
            "[tune.space]\n'train.batch' = { choices = [8], when = 'train.patience = 8' }
'train.patience' = { choices = [8], when = 'train.seed = 8' }\n'train.seed' = { choices = [8], when = 'train.batch = 8' }",
            &[],
        ),
    ];
    snapshot("tune_conditions", cases, |sources| Config::load(&sources).map(drop));
}

#[test]
fn a_space_is_checked_against_the_configuration_when_the_study_is_opened() {
    let cases: &[Case] = &[
        ("", &[]),
        ("[tune]\ntrials = 5", &[]),
        ("[tune.space]\n'optimizer.lrr' = [0.1]", &[]),
        ("[tune.space]\n'train.foo' = [0.1]", &[]),
        ("[tune.space]\n'model.widht' = [8]", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = -1, high = 0.1 }", &[]),
        ("[tune.space]\n'optimizer.lr' = { low = 1e-60, high = 0.1, log = true }", &[]),
        ("", &["tune.space.optimizer.lr={low=-1,high=0.1}"]),
        ("[tune.space]\n'train.batch' = { low = 8.0, high = 64.0 }", &[]),
        ("[tune.space]\n'optimizer.name' = ['sgd', 'adm']", &[]),
        ("[tune.space]\n'model.name' = ['resnet18', 'restnet18']", &[]),
        (
            "[tune.space]\n'optimizer.name' = ['sgd', 'adamw']\n'optimizer.momentum' = { low = 0.1, high = 0.9 }",
            &[],
        ),
        ("[optimizer]\nname = 'adamw'\n[tune.space]\n'optimizer.momentum' = { low = 0.1, high = 0.9 }", &[]),
        ("[tune.space]\n'optimizer.name' = ['sgd', 'adam']\n'optimizer.beta1' = [0.8, 0.9]", &[]),
        ("[tune.space]\n'model.name' = ['resnet18', 'lstm']\n'model.width' = [8, 16]", &[]),
        ("[tune.space]\n'train.batch' = [8, 16]\n'memory.micro_batch' = [8, 32]", &[]),
        ("[tune.space]\n'schedule.name' = ['cosine', 'step']", &[]),
        ("[tune.space]\n'optimizer.momentum' = { choices = [0.9], when = 'optimizer.nmae = sgd' }", &[]),
        ("[tune.space]\n'optimizer.momentum' = { choices = [0.9], when = 'optmizer.name = sgd' }", &[]),
        (
            "[optimizer]\nname = 'adam'\n[tune.space]\n'optimizer.momentum' = { choices = [0.9], when = 'optimizer.name = sgd' }",
            &[],
        ),
        ("[tune.space]\n'optimizer.lr' = { low = 0.1, high = 0.9 }", &["optimizer.lr=0.5"]),
        ("[train]\neval_every = 'never'\n[tune.space]\n'optimizer.lr' = [0.1]", &[]),
        ("[train]\nepochs = 3\n[tune]\nmin_epochs = 5\n[tune.space]\n'optimizer.lr' = [0.1]", &[]),
        ("[train]\nsteps = 3\n[tune]\nmin_steps = 5\n[tune.space]\n'optimizer.lr' = [0.1]", &[]),
    ];
    snapshot("tune_study", cases, |sources| {
        let config = Config::load(&sources)?;
        read(&config)?;
        config.check_space(read).map(drop)
    });
}
