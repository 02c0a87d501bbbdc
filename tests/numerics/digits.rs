//! Sessions on the embedded digits.

use oomph_config::Config;
use oomph_core::Split;
use oomph_data::{Batch, Loader};
use oomph_engine::session::train_order;
use oomph_trainer::{Registry, Session, open};

/// The session of a configuration.
pub(crate) fn session(toml: &str) -> Session {
    let config = Config::from_toml("numerics", toml).expect("a valid configuration");
    open(config, &Registry::builtin()).expect("everything it names is built in")
}

/// The first batches that training would see.
pub(crate) fn batches(session: &Session, count: usize) -> Vec<Batch> {
    let (source, order) = (session.source.clone(), train_order(session));
    let seed = Some(session.config.train.seed);
    let loader = Loader::start(source, Split::Train, order, 0, 0, seed, &session.loader);
    let batches: Vec<_> = loader.take(count).map(|batch| batch.expect("the digits are embedded")).collect();
    assert_eq!(batches.len(), count, "the epoch is long enough");
    batches
}
