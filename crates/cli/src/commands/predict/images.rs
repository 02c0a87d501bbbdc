//! Images: a line a file.

use std::{path::Path, sync::Arc, time::Instant};

use oomph_config::Config;
use oomph_core::Bytes;
use oomph_data::{ImageFiles, SampleError, SourceRecord, image_files};
use oomph_trainer::{Predicted, Registry, Session, predict_images, state::Checkpoint};
use serde::Serialize;

use super::{PredictArguments, scores::Answer};
use crate::{
    error::CliError,
    exit::Exit,
    notices::{Notices, printable},
    output,
};

/// Longer names of files push their answers to the right instead of all the others'.
const WIDEST: usize = 60;

pub(super) fn run(
    arguments: &PredictArguments,
    registry: &Registry,
    config: Config,
    checkpoint: &Checkpoint,
    source: &SourceRecord,
) -> Result<Exit, CliError> {
    let start = Instant::now();
    let listed = image_files(&arguments.inputs)?;
    let not_images = || CliError::NothingToAsk { input: source.spec.input.clone(), has_texts: false };
    let files = Arc::new(ImageFiles::new(source, listed).ok_or_else(not_images)?);
    let report = output::report_directory(config.name());
    let session = Session::open_on(files.clone(), config, registry)?;
    let mut told = Told::new(arguments, source, &files);
    predict_images(&session, &files, checkpoint, Some(report), |predicted| told.tell(predicted))?;
    let (unreadable, count) = (told.unreadable, files.files().len());
    if unreadable > 0 {
        return Err(CliError::Unreadable { unreadable, count });
    }
    if arguments.json {
        let done = Line::Done {
            step: checkpoint.progress().step,
            files: count,
            peak_in_use_bytes: oomph_memory::read().peak_in_use_bytes,
            seconds: start.elapsed().as_secs_f64(),
            checkpoint: checkpoint.path(),
        };
        output::print_json(&done)?;
    }
    Ok(Exit::Success)
}

/// Tells of one file after the other.
struct Told<'a> {
    arguments: &'a PredictArguments,
    source: &'a SourceRecord,
    files: &'a ImageFiles,
    /// Of the column of names.
    width: usize,
    unreadable: usize,
}

impl<'a> Told<'a> {
    fn new(arguments: &'a PredictArguments, source: &'a SourceRecord, files: &'a ImageFiles) -> Self {
        let widths = files.files().iter().map(|file| file.display().to_string().chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        Self { arguments, source, files, width, unreadable: 0 }
    }

    fn tell(&mut self, Predicted { index, outputs }: Predicted) -> Result<(), CliError> {
        let file = &self.files.files()[index];
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return self.tell_unreadable(file, &error),
        };
        let answer = Answer::new(outputs, self.source, self.arguments.top as usize);
        if self.arguments.json {
            return output::print_json(&Line::Prediction { file: file.display().to_string(), answer });
        }
        let (name, width) = (printable(&file.display().to_string()), self.width);
        output::print(&format!("{name:width$}  {}\n", printable(&answer.text())))
    }

    fn tell_unreadable(&mut self, file: &Path, error: &SampleError) -> Result<(), CliError> {
        self.unreadable += 1;
        if self.arguments.json {
            return output::print_json(&Line::Unreadable {
                file: file.display().to_string(),
                reason: &error.reason,
            });
        }
        Notices::default().warning(error);
        Ok(())
    }
}

/// What `--json` says.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Prediction {
        file: String,
        #[serde(flatten)]
        answer: Answer,
    },
    Unreadable {
        file: String,
        reason: &'a str,
    },
    Done {
        step: usize,
        files: usize,
        peak_in_use_bytes: Bytes,
        seconds: f64,
        checkpoint: &'a Path,
    },
}
