//! Classifies images, and prints a line per file.

use std::{path::Path, sync::Arc, time::Instant};

use oomph_core::{Bytes, printable};
use oomph_data::{ImageFiles, SampleError, SourceRecord, image_files};
use oomph_terminal::predictions::Answer;
use oomph_trainer::{
    Registry, open_on,
    predict::{Predicted, predict_images},
};
use serde::Serialize;

use super::arguments::{PredictArguments, TrainedModel};
use crate::{error::CliError, exit::Exit, notices::Notices, output};

/// The maximum width of the column of file names. Longer names shift only their own line.
const WIDEST: usize = 60;

pub(super) fn run(
    arguments: &PredictArguments,
    registry: &Registry,
    model: TrainedModel,
) -> Result<Exit, CliError> {
    let start = Instant::now();
    let listed = image_files(arguments.inputs()?)?;
    let files = Arc::new(ImageFiles::new(&model.source, listed).ok_or_else(|| model.unsupported_input())?);
    let reader = model.source.images.as_ref();
    if let Some(notice) = reader.and_then(|reader| reader.channel_notice(files.files())) {
        Notices::default().note(notice);
    }
    let TrainedModel { config, checkpoint, source } = model;
    let report = output::report_directory(config.name());
    let session = open_on(files.clone(), config, registry)?;
    let mut printer = Printer::new(arguments, &source, &files);
    predict_images(&session, &files, &checkpoint, Some(report), |predicted| printer.show(predicted))?;
    let (unreadable, count) = (printer.unreadable, files.files().len());
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

/// Prints the prediction of one file after the other.
struct Printer<'a> {
    arguments: &'a PredictArguments,
    source: &'a SourceRecord,
    files: &'a ImageFiles,
    /// The width of the column of file names.
    width: usize,
    /// The number of unreadable files.
    unreadable: usize,
}

impl<'a> Printer<'a> {
    fn new(arguments: &'a PredictArguments, source: &'a SourceRecord, files: &'a ImageFiles) -> Self {
        let widths = files.files().iter().map(|file| file.display().to_string().chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        Self { arguments, source, files, width, unreadable: 0 }
    }

    fn show(&mut self, Predicted { index, outputs }: Predicted) -> Result<(), CliError> {
        let file = &self.files.files()[index];
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return self.print_unreadable(file, &error),
        };
        let answer = Answer::new(outputs, self.source, self.arguments.top as usize);
        if self.arguments.json {
            return output::print_json(&Line::Prediction { file: file.display().to_string(), answer });
        }
        let (name, width) = (printable(file.display()), self.width);
        output::print(&format!("{name:width$}  {}\n", printable(answer.text())))
    }

    fn print_unreadable(&mut self, file: &Path, error: &SampleError) -> Result<(), CliError> {
        self.unreadable += 1;
        if self.arguments.json {
            let file = file.display().to_string();
            return output::print_json(&Line::Unreadable { file, reason: &error.reason });
        }
        Notices::default().warning(error);
        Ok(())
    }
}

/// A line of JSON.
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
