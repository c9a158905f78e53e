//! C programs against the library: the examples, built as strictly as can be and run under
//! valgrind.

#[path = "../../clearway/tests/stuck/peers.rs"]
mod peers;
mod world;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use world::{Tap, build, build_shared, build_with, have, shared_library, valgrind};

/// A bound against hanging.
const TIME_LIMIT: Duration = Duration::from_secs(30);

#[test]
fn two_stacks_coupled_in_memory_bring_every_byte_both_ways_over_a_bad_wire() {
    let pair = build("pair.c");
    let said = valgrind(&pair, &[]);
    assert!(said.contains("side 0: sent 1048576 received 1048576"), "{said}");
    assert!(said.contains("side 1: sent 1048576 received 1048576"), "{said}");
    assert!(said.contains("frames held at the end: 0"), "{said}");
}

#[test]
fn the_shared_library_does_the_same_and_exports_the_interface_and_nothing_else() {
    let pair = build_shared("pair.c");
    let output = Command::new(&*pair).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("frames held at the end: 0"), "{said}");
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(shared_library()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let strange: Vec<_> = exported.iter().filter(|name| !name.starts_with("clw_")).collect();
    assert!(exported.len() > 60 && strange.is_empty(), "{strange:?}");
}

#[test]
fn the_header_is_good_for_c_plus_plus_too() {
    let mut compiler = Command::new("g++");
    compiler.args([
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-fsyntax-only",
        "-x",
        "c++",
    ]);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("clearway.h");
    let output =
        compiler.arg(header).output().expect("g++ cannot be started; `make setup` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_peer_of_the_kernel_talks_to_the_echo_server_over_a_tap_device() {
    if !have::root() {
        return;
    }
    let echo = build("echo.c");
    let tap = Tap::new();
    let server = tap.serve(&echo);
    for address in Tap::OURS {
        let address: IpAddr = address.parse().unwrap();
        tap.inside(|| {
            let mut stream =
                std::net::TcpStream::connect_timeout(&SocketAddr::new(address, 7), TIME_LIMIT)
                    .unwrap();
            stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
            let sent: Vec<u8> =
                (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let mut writer = stream.try_clone().unwrap();
            let bytes = sent.clone();
            let writing = std::thread::spawn(move || {
                writer.write_all(&bytes).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut came = Vec::new();
            stream.read_to_end(&mut came).unwrap();
            writing.join().unwrap();
            assert!(came == sent, "{address}: {} bytes came back of {}", came.len(), sent.len());

            let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            socket.send_to(b"a datagram", (address, 7)).unwrap();
            let mut buffer = [0; 64];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from.ip()), (&b"a datagram"[..], address));
        });
    }
    let said = server.stop();
    assert!(said.contains("echoed 400000 bytes and 2 datagrams"), "{said}");
}

#[test]
fn peers_that_read_nothing_take_nothing_from_others_of_a_c_program() {
    if !have::root() {
        return;
    }
    let echo = build("echo.c");
    let tap = Tap::new();
    let server = tap.serve(&echo);
    tap.inside(|| {
        let at = SocketAddr::new(Tap::OURS[0].parse().unwrap(), 7);
        let stuck = peers::stuck(at);
        peers::honest(at, 20);
        drop(stuck);
    });
    let said = server.stop();
    assert!(said.contains("echoed "), "{said}");
}

/// More than a send queue holds, so the server goes on when there is room again.
#[test]
fn the_server_of_bytes_answers_with_as_many_as_are_asked_for() {
    if !have::root() {
        return;
    }
    let bytes = build("bytes.c");
    let tap = Tap::new();
    let server = tap.serve(&bytes);
    for (head, expected) in [
        ("GET /random/9000000?seed=1 HTTP/1.1\r\n\r\n", Some(9_000_000)),
        ("GET /other HTTP/1.0\r\nHost: x\r\n\r\n", None),
    ] {
        tap.inside(|| {
            let at = SocketAddr::new(Tap::OURS[1].parse().unwrap(), 80);
            let mut stream = std::net::TcpStream::connect_timeout(&at, TIME_LIMIT).unwrap();
            stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            let (first, second) = head.as_bytes().split_at(7);
            stream.write_all(first).unwrap();
            stream.write_all(second).unwrap();
            let mut came = Vec::new();
            stream.read_to_end(&mut came).unwrap();
            let end = came.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let line = if expected.is_some() {
                "HTTP/1.0 200 OK\r\n"
            } else {
                "HTTP/1.0 404 Not Found\r\n"
            };
            assert!(came.starts_with(line.as_bytes()), "{}", String::from_utf8_lossy(&came[..end]));
            assert_eq!(came.len() - end - 4, expected.unwrap_or(0));
        });
    }
    server.stop();
}

/// OpenSSL over the easy layer, asked by curl, which uses OpenSSL as well, and by one that speaks no
/// TLS.
#[test]
fn curl_asks_a_c_program_over_tls() {
    if !have::root() {
        return;
    }
    let (key, certificate) = (world::Made::new("key"), world::Made::new("cert"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=cw"])
        .arg("-keyout")
        .arg(&*key)
        .arg("-out")
        .arg(&*certificate)
        .output()
        .expect("openssl cannot be started; `make setup` installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let program = build_with("tls.c", &["-lssl", "-lcrypto"]);
    let tap = Tap::new();
    let server = tap.serve_with(&program, &[&certificate, &key]);
    // OpenSSL has nothing to say to who begins with something else; that connection ends, and others
    // are served.
    tap.inside(|| {
        let at = SocketAddr::new(Tap::OURS[0].parse().unwrap(), 443);
        let mut plain = std::net::TcpStream::connect_timeout(&at, TIME_LIMIT).unwrap();
        plain.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(plain.read(&mut [0; 1]).unwrap(), 0);
    });
    for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
        let output = Command::new("ip")
            .args(["netns", "exec", tap.name(), "curl", "-k", "--silent", "--show-error"])
            .args(["--max-time", "60", "--noproxy", "*"])
            .args(version)
            .arg(format!("https://{}/", Tap::OURS[0]))
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{version:?}: {out}{err}");
        assert_eq!(out, "over TLS by OpenSSL in memory :)\n", "{version:?}");
    }
    let said = server.stop();
    assert!(said.contains("answered 2 requests"), "{said}");
}

#[test]
fn the_echo_server_says_what_is_wrong_with_a_port_and_with_an_address() {
    let echo = build("echo.c");
    for (args, sentence) in [
        (&["nothing:x", "10.0.0.2/24"][..], "nothing:x"),
        (&["loop", "10.0.0.2/33"][..], "an argument is none that is known"),
    ] {
        let output = Command::new(&*echo).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(sentence), "{args:?}: {said}");
    }
}
