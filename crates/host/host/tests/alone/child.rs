//! Processes of their own: this test binary again, which does what an environment variable says. So
//! a process can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::guest::{Guest, hello};

const ROLE: &str = "CLEARWAY_TEST_ROLE";
const ATTACH_SOCKET: &str = "CLEARWAY_TEST_ATTACH_SOCKET";

/// Ends with its owner.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(role: &str, attach_socket: &Path) -> Process {
        let me = std::env::current_exe().unwrap();
        let mut command = Command::new(me);
        command
            .args(["--exact", "child::as_told", "--nocapture", "--ignored"])
            .env(ROLE, role)
            .env(ATTACH_SOCKET, attach_socket);
        Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// No test: what the other processes run.
#[test]
#[ignore = "run by other tests, in processes of their own"]
fn as_told() {
    let (Ok(role), Ok(attach_socket)) = (std::env::var(ROLE), std::env::var(ATTACH_SOCKET)) else {
        return;
    };
    let attach_socket = Path::new(&attach_socket);
    match role.as_str() {
        "sink" => sink(attach_socket),
        "source" => source(attach_socket),
        _ => panic!("no role {role}"),
    }
}

/// Reads from whoever connects, one after the other, for ever.
fn sink(attach_socket: &Path) {
    let guest = Guest::attach(attach_socket, hello("server", Some("1234"))).unwrap();
    let mut listener = guest.listener("172.16.1.1:5201");
    loop {
        let mut sock = guest.accept(&mut listener);
        let mut buffer = vec![0; 100_000];
        while guest.read(&mut sock, &mut buffer) > 0 {}
    }
}

/// Writes to the sink, and connects again when it is gone, for ever.
fn source(attach_socket: &Path) {
    let guest = Guest::attach(attach_socket, hello("client", Some("5678"))).unwrap();
    let bytes = vec![9; 70_000];
    loop {
        match guest.connect("172.16.1.1:5201") {
            Ok(mut sock) => while guest.write_all(&mut sock, &bytes) {},
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
