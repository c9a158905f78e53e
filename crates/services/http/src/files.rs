//! Files below one root. Every name is resolved by the kernel in one step that cannot leave the
//! root (openat2 with RESOLVE_BENEATH), so that a symbolic link, or one that is changed while we
//! look, leads nowhere else.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, SFlag, fstat};

/// The folder that is served.
pub struct Root {
    folder: OwnedFd,
}

/// A regular file that was opened below the root.
pub struct Found {
    /// The file.
    pub file: File,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last changed, to the second as HTTP has it.
    pub modified: SystemTime,
    /// A strong entity tag with its quotes: changes with the length and the time of change.
    pub etag: String,
    /// The media type that its name suggests.
    pub content_type: &'static str,
}

/// Why there is no file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nothing of that name below the root (404). Something that leads outside of it counts as
    /// nothing.
    NotFound,
    /// It is there and may not be read, or is neither a file nor a folder (403).
    Forbidden,
    /// The name is a folder, and the URL lacks the slash at its end (301).
    Folder,
    /// The system is out of file descriptors or worse (503).
    Trouble,
}

impl Root {
    /// Opens the folder.
    pub fn open(path: &Path) -> io::Result<Root> {
        let folder = File::open(path)?;
        if !folder.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder"));
        }
        Ok(Root { folder: folder.into() })
    }

    /// Opens what `relative` names: a path as [`crate::target::relative_path`] makes it. A folder
    /// stands for its `index.html` when `slash` says that the URL ended in a slash.
    pub fn find(&self, relative: &[u8], slash: bool) -> Result<Found, Missing> {
        let name: &[u8] = if relative.is_empty() { b"." } else { relative };
        let (file, stat) = self.look(name)?;
        match kind(&stat) {
            SFlag::S_IFREG if slash && !relative.is_empty() => Err(Missing::NotFound),
            SFlag::S_IFREG => Ok(found(file, &stat, name)),
            SFlag::S_IFDIR if !slash && !relative.is_empty() => Err(Missing::Folder),
            SFlag::S_IFDIR => {
                let index = [name, b"/index.html"].concat();
                match self.look(&index)? {
                    (file, stat) if kind(&stat) == SFlag::S_IFREG => Ok(found(file, &stat, &index)),
                    _ => Err(Missing::NotFound),
                }
            }
            _ => Err(Missing::Forbidden),
        }
    }

    fn look(&self, name: &[u8]) -> Result<(File, nix::sys::stat::FileStat), Missing> {
        // Without O_NONBLOCK the opening of a FIFO would stop the whole core until somebody writes
        // to it.
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
            .mode(Mode::empty())
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let fd = openat2(self.folder.as_fd(), Path::new(std::ffi::OsStr::from_bytes(name)), how)
            .map_err(missing)?;
        let stat = fstat(&fd).map_err(missing)?;
        Ok((File::from(fd), stat))
    }
}

fn missing(errno: nix::Error) -> Missing {
    use nix::errno::Errno;
    match errno {
        // EXDEV: the way led outside of the root. It is not said whether something is there.
        Errno::ENOENT
        | Errno::ENOTDIR
        | Errno::EXDEV
        | Errno::ELOOP
        | Errno::ENAMETOOLONG
        | Errno::EINVAL => Missing::NotFound,
        Errno::EACCES | Errno::EPERM | Errno::ENXIO | Errno::EOPNOTSUPP => Missing::Forbidden,
        _ => Missing::Trouble,
    }
}

fn kind(stat: &nix::sys::stat::FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn found(file: File, stat: &nix::sys::stat::FileStat, name: &[u8]) -> Found {
    let len = u64::try_from(stat.st_size).unwrap_or(0);
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Found {
        file,
        len,
        modified: UNIX_EPOCH + Duration::from_secs(seconds),
        etag: format!("\"{:x}-{:x}-{:x}\"", len, seconds, stat.st_mtime_nsec),
        content_type: content_type(name),
    }
}

fn content_type(name: &[u8]) -> &'static str {
    let last = name.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let extension =
        last.iter().rposition(|&b| b == b'.').map(|dot| &last[dot + 1..]).unwrap_or_default();
    match extension.to_ascii_lowercase().as_slice() {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"txt" | b"log" => "text/plain; charset=utf-8",
        b"md" => "text/markdown; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"xml" => "text/xml; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"wasm" => "application/wasm",
        b"pdf" => "application/pdf",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"ico" => "image/x-icon",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"mp3" => "audio/mpeg",
        b"mp4" => "video/mp4",
        b"webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
