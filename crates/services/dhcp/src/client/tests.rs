use proptest::prelude::*;

use super::*;
use crate::message::tests::reply;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OURS: Addr = Addr::v4([10, 0, 0, 9]);
const SERVER: Addr = Addr::v4([10, 0, 0, 1]);
const HOUR: u64 = 3600;

struct World {
    client: Client,
    now: Instant,
}

impl World {
    fn new() -> World {
        let now = Instant::from_millis(5_000);
        World { client: Client::new(now, MAC, 1), now }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.client.poll(self.now)).collect()
    }

    /// The only thing to be done is to send, which is asserted.
    fn sent(&mut self) -> (Target, u8, Vec<u8>) {
        let mut all = self.actions();
        assert_eq!(all.len(), 1, "{all:?}");
        let Some(Action::Send(target, bytes)) = all.pop() else { panic!("nothing is sent") };
        (target, bytes[242], bytes)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn until_deadline(&mut self) {
        self.now = self.now.max(self.client.deadline());
    }

    fn say_with(&mut self, kind: u8, yours: [u8; 4], more: &[(u8, &[u8])]) -> Result<(), Dropped> {
        let kind = [kind];
        let mut options: Vec<(u8, &[u8])> = vec![(53, &kind), (1, &[255, 255, 255, 0])];
        options.extend(more);
        let bytes = reply(self.client.exchange, yours, &options);
        self.client.receive(self.now, &bytes)
    }

    /// A server gives 10.0.0.9 for an hour, or refuses it.
    fn say(&mut self, kind: u8) -> Result<(), Dropped> {
        let hour = (HOUR as u32).to_be_bytes();
        self.say_with(
            kind,
            [10, 0, 0, 9],
            &[(51, &hour), (54, &[10, 0, 0, 1]), (3, &[10, 0, 0, 1])],
        )
    }

    /// Goes through a whole exchange.
    fn bound() -> (World, Lease) {
        let mut world = World::new();
        assert_eq!(world.sent().1, Kind::Discover as u8);
        world.say(2).unwrap();
        assert_eq!(world.sent().1, Kind::Request as u8);
        world.say(5).unwrap();
        for _ in 0..PROBES {
            assert_eq!(world.actions(), [Action::Probe(OURS)]);
            world.pass(PROBE_WAIT);
        }
        let actions = world.actions();
        let [Action::EndProbe(OURS), Action::Use(lease)] = &actions[..] else {
            panic!("{actions:?}")
        };
        (world, lease.clone())
    }
}

#[test]
fn an_address_is_there_within_a_second_of_a_servers_answers() {
    let (world, lease) = World::bound();
    assert!(world.now.since(Instant::from_millis(5_000)) < Duration::from_secs(1));
    assert_eq!(lease.addr, "10.0.0.9/24".parse().unwrap());
    assert_eq!(lease.routes, [("0.0.0.0/0".parse().unwrap(), SERVER)]);
    assert_eq!((world.client.phase(), world.client.lease()), (Phase::Bound, Some(&lease)));
    assert_eq!(world.client.deadline(), lease.renew);
}

#[test]
fn a_server_that_is_silent_is_asked_less_and_less_often() {
    let mut world = World::new();
    let mut last = world.now;
    world.sent();
    for seconds in [4, 8, 16, 32, 64, 64] {
        world.until_deadline();
        let waited = world.now.since(last).as_millis();
        assert!((seconds * 1000 - 1000..=seconds * 1000 + 1000).contains(&waited), "{waited}");
        last = world.now;
        assert_eq!(world.sent().1, Kind::Discover as u8);
    }
    // An offer that is not confirmed is given up, and everything begins anew.
    world.say(2).unwrap();
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(world.sent().1);
        world.until_deadline();
    }
    assert_eq!(kinds, [3, 3, 3, 3, 1]);
}

