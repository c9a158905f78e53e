//! The library that `clearway run` puts into programs.

use std::process::Command;
use std::sync::OnceLock;

/// Builds it once, for `cargo test` does not when only this package is tested.
pub(crate) fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--package",
            "clearway-preload",
            "--package",
            "clearway-trap",
        ]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // `cargo xtask ci` builds it with the features of the whole workspace.
        let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
        assert!(
            is_built || cargo.status().unwrap().success(),
            "building libclearway_preload.so failed"
        );
    });
}
