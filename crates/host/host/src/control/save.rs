//! Writes the state of the host into a script.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::plane::{Control, State};
use crate::outcome::{CommandError, Output};
use crate::show;

impl Control {
    /// The file is whole or as it was: it is written beside its place, and put there.
    pub(super) fn save(&self, state: &State, path: &Path) -> Result<Output, CommandError> {
        let (script, commands) = show::running_script(&self.host, &self.options, state.view())?;
        let unwritable = |error| CommandError::Unwritable { path: path.to_owned(), error };
        let beside = beside(path);
        if let Err(error) =
            write(&beside, script.as_bytes()).and_then(|()| std::fs::rename(&beside, path))
        {
            // It may not have been made.
            let _ = std::fs::remove_file(&beside);
            return Err(unwritable(error));
        }
        let text = format!("{commands} commands, with secrets, in {}\n", path.display());
        Ok(Output::new(text, json!({ "file": path, "commands": commands })))
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

/// Secrets are in it, so only we read it. What lies there already is not ours.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
