use std::path::PathBuf;

use oomph_core::{Phase, Split, phase};
use oomph_data::{ImageFiles, Loader, LoaderOptions, OnCorrupt, SampleError};
use oomph_memory::{Account, charge};
use oomph_model::{Pass, Stages};

use crate::{
    Session, TaskError, TrainError, backend, evaluate::with_restored, forward::forward, out_of_memory,
    state::Checkpoint, upload::upload,
};

/// What a model makes of one image file.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Which of the files it is.
    pub index: usize,
    /// The model's outputs, one a class or value; or why the file has no pixels.
    pub outputs: Result<Vec<f32>, SampleError>,
}

/// Asks the model of the session, with the parameters of a checkpoint, about image files, and tells `each` what it makes
/// of them, in their order. The session is one [on](Session::open_on) these files.
///
/// They are read and computed as an evaluation does, in batches of `train.eval_batch`. Files that cannot be read are told
/// too, and passed over. Where memory runs out the error has a report, which is written into the directory `report` too,
/// where one is given.
///
/// # Errors
/// Where the checkpoint is damaged or of another model, where the model does not give one row of outputs a sample, where
/// memory runs out, and what `each` returns.
pub fn predict_images<E: From<TrainError>>(
    session: &Session,
    files: &ImageFiles,
    checkpoint: &Checkpoint,
    report: Option<PathBuf>,
    mut each: impl FnMut(Predicted) -> Result<(), E>,
) -> Result<(), E> {
    let mut told = Ok(());
    with_restored(session, checkpoint, report, |model| {
        predict(session, model, files, &mut |predicted| {
            told = charge(Account::Host, || each(predicted));
            told.is_ok()
        })
    })?;
    told
}

/// Until `each` says that it is enough.
fn predict(
    session: &Session,
    model: &Stages,
    files: &ImageFiles,
    each: &mut dyn FnMut(Predicted) -> bool,
) -> Result<(), TrainError> {
    charge(Account::Device, || {
        let model = model.inference();
        let order = session.eval_order();
        let options = LoaderOptions { on_corrupt: OnCorrupt::Skip, ..session.loader.clone() };
        let loader = charge(Account::Host, || {
            Loader::start(session.source.clone(), Split::Test, order, 0, 0, None, &options)
        });
        let mut next = 0;
        for batch in loader {
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

/// A row of outputs for each sample of a batch.
fn outputs(
    session: &Session,
    model: &Stages,
    batch: &oomph_data::Batch,
) -> Result<Vec<Vec<f32>>, TrainError> {
    let uploading = phase(Phase::Data);
    let (input, _) = upload(batch, &session.device);
    drop(uploading);
    out_of_memory::check()?;
    let _phase = phase(Phase::Eval);
    let mut pass = Pass::eval().with_policy(session.policy(backend(session)));
    let output = forward(model, input, &mut pass, None)?;
    let width = session.spec().target.outputs();
    if output.dims() != [batch.size, width] {
        let expected = format!("[{}, {width}]", batch.size);
        return Err(TaskError::Output { task: "prediction", expected, found: output.dims() }.into());
    }
    charge(Account::Host, || Ok(output.to_host()?.chunks(width.max(1)).map(<[f32]>::to_vec).collect()))
}

/// The files of a batch, from `first` on, with what became of each: what was skipped is named, in order, and the rest
/// has a row.
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
            None => Ok(rows.next()?),
        };
        Some(Predicted { index, outputs })
    })
}
