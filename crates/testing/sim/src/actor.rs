//! The application of a simulated host: it accepts, connects, and lets its players act.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use clearway_base::{Duration, Instant};
use clearway_proto::export::Imported;
use clearway_proto::{
    ConnEvents, ConnId, ConnectError, ConnectSpec, Event, ListenSpec, ListenerId, Stack, TcpInfo,
};

use crate::datagrams::Datagrams;
use crate::observe::FlowName;
use crate::stores::SimEnv;
use crate::talk::{Conversation, Part, Player};

/// What all hosts know: the conversations, and which connection belongs to which.
#[derive(Default)]
pub struct Ledger {
    /// All conversations.
    pub conversations: Vec<Conversation>,
    /// The connection of each, as the side that connects names it.
    meetings: BTreeMap<FlowName, usize>,
    /// The first thing that went wrong.
    pub wrong: Option<String>,
    /// Connections that were accepted and belong to no conversation.
    pub strangers: u64,
}

/// What all hosts know, shared.
pub type SharedLedger = Rc<RefCell<Ledger>>;

impl Ledger {
    /// Adds a conversation and returns its number.
    pub fn add(&mut self, conversation: Conversation) -> usize {
        self.conversations.push(conversation);
        self.conversations.len() - 1
    }

    /// The connections that both sides have seen open, as the side that connects names them.
    pub fn open_meetings(&self) -> impl Iterator<Item = FlowName> + '_ {
        let open = |c: &usize| self.conversations[*c].fates.iter().all(|f| f.opened && !f.over);
        self.meetings.iter().filter(move |(_, c)| open(c)).map(|(name, _)| *name)
    }

    fn part(&self, conversation: usize, side: usize) -> Part {
        self.conversations[conversation].parts[side].clone()
    }

    fn note(&mut self, player: &mut Player) {
        let (c, side) = (player.conversation, player.side);
        let what = player.wrong();
        let conversation = &mut self.conversations[c];
        conversation.fates[side] = player.fate;
        let [mine, theirs] = [conversation.fates[side], conversation.fates[1 - side]];
        if mine.read > theirs.sent {
            self.fail(format!(
                "conversation {c}: side {side} read {} bytes of {} sent",
                mine.read, theirs.sent
            ));
        }
        if let Some(what) = what {
            self.fail(format!("conversation {c}, side {side}: {what}"));
        }
    }

    fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

/// A listening socket and how its owner takes from it.
struct Listening {
    id: ListenerId,
    domain: u16,
    /// Takes one connection at a time with this pause between; zero: all at once.
    pace: Duration,
    next: Instant,
    open: bool,
}

/// A connection's counters at the end of its life, to be held against what the link saw.
pub struct LastWords {
    /// The connection, as its host names it.
    pub name: FlowName,
    /// What the stack says of it.
    pub info: TcpInfo,
}

/// The application of one host.
pub struct Actor {
    ledger: SharedLedger,
    players: Vec<(Player, u16)>,
    listening: Vec<Listening>,
    timers: BTreeSet<(Instant, u64)>,
    /// How many bytes players write at a time at most.
    chunk: usize,
    /// The world of addresses of each routing table.
    domains: Vec<u16>,
    /// Connections that ended since the world looked.
    pub last_words: Vec<LastWords>,
    /// Its UDP sockets.
    pub datagrams: Datagrams,
}

/// Tokens of listeners begin here; those of UDP sockets are further up ([`crate::datagrams`]).
const LISTENER: u64 = 1 << 32;

impl Actor {
    /// An application that writes at most `chunk` bytes at a time.
    pub fn new(ledger: SharedLedger, chunk: usize) -> Actor {
        Actor {
            ledger,
            players: Vec::new(),
            listening: Vec::new(),
            timers: BTreeSet::new(),
            chunk,
            domains: vec![0],
            last_words: Vec::new(),
            datagrams: Datagrams::default(),
        }
    }

    /// Addresses of routing table `table` mean hosts of `domain`.
    pub fn set_domain(&mut self, table: u16, domain: u16) {
        let table = usize::from(table);
        if self.domains.len() <= table {
            self.domains.resize(table + 1, 0);
        }
        self.domains[table] = domain;
    }

