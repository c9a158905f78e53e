//! The files of a machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files below one folder.
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn new(root: &Path) -> Files {
        Files { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether these are the files of the machine that this runs on.
    pub(super) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The text of a file without white space round it; None when it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The number that a file holds.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The names in a folder, in order.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries =
            fs::read_dir(self.root.join(path)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The last part of what a link points to.
    pub(super) fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Opens a file for reading and writing, as the program would that needs it.
    pub(super) fn open(&self, path: &str) -> io::Result<()> {
        fs::OpenOptions::new().read(true).write(true).open(self.root.join(path)).map(drop)
    }

    /// Whether the kernel's module is loaded, built in, or there to be loaded.
    pub(super) fn module(&self, name: &str) -> Module {
        if self.exists(&format!("sys/module/{}", name.replace('-', "_"))) {
            return Module::Loaded;
        }
        let release = self.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let listed = |list: &str| {
            let text = self.text(&format!("lib/modules/{release}/{list}")).unwrap_or_default();
            let file = format!("/{}.ko", name.replace('_', "-"));
            let other = format!("/{}.ko", name.replace('-', "_"));
            text.lines().any(|line| {
                let path = line.split(':').next().unwrap_or_default();
                path.contains(&file) || path.contains(&other)
            })
        };
        if listed("modules.builtin") {
            Module::Loaded
        } else if listed("modules.dep") {
            Module::Loadable
        } else {
            Module::Absent
        }
    }
}

/// Where a module of the kernel's is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Module {
    /// Loaded or built in.
    Loaded,
    /// `modprobe` finds it.
    Loadable,
    /// This kernel has none.
    Absent,
}

/// The numbers of a list such as `0-3,7`.
pub(super) fn list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        // No machine has more cores than this; a damaged file must not make a list without end.
        const MOST: u32 = 65_536;
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            numbers.extend(first..=last.min(MOST));
        }
    }
    numbers
}
