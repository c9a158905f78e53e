//! `clearway health`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Host;

fn health(host: &Host, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    command.arg("health").args(args).env("CLEARWAY_SOCKET", host.path("host.sock"));
    command
}

fn once(host: &Host, args: &[&str]) -> Output {
    health(host, args).output().unwrap()
}

#[test]
fn health_is_told_by_the_exit_code() {
    let host = Host::new("", None);
    let out = once(&host, &[]);
    assert!(out.status.success());
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "healthy workers 1 programs 0 connections 0\n"
    );

    // A host that hangs does not answer in time.
    let pid = Pid::from_raw(host.child.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let out = once(&host, &["--within", "1"]);
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("not healthy: the host does not answer in time"), "{said}");
    assert!(out.stdout.is_empty());

    let socket = host.path("nobody.sock");
    let out = health(&host, &["--socket", socket.to_str().unwrap()]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no host answers"));
}

#[test]
fn who_watches_hears_of_each_change() {
    let host = Host::new("", None);
    let mut watching = health(&host, &["--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "healthy workers 1 programs 0 connections 0");
    drop(host);
    let line = next();
    assert!(line.starts_with("unhealthy "), "{line}");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