    fn domain(&self, table: u16) -> u16 {
        self.domains.get(usize::from(table)).copied().unwrap_or(0)
    }

    /// When it wants to be woken.
    pub fn next_timer(&self) -> Instant {
        self.timers.first().map_or(Instant::NEVER, |t| t.0)
    }

    /// Listens, and takes connections with `pace` between them.
    pub fn listen(
        &mut self,
        stack: &mut Stack<SimEnv>,
        spec: ListenSpec,
        pace: Duration,
    ) -> Result<usize, String> {
        let index = self.listening.len();
        let domain = self.domain(spec.table.0);
        let id = stack
            .listen(ListenSpec { token: LISTENER | index as u64, ..spec })
            .map_err(|why| format!("listen was refused: {why}"))?;
        self.listening.push(Listening { id, domain, pace, next: Instant::ZERO, open: true });
        Ok(index)
    }

    /// Stops listening.
    pub fn unlisten(&mut self, stack: &mut Stack<SimEnv>, index: usize) {
        let listening = &mut self.listening[index];
        if listening.open {
            listening.open = false;
            stack.unlisten(listening.id);
        }
    }

    /// Begins side `side` of a conversation by connecting.
    pub fn connect(
        &mut self,
        now: Instant,
        stack: &mut Stack<SimEnv>,
        conversation: usize,
        side: usize,
        spec: ConnectSpec,
    ) -> Result<ConnId, ConnectError> {
        let part = self.ledger.borrow().part(conversation, side);
        let index = self.players.len();
        let domain = self.domain(spec.table.0);
        let conn = stack
            .connect(now, ConnectSpec { token: index as u64, options: part.options, ..spec })?;
        if let (Some(local), Some(remote)) = (stack.local(conn), stack.remote(conn)) {
            let name = FlowName { domain, src: local, dst: remote };
            let name = if side == 0 { name } else { name.back() };
            self.ledger.borrow_mut().meetings.insert(name, conversation);
        }
        self.players.push((Player::new(conversation, side, conn, part, now, self.chunk), domain));
        self.act(now, stack, index);
        Ok(conn)
    }

    /// Looks at everything that the stack has to tell, and at timers that are due; returns how many
    /// things there were.
    pub fn run(&mut self, now: Instant, stack: &mut Stack<SimEnv>) -> usize {
        let mut done = 0;
        while let Some(event) = stack.next_event() {
            done += 1;
            match event {
                Event::Incoming { token, .. } => {
                    self.accept(now, stack, (token & (LISTENER - 1)) as usize)
                }
                Event::Conn { token, what, conn } => self.on_conn(now, stack, token, what, conn),
                Event::Udp { token, what, .. } => {
                    self.datagrams.on_event(stack, (token & (LISTENER - 1)) as usize, what);
                }
            }
            if done > 1_000_000 {
                self.ledger.borrow_mut().fail("the events never end".to_owned());
                break;
            }
        }
        while let Some(&(at, token)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            done += 1;
            if token & LISTENER != 0 {
                self.accept(now, stack, (token & (LISTENER - 1)) as usize);
            } else {
                self.act(now, stack, token as usize);
            }
        }
        if let Some(what) = self.datagrams.take_wrong() {
            self.ledger.borrow_mut().fail(what);
        }
        done
    }

    fn on_conn(
        &mut self,
        now: Instant,
        stack: &mut Stack<SimEnv>,
        token: u64,
        what: ConnEvents,
        conn: ConnId,
    ) {
        let Some((player, domain)) = self.players.get_mut(token as usize) else {
            let why = format!("an event {what:?} came with token {token:#x}, which nobody gave");
            return self.ledger.borrow_mut().fail(why);
        };
        if player.conn != conn {
            return self
                .ledger
                .borrow_mut()
                .fail(format!("an event for another connection came with token {token}"));
        }
        if player.fate.over {
            return self
                .ledger
                .borrow_mut()
                .fail(format!("an event {what:?} came after its owner let go"));
        }
        let words = words(stack, conn, *domain);
        player.on_events(now, stack, what);
        self.after(now, stack, token as usize, words);
    }

