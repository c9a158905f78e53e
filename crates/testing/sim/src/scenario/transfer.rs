//! Transfers: data under way, fast, slow and in drops.

use clearway_base::Duration;
use clearway_proto::{Config, ConnOptions};

use crate::conditions::pick;
use crate::host::RxKind;
use crate::stage::{A, B, Stage};
use crate::talk::{Act, Conversation, Expect, Part, Reading};

/// One to four transfers of up to some megabytes each way.
pub(super) fn bulk(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 4) {
        let (from_a, from_b) = (stage.bytes(3_000_000), stage.bytes(3_000_000));
        let talk = stage.exchange(from_a, from_b);
        let wait = stage.millis(0, 3_000);
        stage.converse(wait, talk);
    }
}

/// Up to a hundred turns.
pub(super) fn ping_pong(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 5) {
        let turns = stage.rng.between(1, 100);
        let ask = stage.rng.between(1, 3_000);
        let most = stage.bytes(10_000 * turns);
        let answer = stage.rng.between(1, 10_000).min(most / turns + 1);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for i in 1..=turns {
            a.extend([Act::Send(ask), Act::AwaitRead(answer * i)]);
            b.extend([Act::AwaitRead(ask * i), Act::Send(answer)]);
        }
        a.push(Act::Shutdown);
        b.push(Act::AwaitEnd);
        let talk = Conversation::new(stage.part(a), stage.part(b), Expect::Whole);
        let wait = stage.millis(0, 500);
        stage.converse(wait, talk);
    }
}

/// One reader that takes a little, waits, and takes a little.
pub(super) fn slow_reader(stage: &mut Stage) {
    stage.listen();
    let step = stage.rng.between(1, 20_000);
    let every = stage.millis(1, 300);
    let most = (step * 400).min(1_000_000);
    let bytes = stage.bytes(most);
    let mut talk = stage.exchange(bytes, 0);
    talk.parts[1].reading = Reading::Slow(step as u32, every);
    stage.converse(Duration::ZERO, talk);
    // A second connection shows that a slow one does not hold up others.
    let n = stage.bytes(100_000);
    let other = stage.exchange(n, n);
    stage.converse(Duration::from_millis(100), other);
    stage.world.time_limit =
        stage.world.time_limit + every.times(most / step + 1) + Duration::from_secs(1000);
}

/// A receiver with no room to speak of.
pub(super) fn tiny_windows(stage: &mut Stage) {
    let limit = stage.rng.between(1, 2_000) as u32;
    replace_rx(stage, RxKind::Ring { chunks: 4096, chunk_len: 64, limit });
    stage.listen();
    let bytes = stage.bytes((u64::from(limit) * 100).min(50_000));
    let mut talk = stage.exchange(bytes, 1000);
    if stage.rng.chance(300_000) {
        talk.parts[1].reading =
            Reading::Slow(stage.rng.between(1, 500) as u32, Duration::from_millis(20));
    }
    stage.converse(Duration::ZERO, talk);
    stage.world.time_limit = Duration::from_secs(20_000);
}

/// A reader that sleeps, while the sender probes.
pub(super) fn zero_window(stage: &mut Stage) {
    let limit = stage.rng.between(100, 60_000) as u32;
    replace_rx(stage, RxKind::Ring { chunks: 4096, chunk_len: 256, limit });
    stage.listen();
    let sleep = stage.millis(1_000, 900_000);
    let bytes = u64::from(limit) * stage.rng.between(1, 4) + stage.rng.below(3);
    let mut talk = stage.exchange(bytes, 0);
    talk.parts[1].reading = Reading::Late(sleep);
    // A connection that its owner has let go of need not probe for ever; so `a` stays until `b` has
    // read everything.
    talk.parts[1].acts = vec![Act::AwaitEnd, Act::Shutdown];
    if stage.rng.chance(300_000) {
        talk.parts[0].options.keepalive = Some(clearway_proto::Keepalive {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(10),
            count: 5,
        });
    }
    stage.converse(Duration::ZERO, talk);
    stage.world.time_limit = stage.world.time_limit + sleep + Duration::from_secs(600);
}

/// Marks in the stream, some before others were reached.
pub(super) fn urgent(stage: &mut Stage) {
    stage.listen();
    let mut acts = Vec::new();
    for _ in 0..stage.rng.between(1, 10) {
        let n = stage.rng.between(1, 20_000);
        acts.push(if stage.rng.chance(500_000) { Act::Urgent(n) } else { Act::Send(n) });
        if stage.rng.chance(300_000) {
            acts.push(Act::Pause(stage.millis(1, 200)));
        }
    }
    acts.push(Act::Shutdown);
    let a = stage.part(acts);
    let mut b = stage.part(vec![Act::AwaitEnd]);
    b.reading =
        *pick(&mut stage.rng, &[Reading::Eager, Reading::Slow(1000, Duration::from_millis(5))]);
    stage.converse(Duration::ZERO, Conversation::new(a, b, Expect::Whole));
}

/// Gives `b` another receive store.
fn replace_rx(stage: &mut Stage, rx: RxKind) {
    stage.rebuild_host(B, |spec| spec.rx = rx);
}

/// A part without anything drawn by chance.
pub(super) fn plain(acts: Vec<Act>) -> Part {
    Part { options: ConnOptions::default(), ..Part::new(acts) }
}

/// Changes the configuration of both hosts.
pub(super) fn configure(stage: &mut Stage, change: impl Fn(&mut Config)) {
    for host in [A, B] {
        stage.rebuild_host(host, |spec| change(&mut spec.config));
    }
}
