use std::io::{self, Cursor, Write};

use clearway_base::Instant;
use clearway_pkt::{Buf, Burst, TxMeta};
use clearway_wire::Flags;
use proptest::prelude::*;

use super::*;
use crate::pair::{PairConfig, PairEnd, pair};
use crate::test_frames::tcp_frame;
use crate::{Dev, Facts, FramePool, Mac, PoolBudget, Receive, RxDrop};

fn pool() -> FramePool {
    FramePool::new(PoolBudget {
        small_count: 64,
        small_len: 2048,
        large_count: 4,
        large_len: 66_000,
    })
}

fn written(ethernet: bool, frames: &[(u64, &[u8])]) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    let interface = writer.interface(ethernet, "tap0").unwrap();
    for (unix_ns, frame) in frames {
        let packet = Packet::whole(interface, *unix_ns, Direction::Received, frame);
        writer.write(&Packet { comment: Some("why not"), ..packet }).unwrap();
    }
    let written = writer.written();
    let file = writer.into_inner();
    assert_eq!(written, file.len() as u64);
    file
}

fn read(file: &[u8]) -> io::Result<Vec<Record>> {
    let mut reader = PcapReader::new(file)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

/// An older pcap file of one frame, its numbers put by `put`.
fn pcap(magic: u32, put: fn(u32) -> [u8; 4], frame: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = [magic, 0x0002_0004, 0, 0, 65_535, 1, 7, 9, frame.len() as u32, frame.len() as u32];
    for word in words {
        file.extend_from_slice(&put(word));
    }
    file.extend_from_slice(frame);
    file
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        ethernet: bool, frames in prop::collection::vec((any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..100)), 0..5),
    ) {
        let refs: Vec<_> = frames.iter().map(|(ns, frame)| (*ns, &frame[..])).collect();
        let records = read(&written(ethernet, &refs)).unwrap();
        prop_assert_eq!(records.len(), frames.len());
        for (record, (unix_ns, frame)) in records.into_iter().zip(frames) {
            prop_assert_eq!(record, Record { unix_ns, ethernet, original_len: frame.len(), frame });
        }
    }

    #[test]
    fn no_damage_makes_reading_panic_or_allocate_without_bound(at in 0usize..400, byte: u8,
        len in 0usize..400) {
        for mut file in [written(true, &[(5, &[1; 60]), (6, &[2; 61])]),
            pcap(0xa1b2_c3d4, u32::to_be_bytes, &[3; 60])] {
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            file.truncate(len);
            if let Ok(records) = read(&file) {
                prop_assert!(records.iter().all(|record| record.frame.len() <= file.len()));
            }
        }
    }
}

#[test]
fn older_files_of_both_byte_orders_and_resolutions_are_read() {
    for (magic, unix_ns) in [(0xa1b2_c3d4, 7_000_009_000), (0xa1b2_3c4d, 7_000_000_009)] {
        for put in [u32::to_le_bytes, u32::to_be_bytes] {
            let records = read(&pcap(magic, put, b"frame")).unwrap();
            assert_eq!(
                records,
                [Record { unix_ns, ethernet: true, frame: b"frame".to_vec(), original_len: 5 }]
            );
        }
    }
}

#[test]
fn a_file_of_something_else_is_refused() {
    assert!(read(b"hello, world, this is text").is_err());
    assert!(read(b"").is_err());
    let mut wifi = pcap(0xa1b2_c3d4, u32::to_ne_bytes, b"frame");
    wifi[20] = 105;
    assert!(read(&wifi).unwrap_err().to_string().contains("neither Ethernet nor bare IP"));
}

fn send(dev: &mut impl Dev, frame: &[u8]) {
    dev.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(frame);
    dev.commit(frame.len(), TxMeta::default());
    dev.flush();
}

#[test]
fn a_capture_holds_both_directions_with_the_times_of_their_turns() {
    let (mut far, near) = pair(PairConfig::default(), &pool());
    let mut dev = Capture::new(near, Vec::new(), "pair0", 1_000_000_000_000).unwrap();
    dev.set_now(Instant::from_nanos(5));
    send(&mut far, b"towards the stack");
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(burst.take(0).unwrap().0.bytes(), b"towards the stack");
    dev.set_now(Instant::from_nanos(9));
    send(&mut dev, b"and from it");
    assert_eq!(dev.counters().tx_packets, 1);
    let (_, file) = dev.finish().unwrap();
    let records: Vec<_> =
        read(&file).unwrap().into_iter().map(|record| (record.unix_ns, record.frame)).collect();
    let expected =
        [(1_000_000_000_005, &b"towards the stack"[..]), (1_000_000_000_009, b"and from it")];
    assert_eq!(records, expected.map(|(unix_ns, frame)| (unix_ns, frame.to_vec())));
}

/// A disk that is full after some bytes.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_traffic() {
    let (mut far, near): (PairEnd, PairEnd) = pair(PairConfig::default(), &pool());
    let mut dev = Capture::new(near, FullDisk(400), "pair0", 0).unwrap();
    for _ in 0..20 {
        send(&mut dev, &[7; 60]);
    }
    assert_eq!(dev.error().unwrap().kind(), io::ErrorKind::StorageFull);
    let mut burst = Burst::new();
    far.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 20);
}

