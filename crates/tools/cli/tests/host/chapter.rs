//! The documents' loopback chapter, step by step with its commands.

use std::fs;

use crate::world::{CHAPTER, Host, IN_CLIENT, IN_SERVER, SERVER, eventually};

#[test]
fn the_chapter_works_one_command_at_a_time() {
    let host = Host::bare(&[]);
    for line in CHAPTER {
        host.ctl(line);
    }
    host.run(
        IN_SERVER,
        "iperf3",
        &["-4", "-s", "-D", "--pidfile", host.folder.join("pid").to_str().unwrap()],
    );
    let listens = || {
        let text = host.ctl("show session verbose");
        text.lines().any(|line| {
            line.contains("172.16.1.1:5201")
                || line.contains("0.0.0.0:5201") && line.contains("LISTEN")
        })
    };
    eventually("the server listens", listens);
    let out = host.run(IN_CLIENT, "iperf3", &["-c", SERVER, "-t", "1", "-J"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let sent = &report["end"]["streams"][0]["sender"];
    assert!(sent["bytes"].as_u64().unwrap() > 0, "{report}");
    // Nothing is lost there, and little is sent again, by a worker that did not run for a while.
    assert!(sent["retransmits"].as_u64().is_some_and(|retransmits| retransmits < 100), "{sent}");
    assert!(sent["max_snd_cwnd"].as_u64().unwrap() > 10_000, "{sent}");
    assert!(sent["mean_rtt"].as_u64().unwrap() < 1_000_000, "{sent}");
    let pid = fs::read_to_string(host.folder.join("pid")).unwrap();
    let pid = pid.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    host.await_empty();
    host.stop();
}

#[test]
fn connections_end_when_their_interface_moves_to_another_table() {
    for line in ["set interface ip table loop1 0", "delete loopback interface intfc loop0"] {
        let host = Host::new();
        let mut server = host.iperf_server(&[]);
        let mut client = host.spawn(
            IN_CLIENT,
            "iperf3",
            &["-c", SERVER, "-t", "600", "-i", "0.1", "--forceflush"],
        );
        client.await_text("bits/sec");
        host.ctl(line);
        assert!(client.ends(), "{line}: the client waits: {}", client.text());
        assert!(server.ends(), "{line}: the server waits: {}", server.text());
        host.await_empty();
        host.stop();
    }
}

/// Takes an address of its namespace.
const EARLY: &str = "
import socket
s = socket.create_server(('172.16.2.1', 0))
assert s.getsockname()[0] == '172.16.2.1'
";

#[test]
fn programs_that_come_before_the_script_is_done_wait_for_it() {
    let folder = crate::world::folder();
    let script = folder.join("slow");
    let busy = ["ip route add 10.9.0.0/16 via drop", "ip route del 10.9.0.0/16"];
    let lines: Vec<&str> = busy.iter().cycle().take(10_000).chain(CHAPTER).copied().collect();
    fs::write(&script, lines.join("\n")).unwrap();
    let host = Host::without_waiting(&["--script", script.to_str().unwrap()]);
    eventually("there is an attach socket", || host.socket().exists());
    let mut early: Vec<_> =
        (0..4).map(|_| host.spawn(IN_CLIENT, "python3", &["-c", EARLY])).collect();
    early.iter_mut().for_each(|program| drop(program.succeed()));
    host.await_ready();
    host.await_empty();
    host.stop();
}

#[test]
fn a_wrong_secret_is_refused_and_shown_by_nobody() {
    let host = Host::new();
    let server = host.iperf_server(&[]);
    for secret in [Some("12345"), Some(""), None] {
        let mut words = vec!["run", "--ns", "server"];
        if let Some(secret) = secret {
            words.extend(["--secret", secret]);
        }
        words.extend(["--", "iperf3", "-c", SERVER, "-t", "1"]);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_clearway"))
            .args(&words)
            .env("CLEARWAY_SOCKET", host.socket())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains("secret"), "{secret:?}: {output:?}");
    }
    for line in ["show app", "show app ns", "show session verbose", "show errors", "show version"] {
        let out = host.try_ctl(&line.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        // The port and the addresses hold no such number.
        assert!(!text.contains("1234") && !text.contains("5678"), "{line} shows a secret: {text}");
    }
    assert!(!host.log().contains("1234") && !host.log().contains("5678"), "{}", host.log());
    drop(server);
    host.stop();
}
