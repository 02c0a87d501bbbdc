//! The weights that a new model starts from: `model.weights`.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use oomph_config::{Config, Entry};
use oomph_core::{Account, SampleSpec, charge, open_file};
use oomph_data::SourceRecord;
use oomph_hub::{HubConfig, HubError};
use oomph_model::{
    Architecture, Stages, UnshownSettings, parameters_wanted,
    weights::{Fit, Wanted, WeightFile, WeightsError, fit, load, wanted},
};
use sha2::{Digest, Sha256};

use oomph_engine::session::Session;

use super::SessionError;

/// The weights that a new model was loaded with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedWeights {
    /// The file.
    pub path: PathBuf,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Parameters of the head that stay randomly initialised: the file has none, or has them for other classes.
    pub fresh: Vec<String>,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Makes the model that a training starts from: initialised from `train.seed`, then loaded from `model.weights` if set.
///
/// # Errors
/// Where the model cannot be made, and where the file cannot be read or does not fit the model.
pub fn initial_model(session: &Session) -> Result<(Stages, Option<LoadedWeights>), SessionError> {
    let mut model = session.build()?;
    let Some(path) = &session.weights else { return Ok((model, None)) };
    let (file, fit) = charge(Account::Host, || fitted(session, path, &wanted(&model)))?;
    load(&mut model, &file, &fit, &session.whole_model_device())?;
    let loaded = charge(Account::Host, || -> Result<_, WeightsError> {
        let sha256 = sha256_of(&file)?;
        let Fit { fresh, notices, .. } = fit;
        Ok(LoadedWeights { path: path.clone(), sha256, fresh, notices })
    })?;
    Ok((model, Some(loaded)))
}

/// Makes the model with `model.weights`, for commands that do not train.
///
/// # Errors
/// The errors of [`initial_model`], and where no file is set or the file lacks the head.
pub(crate) fn model_of_weights(session: &Session) -> Result<(Stages, LoadedWeights), SessionError> {
    match initial_model(session)? {
        (model, Some(weights)) if weights.fresh.is_empty() => Ok((model, weights)),
        (_, Some(LoadedWeights { path, fresh, .. })) => Err(WeightsError::NoHead { path, fresh }.into()),
        (_, None) => Err(session.config.invalid("model.weights", "a file of weights").into()),
    }
}

/// Checks that `model.weights` can be read and fits the model, without reading values or making the model. A training is
/// refused by it before it writes anything.
///
/// # Errors
/// The errors of [`initial_model`], except for values that are not finite.
pub fn check_weights(session: &Session) -> Result<(), SessionError> {
    let Some(path) = &session.weights else { return Ok(()) };
    let wanted = parameters_wanted(&session.architecture, session.spec())?;
    fitted(session, path, &wanted)?;
    Ok(())
}

/// Fits the file to the model. Tokens and classes are numbered, so a file that records its own must match the data.
fn fitted(session: &Session, path: &Path, wanted: &[Wanted]) -> Result<(WeightFile, Fit), SessionError> {
    let file = WeightFile::open(path)?;
    check_network(&session.config, session.spec(), &file)?;
    check_settings(session.architecture.unshown_settings(), &file)?;
    let record: Option<SourceRecord> = file.note(SourceRecord::NOTE)?;
    let other = record.as_ref().and_then(|record| record.first_other_class(session.source.as_ref()));
    let is_text = session.source.is_text();
    if let Some(difference) = record.as_ref().and_then(|it| it.other_tokenizer(session.source.as_ref())) {
        let key = "data.tokenizer";
        return Err(WeightsError::Tokens { path: path.to_owned(), difference, key }.into());
    }
    if let (true, Some(other)) = (is_text, &other) {
        let key = "data.vocabulary_file";
        return Err(WeightsError::Tokens { path: path.to_owned(), difference: other.to_string(), key }.into());
    }
    let mut fit = fit(&file, &session.architecture, wanted)?;
    let path = path.display();
    if is_text && record.is_none() {
        let count = session.spec().target.outputs();
        fit.notices.push(format!(
            "the weights `{path}` do not say which tokens they know: they are taken to be the {count} of the \
             vocabulary, in its order"
        ));
    }
    if let Some(other) = other.filter(|_| fit.fresh.is_empty()) {
        let why = format!("the head of the weights `{path}` is for other classes: {other}; it starts new");
        fit.drop_head(wanted, why);
    }
    Ok((file, fit))
}

/// Checks the settings against the `config.json` beside the weights, if there is one.
fn check_network(config: &Config, spec: &SampleSpec, weights: &WeightFile) -> Result<(), HubError> {
    let entries = config.resolved();
    let is_known = |entry: &Entry| {
        let name = entry.value.as_ref().filter(|_| entry.key == "model.name");
        name.is_some_and(|name| oomph_hub::has_networks(&name.shown()))
    };
    // A user's model, and a network of oomph alone, may have any file beside their weights.
    match weights.files().next().filter(|_| entries.iter().any(is_known)) {
        Some(weights) => HubConfig::beside(weights)?.map_or(Ok(()), |network| network.check(&entries, spec)),
        None => Ok(()),
    }
}

/// Checks the settings that no shape shows against those that the file notes.
fn check_settings(settings: &UnshownSettings, file: &WeightFile) -> Result<(), WeightsError> {
    let noted: UnshownSettings = file.note(Architecture::NOTE)?.unwrap_or_default();
    let other = noted.into_iter().find_map(|(key, found)| {
        let set = settings.get(&key).filter(|set| **set != found)?.clone();
        Some(WeightsError::OtherSetting { path: file.path().to_owned(), key, found, set })
    });
    other.map_or(Ok(()), Err)
}

/// The SHA-256 of the file that `model.weights` names.
pub(super) fn sha256_of_weights(path: &Path) -> Result<String, WeightsError> {
    sha256_of(&WeightFile::open(path)?)
}

/// The SHA-256 of a file, or of those of a folder one behind the other.
fn sha256_of(file: &WeightFile) -> Result<String, WeightsError> {
    let mut digest = Sha256::new();
    for path in file.files() {
        add(&mut digest, path).map_err(|source| WeightsError::Io { path: path.to_owned(), source })?;
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads a file in pieces: it may be larger than the free memory.
fn add(digest: &mut Sha256, path: &Path) -> io::Result<()> {
    const PIECE: usize = 1 << 16;
    let mut file = open_file(path)?;
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            count => digest.update(&piece[..count]),
        }
    }
}
