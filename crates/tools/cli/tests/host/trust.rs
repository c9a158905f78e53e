//! Programs that mean harm.

use std::thread::sleep;
use std::time::Duration;

use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER};

/// Finds the memory that it shares with the host, and writes random bytes all over it, again and
/// again.
const SCRIBBLER: &str = "
import ctypes, os, re, socket, sys, time
for n in range(3):
    s = socket.create_server(('0.0.0.0', 7100 + n))
    c = [socket.create_connection(('172.16.1.1', 7100 + n)) for _ in range(4)]
    a = [s.accept()[0] for _ in range(4)]
    for x, y in zip(c, a):
        x.sendall(b'x' * 10000); y.sendall(b'y' * 10000)
    globals()[f'keep{n}'] = (s, c, a)
areas = []
for line in open('/proc/self/maps'):
    m = re.match(r'([0-9a-f]+)-([0-9a-f]+) (....) .*clearway', line)
    if m and m[3].startswith('rw-s'):
        areas.append((int(m[1], 16), int(m[2], 16)))
assert areas, 'no shared memory found'
print('scribbling over', len(areas), flush=True)
until = time.time() + float(sys.argv[1])
while time.time() < until:
    for begin, end in areas:
        for at in range(begin, end, 1 << 16):
            size = min(end - at, 1 << 16)
            ctypes.memmove(at, os.urandom(min(size, 4096)), min(size, 4096))
    print('.', end='', flush=True)
os._exit(0)
";

#[test]
fn a_scribbler_is_cut_off_and_nobody_else_notices() {
    let seconds: u32 = std::env::var("SCRIBBLE_SECONDS").map_or(3, |text| text.parse().unwrap());
    let host = Host::new();
    let mut server = host.iperf_server(&[]);
    let time = (seconds + 3).to_string();
    let mut client = host.spawn(IN_CLIENT, "iperf3", &["-c", SERVER, "-t", &time, "-J"]);
    let mut scribbler =
        host.spawn(IN_SERVER, "python3", &["-u", "-c", SCRIBBLER, &seconds.to_string()]);
    scribbler.await_text("scribbling");
    sleep(Duration::from_secs(seconds.into()));
    assert!(scribbler.ends(), "the scribbler hangs");
    let report: serde_json::Value = serde_json::from_str(&client.succeed()).unwrap();
    server.succeed();
    for interval in report["intervals"].as_array().unwrap() {
        assert!(
            interval["sum"]["bytes"].as_u64().unwrap() > 0,
            "the other transfer stood still: {interval}"
        );
    }
    host.iperf(&["-n", "10M"]);
    drop(scribbler);
    host.await_empty();
    host.stop();
}

/// Tries to reach a server of another namespace by its own addresses and by the descriptors that it
/// can guess.
const NEIGHBOUR: &str = "
import os, socket
from socket import AF_INET, SOCK_STREAM
s = socket.socket(AF_INET, SOCK_STREAM)
try:
    s.bind(('172.16.1.1', 9000))
    print('bound to an address of another namespace')
except OSError as e:
    print('bind:', e.strerror)
mine = [l for l in open('/proc/self/maps') if 'clearway' in l]
print('done', len(mine))
";

#[test]
fn an_application_has_its_own_namespace_only() {
    let host = Host::new();
    let out = host.run(IN_CLIENT, "python3", &["-c", NEIGHBOUR]);
    assert!(out.contains("bind: Cannot assign requested address"), "{out}");
    host.stop();
}
