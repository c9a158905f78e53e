//! How connections begin and end.

use clearway_base::Duration;
use clearway_proto::{ConnOptions, Keepalive, ListenSpec};
use clearway_wire::Endpoint;

use super::transfer::{configure, plain};
use crate::conditions::pick;
use crate::stage::{self, A, B, PORT, Stage};
use crate::talk::{Act, Conversation, Expect};

/// Connections over which nothing is said.
pub(super) fn handshake(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 5) {
        let talk = stage.exchange(0, 0);
        let wait = stage.millis(0, 2_000);
        stage.converse(wait, talk);
    }
}

/// Up to two hundred connections, a few hundred bytes each; either side closes first.
pub(super) fn short(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(20, 200) {
        let (ask, answer) = (stage.rng.between(1, 500), stage.rng.between(0, 3_000));
        let (mut a, mut b) = (
            vec![Act::Send(ask), Act::AwaitRead(answer)],
            vec![Act::AwaitRead(ask), Act::Send(answer)],
        );
        match stage.rng.below(3) {
            0 => a.push(Act::AwaitEnd),
            1 => b.push(Act::AwaitEnd),
            _ => {}
        }
        let talk = Conversation::new(stage.part(a), stage.part(b), Expect::Whole);
        let wait = stage.millis(0, 3_000);
        stage.converse(wait, finishing(talk));
    }
}

/// Each side ends its stream when its acts are done.
fn finishing(mut talk: Conversation) -> Conversation {
    for part in &mut talk.parts {
        part.acts.push(Act::Shutdown);
    }
    talk
}

/// A request that ends with the end of the stream, and an answer after it.
pub(super) fn half_close(stage: &mut Stage) {
    stage.listen();
    let (ask, answer) = (stage.bytes(200_000), stage.bytes(1_000_000));
    let pause = stage.millis(0, 90_000);
    let a = vec![Act::Send(ask), Act::Shutdown, Act::AwaitEnd];
    let b = vec![Act::AwaitEnd, Act::Pause(pause), Act::Send(answer), Act::Shutdown];
    let (mut a, mut b) = (stage.part(a), stage.part(b));
    if stage.rng.chance(500_000) {
        std::mem::swap(&mut a, &mut b);
    }
    stage.converse(Duration::ZERO, Conversation::new(a, b, Expect::Whole));
}

/// Both FINs cross on the way.
pub(super) fn both_close(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 10) {
        let (n, m) = (stage.bytes(20_000), stage.bytes(20_000));
        let wait = stage.millis(0, 500);
        // Both wait for what the other says, then for the same length of time.
        let a = vec![
            Act::Send(n),
            Act::AwaitRead(m),
            Act::AwaitAcked,
            Act::Pause(Duration::from_secs(2)),
            Act::Shutdown,
        ];
        let b = vec![
            Act::Send(m),
            Act::AwaitRead(n),
            Act::AwaitAcked,
            Act::Pause(Duration::from_secs(2)),
            Act::Shutdown,
        ];
        let talk = Conversation::new(stage.part(a), stage.part(b), Expect::Whole);
        stage.converse(wait, talk);
    }
}

/// Nobody listens; both connect at the same instant, from and to known ports.
pub(super) fn simultaneous_open(stage: &mut Stage) {
    let (n, m) = (stage.bytes(100_000), stage.bytes(100_000));
    let mut talk = stage.exchange(n, m);
    // A SYN that arrives before the other side has connected is refused; then it was not
    // simultaneous.
    talk.expect = Expect::Prefix;
    let number = stage.world.ledger.borrow_mut().add(talk);
    let a = Endpoint::new(stage.addr(A), 4000);
    let b = Endpoint::new(stage.addr(B), 5000);
    let from_a = stage.connect_spec(Some(a), b);
    let from_b = stage.connect_spec(Some(b), a);
    let wait = Duration::from_millis(50);
    stage.world.after(wait, move |w| stage::connect(w, A, number, 0, from_a));
    stage.world.after(wait, move |w| stage::connect(w, B, number, 1, from_b));
}

