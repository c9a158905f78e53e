//! A script's first line.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::read_beginning;

/// Scripts whose interpreter is a script and so on, as many as Linux follows.
pub const MAX_SCRIPTS: usize = 5;

/// As much of the line as Linux reads.
const MAX_FIRST_LINE: usize = 256;

/// What a script says of what runs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The program that runs it.
    pub interpreter: PathBuf,
    /// What stands behind it in the line: for Linux one word, with the blanks that are in it.
    pub word: Option<OsString>,
}

/// None: the file is no script.
pub fn script(path: &Path) -> io::Result<Option<Script>> {
    let file = File::open(path)?;
    let mut line = [0; MAX_FIRST_LINE];
    let len = read_beginning(&file, &mut line)?;
    Ok(parse(&line[..len]))
}

fn parse(file: &[u8]) -> Option<Script> {
    let line = file.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let word = line[end..].trim_ascii();
    let has_interpreter = end > 0;
    has_interpreter.then(|| Script {
        interpreter: OsStr::from_bytes(&line[..end]).into(),
        word: (!word.is_empty()).then(|| OsStr::from_bytes(word).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_names_an_interpreter_and_one_word() {
        let parsed = |line: &str| {
            parse(line.as_bytes())
                .map(|script| (script.interpreter, script.word.unwrap_or_default()))
        };
        assert_eq!(parsed("#!/bin/sh\necho\n"), Some(("/bin/sh".into(), "".into())));
        assert_eq!(
            parsed("#! /usr/bin/env\t-S perl -w \nx"),
            Some(("/usr/bin/env".into(), "-S perl -w".into()))
        );
        assert_eq!(parsed("#!\n/bin/sh"), None);
        assert_eq!(parsed("echo #!/bin/sh"), None);
    }
}
