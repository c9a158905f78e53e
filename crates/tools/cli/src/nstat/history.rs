//! The file that keeps what was shown, so that the next call shows what came after it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use nix::fcntl::{Flock, FlockArg, OFlag};

use super::Sample;

/// Bytes of the file at most: a table of ours has a tenth of it.
const MAX_BYTES: u64 = 64 << 10;

/// The file, open and locked: who comes at the same time waits.
#[derive(Debug)]
pub(super) struct History {
    file: Flock<File>,
}

impl History {
    pub(super) fn open(path: &Path) -> anyhow::Result<History> {
        let shown = path.display();
        // Others may write into the folder: no link of theirs is followed, no file of theirs taken.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)
            .with_context(|| format!("cannot open the history {shown}"))?;
        let meta = file.metadata()?;
        let is_ours =
            meta.is_file() && meta.nlink() == 1 && meta.uid() == nix::unistd::geteuid().as_raw();
        if !is_ours {
            bail!("the history {shown} is no plain file of this user's own");
        }
        if meta.len() > MAX_BYTES {
            bail!("{shown} is too long for a history");
        }
        let file = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, error)| anyhow!(error).context(format!("cannot lock {shown}")))?;
        Ok(History { file })
    }

    /// What was seen of the host that began at `started`; None when nothing was, or of another.
    pub(super) fn read(&mut self, started: u64) -> anyhow::Result<Option<Sample>> {
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(0))?;
        (&*self.file)
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .context("cannot read the history")?;
        let mut lines = text.lines();
        let Some(first) = lines.next() else { return Ok(None) };
        if first != heading(started) {
            eprintln!("clearway: the history is of another start of the host and is not used");
            return Ok(None);
        }
        let counter = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        };
        let counters: Option<Vec<(String, u64)>> = lines.map(counter).collect();
        let counters = counters.context("the history is damaged; --reset begins it anew")?;
        Ok(Some(Sample { started, counters }))
    }

    pub(super) fn forget(&mut self) -> anyhow::Result<()> {
        self.file.set_len(0).context("cannot empty the history")
    }

    pub(super) fn write(&mut self, sample: &Sample) -> anyhow::Result<()> {
        let line = |(name, count): &(String, u64)| format!("{name:<32}{count}\n");
        let lines: String = sample.counters.iter().map(line).collect();
        self.forget()?;
        self.file.seek(SeekFrom::Start(0))?;
        let text = format!("{}\n{lines}", heading(sample.started));
        self.file.write_all(text.as_bytes()).context("cannot write the history")
    }
}

fn heading(started: u64) -> String {
    format!("#clearway started={started}")
}
