//! The archive that the kernel unpacks into its first file system: the "newc" form of cpio, as in
//! the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::path::{Component, Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive in the making.
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: Vec<PathBuf>,
}

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive { bytes: Vec::new(), entries: 0, folders: Vec::new() }
    }

    /// An empty folder, and those that it is in. No path begins with a slash.
    pub(crate) fn folder(&mut self, path: &Path) {
        let mut so_far = PathBuf::new();
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            so_far.push(part);
            if !self.folders.contains(&so_far) {
                self.folders.push(so_far.clone());
                self.entry(&so_far, FOLDER, &[]);
            }
        }
    }

    /// A file that may be executed.
    pub(crate) fn file(&mut self, path: &Path, content: &[u8]) {
        let path: PathBuf =
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        if let Some(folder) = path.parent() {
            self.folder(folder);
        }
        self.entry(&path, PROGRAM, content);
    }

    /// The whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) {
        let name = path.to_str().unwrap();
        self.entries += 1;
        let len = u32::try_from(content.len()).unwrap();
        // Number, mode, user, group, links, time, length, four numbers of devices, length of the
        // name with its end, no checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
