use super::*;

#[test]
fn orders_are_read_as_they_are_written() {
    for order in [
        Order { direction: Direction::Up, amount: Amount::Bytes(1 << 40), seed: Some(7) },
        Order { direction: Direction::Down, amount: Amount::Millis(500), seed: None },
    ] {
        assert_eq!(format!("{order}\n").parse(), Ok(order));
    }
    for text in [
        "",
        "clearway-bulk/1",
        "clearway-bulk/2 up bytes=1 plain",
        "clearway-bulk/1 up bytes=x plain",
        "clearway-bulk/1 up bytes=1 seed=x",
    ] {
        assert_eq!(text.parse::<Order>(), Err(()), "{text}");
    }
}

/// Two ends of a stream in memory, each with a bounded queue.
#[derive(Default)]
struct End {
    arrived: Vec<u8>,
    sent: Vec<u8>,
    peer_closed: bool,
    shut: bool,
}

impl Io for End {
    fn recv(&self) -> &[u8] {
        &self.arrived
    }
    fn consumed(&mut self, n: usize) {
        self.arrived.drain(..n);
    }
    fn peer_closed(&self) -> bool {
        self.peer_closed
    }
    fn room(&self) -> usize {
        5_000 - self.sent.len()
    }
    fn send(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.room());
        self.sent.extend_from_slice(&bytes[..n]);
        n
    }
    fn shutdown(&mut self) {
        self.shut = true;
    }
}

fn transfer(order: Order) -> Outcome {
    let (mut server, mut client) = (Bulk::new(Role::Server), Bulk::new(Role::Client(order, 1)));
    let mut now = Instant::from_millis(1);
    let (mut s, mut c) = (server.begin(now), client.begin(now));
    let (mut s_end, mut c_end) = (End::default(), End::default());
    let (mut s_next, mut c_next) = (Next::Wait, Next::Wait);
    while c_next == Next::Wait || s_next == Next::Wait {
        now += Duration::from_millis(1);
        if c_next == Next::Wait {
            c_next = client.on_ready(now, &mut c, &mut c_end);
        }
        s_end.arrived.append(&mut c_end.sent);
        s_end.peer_closed = c_end.shut;
        if s_next == Next::Wait {
            s_next = server.on_ready(now, &mut s, &mut s_end);
        }
        c_end.arrived.append(&mut s_end.sent);
        c_end.peer_closed = s_end.shut;
    }
    assert_eq!((s_next, c_next), (Next::Close, Next::Close));
    client.end(Some(c), None);
    assert!(client.is_finished());
    client.report().outcomes.remove(0)
}

#[test]
fn every_byte_arrives_and_is_told_of() {
    for direction in [Direction::Up, Direction::Down] {
        let outcome = transfer(Order { direction, amount: Amount::Bytes(100_000), seed: Some(3) });
        assert_eq!(outcome.error, None);
        assert_eq!(
            outcome.receipt,
            Receipt { bytes: 100_000, sha256: Some(digest_of(3, 100_000)) }
        );
        let plain = transfer(Order { direction, amount: Amount::Bytes(0), seed: None });
        assert_eq!((plain.error, plain.receipt), (None, Receipt::default()));
    }
}

#[test]
fn a_timed_stream_ends_in_time() {
    for direction in [Direction::Up, Direction::Down] {
        let outcome = transfer(Order { direction, amount: Amount::Millis(50), seed: None });
        assert!(outcome.error.is_none() && outcome.receipt.bytes > 0);
        assert!((0.04..0.07).contains(&outcome.seconds), "{}", outcome.seconds);
    }
}
