use oomph_config::{Config, ConfigError};
use oomph_core::is_within;

/// Checks that the model has all `named` stages and groups of stages.
///
/// # Errors
/// An error for `key` that lists the allowed names.
pub fn check_names(config: &Config, key: &str, named: &[String], stages: &[&str]) -> Result<(), ConfigError> {
    if named.iter().all(|name| stages.iter().any(|stage| is_within(stage, name))) {
        return Ok(());
    }
    // A group such as `layer1` comes before its stages, such as `layer1.0`.
    let mut allowed: Vec<&str> = Vec::new();
    for stage in stages {
        let group = stage.split('.').next().unwrap_or(stage);
        allowed.extend([group, stage].into_iter().filter(|name| !allowed.contains(name)).collect::<Vec<_>>());
    }
    allowed.dedup();
    Err(config.not_allowed(key, allowed))
}
