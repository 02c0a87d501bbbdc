use oomph_config::{Change, ConfigError};
use oomph_engine::session::Session;

/// The session with changes of its configuration. Data, model and devices stay the same.
///
/// # Errors
/// If a value is out of range, or contradicts another.
pub fn varied(session: &Session, changes: &[Change]) -> Result<Session, ConfigError> {
    Ok(session.with_config(session.config.changed(changes)?))
}
