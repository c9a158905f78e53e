//! Programs whose system calls are trapped (`clearway run --trap`): busybox, which is statically
//! linked, Go's with and without C, and Rust's with musl, all of it in them or loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::executable::executable;
use crate::netns::or_skip;
use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER, eventually};

const BUSYBOX: &str = "/bin/busybox";

/// The source of a server and a client of `net/http`.
const HTTP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/http.go");

/// The source of a server and a client in Rust.
const EXCHANGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/exchange.rs");

/// The target of Rust whose programs have all of musl in them.
const MUSL: &str = "x86_64-unknown-linux-musl";

fn has_busybox() -> bool {
    or_skip(Path::new(BUSYBOX).exists(), "busybox-static is not here. Install it (make test does).")
}

/// The program in Go, built: with its loader and the C library, which it asks for names, or without
/// them. None: Go is not here.
fn built(host: &Host, has_c: bool) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/local/go/bin", "/usr/lib/go/bin"]);
    let go = places.map(|place| Path::new(place).join("go")).find(|go| go.exists());
    if !or_skip(go.is_some(), "Go is not here. Install golang-go (make test does).") {
        return None;
    }
    let program = host.folder.join(format!("http-{has_c}"));
    let output = Command::new(go?)
        .args(["build", "-o", program.to_str()?, HTTP])
        .env("CGO_ENABLED", if has_c { "1" } else { "0" })
        .current_dir(&*host.folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program.to_str()?.to_owned())
}

/// Where the compiler has Rust's library for musl.
fn musl_folder() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--target", MUSL, "--print", "target-libdir"]).output();
    let folder = String::from_utf8_lossy(&asked.ok()?.stdout).trim().to_owned();
    Some(folder).filter(|folder| !folder.is_empty()).map(PathBuf::from).filter(|path| path.exists())
}

fn has_musl() -> bool {
    or_skip(musl_folder().is_some(), &format!("Say `rustup target add {MUSL}` (make test does)."))
}

/// How musl comes into a program in Rust.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Musl {
    /// All of it is in a program that can be mapped anywhere.
    Anywhere,
    /// It is in a program with addresses of its own.
    Fixed,
    /// Its loader brings it.
    Loaded,
}

/// The program in Rust, built for musl.
fn built_for_musl(host: &Host, musl: Musl) -> String {
    let program = host.folder.join(format!("exchange-{musl:?}"));
    // Debian has what unwinds stacks for glibc only, Rust brings one for musl.
    let unwinder = host.folder.join("unwinder");
    fs::create_dir_all(&unwinder).unwrap();
    let brought = musl_folder().unwrap().join("self-contained/libunwind.a");
    fs::write(unwinder.join("libgcc_s.so"), format!("INPUT({})\n", brought.display())).unwrap();
    let unwinder = format!("-L{}", unwinder.display());
    let options: &[&str] = match musl {
        Musl::Anywhere => &["-Crelocation-model=pic"],
        Musl::Fixed => &["-Crelocation-model=static"],
        Musl::Loaded => &["-Ctarget-feature=-crt-static", "-Clinker=musl-gcc", &unwinder],
    };
    let output = Command::new("rustc")
        .args(["--edition", "2024", "--target", MUSL, "-O"])
        .args(options)
        .args(["-o", program.to_str().unwrap(), EXCHANGE])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.to_str().unwrap().to_owned()
}

fn trapped(host: &Host, program: &str, args: &[&str]) -> String {
    host.spawn_with(&["--trap", "--required"], IN_CLIENT, program, args).succeed()
}

#[test]
fn statically_linked_programs_serve_and_fetch_over_clearway() {
    if !has_busybox() {
        return;
    }
    let host = Host::new();
    let bytes: Vec<u8> = (0..400_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(host.folder.join("page"), &bytes).unwrap();
    let folder = host.folder.to_str().unwrap();
    let at = format!("{SERVER}:8080");
    let serve = ["httpd", "-f", "-p", &at, "-h", folder];
    let mut server = host.spawn_with(&["--trap", "--required"], IN_SERVER, BUSYBOX, &serve);
    eventually("the server listens", || host.ctl("show session verbose").contains(":8080"));
    let url = format!("http://{at}/page");
    let got = host.folder.join("got");
    for _ in 0..3 {
        trapped(&host, BUSYBOX, &["wget", "-q", "-O", got.to_str().unwrap(), &url]);
        assert!(fs::read(&got).unwrap() == bytes, "other bytes");
    }
    // A program that has the library talks to one whose calls are trapped.
    let with_library = host.run(IN_CLIENT, "curl", &["-s", "-o", got.to_str().unwrap(), &url]);
    assert!(with_library.is_empty() && fs::read(&got).unwrap() == bytes, "{with_library}");
    // As `kill -9` does.
    server.kill();
    host.await_empty();
    host.stop();
}

/// Scripts and programs that have the library in them: what they execute is trapped where it has to
/// be.
/// A program that has the C library open its sockets, and waits for them itself, as `rustix` does.
const WAITS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
static long call(long number, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return number;
}
int main(int count, char **words)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof(name);
    if (count < 2 || inet_pton(AF_INET, words[1], &name.sin_addr) != 1)
        return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&name, len) || getsockname(listener, (void *)&name, &len) || listen(listener, 1))
        return 3;
    if (connect(client, (void *)&name, len) || write(client, "x", 1) != 1)
        return 4;
    int set = call(SYS_epoll_create1, 0, 0, 0, 0), accepted = accept(listener, NULL, NULL);
    struct epoll_event event = {EPOLLIN, {.u32 = 7}}, found = {0};
    call(SYS_epoll_ctl, set, EPOLL_CTL_ADD, accepted, (long)&event);
    long ready = call(SYS_epoll_wait, set, (long)&found, 1, 300);
    printf("%ld ready, %x of %u\n", ready, found.events, found.data.u32);
    return 0;
}
"#;

