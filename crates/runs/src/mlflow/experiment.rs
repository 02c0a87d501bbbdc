//! The experiment of a store that has a name.

use std::{fs, path::Path};

use oomph_core::{
    files::{Existing, WriteError, write_file},
    read_text,
};
use sha2::{Digest, Sha256};

use super::{
    META,
    text::{file_uri, quoted, value_of},
};
use crate::state::StateError;

/// Where MLflow moves deleted experiments.
const TRASH: &str = ".trash";
/// Digits of an id, as MLflow makes them.
const ID_DIGITS: usize = 18;

/// The id of the experiment called `name`, which is created if the store has none. `store` is an absolute path.
pub(super) fn find_or_create(store: &Path, name: &str, now_milliseconds: u64) -> Result<String, StateError> {
    fs::create_dir_all(store).map_err(StateError::io("create", store))?;
    if let Some(id) = find(store, name)? {
        return Ok(id);
    }
    // Processes that start at once make the same id: one of them creates the experiment.
    let is_free = |id: &String| !store.join(id).exists() && !store.join(TRASH).join(id).exists();
    let is_own = |id: &String| name_of(store, id).as_deref() == Some(name);
    // The numbers are endless.
    let id = (0u32..).map(|number| id(name, number)).find(|id| is_free(id) || is_own(id)).unwrap_or_default();
    let folder = store.join(&id);
    fs::create_dir_all(&folder).map_err(StateError::io("create", &folder))?;
    let meta = format!(
        "artifact_location: {}\ncreation_time: {now_milliseconds}\nexperiment_id: {}\nlast_update_time: {now_milliseconds}\n\
         lifecycle_stage: active\nname: {}\n",
        quoted(&file_uri(&folder)),
        quoted(&id),
        quoted(name)
    );
    match write_file(&folder.join(META), Existing::Keep, |out| out.write_all(meta.as_bytes())) {
        Ok(()) | Err(WriteError::Exists) => Ok(id),
        Err(error) => Err(StateError::io("write", folder.join(META))(error.into())),
    }
}

fn find(store: &Path, name: &str) -> Result<Option<String>, StateError> {
    let entries = fs::read_dir(store).map_err(StateError::io("read", store))?;
    let mut ids: Vec<_> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Of two with the same name, always the same one.
    ids.sort();
    Ok(ids.into_iter().find(|id| !id.starts_with('.') && name_of(store, id).as_deref() == Some(name)))
}

/// The name of an experiment; `None` for a folder that is none.
fn name_of(store: &Path, id: &str) -> Option<String> {
    value_of(&read_text(&store.join(id).join(META)).ok()?, "name")
}

fn id(name: &str, number: u32) -> String {
    let digest = Sha256::digest(format!("{number}:{name}"));
    let mut digits: String = digest.iter().map(|byte| char::from(b'0' + byte % 10)).take(ID_DIGITS).collect();
    // MLflow's own ids do not begin with a zero.
    if digits.starts_with('0') {
        digits.replace_range(..1, "1");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_is_created_once_and_one_of_mlflow_is_found() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = folder.path();
        fs::create_dir(store.join("7")).expect("a folder");
        fs::write(store.join("7").join(META), "experiment_id: '7'\nname: theirs\n").expect("a file");
        assert_eq!(find_or_create(store, "theirs", 1).expect("an experiment"), "7");
        let made = find_or_create(store, "ours: 1", 1).expect("an experiment");
        assert_eq!(find_or_create(store, "ours: 1", 2).expect("an experiment"), made);
        assert_eq!((made.len(), made.bytes().all(|byte| byte.is_ascii_digit())), (18, true));
        assert_ne!(find_or_create(store, "another", 1).expect("an experiment"), made);
    }

    #[test]
    fn the_id_of_a_deleted_experiment_is_not_taken_again() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = folder.path();
        let made = find_or_create(store, "ours", 1).expect("an experiment");
        fs::create_dir(store.join(TRASH)).expect("a folder");
        fs::rename(store.join(&made), store.join(TRASH).join(&made)).expect("a moved folder");
        assert_ne!(find_or_create(store, "ours", 2).expect("an experiment"), made);
    }
}
