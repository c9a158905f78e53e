//! Servers that go on when their host is killed and another takes its place.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::netns::{or_skip, root};
use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER, TIME_LIMIT, eventually};

/// Far more than a server has to say of a host that went, and far less than what a loop writes in
/// the second that the test waits.
const MOST_LOG: u64 = 64 * 1024;

/// By its path: one that takes over is executed by what the first one was called.
const NGINX: &str = "/usr/sbin/nginx";

/// nginx as it is usually run: the main process is root's, the workers are another user's and may
/// not use the host's socket.
fn nginx(host: &Host, workers: u32) -> Nginx {
    let conf = configure(host, workers);
    // In the background, as it is usually run; only so does it let another nginx take over.
    host.run(IN_SERVER, NGINX, &["-c", &conf]);
    Nginx { folder: host.folder.clone() }
}

fn configure(host: &Host, workers: u32) -> String {
    let folder = host.folder.display();
    let conf = host.folder.join("nginx.conf");
    let text = format!(
        "worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
user www-data;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path \
    {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen {SERVER}:8080; location / {{ return 200 'served by nginx'; }} }}
}}
"
    );
    fs::write(&conf, text).unwrap();
    conf.to_str().unwrap().to_owned()
}

fn is_served(host: &Host) -> bool {
    let url = format!("http://{SERVER}:8080/");
    let output =
        host.command(IN_CLIENT, "curl", &["-s", "--max-time", "5", &url]).output().unwrap();
    String::from_utf8_lossy(&output.stdout) == "served by nginx"
}

fn error_log(host: &Host) -> u64 {
    fs::metadata(host.folder.join("error.log")).map_or(0, |is| is.len())
}

fn can_run_nginx() -> bool {
    let there = std::process::Command::new(NGINX).arg("-v").output().is_ok();
    root() && or_skip(there, "nginx is not here. Install it (make test does).")
}

#[test]
fn workers_of_another_user_serve_and_are_found_again_after_a_restart_of_the_host() {
    if !can_run_nginx() {
        return;
    }
    let mut host = Host::new();
    let nginx = nginx(&host, 2);
    eventually("nginx serves", || is_served(&host));
    for _ in 0..2 {
        host.kill();
        std::thread::sleep(Duration::from_secs(1));
        assert!(error_log(&host) < MOST_LOG, "{} bytes of log in a second", error_log(&host));
        host.start_again();
        eventually("nginx serves again", || is_served(&host));
    }
    // Workers that are begun anew have the listener from a process that did not notice anything.
    nginx.signal(Signal::SIGHUP);
    for _ in 0..10 {
        eventually("nginx serves after a reload", || is_served(&host));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(error_log(&host) < MOST_LOG);
    drop(nginx);
    host.await_empty();
    host.stop();
}

/// An nginx that is ended as one ends it, so that its workers end too, also when the test fails.
struct Nginx {
    folder: PathBuf,
}

impl Nginx {
    fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.folder.join("nginx.pid"))
            .ok()
            .and_then(|text| text.trim().parse().ok());
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
        let pid = self.folder.join("nginx.pid");
        let until = Instant::now() + TIME_LIMIT;
        while pid.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A datagram socket and a listener that is accepted from by a blocking call, each in a thread.
/// Its threads write each line in one call, so that none lies within another.
const ECHO: &str = "
import os, socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('172.16.1.1', 7))
s = socket.create_server(('172.16.1.1', 7))
def datagrams():
    while True:
        try:
            data, who = u.recvfrom(100)
            u.sendto(data, who)
        except OSError as error:
            os.write(1, b'datagrams: %d\\n' % error.errno)
threading.Thread(target=datagrams, daemon=True).start()
print('ready', flush=True)
while True:
    try:
        c, _ = s.accept()
        c.sendall(c.recv(100))
        c.close()
    except OSError as error:
        os.write(1, b'accept: %d\\n' % error.errno)
";

const ASK: &str = "
import socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(2)
u.sendto(b'datagram', ('172.16.1.1', 7))
assert u.recv(100) == b'datagram'
c = socket.create_connection(('172.16.1.1', 7), 2)
c.sendall(b'stream')
assert c.recv(100) == b'stream'
print('answered')
";

#[test]
fn a_new_nginx_takes_over_from_one_that_runs_and_gives_it_an_environment_of_its_own() {
    if !can_run_nginx() {
        return;
    }
    let host = Host::new();
    let nginx = nginx(&host, 1);
    eventually("nginx serves", || is_served(&host));
    let pid_of = |name: &str| fs::read_to_string(host.folder.join(name)).unwrap_or_default();
    let old = pid_of("nginx.pid");
    // The new one is executed with the variables that nginx knows, and finds the listener by its
    // descriptor.
    nginx.signal(Signal::SIGUSR2);
    eventually("the new one runs", || {
        pid_of("nginx.pid.oldbin") == old && !["", &old].contains(&&*pid_of("nginx.pid"))
    });
    kill(Pid::from_raw(old.trim().parse().unwrap()), Signal::SIGQUIT).unwrap();
    eventually("the old one has ended", || !host.folder.join("nginx.pid.oldbin").exists());
    for _ in 0..10 {
        eventually("the new one serves", || is_served(&host));
    }
    drop(nginx);
    host.await_empty();
    host.stop();
}

#[test]
fn a_listener_and_a_datagram_socket_that_threads_block_on_come_back() {
    let mut host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", ECHO]);
    server.await_text("ready");
    let answered = |host: &Host| {
        host.command(IN_CLIENT, "python3", &["-c", ASK])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    eventually("it answers", || answered(&host));
    host.kill();
    std::thread::sleep(Duration::from_secs(1));
    // Each is told once: ECONNABORTED as for a connection that went before it was accepted,
    // ENETDOWN.
    server.await_text("accept: 103");
    server.await_text("datagrams: 100");
    assert_eq!(server.text().lines().count(), 3, "{}", server.text());
    host.start_again();
    eventually("it answers again", || answered(&host));
    drop(server);
    host.await_empty();
    host.stop();
}
