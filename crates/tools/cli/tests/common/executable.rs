//! Files that tests make and then execute.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes an executable, by a process of its own.
///
/// A file that this process writes is open for writing in whatever another test forks meanwhile,
/// until that executes; who starts the file before is told ETXTBSY.
pub(crate) fn executable(path: &Path, bytes: &[u8], mode: u32) {
    let mut install = Command::new("install")
        .args(["-m", &format!("{mode:o}"), "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(bytes).unwrap();
    let ended = install.wait().unwrap();
    assert!(ended.success() && fs::metadata(path).is_ok(), "{}: {ended}", path.display());
}
