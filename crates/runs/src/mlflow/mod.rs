//! Runs in MLflow's file store, which `mlflow ui`, `mlflow.search_runs` and `mlflow migrate-filestore` read.
//!
//! A store is a folder, as `FileStore` of MLflow 2 and 3 has it (`mlflow/store/tracking/file_store.py`):
//!
//! ```text
//! mlruns/<experiment>/meta.yaml
//! mlruns/<experiment>/<run>/meta.yaml         name, times, status
//! mlruns/<experiment>/<run>/params/<key>      a value of the configuration
//! mlruns/<experiment>/<run>/metrics/<tag>     lines of time in milliseconds, value and step
//! mlruns/<experiment>/<run>/tags/<key>
//! mlruns/<experiment>/<run>/artifacts/
//! ```

mod experiment;
mod identity;
mod metrics;
mod run;
mod text;

pub use run::{MlflowAbout, MlflowRun};

/// The file that describes an experiment or a run.
const META: &str = "meta.yaml";
