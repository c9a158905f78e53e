use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;

use super::*;
use crate::socket;

/// A folder of the test's own; gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("cwgiven-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn programs(&self, name: &str) -> OwnedFd {
        socket::listen(&self.0.join(name), 0o600, None).unwrap()
    }

    fn commands(&self, name: &str) -> OwnedFd {
        UnixListener::bind(self.0.join(name)).unwrap().into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn sorted(fds: Vec<OwnedFd>) -> Result<GivenSockets, String> {
    sort((FIRST..).zip(fds)).map_err(|error| error.to_string())
}

#[test]
fn what_is_another_processs_is_left_alone_and_nonsense_is_named() {
    let told = |pid, fds| handed_over(pid, fds, 7).map_err(|error| error.to_string());
    assert_eq!(told(None, Some("2")), Ok(0));
    assert_eq!(told(Some("7"), None), Ok(0));
    assert_eq!(told(Some("8"), Some("nonsense")), Ok(0));
    assert_eq!(told(Some("7"), Some("2")), Ok(2));
    assert!(told(Some("7"), Some("-1")).unwrap_err().contains("`-1`"));
    let many = told(Some("7"), Some("3")).unwrap_err();
    assert!(many.contains("LISTEN_FDS is 3") && many.contains("2 sockets at most"), "{many}");
}

#[test]
fn sockets_are_told_apart_by_their_type_in_any_order() {
    let folder = Folder::new("order");
    for turned in [false, true] {
        let names = if turned { ["a", "b"] } else { ["c", "d"] };
        let mut fds = vec![folder.programs(names[0]), folder.commands(names[1])];
        if turned {
            fds.reverse();
        }
        let given = sorted(fds).unwrap();
        assert_eq!(given.programs.unwrap().path, folder.0.join(names[0]));
        assert_eq!(given.commands.unwrap().path, folder.0.join(names[1]));
    }
}

#[test]
fn what_is_no_such_socket_is_refused_by_name() {
    let folder = Folder::new("other");
    let file = std::fs::File::open("/dev/null").unwrap();
    let datagrams = UnixDatagram::bind(folder.0.join("datagrams")).unwrap();
    let inet = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (deaf, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let nameless = socket::listen_by_name(format!("cwgiven-{}", std::process::id()).as_bytes());
    let cases: [(OwnedFd, &str); 5] = [
        (file.into(), "descriptor 3 of LISTEN_FDS is no socket"),
        (datagrams.into(), "is a socket of datagrams"),
        (inet.into(), "is no Unix socket"),
        (deaf.into(), "is a socket that does not listen"),
        (nameless.unwrap(), "is a socket without a file"),
    ];
    for (fd, part) in cases {
        let said = sorted(vec![fd]).unwrap_err();
        assert!(said.contains(part), "{part}: {said}");
    }
    let twice = sorted(vec![folder.programs("one"), folder.programs("two")]).unwrap_err();
    assert!(twice.contains("two sockets for programs") && twice.contains("/two"), "{twice}");
}

#[test]
fn a_socket_elsewhere_is_refused_with_both_paths_and_one_taken_over_has_the_wanted_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("path");
    let given = || sorted(vec![folder.programs("host.sock")]).unwrap().programs.unwrap();
    let said = given().at("programs", &folder.0.join("x.sock")).unwrap_err().to_string();
    assert!(said.contains("/host.sock") && said.contains("/x.sock"), "{said}");
    let path = folder.0.join("host.sock");
    let _ = std::fs::remove_file(&path);
    let given = given().at("programs", &folder.0.join("./host.sock")).unwrap();
    given.take_over(0o640, None).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    std::fs::remove_file(&path).unwrap();
    assert!(given.take_over(0o600, None).is_err(), "its file is gone");
}
