use clearway_wire::ndp::{Dns, Options};
use proptest::prelude::*;

use super::*;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const FIRST: &str = "fe80::1";
const SECOND: &str = "fe80::2";
const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn second() -> Duration {
    Duration::from_secs(1)
}

/// `2001:db8::/64` for an hour, on the link and for addresses.
fn prefix() -> Prefix {
    Prefix {
        prefix: addr("2001:db8::"),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: DAY,
        preferred_s: HOUR,
    }
}

struct World {
    client: Client,
    now: Instant,
}

impl World {
    fn new() -> World {
        let now = Instant::from_millis(5_000);
        let setup = Setup { mac: MAC, mtu: 1500, secret: [9; 16], seed: 1 };
        World { client: Client::new(now, setup), now }
    }

    /// One that has its link-local address and has asked for routers.
    fn begun() -> World {
        let mut world = World::new();
        world.pass(2);
        world
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.client.poll(self.now)).collect()
    }

    /// All that is done until so many seconds are over.
    fn pass(&mut self, seconds: u64) -> Vec<Action> {
        let end = self.now + Duration::from_secs(seconds);
        let mut done = self.actions();
        while self.client.deadline() <= end {
            self.now = self.client.deadline().max(self.now);
            done.extend(self.actions());
        }
        self.now = end;
        done
    }

    fn say_of(&mut self, router: &str, lifetime_s: u16, options: &[NdOption<'_>]) -> Vec<Action> {
        let mut scratch = vec![0; 4096];
        let options = Options::build(&mut scratch, options);
        let advert = Advert {
            hop_limit: 0,
            managed: false,
            other: false,
            preference: Preference::Medium,
            lifetime_s,
            reachable_ms: 0,
            retrans_ms: 0,
            options,
        };
        self.client.receive(self.now, addr(router), &advert);
        self.actions()
    }

    fn say(&mut self, options: &[NdOption<'_>]) -> Vec<Action> {
        self.say_of(FIRST, 1800, options)
    }

    fn dropped(&self, why: Dropped) -> u64 {
        self.client.drops().find(|(name, _)| *name == why.name()).unwrap().1
    }

    /// The only address that is not link-local.
    fn address(&self) -> Address {
        assert_eq!(self.client.addresses().len(), 2);
        self.client.addresses()[1]
    }

    fn left(&self, at: Instant) -> u64 {
        at.since(self.now).as_secs()
    }
}

fn to(prefix: &str, router: &str) -> Way {
    Way { to: cidr(prefix), router: Some(addr(router)) }
}

fn on_link(prefix: &str) -> Way {
    Way { to: cidr(prefix), router: None }
}

#[test]
fn an_interface_probes_for_its_link_local_address_and_asks_for_routers() {
    let mut world = World::new();
    assert!(world.client.deadline() < world.now + Duration::from_millis(SPREAD_MS));
    let done = world.pass(2);
    let Action::Probe(ours) = done.iter().find(|a| matches!(a, Action::Probe(_))).unwrap() else {
        panic!("no probe")
    };
    let ours = *ours;
    assert!(ours.is_link_local() && !ours.octets().ends_with(&[0xff, 0xfe, 0, 0, 1]), "{ours}");
    let mut rest = done.clone();
    rest.retain(|action| *action != Action::Solicit);
    let local = Cidr { addr: ours, prefix_len: 64 };
    assert_eq!(rest, [Action::Probe(ours), Action::EndProbe(ours), Action::Add(local)]);
    assert_eq!(done.len(), 4, "{done:?}");
    let address = world.client.addresses()[0];
    assert_eq!((address.phase, address.valid), (Phase::Preferred, Instant::NEVER));
}

#[test]
fn an_advertised_prefix_becomes_an_address_after_a_second_without_an_answer() {
    let mut world = World::begun();
    let done = world.say(&[NdOption::Prefix(prefix()), NdOption::Mtu(1400)]);
    let ways = vec![on_link("2001:db8::/64"), to("::/0", FIRST)];
    assert!(done.contains(&Action::Ways(ways.clone())), "{done:?}");
    assert!(done.contains(&Action::Mtu(Some(1400))), "{done:?}");
    assert_eq!(world.client.ways(), ways);
    assert_eq!(world.address().phase, Phase::Tentative);
    let begun = world.now;
    let ours = world.address().cidr;
    assert!(cidr("2001:db8::/64").contains(&ours.addr));
    let mut probed = None;
    while world.address().phase == Phase::Tentative {
        world.now = world.client.deadline();
        for action in world.actions() {
            match action {
                Action::Probe(addr) if addr == ours.addr => probed = Some(world.now),
                Action::Add(added) => assert_eq!(added, ours),
                _ => {}
            }
        }
    }
    assert_eq!(world.now.since(probed.unwrap()), PROBE_WAIT);
    assert!(world.now.since(begun) <= PROBE_WAIT + Duration::from_millis(SPREAD_MS));
    // The same again changes nothing.
    world.now = begun + second() + second();
    assert_eq!(world.say(&[NdOption::Prefix(prefix()), NdOption::Mtu(1400)]), []);
}

#[test]
fn an_address_that_somebody_has_gives_way_to_another_and_after_three_others_to_none() {
    let mut world = World::begun();
    world.say(&[NdOption::Prefix(prefix())]);
    let mut tried = Vec::new();
    for _ in 0..=OTHERS {
        let wanted = world.address().cidr.addr;
        assert!(!tried.contains(&wanted));
        assert!(prefix().prefix.shares_prefix(&wanted, 64));
        tried.push(wanted);
        // Whatever time was drawn, its probe has left a second later.
        while !world.address().is_probed {
            world.now = world.client.deadline();
            world.actions();
        }
        world.client.conflict(world.now, wanted);
        assert_eq!(world.actions(), [Action::EndProbe(wanted)]);
    }
    assert_eq!(world.address().phase, Phase::Duplicate);
    let later = world.pass(60);
    assert!(!later.iter().any(|a| matches!(a, Action::Probe(_) | Action::Add(_))), "{later:?}");
    // Another advertisement of the prefix does not begin it anew.
    world.say(&[NdOption::Prefix(prefix())]);
    let later = world.pass(60);
    assert!(!later.iter().any(|a| matches!(a, Action::Probe(_) | Action::Add(_))), "{later:?}");
    // Who claims an address that is ours already is none of this.
    let local = world.client.addresses()[0];
    world.client.conflict(world.now, local.cidr.addr);
    assert_eq!(world.client.addresses()[0].phase, Phase::Preferred);
}

#[test]
fn an_address_is_deprecated_and_then_taken_away_when_its_times_are_over() {
    let mut world = World::begun();
    world.say(&[NdOption::Prefix(Prefix { valid_s: 300, preferred_s: 100, ..prefix() })]);
    world.pass(2);
    let ours = world.address().cidr.addr;
    assert_eq!(world.pass(97), []);
    assert_eq!(world.pass(2), [Action::Prefer(ours, false)]);
    assert_eq!(world.address().phase, Phase::Deprecated);
    // It is preferred again when a router says so.
    let more = Prefix { valid_s: 300, preferred_s: 100, ..prefix() };
    assert_eq!(world.say(&[NdOption::Prefix(more)]), [Action::Prefer(ours, true)]);
    let none = Prefix { valid_s: 300, preferred_s: 0, ..prefix() };
    assert_eq!(world.say(&[NdOption::Prefix(none)]), [Action::Prefer(ours, false)]);
    let end = world.pass(301);
    let ways = vec![to("::/0", FIRST)];
    assert_eq!(end, [Action::Remove(ours), Action::Ways(ways)]);
    assert_eq!(world.client.addresses().len(), 1);
}

#[test]
fn a_valid_lifetime_is_not_cut_below_two_hours() {
    let mut world = World::begun();
    let with = |valid_s| NdOption::Prefix(Prefix { valid_s, preferred_s: 0, ..prefix() });
    // (what was left, what is said, what is left then, whether it was counted)
    for (before, said, after, counted) in [
        (DAY, 2 * DAY, 2 * DAY, false),
        (DAY, 3 * HOUR, 3 * HOUR, false),
        (DAY, HOUR, 2 * HOUR, true),
        (DAY, 0, 2 * HOUR, true),
        (HOUR, 0, HOUR, true),
        (HOUR, 60, HOUR, true),
        (60, HOUR, HOUR, false),
        (60, 120, 120, false),
    ] {
        world.client.addresses.truncate(1);
        world.say(&[with(before)]);
        let counted_before = world.dropped(Dropped::ShortLifetime);
        world.say(&[with(said)]);
        assert_eq!(world.left(world.address().valid), u64::from(after), "{before} {said}");
        let count = world.dropped(Dropped::ShortLifetime) - counted_before;
        assert_eq!(count, u64::from(counted), "{before} {said}");
    }
    world.client.addresses.truncate(1);
    world.say(&[with(u32::MAX)]);
    assert_eq!(world.address().valid, Instant::NEVER);
    world.say(&[with(0)]);
    assert_eq!(world.left(world.address().valid), 2 * u64::from(HOUR));
}

#[test]
fn a_prefix_on_the_link_ends_at_once_and_one_that_is_not_named_so_changes_nothing() {
    let mut world = World::begun();
    world.say(&[NdOption::Prefix(prefix())]);
    world.pass(2);
    let silent = Prefix { on_link: false, ..prefix() };
    assert_eq!(world.say(&[NdOption::Prefix(silent)]), []);
    assert!(world.client.ways().contains(&on_link("2001:db8::/64")));
    let gone = Prefix { valid_s: 0, preferred_s: 0, ..prefix() };
    let done = world.say(&[NdOption::Prefix(gone)]);
    assert!(done.contains(&Action::Ways(vec![to("::/0", FIRST)])), "{done:?}");
    assert!(world.address().is_used(), "the address has two hours");
    // One that is for addresses alone is no way.
    let other = Prefix { prefix: addr("2001:db8:7::"), on_link: false, ..prefix() };
    world.say(&[NdOption::Prefix(other)]);
    assert_eq!(world.client.ways(), [to("::/0", FIRST)]);
    assert_eq!(world.client.addresses().len(), 3);
}

#[test]
fn routers_are_asked_less_and_less_often_until_one_answers() {
    let mut world = World::new();
    let mut asked = Vec::new();
    while asked.len() < 16 {
        world.now = world.client.deadline();
        if world.actions().contains(&Action::Solicit) {
            asked.push(world.now);
        }
    }
    let waits: Vec<u64> = asked.windows(2).map(|two| two[1].since(two[0]).as_millis()).collect();
    assert!((3_600..=4_400).contains(&waits[0]), "{waits:?}");
    for two in waits.windows(2) {
        let least = (two[0] * 19 / 10 - 1).min(LONGEST_WAIT_MS * 9 / 10);
        assert!(two[1] >= least && two[1] <= LONGEST_WAIT_MS * 11 / 10, "{waits:?}");
    }
    assert!(waits.last().is_some_and(|last| *last >= LONGEST_WAIT_MS * 9 / 10));
    // A router that is none is not an answer; one that is ends it.
    world.say_of(FIRST, 0, &[]);
    assert!(world.pass(2 * 3600).contains(&Action::Solicit));
    world.say_of(FIRST, 9000, &[]);
    assert!(!world.pass(8000).contains(&Action::Solicit));
    // When the last one goes they are asked anew, and so they are when the link comes back.
    assert!(world.pass(1010).contains(&Action::Solicit));
    world.say_of(FIRST, 9000, &[]);
    world.client.link_is_back(world.now);
    assert_eq!(world.actions(), [Action::Solicit]);
}

#[test]
fn the_default_route_goes_to_the_next_router_when_one_ends_or_is_lost() {
    let mut world = World::begun();
    world.say_of(FIRST, 1800, &[]);
    assert_eq!(world.say_of(SECOND, 1800, &[]), []);
    // A lifetime of 0.
    let second = vec![to("::/0", SECOND)];
    assert_eq!(world.say_of(FIRST, 0, &[]), [Action::Ways(second.clone())]);
    world.say_of(FIRST, 60, &[]);
    // One that does not answer, until it says something.
    world.client.lost(world.now, addr(SECOND));
    assert_eq!(world.actions(), [Action::Ways(vec![to("::/0", FIRST)])]);
    // Its time is over, and none is left but one that does not answer.
    assert_eq!(world.pass(61), [Action::Ways(second.clone())]);
    world.say_of(FIRST, 60, &[]);
    assert_eq!(world.client.router(), Some(addr(FIRST)));
    world.client.lost(world.now, addr(FIRST));
    assert_eq!(world.client.router(), Some(addr(SECOND)), "the one that was lost first");
    world.say_of(FIRST, 60, &[]);
    assert_eq!(world.client.router(), Some(addr(FIRST)));
    world.say_of(FIRST, 0, &[]);
    world.actions();
    assert_eq!(world.say_of(SECOND, 0, &[]), [Action::Ways(Vec::new())]);
}

#[test]
fn a_router_that_is_preferred_goes_before_others() {
    let mut world = World::begun();
    let default = |preference, lifetime_s| {
        let (prefix, prefix_len) = (Addr::ANY_V6, 0);
        NdOption::Route(RouteInfo { prefix, prefix_len, preference, lifetime_s })
    };
    world.say_of(FIRST, 1800, &[]);
    world.say_of(SECOND, 1800, &[default(Some(Preference::High), 600)]);
    assert_eq!(world.client.router(), Some(addr(SECOND)));
    assert_eq!(world.left(world.client.routers()[1].until), 600);
    world.say_of(SECOND, 1800, &[default(Some(Preference::Low), 600)]);
    assert_eq!(world.client.router(), Some(addr(FIRST)));
    world.say_of(FIRST, 1800, &[default(Some(Preference::Low), 0)]);
    assert_eq!(world.client.router(), Some(addr(SECOND)));
}

#[test]
fn more_specific_routes_have_routers_of_their_own() {
    let mut world = World::begun();
    let route = |prefix: &str, preference| {
        let Cidr { addr: prefix, prefix_len } = cidr(prefix);
        NdOption::Route(RouteInfo { prefix, prefix_len, preference, lifetime_s: 600 })
    };
    let medium = Some(Preference::Medium);
    world.say_of(FIRST, 0, &[route("2001:db8:5:6::/48", medium)]);
    world.say_of(SECOND, 1800, &[route("2001:db8:5::/48", Some(Preference::High))]);
    assert_eq!(world.client.ways(), [to("2001:db8:5::/48", SECOND), to("::/0", SECOND)]);
    world.client.lost(world.now, addr(SECOND));
    assert_eq!(world.client.ways(), [to("2001:db8:5::/48", FIRST), to("::/0", SECOND)]);
    for (prefix, preference) in
        [("fe80::/64", medium), ("ff00::/8", medium), ("2001:db8:6::/48", None)]
    {
        world.say_of(FIRST, 0, &[route(prefix, preference)]);
    }
    assert_eq!(world.dropped(Dropped::BadRoute), 3);
    assert_eq!(world.client.ways().len(), 2);
    let done = world.pass(601);
    assert_eq!(done, [Action::Ways(vec![to("::/0", SECOND)])]);
}

#[test]
fn servers_of_names_last_as_long_as_it_is_said() {
    let mut world = World::begun();
    let one = *addr("2001:db8::53").octets();
    let bad = [*addr("ff02::1").octets(), *addr("::1").octets(), *Addr::ANY_V6.octets()].concat();
    let servers = |seconds, octets| NdOption::Dns(Dns::new(seconds, octets).unwrap());
    world.say(&[servers(60, &one), servers(60, &bad)]);
    let shown: Vec<Addr> = world.client.servers().iter().map(|s| s.addr).collect();
    assert_eq!(shown, [addr("2001:db8::53")]);
    assert_eq!(world.dropped(Dropped::BadServer), 3);
    world.pass(59);
    world.say(&[servers(60, &one)]);
    world.pass(59);
    assert_eq!(world.client.servers().len(), 1);
    world.pass(2);
    assert_eq!(world.client.servers().len(), 0);
    world.say(&[servers(60, &one)]);
    world.say(&[servers(0, &one)]);
    assert_eq!(world.client.servers().len(), 0);
    let many: Vec<u8> = (0..40u8).flat_map(|n| [0x20, n].into_iter().chain([1; 14])).collect();
    world.say(&[servers(60, &many)]);
    assert_eq!(world.client.servers().len(), limits::DNS);
    assert_eq!(world.dropped(Dropped::ServersFull), 40 - limits::DNS as u64);
    world.say(&[NdOption::Other { kind: 25, body: &[0; 6] }]);
    assert_eq!(world.dropped(Dropped::BadOption), 1);
}

#[test]
fn what_cannot_be_is_dropped_under_its_name_and_the_rest_is_taken() {
    let mut world = World::begun();
    let p = prefix();
    for (why, options) in [
        (Dropped::BadPrefix, Prefix { prefix: addr("fe80::"), ..p }),
        (Dropped::BadPrefix, Prefix { prefix: addr("ff02::"), ..p }),
        (Dropped::BadPrefix, Prefix { prefix: addr("::"), ..p }),
        (Dropped::BadPrefix, Prefix { prefix_len: 129, ..p }),
        (Dropped::BadPrefix, Prefix { prefix_len: 0, ..p }),
        (Dropped::BadPrefixLength, Prefix { prefix_len: 63, on_link: false, ..p }),
        (Dropped::BadPrefixLength, Prefix { prefix_len: 128, on_link: false, ..p }),
        (Dropped::BadLifetimes, Prefix { preferred_s: DAY + 1, on_link: false, ..p }),
    ] {
        let before = world.dropped(why);
        world.say(&[NdOption::Prefix(options)]);
        assert_eq!(world.dropped(why), before + 1, "{options:?}");
        assert_eq!(world.client.addresses().len(), 1, "{options:?}");
        assert_eq!(world.client.ways(), [to("::/0", FIRST)], "{options:?}");
    }
    // An unknown prefix that is over already is nothing, and no mistake.
    let over = Prefix { valid_s: 0, preferred_s: 0, ..p };
    let before: u64 = world.client.drops().map(|(_, count)| count).sum();
    world.say(&[NdOption::Prefix(over)]);
    assert_eq!(world.client.drops().map(|(_, count)| count).sum::<u64>(), before);
    assert_eq!(world.client.addresses().len(), 1);
    for mtu in [0, 1, 1279, 1501, u32::MAX] {
        world.say(&[NdOption::Mtu(mtu)]);
    }
    assert_eq!((world.dropped(Dropped::BadMtu), world.client.mtu()), (5, None));
    let done = world.say(&[NdOption::Mtu(1), NdOption::Prefix(p), NdOption::Mtu(1280)]);
    assert!(done.contains(&Action::Mtu(Some(1280))), "{done:?}");
    assert_eq!(world.client.addresses().len(), 2);
    world.say_of("2001:db8::1", 1800, &[]);
    assert_eq!(world.dropped(Dropped::NotLinkLocal), 1);
    assert_eq!(world.client.routers().len(), 1);
}

#[test]
fn a_flood_of_prefixes_routes_and_routers_ends_at_the_limits() {
    let mut world = World::begun();
    for n in 0..100u8 {
        let octets = [0x20, 1, 0xd, 0xb8, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0, 0];
        let prefix = Prefix { prefix: Addr::v6(octets), ..prefix() };
        let router = Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, n]);
        let route = RouteInfo {
            prefix: Addr::v6(octets),
            prefix_len: 65,
            preference: Some(Preference::Low),
            lifetime_s: 60,
        };
        let options = [NdOption::Prefix(prefix), NdOption::Route(route)];
        world.say_of(&router.to_string(), 1800, &options);
    }
    assert_eq!(world.client.addresses().len(), 1 + limits::ADDRESSES);
    assert_eq!(world.client.routers().len(), limits::ROUTERS);
    let over = |most: usize| 100 - most as u64;
    assert_eq!(world.dropped(Dropped::AddressesFull), over(limits::ADDRESSES));
    assert_eq!(world.dropped(Dropped::RoutersFull), over(limits::ROUTERS));
    assert_eq!(world.dropped(Dropped::PrefixesFull), over(limits::PREFIXES));
    assert_eq!(world.dropped(Dropped::RoutesFull), over(limits::ROUTES));
    assert_eq!(world.client.ways().len(), limits::PREFIXES + limits::ROUTES + 1);
}

