//! The client of one interface: the states of RFC 2131 4.4.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant, Rng};
use clearway_wire::{Addr, Mac};

use crate::lease::Lease;
use crate::message::{self, Ask, Kind, Malformed, Reply};

/// RFC 2131 4.1: so long until it is sent again, twice as long each time, up to the longest; each
/// up to a second more or less.
const FIRST_WAIT_S: u64 = 4;
const LONGEST_WAIT_S: u64 = 64;
/// How often an offer is asked for before all begins anew (RFC 2131 3.1.5).
const REQUESTS: u32 = 4;
/// RFC 2131 3.1.5: at least ten seconds pass after an address that was declined.
const AFTER_DECLINE: Duration = Duration::from_secs(10);
/// RFC 2131 4.4.5: who asks for more time asks again after half of what is left, and not sooner.
const RENEW_AGAIN: Duration = Duration::from_secs(60);
/// Probes for an address before it is used, and how long each is waited for. RFC 5227 2.1.1 waits
/// for seconds, for links with hubs that are slow to begin; RFC 2131 4.4.1 asks for a probe only,
/// and a host shall have an address in a second.
const PROBES: u8 = 2;
const PROBE_WAIT: Duration = Duration::from_millis(150);

/// To whom a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// From 0.0.0.0 to all on the link.
    AllFromNobody,
    /// From this address of ours to all on the link.
    AllFrom(Addr),
    /// From this address of ours to a server.
    Server {
        /// From.
        ours: Addr,
        /// To.
        server: Addr,
    },
}

/// What the owner is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a datagram from [`crate::CLIENT_PORT`] to [`crate::SERVER_PORT`].
    Send(Target, Vec<u8>),
    /// Ask the link who has an address; [`Client::conflict`] hears of who answers.
    Probe(Addr),
    /// The address is probed for no more.
    EndProbe(Addr),
    /// Use what was given from now on, in place of what was used before.
    Use(Lease),
    /// Use it no more.
    Lose(Lease, Lost),
}

/// Why a lease is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// Nobody gave more time.
    Expired,
    /// A server says that it is not ours (DHCPNAK).
    Refused,
    /// It was given back.
    Released,
}

/// Where the client stands (RFC 2131 4.4, figure 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Looks for a server.
    Selecting,
    /// Asks for what a server has offered.
    Requesting,
    /// Looks whether somebody has the address.
    Probing,
    /// Has an address.
    Bound,
    /// Asks its server for more time.
    Renewing,
    /// Asks any server for more time.
    Rebinding,
    /// Waits until it begins anew.
    Waiting,
    /// Was told to stop.
    Stopped,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Selecting => "selecting",
            Phase::Requesting => "requesting",
            Phase::Probing => "probing",
            Phase::Bound => "bound",
            Phase::Renewing => "renewing",
            Phase::Rebinding => "rebinding",
            Phase::Waiting => "waiting",
            Phase::Stopped => "stopped",
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// It is no message of a server, or one that is broken.
    Malformed(Malformed),
    /// It answers somebody else, or what was asked before.
    OtherExchange,
    /// It answers nothing that is open.
    Unasked,
    /// It comes from another server than the one that was asked.
    OtherServer,
    /// It gives an address or a time that cannot be.
    BadLease,
}

impl Dropped {
    /// All of them.
    pub const ALL: [Dropped; 9] = [
        Dropped::Malformed(Malformed::Short),
        Dropped::Malformed(Malformed::NoReply),
        Dropped::Malformed(Malformed::Option),
        Dropped::Malformed(Malformed::Value),
        Dropped::Malformed(Malformed::Kind),
        Dropped::OtherExchange,
        Dropped::Unasked,
        Dropped::OtherServer,
        Dropped::BadLease,
    ];

