//! The configs in `configs/`, and the page with every key.

use std::collections::{BTreeMap, BTreeSet};

use oomph_config::{Config, ConfigError, ConfigFile, Entry, Origin, Sources};
use oomph_trainer::Registry;

use crate::{Finding, grid, report, tree};

/// The page with every key, wherever it lies in `docs/`.
const PAGE: &str = "configuration.md";
/// Their defaults depend on the machine; the page explains how.
const OF_THE_MACHINE: [&str; 2] = ["data.workers", "data.prefetch"];

/// Loads and reads a config, `[model]` and `[data]` included, without opening any data.
fn read(sources: &Sources) -> Result<Config, ConfigError> {
    let config = Config::load(sources)?;
    Registry::builtin().read(&config)?;
    Ok(config)
}

/// Tries the space of a config that has one, as `oomph tune` does.
fn try_space(config: &Config) -> Result<(), ConfigError> {
    if config.tune.is_none() {
        return Ok(());
    }
    let registry = Registry::builtin();
    config.check_space(|point| registry.read(point).map(drop)).map(drop)
}

fn with_sets(sources: Sources, sets: &[String]) -> Result<Sources, ConfigError> {
    sets.iter().try_fold(sources, |sources, set| sources.set(set))
}

#[test]
fn every_config_can_be_read() {
    let findings = tree::files("configs", ".toml").into_iter().filter_map(|(path, text)| {
        // Some configs leave `data.path` to the user.
        let sets: &[String] = if ["\"folder\"", "\"text\""].iter().any(|source| text.contains(source)) {
            &["data.path=somewhere".into()]
        } else {
            &[]
        };
        let error = with_sets(Sources::new(ConfigFile::from_text(&path, text)), sets)
            .and_then(|it| read(&it))
            .and_then(|config| try_space(&config))
            .err()?;
        Some(Finding::new(path, 1, format!("{error}; {}", error.hint().unwrap_or_default())))
    });
    report("every config can be read", findings.collect());
}

#[test]
fn every_training_of_the_kernel_grid_can_be_read() {
    let name = |path: &str| path.trim_start_matches("configs/").trim_end_matches(".toml").to_owned();
    let files = tree::files("configs", ".toml");
    let configs: Vec<_> = files.iter().map(|(path, _)| name(path)).collect();
    let trainings = grid::all(&configs);
    assert!(trainings.iter().any(|training| training.label().contains("adafactor")));
    let findings = trainings.iter().filter_map(|training| {
        assert_eq!(training.devices().split(',').count(), training.cards());
        let file = files.iter().find(|(path, _)| name(path) == training.config);
        let Some((path, text)) = file else {
            return Some(Finding::new(training.config.clone(), 1, "no such config".to_owned()));
        };
        let error = with_sets(Sources::new(ConfigFile::from_text(path, text.clone())), &training.settings)
            .and_then(|it| read(&it))
            .err()?;
        let says = format!("{}: {error}; {}", training.label(), error.hint().unwrap_or_default());
        Some(Finding::new(path.clone(), 1, says))
    });
    report("every training of the kernel grid can be read", findings.collect());
}

#[test]
fn every_config_is_in_the_readme_and_says_how_to_run_it() {
    let readme = tree::text("README.md");
    let findings = tree::files("configs", ".toml").into_iter().filter_map(|(path, text)| {
        let says = match text.contains(&format!("cargo train --config {path}")) {
            true if readme.contains(path.trim_start_matches("configs/")) => return None,
            true => "README.md does not name this config; add it to its table of configs",
            false => "the comment at its head does not say how to run it; add the command",
        };
        Some(Finding::new(path, 1, says))
    });
    report("every config is in the README", findings.collect());
}

/// The path and the text of the page with every key.
fn page() -> (String, String) {
    let page = tree::files("docs", PAGE).into_iter().next();
    page.unwrap_or_else(|| panic!("docs/ has no {PAGE}"))
}

