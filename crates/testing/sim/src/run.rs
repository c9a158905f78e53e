//! One run of one seed: the stage is set, the scenario plays, and what must hold at the end is
//! looked at.

use std::path::Path;

use clearway_base::{Duration, Instant, Rng};
use clearway_wire::Seq;

use crate::conditions::{NearWrap, Weather};
use crate::frame::Framing;
use crate::pcap::LinkType;
use crate::recorder::{Recorder, last_lines};
use crate::scenario::Scenario;
use crate::stage::Stage;
use crate::talk::Conversation;
use crate::world::{Failure, World};

/// What a run was, when it held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Frames that stacks handed to links.
    pub frames: u64,
    /// Turns of hosts.
    pub turns: u64,
    /// Stacks that were exported and made anew.
    pub renewed: u64,
    /// Virtual time.
    pub lasted: Duration,
    /// A number that two runs share only when every packet of both was the same at the same time.
    pub digest: u64,
}

/// After all conversations: longer than TIME-WAIT, FIN-WAIT-2, and the last retransmission of a
/// connection without owner or peer.
const DRAIN: Duration = Duration::from_secs(4_000);

/// Makes the chance of exports another than that of everything else.
const EXPORTS: u64 = 0x6578_706f_7274;

/// Time begins here, unless sequence numbers are to begin elsewhere.
const BEGAN: Instant = Instant::from_millis(1_000);

/// Sets the stage for a seed and a scenario.
fn prepare(seed: u64, scenario: &Scenario, began: Instant) -> Stage {
    // Scenarios do not share their luck, so that one seed is as many runs as there are scenarios.
    let salt =
        scenario.name.bytes().fold(0u64, |h, b| h.wrapping_mul(131).wrapping_add(u64::from(b)));
    let mut rng = Rng::seed(seed ^ salt.rotate_left(32));
    let mut stage = Stage::set(&mut rng, &scenario.wants, began);
    (scenario.build)(&mut stage);
    stage
}

/// When time has to begin for the first sequence number of a connection to be the one wanted.
/// Sequence numbers grow by one in four microseconds (RFC 6528 3), so a first run tells how far off
/// they are.
fn beginning(seed: u64, scenario: &Scenario) -> Instant {
    let mut stage = prepare(seed, scenario, BEGAN);
    let Some(NearWrap { number, before, accepting }) = stage.conditions.near else { return BEGAN };
    let found = |w: &World| w.observer.first_number(accepting).is_some();
    stage.world.run(BEGAN + Duration::from_secs(30), found);
    let Some(Seq(first)) = stage.world.observer.first_number(accepting) else { return BEGAN };
    let ticks = number.wrapping_sub(before).wrapping_sub(first);
    BEGAN + Duration::from_micros(u64::from(ticks) * 4)
}

/// How a scenario is played.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// As it is.
    #[default]
    Plain,
    /// At random instants, every stack is exported, and a new one goes on with what was written.
    Export,
}

/// Plays a scenario with a seed. With `capture`, packets are recorded, there and in the lines that
/// come with a failure.
pub fn play(
    seed: u64,
    scenario: &Scenario,
    mode: Mode,
    capture: Option<&Path>,
) -> Result<Summary, (Failure, Vec<String>)> {
    let began = beginning(seed, scenario);
    let mut stage = prepare(seed, scenario, began);
    if mode == Mode::Export {
        stage.world.exports_may_lose = scenario.wants.weather != Weather::Clear;
        stage.world.renew_stacks(Rng::seed(seed ^ EXPORTS));
    }
    if let Some(path) = capture {
        let interfaces = interfaces(&stage.world);
        match Recorder::new(Some(path), interfaces.clone()) {
            Ok(recorder) => stage.world.recorder = Some(recorder),
            Err(_) => stage.world.recorder = Recorder::new(None, interfaces).ok(),
        }
        let text = format!("{:?}", stage.conditions);
        stage.world.remark(|| text);
    }
    run(&mut stage.world);
    let w = stage.world;
    match w.failure {
        None => {
            let lasted = w.now.since(w.began);
            Ok(Summary {
                frames: w.frames,
                turns: w.turns,
                renewed: w.renewed,
                lasted,
                digest: w.digest,
            })
        }
        Some(failure) => {
            let lines = if w.recorder.is_some() { last_lines() } else { Vec::new() };
            Err((failure, lines))
        }
    }
}

fn interfaces(w: &World) -> Vec<(String, LinkType)> {
    let mut all = Vec::new();
    for host in &w.hosts {
        for (i, port) in host.ports.iter().enumerate() {
            let link =
                if port.framing == Framing::Ethernet { LinkType::Ethernet } else { LinkType::Raw };
            all.push((format!("{}.{i}", host.name), link));
        }
    }
    all
}

/// Runs a prepared world to its end and looks at what must hold.
pub fn run(w: &mut World) {
    let longest = w.ledger.borrow().conversations.iter().map(|c| c.time(&w.bounds)).max();
    let limit = w.time_limit + longest.unwrap_or_default();
    let over = |w: &World| {
        w.now >= w.busy_until && w.ledger.borrow().conversations.iter().all(|c| c.is_over())
    };
    if !w.run(w.faults_end.max(w.busy_until) + limit, over) {
        let stuck: Vec<String> = stuck(w);
        if !stuck.is_empty() {
            w.fail(format!("not over {limit} after the last fault: {}", stuck.join("; ")));
        }
    }
    if w.failure.is_some() {
        return;
    }
    judge(w);
    for look in std::mem::take(&mut w.last_looks) {
        look(w);
    }
    if w.failure.is_none() {
        drain(w);
    }
}

fn stuck(w: &World) -> Vec<String> {
    let ledger = w.ledger.borrow();
    let open = |c: &Conversation| !c.is_over() && !c.was_never_heard_of();
    let all = ledger.conversations.iter().enumerate();
    all.filter(|(_, c)| open(c))
        .take(3)
        .map(|(i, c)| format!("conversation {i}: a {:?}, b {:?}", c.fates[0], c.fates[1]))
        .collect()
}

fn judge(w: &mut World) {
    let verdicts: Vec<String> = {
        let ledger = w.ledger.borrow();
        let each = ledger.conversations.iter().enumerate();
        each.filter_map(|(i, c)| c.judge().err().map(|why| format!("conversation {i}: {why}")))
            .collect()
    };
    if let Some(first) = verdicts.into_iter().next() {
        w.fail(first);
    }
}

/// Everything is closed; time goes on until nothing may be left, and then nothing may be left.
fn drain(w: &mut World) {
    w.end_of_exports = w.now;
    for h in &mut w.hosts {
        h.actor.close_all(&mut h.stack);
        h.touched = true;
    }
    let until = w.now + DRAIN;
    w.run(until, |_| false);
    if w.failure.is_some() {
        return;
    }
    for host in 0..w.hosts.len() {
        if let Err(what) = left_over(w, host) {
            let name = w.hosts[host].name;
            w.fail(format!("host {name}, long after the end: {what}"));
        }
    }
}

/// What a host still holds, and whether its packets are all accounted for.
fn left_over(w: &World, host: usize) -> Result<(), String> {
    let h = &w.hosts[host];
    h.is_accounted_for()?;
    if h.gone {
        return Ok(());
    }
    let (rx, tx, out) = (h.open_rx.count(), h.open_tx.count(), h.pool.out());
    if rx + tx + out > 0 {
        return Err(format!(
            "{rx} receive queues, {tx} transmit queues and {out} packet buffers are in use"
        ));
    }
    if h.stack.wants_emit() {
        return Err("something waits to be sent".to_owned());
    }
    Ok(())
}
