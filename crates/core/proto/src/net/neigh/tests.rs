extern crate std;

use std::vec::Vec;

use super::*;

const IF: Iface = Iface(0);
const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

struct World {
    n: Neighbours,
    now: Instant,
    c: NeighbourCounters,
}

impl World {
    fn new(capacity: u32) -> World {
        let mut n = Neighbours::new(capacity, 2, 4, AddrHash::new(&[5; 32], 2), Rng::seed(1));
        n.fit_frames(64);
        World { n, now: Instant::from_millis(1_000), c: NeighbourCounters::default() }
    }

    fn resolve(&mut self, a: &Addr) -> Option<Handle<Neighbour>> {
        self.n.resolve(self.now, IF, a, &mut self.c)
    }

    fn requests(&mut self) -> Vec<Request> {
        let mut out = Vec::new();
        while let Some(r) = self.n.next_request() {
            out.push(r);
            self.n.asked();
        }
        out
    }

    fn pass(&mut self, d: Duration) {
        let end = self.now + d;
        while self.n.next_deadline() <= end {
            self.now = self.n.next_deadline();
            self.n.expire(self.now, &mut self.c, &mut |_, _| {});
        }
        self.now = end;
    }

    fn claim(&mut self, a: &Addr, mac: Mac, solicited: bool) -> Claimed {
        let claim = Claim { iface: IF, addr: *a, mac: Some(mac), solicited, override_: true };
        self.n.claim(self.now, &claim)
    }

    fn state(&self, a: &Addr) -> Option<NeighbourState> {
        self.n.iter().find(|i| i.addr == *a).map(|i| i.state)
    }

    fn wait(&mut self, to: Handle<Neighbour>, byte: u8) {
        let (place, bytes) = self.n.place(to, 10, &mut self.c).unwrap();
        bytes[0] = byte;
        self.n.wait(place, to, 10, TxMeta::default());
    }

    fn released(&mut self) -> Vec<(u8, Mac)> {
        let mut out = Vec::new();
        while let Some((place, _, mac)) = self.n.next_released(self.now) {
            out.push((self.n.frame(place).0[0], mac));
            self.n.sent(place);
        }
        out
    }
}

fn addr(n: u32) -> Addr {
    Addr::v4((0x0a00_0000 + n).to_be_bytes())
}

#[test]
fn a_neighbour_is_asked_for_and_frames_wait_until_it_answers() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    assert_eq!(w.requests(), [Request { iface: IF, addr: addr(1), to: None }]);
    assert_eq!(w.n.usable(at, w.now), None);
    w.wait(at, 1);
    w.wait(at, 2);
    assert_eq!(w.released(), []);
    assert_eq!(w.claim(&addr(1), A, true), Claimed::Taken);
    assert_eq!(w.released(), [(1, A), (2, A)]);
    assert_eq!(w.n.usable(at, w.now), Some(A));
    assert_eq!(w.resolve(&addr(1)), Some(at));
    assert_eq!(w.requests(), []);
}

#[test]
fn a_silent_neighbour_is_asked_three_times_and_forgotten_with_its_frames() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    w.wait(at, 1);
    let mut asked = w.requests().len();
    for _ in 0..5 {
        w.pass(Duration::from_millis(1_020));
        asked += w.requests().len();
    }
    assert_eq!(asked, 3);
    assert_eq!(w.state(&addr(1)), None);
    assert_eq!((w.c.failures, w.c.frames_dropped), (1, 1));
    assert_eq!(w.n.usable(at, w.now), None);
    assert_eq!(w.n.next_deadline(), Instant::NEVER);
}

#[test]
fn a_neighbour_in_use_is_probed_alone_and_stays_when_it_answers() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    w.requests();
    w.claim(&addr(1), A, true);
    w.pass(Duration::from_secs(46));
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Reachable), "nobody sent, so nobody looked");
    assert_eq!(w.n.usable(at, w.now), Some(A));
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Delay));
    w.pass(Duration::from_secs(6));
    assert_eq!(w.requests(), [Request { iface: IF, addr: addr(1), to: Some(A) }]);
    assert_eq!(w.n.usable(at, w.now), Some(A), "packets go on while it is probed");
    w.claim(&addr(1), A, true);
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Reachable));
}

#[test]
fn a_neighbour_that_does_not_answer_probes_is_forgotten() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    w.claim(&addr(1), A, true);
    w.pass(Duration::from_secs(46));
    w.n.usable(at, w.now);
    w.pass(Duration::from_secs(10));
    assert_eq!(w.state(&addr(1)), None);
}

#[test]
fn unsolicited_claims_make_no_entry() {
    let mut w = World::new(8);
    assert_eq!(w.claim(&addr(1), A, false), Claimed::Unknown);
    assert_eq!(w.claim(&addr(1), A, true), Claimed::Unknown);
    assert_eq!(w.n.iter().count(), 0);
}

