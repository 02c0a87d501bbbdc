//! Continues a text with a language model.

use std::{path::Path, sync::Arc, time::Instant};

use oomph_core::{Bytes, printable_lines};
use oomph_data::{
    Prompt,
    tokens::{Continuation, TextEncoding},
};
use oomph_trainer::{
    Registry, open_on,
    predict::{Sampling, continue_text},
};
use serde::Serialize;

use super::arguments::{PredictArguments, TrainedModel};
use crate::{error::CliError, exit::Exit, notices::Notices, output};

pub(super) fn run(
    arguments: &PredictArguments,
    prompt: &str,
    registry: &Registry,
    model: TrainedModel,
) -> Result<Exit, CliError> {
    let start = Instant::now();
    let unsupported = || model.unsupported_input();
    let encoding = model.source.text_encoding().ok_or_else(unsupported)?;
    let tokens = Arc::new(Prompt::new(&model.source, prompt).ok_or_else(unsupported)?);
    let TrainedModel { config, checkpoint, .. } = model;
    let report = output::report_directory(config.name());
    let session = open_on(tokens.clone(), config, registry)?;
    let options = &arguments.text;
    let sampling = Sampling {
        length: options.length,
        temperature: options.temperature,
        top_k: options.top_k.map(|most| most as usize),
        top_p: options.top_p,
        seed: options.seed,
    };
    let (mut text, mut continuation, mut count) = (Continuation::of(&encoding, prompt), String::new(), 0);
    warn_of_unknown(&encoding, prompt);
    // The prompt is printed with the first token, so that a model that cannot be loaded prints only the error.
    let mut unshown = Some(prompt);
    continue_text(&session, &tokens, sampling, &checkpoint, Some(report), |token| -> Result<(), CliError> {
        let shown = text.push(token);
        count += 1;
        continuation.push_str(shown);
        if arguments.json {
            return Ok(());
        }
        output::print(&printable_lines(unshown.take().unwrap_or_default()))?;
        output::print(&printable_lines(shown))
    })?;
    let rest = text.finish();
    if !arguments.json {
        output::print(&printable_lines(unshown.take().unwrap_or_default()))?;
        output::print(&printable_lines(&rest))?;
        output::print("\n")?;
        return Ok(Exit::Success);
    }
    continuation.push_str(&rest);
    output::print_json(&Done {
        prompt,
        continuation: &continuation,
        tokens: count,
        step: checkpoint.progress().step,
        peak_in_use_bytes: oomph_memory::read().peak_in_use_bytes,
        seconds: start.elapsed().as_secs_f64(),
        checkpoint: checkpoint.path(),
    })?;
    Ok(Exit::Success)
}

/// Warns of tokens outside the vocabulary. The model reads them as `<unk>`, which it may never have seen.
fn warn_of_unknown(encoding: &TextEncoding, prompt: &str) {
    const SHOWN: usize = 8;
    let unknown = encoding.unknown_in(prompt);
    let quoted: Vec<_> = unknown.iter().take(SHOWN).map(|token| format!("{token:?}")).collect();
    let more = match unknown.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !unknown.is_empty() {
        let quoted = quoted.join(", ");
        Notices::default()
            .warning(format!("the model does not know {quoted}{more}: each is read as `<unk>`"));
    }
}

/// The continuation as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Done<'a> {
    prompt: &'a str,
    continuation: &'a str,
    /// Tokens of the continuation.
    tokens: usize,
    step: usize,
    peak_in_use_bytes: Bytes,
    seconds: f64,
    checkpoint: &'a Path,
}