    fn act(&mut self, now: Instant, stack: &mut Stack<SimEnv>, index: usize) {
        let (player, domain) = &mut self.players[index];
        if player.fate.over {
            return;
        }
        let words = words(stack, player.conn, *domain);
        player.on_events(now, stack, ConnEvents(0));
        self.after(now, stack, index, words);
    }

    fn after(
        &mut self,
        now: Instant,
        stack: &mut Stack<SimEnv>,
        index: usize,
        words: Option<LastWords>,
    ) {
        let (player, _) = &mut self.players[index];
        if let Some(at) = player.wake(stack) {
            // In the past would mean at once, which was tried just now.
            self.timers.insert((at.max(now + Duration::from_micros(1)), index as u64));
        }
        if player.fate.over {
            self.last_words.extend(words);
        }
        self.ledger.borrow_mut().note(player);
    }

    fn accept(&mut self, now: Instant, stack: &mut Stack<SimEnv>, index: usize) {
        loop {
            let listening = &mut self.listening[index];
            if !listening.open {
                return;
            }
            if listening.next > now {
                self.timers.insert((listening.next, LISTENER | index as u64));
                return;
            }
            let Some(conn) = stack.accept(listening.id) else { return };
            listening.next = now + listening.pace;
            let domain = listening.domain;
            let ends = stack.remote(conn).zip(stack.local(conn));
            let meeting = ends.and_then(|(src, dst)| {
                self.ledger.borrow().meetings.get(&FlowName { domain, src, dst }).copied()
            });
            let Some(conversation) = meeting else {
                self.ledger.borrow_mut().strangers += 1;
                stack.abort(conn);
                continue;
            };
            // A cookie that came late made a second connection of the same handshake, as it may while
            // cookies are given: what was said in the first is not said again.
            if self.players.iter().any(|(player, _)| player.is_of(conversation, 1)) {
                stack.abort(conn);
                continue;
            }
            let part = self.ledger.borrow().part(conversation, 1);
            let player = self.players.len();
            stack.set_token(conn, player as u64);
            stack.set_options(conn, part.options);
            let mut new = Player::new(conversation, 1, conn, part, now, self.chunk);
            new.fate.opened = true;
            self.players.push((new, domain));
            self.act(now, stack, player);
        }
    }

    /// The stack is another one, in which everything has a new name.
    pub fn renewed(&mut self, made: &Imported) -> Result<(), String> {
        let lost = |what: &str| Err(format!("{what} is missing in the new stack"));
        for (player, _) in self.players.iter_mut().filter(|(player, _)| !player.fate.over) {
            match made.conns.iter().find(|(was, _)| *was == player.conn) {
                Some((_, is)) => player.conn = *is,
                None => return lost("a connection"),
            }
        }
        for listening in self.listening.iter_mut().filter(|listening| listening.open) {
            match made.listeners.iter().find(|(was, _)| *was == listening.id) {
                Some((_, is)) => listening.id = *is,
                None => return lost("a listener"),
            }
        }
        if self.datagrams.renewed(made) { Ok(()) } else { lost("a UDP socket") }
    }

    /// Stops listening, and closes UDP sockets. Connections that are left belong to nobody, and are
    /// reset.
    pub fn close_all(&mut self, stack: &mut Stack<SimEnv>) {
        for index in 0..self.listening.len() {
            self.unlisten(stack, index);
        }
        self.datagrams.close(stack);
        for (player, _) in &mut self.players {
            if !player.fate.over {
                stack.abort(player.conn);
                player.fate.over = true;
            }
        }
    }

    /// Players that have not let go.
    pub fn playing(&self) -> usize {
        self.players.iter().filter(|(p, _)| !p.fate.over).count()
    }
}

fn words(stack: &Stack<SimEnv>, conn: ConnId, domain: u16) -> Option<LastWords> {
    let (src, dst) = stack.local(conn).zip(stack.remote(conn))?;
    let info = stack.info(conn)?;
    Some(LastWords { name: FlowName { domain, src, dst }, info })
}
