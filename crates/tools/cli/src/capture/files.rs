//! The file that packets are written to, or a ring of files.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::blocks::Block;
use crate::error::WrongUse;

/// When the next file of a ring begins, and how many are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    bytes: u64,
    packets: u64,
    time: Option<Duration>,
    files: usize,
}

impl Limits {
    /// As the command line has them; None for one file.
    pub(super) fn of(words: &[String]) -> anyhow::Result<Option<Limits>> {
        let mut limits =
            Limits { bytes: u64::MAX, packets: u64::MAX, time: None, files: usize::MAX };
        for word in words {
            let wrong = || {
                let what = "filesize:KILOBYTES, duration:SECONDS, packets:N or files:N";
                WrongUse(format!("`{word}` is none of {what}"))
            };
            let (name, n) = word.split_once(':').ok_or_else(wrong)?;
            let n: u64 = n.parse().ok().filter(|n| (1..1 << 40).contains(n)).ok_or_else(wrong)?;
            match name {
                "filesize" => limits.bytes = n * 1_000,
                "packets" => limits.packets = n,
                "duration" => limits.time = Some(Duration::from_secs(n)),
                "files" => limits.files = n as usize,
                _ => return Err(wrong().into()),
            }
        }
        let ends = limits.bytes < u64::MAX || limits.packets < u64::MAX || limits.time.is_some();
        if limits.files < usize::MAX && !ends {
            let why = "files:N needs filesize, duration or packets, which end a file";
            return Err(WrongUse(why.into()).into());
        }
        Ok(ends.then_some(limits))
    }
}

/// Where packets are written.
pub(crate) struct Files {
    path: PathBuf,
    limits: Option<Limits>,
    now: Option<Open>,
    /// Those of the ring that are there, the oldest first.
    kept: VecDeque<PathBuf>,
    begun: u64,
}

struct Open {
    out: BufWriter<File>,
    path: PathBuf,
    bytes: u64,
    packets: u64,
    since: Instant,
}

impl Files {
    pub(super) fn new(path: &Path, limits: Option<Limits>) -> anyhow::Result<Files> {
        let mut files =
            Files { path: path.to_owned(), limits, now: None, kept: VecDeque::new(), begun: 0 };
        // What cannot be written is known before the host is asked.
        files.next(&[])?;
        Ok(files)
    }

    pub(super) fn write(&mut self, block: &Block<'_>, header: &[u8]) -> anyhow::Result<()> {
        let full = |open: &Open, limits: &Limits| {
            open.packets >= limits.packets
                || (open.packets > 0 && open.bytes + block.bytes.len() as u64 > limits.bytes)
                || limits.time.is_some_and(|time| open.since.elapsed() >= time)
        };
        let is_full = match (&self.now, &self.limits) {
            (Some(open), Some(limits)) => block.is_packet && full(open, limits),
            _ => false,
        };
        if is_full {
            self.flush()?;
            self.next(header)?;
        }
        if let Some(open) = &mut self.now {
            open.packets += u64::from(block.is_packet);
            open.write(block.bytes)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.now {
            Some(open) => open.out.flush().with_context(|| unwritable(&open.path)),
            None => Ok(()),
        }
    }

    pub(super) fn told(&self) -> String {
        match self.kept.len() {
            0 | 1 => self.kept.front().unwrap_or(&self.path).display().to_string(),
            n => format!("{n} files, {} to {}", self.kept[0].display(), self.kept[n - 1].display()),
        }
    }

    /// Begins the next file.
    fn next(&mut self, header: &[u8]) -> anyhow::Result<()> {
        self.begun += 1;
        let path = match self.limits {
            None => self.path.clone(),
            Some(_) => numbered(&self.path, self.begun),
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).with_context(|| unwritable(&path))?;
        let mut open = Open {
            out: BufWriter::with_capacity(super::READ, file),
            path: path.clone(),
            bytes: 0,
            packets: 0,
            since: Instant::now(),
        };
        open.write(header)?;
        self.now = Some(open);
        self.kept.push_back(path);
        while self.limits.is_some_and(|limits| self.kept.len() > limits.files) {
            if let Some(oldest) = self.kept.pop_front() {
                std::fs::remove_file(&oldest)
                    .with_context(|| format!("cannot remove {}", oldest.display()))?;
            }
        }
        Ok(())
    }
}

impl Open {
    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).with_context(|| unwritable(&self.path))
    }
}

fn unwritable(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// `ring.pcapng` as `ring_00001.pcapng`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}_{number:05}.{}", extension.to_string_lossy()),
        None => format!("{stem}_{number:05}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_file_is_read_and_nonsense_is_refused() {
        let of = |words: &[&str]| {
            Limits::of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]).unwrap(), None);
        let limits = of(&["filesize:2", "files:3"]).unwrap().unwrap();
        assert_eq!((limits.bytes, limits.files, limits.time), (2_000, 3, None));
        for wrong in ["files:3", "filesize", "filesize:0", "size:3", "packets:-1"] {
            assert!(of(&[wrong]).is_err(), "{wrong}");
        }
        assert_eq!(numbered(Path::new("/a/b.pcapng"), 7), Path::new("/a/b_00007.pcapng"));
        assert_eq!(numbered(Path::new("b"), 70_000), Path::new("b_70000"));
    }
}
