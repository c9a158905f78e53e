//! Conversations that are led by a closure.

use std::marker::PhantomData;

use clearway_base::Instant;
use clearway_engine::{Ended, Io, Next, Service, Source, Talks};
use clearway_wire::Endpoint;

/// Conversations at a time that [`serve`] leads at most.
const PLACES: u32 = 65_536;

/// Conversations at a time that [`connect`] leads at most.
const MOST_PLACES: u32 = 1 << 22;

/// How many conversations there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// That began.
    pub begun: u64,
    /// That ended, however they did.
    pub ended: u64,
    /// Of these, that failed, were stopped, or never began for want of room.
    pub failed: u64,
}

/// A [`Service`] whose conversations are led by a closure, with a state of type `S` for each.
pub struct Conversation<S, F> {
    step: F,
    tally: Tally,
    /// Finished when so many have ended.
    wanted: Option<u64>,
    state: PhantomData<fn() -> S>,
}

impl<S: Default, F: FnMut(&mut S, &mut dyn Io) -> Next> Service for Conversation<S, F> {
    type Talk = S;
    type Report = Tally;

    fn begin(&mut self, _now: Instant) -> S {
        self.tally.begun += 1;
        S::default()
    }

    #[inline]
    fn on_ready<I: Io>(&mut self, _now: Instant, talk: &mut S, io: &mut I) -> Next {
        (self.step)(talk, io)
    }

    fn deadline(&self, _talk: &S) -> Instant {
        Instant::NEVER
    }

    fn on_timeout<I: Io>(&mut self, _now: Instant, _talk: &mut S, _io: &mut I) -> Next {
        Next::Wait
    }

    fn is_idle(&self, _talk: &S) -> bool {
        false
    }

    fn end(&mut self, _talk: Option<S>, why: Option<Ended>) {
        self.tally.ended += 1;
        self.tally.failed += u64::from(!matches!(why, None | Some(Ended::Closed)));
    }

    fn is_finished(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.tally.ended >= wanted)
    }

    fn report(&self) -> Tally {
        self.tally
    }
}

fn talks<S, F>(
    step: F,
    source: Source,
    wanted: Option<u64>,
    places: u32,
) -> Talks<Conversation<S, F>>
where
    S: Default,
    F: FnMut(&mut S, &mut dyn Io) -> Next,
{
    Talks::new(
        Conversation { step, tally: Tally::default(), wanted, state: PhantomData },
        source,
        places,
    )
}

/// An application that listens on a TCP port of every address, IPv4 and IPv6. `step` is called for
/// a connection whenever something happens to it, the first time when it is there; it has 65,536 of
/// them at most.
pub fn serve<S, F>(port: u16, step: F) -> Talks<Conversation<S, F>>
where
    S: Default,
    F: FnMut(&mut S, &mut dyn Io) -> Next,
{
    talks(step, Source::Listen(port), None, PLACES)
}

/// An application that makes `count` connections, up to 4,194,304 of them, and is finished when all
/// of them have ended. `step` is called for a connection whenever something happens to it, the
/// first time when it is there.
pub fn connect<S, F>(remote: Endpoint, count: u32, step: F) -> Talks<Conversation<S, F>>
where
    S: Default,
    F: FnMut(&mut S, &mut dyn Io) -> Next,
{
    talks(step, Source::Connect(remote, count), Some(count.into()), count.clamp(1, MOST_PLACES))
}