    /// The name that it is counted under.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Malformed(Malformed::Short) => "dhcp-too-short",
            Dropped::Malformed(Malformed::NoReply) => "dhcp-no-reply",
            Dropped::Malformed(Malformed::Option) => "dhcp-option-too-long",
            Dropped::Malformed(Malformed::Value) => "dhcp-bad-value",
            Dropped::Malformed(Malformed::Kind) => "dhcp-unknown-kind",
            Dropped::OtherExchange => "dhcp-other-exchange",
            Dropped::Unasked => "dhcp-unasked",
            Dropped::OtherServer => "dhcp-other-server",
            Dropped::BadLease => "dhcp-bad-lease",
        }
    }
}

/// The client of one interface.
pub struct Client {
    mac: Mac,
    rng: Rng,
    phase: Phase,
    /// Names what is asked and answered.
    exchange: u32,
    /// When looking began, and when what is being asked was sent last.
    begun: Instant,
    asked: Instant,
    /// When something is to be done.
    next: Instant,
    /// How often it was sent.
    tries: u32,
    /// What was offered, and from whom.
    offer: Option<(Addr, Addr)>,
    /// What is probed for, in use, or asked to be kept.
    lease: Option<Lease>,
    /// The address that it had last, which it would like again.
    last: Option<Addr>,
    actions: VecDeque<Action>,
    drops: [u64; Dropped::ALL.len()],
}

impl Client {
    /// A client that begins to look for a server at the first [`Client::poll`].
    pub fn new(now: Instant, mac: Mac, seed: u64) -> Client {
        let mut client = Client {
            mac,
            rng: Rng::seed(seed),
            phase: Phase::Selecting,
            exchange: 0,
            begun: now,
            asked: now,
            next: now,
            tries: 0,
            offer: None,
            lease: None,
            last: None,
            actions: VecDeque::new(),
            drops: [0; Dropped::ALL.len()],
        };
        client.begin(now);
        client
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The lease that is in use.
    pub fn lease(&self) -> Option<&Lease> {
        match self.phase {
            Phase::Bound | Phase::Renewing | Phase::Rebinding => self.lease.as_ref(),
            _ => None,
        }
    }

    /// What was dropped, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Dropped::ALL.iter().map(|why| why.name()).zip(self.drops)
    }

