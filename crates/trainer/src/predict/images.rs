use std::path::PathBuf;

use oomph_core::{Phase, phase};
use oomph_data::{Batch, ImageFiles, LoaderOptions, OnCorrupt, SampleError};
use oomph_memory::{Account, charge};
use oomph_model::{Pass, Stages};

use oomph_engine::{
    exhausted,
    part::evaluate_stages,
    session::{Session, backend},
    task::TaskError,
    upload::upload,
};
use oomph_runs::state::Checkpoint;

use crate::{TrainError, batches::eval_loader, evaluate::with_restored};

/// The prediction for one image file.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// The index of the file.
    pub index: usize,
    /// The model's outputs, one for each class or value. An error where the file cannot be read.
    pub outputs: Result<Vec<f32>, SampleError>,
}

/// Predicts image files with the session's model and the parameters of a checkpoint, and passes each prediction to `each`,
/// in order. The session is [opened on](crate::open_on) the files.
///
/// Files are read as in an evaluation, in batches of `train.eval_batch`. An unreadable file gets an error as its prediction
/// and is skipped. An out-of-memory error has a report, written to the directory `report` if that is given.
///
/// # Errors
/// Where the checkpoint is damaged or of another model, where the model does not give one row of outputs for each sample,
/// and where memory runs out. Errors of `each` are passed on.
pub fn predict_images<E: From<TrainError>>(
    session: &Session,
    files: &ImageFiles,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    mut each: impl FnMut(Predicted) -> Result<(), E>,
) -> Result<(), E> {
    let mut reported = Ok(());
    with_restored(session, checkpoint, report, |model| {
        predict(session, model, files, &mut |predicted| {
            reported = charge(Account::Host, || each(predicted));
            reported.is_ok()
        })
    })?;
    reported
}

/// Predicts until `each` returns false.
fn predict(
    session: &Session,
    model: &Stages,
    files: &ImageFiles,
    each: &mut dyn FnMut(Predicted) -> bool,
) -> Result<(), TrainError> {
    charge(Account::Device, || {
        let model = model.inference();
        let options = LoaderOptions { on_corrupt: OnCorrupt::Skip, ..session.loader.clone() };
        let mut next = 0;
        for batch in eval_loader(session, &options) {
            let batch = batch?;
            let rows = if batch.size > 0 { outputs(session, &model, &batch)? } else { Vec::new() };
            let in_batch = batch.size + batch.skipped.len();
            for predicted in paired(next, files, rows, batch.skipped) {
                if !each(predicted) {
                    return Ok(());
                }
            }
            next += in_batch;
        }
        Ok(())
    })
}

/// The outputs of each sample of a batch.
fn outputs(session: &Session, model: &Stages, batch: &Batch) -> Result<Vec<Vec<f32>>, TrainError> {
    let uploading = phase(Phase::Data);
    let (input, _) = upload(batch, &session.device);
    drop(uploading);
    exhausted::check()?;
    let _phase = phase(Phase::Eval);
    let mut pass = Pass::eval().with_policy(session.policy(backend(session)));
    let output = evaluate_stages(model, input, &mut pass, true)?;
    let width = session.spec().target.outputs();
    if output.dims() != [batch.size, width] {
        let expected = format!("[{}, {width}]", batch.size);
        return Err(TaskError::Output { task: "prediction", expected, found: output.dims() }.into());
    }
    charge(Account::Host, || Ok(output.to_host()?.chunks(width.max(1)).map(<[f32]>::to_vec).collect()))
}

/// The outputs, unless one says nothing.
fn finite(outputs: Vec<f32>, name: String) -> Result<Vec<f32>, SampleError> {
    match outputs.iter().position(|output| !output.is_finite()) {
        Some(index) => {
            Err(SampleError::new(name, format!("output {index} of the model is {}", outputs[index])))
        }
        None => Ok(outputs),
    }
}

/// The predictions of a batch that begins with file `first`. `skipped` names the unreadable files in order. The other
/// files have the rows in order.
fn paired(
    first: usize,
    files: &ImageFiles,
    rows: Vec<Vec<f32>>,
    skipped: Vec<SampleError>,
) -> impl Iterator<Item = Predicted> {
    let (mut rows, mut skipped) = (rows.into_iter(), skipped.into_iter().peekable());
    (first..).map_while(move |index| {
        let name = files.files().get(index)?.display().to_string();
        let outputs = match skipped.next_if(|error| error.name == name) {
            Some(error) => Err(error),
            None => finite(rows.next()?, name),
        };
        Some(Predicted { index, outputs })
    })
}