#[test]
fn programs_that_wait_by_themselves_are_taken_over_or_told_of() {
    let host = Host::new();
    let source = host.folder.join("waits.c");
    fs::write(&source, WAITS).unwrap();
    let program = host.folder.join("waits").to_str().unwrap().to_owned();
    let made = Command::new("cc")
        .args(["-O2", "-D_GNU_SOURCE", "-o", &program, source.to_str().unwrap()])
        .status();
    assert!(made.unwrap().success());
    let told = host.spawn_with(&["--trap", "--required"], IN_SERVER, &program, &[SERVER]).succeed();
    assert_eq!(told, "1 ready, 1 of 7\n");
    // It is started, and told of.
    let mut command = host.command_with(&["--required"], IN_SERVER, &program, &[SERVER]);
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("waits for its sockets by"), "{said}");
    assert!(said.contains("--trap takes them over"), "{said}");
}

#[test]
fn what_a_preloaded_program_executes_is_trapped_where_it_has_to_be() {
    if !has_busybox() {
        return;
    }
    let host = Host::new();
    fs::write(host.folder.join("page"), "a page\n").unwrap();
    let folder = host.folder.to_str().unwrap();
    let at = format!("{SERVER}:8080");
    let serve = ["-u", "-m", "http.server", "-d", folder, "-b", SERVER, "8080"];
    let mut server = host.spawn(IN_SERVER, "python3", &serve);
    server.await_text("Serving HTTP");
    let fetch = format!("{BUSYBOX} wget -q -O - http://{at}/page");
    let script = |name: &str, text: String| {
        let path = host.folder.join(name);
        executable(&path, text.as_bytes(), 0o755);
        path.to_str().unwrap().to_owned()
    };
    // The shell, `env` and Python execute it, each by another function; busybox is trapped itself.
    let python = format!("import subprocess as s; s.run('{fetch}'.split(), close_fds=False)");
    let by_busybox = script("busybox", format!("#!{BUSYBOX} sh\n{fetch}\n"));
    let programs = [
        script("shell", format!("#!/bin/sh\n{fetch}\n")),
        script("by-env", format!("#!/usr/bin/env -S busybox sh\n{fetch}\n")),
        by_busybox.clone(),
        // A script that is to be trapped, executed by one that is not.
        script("within", format!("#!/bin/sh\nPATH=/nowhere {by_busybox}\n")),
        script("python", format!("#!/usr/bin/python3\n{python}\n")),
        script("forks", format!("#!/usr/bin/python3\n{}\n", python.replace("False", "True"))),
        script("replaced", format!("#!/bin/bash\nexec {fetch}\n")),
    ];
    for program in programs {
        assert_eq!(trapped(&host, &program, &[]), "a page\n", "{program}");
    }
    server.kill();
    host.await_empty();
    host.stop();
}

#[test]
fn programs_that_a_trapped_program_executes_are_trapped_or_preloaded() {
    if !has_busybox() {
        return;
    }
    let host = Host::new();
    fs::write(host.folder.join("page"), "a page\n").unwrap();
    let folder = host.folder.to_str().unwrap();
    let at = format!("{SERVER}:8080");
    let serve = ["-u", "-m", "http.server", "-d", folder, "-b", SERVER, "8080"];
    let mut server = host.spawn(IN_SERVER, "python3", &serve);
    server.await_text("Serving HTTP");
    let script = format!(
        "{BUSYBOX} wget -q -O - http://{at}/page; curl -s http://{at}/page; \
         echo $({BUSYBOX} readlink /proc/self/exe) $(echo in a pipe | cat)"
    );
    let said = trapped(&host, BUSYBOX, &["sh", "-c", &script]);
    assert_eq!(said, "a page\na page\n/bin/busybox in a pipe\n");
    server.kill();
    host.await_empty();
    host.stop();
}

