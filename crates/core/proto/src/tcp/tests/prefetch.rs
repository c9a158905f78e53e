//! Connections so many that their records lie far from the processor: what they do is what they do
//! when they are few.

use super::*;

/// Enough connections.
const CROWD: u32 = 1_100;

fn crowded() -> Config {
    let mut config = plain();
    config.limits.connections = CROWD + 64;
    config
}

/// Makes the table large: handshakes with peers that do not answer. What they sent is thrown away.
fn crowd(b: &mut Bench) -> Vec<ConnId> {
    let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
    let connect = |n: u32| {
        let remote = Endpoint::new(addr("10.0.0.77"), 1 + n as u16);
        let spec = ConnectSpec { table: Table(0), local: None, remote, token: 1, options };
        b.net.stack.connect(b.net.now, spec).unwrap()
    };
    let crowd = (0..CROWD).map(connect).collect();
    assert_eq!(b.net.emit().len(), CROWD as usize);
    crowd
}

#[test]
fn an_answer_takes_the_ack_along_and_without_one_it_leaves_in_time() {
    let mut b = Bench::accepted(crowded(), 1000, 10_000);
    crowd(&mut b);
    let id = b.id();
    b.net.stack.set_quick_ack(id, false);
    let mut seq = 1;
    assert_eq!(b.inject(ACK | PSH, seq, 1, 10_000, &[1; 100]), None);
    seq += 100;
    b.read_all();
    b.silent();
    let late = |b: &mut Bench| {
        let left = b.pass(ms(100));
        left.into_iter().find(|(_, seen)| seen.seg.dst_port == PEER_PORT).expect("an ACK")
    };
    let (after, ack) = late(&mut b);
    assert_eq!((b.rel_ack(&ack), ack.data.len()), (seq, 0));
    assert!((ms(39)..=ms(41)).contains(&after), "after {after:?}");
    // The wheel has looked since, and nothing is due: the next ACK that waits is told to it anew.
    for _ in 0..3 {
        b.net.stack.set_quick_ack(id, false);
        assert_eq!(b.inject(ACK | PSH, seq, 1, 10_000, &[2; 100]), None);
        seq += 100;
        b.silent();
        let (after, ack) = late(&mut b);
        assert_eq!(b.rel_ack(&ack), seq);
        assert!((ms(39)..=ms(41)).contains(&after), "after {after:?}");
    }
    // An answer of the same turn takes it along.
    b.net.stack.set_quick_ack(id, false);
    assert_eq!(b.inject(ACK | PSH, seq, 1, 10_000, &[3; 100]), None);
    seq += 100;
    b.read_all();
    b.send(&[4; 64]);
    let answer = b.one();
    assert_eq!((b.rel_ack(&answer), answer.data.len()), (seq, 64));
    assert_eq!(b.inject(ACK, seq, 65, 10_000, &[]), None);
    let left = b.pass(ms(100));
    assert!(
        left.iter().all(|(_, seen)| seen.seg.dst_port != PEER_PORT),
        "nothing was owed: {left:?}"
    );
}

#[test]
fn a_device_that_is_full_costs_nobody_his_place() {
    for far in [false, true] {
        let mut b = Bench::new(crowded());
        if far {
            crowd(&mut b);
        }
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        let mut connect = |port: u16| {
            let remote = Endpoint::new(addr(PEER), port);
            let spec = ConnectSpec { table: Table(0), local: None, remote, token: 1, options };
            b.net.stack.connect(b.net.now, spec).unwrap();
        };
        (1..=40).for_each(&mut connect);
        let mut ports = Vec::new();
        while ports.len() < 40 {
            // Room for three at a time, and then for none.
            for room in [3, 0, 0] {
                b.net.sink.room = Some(room);
                assert_eq!(b.net.stack.wants_emit(), ports.len() < 40);
                ports.extend(b.out().iter().map(|seen| seen.seg.dst_port));
            }
        }
        b.net.sink.room = None;
        assert_eq!(
            ports,
            (1..=40).collect::<Vec<u16>>(),
            "they leave in the order in which they came, far: {far}"
        );
        b.silent();
    }
}

#[test]
fn timers_of_all_are_looked_at() {
    let mut b = Bench::new(crowded());
    let crowd = crowd(&mut b);
    // The first repetition of each SYN, after one second.
    let again = b.pass(ms(1_500));
    assert_eq!(again.len(), crowd.len());
    crowd.into_iter().for_each(|conn| b.net.stack.abort(conn));
    assert_eq!(b.net.stack.population().connections, 0);
}
