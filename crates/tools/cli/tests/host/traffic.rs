//! What programs sent and got, by their namespace, and what stages of a turn their host spent its
//! cycles at, as Prometheus hears of it.

use crate::world::{Host, IN_CLIENT, IN_SERVER, eventually};

/// Echoes what comes over connections and as datagrams.
const SERVER: &str = "
import socket, threading
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('172.16.1.1', 9153))
listener = socket.create_server(('172.16.1.1', 9180))
print('listens', flush=True)
def echo_datagrams():
    while True:
        data, peer = datagrams.recvfrom(2000)
        datagrams.sendto(data, peer)
threading.Thread(target=echo_datagrams, daemon=True).start()
while True:
    conn, _ = listener.accept()
    while data := conn.recv(65536):
        conn.sendall(data)
    conn.close()
";

/// 1,000 bytes over each of two connections, of which one ends, and 100 in a datagram.
const CLIENT: &str = "
import socket, threading
def ask(s, data):
    s.sendall(data)
    left = len(data)
    while left:
        left -= len(s.recv(left))
ended = socket.create_connection(('172.16.1.1', 9180))
ask(ended, b'x' * 1000)
ended.close()
stays = socket.create_connection(('172.16.1.1', 9180))
ask(stays, b'x' * 1000)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(('172.16.1.1', 9153))
ask(datagrams, b'x' * 100)
print('done', flush=True)
threading.Event().wait()
";

fn value(text: &str, series: &str) -> u64 {
    let of = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
    text.lines().find_map(of).unwrap_or_else(|| panic!("no {series}: {text}"))
}

/// Bytes received and sent, and segments likewise, of the namespaces of client and server.
fn carried(host: &Host) -> [[u64; 4]; 2] {
    let text = host.ctl("show metrics");
    [IN_CLIENT, IN_SERVER].map(|namespace| {
        ["receive_bytes", "transmit_bytes", "receive_segments", "transmit_segments"].map(|what| {
            let id = namespace.id;
            value(&text, &format!("clearway_namespace_{what}_total{{namespace=\"{id}\"}}"))
        })
    })
}

#[test]
fn bytes_of_programs_are_told_by_namespace_of_sessions_that_ended_too() {
    let host = Host::new();
    let mut server = host.spawn(IN_SERVER, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let mut client = host.spawn(IN_CLIENT, "python3", &["-c", CLIENT]);
    client.await_text("done");
    eventually("both have sent and got 2,100 bytes", || {
        carried(&host).map(|[got, sent, ..]| (got, sent)) == [(2_100, 2_100); 2]
    });
    let [asked, served] = carried(&host);
    assert!(asked[2] >= 4 && asked[3] >= 4, "segments of two connections: {asked:?}");
    assert!(served[2] >= 4 && served[3] >= 4, "segments of two connections: {served:?}");
    // Who is asked again, and whose sessions end, says no byte twice.
    client.kill();
    server.kill();
    host.await_empty();
    assert_eq!(carried(&host).map(|[got, sent, ..]| (got, sent)), [(2_100, 2_100); 2]);
    host.stop();
}

#[test]
fn cycles_by_stage_grow_while_somebody_scrapes_a_host_under_load() {
    let host = Host::new();
    let mut server = host.spawn(IN_SERVER, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let busy = CLIENT.replace(
        "print('done'",
        "print('done', flush=True)\nwhile True: ask(stays, b'x' * 1000)\nprint('never'",
    );
    let mut client = host.spawn(IN_CLIENT, "python3", &["-c", &busy]);
    client.await_text("done");
    eventually("each stage has cycles", || {
        let text = host.ctl("show metrics");
        ["driver_receive", "stack_in", "timers", "application", "stack_out", "driver_send"]
            .iter()
            .all(|stage| {
                let labels = format!("{{worker=\"0\",stage=\"{stage}\"}}");
                value(&text, &format!("clearway_worker_stage_cycles_total{labels}")) > 0
            })
    });
    client.kill();
    server.kill();
    host.stop();
}
