//! The scenarios by name. Each is a few lines: who says what to whom, and what befalls the link
//! meanwhile.

use crate::conditions::{Wants, Weather};
use crate::stage::Stage;

mod attack;
mod datagram;
mod life;
mod network;
mod transfer;

/// A scenario.
pub struct Scenario {
    /// Its name: a behaviour.
    pub name: &'static str,
    /// What happens in it.
    pub what: &'static str,
    /// What it asks of its conditions.
    pub wants: Wants,
    /// Prepares it.
    pub build: fn(&mut Stage),
}

const ANY: Wants = Wants { weather: Weather::Foul, small: true, rate: true, trusting: true };
const CLEAR: Wants = Wants { weather: Weather::Clear, ..ANY };
const FAIR: Wants = Wants { weather: Weather::Fair, ..ANY };
/// For those who put frames onto the link by hand: checksums count there.
const WARY: Wants = Wants { trusting: false, ..ANY };

macro_rules! scenarios {
    ($($name:literal $wants:expr, $build:path, $what:literal;)+) => {
        /// All scenarios.
        pub const SCENARIOS: &[Scenario] = &[
            $(Scenario { name: $name, what: $what, wants: $wants, build: $build },)+
        ];
    };
}

scenarios! {
    "handshake"         ANY,   life::handshake,         "connections that say nothing";
    "bulk"              ANY,   transfer::bulk,          "much data both ways at once";
    "ping_pong"         ANY,   transfer::ping_pong,     "small requests and answers in turn";
    "short"             ANY,   life::short,             "many short connections";
    "half_close"        ANY,   life::half_close,
        "one side ends its stream, and the other goes on";
    "slow_reader"       ANY,   transfer::slow_reader,   "a reader that takes little at a time";
    "tiny_windows"      ANY,   transfer::tiny_windows,  "windows of a few bytes";
    "zero_window"       ANY,   transfer::zero_window,
        "a window that stays closed for long and opens";
    "both_close"        ANY,   life::both_close,
        "both sides end their streams at the same instant";
    "simultaneous_open" FAIR,  life::simultaneous_open, "both sides connect to each other";
    "vanish"            FAIR,  life::vanish,            "the peer vanishes";
    "keepalive"         FAIR,  life::keepalive,
        "a long silence, with and without a peer behind it";
    "abort"             ANY,   life::abort,             "a reset in the middle of a transfer";
    "refused"           FAIR,  life::refused,           "nobody listens";
    "time_wait_reuse"   FAIR,  life::time_wait_reuse,
        "the same two endpoints meet again and again";
    "urgent"            ANY,   transfer::urgent,        "urgent data";
    "overload"          FAIR,  life::overload,          "more connections than a listener takes";
    "blackhole"         FAIR,  network::blackhole,      "nothing gets through for a while";
    "partition"         FAIR,  network::partition,      "nothing gets through one way for a while";
    "reorder"           FAIR,  network::reorder,        "frames overtake each other all the time";
    "bursts"            FAIR,  network::bursts,         "losses in bursts";
    "mtu_change"        FAIR,  network::mtu_change,     "the MTU of the link changes in flight";
    "narrow_path"       WARY_FAIR, network::narrow_path,
        "a router on the way takes smaller packets, and says so";
    "mtu_black_hole"    WARY_FAIR, network::mtu_black_hole,
        "a router on the way drops what is too long, and says nothing";
    "link_flap"         FAIR,  network::link_flap,      "an interface goes down and up again";
    "route_change"      FAIR,  network::route_change,   "the route moves to another link in flight";
    "address_change"    FAIR,  network::address_change,
        "an address goes away under its connections";
    "vrf"               FAIR,  network::vrf,            "the same addresses in two routing tables";
    "crowd"             ANY,   network::crowd,
        "many hosts on one link, each talking to each";
    "loopback"          CLEAR, network::loopback,       "a host talks to itself";
    "flood"             WARY_FAIR, attack::flood,
        "a SYN flood from random sources beside honest connections";
    "garbage"           WARY,  attack::garbage,
        "random and mutated frames beside a transfer";
    "blind_reset"       WARY_FAIR, attack::blind,
        "a stranger who knows the endpoints guesses sequence numbers";
    "udp"               ANY,   datagram::exchange,
        "datagrams of all lengths, in fragments too";
    "udp_clear"         CLEAR, datagram::whole,         "datagrams on a link that loses nothing";
}

const WARY_FAIR: Wants = Wants { trusting: false, ..FAIR };

/// The scenario of a name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|s| s.name == name)
}

/// The scenario that a seed plays when none is asked for.
pub fn of_seed(seed: u64) -> &'static Scenario {
    &SCENARIOS[(seed % SCENARIOS.len() as u64) as usize]
}
