//! The client of one interface: RFC 8415 18.2.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant, Rng};
use clearway_wire::{Addr, Mac};

use super::lease::Lease;
use super::message::{self, Ask, Kind, Malformed, Said, Status, client_of};

/// RFC 8415 7.6: how long the first answer is waited for, and the longest wait, in milliseconds.
const SOLICIT: (u64, u64) = (1_000, 3_600_000);
const REQUEST: (u64, u64) = (1_000, 30_000);
const CONFIRM: (u64, u64) = (1_000, 4_000);
const MORE_TIME: (u64, u64) = (10_000, 600_000);
const INFORMATION: (u64, u64) = (1_000, 3_600_000);
/// How often an offer is asked for before all begins anew (REQ_MAX_RC).
const REQUESTS: u32 = 10;
/// So long it is asked whether an address still fits the link (CNF_MAX_RD).
const CONFIRMS_FOR: Duration = Duration::from_secs(10);
/// Bounds of what a server may say for the longest waits (RFC 8415 21.24), in seconds.
const LONGEST_SAID: std::ops::RangeInclusive<u32> = 60..=86_400;
/// RFC 8415 21.23: when what a server says besides is asked for again, and how soon at the
/// soonest, in seconds.
const REFRESH_S: u32 = 86_400;
const SOONEST_REFRESH_S: u32 = 600;
/// Hosts that begin together do not all speak at once. RFC 8415 18.2.1 would have up to a second
/// (SOL_MAX_DELAY), for links that are slow; a host shall have its address soon.
const SPREAD_MS: u64 = 100;
/// Whom nobody wants to give an address any more asks again after so long, up to twice that.
const AGAIN_MS: u64 = 1_000;
/// RFC 8415 18.2.8 says nothing of how soon another address is asked for; as for IPv4 (RFC 2131
/// 3.1.5).
const AFTER_DECLINE: Duration = Duration::from_secs(10);
/// RFC 4862 5.1: one probe, and so long for its answer (RetransTimer of RFC 4861 10).
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// What routers say is to be had of servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// Servers of names and the like (the flag O).
    Information,
    /// An address, and the rest (the flag M).
    Address,
}

/// What the owner is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send a datagram from the interface's link-local address and [`super::CLIENT_PORT`] to
    /// [`super::SERVERS`] and [`super::SERVER_PORT`].
    Send(Vec<u8>),
    /// Ask the link who has an address; [`Client::conflict`] hears of who answers.
    Probe(Addr),
    /// The address is probed for no more.
    EndProbe(Addr),
    /// The address is ours from now on, or for longer.
    Use(Lease),
    /// The address is for new connections, or only while there is no other.
    Prefer(Addr, bool),
    /// It is ours no more.
    Lose(Lease, Lost),
}

/// Why a lease is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// Nobody gave more time.
    Expired,
    /// A server says that it is not ours, or not on this link.
    Refused,
    /// It was given back.
    Released,
}

/// Where the client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing is wanted.
    Idle,
    /// Looks for a server.
    Soliciting,
    /// Asks for what a server has offered.
    Requesting,
    /// Looks whether somebody has the address.
    Probing,
    /// Has an address.
    Bound,
    /// Asks whether its address still fits the link.
    Confirming,
    /// Asks its server for more time.
    Renewing,
    /// Asks any server for more time.
    Rebinding,
    /// Asks for servers of names.
    Informing,
    /// Knows what is to be known without an address.
    Informed,
    /// Waits until it begins anew.
    Waiting,
    /// Was told to stop.
    Stopped,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Soliciting => "soliciting",
            Phase::Requesting => "requesting",
            Phase::Probing => "probing",
            Phase::Bound => "bound",
            Phase::Confirming => "confirming",
            Phase::Renewing => "renewing",
            Phase::Rebinding => "rebinding",
            Phase::Informing => "informing",
            Phase::Informed => "informed",
            Phase::Waiting => "waiting",
            Phase::Stopped => "stopped",
        }
    }
}

