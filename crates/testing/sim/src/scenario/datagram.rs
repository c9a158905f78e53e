//! UDP: datagrams of all lengths, answered by the other side.

use clearway_base::Duration;
use clearway_proto::UdpSpec;
use clearway_wire::{Addr, Endpoint};

use crate::stage::{A, B, Stage};
use crate::world::World;

const ECHO: u16 = 7;

/// Datagrams under any weather: each comes as it was sent or not at all.
pub(super) fn exchange(stage: &mut Stage) {
    let sent = post(stage, 60_000);
    let _ = sent;
}

/// Without faults all come, and all answers.
pub(super) fn whole(stage: &mut Stage) {
    // More than a few datagrams at once would find the queues of a slow link full.
    for end in 0..2 {
        let rules = &mut stage.world.links[0].ends[end].2.rules;
        rules.rate = 0;
    }
    let count = post(stage, 9_000);
    stage.world.finally(move |w| all_came(w, count));
}

/// `a` sends to `b`, which answers.
fn post(stage: &mut Stage, longest: u64) -> u64 {
    let count = stage.rng.between(1, 60);
    let table = stage.table();
    let any = if stage.conditions.v6 { Addr::ANY_V6 } else { Addr::ANY_V4 };
    let (here, there) = (Endpoint::new(any, 0), Endpoint::new(any, ECHO));
    for (host, local, answers) in [(A, here, false), (B, there, true)] {
        let h = &mut stage.world.hosts[host];
        let spec = UdpSpec { table, local, token: 0, v6_only: false };
        if let Err(why) = h.actor.datagrams.open(&mut h.stack, spec, answers) {
            stage.world.fail(format!("a UDP socket was refused: {why:?}"));
        }
    }
    let to = Endpoint::new(stage.addr(B), ECHO);
    let mut at = Duration::ZERO;
    for number in 0..count {
        // The first one waits for a link address, where there is room for a few packets and not for
        // many fragments.
        let len = match number {
            0 => stage.rng.between(8, 1_000),
            _ if stage.rng.chance(500_000) => stage.rng.between(8, 1_400),
            _ => stage.rng.between(8, longest),
        };
        stage.world.after(at, move |w| {
            let h = &mut w.hosts[A];
            h.touched = true;
            h.actor.datagrams.send(&mut h.stack, 0, to, number, len as usize);
        });
        // Time for the link address to become known.
        at = at + if number == 0 { Duration::from_secs(2) } else { stage.millis(2, 300) };
    }
    let end = stage.world.began + at + Duration::from_secs(60);
    stage.world.quiet_until(end);
    count
}

fn all_came(w: &mut World, count: u64) {
    for (host, what) in [(B, "datagrams"), (A, "answers")] {
        let post = w.hosts[host].actor.datagrams.post(0);
        let (got, twice) = (post.received.len() as u64, post.received.values().any(|n| *n > 1));
        if got != count || twice {
            w.fail(format!("{got} of {count} {what} came, twice: {twice}"));
        }
    }
}
