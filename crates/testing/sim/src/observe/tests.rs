use clearway_base::Instant;
use clearway_wire::{Addr, Endpoint, Flags, Segment, Seq, TcpOptions};

use super::{FlowName, Observer, Passing};
use crate::frame::{tcp_packet, tcp_view};

const A_ISS: u32 = u32::MAX - 3;
const B_ISS: u32 = 77;

struct Wire {
    observer: Observer,
    a: Endpoint,
    b: Endpoint,
}

impl Wire {
    /// A connection that is established; each side has offered a window of 1000.
    fn open() -> Wire {
        let (a, b) =
            (Endpoint::new(Addr::v4([10, 0, 0, 1]), 1), Endpoint::new(Addr::v4([10, 0, 0, 2]), 2));
        let mut wire = Wire { observer: Observer::default(), a, b };
        wire.observer.know(a.addr);
        wire.observer.know(b.addr);
        wire.pass(true, Flags::SYN, A_ISS, 0, 1000, b"");
        wire.pass(false, Flags::SYN | Flags::ACK, B_ISS, A_ISS.wrapping_add(1), 1000, b"");
        wire.pass(true, Flags::ACK, A_ISS.wrapping_add(1), B_ISS + 1, 1000, b"");
        wire
    }

    fn send(
        &mut self,
        from_a: bool,
        seg: Segment,
        payload: &[u8],
        arrives: bool,
    ) -> Result<(), String> {
        let (src, dst) = if from_a { (self.a, self.b) } else { (self.b, self.a) };
        let packet = tcp_packet(src, dst, &seg, payload);
        let view = tcp_view(&packet).unwrap();
        let verdict = self.observer.sent(0, &view, Passing::default());
        if arrives {
            self.observer.arrived(0, &view, Instant::ZERO);
        }
        verdict
    }

    fn pass(&mut self, from_a: bool, flags: Flags, seq: u32, ack: u32, wnd: u16, payload: &[u8]) {
        let seg = Segment { flags, seq: Seq(seq), ack: Seq(ack), wnd, ..Segment::default() };
        self.send(from_a, seg, payload, true).unwrap();
    }
}

fn data(seq: u32, wnd: u16) -> Segment {
    Segment {
        flags: Flags::ACK,
        seq: Seq(A_ISS.wrapping_add(seq)),
        ack: Seq(B_ISS + 1),
        wnd,
        ..Segment::default()
    }
}

fn ack(acked: u32, wnd: u16) -> Segment {
    Segment {
        flags: Flags::ACK,
        seq: Seq(B_ISS + 1),
        ack: Seq(A_ISS.wrapping_add(acked)),
        wnd,
        ..Segment::default()
    }
}

#[test]
fn an_honest_transfer_passes() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), b"hello", true).unwrap();
    wire.send(false, ack(6, 995), b"", true).unwrap();
    wire.send(true, data(6, 1000), b"world", false).unwrap();
    wire.send(true, data(6, 1000), b"world", true).unwrap();
    wire.send(false, ack(11, 990), b"", true).unwrap();
    let seen = wire.observer.seen(FlowName { domain: 0, src: wire.a, dst: wire.b }).unwrap();
    assert_eq!((seen.bytes, seen.again), (15, 5));
}

#[test]
fn acknowledging_what_did_not_arrive_is_seen() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), b"hello", false).unwrap();
    assert!(wire.send(false, ack(6, 1000), b"", true).unwrap_err().contains("acknowledged"));
}

#[test]
fn a_sack_block_beyond_what_arrived_is_seen() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), b"hello", false).unwrap();
    wire.send(true, data(6, 1000), b"world", true).unwrap();
    let sack = |left: u32, right: u32| {
        let mut opts = TcpOptions::NONE;
        opts.sack.push(Seq(A_ISS.wrapping_add(left)), Seq(A_ISS.wrapping_add(right)));
        Segment { opts, ..ack(1, 1000) }
    };
    wire.send(false, sack(6, 11), b"", true).unwrap();
    assert!(wire.send(false, sack(5, 11), b"", true).unwrap_err().contains("SACK"));
}

#[test]
fn a_window_that_shrinks_is_seen() {
    let mut wire = Wire::open();
    wire.send(false, ack(1, 1000), b"", true).unwrap();
    assert!(wire.send(false, ack(1, 999), b"", true).unwrap_err().contains("moved back"));
}

#[test]
fn data_beyond_the_window_is_seen_and_a_probe_is_allowed() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), &[0; 500], true).unwrap();
    wire.send(true, data(501, 1000), &[0; 500], true).unwrap();
    wire.send(true, data(1001, 1000), &[0; 1], true).unwrap();
    assert!(wire.send(true, data(1001, 1000), &[0; 2], true).unwrap_err().contains("window ends"));
}

#[test]
fn different_bytes_at_the_same_place_are_seen() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), b"hello", false).unwrap();
    wire.send(true, data(1, 1000), b"hel", false).unwrap();
    assert!(wire.send(true, data(3, 1000), b"lxo", true).unwrap_err().contains("not those"));
}

#[test]
fn data_behind_the_fin_is_seen() {
    let mut wire = Wire::open();
    let fin = Segment { flags: Flags::ACK | Flags::FIN, ..data(1, 1000) };
    wire.send(true, fin, b"bye", true).unwrap();
    wire.send(true, fin, b"bye", true).unwrap();
    assert!(wire.send(true, data(4, 1000), b"!", true).unwrap_err().contains("FIN"));
}

#[test]
fn a_new_incarnation_starts_afresh() {
    let mut wire = Wire::open();
    wire.send(true, data(1, 1000), b"hello", true).unwrap();
    wire.pass(true, Flags::SYN, A_ISS.wrapping_add(100_000), 0, 1000, b"");
    wire.pass(false, Flags::SYN | Flags::ACK, B_ISS + 9, A_ISS.wrapping_add(100_001), 10, b"");
    let seg =
        Segment { seq: Seq(A_ISS.wrapping_add(100_001)), ack: Seq(B_ISS + 10), ..data(0, 1000) };
    wire.send(true, seg, b"other", true).unwrap();
}

#[test]
fn what_a_time_wait_acknowledges_to_one_who_began_anew_is_of_the_connection_before() {
    let mut wire = Wire::open();
    let ours = Segment { seq: Seq(B_ISS + 1), ..ack(1, 1000) };
    wire.send(false, ours, &[0; 500], true).unwrap();
    let time_wait = |acked: u32| Segment { ack: Seq(B_ISS + acked), ..data(1, 1000) };
    wire.send(true, time_wait(501), b"", true).unwrap();
    // A copy of the SYN comes late, to one who has forgotten the connection: his new number lies
    // within the old ones.
    wire.pass(false, Flags::SYN | Flags::ACK, B_ISS + 9, A_ISS.wrapping_add(1), 1000, b"");
    wire.pass(false, Flags::ACK, B_ISS + 10, A_ISS.wrapping_add(1), 1000, b"");
    wire.send(true, time_wait(501), b"", true).unwrap();
    assert!(wire.send(true, time_wait(502), b"", true).unwrap_err().contains("acknowledged"));
}