#[test]
fn a_file_is_played_back_and_then_there_is_silence() {
    let broadcast = [0xff; 60];
    let frame = tcp_frame(true, true, Flags::ACK, b"data");
    let file = written(true, &[(1, &broadcast), (2, &frame)]);
    let mut dev = Replay::new(
        PcapReader::new(Cursor::new(file)).unwrap(),
        "pcap:x",
        Some(Mac([2; 6])),
        pool(),
    );
    assert_eq!(dev.next_deadline(), Instant::ZERO);
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(
        (burst.take(0).unwrap().0.bytes(), burst.take(1).unwrap().0.bytes()),
        (&broadcast[..], &frame[..])
    );
    assert!(dev.is_finished());
    assert_eq!(dev.next_deadline(), Instant::NEVER);
    send(&mut dev, b"an answer");
    assert_eq!((dev.counters().rx_packets, dev.counters().tx_packets), (2, 1));
}

#[test]
fn damage_is_counted_and_ends_the_file() {
    let mut file = written(true, &[(1, &[1; 60]), (2, &[2; 60])]);
    file.truncate(file.len() - 10);
    let mut dev = Replay::new(
        PcapReader::new(Cursor::new(file)).unwrap(),
        "pcap:x",
        Some(Mac([2; 6])),
        pool(),
    );
    let mut burst = Burst::new();
    dev.rx(&mut burst).unwrap();
    assert_eq!(
        (burst.len(), dev.counters().rx_dropped(RxDrop::BadRecord), dev.is_finished()),
        (1, 1, true)
    );
}

#[test]
fn a_file_on_disk_tells_which_address_is_ours() {
    let path =
        std::env::temp_dir().join(format!("clearway-dev-replay-{}.pcapng", std::process::id()));
    let missing = Replay::open(&path, pool()).map(|_| ()).unwrap_err().to_string();
    assert!(missing.starts_with("pcap:") && missing.contains("cannot be opened"), "{missing}");
    let frame = tcp_frame(true, true, Flags::ACK, b"data");
    std::fs::write(&path, written(true, &[(1, &[0xff; 60]), (2, &frame)])).unwrap();
    let mac = Replay::open(&path, pool()).map(|dev| dev.mac());
    std::fs::write(&path, written(false, &[(2, &frame[14..])])).unwrap();
    let bare = Replay::open(&path, pool()).map(|dev| dev.mac());
    std::fs::write(&path, "text").unwrap();
    let text = Replay::open(&path, pool()).map(|_| ()).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(mac.unwrap(), Some(Mac([2, 0, 0, 0, 0, 2])));
    assert_eq!(bare.unwrap(), None);
    assert!(text.contains("Give it a pcap or pcapng file"), "{text}");
}

fn trace_frame(iface: u16, bytes: &[u8]) -> TraceFrame<'_> {
    TraceFrame {
        iface: clearway_pkt::Iface(iface),
        ethernet: iface != 2,
        unix_ns: 5,
        direction: Direction::Sent,
        bytes,
        original_len: bytes.len(),
        comment: None,
    }
}

#[test]
fn a_trace_holds_several_interfaces_and_the_reason_beside_a_frame() {
    let names =
        vec![(clearway_pkt::Iface(1), "tap1".into()), (clearway_pkt::Iface(2), "loop0".into())];
    let mut trace =
        Trace::new(Vec::new(), TraceSpec { snap_len: 8, ..TraceSpec::default() }, names).unwrap();
    assert_eq!(trace.record(&trace_frame(2, b"bare")), Traced::Written);
    let dropped = TraceFrame {
        original_len: 999,
        comment: Some("dropped: not-ours"),
        ..trace_frame(1, &[7; 60])
    };
    assert_eq!(trace.record(&dropped), Traced::Written);
    assert_eq!(trace.record(&trace_frame(2, b"more")), Traced::Written);
    let (packets, bytes) = trace.size();
    let file = trace.finish().unwrap();
    assert_eq!((packets, bytes), (3, file.len() as u64));
    let records: Vec<_> =
        read(&file).unwrap().into_iter().map(|r| (r.ethernet, r.frame, r.original_len)).collect();
    assert_eq!(
        records,
        [(false, b"bare".to_vec(), 4), (true, vec![7; 8], 999), (false, b"more".to_vec(), 4)]
    );
    let holds = |text: &[u8]| file.windows(text.len()).any(|window| window == text);
    assert!(holds(b"dropped: not-ours") && holds(b"tap1") && holds(b"loop0"));
}

#[test]
fn a_trace_takes_what_fits_until_it_has_enough() {
    let (tcp, udp) =
        (tcp_frame(true, true, Flags::ACK, b"x"), crate::test_frames::udp_frame(true, true, b"x"));
    let filter =
        crate::FrameFilter { proto: Some(clearway_wire::Proto::TCP), ..Default::default() };
    let spec = TraceSpec { filter, max_packets: 2, ..TraceSpec::default() };
    let mut trace = Trace::new(Vec::new(), spec, Vec::new()).unwrap();
    let mut record = |frame: &[u8]| trace.record(&trace_frame(1, frame));
    let results = [record(&tcp), record(&udp), record(&tcp), record(&tcp)];
    assert_eq!(results, [Traced::Written, Traced::Filtered, Traced::Written, Traced::Over]);
    let mut small =
        Trace::new(Vec::new(), TraceSpec { max_bytes: 300, ..TraceSpec::default() }, Vec::new())
            .unwrap();
    while small.record(&trace_frame(1, &[1; 60])) == Traced::Written {}
    assert!(small.is_over() && small.error().is_none() && small.size().1 < 600);
}

#[test]
fn a_full_disk_ends_a_trace() {
    let mut trace = Trace::new(FullDisk(300), TraceSpec::default(), Vec::new()).unwrap();
    while trace.record(&trace_frame(1, &[1; 60])) == Traced::Written {}
    assert_eq!(trace.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    assert!(trace.finish().is_err());
}