/// Why a message was dropped.
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
    /// It gives an address or times that cannot be, or none.
    BadLease,
}

impl Dropped {
    /// All of them.
    pub const ALL: [Dropped; 9] = [
        Dropped::Malformed(Malformed::Short),
        Dropped::Malformed(Malformed::Kind),
        Dropped::Malformed(Malformed::Option),
        Dropped::Malformed(Malformed::Value),
        Dropped::Malformed(Malformed::NoServer),
        Dropped::OtherExchange,
        Dropped::Unasked,
        Dropped::OtherServer,
        Dropped::BadLease,
    ];

    /// The name that it is counted under.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Malformed(Malformed::Short) => "dhcpv6-too-short",
            Dropped::Malformed(Malformed::Kind) => "dhcpv6-no-reply",
            Dropped::Malformed(Malformed::Option) => "dhcpv6-option-too-long",
            Dropped::Malformed(Malformed::Value) => "dhcpv6-bad-value",
            Dropped::Malformed(Malformed::NoServer) => "dhcpv6-no-server",
            Dropped::OtherExchange => "dhcpv6-other-exchange",
            Dropped::Unasked => "dhcpv6-unasked",
            Dropped::OtherServer => "dhcpv6-other-server",
            Dropped::BadLease => "dhcpv6-bad-lease",
        }
    }
}

/// Who offers what.
struct Offer {
    addr: Addr,
    server: Vec<u8>,
    preference: u8,
}

/// The client of one interface.
pub struct Client {
    mac: Mac,
    rng: Rng,
    wanted: Wanted,
    phase: Phase,
    /// Names what is asked and answered.
    exchange: u32,
    /// When asking began, and when it was asked last.
    begun: Instant,
    asked: Instant,
    /// When something is to be done.
    next: Instant,
    /// What was waited for last, in milliseconds; 0 before the first.
    wait_ms: u64,
    tries: u32,
    /// The longest waits that a server has said, in milliseconds.
    solicit_most: u64,
    information_most: u64,
    /// The best one so far.
    offer: Option<Offer>,
    /// What is probed for, in use, or asked to be kept.
    lease: Option<Lease>,
    /// Whether it is still for new connections.
    is_preferred: bool,
    /// The address that it had last, which it would like again.
    last: Option<Addr>,
    dns: Vec<Addr>,
    domains: Vec<String>,
    actions: VecDeque<Action>,
    drops: [u64; Dropped::ALL.len()],
}

impl Client {
    /// A client that does nothing until something is wanted.
    pub fn new(mac: Mac, seed: u64) -> Client {
        Client {
            mac,
            rng: Rng::seed(seed),
            wanted: Wanted::Nothing,
            phase: Phase::Idle,
            exchange: 0,
            begun: Instant::ZERO,
            asked: Instant::ZERO,
            next: Instant::NEVER,
            wait_ms: 0,
            tries: 0,
            solicit_most: SOLICIT.1,
            information_most: INFORMATION.1,
            offer: None,
            lease: None,
            is_preferred: false,
            last: None,
            dns: Vec::new(),
            domains: Vec::new(),
            actions: VecDeque::new(),
            drops: [0; Dropped::ALL.len()],
        }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The lease that is in use.
    pub fn lease(&self) -> Option<&Lease> {
        match self.phase {
            Phase::Bound | Phase::Confirming | Phase::Renewing | Phase::Rebinding => {
                self.lease.as_ref()
            }
            _ => None,
        }
    }

    /// Servers of names, the best first.
    pub fn dns(&self) -> &[Addr] {
        &self.dns
    }

    /// Domains that short names are looked up in.
    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    /// What was dropped, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Dropped::ALL.iter().map(|why| why.name()).zip(self.drops)
    }

