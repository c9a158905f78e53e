//! Stores in which whoever comes first may have everything, and those who come later.

use super::*;
use crate::testing::{loopback, with_room};

/// Bytes that a queue may hold; the store has two chunks of as many.
const ROOM: u32 = 4096;

struct Crowd {
    net: Net,
    /// Both ends of each connection.
    pairs: Vec<(ConnId, ConnId)>,
}

impl Crowd {
    fn new(pairs: usize) -> Crowd {
        let net = Net::over(with_room(config(), ROOM), &[(loopback(1500, 1), &["10.0.0.1/32"])]);
        let mut crowd = Crowd { net, pairs: Vec::new() };
        let local = Endpoint::new(addr("10.0.0.1"), PORT);
        let options = ConnOptions::default();
        let table = Table(1);
        let spec = ListenSpec { table, local, v6_only: false, backlog: 8, token: 7, options };
        let listener = crowd.net.stack.listen(spec).unwrap();
        for _ in 0..pairs {
            let spec = ConnectSpec { table, local: None, remote: local, token: 8, options };
            let client = crowd.net.stack.connect(crowd.net.now, spec).unwrap();
            crowd.net.loop_back();
            let server = crowd.net.stack.accept(listener).unwrap();
            crowd.pairs.push((client, server));
        }
        crowd.events();
        crowd
    }

    /// Who was told of room.
    fn events(&mut self) -> Vec<ConnId> {
        let mut told = Vec::new();
        while let Some(event) = self.net.stack.next_event() {
            if let Event::Conn { conn, what, .. } = event {
                if what.has(ConnEvents::WRITABLE) {
                    told.push(conn);
                }
            }
        }
        told
    }

    fn fill(&mut self, pair: usize) -> usize {
        self.net.stack.send(self.pairs[pair].0, &pattern(ROOM as usize)).unwrap()
    }

    /// What was written is carried, and acknowledged once it was read.
    fn carry(&mut self, pair: usize) {
        let (client, server) = self.pairs[pair];
        for _ in 0..8 {
            self.net.loop_back();
            let unread = self.net.stack.unread(server);
            self.net.stack.consumed(server, unread);
            self.pass(1);
        }
        assert_eq!(self.net.stack.queued(client), 0);
    }

    fn pass(&mut self, seconds: u64) {
        let end = self.net.now + Duration::from_secs(seconds);
        while self.net.stack.next_deadline() <= end {
            self.net.now = self.net.stack.next_deadline().max(self.net.now);
            self.net.stack.expire(self.net.now);
            self.net.loop_back();
        }
        self.net.now = end;
    }

    fn is_due(&self) -> bool {
        self.net.stack.next_deadline() <= self.net.now
    }
}

#[test]
fn whoever_was_refused_memory_with_nothing_under_way_is_told_when_others_give_it_back() {
    let mut crowd = Crowd::new(4);
    assert_eq!((crowd.fill(0), crowd.fill(1)), (4096, 4096));
    assert_eq!((crowd.fill(2), crowd.fill(3)), (0, 0));
    crowd.pass(1);
    assert_eq!(crowd.events(), []);
    crowd.carry(0);
    crowd.pass(1);
    let told = crowd.events();
    assert!(told.contains(&crowd.pairs[2].0) && told.contains(&crowd.pairs[3].0), "{told:?}");
    // One of them takes it, and the other waits for the next, without being asked about meanwhile.
    assert_eq!((crowd.fill(2), crowd.fill(3)), (4096, 0));
    crowd.pass(1);
    assert!(!crowd.is_due());
    assert_eq!(crowd.events(), []);
    crowd.carry(2);
    crowd.pass(1);
    assert_eq!(crowd.events(), [crowd.pairs[3].0]);
    assert_eq!(crowd.fill(3), 4096);
}

#[test]
fn memory_that_an_owner_gives_back_by_closing_is_told_of_at_once() {
    let mut crowd = Crowd::new(3);
    assert_eq!((crowd.fill(0), crowd.fill(1), crowd.fill(2)), (4096, 4096, 0));
    crowd.pass(1);
    crowd.net.stack.close_with_reset(crowd.pairs[0].0);
    // The reset leaves first.
    crowd.net.loop_back();
    assert!(crowd.is_due());
    crowd.net.stack.expire(crowd.net.now);
    assert!(crowd.events().contains(&crowd.pairs[2].0));
}

#[test]
fn one_that_was_refused_and_is_gone_is_waited_for_by_nobody() {
    let mut crowd = Crowd::new(3);
    assert_eq!((crowd.fill(0), crowd.fill(1), crowd.fill(2)), (4096, 4096, 0));
    crowd.net.stack.close(crowd.pairs[2].0);
    crowd.pass(1);
    crowd.carry(0);
    crowd.pass(600);
    crowd.events();
    assert!(crowd.net.stack.next_deadline() > crowd.net.now);
}
