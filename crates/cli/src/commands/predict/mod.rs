//! `oomph predict`: classifies images or continues a text with a trained model.

mod arguments;
mod images;
mod text;

use oomph_config::{Config, Entry, Origin};
use oomph_data::SourceRecord;
use oomph_runs::state::Checkpoint;
use oomph_trainer::Registry;

pub(crate) use self::arguments::PredictArguments;
use self::arguments::TrainedModel;
use crate::{error::CliError, exit::Exit, notices::Notices, output::AVERAGED};

pub(crate) fn run(arguments: &PredictArguments, registry: &Registry) -> Result<Exit, CliError> {
    let (config, found) = arguments.find()?;
    for warning in found.warnings() {
        Notices::default().warning(warning);
    }
    let checkpoint = found.checkpoint.raw(arguments.raw);
    let source = checkpoint.source()?;
    let inputs = if source.is_text() { "a text is" } else { "images are" };
    for key in without_effect(&config) {
        Notices::default().warning(format!("`{key}` has no effect: {inputs} read as in training"));
    }
    if arguments.model()?.is_none_or(|path| !Checkpoint::is_named(&path)) {
        let step = checkpoint.progress().step;
        let path = checkpoint.path().display();
        Notices::default().note(format!("using the checkpoint `{path}` of step {step}"));
    }
    if checkpoint.has_average() && !arguments.json {
        Notices::default().note(format!("the weights are {AVERAGED}; `--raw` takes those of the last step"));
    }
    // The training data decides the kind of input.
    let model = TrainedModel { config, checkpoint, source };
    let has_inputs = !arguments.inputs()?.is_empty();
    match (&arguments.text.prompt, &model.source) {
        (Some(_), _) if has_inputs => Err(CliError::TextAndFiles),
        (None, source) if !has_inputs => match source.images.is_some() || source.is_text() {
            true => Err(CliError::NothingToPredict { takes_text: source.is_text() }),
            false => Err(model.unsupported_input()),
        },
        (Some(prompt), source) if source.is_text() => text::run(arguments, prompt, registry, model),
        (None, SourceRecord { images: Some(_), .. }) => images::run(arguments, registry, model),
        _ => Err(model.unsupported_input()),
    }
}

/// The keys of `[data]` set on the command line that do not affect a prediction. The loader's settings may be set.
fn without_effect(config: &Config) -> Vec<String> {
    let is_set = |entry: &Entry| entry.origin == Origin::Set && entry.key.starts_with("data.");
    let works = |key: &str| matches!(key, "data.workers" | "data.prefetch");
    let set = config.resolved().into_iter().filter(is_set).map(|entry| entry.key);
    set.filter(|key| !works(key)).collect()
}
