//! The server as the engine sees it: each connection is a [`Session`], and all of a core share one
//! [`Server`].

use clearway_base::Instant;
use clearway_engine::{Ended, Io, Next, Service, Time};

use crate::server::Server;
use crate::session::Session;
use crate::stats::Stats;

impl Service for Server {
    type Talk = Session;
    type Report = Stats;

    #[inline]
    fn tick(&mut self, time: Time) {
        self.set_time(time.since_1970);
    }

    fn begin(&mut self, now: Instant) -> Session {
        self.stats.accepted += 1;
        self.stats.open += 1;
        Session::new(now, self.timeouts())
    }

    #[inline]
    fn on_ready<I: Io>(&mut self, now: Instant, talk: &mut Session, io: &mut I) -> Next {
        talk.on_ready(now, self, io)
    }

    #[inline]
    fn deadline(&self, talk: &Session) -> Instant {
        talk.deadline()
    }

    fn on_timeout<I: Io>(&mut self, now: Instant, talk: &mut Session, io: &mut I) -> Next {
        talk.on_timeout(now, self, io)
    }

    fn is_idle(&self, talk: &Session) -> bool {
        talk.is_idle()
    }

    fn end(&mut self, _talk: Option<Session>, why: Option<Ended>) {
        self.stats.open -= 1;
        match why {
            Some(Ended::Failed(_)) => self.stats.failed += 1,
            Some(Ended::NoRoom) => self.stats.refused += 1,
            _ => {}
        }
    }

    fn report(&self) -> Stats {
        self.stats
    }
}