#[test]
fn a_claim_against_a_reachable_neighbour_is_checked_with_the_neighbour_first() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    w.requests();
    w.claim(&addr(1), A, true);
    w.pass(Duration::from_secs(2));
    w.claim(&addr(1), B, false);
    assert_eq!(w.n.usable(at, w.now), Some(A));
    assert_eq!(w.requests(), [Request { iface: IF, addr: addr(1), to: Some(A) }]);
    // The true owner answers: nothing changed.
    w.claim(&addr(1), A, true);
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Reachable));
    // It does not: the address has moved. The first question waits until a second after the last
    // one.
    w.claim(&addr(1), B, false);
    w.pass(Duration::from_secs(5));
    assert_eq!(w.state(&addr(1)), None);
    w.resolve(&addr(1)).unwrap();
    w.claim(&addr(1), B, true);
    assert_eq!(w.n.iter().next().unwrap().mac, Some(B));
}

/// A world whose one neighbour, A, is known and in this state.
fn known(state: NeighbourState) -> (World, Handle<Neighbour>) {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    w.requests();
    w.claim(&addr(1), A, state != NeighbourState::Stale);
    if matches!(state, NeighbourState::Delay | NeighbourState::Probe) {
        w.pass(Duration::from_secs(46));
        w.n.usable(at, w.now);
    } else {
        w.pass(Duration::from_secs(2));
    }
    if state == NeighbourState::Probe {
        w.pass(Duration::from_millis(5_020));
        assert_eq!(w.requests().len(), 1);
    }
    assert_eq!(w.state(&addr(1)), Some(state));
    (w, at)
}

const KNOWN: [NeighbourState; 4] = [
    NeighbourState::Reachable,
    NeighbourState::Stale,
    NeighbourState::Delay,
    NeighbourState::Probe,
];

fn mac_of(w: &World) -> Option<Mac> {
    w.n.iter().find(|i| i.addr == addr(1)).and_then(|i| i.mac)
}

#[test]
fn no_number_of_forged_claims_takes_a_known_neighbour_over() {
    for state in KNOWN {
        for solicited in [false, true] {
            let (mut w, at) = known(state);
            // Two claimants by turns, in every tenth of a second until shortly before the probe is
            // over; no answer of the true owner yet.
            for n in 0..25u8 {
                w.claim(&addr(1), Mac([2, 0, 0, 0, 9, n % 2]), solicited);
                assert_eq!(mac_of(&w), Some(A), "{state:?} {solicited} {n}");
                assert_eq!(w.n.usable(at, w.now), Some(A));
                w.pass(Duration::from_millis(100));
            }
            assert_eq!(w.state(&addr(1)), Some(NeighbourState::Probe));
            assert!(
                w.requests().iter().all(|r| r.to == Some(A)),
                "only the link address that is known is asked"
            );
            w.claim(&addr(1), A, true);
            assert_eq!((w.state(&addr(1)), mac_of(&w)), (Some(NeighbourState::Reachable), Some(A)));
        }
    }
}

#[test]
fn the_true_owner_may_miss_two_questions_and_keeps_its_place_with_the_third() {
    for state in [NeighbourState::Reachable, NeighbourState::Stale, NeighbourState::Delay] {
        let (mut w, _) = known(state);
        w.claim(&addr(1), B, true);
        assert_eq!(w.requests().len(), 1);
        for _ in 0..2 {
            w.pass(Duration::from_millis(1_020));
            assert_eq!(
                w.requests(),
                [Request { iface: IF, addr: addr(1), to: Some(A) }],
                "{state:?}"
            );
            w.claim(&addr(1), B, true);
        }
        w.claim(&addr(1), A, true);
        assert_eq!((w.state(&addr(1)), mac_of(&w)), (Some(NeighbourState::Reachable), Some(A)));
    }
}

#[test]
fn silence_until_the_end_of_the_probe_lets_an_address_move() {
    for state in KNOWN {
        let (mut w, at) = known(state);
        w.claim(&addr(1), B, false);
        w.pass(Duration::from_secs(4));
        assert_eq!(w.state(&addr(1)), None, "{state:?}");
        assert_eq!(w.n.usable(at, w.now), None);
        w.requests();
        w.resolve(&addr(1)).unwrap();
        assert_eq!(w.requests(), [Request { iface: IF, addr: addr(1), to: None }], "all are asked");
        w.claim(&addr(1), B, true);
        assert_eq!(mac_of(&w), Some(B));
    }
}

#[test]
fn an_answer_that_nobody_asked_for_confirms_nothing() {
    let (mut w, _) = known(NeighbourState::Stale);
    w.claim(&addr(1), A, true);
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Stale));
    // Nor does one that comes before the question that a claim began was asked.
    let (mut w, _) = known(NeighbourState::Probe);
    w.claim(&addr(1), A, true);
    w.claim(&addr(1), B, true);
    w.claim(&addr(1), A, true);
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Probe));
}