/// Where `clearway-trap` is not below the new root, a program is executed as the kernel does it.
#[test]
fn programs_below_another_root_are_executed_as_they_are() {
    if !has_busybox() {
        return;
    }
    let host = Host::new();
    let root = host.folder.join("root");
    fs::create_dir_all(&root).unwrap();
    fs::copy(BUSYBOX, root.join("busybox")).unwrap();
    let root = root.to_str().unwrap();
    // Who changes the root and executes is trapped.
    let said = trapped(&host, BUSYBOX, &["chroot", root, "/busybox", "echo", "below"]);
    assert_eq!(said, "below\n");
    // One that is preloaded executes it.
    let said = trapped(&host, "chroot", &[root, "/busybox", "echo", "below"]);
    assert_eq!(said, "below\n");
}

fn exchange_requests_in_go(has_c: bool) {
    let host = Host::new();
    let Some(program) = built(&host, has_c) else { return };
    let at = format!("{SERVER}:8080");
    let options = ["--trap", "--required"];
    let mut server = host.spawn_with(&options, IN_SERVER, &program, &["serve", &at]);
    server.await_text("serving");
    let said = trapped(&host, &program, &["get", &at, "10000", "64"]);
    assert!(said.contains("10000 requests, 0 of them wrong"), "{said}");
    let url = format!("http://{at}/?n=64");
    let by_curl = host.run(IN_CLIENT, "curl", &["-s", "--max-time", "60", &url]);
    assert_eq!(by_curl, "0123456789abcdef".repeat(4));
    server.kill();
    host.await_empty();
    host.stop();
}

#[test]
fn a_server_and_a_client_in_go_exchange_ten_thousand_requests_while_memory_is_collected() {
    exchange_requests_in_go(false);
}

/// As Debian's programs in Go are: the loader brings the C library, which makes their threads.
#[test]
fn a_server_and_a_client_in_go_with_c_exchange_ten_thousand_requests() {
    exchange_requests_in_go(true);
}

/// Each connection has a thread at the server that ends without its stack.
#[test]
fn a_server_and_a_client_in_rust_with_musl_exchange_bytes() {
    if !has_musl() {
        return;
    }
    let host = Host::new();
    exchange_with_musl(&host, Musl::Anywhere, Musl::Fixed);
    host.stop();
}

#[test]
fn a_server_and_a_client_in_rust_whose_loader_is_musls_exchange_bytes() {
    let has_compiler = Command::new("musl-gcc").arg("--version").output().is_ok();
    if !has_musl() || !or_skip(has_compiler, "Install musl-tools (make test does).") {
        return;
    }
    let host = Host::new();
    exchange_with_musl(&host, Musl::Loaded, Musl::Loaded);
    host.stop();
}

fn exchange_with_musl(host: &Host, server: Musl, client: Musl) {
    let [server, client] = [server, client].map(|musl| built_for_musl(host, musl));
    let at = format!("{SERVER}:8080");
    let options = ["--trap", "--required"];
    let mut server = host.spawn_with(&options, IN_SERVER, &server, &["serve", &at]);
    server.await_text("serving");
    for _ in 0..2 {
        let said = trapped(host, &client, &["get", &at, "8", "25"]);
        let expected = "200 connections, 0 exchanges wrong\na datagram\nno datagram: true\n\
            refused: true\n";
        assert_eq!(said, expected);
    }
    server.kill();
    host.await_empty();
}

#[test]
fn what_cannot_be_trapped_is_not_started_and_what_need_not_be_runs_as_ever() {
    if !has_busybox() {
        return;
    }
    let host = Host::new();
    let write = |name: &str, bytes: &[u8], mode: u32| -> PathBuf {
        let path = host.folder.join(name);
        executable(&path, bytes, mode);
        path
    };
    let run = |program: &Path, args: &[&str]| {
        let program = program.to_str().unwrap();
        let output = host.command_with(&["--trap"], IN_CLIENT, program, args).output().unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.success())
    };
    let mut foreign = fs::read("/bin/true").unwrap();
    foreign[18] = 183;
    let (said, ran) = run(&write("foreign", &foreign, 0o755), &[]);
    assert!(!ran && said.contains("--trap takes over"), "{said}");
    let (said, ran) = run(Path::new("/bin/true"), &[]);
    assert!(ran && said.is_empty(), "{said}");
    let (said, ran) = run(Path::new(BUSYBOX), &["true"]);
    assert!(ran && said.is_empty(), "{said}");
    host.await_empty();
    host.stop();
}
