use super::*;

const MAC: Mac = Mac([2, 0, 0, 10, 11, 12]);
const SERVER: [u8; 10] = [0, 3, 0, 1, 9, 9, 9, 9, 9, 9];

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn ours() -> Addr {
    addr("2001:db8::7")
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn put(out: &mut Vec<u8>, option: u16, value: &[u8]) {
    out.extend(option.to_be_bytes());
    out.extend((value.len() as u16).to_be_bytes());
    out.extend(value);
}

/// What a server says.
#[derive(Clone)]
struct Answer {
    kind: u8,
    server: Vec<u8>,
    status: Option<u16>,
    ia_status: Option<u16>,
    times: (u32, u32),
    /// Address, preferred, valid.
    given: Vec<(Addr, u32, u32)>,
    more: Vec<(u16, Vec<u8>)>,
}

fn answer(kind: u8) -> Answer {
    Answer {
        kind,
        server: SERVER.to_vec(),
        status: None,
        ia_status: None,
        times: (0, 0),
        given: vec![(ours(), 1000, 2000)],
        more: vec![(23, addr("2001:db8::53").octets().to_vec())],
    }
}

const ADVERTISE: u8 = 2;
const REPLY: u8 = 7;

struct Bench {
    client: Client,
    now: Instant,
}

impl Bench {
    fn new(wanted: Wanted) -> Bench {
        let mut client = Client::new(MAC, 1);
        let now = Instant::ZERO + secs(100);
        assert_eq!((client.poll(now), client.deadline()), (None, Instant::NEVER));
        client.want(now, wanted);
        Bench { client, now }
    }

    /// Time goes on until there is something to do.
    fn next(&mut self) -> Action {
        loop {
            if let Some(action) = self.client.poll(self.now) {
                return action;
            }
            let due = self.client.deadline();
            assert!(due != Instant::NEVER, "nothing will ever be done");
            self.now = self.now.max(due);
        }
    }

    /// The kind of the message that is sent next.
    fn sends(&mut self) -> u8 {
        match self.next() {
            Action::Send(bytes) => bytes[0],
            other => panic!("{other:?}"),
        }
    }

    fn hear(&mut self, answer: &Answer) -> Result<(), Dropped> {
        let mut out = vec![answer.kind];
        out.extend(&self.client.exchange.to_be_bytes()[1..]);
        put(&mut out, 1, &client_of(MAC));
        put(&mut out, 2, &answer.server);
        if let Some(status) = answer.status {
            put(&mut out, 13, &status.to_be_bytes());
        }
        let (t1, t2) = answer.times;
        let mut ia = [&MAC.0[2..], &t1.to_be_bytes(), &t2.to_be_bytes()].concat();
        for (addr, preferred, valid) in &answer.given {
            let times = [preferred.to_be_bytes(), valid.to_be_bytes()].concat();
            put(&mut ia, 5, &[&addr.octets()[..], &times].concat());
        }
        if let Some(status) = answer.ia_status {
            put(&mut ia, 13, &status.to_be_bytes());
        }
        put(&mut out, 3, &ia);
        for (code, value) in &answer.more {
            put(&mut out, *code, value);
        }
        self.client.receive(self.now, &out)
    }

    /// With an address that was probed for.
    fn bound() -> Bench {
        let mut b = Bench::new(Wanted::Address);
        assert_eq!(b.sends(), 1);
        b.hear(&answer(ADVERTISE)).unwrap();
        assert_eq!(b.sends(), 3);
        b.hear(&answer(REPLY)).unwrap();
        b.probes();
        b
    }

    fn probes(&mut self) {
        let begun = self.now;
        assert_eq!(self.next(), Action::Probe(ours()));
        assert_eq!(self.next(), Action::EndProbe(ours()));
        assert_eq!(self.now.since(begun), secs(1));
        assert!(matches!(self.next(), Action::Use(lease) if lease.addr == ours()));
        assert_eq!(self.client.phase(), Phase::Bound);
    }
}

#[test]
fn an_address_is_used_when_a_server_gave_it_and_nobody_has_it() {
    let begun = Instant::ZERO + secs(100);
    let b = Bench::bound();
    // The offers of a second, and a second for the probe.
    assert!(b.now.since(begun) < Duration::from_millis(2400), "{:?}", b.now);
    assert_eq!(b.client.dns(), [addr("2001:db8::53")]);
    let lease = b.client.lease().unwrap();
    // T1 and T2 as we like: a half and four fifths of the preferred time.
    let asked = lease.preferred - secs(1000);
    assert_eq!((lease.renew, lease.rebind), (asked + secs(500), asked + secs(800)));
    assert_eq!(lease.end, asked + secs(2000));
}

#[test]
fn a_server_may_give_it_at_once() {
    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    assert_eq!(b.hear(&answer(REPLY)), Err(Dropped::Unasked));
    b.hear(&Answer { more: vec![(14, vec![])], ..answer(REPLY) }).unwrap();
    b.probes();
}

#[test]
fn the_best_offer_is_taken_when_all_had_time_and_one_of_the_highest_preference_at_once() {
    let with = |server: u8, preference: u8| Answer {
        server: vec![server; 4],
        more: vec![(7, vec![preference])],
        ..answer(ADVERTISE)
    };
    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    let asked = b.now;
    for (server, preference) in [(1, 3), (2, 9), (3, 9), (4, 0)] {
        b.hear(&with(server, preference)).unwrap();
    }
    assert_eq!(b.sends(), 3);
    assert!(b.now.since(asked) >= secs(1), "{:?}", b.now.since(asked));
    assert_eq!(b.hear(&Answer { server: vec![1; 4], ..answer(REPLY) }), Err(Dropped::OtherServer));
    b.hear(&Answer { server: vec![2; 4], ..answer(REPLY) }).unwrap();
    b.probes();

    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    let asked = b.now;
    b.hear(&with(1, 255)).unwrap();
    assert_eq!((b.sends(), b.now), (3, asked));

    // Who is late does not wait for others.
    let mut b = Bench::new(Wanted::Address);
    assert_eq!((b.sends(), b.sends()), (1, 1));
    let asked = b.now;
    b.hear(&with(1, 0)).unwrap();
    assert_eq!((b.sends(), b.now), (3, asked));
}

#[test]
fn silence_is_asked_again_twice_as_late_each_time() {
    let mut b = Bench::new(Wanted::Address);
    let mut last = None;
    let mut waits = Vec::new();
    for _ in 0..16 {
        assert_eq!(b.sends(), 1);
        if let Some(last) = last.replace(b.now) {
            waits.push(b.now.since(last).as_millis());
        }
    }
    assert!((1000..1300).contains(&waits[0]), "{waits:?}");
    for pair in waits.windows(2) {
        let most = 3_600_000;
        let expected = (2 * pair[0]).min(most);
        assert!(pair[1].abs_diff(expected) <= expected / 10 + 1, "{waits:?}");
    }
    // An offer that nobody stands by is asked for ten times.
    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    b.hear(&answer(ADVERTISE)).unwrap();
    let kinds: Vec<u8> = (0..11).map(|_| b.sends()).collect();
    assert_eq!(kinds, [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1]);
}

#[test]
fn more_time_is_asked_for_and_an_address_whose_time_is_over_goes() {
    let mut b = Bench::bound();
    let lease = b.client.lease().unwrap().clone();
    assert_eq!((b.sends(), b.now), (5, lease.renew));
    let other = Answer { server: vec![1; 4], ..answer(REPLY) };
    assert_eq!(b.hear(&other), Err(Dropped::OtherServer));
    b.hear(&answer(REPLY)).unwrap();
    let Action::Use(more) = b.next() else { panic!("more time") };
    assert_eq!(more.end, b.now + secs(2000));
    // Nobody answers: again and again its server, then any, then it is over.
    let mut kinds = Vec::new();
    let lost = loop {
        match b.next() {
            Action::Send(bytes) => {
                assert!((bytes[0] == 6) == (b.now >= more.rebind), "{:?}", bytes[0]);
                kinds.push(bytes[0]);
            }
            Action::Prefer(addr, false) => assert_eq!((addr, b.now), (ours(), more.preferred)),
            other => break other,
        }
    };
    assert_eq!(lost, Action::Lose(more.clone(), Lost::Expired));
    assert_eq!(b.now, more.end);
    assert!(kinds.contains(&5) && kinds.contains(&6), "{kinds:?}");
    assert_eq!((b.sends(), b.client.dns().len()), (1, 0));
}

#[test]
fn any_server_may_give_more_time_when_its_own_is_silent() {
    let mut b = Bench::bound();
    while b.sends() != 6 {}
    b.hear(&Answer { server: vec![8; 4], ..answer(REPLY) }).unwrap();
    assert!(matches!(b.next(), Action::Use(lease) if lease.server == [8; 4]));
}

#[test]
fn a_server_takes_an_address_back() {
    for refusal in [
        Answer { given: vec![], ia_status: Some(3), ..answer(REPLY) },
        Answer { given: vec![], status: Some(4), ..answer(REPLY) },
        Answer { given: vec![(ours(), 0, 0)], ..answer(REPLY) },
    ] {
        let mut b = Bench::bound();
        assert_eq!(b.sends(), 5);
        let before = b.now;
        b.hear(&refusal).unwrap();
        assert!(matches!(b.next(), Action::Lose(_, Lost::Refused)));
        // And another one is not asked for at once.
        assert_eq!(b.sends(), 1);
        assert!(b.now.since(before) >= secs(1));
    }
    // Something else that is wrong with the server changes nothing.
    let mut b = Bench::bound();
    assert_eq!(b.sends(), 5);
    b.hear(&Answer { given: vec![], status: Some(1), ..answer(REPLY) }).unwrap();
    assert_eq!(b.sends(), 5);
    assert!(b.client.lease().is_some());
}

#[test]
fn an_address_that_somebody_has_is_declined_and_another_asked_for_later() {
    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    b.hear(&answer(ADVERTISE)).unwrap();
    assert_eq!(b.sends(), 3);
    b.hear(&answer(REPLY)).unwrap();
    assert_eq!(b.next(), Action::Probe(ours()));
    b.client.conflict(b.now, addr("2001:db8::8"));
    b.client.conflict(b.now, ours());
    assert_eq!(b.next(), Action::EndProbe(ours()));
    let before = b.now;
    assert_eq!(b.sends(), 9);
    assert_eq!(b.sends(), 1);
    assert!(b.now.since(before) >= secs(10));
    assert!(b.client.lease().is_none());
}

#[test]
fn without_an_address_servers_of_names_are_asked_for_and_again_in_their_time() {
    let mut b = Bench::new(Wanted::Information);
    assert_eq!(b.sends(), 11);
    let mut said = Answer { given: vec![], ..answer(REPLY) };
    said.more.push((32, 700_u32.to_be_bytes().to_vec()));
    said.more.push((24, b"\x03lab\x00".to_vec()));
    b.hear(&said).unwrap();
    assert_eq!((b.client.phase(), b.client.dns()), (Phase::Informed, &[addr("2001:db8::53")][..]));
    assert_eq!(b.client.domains(), ["lab"]);
    let before = b.now;
    assert_eq!(b.sends(), 11);
    assert_eq!(b.now.since(before), secs(700));
    // A router wants more now; less is not heard.
    b.client.want(b.now, Wanted::Address);
    assert_eq!(b.sends(), 1);
    b.client.want(b.now, Wanted::Information);
    assert_eq!(b.client.phase(), Phase::Soliciting);
}

#[test]
fn on_another_link_it_is_asked_whether_the_address_fits() {
    let mut b = Bench::bound();
    b.client.link_is_back(b.now);
    assert_eq!(b.sends(), 4);
    b.hear(&Answer { given: vec![], status: Some(0), ..answer(REPLY) }).unwrap();
    assert_eq!(b.client.phase(), Phase::Bound);
    // Nobody says anything: it stays.
    b.client.link_is_back(b.now);
    let begun = b.now;
    let mut kinds = vec![b.sends()];
    while kinds.last() == Some(&4) {
        kinds.push(b.sends());
    }
    assert!(kinds.len() > 3 && kinds.last() == Some(&5), "{kinds:?}");
    assert!(b.now.since(begun) > secs(10) && b.client.lease().is_some());
    b.client.link_is_back(b.now);
    assert_eq!(b.sends(), 4);
    b.hear(&Answer { given: vec![], status: Some(4), ..answer(REPLY) }).unwrap();
    assert!(matches!(b.next(), Action::Lose(_, Lost::Refused)));
}

#[test]
fn what_it_has_is_given_back_at_the_end() {
    let mut b = Bench::bound();
    b.client.release(b.now);
    assert_eq!(b.sends(), 8);
    assert!(matches!(b.next(), Action::Lose(_, Lost::Released)));
    assert_eq!((b.client.poll(b.now), b.client.deadline()), (None, Instant::NEVER));
    b.client.want(b.now, Wanted::Address);
    assert_eq!(b.client.poll(b.now), None);
}

#[test]
fn what_cannot_be_is_dropped_under_its_name() {
    let mut b = Bench::new(Wanted::Address);
    assert_eq!(b.sends(), 1);
    for given in [
        vec![],
        vec![(addr("fe80::1"), 100, 200)],
        vec![(addr("ff02::1"), 100, 200)],
        vec![(addr("::1"), 100, 200)],
        vec![(Addr::ANY_V6, 100, 200)],
        vec![(ours(), 300, 200)],
        vec![(ours(), 5, 5)],
    ] {
        let bad = Answer { given, ..answer(ADVERTISE) };
        assert_eq!(b.hear(&bad), Err(Dropped::BadLease));
    }
    let bad = Answer { times: (90, 80), ..answer(ADVERTISE) };
    assert_eq!(b.hear(&bad), Err(Dropped::BadLease));
    let bad = Answer { status: Some(2), ..answer(ADVERTISE) };
    assert_eq!(b.hear(&bad), Err(Dropped::BadLease));
    let late = [&[ADVERTISE, 0xff, 0xff, 0xff, 0, 2, 0, 3][..], &[1; 3]].concat();
    assert_eq!(b.client.receive(b.now, &late), Err(Dropped::OtherExchange));
    assert_eq!(b.client.receive(b.now, &[2, 0, 0]), Err(Dropped::Malformed(Malformed::Short)));
    let counts: Vec<_> = b.client.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(
        counts,
        [("dhcpv6-too-short", 1), ("dhcpv6-other-exchange", 1), ("dhcpv6-bad-lease", 9)]
    );
}

/// Whatever a server says, in whatever state: no panic, no more than a message for each time that
/// passes, and nothing that is not an address of a host.
#[test]
fn no_server_makes_it_use_what_is_none_or_ask_without_end() {
    for seed in 0..400 {
        let mut rng = Rng::seed(seed);
        let wanted = if rng.below(4) == 0 { Wanted::Information } else { Wanted::Address };
        let mut b = Bench::new(wanted);
        let (begun, mut sent) = (b.now, 0_u64);
        for _ in 0..200 {
            let number = |rng: &mut Rng| match rng.below(4) {
                0 => 0,
                1 => u32::MAX,
                2 => rng.below(20) as u32,
                _ => rng.below(100_000) as u32,
            };
            let given = (0..rng.below(3)).map(|_| {
                let addrs = [ours(), addr("2001:db8::9"), addr("fe80::1"), addr("ff02::1")];
                let addr = addrs[rng.below(4) as usize];
                (addr, number(&mut rng), number(&mut rng))
            });
            let given = given.collect();
            let status = |rng: &mut Rng| (rng.below(4) == 0).then(|| rng.below(7) as u16);
            let said = Answer {
                kind: [ADVERTISE, REPLY, REPLY, 1][rng.below(4) as usize],
                server: vec![rng.below(3) as u8 + 1; 4],
                status: status(&mut rng),
                ia_status: status(&mut rng),
                times: (number(&mut rng), number(&mut rng)),
                given,
                more: if rng.below(2) == 0 { vec![(14, vec![])] } else { vec![(7, vec![255])] },
            };
            let _ = b.hear(&said);
            match rng.below(20) {
                0 => b.client.link_is_back(b.now),
                1 => b.client.conflict(b.now, ours()),
                _ => {}
            }
            while let Some(action) = b.client.poll(b.now) {
                match action {
                    Action::Send(_) => sent += 1,
                    Action::Use(lease) => {
                        assert!(!lease.addr.is_link_local() && !lease.addr.is_multicast());
                        assert!(lease.end > b.now && lease.preferred <= lease.end);
                    }
                    _ => {}
                }
            }
            let due = b.client.deadline();
            let step = secs(1 + rng.below(30));
            b.now = if rng.below(2) == 0 { b.now + step } else { b.now.max(due.min(b.now + step)) };
        }
        let seconds = b.now.since(begun).as_secs();
        assert!(sent <= 60 + 2 * seconds, "seed {seed}: {sent} messages in {seconds} s");
    }
}