    /// When [`Client::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        if self.actions.is_empty() { self.due() } else { Instant::ZERO }
    }

    fn due(&self) -> Instant {
        let deprecated = self.lease().filter(|_| self.is_preferred).map(|lease| lease.preferred);
        self.next.min(deprecated.unwrap_or(Instant::NEVER))
    }

    /// What is to be done next; asked until there is nothing.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        while self.actions.is_empty() && self.due() <= now {
            self.on_time(now);
        }
        self.actions.pop_front()
    }

    /// Routers say that this is to be had. What was had before stays until its time is over: one
    /// router may say less than another.
    pub fn want(&mut self, now: Instant, wanted: Wanted) {
        if wanted <= self.wanted || self.phase == Phase::Stopped {
            return;
        }
        self.wanted = wanted;
        self.begin(now);
    }

    /// Takes what came to [`super::CLIENT_PORT`] on the interface.
    ///
    /// # Errors
    /// Why it was dropped, which is counted.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Dropped> {
        let taken = message::read(bytes, self.mac)
            .map_err(Dropped::Malformed)
            .and_then(|said| self.on_said(now, said));
        if let Err(why) = taken {
            let at = Dropped::ALL.iter().position(|known| *known == why);
            if let Some(count) = at.and_then(|at| self.drops.get_mut(at)) {
                *count += 1;
            }
        }
        taken
    }

    /// Somebody has the address that is probed for: the server is told (RFC 8415 18.2.8).
    pub fn conflict(&mut self, now: Instant, addr: Addr) {
        if self.phase != Phase::Probing {
            return;
        }
        let Some(lease) = self.lease.take_if(|lease| lease.addr == addr) else { return };
        self.actions.push_back(Action::EndProbe(addr));
        self.exchange = self.new_exchange();
        self.begun = now;
        self.say(now, Kind::Decline, Some(&lease.server), Some(addr));
        self.last = None;
        (self.phase, self.next) = (Phase::Waiting, now + AFTER_DECLINE);
    }

    /// The interface was gone, or its link: it is asked whether the address fits the link that
    /// there is now (RFC 8415 18.2.12).
    pub fn link_is_back(&mut self, now: Instant) {
        match self.phase {
            Phase::Idle | Phase::Stopped => {}
            Phase::Bound | Phase::Confirming | Phase::Renewing | Phase::Rebinding => {
                self.enter(now, Phase::Confirming);
            }
            _ => self.begin(now),
        }
    }

    /// Gives the address back and stops.
    pub fn release(&mut self, now: Instant) {
        if let Some(lease) = self.lease().cloned() {
            self.exchange = self.new_exchange();
            self.begun = now;
            self.say(now, Kind::Release, Some(&lease.server), Some(lease.addr));
            self.actions.push_back(Action::Lose(lease, Lost::Released));
        } else if let (Phase::Probing, Some(lease)) = (self.phase, &self.lease) {
            self.actions.push_back(Action::EndProbe(lease.addr));
        }
        (self.phase, self.next, self.lease) = (Phase::Stopped, Instant::NEVER, None);
        (self.dns, self.domains) = (Vec::new(), Vec::new());
    }

    fn new_exchange(&mut self) -> u32 {
        self.rng.next_u32() >> 8
    }

    /// Asks from the beginning for what is wanted.
    fn begin(&mut self, now: Instant) {
        if let (Phase::Probing, Some(lease)) = (self.phase, &self.lease) {
            self.actions.push_back(Action::EndProbe(lease.addr));
        }
        (self.offer, self.lease) = (None, None);
        let phase = match self.wanted {
            Wanted::Nothing => Phase::Idle,
            Wanted::Information => Phase::Informing,
            Wanted::Address => Phase::Soliciting,
        };
        self.enter(now, phase);
        self.next = now + Duration::from_millis(self.rng.below(SPREAD_MS));
    }

    /// A new exchange, asked at once.
    fn enter(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.exchange = self.new_exchange();
        (self.begun, self.next, self.tries, self.wait_ms) = (now, now, 0, 0);
    }

    /// Begins anew, and not at once: servers that do not want to would be asked without end.
    fn begin_later(&mut self, now: Instant) {
        (self.offer, self.lease) = (None, None);
        let wait = Duration::from_millis(AGAIN_MS + self.rng.below(AGAIN_MS));
        (self.phase, self.next) = (Phase::Waiting, now + wait);
    }

    fn say(&mut self, now: Instant, kind: Kind, server: Option<&[u8]>, address: Option<Addr>) {
        let hundredths = now.since(self.begun).as_millis() / 10;
        let ask = Ask {
            kind,
            exchange: self.exchange,
            mac: self.mac,
            elapsed: u16::try_from(hundredths).unwrap_or(u16::MAX),
            server,
            address,
        };
        self.actions.push_back(Action::Send(message::emit(&ask)));
        self.asked = now;
        self.tries += 1;
    }

    /// RFC 8415 15: how long an answer to what was just sent is waited for.
    fn wait(&mut self, (first_ms, most_ms): (u64, u64)) -> Duration {
        let is_first = self.wait_ms == 0;
        let base = if is_first { first_ms } else { (2 * self.wait_ms).min(most_ms) };
        // A tenth more or less; of a Solicit that collects offers never less.
        let tenth = base / 10;
        let more = match self.phase {
            Phase::Soliciting if is_first => tenth + self.rng.below(tenth.max(1)),
            _ => self.rng.below(2 * tenth.max(1)),
        };
        self.wait_ms = base - tenth + more;
        Duration::from_millis(self.wait_ms)
    }

    fn on_time(&mut self, now: Instant) {
        if let Some(lease) =
            self.lease().filter(|lease| self.is_preferred && now >= lease.preferred)
        {
            let addr = lease.addr;
            self.is_preferred = false;
            self.actions.push_back(Action::Prefer(addr, false));
        }
        if now < self.next {
            return;
        }
        match self.phase {
            // RFC 8415 18.2.9: the best of those that came while the first answer was waited for.
            Phase::Soliciting if self.offer.is_some() => self.enter(now, Phase::Requesting),
            Phase::Soliciting => {
                let any = self.last.unwrap_or(Addr::ANY_V6);
                self.say(now, Kind::Solicit, None, Some(any));
                let most = self.solicit_most;
                self.next = now + self.wait((SOLICIT.0, most));
            }
            Phase::Requesting => self.request(now),
            Phase::Probing => self.probe(now),
            Phase::Confirming => self.confirm(now),
            Phase::Bound | Phase::Renewing | Phase::Rebinding => self.keep(now),
            Phase::Informing => {
                self.say(now, Kind::Information, None, None);
                let most = self.information_most;
                self.next = now + self.wait((INFORMATION.0, most));
            }
            // What is known stays until there is news.
            Phase::Informed => self.enter(now, Phase::Informing),
            Phase::Waiting => self.begin(now),
            Phase::Idle | Phase::Stopped => self.next = Instant::NEVER,
        }
    }

    fn request(&mut self, now: Instant) {
        let Some(offer) = self.offer.take().filter(|_| self.tries < REQUESTS) else {
            return self.begin(now);
        };
        self.say(now, Kind::Request, Some(&offer.server), Some(offer.addr));
        self.offer = Some(offer);
        self.next = now + self.wait(REQUEST);
    }

    fn probe(&mut self, now: Instant) {
        let Some(lease) = self.lease.clone() else { return self.begin(now) };
        if self.tries == 0 {
            self.tries = 1;
            self.next = now + PROBE_WAIT;
            self.actions.push_back(Action::Probe(lease.addr));
            return;
        }
        self.actions.push_back(Action::EndProbe(lease.addr));
        self.lease = None;
        // A host that was stopped meanwhile finds a lease that is over.
        if now >= lease.end {
            return self.begin(now);
        }
        self.bind(lease);
    }

    fn bind(&mut self, lease: Lease) {
        (self.phase, self.next) = (Phase::Bound, lease.renew.min(lease.end));
        (self.last, self.is_preferred) = (Some(lease.addr), true);
        self.lease = Some(lease.clone());
        self.actions.push_back(Action::Use(lease));
    }

    fn confirm(&mut self, now: Instant) {
        let Some(lease) = self.lease.clone() else { return self.begin(now) };
        // Nobody says otherwise: it is kept as it is (RFC 8415 18.2.3).
        if now >= lease.end || now.since(self.begun) >= CONFIRMS_FOR {
            (self.phase, self.next) = (Phase::Bound, lease.renew.min(lease.end));
            return;
        }
        self.say(now, Kind::Confirm, None, Some(lease.addr));
        self.next = (now + self.wait(CONFIRM)).min(self.begun + CONFIRMS_FOR).min(lease.end);
    }

    /// RFC 8415 18.2.4 and 18.2.5: asks for more time, or ends what has had its time.
    fn keep(&mut self, now: Instant) {
        let Some(lease) = self.lease.clone() else { return self.begin(now) };
        if now >= lease.end {
            return self.lose(now, lease, Lost::Expired);
        }
        let phase = if now >= lease.rebind { Phase::Rebinding } else { Phase::Renewing };
        if phase != self.phase {
            self.enter(now, phase);
        }
        let (kind, server, limit) = match phase {
            Phase::Renewing => (Kind::Renew, Some(&lease.server[..]), lease.rebind),
            _ => (Kind::Rebind, None, lease.end),
        };
        self.say(now, kind, server, Some(lease.addr));
        self.next = (now + self.wait(MORE_TIME)).min(limit).min(lease.end);
    }

    fn lose(&mut self, now: Instant, lease: Lease, why: Lost) {
        self.actions.push_back(Action::Lose(lease, why));
        (self.dns, self.domains) = (Vec::new(), Vec::new());
        match why {
            Lost::Expired => self.begin(now),
            _ => {
                self.last = None;
                self.begin_later(now);
            }
        }
    }

    fn on_said(&mut self, now: Instant, said: Said) -> Result<(), Dropped> {
        let is_ours = said.client.as_deref() == Some(&client_of(self.mac)[..]);
        // RFC 8415 16.10: who asks for information need not have said who he is; we did.
        if said.exchange != self.exchange || !is_ours {
            return Err(Dropped::OtherExchange);
        }
        match (self.phase, said.kind) {
            (Phase::Soliciting, Kind::Advertise) if self.tries > 0 => self.on_offer(now, said),
            (Phase::Soliciting, Kind::Reply) if self.tries > 0 && said.rapid_commit => {
                self.on_given(now, said)
            }
            (Phase::Requesting, Kind::Reply) if self.tries > 0 => {
                if self.offer.as_ref().is_none_or(|offer| offer.server != said.server) {
                    return Err(Dropped::OtherServer);
                }
                match (said.status, said.ia_status) {
                    // It is asked by multicast anyway, and so it stays.
                    (Status::UseMulticast, _) => Ok(()),
                    (Status::Success, Status::Success) => self.on_given(now, said),
                    _ => {
                        self.last = None;
                        self.begin_later(now);
                        Ok(())
                    }
                }
            }
            (Phase::Renewing | Phase::Rebinding, Kind::Reply) => self.on_more_time(now, said),
            (Phase::Confirming, Kind::Reply) if self.tries > 0 => {
                let lease = self.lease.clone().ok_or(Dropped::Unasked)?;
                match said.status {
                    Status::NotOnLink => self.lose(now, lease, Lost::Refused),
                    _ => (self.phase, self.next) = (Phase::Bound, lease.renew.min(lease.end)),
                }
                Ok(())
            }
            (Phase::Informing, Kind::Reply) if self.tries > 0 => {
                self.know(&said);
                let seconds = said.refresh.unwrap_or(REFRESH_S).max(SOONEST_REFRESH_S);
                let next = match seconds {
                    u32::MAX => Instant::NEVER,
                    _ => now + Duration::from_secs(seconds.into()),
                };
                (self.phase, self.next) = (Phase::Informed, next);
                Ok(())
            }
            // What was declined is noted.
            (Phase::Waiting, Kind::Reply) => Ok(()),
            _ => Err(Dropped::Unasked),
        }
    }

    fn know(&mut self, said: &Said) {
        (self.dns, self.domains) = (said.dns.clone(), said.domains.clone());
        let within = |said: Option<u32>| said.filter(|seconds| LONGEST_SAID.contains(seconds));
        if let Some(seconds) = within(said.longest.0) {
            self.solicit_most = u64::from(seconds) * 1000;
        }
        if let Some(seconds) = within(said.longest.1) {
            self.information_most = u64::from(seconds) * 1000;
        }
    }

    /// RFC 8415 18.2.9: offers are collected while the first answer is waited for; one of the
    /// highest preference, and the first that comes later, is taken at once.
    fn on_offer(&mut self, now: Instant, said: Said) -> Result<(), Dropped> {
        if let Some(seconds) = said.longest.0.filter(|seconds| LONGEST_SAID.contains(seconds)) {
            self.solicit_most = u64::from(seconds) * 1000;
        }
        let is_refused = said.status != Status::Success || said.ia_status != Status::Success;
        let lease = Lease::of(&said, now, None).filter(|_| !is_refused).ok_or(Dropped::BadLease)?;
        let preference = said.preference;
        if self.offer.as_ref().is_none_or(|offer| preference > offer.preference) {
            self.offer = Some(Offer { addr: lease.addr, server: said.server, preference });
        }
        if preference == u8::MAX || self.tries > 1 {
            self.enter(now, Phase::Requesting);
        }
        Ok(())
    }

    fn on_given(&mut self, now: Instant, said: Said) -> Result<(), Dropped> {
        if said.status != Status::Success || said.ia_status != Status::Success {
            return Err(Dropped::BadLease);
        }
        let lease = Lease::of(&said, self.asked, None).filter(|lease| now < lease.end);
        let lease = lease.ok_or(Dropped::BadLease)?;
        self.know(&said);
        (self.lease, self.offer) = (Some(lease), None);
        (self.phase, self.tries, self.next) = (Phase::Probing, 0, now);
        Ok(())
    }

    fn on_more_time(&mut self, now: Instant, said: Said) -> Result<(), Dropped> {
        let lease = self.lease.clone().ok_or(Dropped::Unasked)?;
        if self.phase == Phase::Renewing && said.server != lease.server {
            return Err(Dropped::OtherServer);
        }
        match (said.status, said.ia_status) {
            (Status::Success, Status::Success) => {}
            // RFC 8415 18.2.10.1: it knows nothing of us; so it is no address of ours.
            (_, Status::NoBinding | Status::NotOnLink) | (Status::NotOnLink, _) => {
                self.lose(now, lease, Lost::Refused);
                return Ok(());
            }
            // Nothing is changed; it is asked again in its time.
            _ => return Ok(()),
        }
        // A valid time of 0 takes the address back at once (RFC 8415 18.2.10.1).
        if said.given.iter().any(|given| given.addr == lease.addr && given.valid == 0) {
            self.lose(now, lease, Lost::Refused);
            return Ok(());
        }
        let more = Lease::of(&said, self.asked, Some(lease.addr)).filter(|more| now < more.end);
        let more = more.ok_or(Dropped::BadLease)?;
        self.know(&said);
        if !self.is_preferred {
            self.actions.push_back(Action::Prefer(more.addr, true));
        }
        self.bind(more);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
