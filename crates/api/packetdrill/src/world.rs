//! The core in virtual time, the sockets on it, and the two threads that come in.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use clearway_script::Backend;
use clearway_script::ast::{Micros, Script};
use clearway_script::backend::stack::Core;
use clearway_script::backend::{Fd, Op, Reply, Sent};
use clearway_script::settings::Settings;

use crate::copies::Copies;
use crate::flags::Flags;
use crate::kernel;
use crate::stamps::{self, Stamps};
use crate::waiting::Set;

/// What the clock shows at the beginning, in microseconds since 1970.
pub(crate) const BEGIN: Micros = 1_600_000_000_000_000;
/// How far the clock moves with every look at it.
const LOOK: Micros = 1;
/// How far it moves it at a time, and in all before the call is given up: nothing that ends by
/// itself takes as long.
const STRIDE: Micros = 1_000_000;
const FOREVER: Micros = 24 * 3_600 * 1_000_000;
/// An error number.
pub(crate) type Errno = c_int;

/// Everything behind packetdrill's struct.
pub(crate) struct World {
    flags: Flags,
    state: Mutex<State>,
    changed: Condvar,
}

/// A socket that packetdrill knows by the number of an eventfd.
pub(crate) struct Socket {
    pub(crate) core: Fd,
    pub(crate) stream: bool,
    pub(crate) blocks: bool,
    /// What was set with `setsockopt`, by level and name.
    pub(crate) set: HashMap<(c_int, c_int), Vec<u8>>,
    /// What was sent with `MSG_ZEROCOPY`.
    pub(crate) copies: Copies,
    /// What is to be told of times.
    pub(crate) stamps: Stamps,
}

impl Socket {
    /// The number that an option was set to; 0 when it was not.
    pub(crate) fn option(&self, level: c_int, name: c_int) -> c_int {
        let bytes = self.set.get(&(level, name)).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| c_int::from_ne_bytes(*bytes))
    }
}

pub(crate) struct State {
    core: Option<Held>,
    /// What the clock showed when the core was made: it begins at zero.
    made: Micros,
    /// The clock before that.
    early: Micros,
    pub(crate) sockets: HashMap<c_int, Socket>,
    pub(crate) sets: HashMap<c_int, Set>,
    sent: VecDeque<Sent>,
    /// The kernel's knobs as they were read last.
    knobs: Vec<String>,
    /// Somebody's call is in progress.
    calling: bool,
    reply: Option<(Reply, Micros)>,
    /// A thread was blocked until this moment; its next look at the clock shows it.
    stamps: HashMap<ThreadId, Micros>,
    /// How often anybody came in.
    visits: u64,
}

/// The core, which counts references without caring for threads.
struct Held(Core);

// SAFETY: everything that shares counts with the core's buffers is inside of it, and it is only
// touched under the lock of `World::state`.
unsafe impl Send for Held {}

impl World {
    pub(crate) fn new(flags: Flags) -> World {
        let state = State {
            core: None,
            made: 0,
            early: 0,
            sockets: HashMap::new(),
            sets: HashMap::new(),
            sent: VecDeque::new(),
            knobs: Vec::new(),
            calling: false,
            reply: None,
            stamps: HashMap::new(),
            visits: 0,
        };
        World { flags, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// What it was told.
    pub(crate) fn flags(&self) -> &Flags {
        &self.flags
    }

    /// The state, for somebody who comes in.
    pub(crate) fn enter(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.visits += 1;
        state
    }

    /// The core; the first caller makes it, after the script has set the kernel's knobs.
    pub(crate) fn core<'a>(&self, state: &'a mut State) -> &'a mut Core {
        if state.core.is_none() {
            let commands = kernel::knobs();
            state.knobs.clone_from(&commands);
            let settings =
                Settings { mtu: Some(self.flags.net.mtu), commands, ..Settings::default() };
            let core = Core::new(self.flags.net, &Script { settings, events: Vec::new() });
            state.made = state.early;
            state.core = Some(Held(core));
        }
        match &mut state.core {
            Some(Held(core)) => core,
            None => unreachable!("it was made above"),
        }
    }

    /// Reads the kernel's knobs anew, for a socket that is about to be made.
    pub(crate) fn heed_knobs(&self) {
        let knobs = kernel::knobs();
        let mut state = self.enter();
        if state.core.is_some() && state.knobs != knobs {
            self.core(&mut state).turn(&knobs);
        }
        state.knobs = knobs;
    }

    /// Moves the clock on, or until a packet was sent if `stop` says so.
    fn advance(&self, state: &mut State, to: Micros, stop: bool) {
        loop {
            let made = state.made;
            let Some(Held(core)) = &mut state.core else {
                state.early = state.early.max(to);
                return;
            };
            // In virtual time this cannot fail.
            let _ = core.advance(to - made);
            let there = core.now() + made >= to;
            let replied = self.collect(state);
            if there || (stop && (replied || !state.sent.is_empty())) {
                return;
            }
        }
    }

