//! What processes leave in their rings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_engine::Time;
use clearway_proto::ConnId;
use clearway_shm::attach_socket::Kind;
use clearway_shm::layout::{Message, event, option_of, request};

use super::queue_pair::QUEUE_PAIR_SLOTS;
use super::state::{Session, Sessions, What};
use crate::env::HostStack;
use crate::program::Program;

/// Messages of one process that are taken in one turn.
const QUANTUM: usize = 256;

/// Messages of all processes that are taken in one turn: packets and timers wait no longer than
/// these take, whoever floods.
const MOST: usize = 16 * QUANTUM;

/// How often room is looked at while a process moves it.
const LOOKS: u32 = 4;

/// The largest step in which a window can be said (RFC 7323 2.3).
const MAX_STEP: u32 = 1 << 14;

impl Sessions {
    /// Takes what processes have left by now, before the next turn does.
    pub fn hear(&mut self, time: Time, stack: &mut HostStack) {
        for _ in 0..QUEUE_PAIR_SLOTS as usize / QUANTUM {
            self.take_messages(time, stack);
        }
    }

    /// The same before a question of the program's is answered, for which the ends of session fds
    /// were heard.
    pub fn hear_before_answer(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        program: &Arc<Program>,
    ) {
        self.answers = true;
        self.hear_program(time, stack, program);
        self.answers = false;
    }

    /// Takes what the processes of one program have left by now: a question is answered behind what
    /// was said before it.
    pub fn hear_program(&mut self, time: Time, stack: &mut HostStack, program: &Arc<Program>) {
        for at in 0..self.queue_pairs.len() {
            let queue_pair = &self.queue_pairs[at];
            if program.admits(&queue_pair.program, queue_pair.process) {
                self.had_work |= self.take_from(time, stack, at, QUEUE_PAIR_SLOTS as usize) > 0;
            }
        }
    }

    /// Takes messages of all processes. True: there were some.
    pub(super) fn take_messages(&mut self, time: Time, stack: &mut HostStack) -> bool {
        let mut any = false;
        let mut most = MOST;
        // By index: what a message leads to may need all of `self`. Queue pairs come and go between
        // turns only. Each turn begins where the last one ended, so that everybody's turn comes.
        for _ in 0..self.queue_pairs.len() {
            if most == 0 {
                break;
            }
            let at = if self.next_queue_pair < self.queue_pairs.len() {
                self.next_queue_pair
            } else {
                0
            };
            self.next_queue_pair = at + 1;
            let taken = self.take_from(time, stack, at, QUANTUM.min(most));
            most -= taken;
            any |= taken > 0;
        }
        any
    }

    /// Takes at most so many messages of one process. Answers how many there were.
    fn take_from(&mut self, time: Time, stack: &mut HostStack, at: usize, most: usize) -> usize {
        let mut taken = 0;
        for _ in 0..most {
            let queue_pair = &mut self.queue_pairs[at];
            if queue_pair.program.is_cut.load(Ordering::Relaxed) {
                break;
            }
            match queue_pair.next() {
                Ok(None) => break,
                Ok(Some(message)) => {
                    taken += 1;
                    self.report.messages += 1;
                    if message.what == request::WROTE {
                        queue_pair.hold.wrote();
                    }
                    if message.what == request::CLAIM {
                        self.on_claim(stack, at, message);
                        continue;
                    }
                    if message.what == request::CLOSE {
                        self.on_close(stack, at, message);
                        continue;
                    }
                    if message.what == request::LEAVE {
                        self.on_leave(at, message);
                        continue;
                    }
                    match self.find_for(at, message.session) {
                        Some(handle) => self.on_message(time, stack, handle, message),
                        None => self.report.stray_messages += 1,
                    }
                }
                Err(_) => {
                    let program = Arc::clone(&queue_pair.program);
                    self.cut_off(&program, "an impossible position in a ring");
                    break;
                }
            }
        }
        taken
    }