#[test]
fn a_flood_of_claims_brings_the_owner_one_question_a_second() {
    let (mut w, _) = known(NeighbourState::Reachable);
    let mut asked = 0;
    for _ in 0..1_000 {
        w.claim(&addr(1), B, true);
        let requests = w.requests();
        asked += requests.len();
        if !requests.is_empty() {
            w.claim(&addr(1), A, true);
        }
        w.pass(Duration::from_millis(10));
    }
    assert!((5..=11).contains(&asked), "{asked} questions in ten seconds");
    assert_eq!(mac_of(&w), Some(A));
}

#[test]
fn a_claim_without_the_override_flag_makes_a_reachable_neighbour_stale_and_no_more() {
    let (mut w, _) = known(NeighbourState::Reachable);
    let weak = Claim { iface: IF, addr: addr(1), mac: Some(B), solicited: true, override_: false };
    for _ in 0..3 {
        w.n.claim(w.now, &weak);
        assert_eq!((w.state(&addr(1)), mac_of(&w)), (Some(NeighbourState::Stale), Some(A)));
    }
    let (mut w, _) = known(NeighbourState::Probe);
    w.n.claim(w.now, &weak);
    assert_eq!((w.state(&addr(1)), mac_of(&w)), (Some(NeighbourState::Probe), Some(A)));
    // RFC 4861 7.2.4: who is asked alone need not say its link address.
    w.n.claim(w.now, &Claim { mac: None, ..weak });
    assert_eq!((w.state(&addr(1)), mac_of(&w)), (Some(NeighbourState::Reachable), Some(A)));
}

#[test]
fn a_flood_of_strangers_does_not_push_out_neighbours_in_use() {
    let mut w = World::new(8);
    let used: Vec<_> = (0..4).map(|n| w.resolve(&addr(n)).unwrap()).collect();
    for n in 0..4 {
        w.claim(&addr(n), A, true);
    }
    for n in 100..1_100 {
        assert!(w.resolve(&addr(n)).is_some());
        w.n.learn(w.now, IF, &addr(n + 10_000), B, &mut w.c);
    }
    for at in used {
        assert_eq!(w.n.usable(at, w.now), Some(A));
    }
    assert_eq!(w.n.iter().count(), 8);
    assert!(w.c.evicted >= 990);
}

#[test]
fn when_all_are_in_use_a_new_one_is_refused_and_idle_ones_go_first() {
    let mut w = World::new(2);
    for n in 0..2 {
        w.resolve(&addr(n)).unwrap();
        w.claim(&addr(n), A, true);
    }
    assert_eq!(w.resolve(&addr(9)), None);
    assert_eq!(w.c.table_full, 1);
    w.now += Duration::from_secs(61);
    w.resolve(&addr(1)).unwrap();
    assert!(w.resolve(&addr(9)).is_some());
    assert_eq!(w.state(&addr(0)), None);
    assert!(w.state(&addr(1)).is_some());
}

#[test]
fn frames_that_wait_are_bounded_for_each_and_in_all_and_the_oldest_goes() {
    let mut w = World::new(8);
    let a = w.resolve(&addr(1)).unwrap();
    for byte in 1..=3 {
        w.wait(a, byte);
    }
    assert_eq!(w.c.frames_dropped, 1);
    let (b, c) = (w.resolve(&addr(2)).unwrap(), w.resolve(&addr(3)).unwrap());
    for (at, byte) in [(b, 4), (b, 5), (c, 6)] {
        w.wait(at, byte);
    }
    assert_eq!(w.c.frames_dropped, 2, "four places in all: the oldest frame of another gave way");
    for n in 1..=3 {
        w.claim(&addr(n), A, true);
    }
    assert_eq!(w.released().iter().map(|f| f.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn room_that_is_not_used_changes_nothing() {
    let mut w = World::new(8);
    let at = w.resolve(&addr(1)).unwrap();
    for _ in 0..20 {
        assert!(w.n.place(at, 10, &mut w.c).is_some());
    }
    assert_eq!(w.c.frames_dropped, 0);
    assert!(w.n.place(at, 65, &mut w.c).is_none(), "longer than any frame");
}

#[test]
fn a_permanent_neighbour_is_never_asked_nor_replaced_nor_evicted() {
    let mut w = World::new(2);
    assert!(w.n.set_permanent(w.now, IF, &addr(1), A));
    w.claim(&addr(1), B, true);
    let at = w.resolve(&addr(1)).unwrap();
    for n in 50..80 {
        w.resolve(&addr(n));
    }
    w.pass(Duration::from_secs(500));
    assert_eq!(w.n.usable(at, w.now), Some(A));
    assert_eq!(w.state(&addr(1)), Some(NeighbourState::Permanent));
}

#[test]
fn forgetting_an_interface_leaves_the_others() {
    let mut w = World::new(8);
    w.resolve(&addr(1)).unwrap();
    w.n.resolve(w.now, Iface(1), &addr(2), &mut w.c).unwrap();
    w.n.forget(IF, None, &mut w.c);
    assert_eq!(w.n.iter().map(|i| i.addr).collect::<Vec<_>>(), [addr(2)]);
    assert_eq!(w.requests().len(), 1);
}
