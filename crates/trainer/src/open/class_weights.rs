//! Weights of classes, from the configuration and the training set.

use std::sync::Arc;

use oomph_config::{Config, sections::class_weights::ClassWeights as Setting};
use oomph_core::{Split, TargetSpec};
use oomph_data::{
    Source,
    stored::{class_counts, label_counts},
};
use oomph_engine::{class_weights::ClassWeights, task::Task};

use super::SessionError;

/// The full key of the setting.
const KEY: &str = "train.class_weights";

/// The task with the weights that the configuration wants.
///
/// # Errors
/// Targets or a task without classes, another number of weights than classes, and names that are no classes.
pub(super) fn weighted(
    task: Arc<dyn Task>,
    config: &Config,
    source: &dyn Source,
) -> Result<Arc<dyn Task>, SessionError> {
    let setting = &config.train.class_weights;
    if *setting == Setting::None {
        return Ok(task);
    }
    let (TargetSpec::Class { count } | TargetSpec::Labels { count }) = source.spec().target else {
        return Err(config.invalid(KEY, "`none`, since the targets are no classes").into());
    };
    let weights = match setting {
        Setting::None => return Ok(task),
        Setting::Balanced => match label_counts(source, Split::Train) {
            Some(labels) => ClassWeights::balanced_labels(&labels.samples, source.len(Split::Train)),
            None => ClassWeights::balanced(&class_counts(source, Split::Train)),
        },
        Setting::Listed(weights) if weights.len() == count => {
            ClassWeights::new(weights.iter().map(|weight| *weight as f32))
        }
        Setting::Listed(weights) => {
            let expected = format!("{count} weights, one for each class; there are {}", weights.len());
            return Err(config.invalid(KEY, expected).into());
        }
        Setting::Named(named) => {
            let Some(names) = source.class_names() else {
                let mut keys = named.keys().map(|class| format!("{KEY}.{class}"));
                let key = keys.next().unwrap_or_else(|| KEY.to_owned());
                let expected =
                    format!("a list `{KEY} = […]` of {count} weights, since the classes have no names");
                return Err(config.invalid(&key, expected).into());
            };
            if let Some(unknown) = named.keys().find(|class| !names.contains(class)) {
                let known = names.iter().take(MOST_NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>();
                let more = if names.len() > MOST_NAMED { " and others" } else { "" };
                let what = match source.spec().target {
                    TargetSpec::Labels { .. } => "label",
                    _ => "class",
                };
                let expected =
                    format!("a {what} of the data as the last part of the key: {}{more}", known.join(", "));
                return Err(config.invalid(&format!("{KEY}.{unknown}"), expected).into());
            }
            ClassWeights::new(names.iter().map(|name| named.get(name).map_or(1.0, |weight| *weight as f32)))
        }
    };
    let refused = || config.invalid(KEY, "`none`, since the task takes no weights of classes");
    Ok(task.with_class_weights(weights).ok_or_else(refused)?)
}

/// The most names of classes in a message.
const MOST_NAMED: usize = 12;