    /// What a process that is gone left for its sessions, which others may hold still: its last
    /// messages, and bytes and room of which it had no time to tell. Nobody else would: who shares
    /// the FIFO sees that somebody has, and tells nothing.
    pub(super) fn take_last(&mut self, time: Time, stack: &mut HostStack, process: u32) {
        let Some(at) = self.queue_pairs.iter().position(|queue_pair| queue_pair.process == process)
        else {
            return;
        };
        // It may live on, served no more, and fill its ring for ever.
        self.take_from(time, stack, at, QUEUE_PAIR_SLOTS as usize);
        if self.queue_pairs[at].program.is_cut.load(Ordering::Relaxed) {
            return;
        }
        let carries =
            |session: &Session| matches!(session.what, What::Conn(_) | What::Datagrams(_));
        let held: Vec<_> = self
            .table
            .iter_mut()
            .filter(|(_, s)| carries(s) && s.subscribers.contains(&process))
            .collect();
        let held: Vec<_> = held.into_iter().map(|(handle, session)| (handle, session.id)).collect();
        for (handle, session) in held {
            for what in [request::WROTE, request::CONSUMED] {
                self.on_message(time, stack, handle, Message { session, what, aux: 0 });
            }
        }
    }

    fn on_message(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        handle: Handle<Session>,
        message: Message,
    ) {
        match message.what {
            request::OPTION => return self.on_option(stack, handle, message.aux),
            request::CONNECT => return self.on_connect(time, stack, handle),
            _ => {}
        }
        let Some(session) = self.table.get_mut(handle) else { return };
        let shuts = matches!(message.what, request::SHUT_READ | request::SHUT_WRITE);
        if shuts && session.subscribers.len() > 1 {
            // The side that is shut is the socket's, so those who wait in other processes have to
            // look. Who said so knows it.
            self.tell(handle, event::STATE);
        }
        let Some(session) = self.table.get_mut(handle) else { return };
        match (message.what, &mut session.what) {
            (request::WROTE, What::Conn(conn)) => {
                let conn = *conn;
                if let Some((_, tx)) = stack.queues(conn) {
                    tx.attend();
                }
                if self.is_direct(stack, handle) {
                    return self.pass_on(stack, handle);
                }
                // A connection that failed or was shut down sends no more; the process sees that in
                // the session's state.
                let _ = stack.wrote(conn);
            }
            (request::WROTE, What::Datagrams(_)) => self.send_datagrams(stack, handle),
            (request::CONSUMED, What::Conn(conn)) => {
                let conn = *conn;
                match self.peer_of(handle).filter(|peer| self.is_direct(stack, *peer)) {
                    Some(peer) => self.pass_on(stack, peer),
                    None => consumed(stack, conn),
                }
            }
            (request::CONSUMED, What::Listener(_)) => self.accept(stack, handle),
            (request::CONSUMED, What::Datagrams(_)) => self.deliver_datagrams(stack, handle),
            (request::SHUT_WRITE, What::Conn(_)) => {
                self.shut_write(time, stack, handle);
                self.reads_no_more(stack, handle);
            }
            (request::SHUT_READ, What::Conn(_)) => self.reads_no_more(stack, handle),
            (request::SHUT_READ, What::Listener(_)) => self.stop_listening(stack, handle),
            // What has no stream ends on the processes' side.
            (request::SHUT_READ | request::SHUT_WRITE, _) => {}
            _ => self.report.stray_messages += 1,
        }
    }

    /// A process sets one option of a stream, which no stream refuses.
    fn on_option(&mut self, stack: &mut HostStack, handle: Handle<Session>, word: u32) {
        let Some(session) = self.table.get(handle) else { return };
        let mut options = session.options;
        let is_one = option_of(word).is_some_and(|(field, value)| options.put(field, value));
        if !is_one || session.kind != Kind::Stream {
            self.report.stray_messages += 1;
            return;
        }
        let (program, id) = (Arc::clone(&session.program), session.id);
        let set = self.set_options(stack, &program, id, options);
        debug_assert!(set.is_ok(), "a stream takes all options");
    }
}

/// The process has read. When that opens the window too little for the peer to be told now, the
/// process is asked to tell of its reading again.
fn consumed(stack: &mut HostStack, conn: ConnId) {
    // Whoever reads byte by byte while this looks could keep it looking for ever; it is asked to
    // tell again, so nothing is lost by stopping.
    for _ in 0..LOOKS {
        stack.consumed(conn, 0);
        let promised = stack.info(conn).map_or(0, |info| info.rcv_wnd);
        let Some((rx, _)) = stack.queues(conn) else { return };
        let (limit, room) = rx.limit_and_room();
        // Half of all is always worth a window update (RFC 9293 3.8.6.2.2); a window is said in
        // steps of 2^14 bytes at most.
        let is_told = room >= promised.saturating_add(limit / 2).saturating_add(MAX_STEP);
        if is_told || promised >= limit / 2 {
            return;
        }
        rx.ask_room();
        if rx.limit_and_room().1 == room {
            return;
        }
    }
}