/// All keys that the built-in choices read, with an entry of each choice.
fn known_keys() -> BTreeMap<String, Vec<Entry>> {
    let registry = Registry::builtin();
    let names =
        |model: &str, source: &str| vec![format!("model.name={model}"), format!("data.source={source}")];
    let models = registry.models().map(|model| names(model, "digits"));
    // Each choice alone, then with each choice among its keys.
    let mut tried: Vec<_> =
        models.chain(registry.sources().map(|source| names("resnet18", source))).collect();
    let mut keys: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    let mut next = 0;
    while next < tried.len() {
        let sets = tried[next].clone();
        next += 1;
        for entry in resolve(&sets).iter().flat_map(Config::resolved) {
            let known = keys.entry(entry.key.clone()).or_default();
            if known.is_empty() && sets.len() < 5 {
                tried.extend(choices(&entry).into_iter().map(|name| {
                    let choice = format!("{}={name}", entry.key);
                    sets.iter().cloned().chain([choice]).collect()
                }));
            }
            known.push(entry);
        }
    }
    keys
}

/// The configs of these choices, also with settings that some of them need; configs with errors are left out.
fn resolve(sets: &[String]) -> Vec<Config> {
    let needs = [
        "",
        "data.path=x",
        "schedule.every_epochs=1",
        "schedule.milestones_epochs=[1]",
        "schedule.warmup_steps=1",
        "device.devices=cpu,cpu",
        "tune.trials=100",
    ];
    let with = |need: &&str| -> Option<Config> {
        let need = Some((*need).to_owned()).filter(|need| !need.is_empty());
        let sets: Vec<_> = sets.iter().cloned().chain(need).collect();
        read(&with_sets(Sources::default(), &sets).ok()?).ok()
    };
    needs.iter().filter_map(with).collect()
}

/// The names in "one of `sgd`, `adam` or `adan`" or "`a` or `b`".
fn choices(entry: &Entry) -> Vec<String> {
    let expected = entry.expected.as_deref().unwrap_or_default();
    let is_choice = expected.starts_with("one of ") || expected.starts_with('`');
    let quoted =
        expected.split('`').skip(1).step_by(2).filter(|name| is_choice && !["true", "false"].contains(name));
    quoted.map(str::to_owned).collect()
}

/// The rows whose first cell is a key: the key, the line, the other cells.
fn rows(page: &str) -> Vec<(String, usize, Vec<String>)> {
    let row = |(line, text): (usize, &str)| {
        let mut cells = text.strip_prefix("| `")?.split(" | ").map(str::trim);
        let key = cells.next()?.trim_end_matches('`').to_owned();
        key.contains('.').then(|| (key, line, cells.map(str::to_owned).collect()))
    };
    (1..).zip(page.lines()).filter_map(row).collect()
}

#[test]
fn the_page_describes_every_key_there_is() {
    let ((path, page), keys) = (page(), known_keys());
    let rows = rows(&page);
    let missing = keys.keys().filter(|key| !rows.iter().any(|(row, ..)| row == *key));
    let missing =
        missing.map(|key| Finding::new(&path, 1, format!("`{key}` is missing; describe it in a table")));
    let unknown = rows.iter().filter(|(key, ..)| !keys.contains_key(key));
    let unknown =
        unknown.map(|(key, line, _)| Finding::new(&path, *line, format!("nobody reads `{key}`; remove it")));
    report("the page describes every key", missing.chain(unknown).collect());
}

/// The names that a row must have: choices and defaults.
fn to_be_named(entries: &[Entry]) -> BTreeSet<String> {
    let defaults = entries.iter().filter(|entry| entry.origin == Origin::Default);
    let defaults =
        defaults.filter_map(|entry| Some(entry.value.as_ref()?.to_string().trim_matches('"').to_owned()));
    entries.iter().flat_map(choices).chain(defaults).collect()
}

#[test]
fn the_page_says_the_defaults_and_choices_there_are() {
    let ((path, page), keys) = (page(), known_keys());
    let rows = rows(&page);
    let mut findings = Vec::new();
    for (key, entries) in keys.iter().filter(|(key, _)| !OF_THE_MACHINE.contains(&key.as_str())) {
        let of_key = || rows.iter().filter(|(row, ..)| row == key);
        // The test above checks that each key has a row.
        let Some((_, line, _)) = of_key().next() else { continue };
        let cells: Vec<_> = of_key().flat_map(|(_, _, cells)| cells).collect();
        for name in to_be_named(entries) {
            if !cells.iter().any(|cell| cell.contains(&format!("`{name}`"))) {
                let says = format!("`{key}` may be or is by default `{name}`; say so in its row");
                findings.push(Finding::new(&path, *line, says));
            }
        }
    }
    report("the page says the defaults and choices there are", findings);
}
