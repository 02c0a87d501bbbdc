//! The weights that a new model starts from: `model.weights`.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use oomph_core::{Account, charge};
use oomph_data::SourceRecord;
use oomph_model::{
    Stages, parameters_wanted,
    weights::{Fit, Wanted, WeightFile, WeightsError, fit, load, wanted},
};
use sha2::{Digest, Sha256};

use crate::{Session, SessionError};

/// What a new model was loaded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedWeights {
    /// The file.
    pub path: PathBuf,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Parameters of the head that keep their drawn values, since the file's are for other classes or not there.
    pub fresh: Vec<String>,
    /// What somebody should know of it.
    pub notices: Vec<String>,
}

impl Session {
    /// Makes the model that a training starts from: drawn from `train.seed`, then with the values of `model.weights`,
    /// where that is set.
    ///
    /// # Errors
    /// Where the architecture refuses, and where the file cannot be read or does not fit the model.
    pub fn initial_model(&self) -> Result<(Stages, Option<LoadedWeights>), SessionError> {
        let mut model = self.build()?;
        let Some(path) = &self.weights else { return Ok((model, None)) };
        let (file, fit) = charge(Account::Host, || self.fitted(path, &wanted(&model)))?;
        load(&mut model, &file, &fit, &self.whole_model_device())?;
        let loaded = charge(Account::Host, || -> Result<_, WeightsError> {
            let sha256 = sha256_of(path).map_err(|source| WeightsError::Io { path: path.clone(), source })?;
            let Fit { fresh, notices, .. } = fit;
            Ok(LoadedWeights { path: path.clone(), sha256, fresh, notices })
        })?;
        Ok((model, Some(loaded)))
    }

    /// The model with the values of `model.weights` alone, for what does not train.
    ///
    /// # Errors
    /// As those of [`initial_model`](Self::initial_model), where no file is set, and where it does not have the head.
    pub(crate) fn model_of_weights(&self) -> Result<(Stages, LoadedWeights), SessionError> {
        match self.initial_model()? {
            (model, Some(weights)) if weights.fresh.is_empty() => Ok((model, weights)),
            (_, Some(LoadedWeights { path, fresh, .. })) => Err(WeightsError::NoHead { path, fresh }.into()),
            (_, None) => Err(self.config.invalid("model.weights", "a file of weights").into()),
        }
    }

    /// Checks that `model.weights` can be read and fits the model, without reading values or making the model: so that
    /// a training is refused before it left anything.
    ///
    /// # Errors
    /// As those of [`initial_model`](Self::initial_model), but for values that are not finite.
    pub fn check_weights(&self) -> Result<(), SessionError> {
        let Some(path) = &self.weights else { return Ok(()) };
        let wanted = parameters_wanted(&self.architecture, self.spec())?;
        self.fitted(path, &wanted)?;
        Ok(())
    }

    /// What of the file goes where. A token is its place in the vocabulary, and a class its place among all: weights that
    /// say what theirs are are held against the data.
    fn fitted(&self, path: &Path, wanted: &[Wanted]) -> Result<(WeightFile, Fit), WeightsError> {
        let file = WeightFile::open(path)?;
        let record: Option<SourceRecord> = file.note(SourceRecord::NOTE)?;
        let other = record.as_ref().and_then(|record| record.first_other_class(self.source.as_ref()));
        let is_text = self.source.level().is_some();
        if let (true, Some(other)) = (is_text, &other) {
            return Err(WeightsError::Tokens { path: path.to_owned(), difference: other.to_string() });
        }
        let mut fit = fit(&file, &self.architecture, wanted)?;
        let path = path.display();
        if is_text && record.is_none() {
            let count = self.spec().target.outputs();
            fit.notices.push(format!(
                "the weights `{path}` do not say which tokens they know: they are taken to be the {count} of the \
                 vocabulary, in its order"
            ));
        }
        if let Some(other) = other.filter(|_| fit.fresh.is_empty()) {
            let why =
                format!("the head of the weights `{path}` is for other classes: {other}; it starts new");
            fit.drop_head(wanted, why);
        }
        Ok((file, fit))
    }
}

/// Read piece by piece: the file may be larger than what is left of the memory.
fn sha256_of(path: &Path) -> io::Result<String> {
    const PIECE: usize = 1 << 16;
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE];
    let mut digest = Sha256::new();
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => digest.update(&piece[..count]),
        }
    }
}
