//! iperf3 in its many ways.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::world::{CLIENT_V6, Host, SERVER, SERVER_V6};

fn received(report: &Value) -> u64 {
    report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn tcp_in_all_directions_and_numbers() {
    let host = Host::new();
    for args in [
        &["-t", "1"][..],
        &["-t", "1", "-R"],
        &["-t", "1", "--bidir"],
        &["-t", "1", "-P", "8"],
        &["-t", "1", "-P", "8", "-R"],
        &["-n", "300M"],
        &["-t", "1", "-4"],
        &["-t", "1", "-6", "-c", SERVER_V6],
        &["-t", "1", "-6", "-R", "-c", SERVER_V6, "-B", CLIENT_V6],
        &["-t", "1", "-Z"],
        &["-t", "1", "-N", "-l", "100"],
        &["-t", "1", "-C", "reno", "-M", "1000"],
        &["-t", "1", "-w", "64K"],
    ] {
        let report = host.iperf(args);
        assert!(received(&report) > 100_000, "{args:?}: {report}");
        let retransmits = report["end"]["sum_sent"]["retransmits"].as_u64();
        // Nothing is lost; but a worker that did not run for as long as a retransmission timeout
        // sends again what lies in the loopback still.
        assert!(
            retransmits.is_some_and(|retransmits| retransmits < 100),
            "{args:?}: {retransmits:?} retransmits"
        );
    }
    host.await_empty();
    host.stop();
}

/// Segments of data in a capture of a port, and how many packets came so long after the one before
/// that an ACK was delayed, or a window waited for.
fn segments_and_waits(file: &Path) -> (usize, usize) {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(file).args(["-T", "fields", "-e", "frame.time_relative"]);
    let output = tshark.args(["-e", "tcp.len"]).output().expect("tshark is needed: make setup");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (mut segments, mut waits, mut last) = (0, 0, None);
    for line in text.lines() {
        let (at, len) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
        let at: f64 = at.parse().unwrap();
        segments += usize::from(!["", "0"].contains(&len));
        waits += usize::from(last.is_some_and(|last| at - last > 0.035));
        last = Some(at);
    }
    (segments, waits)
}

#[test]
fn small_buffers_wait_for_no_delayed_acks() {
    let host = Host::new();
    for window in ["8K", "16K", "32K", "64K", "128K", "256K"] {
        let file = host.folder.join(format!("{window}.pcapng"));
        host.ctl(&format!(
            "pcap trace tx max 100000 max-bytes-per-pkt 100 file {}",
            file.display()
        ));
        host.iperf(&["-n", "16M", "-w", window]);
        host.ctl("pcap trace off");
        let (segments, waits) = segments_and_waits(&file);
        // Before, one in three to nine. What the machine does meanwhile makes some of its own.
        assert!(segments > 100 && waits < segments / 20, "{window}: {waits} of {segments}");
    }
    host.stop();
}

#[test]
fn a_fixed_number_of_bytes_arrives_whole() {
    let host = Host::new();
    let size = if cfg!(debug_assertions) { "1G" } else { "10G" };
    let report = host.iperf(&["-n", size]);
    let sent = report["end"]["sum_sent"]["bytes"].as_u64().unwrap();
    // iperf3 ends its test by the control connection, so the server may stop reading a little
    // before the end.
    assert!(received(&report) + 64 * 1024 * 1024 >= sent, "{report}");
    host.stop();
}

#[test]
fn what_the_receiver_holds_loses_nothing_and_what_it_does_not_is_told_truly() {
    let host = Host::new();
    let mut lossless = Vec::new();
    for args in [
        &["-u", "-b", "1M"][..],
        &["-u", "-b", "100M"],
        &["-u", "-b", "1000M", "-l", "1400"],
        &["-u", "-b", "10000M", "-l", "65507"],
        &["-u", "-b", "40000M", "-l", "1400"],
        &["-u", "-b", "0", "-l", "64"],
        &["-u", "-b", "0", "-l", "1400"],
        &["-u", "-b", "0", "-l", "65507"],
        &["-u", "-b", "100M", "-R"],
        &["-u", "-b", "100M", "-6", "-c", SERVER_V6],
    ] {
        let mut all = vec!["-t", "1"];
        all.extend(args);
        let report = host.iperf(&all);
        let sum = &report["end"]["sum"];
        let (packets, lost) =
            (sum["packets"].as_u64().unwrap(), sum["lost_packets"].as_u64().unwrap());
        assert!(packets > 0 && lost <= packets, "{args:?}: {sum}");
        if lost == 0 {
            lossless.push(args.join(" "));
        }
    }
    // What this asks for is little, whatever else the machine does.
    assert!(lossless.iter().any(|args| args == "-u -b 1M"), "lossless were only {lossless:?}");
    host.await_empty();
    host.stop();
}

/// What one direction of a connection has sent so far.
#[derive(Default)]
struct Sent {
    /// Behind its data.
    high: u64,
    syn: bool,
    fin: bool,
}

/// Segments that the packets in `file` repeat, as tshark reads them: of data, and SYN and FIN that
/// come without any. An answer to a SYN is a listener's, and not counted as a segment sent again.
fn repeated_segments(file: &Path, mss: u64) -> u64 {
    let mut tshark = Command::new("tshark");
    let filter = "tcp.len > 0 or tcp.flags.fin == 1 or (tcp.flags.syn == 1 and tcp.flags.ack == 0)";
    tshark.args(["-n", "-r"]).arg(file).args(["-Y", filter, "-T", "fields"]);
    for field in ["tcp.stream", "ip.src", "tcp.seq", "tcp.len", "tcp.flags.syn", "tcp.flags.fin"] {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark is needed: make setup");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut directions: HashMap<(&str, &str), Sent> = HashMap::new();
    let mut repeated = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [stream, from, seq, len, syn, fin] = fields[..] else { panic!("{line}") };
        let (seq, len): (u64, u64) = (seq.parse().unwrap(), len.parse().unwrap());
        let is_set = |flag: &str| ["1", "True"].contains(&flag);
        let sent = directions.entry((stream, from)).or_default();
        if len > 0 {
            repeated += (seq + len).min(sent.high).saturating_sub(seq).div_ceil(mss);
            sent.high = sent.high.max(seq + len);
        } else {
            repeated += u64::from(is_set(syn) && sent.syn || is_set(fin) && sent.fin);
        }
        sent.syn |= is_set(syn);
        sent.fin |= is_set(fin);
    }
    repeated
}

#[test]
fn retr_is_what_a_capture_shows() {
    let host = Host::with(
        &["--fault", "loss=0.5%"],
        &["set interface mtu 1500 loop0", "set interface mtu 1500 loop1"],
    );
    let file = host.folder.join("sent.pcapng");
    // What the interface sends, before the link loses any of it.
    host.ctl(&format!("pcap trace tx max 1000000 max-bytes-per-pkt 128 file {}", file.display()));
    let report = host.iperf(&["-n", "50M"]);
    let retr = report["end"]["sum_sent"]["retransmits"].as_u64().unwrap();
    assert!(report["start"]["connected"][0]["remote_host"] == SERVER);
    host.await_empty();
    host.ctl("pcap trace off");
    let counted = host.json("show tcp")["tcp"]["retransmitted-segs"].as_u64().unwrap();
    assert_eq!(repeated_segments(&file, 1_448), counted, "iperf3 says {retr}");
    // iperf3 asks once more just before its end; what is repeated after that is not in its figure.
    assert!(
        retr > 20 && retr <= counted && counted - retr <= 20,
        "iperf3 says {retr}, the stack {counted}"
    );
    host.stop();
}
