//! The host over a port of DPDK's: an unmodified program reaches a server at the other end.

use std::process::{Child, Stdio};

use nix::sys::signal::Signal;

use crate::preload;
use crate::world::{Folder, Memory, Running, clearway, eventually, finish, text};

#[test]
fn an_unmodified_program_reaches_a_server_over_memif_also_when_that_was_gone() {
    preload::build();
    let folder = Folder::new();
    let link = folder.file("m");
    let listens = format!("dpdk:net_memif0,role=server,socket={link}");
    let serve = || {
        let args = ["http", "--port", &listens, "-a", "10.98.0.1/24", "-l", "100k", "--json"];
        Running::start(clearway(Memory::Plain, &args))
    };
    let (settings, socket) = (folder.file("c.toml"), folder.file("s"));
    let port = format!("dpdk:net_memif0,role=client,socket={link}");
    let text_of_it =
        format!("[[ports]]\nport = \"{port}\"\nname = \"m0\"\naddresses = [\"10.98.0.2/24\"]\n");
    std::fs::write(&settings, text_of_it).unwrap();
    let up = clearway(Memory::Plain, &["up", "-c", &settings, "--socket", &socket])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut host = Guard(up);
    let ctl = |words: &[&str]| {
        let output = finish(clearway(
            Memory::Plain,
            &[&["ctl", "--socket", &socket, "--json"], words].concat(),
        ));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    let link_is = |up: bool| ctl(&["show", "interface", "m0"])["interfaces"][0]["link"] == up;
    eventually("the host is there, and nobody at the other end", || link_is(false));
    for round in 1..=2 {
        let server = serve();
        eventually("the link is up", || link_is(true));
        let program = [
            "run",
            "--socket",
            &socket,
            "--",
            "curl",
            "--silent",
            "--max-time",
            "30",
            "http://10.98.0.1/",
        ];
        let output = finish(clearway(Memory::Plain, &program));
        assert!(output.status.success(), "{round}: {}", text(&output));
        assert_eq!(output.stdout.len(), 102_400, "{round}");
        let seen = ctl(&["show", "interface", "m0"]);
        let received = seen["interfaces"][0]["driver"]["rx_good_bytes"].as_u64();
        assert!(received.is_some_and(|bytes| bytes > 102_400), "{seen}");
        let buffers = &ctl(&["show", "dpdk", "buffer"])["buffers"][0];
        let number = |key: &str| buffers[key].as_u64().unwrap_or_else(|| panic!("{buffers}"));
        assert_eq!(buffers["name"], "m0");
        assert!(number("free") > 0 && number("free") < number("buffers"), "{buffers}");
        assert_eq!(ctl(&["show", "dpdk", "physmem"])["memory"]["pages"], "plain");
        let (summary, _) = server.stop(Signal::SIGTERM);
        assert_eq!(summary["requests"], 1);
        eventually("the link is down", || link_is(false));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(host.0.id() as i32), Signal::SIGTERM)
        .unwrap();
    let status = host.0.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// A process that ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.try_wait().ok().flatten().is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
