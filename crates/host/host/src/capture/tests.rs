use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use clearway_command::PortRange;
use clearway_dev::PcapReader;
use clearway_wire::Mac;

use super::*;

const LOOP: Iface = Iface(0);
const TAP: Iface = Iface(1);
const LINKS: [Link; 2] = [Link::Loopback, Link::Ethernet(Mac([2, 0, 0, 0, 0, 1]))];

/// A file that no other test has; gone with this.
struct TempFile(PathBuf);

impl TempFile {
    fn new() -> TempFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("cwcapture-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        TempFile(std::env::temp_dir().join(name))
    }

    /// What is in it.
    fn frames(&self) -> Vec<Vec<u8>> {
        let bytes = std::fs::read(&self.0).unwrap();
        let mut reader = PcapReader::new(bytes.as_slice()).unwrap();
        let mut frames = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            frames.push(record.frame);
        }
        frames
    }

    fn holds(&self, text: &str) -> bool {
        let bytes = std::fs::read(&self.0).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An IPv4 packet with UDP from 10.0.0.1:1000 to 10.0.0.2:`port`.
fn udp(port: u16) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 3, 232];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}

fn wanted(file: &TempFile, ways: &str) -> PcapTrace {
    let has = |way| ways.split(' ').any(|word| word == way);
    PcapTrace {
        rx: has("rx"),
        tx: has("tx"),
        drop: has("drop"),
        file: Some(file.0.clone()),
        ..PcapTrace::default()
    }
}

fn rx(watcher: &mut Watcher, iface: Iface, frame: &[u8]) -> Verdict {
    watcher.rx(Time::default(), iface, frame, &RxMeta::default())
}

fn tx(watcher: &mut Watcher, iface: Iface, frame: &[u8]) -> Verdict {
    watcher.tx(Time::default(), iface, frame, &TxMeta::default())
}

#[test]
fn nobody_looks_when_there_is_nothing_to_look_for() {
    let mut packets = Packets::default();
    assert!(packets.watcher(0, &LINKS).is_none());
    packets.add_rule(&Rule::any(Action::Deny), None, 2).unwrap();
    assert!(packets.watcher(1, &LINKS).is_some());
    packets.remove_rule(Some(0)).unwrap();
    assert!(packets.watcher(1, &LINKS).is_none());
}

#[test]
fn a_loopbacks_packet_is_written_once_and_every_way_that_was_asked_for() {
    let file = TempFile::new();
    let mut packets = Packets::default();
    packets.begin(&wanted(&file, "rx tx"), None, vec![(LOOP, "loop0".into())]).unwrap();
    let mut watcher = packets.watcher(0, &LINKS).unwrap();
    tx(&mut watcher, LOOP, &udp(1));
    rx(&mut watcher, LOOP, &udp(1));
    packets.end().unwrap();
    assert_eq!(file.frames(), [udp(1)]);
    assert!(file.holds("loop0"));

    packets.begin(&wanted(&file, "rx"), None, Vec::new()).unwrap();
    let mut watcher = packets.watcher(0, &LINKS).unwrap();
    tx(&mut watcher, LOOP, &udp(1));
    rx(&mut watcher, LOOP, &udp(2));
    packets.end().unwrap();
    assert_eq!(file.frames(), [udp(2)]);
}

#[test]
fn a_capture_ends_at_its_count_and_keeps_to_its_interface_and_filter() {
    let file = TempFile::new();
    let mut packets = Packets::default();
    let wanted = PcapTrace {
        interface: Some("loop0".into()),
        max: Some(2),
        ports: Some(PortRange { first: 80, last: 90 }),
        ..wanted(&file, "rx")
    };
    packets.begin(&wanted, Some(LOOP), Vec::new()).unwrap();
    let mut watcher = packets.watcher(0, &LINKS).unwrap();
    rx(&mut watcher, TAP, &udp(80));
    for port in [79, 80, 91, 90, 85] {
        rx(&mut watcher, LOOP, &udp(port));
    }
    assert!(packets.status().text.starts_with("Finished: rx into "));
    assert!(packets.watcher(0, &LINKS).is_none(), "nobody looks for more");
    assert_eq!(file.frames(), [udp(80), udp(90)]);
    packets
        .begin(&wanted, Some(LOOP), Vec::new())
        .expect("a finished capture may be followed by another");
}