/// The peer vanishes in the middle; whatever watches for that must notice.
pub(super) fn vanish(stage: &mut Stage) {
    for end in [A, B] {
        // Without a limit, everything would be said before anybody vanishes.
        let rules = &mut stage.world.links[0].ends[end].2.rules;
        rules.rate = if rules.rate == 0 { 20_000_000 } else { rules.rate.min(20_000_000) };
    }
    stage.listen();
    let n = stage.rng.between(10_000, 1_000_000);
    let mut a = plain(vec![
        Act::Send(n),
        Act::Pause(Duration::from_millis(10)),
        Act::Send(100_000_000),
        Act::Shutdown,
    ]);
    match stage.rng.below(3) {
        0 => a.options.user_timeout = stage.millis(1_000, 120_000),
        1 => {
            a.acts = vec![Act::Send(n), Act::AwaitEnd];
            a.options.keepalive = Some(Keepalive {
                idle: stage.millis(1_000, 60_000),
                interval: stage.millis(500, 10_000),
                count: stage.rng.between(1, 9) as u8,
            });
        }
        _ => {}
    }
    let b = plain(vec![Act::AwaitEnd]);
    stage.converse(Duration::ZERO, Conversation::new(a, b, Expect::Fails));
    let when = stage.millis(0, 3_000);
    stage.world.after(when, |w| stage::vanish(w, B, 1));
    stage.world.time_limit = Duration::from_secs(4_000);
}

/// Hours of silence on a connection with keepalive: it must live while the peer does.
pub(super) fn keepalive(stage: &mut Stage) {
    stage.listen();
    let (n, m) = (stage.bytes(10_000), stage.bytes(10_000));
    let silence = stage.millis(10_000, 7_200_000);
    let mut a = plain(vec![Act::Send(n), Act::Pause(silence), Act::Send(n), Act::Shutdown]);
    let b = plain(vec![Act::Send(m), Act::AwaitEnd, Act::Shutdown]);
    a.options.keepalive = Some(Keepalive {
        idle: stage.millis(1_000, 60_000),
        interval: stage.millis(1_000, 10_000),
        count: stage.rng.between(5, 9) as u8,
    });
    // A keepalive that gives up while the link loses everything is right; so the weather is good
    // during the silence.
    let expect = if stage.world.faults_end.since(stage.world.began) > Duration::from_secs(30) {
        Expect::Prefix
    } else {
        Expect::Whole
    };
    stage.converse(Duration::ZERO, Conversation::new(a, b, expect));
    stage.world.time_limit = stage.world.time_limit + silence;
}

/// One side resets; the other must be told, or see a prefix.
pub(super) fn abort(stage: &mut Stage) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 8) {
        let (n, m) = (stage.bytes(500_000), stage.bytes(500_000));
        let mut acts = vec![Act::Send(n)];
        acts.push(match stage.rng.below(3) {
            0 => Act::Pause(stage.millis(0, 500)),
            1 => Act::AwaitRead(m / 2),
            _ => Act::AwaitAcked,
        });
        acts.push(*pick(&mut stage.rng, &[Act::Abort, Act::Close]));
        let mut a = stage.part(acts);
        let mut b = stage.part(vec![Act::Send(m), Act::AwaitEnd, Act::Shutdown]);
        if stage.rng.chance(500_000) {
            std::mem::swap(&mut a, &mut b);
        }
        let wait = stage.millis(0, 1_000);
        stage.converse(wait, Conversation::new(a, b, Expect::Prefix));
    }
    // A reset that is lost is not repeated.
    super::network::watch(stage);
}

