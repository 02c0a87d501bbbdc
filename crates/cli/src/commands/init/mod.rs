//! `oomph init`: a commented config file that trains on the data of a folder.

mod arguments;

use std::path::PathBuf;

use oomph_arguments::for_shell;
use oomph_core::Bytes;
use oomph_data::detect::detect;
use oomph_doctor::HAS_CUDA;
use oomph_proposal::{Facts, FittingBatch, Proposal, Wishes, config_text, refuse_classes_here};
use oomph_terminal::questions::Questions;
use oomph_trainer::Registry;
use serde::Serialize;

pub(crate) use self::arguments::InitArguments;
use crate::{
    error::CliError,
    exit::Exit,
    numbers::grouped,
    output::{self, write_file},
    table::pairs,
};

pub(crate) fn run(arguments: &InitArguments, registry: &Registry) -> Result<Exit, CliError> {
    let wishes = arguments.wishes()?;
    let questions = Questions::new(arguments.may_ask());
    let path = arguments.path(questions)?;
    let detected = detect(&path)?;
    refuse_classes_here(&path, &detected)?;
    let file = arguments.file(&path, questions)?;
    // Before the data is read.
    arguments.overwrite.check([&file])?;
    let facts = Facts::of(&detected, registry)?;
    let wishes = Wishes { model: Some(arguments.model(&facts, questions)?), ..wishes };
    let proposal = Proposal::new(detected, facts, wishes);
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let fitting = FittingBatch::find(&proposal, &name, registry)?;
    let text = config_text(&proposal, &name, &fitting);
    write_file(&file, arguments.overwrite.existing(), |out| out.write_all(text.as_bytes()))?;
    let initialised = Initialised::new(file, &proposal, &fitting);
    output::show(arguments.json, &initialised, || initialised.report(&proposal, arguments.gpu()))
}

/// The written config, as JSON.
#[derive(Serialize)]
struct Initialised<'a> {
    path: PathBuf,
    source: &'static str,
    /// What was found at the path of the data.
    found: &'a str,
    model: &'a str,
    train_samples: usize,
    test_samples: usize,
    batch: usize,
    planned_peak_bytes: Option<Bytes>,
    limit_bytes: Option<Bytes>,
    largest_batch: Option<usize>,
}

impl<'a> Initialised<'a> {
    fn new(path: PathBuf, proposal: &'a Proposal, fitting: &FittingBatch) -> Self {
        Self {
            path,
            source: proposal.detected.source,
            found: &proposal.detected.what,
            model: &proposal.model,
            train_samples: proposal.facts.train_samples,
            test_samples: proposal.facts.test_samples,
            batch: fitting.batch,
            planned_peak_bytes: fitting.planned_peak_bytes,
            limit_bytes: fitting.limit_bytes,
            largest_batch: fitting.largest_batch,
        }
    }

    /// `gpu` is the value of `--gpu`.
    fn report(&self, proposal: &Proposal, gpu: Option<&str>) -> String {
        let [train, test] = [self.train_samples, self.test_samples].map(grouped);
        let memory = self.planned_peak_bytes.zip(self.limit_bytes);
        let memory = memory.map(|(peak, limit)| format!(", a planned peak of {peak} of {limit}"));
        let file = self.path.display();
        let typed = for_shell(&file.to_string());
        let on_gpu = gpu.map(|gpu| format!(" --gpu {}", for_shell(gpu))).unwrap_or_default();
        let lacks_cuda = gpu.is_some() && !HAS_CUDA;
        let device = "cuda:0: train with a build that has the feature `cuda`, or add `--devices cpu`";
        let rows = [
            ("config", Some(file.to_string())),
            ("data", Some(format!("{}; {train} samples to train on, {test} held out", self.found))),
            ("model", Some(format!("{} on {}", self.model, proposal.input()))),
            ("batch", Some(format!("{}{}", self.batch, memory.unwrap_or_default()))),
            ("device", lacks_cuda.then(|| device.to_owned())),
            ("next", Some(format!("oomph data {typed}"))),
            ("", Some(format!("oomph plan {typed}{on_gpu}"))),
            ("", Some(format!("oomph train {typed}"))),
        ];
        pairs(rows)
    }
}
