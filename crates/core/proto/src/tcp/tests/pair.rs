//! Two stacks talk to each other.

use super::*;

#[test]
fn a_megabyte_arrives_as_it_was_sent() {
    let mut w = World::new(config(), Offloads::default(), ms(5));
    let (a, b) = w.connect(ConnOptions::default());
    let data = pattern(1 << 20);
    assert_eq!(w.transfer(0, a, b, &data, secs(60)), data);
    assert_eq!(w.ends[0].stack.counters().tcp.retransmitted_segs, 0);
    let back = pattern(100_000);
    assert_eq!(w.transfer(1, b, a, &back, secs(60)), back);
}

#[test]
fn large_pieces_are_handed_over_when_the_device_cuts_them() {
    let mut w = World::new(config(), cutting(), ms(1));
    let (a, b) = w.connect(ConnOptions::default());
    let data = pattern(2 << 20);
    let before = w.sent;
    assert_eq!(w.transfer(0, a, b, &data, secs(60)), data);
    assert!(w.sent - before < 1000, "{} packets", w.sent - before);
}

/// Every packet of a transfer with losses over a device that cuts, and how many were given to it in
/// pieces.
fn packets_of_a_transfer(gathers: bool) -> (Vec<Vec<u8>>, usize) {
    let mut w = World::new(config(), cutting(), ms(1));
    let (a, b) = w.connect(ConnOptions::default());
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    w.lose = std::boxed::Box::new(move |_, count, packet| {
        log.borrow_mut().push(packet.to_vec());
        count % 50 == 49
    });
    w.ends[0].sink.gathers = gathers;
    let data = pattern(2 << 20);
    assert!(w.transfer(0, a, b, &data, secs(60)) == data);
    (seen.take(), w.ends[0].sink.gathered)
}

#[test]
fn what_leaves_in_pieces_is_what_would_have_been_copied() {
    let (copied, none) = packets_of_a_transfer(false);
    let (gathered, some) = packets_of_a_transfer(true);
    assert!(copied == gathered, "{} and {} packets", copied.len(), gathered.len());
    assert_eq!(none, 0);
    assert!(some > 20, "{some} packets in pieces");
}

#[test]
fn a_response_carries_the_ack_of_its_request() {
    let mut w = World::new(config(), Offloads::default(), ms(1));
    let (a, b) = w.connect(ConnOptions { nodelay: true, ..ConnOptions::default() });
    let before = w.sent;
    for _ in 0..50 {
        w.ends[0].stack.send(a, &[1; 64]).unwrap();
        let end = w.now + ms(10);
        while w.ends[1].stack.unread(b) == 0 {
            assert!(w.step_without_emit(end));
        }
        w.ends[1].stack.consumed(b, 64);
        w.ends[1].stack.send(b, &[2; 64]).unwrap();
        while w.ends[0].stack.unread(a) == 0 {
            assert!(w.step_without_emit(end));
        }
        w.ends[0].stack.consumed(a, 64);
    }
    assert_eq!(w.sent - before, 100);
}

#[test]
fn both_close_and_nothing_is_left_but_time_wait() {
    let mut w = World::new(config(), Offloads::default(), ms(5));
    let (a, b) = w.connect(ConnOptions::default());
    w.ends[0].stack.send(a, b"bye").unwrap();
    w.ends[0].stack.close(a);
    w.run(ms(100));
    let mut got = Vec::new();
    drain(&mut w.ends[1].stack, b, &mut got);
    assert_eq!(got, b"bye");
    assert!(w.ends[1].stack.peer_closed(b));
    w.ends[1].stack.close(b);
    w.run(secs(1));
    for end in &w.ends {
        assert_eq!(end.stack.tcp.open.len(), 0);
    }
    assert_eq!(w.ends[0].stack.tcp.time_wait.len(), 1);
    w.run(secs(61));
    assert_eq!(w.ends[0].stack.tcp.flows.len(), 0);
    assert_eq!(w.ends[0].stack.next_deadline(), Instant::NEVER);
}

#[test]
fn every_third_packet_lost_and_all_arrives() {
    for sack in [true, false] {
        let mut c = config();
        c.tcp.sack = sack;
        let mut w = World::new(c, Offloads::default(), ms(5));
        let (a, b) = w.connect(ConnOptions::default());
        let mut rng = clearway_base::Rng::seed(1);
        w.lose = std::boxed::Box::new(move |_, _, _| rng.chance(200_000));
        let data = pattern(200_000);
        let got = w.transfer(0, a, b, &data, secs(3600));
        assert_eq!(got.len(), data.len());
        assert_eq!(got, data);
        w.lose = std::boxed::Box::new(|_, _, _| false);
        w.ends[0].stack.close(a);
        w.ends[1].stack.close(b);
        w.run(secs(600));
        for end in &w.ends {
            assert_eq!((end.stack.tcp.open.len(), end.stack.tcp.flows.len()), (0, 0));
            assert_eq!((end.stack.tcp.pools.reasm.len(), end.stack.tcp.pools.boards.len()), (0, 0));
        }
    }
}

impl World {
    /// As `step`, but the ends send only what they send before the next thing happens: the owner
    /// acts in between.
    fn step_without_emit(&mut self, until: Instant) -> bool {
        self.emit();
        let Some(&(arrival, ..)) = self.wire.front() else { return false };
        if arrival > until {
            return false;
        }
        self.now = arrival;
        for end in &mut self.ends {
            end.now = arrival;
            end.stack.expire(arrival);
        }
        while self.wire.front().is_some_and(|w| w.0 <= self.now) {
            if let Some((_, to, packet)) = self.wire.pop_front() {
                let meta = RxMeta { iface: Iface(0), ..RxMeta::default() };
                self.ends[to].ingest_all(&[(meta, packet)]);
            }
        }
        true
    }
}
