//! A config that extends another one.

use std::fs;

use oomph_config::{
    Config, ConfigFile, Sources,
    file::{Embedded, resolve},
};

const EMBEDDED: [Embedded; 1] = [Embedded {
    name: "resnet.toml",
    text: "[model]\nname = 'resnet18'\n[train]\nepochs = 9\nbatch = 64\n[optimizer]\nlr = 0.2\nmomentum = 0.9\n",
}];

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("written"));
    folder
}

fn load(folder: &tempfile::TempDir, name: &str) -> Result<Config, oomph_config::ConfigError> {
    let path = folder.path().join(name);
    Config::load(&Sources::new(resolve(path.to_str(), &EMBEDDED)?))
}

fn message(folder: &tempfile::TempDir, name: &str) -> String {
    let error = load(folder, name).expect_err("refused");
    let hint = error.hint().map(|hint| format!(" hint: {hint}")).unwrap_or_default();
    format!("{error}{hint}").replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn a_config_has_what_it_does_not_say_from_the_one_it_extends() {
    let folder = folder(&[
        ("mine.toml", "extends = 'resnet'\n[train]\nbatch = 8\n"),
        ("base.toml", "[train]\nseed = 7\n"),
        ("near.toml", "extends = 'base'\n"),
    ]);
    let config = load(&folder, "mine.toml").expect("a config");
    assert_eq!((config.name(), config.train.batch, config.train.length.epochs), ("mine", 8, Some(9)));
    let origin = |key: &str| {
        let entry = config.resolved().into_iter().find(|entry| entry.key == key).expect("the key");
        entry.origin.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    assert_eq!([origin("train.batch"), origin("optimizer.lr")], ["mine.toml:3", "resnet.toml:7"]);
    // A run keeps the whole.
    let again = Config::from_toml("again", &config.to_toml()).expect("a config");
    assert_eq!((again.optimizer.lr, again.train.batch), (0.2, 8));
    assert_eq!(load(&folder, "near.toml").expect("a config").train.seed, 7, "the one in its folder");
}

#[test]
fn another_optimizer_leaves_the_learning_rate_of_the_parent_behind() {
    let folder = folder(&[
        ("adam.toml", "extends = 'resnet'\noptimizer.name = 'adamw'\n"),
        ("same.toml", "extends = 'resnet'\noptimizer.name = 'sgd'\n"),
        ("own.toml", "extends = 'resnet'\noptimizer = { name = 'adamw', lr = 3e-4 }\n"),
    ]);
    let lr = |name| load(&folder, name).expect("a config").optimizer.lr;
    assert_eq!([lr("adam.toml"), lr("same.toml"), lr("own.toml")], [1e-3, 0.2, 3e-4]);
}

#[test]
fn what_cannot_be_extended_is_named_with_its_line() {
    let folder = folder(&[
        ("typo.toml", "# mine\nextends = 'resent'\n"),
        ("number.toml", "extends = 3\n"),
        ("chain.toml", "extends = 'middle'\n"),
        ("middle.toml", "extends = 'resnet'\n"),
        ("wrong.toml", "extends = 'broken'\n"),
        ("broken.toml", "[train]\nbacth = 3\n"),
    ]);
    insta::assert_snapshot!(message(&folder, "typo.toml"), @"typo.toml:2: `extends` is `resent`; there is no config `resent` hint: did you mean `resnet`? the built-in configs are `resnet.toml`");
    insta::assert_snapshot!(message(&folder, "number.toml"), @"number.toml:1: `extends` is the integer `3`; expected the name of a config");
    insta::assert_snapshot!(message(&folder, "chain.toml"), @"middle.toml:1: a config that another one extends cannot extend a third one hint: copy its settings, or extend the third one");
    insta::assert_snapshot!(message(&folder, "wrong.toml"), @"broken.toml:2: `train.bacth` is not a known key hint: did you mean `train.batch`?");
    let alone = ConfigFile::from_text("x.toml", "extends = 'resnet'");
    let error = Config::load(&Sources::new(alone)).expect_err("refused");
    assert_eq!(error.to_string(), "x.toml:1: `extends` works in config files that are found by their name");
}
