//! The settings of a host, out of one TOML file.
//!
//! Every key is a row of `keys`; a key that is no row is an error with file, line and the nearest
//! key that is one. What is left out has the value that its row names.

mod error;
mod keys;
mod read;
mod schedule;
mod settings;
mod value;

pub use error::SettingsError;
pub use keys::{KEYS, Key};
pub use settings::{
    ControlOptions, LogFormat, LogLevel, LogSpec, MetricsAddress, MetricsSettings,
    NamespaceSetting, Policy, PortSetting, Settings,
};

#[cfg(test)]
mod tests;
