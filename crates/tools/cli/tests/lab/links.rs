//! A small run over each kind of link.

use std::process::{Child, Command, Stdio};

use crate::preload;
use crate::world::{CLEARWAY, eventually, measured, measured_for, root, two_cores};

/// A server over the kernel's sockets that somebody else started; it is killed when this goes.
struct Other(Child, u16);

impl Other {
    fn new() -> Other {
        // Asked for and given back: nobody else gets it in between unless it is told to.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(CLEARWAY);
        command.args(["bench", "server", "--kernel", "-a", "127.0.0.1/8", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let other = Other(child, port);
        eventually("the other server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn pingpong_over_shared_memory_beside_the_kernel_the_raw_link_and_a_server_of_others() {
    if !root() || !two_cores() {
        return;
    }
    let other = Other::new();
    let words = format!(
        "--points 8 --systems clearway,kernel,floor,other --server other=127.0.0.1:{}",
        other.1
    );
    let left = measured("pingpong", &words);
    left.has(&["clearway", "kernel", "floor", "other"], "requests_per_second");
    let cell = |system: &str, metric: &str| {
        let cells = left.report["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell["system"] == system && cell["metric"] == metric).cloned()
    };
    // Who tells what a request cost it has it in the table; the reference is the kernel, and the
    // raw link is the floor.
    for system in ["clearway", "kernel"] {
        let cost = cell(system, "server_cycles").unwrap_or_else(|| panic!("{}", left.table));
        assert!(cost["median"].as_f64().unwrap() > 0.0);
    }
    assert!(cell("other", "server_cycles").is_none());
    assert_eq!(cell("kernel", "requests_per_second").unwrap()["ratio"], 1.0);
    assert_eq!(cell("floor", "requests_per_second").unwrap()["of_floor"], 1.0);
    assert!(cell("clearway", "requests_per_second").unwrap()["ratio"].is_f64());
    assert!(left.report["programs"]["clearway"][0].as_str().unwrap().contains("net_memif0"));
}

#[test]
fn http_over_a_tap_device() {
    if root() && two_cores() {
        let left = measured(
            "http",
            "--points 4 --systems clearway-tap,kernel-http --reference kernel-http",
        );
        left.has(&["clearway-tap", "kernel-http"], "requests_per_second");
    }
}

#[test]
fn frames_over_vhost_user_beside_testpmd() {
    if two_cores() {
        let left = measured("vhost", "--systems clearway,testpmd");
        left.has(&["clearway", "testpmd"], "rx_mpps");
        assert!(left.report["versions"]["DPDK"].is_string(), "{}", left.report["versions"]);
    }
}

#[test]
fn iperf3_over_loopback_and_over_ethernet() {
    if !root() || !two_cores() {
        return;
    }
    preload::build();
    measured("iperf3-loopback", "--systems clearway-spread,kernel")
        .has(&["clearway-spread", "kernel"], "gbit_per_second");
    let left = measured("iperf3-ethernet", "--points to-server");
    left.has(&["clearway", "kernel"], "gbit_per_second");
}

#[test]
fn many_connections_have_bytes() {
    if root() && two_cores() {
        let left = measured("connections", "--systems clearway --rounds 1");
        // Nobody else is there to be compared with.
        assert_eq!(left.report["reference"], "clearway");
        let cells = left.report["cells"].as_array().unwrap();
        let bytes = cells
            .iter()
            .find(|cell| cell["metric"] == "bytes_per_connection" && cell["point"] == "1k");
        let bytes = bytes.unwrap_or_else(|| panic!("{}", left.table))["median"].as_f64().unwrap();
        // Buffers that the other point had not touched yet count here; it is no more than that.
        assert!(bytes < 100_000.0, "{bytes}");
    }
}

#[test]
fn unmodified_servers_over_ethernet_and_over_loopback() {
    if !root() || !two_cores() {
        return;
    }
    preload::build();
    let ethernet = measured("programs", "--points nginx-64-close --systems clearway,kernel,floor");
    for metric in ["requests_per_second", "server_core_busy", "client_core_busy"] {
        ethernet.has(&["clearway", "kernel", "floor"], metric);
    }
    let asyncio = measured("programs", "--points asyncio-64 --systems clearway-shared,kernel");
    asyncio.has(&["clearway-shared", "kernel"], "requests_per_second");
    // A program that is not there is said by name, with its package; one that is, measured.
    let is_there = std::process::Command::new("haproxy").arg("-v").output().is_ok();
    if is_there {
        let haproxy = measured("programs", "--points haproxy-64 --systems clearway,kernel");
        haproxy.has(&["clearway", "kernel"], "requests_per_second");
    } else {
        let both = "--points haproxy-64,nginx-64-1 --systems clearway,kernel";
        let haproxy = measured("programs", both);
        haproxy.has(&["clearway", "kernel"], "requests_per_second");
        let said = "haproxy is not installed: apt-get install haproxy";
        assert!(haproxy.table.contains(said), "{}", haproxy.table);
    }
    // What a host has to do at the least: a loop that wakes another thread for each request.
    let hop = measured("programs", "--points nginx-64-1 --systems kernel,floor,hop,hop-shared");
    hop.has(&["kernel", "floor", "hop", "hop-shared"], "requests_per_second");
    // Answers of many segments, from a loop that goes by the client's window.
    let long = measured("programs", "--points nginx-100k --systems kernel,floor,floor-client");
    long.has(&["kernel", "floor", "floor-client"], "requests_per_second");
    let left = measured("programs-loopback", "--points redis-get --systems clearway-shared,kernel");
    left.has(&["clearway-shared", "kernel"], "requests_per_second");
    // The programs themselves: the host, a server and a client of it.
    let programs = left.report["programs"]["clearway-shared"].as_array().unwrap();
    assert!(
        programs.iter().any(|program| program.as_str().unwrap().contains(" run --ns client ")),
        "{programs:?}"
    );
}

#[cfg(feature = "dpdk")]
#[test]
fn servers_over_memif_are_asked_by_our_own_client() {
    if !root() || !two_cores() {
        return;
    }
    preload::build();
    for point in ["redis-get", "redis-get-p16", "nginx-64-close"] {
        let left = measured("programs-memif", &format!("--points {point}"));
        left.has(&["clearway-shared", "kernel"], "requests_per_second");
        left.has(&["clearway-shared", "kernel"], "p99_us");
    }
    let left = measured("programs-memif", "--points nginx-64-1,pgbench");
    left.has(&["clearway-shared", "kernel"], "requests_per_second");
    let said = "does not speak the language of PostgreSQL";
    assert!(left.table.contains(said), "{}", left.table);
}

/// Whether a program can be run by its name.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Builds the library with the stack, by itself, for together with the command it would have DPDK.
fn build_inside() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "clearway-preload", "-p", "clearway-inproc"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
    assert!(is_built || cargo.status().unwrap().success(), "building the libraries failed");
}

#[test]
fn memcached_over_a_host_inside_and_over_the_kernel() {
    if !root() || !two_cores() {
        return;
    }
    preload::build();
    build_inside();
    let systems = ["clearway", "clearway-shared", "clearway-inproc", "kernel"];
    if !is_there("memcached") || !is_there("memcaslap") {
        let left = measured("programs", "--points memcached,nginx-64-1 --systems kernel");
        let package = if is_there("memcached") {
            "memcaslap is not installed: apt-get install libmemcached-tools"
        } else {
            "memcached is not installed: apt-get install memcached"
        };
        assert!(left.table.contains(package), "{}", left.table);
        return;
    }
    let words = format!("--points memcached --systems {},floor", systems.join(","));
    let left = measured("programs", &words);
    left.has(&systems, "requests_per_second");
    left.has(&systems, "p99_us");
    assert!(left.table.contains("has one answer for all"), "{}", left.table);
    let left = measured("programs-loopback", "--points memcached --systems clearway,kernel");
    left.has(&["clearway", "kernel"], "requests_per_second");
}

#[test]
fn postgresql_over_a_host_and_over_the_kernel_and_why_not_inside() {
    if !root() || !two_cores() {
        return;
    }
    preload::build();
    build_inside();
    let mut releases = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let has_server = |release: std::fs::DirEntry| release.path().join("bin/postgres").is_file();
    if !releases.any(has_server) && !is_there("postgres") {
        let left = measured("programs", "--points pgbench,nginx-64-1 --systems kernel");
        let package = "postgres is not installed: apt-get install postgresql";
        assert!(left.table.contains(package), "{}", left.table);
        return;
    }
    // pgbench's time begins before its clients are connected, for each of which the server makes a
    // process: on cores that others keep busy, 16 of them took longer than a second.
    const SECONDS: u32 = 4;
    let systems = "--systems clearway,clearway-inproc,clearway-shared,kernel";
    for point in ["pgbench", "pgbench-close"] {
        let left = measured_for(SECONDS, "programs", &format!("--points {point} {systems}"));
        left.has(&["clearway", "clearway-shared", "kernel"], "requests_per_second");
        let said = "it serves each connection in a child of its own, and the stack stays with the";
        assert!(left.table.contains(said), "{}", left.table);
    }
    let words = "--points pgbench-close --systems clearway,kernel";
    let left = measured_for(SECONDS, "programs-loopback", words);
    left.has(&["clearway", "kernel"], "requests_per_second");
}