    /// When [`Client::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        if self.actions.is_empty() { self.next } else { Instant::from_nanos(0) }
    }

    /// What is to be done next; asked until there is nothing.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        while self.actions.is_empty() && self.next <= now {
            self.on_time(now);
        }
        self.actions.pop_front()
    }

    /// Takes what came to [`crate::CLIENT_PORT`] on the interface.
    ///
    /// # Errors
    /// Why it was dropped, which is counted.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Dropped> {
        let taken = message::check(bytes)
            .map_err(Dropped::Malformed)
            .and_then(|reply| self.on_reply(now, &reply));
        if let Err(why) = taken {
            let at = Dropped::ALL.iter().position(|known| *known == why);
            if let Some(count) = at.and_then(|at| self.drops.get_mut(at)) {
                *count += 1;
            }
        }
        taken
    }

    /// Somebody has the address that is probed for (RFC 2131 3.1.5: it MUST be declined).
    pub fn conflict(&mut self, now: Instant, addr: Addr) {
        let Some(lease) = self.lease.take_if(|lease| lease.addr.addr == addr) else { return };
        if self.phase != Phase::Probing {
            self.lease = Some(lease);
            return;
        }
        self.actions.push_back(Action::EndProbe(addr));
        let ask = Ask {
            requested: Some(addr),
            server: Some(lease.server),
            ..self.ask(now, Kind::Decline)
        };
        self.actions.push_back(Action::Send(Target::AllFromNobody, message::emit(&ask)));
        self.last = None;
        (self.phase, self.next) = (Phase::Waiting, now + AFTER_DECLINE);
    }

    /// The interface was gone, or its link: everything begins anew, and the last address is asked
    /// for again. What is in use stays so until a server says otherwise or it ends.
    pub fn link_is_back(&mut self, now: Instant) {
        match self.phase {
            Phase::Bound | Phase::Renewing | Phase::Rebinding => {
                // Whoever serves this link now is asked, as RFC 2131 3.2 has it after a restart.
                (self.phase, self.tries) = (Phase::Rebinding, 0);
                self.next = now;
            }
            Phase::Stopped => {}
            _ => self.begin(now),
        }
    }

    /// Gives the address back and stops.
    pub fn release(&mut self, now: Instant) {
        if let Some(lease) = self.lease().cloned() {
            let ours = lease.addr.addr;
            let server = lease.server;
            let ask =
                Ask { ours: Some(ours), server: Some(server), ..self.ask(now, Kind::Release) };
            self.send(Target::Server { ours, server }, &ask);
            self.actions.push_back(Action::Lose(lease, Lost::Released));
        } else if let (Phase::Probing, Some(lease)) = (self.phase, &self.lease) {
            self.actions.push_back(Action::EndProbe(lease.addr.addr));
        }
        (self.phase, self.next, self.lease) = (Phase::Stopped, Instant::NEVER, None);
    }

    fn begin(&mut self, now: Instant) {
        self.phase = Phase::Selecting;
        self.exchange = self.rng.next_u32();
        (self.begun, self.next, self.tries) = (now, now, 0);
        (self.offer, self.lease) = (None, None);
    }

    fn ask(&self, now: Instant, kind: Kind) -> Ask {
        let seconds = now.since(self.begun).as_secs().min(u16::MAX.into()) as u16;
        Ask {
            kind,
            exchange: self.exchange,
            seconds,
            mac: self.mac,
            ours: None,
            requested: None,
            server: None,
        }
    }

    fn send(&mut self, target: Target, ask: &Ask) {
        self.actions.push_back(Action::Send(target, message::emit(ask)));
    }

    /// RFC 2131 4.1: how long an answer to the last of so many tries is waited for.
    fn wait(&mut self) -> Duration {
        let seconds = (FIRST_WAIT_S << (self.tries - 1).min(4)).min(LONGEST_WAIT_S);
        Duration::from_millis(seconds * 1000 - 1000 + self.rng.below(2001))
    }

    fn on_time(&mut self, now: Instant) {
        match self.phase {
            Phase::Selecting => {
                let ask = Ask { requested: self.last, ..self.ask(now, Kind::Discover) };
                self.sent(now, Target::AllFromNobody, &ask);
            }
            Phase::Requesting if self.tries >= REQUESTS => self.begin(now),
            Phase::Requesting => self.request(now),
            Phase::Probing => self.probe(now),
            Phase::Waiting => self.begin(now),
            Phase::Bound | Phase::Renewing | Phase::Rebinding => self.keep(now),
            Phase::Stopped => self.next = Instant::NEVER,
        }
    }

    fn sent(&mut self, now: Instant, target: Target, ask: &Ask) {
        self.send(target, ask);
        self.asked = now;
        self.tries += 1;
        self.next = now + self.wait();
    }

    fn request(&mut self, now: Instant) {
        let Some((addr, server)) = self.offer else { return self.begin(now) };
        let ask =
            Ask { requested: Some(addr), server: Some(server), ..self.ask(now, Kind::Request) };
        self.sent(now, Target::AllFromNobody, &ask);
    }

    fn probe(&mut self, now: Instant) {
        let Some(lease) = self.lease.clone() else { return self.begin(now) };
        if self.tries < u32::from(PROBES) {
            self.tries += 1;
            self.next = now + PROBE_WAIT;
            self.actions.push_back(Action::Probe(lease.addr.addr));
            return;
        }
        self.actions.push_back(Action::EndProbe(lease.addr.addr));
        // A host that was stopped meanwhile finds a lease that is over.
        if now >= lease.end {
            return self.begin(now);
        }
        self.bind(lease);
    }

    fn bind(&mut self, lease: Lease) {
        (self.phase, self.next, self.tries) = (Phase::Bound, lease.renew, 0);
        self.last = Some(lease.addr.addr);
        self.lease = Some(lease.clone());
        self.actions.push_back(Action::Use(lease));
    }

    /// RFC 2131 4.4.5: asks for more time, or ends what has had its time.
    fn keep(&mut self, now: Instant) {
        let Some(lease) = self.lease.clone() else { return self.begin(now) };
        if now >= lease.end {
            self.actions.push_back(Action::Lose(lease, Lost::Expired));
            return self.begin(now);
        }
        let before = self.phase;
        // A link that came back is rebound before its time.
        let rebinds = now >= lease.rebind || before == Phase::Rebinding;
        self.phase = if rebinds { Phase::Rebinding } else { Phase::Renewing };
        if self.phase != before || self.tries == 0 {
            (self.begun, self.exchange) = (now, self.rng.next_u32());
        }
        let ours = lease.addr.addr;
        let target = match rebinds {
            true => Target::AllFrom(ours),
            false => Target::Server { ours, server: lease.server },
        };
        let ask = Ask { ours: Some(ours), ..self.ask(now, Kind::Request) };
        self.sent(now, target, &ask);
        let limit = if rebinds { lease.end } else { lease.rebind };
        // Before its time, on a link that came back, it is asked as a new host would.
        if limit != Instant::NEVER && (!rebinds || now >= lease.rebind) {
            let half = Duration::from_nanos(limit.since(now).as_nanos() / 2).max(RENEW_AGAIN);
            self.next = (now + half).min(limit);
        }
    }

    fn on_reply(&mut self, now: Instant, reply: &Reply) -> Result<(), Dropped> {
        if reply.exchange != self.exchange || reply.mac != self.mac {
            return Err(Dropped::OtherExchange);
        }
        match (self.phase, reply.kind) {
            (Phase::Selecting, Kind::Offer) if self.tries > 0 => {
                let lease = Lease::of(reply, now).ok_or(Dropped::BadLease)?;
                // The first one is as good as another: who waits for more does not have an address
                // in a second.
                self.offer = Some((lease.addr.addr, lease.server));
                (self.phase, self.tries) = (Phase::Requesting, 0);
                self.next = now;
                Ok(())
            }
            (Phase::Requesting, Kind::Ack) => {
                let lease = Lease::of(reply, self.asked).ok_or(Dropped::BadLease)?;
                if self
                    .offer
                    .is_none_or(|(addr, server)| server != lease.server || addr != lease.addr.addr)
                {
                    return Err(Dropped::OtherServer);
                }
                self.lease = Some(lease);
                (self.phase, self.tries, self.next) = (Phase::Probing, 0, now);
                Ok(())
            }
            (Phase::Renewing | Phase::Rebinding, Kind::Ack) => self.on_more_time(reply),
            (Phase::Requesting, Kind::Nak) => {
                if self.offer.is_none_or(|(_, server)| reply.server != Some(server)) {
                    return Err(Dropped::OtherServer);
                }
                self.last = None;
                // Not at once, or two that disagree would be asked without end.
                let wait = Duration::from_millis(1000 + self.rng.below(1000));
                (self.phase, self.next) = (Phase::Waiting, now + wait);
                Ok(())
            }
            (Phase::Renewing | Phase::Rebinding, Kind::Nak) => {
                let lease = self.lease.take().ok_or(Dropped::Unasked)?;
                if self.phase == Phase::Renewing && reply.server != Some(lease.server) {
                    self.lease = Some(lease);
                    return Err(Dropped::OtherServer);
                }
                self.last = None;
                self.actions.push_back(Action::Lose(lease, Lost::Refused));
                let wait = Duration::from_millis(1000 + self.rng.below(1000));
                (self.phase, self.next) = (Phase::Waiting, now + wait);
                Ok(())
            }
            _ => Err(Dropped::Unasked),
        }
    }

    fn on_more_time(&mut self, reply: &Reply) -> Result<(), Dropped> {
        let lease = Lease::of(reply, self.asked).ok_or(Dropped::BadLease)?;
        let old = self.lease.as_ref().ok_or(Dropped::Unasked)?;
        // RFC 2131 4.4.5 lets the server extend what we have, and nothing else.
        if old.addr.addr != lease.addr.addr {
            return Err(Dropped::BadLease);
        }
        if self.phase == Phase::Renewing && old.server != lease.server {
            return Err(Dropped::OtherServer);
        }
        self.bind(lease);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