/// Connecting to a port without a listener fails, and soon.
pub(super) fn refused(stage: &mut Stage) {
    for i in 0..stage.rng.between(1, 20) {
        let talk = Conversation::new(plain(vec![Act::Send(10)]), plain(vec![]), Expect::Fails);
        let number = stage.world.ledger.borrow_mut().add(talk);
        let spec = stage.connect_spec(None, Endpoint::new(stage.addr(B), 1000 + i as u16));
        let wait = stage.millis(0, 1_000);
        stage.world.after(wait, move |w| stage::connect(w, A, number, 0, spec));
    }
}

/// The server closes first and keeps TIME-WAIT; the client comes back from the same port (RFC 6191,
/// RFC 1122 4.2.2.13).
pub(super) fn time_wait_reuse(stage: &mut Stage) {
    stage.listen();
    let local = Endpoint::new(stage.addr(A), 7777);
    let spec = stage.connect_spec(Some(local), stage.service());
    let mut at = Duration::ZERO;
    for _ in 0..stage.rng.between(2, 10) {
        let n = stage.rng.between(1, 5_000);
        let a = plain(vec![Act::Send(n), Act::AwaitEnd, Act::Shutdown]);
        let b = plain(vec![Act::AwaitRead(n), Act::Send(100), Act::Shutdown]);
        let number = stage.world.ledger.borrow_mut().add(Conversation::new(a, b, Expect::Prefix));
        stage.world.after(at, move |w| again(w, number, spec));
        at = at + stage.millis(500, 20_000);
    }
}

/// Connects, unless the connection before is still there.
fn again(w: &mut crate::World, number: usize, spec: clearway_proto::ConnectSpec) {
    let now = w.now;
    let h = &mut w.hosts[A];
    h.touched = true;
    match h.actor.connect(now, &mut h.stack, number, 0, spec) {
        Ok(_) => {}
        Err(clearway_proto::ConnectError::InUse) => {
            for fate in &mut w.ledger.borrow_mut().conversations[number].fates {
                fate.over = true;
            }
        }
        Err(why) => w.fail(format!("connecting again was refused: {why}")),
    }
}

/// A small backlog, an owner that takes its time, and many who come.
pub(super) fn overload(stage: &mut Stage) {
    let cookies = stage.rng.chance(500_000);
    let half_open = stage.rng.between(1, 20) as u32;
    configure(stage, |c| {
        c.tcp.syn_cookies = cookies;
        c.limits.half_open = half_open;
    });
    let backlog = stage.rng.between(1, 10) as u32;
    let pace = stage.millis(0, 200);
    stage.listen_with(backlog, pace);
    for _ in 0..stage.rng.between(20, 150) {
        let n = stage.rng.between(1, 2_000);
        let mut talk = stage.exchange(n, n);
        // Those who are not let in give up some time.
        talk.expect = Expect::Prefix;
        let wait = stage.millis(0, 2_000);
        stage.converse(wait, talk);
    }
    if stage.rng.chance(200_000) {
        close_shop(stage);
    }
    super::network::watch(stage);
}

/// The listener goes away while connections wait.
fn close_shop(stage: &mut Stage) {
    let when = stage.millis(500, 4_000);
    let listener = stage.listener;
    stage.world.after(when, move |w| {
        let h = &mut w.hosts[B];
        h.touched = true;
        if let Some(index) = listener {
            h.actor.unlisten(&mut h.stack, index);
        }
    });
}

/// A listener on another port, for scenarios with two services.
pub(super) fn listen_also(stage: &mut Stage, host: usize, port: u16, table: clearway_proto::Table) {
    let spec = ListenSpec {
        table,
        local: Endpoint::new(clearway_wire::Addr::ANY_V6, port),
        v6_only: false,
        backlog: 64,
        token: 0,
        options: ConnOptions::default(),
    };
    let h = &mut stage.world.hosts[host];
    if let Err(why) = h.actor.listen(&mut h.stack, spec, Duration::ZERO) {
        stage.world.fail(why);
    }
    let _ = PORT;
}
