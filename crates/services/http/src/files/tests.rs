use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = std::env::temp_dir().join(format!(
            "clearway-files-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir_all(path.join("root/sub")).unwrap();
        fs::write(path.join("secret.txt"), "secret").unwrap();
        fs::write(path.join("root/a.txt"), "hello").unwrap();
        fs::write(path.join("root/sub/index.html"), "<p>").unwrap();
        Folder(path)
    }

    fn root(&self) -> Root {
        Root::open(&self.0.join("root")).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(found: Found) -> String {
    let mut text = String::new();
    let mut file = found.file;
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_file_is_found_with_its_length_and_type() {
    let folder = Folder::new();
    let found = folder.root().find(b"a.txt", false).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!((found.len, found.content_type), (5, "text/plain; charset=utf-8"));
    assert_eq!(read(found), "hello");
}

#[test]
fn a_folder_stands_for_its_index_behind_a_slash() {
    let folder = Folder::new();
    let root = folder.root();
    assert_eq!(root.find(b"sub", true).map(read), Ok("<p>".to_string()));
    assert_eq!(root.find(b"sub", false).map(read), Err(Missing::Folder));
    assert_eq!(root.find(b"", true).map(read), Err(Missing::NotFound), "the root has no index");
    assert_eq!(root.find(b"a.txt", true).map(read), Err(Missing::NotFound));
}

#[test]
fn links_are_followed_inside_the_root_and_nowhere_else() {
    let folder = Folder::new();
    let at = |name: &str| folder.0.join("root").join(name);
    symlink("a.txt", at("inside")).unwrap();
    symlink("../secret.txt", at("outside")).unwrap();
    symlink(folder.0.join("secret.txt"), at("absolute")).unwrap();
    symlink("..", at("up")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let root = folder.root();
    assert_eq!(root.find(b"inside", false).map(read), Ok("hello".to_string()));
    for name in ["outside", "absolute", "up/secret.txt", "loop", "../secret.txt", "/etc/passwd"] {
        assert_eq!(root.find(name.as_bytes(), false).map(read), Err(Missing::NotFound), "{name}");
    }
}

#[test]
fn a_fifo_neither_blocks_nor_is_served() {
    let folder = Folder::new();
    nix::unistd::mkfifo(&folder.0.join("root/pipe"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    assert_eq!(folder.root().find(b"pipe", false).map(read), Err(Missing::Forbidden));
}

#[test]
fn the_tag_changes_with_the_content() {
    let folder = Folder::new();
    let root = folder.root();
    let before = root.find(b"a.txt", false).map(|f| f.etag).unwrap();
    fs::write(folder.0.join("root/a.txt"), "hello!").unwrap();
    let after = root.find(b"a.txt", false).map(|f| f.etag).unwrap();
    assert_ne!(before, after);
}

#[test]
fn a_file_is_no_root() {
    let folder = Folder::new();
    assert!(Root::open(&folder.0.join("secret.txt")).is_err());
    assert!(Root::open(&folder.0.join("nothing")).is_err());
}