#[test]
fn an_address_that_somebody_has_is_declined_and_not_used() {
    let mut world = World::new();
    world.sent();
    world.say(2).unwrap();
    world.sent();
    world.say(5).unwrap();
    assert_eq!(world.actions(), [Action::Probe(OURS)]);
    world.client.conflict(world.now, SERVER);
    assert_eq!(world.client.phase(), Phase::Probing);
    world.client.conflict(world.now, OURS);
    let actions = world.actions();
    let [Action::EndProbe(OURS), Action::Send(Target::AllFromNobody, bytes)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(bytes[242], Kind::Decline as u8);
    assert_eq!(bytes[252..264], [50, 4, 10, 0, 0, 9, 54, 4, 10, 0, 0, 1]);
    assert_eq!(world.client.deadline(), world.now + AFTER_DECLINE);
    world.until_deadline();
    // It is not asked for again.
    assert_eq!(world.sent().2[252], 57);
}

#[test]
fn more_time_is_asked_of_the_server_then_of_all_and_then_the_address_is_lost() {
    let (mut world, lease) = World::bound();
    let begun = lease.end.since(lease.renew).as_secs();
    assert_eq!(begun, HOUR / 2);
    world.until_deadline();
    let (target, kind, bytes) = world.sent();
    assert_eq!((target, kind), (Target::Server { ours: OURS, server: SERVER }, 3));
    // RFC 2131 4.3.2: the address stands in the header, and neither server nor address below.
    assert_eq!(bytes[12..16], OURS.v4_octets());
    assert_eq!(bytes[252], 57);
    world.say(5).unwrap();
    let actions = world.actions();
    let [Action::Use(longer)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(longer.end, world.now + Duration::from_secs(HOUR));
    assert_eq!(world.client.phase(), Phase::Bound);
    // Nobody answers any more.
    let end = longer.end;
    let mut asked = Vec::new();
    loop {
        world.until_deadline();
        let actions = world.actions();
        match &actions[..] {
            [Action::Send(target, _)] => asked.push(*target),
            [Action::Lose(lost, Lost::Expired), Action::Send(..)] | [Action::Lose(lost, _)] => {
                assert_eq!(lost.addr.addr, OURS);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.now, end);
    assert!(asked.len() < 30, "{}", asked.len());
    let by_all = asked.iter().position(|t| *t == Target::AllFrom(OURS)).expect("asks all");
    assert!(asked[..by_all].iter().all(|t| matches!(t, Target::Server { .. })) && by_all > 0);
    assert!(asked[by_all..].iter().all(|t| *t == Target::AllFrom(OURS)));
    assert_eq!(world.client.lease(), None);
}

#[test]
fn a_server_that_takes_the_address_back_is_obeyed() {
    let (mut world, _) = World::bound();
    world.until_deadline();
    world.sent();
    world.say(6).unwrap();
    let actions = world.actions();
    assert!(matches!(&actions[..], [Action::Lose(_, Lost::Refused)]), "{actions:?}");
    world.until_deadline();
    assert_eq!(world.sent().1, Kind::Discover as u8);
}

#[test]
fn a_link_that_came_back_is_asked_at_once_and_what_is_given_back_is_lost() {
    let (mut world, lease) = World::bound();
    world.client.link_is_back(world.now);
    assert_eq!(world.sent().0, Target::AllFrom(OURS));
    assert!(world.client.deadline().since(world.now) <= Duration::from_secs(5));
    world.say(5).unwrap();
    assert!(matches!(&world.actions()[..], [Action::Use(same)] if same.addr == lease.addr));
    world.client.release(world.now);
    let actions = world.actions();
    let [Action::Send(Target::Server { .. }, bytes), Action::Lose(_, Lost::Released)] =
        &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(bytes[242], Kind::Release as u8);
    assert_eq!((world.client.phase(), world.client.deadline()), (Phase::Stopped, Instant::NEVER));
}

#[test]
fn what_is_not_for_us_is_counted_under_one_name() {
    let mut world = World::new();
    let count = |world: &World, name| world.client.drops().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!(world.say(2), Err(Dropped::Unasked));
    world.sent();
    assert_eq!(world.say(5), Err(Dropped::Unasked));
    assert_eq!(world.client.receive(world.now, b"?"), Err(Dropped::Malformed(Malformed::Short)));
    let old = reply(world.client.exchange ^ 1, [10, 0, 0, 9], &[(53, &[2])]);
    assert_eq!(world.client.receive(world.now, &old), Err(Dropped::OtherExchange));
    let hour: (u8, &[u8]) = (51, &[0, 0, 14, 16]);
    let server: (u8, &[u8]) = (54, &[10, 0, 0, 1]);
    for yours in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [10, 0, 0, 255], [10, 0, 0, 0]] {
        assert_eq!(world.say_with(2, yours, &[hour, server]), Err(Dropped::BadLease), "{yours:?}");
    }
    let short: (u8, &[u8]) = (51, &[0, 0, 0, 9]);
    for options in [&[hour][..], &[server], &[short, server]] {
        assert_eq!(world.say_with(2, [10, 0, 0, 9], options), Err(Dropped::BadLease));
    }
    world.say(2).unwrap();
    world.sent();
    let other: (u8, &[u8]) = (54, &[10, 0, 0, 66]);
    assert_eq!(world.say_with(5, [10, 0, 0, 9], &[hour, other]), Err(Dropped::OtherServer));
    assert_eq!(world.say_with(6, [0; 4], &[other]), Err(Dropped::OtherServer));
    assert_eq!(world.say_with(5, [10, 0, 0, 8], &[hour, server]), Err(Dropped::OtherServer));
    assert_eq!(count(&world, "dhcp-bad-lease"), 8);
    assert_eq!(count(&world, "dhcp-other-server"), 3);
    assert_eq!(count(&world, "dhcp-unasked"), 2);
    assert_eq!(count(&world, "dhcp-too-short"), 1);
    assert_eq!(count(&world, "dhcp-other-exchange"), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Say { kind: u8, yours: [u8; 4], options: Vec<(u8, Vec<u8>)> },
    Bytes(Vec<u8>),
    Wait(u64),
    Conflict,
    Back,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let option = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..8));
    let lease = (51u8..60, proptest::collection::vec(any::<u8>(), 4..5));
    let yours = prop_oneof![Just([10, 0, 0, 9]), any::<[u8; 4]>()];
    let options = proptest::collection::vec(prop_oneof![option, lease], 0..6);
    proptest::collection::vec(
        prop_oneof![
            8 => (2u8..7, yours, options)
                .prop_map(|(kind, yours, options)| Step::Say { kind, yours, options }),
            1 => proptest::collection::vec(any::<u8>(), 0..400).prop_map(Step::Bytes),
            4 => (0u64..100_000).prop_map(Step::Wait),
            1 => Just(Step::Conflict),
            1 => Just(Step::Back),
        ],
        1..60,
    )
}

proptest! {
    /// Whatever a server says: the client asks no more often than it may, never uses an address
    /// that no host has, and loses each one that it used before it uses another.
    #[test]
    fn no_server_makes_it_ask_without_end_or_use_what_cannot_be(steps in steps()) {
        let mut world = World::new();
        let mut used: Option<Addr> = None;
        for step in steps {
            let (mut said, mut sent) = (0, 0);
            match step {
                Step::Say { kind, yours, options } => {
                    said = 1;
                    let mut all: Vec<(u8, &[u8])> = vec![(54, &[10, 0, 0, 1]), (51, &[0, 0, 0, 60])];
                    if options.iter().any(|(code, _)| [51, 54].contains(code)) {
                        all.clear();
                    }
                    all.extend(options.iter().map(|(code, value)| (*code, &value[..])));
                    let _ = world.say_with(kind, yours, &all);
                }
                Step::Bytes(bytes) => drop(world.client.receive(world.now, &bytes)),
                Step::Wait(ms) => world.pass(Duration::from_millis(ms)),
                Step::Conflict => world.client.conflict(world.now, OURS),
                Step::Back => {
                    said = 1;
                    world.client.link_is_back(world.now);
                }
            }
            for action in world.actions() {
                match action {
                    Action::Send(..) => sent += 1,
                    Action::Use(lease) => {
                        prop_assert!(used.is_none_or(|used| used == lease.addr.addr));
                        prop_assert!(!matches!(lease.addr.addr.v4_octets()[0], 0 | 127 | 224..));
                        prop_assert!(world.now <= lease.end || lease.end == Instant::NEVER);
                        used = Some(lease.addr.addr);
                    }
                    Action::Lose(lease, _) => prop_assert_eq!(used.take(), Some(lease.addr.addr)),
                    Action::Probe(_) | Action::EndProbe(_) => {}
                }
            }
            prop_assert!(sent <= 1 + said, "{sent} at once");
            prop_assert!(world.client.deadline() > world.now);
        }
    }
}