#[test]
fn what_was_given_is_given_up_when_it_stops() {
    let mut world = World::begun();
    world.say(&[NdOption::Prefix(prefix()), NdOption::Mtu(1400)]);
    world.pass(2);
    let second = Prefix { prefix: addr("2001:db8:2::"), ..prefix() };
    world.say(&[NdOption::Prefix(second)]);
    world.now += Duration::from_millis(SPREAD_MS);
    world.actions();
    let all: Vec<Addr> = world.client.addresses().iter().map(|a| a.cidr.addr).collect();
    world.client.stop();
    let done = world.actions();
    let expected = [
        Action::Remove(all[0]),
        Action::Remove(all[1]),
        Action::EndProbe(all[2]),
        Action::Ways(Vec::new()),
        Action::Mtu(None),
    ];
    assert_eq!(done, expected);
    assert_eq!(world.client.deadline(), Instant::NEVER);
    assert_eq!(world.say(&[NdOption::Prefix(prefix())]), []);
}

#[test]
fn dhcpv6_and_the_hop_limit_are_noted() {
    let mut world = World::begun();
    let options = Options::NONE;
    let mut advert = Advert {
        hop_limit: 30,
        managed: true,
        other: false,
        preference: Preference::Low,
        lifetime_s: 1,
        reachable_ms: 0,
        retrans_ms: 0,
        options,
    };
    world.client.receive(world.now, addr(FIRST), &advert);
    assert_eq!((world.client.by_dhcp(), world.client.hop_limit()), ((true, false), Some(30)));
    advert = Advert { hop_limit: 0, managed: false, other: true, ..advert };
    world.client.receive(world.now, addr(FIRST), &advert);
    assert_eq!((world.client.by_dhcp(), world.client.hop_limit()), ((false, true), Some(30)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever routers say and whenever, nothing panics, bounds hold, and what the owner was told
    /// of is what there is.
    #[test]
    fn no_router_makes_it_use_more_than_it_may(
        said in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..200), 0u8..12, 0u64..4000, any::<bool>()),
            1..40,
        ),
    ) {
        let mut world = World::new();
        let mut used: Vec<Addr> = Vec::new();
        for (bytes, router, wait, is_lost) in said {
            let mut message = vec![0; 16];
            message[..8].copy_from_slice(&[134, 0, 0, 0, router, router << 4, 0, wait as u8]);
            // Options that are well formed more often than by chance.
            for chunk in bytes.chunks_exact(32) {
                let kinds: [(u8, u8); 4] = [(3, 4), (24, 3), (25, 3), (5, 1)];
                let (kind, units) = kinds[usize::from(chunk[0] % 4)];
                let mut option = chunk.to_vec();
                option.truncate(usize::from(units) * 8);
                (option[0], option[1]) = (kind, units);
                message.extend(option);
            }
            let source = Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, router]);
            if let Ok(advert) = Advert::read(&message) {
                world.client.receive(world.now, source, &advert);
            }
            if is_lost {
                world.client.lost(world.now, source);
            }
            let tentative = world.client.addresses().iter().find(|a| a.is_probed);
            if let Some(addr) = tentative.map(|a| a.cidr.addr).filter(|_| is_lost) {
                world.client.conflict(world.now, addr);
            }
            let mut done = world.actions();
            done.extend(world.pass(wait));
            for action in done {
                match action {
                    Action::Add(cidr) => {
                        prop_assert!(!used.contains(&cidr.addr));
                        used.push(cidr.addr);
                    }
                    Action::Remove(addr) => {
                        prop_assert!(used.contains(&addr));
                        used.retain(|other| *other != addr);
                    }
                    Action::Prefer(addr, _) => prop_assert!(used.contains(&addr)),
                    _ => {}
                }
            }
            let addresses = world.client.addresses();
            prop_assert!(addresses.len() <= 1 + limits::ADDRESSES);
            prop_assert!(world.client.routers().len() <= limits::ROUTERS);
            prop_assert!(world.client.servers().len() <= limits::DNS);
            let now_used: Vec<Addr> =
                addresses.iter().filter(|a| a.is_used()).map(|a| a.cidr.addr).collect();
            let mut sorted = (now_used, used.clone());
            sorted.0.sort();
            sorted.1.sort();
            prop_assert_eq!(sorted.0, sorted.1);
        }
    }
}