#[test]
fn dropped_packets_carry_their_reason() {
    let file = TempFile::new();
    let mut packets = Packets::default();
    packets.begin(&wanted(&file, "drop"), None, Vec::new()).unwrap();
    packets
        .add_rule(&Rule { dst_ports: Some(22..=22), ..Rule::any(Action::Deny) }, None, 1)
        .unwrap();
    let mut watcher = packets.watcher(0, &LINKS).unwrap();
    assert!(watcher.wants_drops());
    assert_eq!(rx(&mut watcher, LOOP, &udp(22)), Verdict::Drop);
    assert_eq!(rx(&mut watcher, LOOP, &udp(23)), Verdict::Pass);
    watcher.dropped(Time::default(), LOOP, &udp(23), Reason::UdpPortClosed);
    packets.end().unwrap();
    assert_eq!(file.frames(), [udp(22), udp(23)]);
    assert!(file.holds("acl-denied: rule 0") && file.holds("udp-port-closed"));
}

#[test]
fn rules_count_over_all_workers_and_what_they_denied_is_not_forgotten_with_them() {
    let mut packets = Packets::default();
    packets.add_rule(&Rule { way: Some(Way::In), ..Rule::any(Action::Deny) }, None, 2).unwrap();
    for worker in 0..2 {
        let mut watcher = packets.watcher(worker, &LINKS).unwrap();
        assert_eq!(rx(&mut watcher, LOOP, &udp(1)), Verdict::Drop);
        assert_eq!(tx(&mut watcher, LOOP, &udp(1)), Verdict::Pass);
    }
    assert_eq!(
        (packets.rules()[0].packets, packets.rules()[0].bytes, packets.denied()),
        (2, 56, 2)
    );
    packets.clear_rules();
    assert_eq!((packets.rules()[0].packets, packets.denied()), (0, 2));
    packets.remove_rule(None).unwrap();
    assert_eq!(packets.denied(), 2);
    packets.clear_denied();
    assert_eq!(packets.denied(), 0);
}

/// The packet as an Ethernet interface has it.
fn framed(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[8, 0], packet].concat()
}

/// What was written of each interface, by its name in the file.
fn by_name(file: &TempFile, names: &[&str]) -> Vec<bool> {
    names.iter().map(|name| file.holds(name)).collect()
}

#[test]
fn rules_and_captures_keep_to_the_interface_they_name_when_its_number_is_anothers() {
    let file = TempFile::new();
    let mut packets = Packets::default();
    let wanted = PcapTrace { interface: Some("tap0".into()), ..wanted(&file, "rx") };
    let named = |name: &str| vec![(LOOP, "loop0".to_owned()), (TAP, name.to_owned())];
    packets.begin(&wanted, Some(TAP), named("tap0")).unwrap();
    let deny = Rule { iface: Some(TAP), dst_ports: Some(22..=22), ..Rule::any(Action::Deny) };
    packets.add_rule(&deny, Some("tap0".into()), 1).unwrap();
    let judged = |packets: &Packets| {
        let mut watcher = packets.watcher(0, &LINKS).unwrap();
        let mut tap = |port| rx(&mut watcher, TAP, &framed(&udp(port)));
        (tap(22), tap(23), rx(&mut watcher, LOOP, &udp(22)))
    };
    use Verdict::{Drop as Dropped, Pass};
    assert_eq!(judged(&packets), (Dropped, Pass, Pass));
    // tap0 goes, and tap1 gets its number: the rule is not about it, nor is the capture.
    packets.interfaces_changed(&named("tap0")[..1]);
    assert_eq!(packets.rules()[0].text(), "intfc tap0 (not there) dport 22");
    packets.interfaces_changed(&named("tap1"));
    assert_eq!(judged(&packets), (Pass, Pass, Pass));
    // Another number, the same name: it is what the rule says.
    packets.interfaces_changed(&[(LOOP, "tap0".to_owned())]);
    assert_eq!(judged(&packets), (Pass, Pass, Dropped));
    packets.end().unwrap();
    assert_eq!(file.frames(), [framed(&udp(23))]);
}

#[test]
fn a_number_that_was_anothers_begins_anew_in_the_file() {
    let file = TempFile::new();
    let mut packets = Packets::default();
    packets.begin(&wanted(&file, "rx"), None, vec![(TAP, "tap-first".into())]).unwrap();
    let mut watcher = packets.watcher(0, &LINKS).unwrap();
    rx(&mut watcher, TAP, &udp(1));
    packets.interfaces_changed(&[(TAP, "tap-second".into())]);
    assert_eq!(by_name(&file, &["tap-second"]), [false]);
    rx(&mut watcher, TAP, &udp(2));
    packets.end().unwrap();
    assert_eq!(by_name(&file, &["tap-first", "tap-second"]), [true, true]);
    assert_eq!(file.frames(), [udp(1), udp(2)]);
}