    /// Takes what the core has to give. True when a call has ended.
    fn collect(&self, state: &mut State) -> bool {
        let made = state.made;
        let Some(Held(core)) = &mut state.core else { return false };
        while let Some(sent) = core.sent() {
            state.sent.push_back(Sent { at: sent.at + made, ..sent });
        }
        let reply = core.reply();
        stamps::look(self, state);
        let Some((reply, at)) = reply else { return false };
        state.reply = Some((reply, at + made));
        self.changed.notify_all();
        true
    }

    /// What the clock shows.
    pub(crate) fn now(&self, state: &State) -> Micros {
        state.core.as_ref().map_or(state.early, |Held(core)| core.now() + state.made)
    }

    /// Waits for one of the condition's changes; false when none came in time.
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Duration,
    ) -> (MutexGuard<'a, State>, bool) {
        let (state, out) =
            self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        (state, !out.timed_out())
    }

    /// Makes a call and waits for its reply.
    pub(crate) fn call(&self, op: Op) -> Result<Reply, Errno> {
        let mut state = self.enter();
        let mut waited: Micros = 0;
        // Another thread's call is in progress: it ends, or is given up.
        while state.calling {
            state = self.wait(state, self.flags.alone).0;
        }
        state.calling = true;
        let begun = self.core(&mut state).call(op);
        if begun.is_err() {
            state.calling = false;
            return Err(libc::EIO);
        }
        self.collect(&mut state);
        self.changed.notify_all();
        let mut blocked = false;
        loop {
            if let Some((reply, at)) = state.reply.take() {
                state.calling = false;
                if blocked {
                    state.stamps.insert(thread::current().id(), at);
                }
                self.changed.notify_all();
                return Ok(reply);
            }
            blocked = true;
            let visits = state.visits;
            state = self.wait(state, self.flags.alone).0;
            if state.reply.is_none() && state.visits == visits {
                if waited >= FOREVER {
                    self.core(&mut state).abandon();
                    state.calling = false;
                    self.changed.notify_all();
                    return Err(libc::EINTR);
                }
                // Nobody else moves the clock: everybody waits for this call.
                while state.reply.is_none() && waited < FOREVER {
                    let to = self.now(&state) + STRIDE;
                    self.advance(&mut state, to, true);
                    waited += STRIDE;
                }
            }
        }
    }

    /// A call that never waits, on the socket behind a number.
    pub(crate) fn on(&self, fd: c_int, op: impl FnOnce(Fd) -> Op) -> Result<Reply, Errno> {
        let core = self.enter().sockets.get(&fd).map(|socket| socket.core).ok_or(libc::EBADF)?;
        let reply = self.call(op(core))?;
        match reply.value {
            Ok(_) => Ok(reply),
            Err(errno) => Err(errno.0),
        }
    }

    /// Time passes.
    pub(crate) fn sleep(&self, micros: u32) {
        let mut state = self.enter();
        let to = self.now(&state) + Micros::from(micros);
        self.advance(&mut state, to, false);
    }

    /// What time it is.
    pub(crate) fn look(&self) -> Micros {
        let mut state = self.enter();
        if let Some(at) = state.stamps.remove(&thread::current().id()) {
            return BEGIN + at;
        }
        let to = self.now(&state) + LOOK;
        self.advance(&mut state, to, false);
        BEGIN + to
    }

    /// A packet arrives.
    pub(crate) fn inject(&self, packet: &[u8]) -> Result<(), Errno> {
        let mut state = self.enter();
        self.core(&mut state).inject(packet).map_err(|_| libc::ENOBUFS)?;
        self.collect(&mut state);
        Ok(())
    }

    /// Gives the other thread a little real time to begin a call, before the clock runs on as if it
    /// would not.
    fn be_patient<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let visits = state.visits;
        let mut in_time = true;
        while in_time && state.visits == visits && state.sent.is_empty() {
            (state, in_time) = self.wait(state, self.flags.grace);
        }
        state
    }

    /// The next packet that the stack sends; None when none comes for too long.
    pub(crate) fn sent(&self) -> Option<Sent> {
        let mut state = self.enter();
        if state.sent.is_empty() {
            state = self.be_patient(state);
        }
        let end = self.now(&state) + Micros::from(self.flags.timeout) * 1_000_000;
        while state.sent.is_empty() && self.now(&state) < end {
            self.advance(&mut state, end, true);
            if state.reply.is_some() && state.sent.is_empty() {
                // A call has just ended, and the next one may send.
                state = self.be_patient(state);
            }
        }
        state.sent.pop_front().map(|sent| Sent { at: BEGIN + sent.at, ..sent })
    }
}
