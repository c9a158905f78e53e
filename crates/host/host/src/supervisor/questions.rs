//! What processes ask, and who answers: the session's worker does most of it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_base::Handle;
use clearway_session::errno::{Refusal, refuse};
use clearway_session::program::{Program, ProgramInfo};
use clearway_session::quota::{QuotaInfo, Thing};
use clearway_session::sessions::Wish;
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::{
    self, Dns, Handoff, Kind, MAX_INTERFACES_LEN, MAX_PREFIXES, Prefixes, Reply, Request,
    SessionId, SocketOptions, SocketTable, TablePlace, worker_of,
};
use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SndBuf;

use super::state::{Process, SessionFd, Supervisor};
use crate::answer::{Asker, Doorway};
use crate::outcome::locked;
use crate::sockets;
use crate::workers::Workers;

/// Kinds of sockets that stayed with the kernel that are remembered for each program.
const MAX_STAYED: usize = 256;

/// Characters of what a program says about one.
const MAX_STAYED_TEXT: usize = 200;

/// Bytes of exec handoffs that may lie in a session fd: Linux makes it as much as a handful take.
const HANDOFFS: usize = 1;

impl Supervisor {
    pub(super) fn on_request(&mut self, handle: Handle<Process>, request: Request) {
        self.counts.questions += 1;
        if let Request::Hello(hello) = &request {
            return self.on_hello(handle, hello);
        }
        let Some(process) = self.processes.get(handle) else { return };
        if let Request::Inherit { cookie } = request {
            let (attach_socket, through) =
                (Arc::clone(&process.attach_socket), process.through.clone());
            return self.ask_inherit(attach_socket, cookie, through);
        }
        let Some(member) = &process.member else {
            // Who has not been let in has nothing to ask.
            self.counts.refused_other += 1;
            return self.end_process(handle);
        };
        let asker = Asker {
            attach_socket: Arc::clone(&process.attach_socket),
            process: member.number,
            program: Arc::clone(&member.program),
        };
        // What was closed before this was asked is over: an address is free, a listener is none.
        self.end_session_fds();
        match request {
            Request::Hello(_) | Request::Inherit { .. } => {}
            Request::Prefixes => self.ask_prefixes(asker),
            Request::Interfaces => self.ask_interfaces(asker),
            Request::Open { kind, v6, options, port } => {
                self.ask_open(asker, kind, v6, (options, port))
            }
            Request::SessionFds { count } => self.ask_session_fds(asker, handle, count),
            Request::OpenAhead { v6, count, fds } => {
                self.ask_open_ahead(asker, handle, v6, (count, fds))
            }
            Request::Claim { session } => self.ask_claim(asker, session),
            Request::Child => self.expect_child(handle, &asker),
            Request::Segment { app, segment } => self.answer_segment(handle, &asker, app, segment),
            Request::Join { token } => self.ask_join(handle, &asker, &token),
            Request::Stayed { what, why } => {
                self.note_stayed(asker.program.number, what, why);
                asker.answer(Ok(Reply::Done), &[]);
            }
            request @ Request::Revive { .. } => self.ask_revive(asker, request),
            Request::Bind { session, local } => self.ask_bind(asker, session, local),
            Request::Listen { session, backlog } => self.ask_listen(asker, session, backlog),
            Request::SocketLines { table, from } => self.ask_socket_lines(asker, table, from),
            request => self.ask_worker(asker, request),
        }
    }

    /// A session fd that was claimed a moment ago is its session's as soon as the worker has heard
    /// of that: the answer comes behind it.
    fn ask_inherit(&self, attach_socket: Arc<Doorway>, cookie: u64, through: Option<String>) {
        let may_be_claimed = |session_fd: &SessionFd| {
            session_fd.ahead.is_some() && session_fd.session.load(Ordering::Acquire) == 0
        };
        if !self.session_fd_named(cookie).is_some_and(may_be_claimed) {
            return self.answer_inherit(attach_socket, cookie, through);
        }
        // Which worker it is nobody knows yet.
        self.when_all_have_heard(move |supervisor| {
            supervisor.answer_inherit(attach_socket, cookie, through);
        });
    }

    fn session_fd_named(&self, cookie: u64) -> Option<&SessionFd> {
        self.cookies.get(&cookie).and_then(|handle| self.session_fds.get(*handle))
    }

    fn answer_inherit(&self, attach_socket: Arc<Doorway>, cookie: u64, through: Option<String>) {
        let session_fd = self.session_fd_named(cookie);
        let session = session_fd.map_or(0, |session_fd| session_fd.session.load(Ordering::Acquire));
        let worker = worker_of(session);
        if worker >= self.workers.count()
            || self.programs.values().all(|entry| entry.program.foreign.is_empty())
        {
            let answer = self.leave_handoff(cookie, through.as_deref(), None);
            return attach_socket.answer(&answer, &[]);
        }
        // A session fd of one that joined a program may stand for a connection of that: the
        // session's worker knows.
        let inbox = self.inbox.clone();
        let look = move |worker: &mut Worker| {
            let of = worker.sessions().program_of(session).map(Arc::clone);
            // A supervisor that has ended has closed all attach sockets.
            let _ = inbox.post(Box::new(move |supervisor: &mut Supervisor| {
                let answer = supervisor.leave_handoff(cookie, through.as_deref(), of.as_ref());
                attach_socket.answer(&answer, &[]);
            }));
        };
        self.workers.to_worker(worker, Box::new(look));
    }

    /// Goes on when all workers have taken what processes have left for them by now: the last of
    /// them says so.
    pub(super) fn when_all_have_heard(&self, then: impl FnOnce(&mut Supervisor) + Send + 'static) {
        let inbox = self.inbox.clone();
        let go_on = move || {
            // A supervisor that has ended has closed all attach sockets.
            let _ = inbox.post(Box::new(then));
        };
        let last = Arc::new(Mutex::new((self.workers.count(), Some(go_on))));
        for worker in 0..self.workers.count() {
            let last = Arc::clone(&last);
            let hear = move |worker: &mut Worker| {
                let time = worker.time();
                let (sessions, stack) = worker.both();
                sessions.hear(time, stack);
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                last.0 -= 1;
                if last.0 == 0 {
                    last.1.take().into_iter().for_each(|go_on| go_on());
                }
            };
            self.workers.to_worker(worker, Box::new(hear));
        }
    }

    /// Puts what an inheritor needs into the session fd of this cookie. Whoever asks, only who
    /// holds the session fd can take it out. At the attach socket of a namespace there are only
    /// session fds of that namespace. `of` is the program whose session it is, where that may be
    /// another one than the session fd's.
    fn leave_handoff(
        &self,
        cookie: u64,
        through: Option<&str>,
        of: Option<&Arc<Program>>,
    ) -> Reply {
        let program = |session_fd: &SessionFd| Arc::clone(of.unwrap_or(&session_fd.program));
        let session_fd = self.session_fd_named(cookie).filter(|session_fd| {
            let program = program(session_fd);
            program.is_behind(through) && !program.is_cut.load(Ordering::Acquire)
        });
        let session = session_fd.map_or(0, |session_fd| session_fd.session.load(Ordering::Acquire));
        let left = session_fd.filter(|_| session != 0).is_some_and(|session_fd| {
            let handoff = Handoff { token: program(session_fd).token, session };
            // So that strangers who ask without end fill little memory. When it is full there is
            // one to be taken.
            let _ = setsockopt(&session_fd.fd, SndBuf, &HANDOFFS);
            let sent = clearway_shm::socket::send_now(session_fd.fd.as_fd(), &handoff);
            sent.map_or_else(|error| error.kind() == std::io::ErrorKind::WouldBlock, |()| true)
        });
        match left {
            true => Reply::Done,
            false => Reply::Error {
                errno: Errno::ENOENT as i32,
                why: "there is no such session fd".into(),
            },
        }
    }

    /// Has a worker answer.
    fn delegate(
        &self,
        worker: usize,
        asker: Asker,
        f: impl FnOnce(&mut Worker, &Asker) -> Result<Reply, Refusal> + Send + 'static,
    ) {
        if worker >= self.workers.count() {
            return asker.answer(Err(refuse(Errno::EBADF, "there is no such session")), &[]);
        }
        let job = move |worker: &mut Worker| {
            asker.hear(worker);
            let result = f(worker, &asker);
            asker.answer(result, &[]);
        };
        self.workers.to_worker(worker, Box::new(job));
    }

    /// As [`Supervisor::delegate`], with the program's end of a session fd beside a good answer.
    pub(super) fn delegate_with(
        &self,
        worker: usize,
        asker: Asker,
        (theirs, session): (OwnedFd, Arc<AtomicU64>),
        f: impl FnOnce(&mut Worker, &Asker) -> Result<attach_socket::Session, Refusal> + Send + 'static,
    ) {
        let job = move |worker: &mut Worker| {
            asker.hear(worker);
            match f(worker, &asker) {
                Ok(made) => {
                    session.store(made.id, Ordering::Release);
                    asker.answer(Ok(Reply::Opened(made)), &[theirs.as_fd()]);
                }
                // The session fd closes by itself when nobody gets it.
                Err(refusal) => asker.answer(Err(refusal), &[]),
            }
        };
        self.workers.to_worker(worker, Box::new(job));
    }

    /// The worker of a socket that has to do with no port yet: one after the other.
    pub(super) fn next_worker(&mut self) -> usize {
        let worker = self.next_worker;
        self.next_worker = (worker + 1) % self.workers.count();
        worker
    }

    /// The worker of a socket that will be bound to this port, or sends to it on this host; 0: to
    /// none yet. It is the one whose share the port is of: packets for a port that somebody connects
    /// from are handed there (`Stack::share_ports`), and who sends finds who receives at home. Of a
    /// port that several datagram sockets share each gets the next worker.
    pub(super) fn worker_for(&mut self, kind: Kind, port: u16, options: &SocketOptions) -> usize {
        let workers = self.workers.count();
        if port == 0 || workers == 1 {
            return self.next_worker();
        }
        if kind == Kind::Datagram {
            if options.reuse_port {
                let came = self.shared_ports.entry(port).or_default();
                *came += 1;
                return (usize::from(port) + *came - 1) % workers;
            }
            if self.shared_ports.contains_key(&port) {
                return self.next_worker();
            }
        }
        usize::from(port) % workers
    }

    fn ask_open(
        &mut self,
        asker: Asker,
        kind: Kind,
        v6: bool,
        (options, port): (SocketOptions, u16),
    ) {
        let worker = self.worker_for(kind, port, &options);
        let made = self.session_fd(&asker.program, worker, 0);
        let session_fd = match made {
            Ok(session_fd) => session_fd,
            Err(errno) => return asker.answer(Err(no_session_fd(errno)), &[]),
        };
        self.delegate_with(worker, asker, session_fd, move |worker, asker| {
            let (sessions, stack) = worker.both();
            sessions.open(stack, &asker.program, asker.process, (kind, v6, options))
        });
    }

    fn ask_claim(&mut self, asker: Asker, id: u64) {
        let worker = worker_of(id);
        if worker >= self.workers.count() {
            return asker.answer(Err(refuse(Errno::EBADF, "there is no such session")), &[]);
        }
        let made = self.session_fd(&asker.program, worker, 0);
        let session_fd = match made {
            Ok(session_fd) => session_fd,
            Err(errno) => return asker.answer(Err(no_session_fd(errno)), &[]),
        };
        self.delegate_with(worker, asker, session_fd, move |worker, asker| {
            let asker = asker.clone().about(worker, id);
            let (sessions, stack) = worker.both();
            sessions.claim(stack, &asker.program, asker.process, id)
        });
    }

    fn ask_worker(&mut self, asker: Asker, request: Request) {
        let id = match &request {
            Request::Connect { session, .. }
            | Request::Subscribe { session }
            | Request::Options { session, .. }
            | Request::Urgent { session, .. }
            | Request::Settle { session }
            | Request::Group { session, .. }
            | Request::PathMtu { session, .. }
            | Request::ErrorReport { session }
            | Request::Stamps { session }
            | Request::Info { session } => *session,
            _ => return asker.answer(Err(refuse(Errno::EINVAL, "no worker answers that")), &[]),
        };
        self.delegate(worker_of(id), asker, move |worker, asker| {
            let asker = asker.clone().about(worker, id);
            let time = worker.time();
            let (sessions, stack) = worker.both();
            let program = &asker.program;
            sessions.connect_asked(time, stack, program, id);
            Ok(match request {
                Request::Connect { remote, .. } => {
                    Reply::Opened(sessions.connect(time, stack, program, id, remote)?)
                }
                Request::Subscribe { .. } => {
                    Reply::Opened(sessions.subscribe(stack, program, asker.process, id)?)
                }
                Request::Options { options, .. } => {
                    sessions.set_options(stack, program, id, options)?;
                    Reply::Done
                }
                Request::Settle { .. } => Reply::Done,
                Request::Group { iface, group, change, .. } => {
                    sessions.change_group(stack, program, id, Wish { iface, group, change })?;
                    Reply::Done
                }
                Request::PathMtu { remote, len, .. } => {
                    Reply::PathMtu(sessions.path_mtu(stack, program, id, (remote, len))?)
                }
                Request::ErrorReport { .. } => {
                    Reply::ErrorReport(sessions.error_report(stack, program, id)?)
                }
                Request::Stamps { .. } => {
                    let (rx, tx) = sessions.stamp_places(stack, program, id)?;
                    Reply::Stamps { rx, tx }
                }
                Request::Urgent { ahead, .. } => {
                    sessions.mark_urgent(stack, program, id, ahead)?;
                    Reply::Done
                }
                _ => Reply::Info(Box::new(sessions.tcp_info(stack, program, id)?)),
            })
        });
    }

    /// A datagram session is answered when all workers hold its port, so that whoever hears of the
    /// port reaches it, and when the one that says for all who has the port holds it, too.
    fn ask_bind(&mut self, asker: Asker, id: SessionId, local: SocketAddr) {
        let (home, workers) = (worker_of(id), Arc::clone(&self.workers));
        if home >= workers.count() {
            return asker.answer(Err(refuse(Errno::EBADF, "there is no such session")), &[]);
        }
        bind_at_home(&workers, asker, (id, local), true);
    }

    /// A listener is answered when all workers listen: a peer comes to whatever worker it likes, and
    /// one that has not heard of the listener would refuse it.
    fn ask_listen(&mut self, asker: Asker, id: SessionId, backlog: u32) {
        let (home, workers) = (worker_of(id), Arc::clone(&self.workers));
        if home >= workers.count() {
            return asker.answer(Err(refuse(Errno::EBADF, "there is no such session")), &[]);
        }
        let job = move |worker: &mut Worker| {
            asker.hear(worker);
            let asker = asker.about(worker, id);
            let (sessions, stack) = worker.both();
            match sessions.listen(stack, &asker.program, id, backlog) {
                Ok(listener) if workers.count() > 1 => {
                    let answer = move |_: &Arc<Workers>, _| {
                        asker.answer(Ok(Reply::Opened(listener)), &[]);
                    };
                    through_others(&workers, home, |_| true, answer);
                }
                listens => asker.answer(listens.map(Reply::Opened), &[]),
            }
        };
        self.workers.to_worker(home, Box::new(job));
    }

    fn ask_prefixes(&mut self, asker: Asker) {
        // Before anything is looked at: what changes afterwards has a newer number.
        let generation = self.workers.page.routes();
        let program = &asker.program;
        let dns = locked(&self.namespaces).dns.of(program.interface.as_deref(), program.table);
        self.delegate(0, asker, move |worker, asker| {
            let (sessions, stack) = worker.both();
            let (local, routes) = sessions.prefixes(stack, &asker.program);
            Ok(Reply::Prefixes(Prefixes { dns, ..fitted(generation, local, routes) }))
        });
    }

    /// One worker knows the interfaces, and each has counted a part of what passed.
    fn ask_interfaces(&mut self, asker: Asker) {
        let workers = Arc::clone(&self.workers);
        let job = move |worker: &mut Worker| {
            asker.hear(worker);
            let (sessions, stack) = worker.both();
            let mut list = fitting(sessions.interfaces(stack, &asker.program));
            add_counts(&mut list, worker);
            if workers.count() == 1 {
                return asker.answer(Ok(Reply::Interfaces(list)), &[]);
            }
            let list = Arc::new(Mutex::new(list));
            let summed = Arc::clone(&list);
            let add = move |worker: &mut Worker| {
                add_counts(&mut locked(&list), worker);
                true
            };
            let answer = move |_: &Arc<Workers>, _| {
                asker.answer(Ok(Reply::Interfaces(locked(&summed).clone())), &[]);
            };
            through_others(&workers, 0, add, answer);
        };
        self.workers.to_worker(0, Box::new(job));
    }

    /// The worker has the sessions, and the supervisor the names of their descriptors.
    fn ask_socket_lines(&mut self, asker: Asker, table: SocketTable, from: TablePlace) {
        let at = from.worker as usize;
        if at >= self.workers.count() {
            return asker.answer(Err(refuse(Errno::EINVAL, "there is no such worker")), &[]);
        }
        let inbox = self.inbox.clone();
        let job = move |worker: &mut Worker| {
            asker.hear(worker);
            let namespace = Some(asker.program.namespace.as_str());
            let (sockets, slot) = sockets::some(worker, (table, namespace), from.slot);
            let answer = move |supervisor: &mut Supervisor| {
                let inodes = supervisor.inodes(|id| sockets.iter().any(|socket| socket.is(id)));
                let line = from.line.saturating_add(sockets.len() as u32);
                let next = match slot {
                    Some(slot) => Some(TablePlace { worker: from.worker, slot, line }),
                    None => {
                        let worker = from.worker.saturating_add(1);
                        let is_there = (worker as usize) < supervisor.workers.count();
                        is_there.then_some(TablePlace { worker, slot: 0, line })
                    }
                };
                let is_first = from == TablePlace::default();
                let heading = if is_first { sockets::heading(table) } else { String::new() };
                let lines = sockets::lines(table, from.line, &sockets, &inodes);
                asker.answer(
                    Ok(Reply::SocketLines { text: format!("{heading}{lines}"), next }),
                    &[],
                );
            };
            // A supervisor that has ended has closed all attach sockets.
            let _ = inbox.post(Box::new(answer));
        };
        self.workers.to_worker(at, Box::new(job));
    }

    /// What `/proc` calls the descriptors of sessions.
    pub(crate) fn inodes(&self, wanted: impl Fn(SessionId) -> bool) -> HashMap<SessionId, u64> {
        let named = |(_, one): (_, &SessionFd)| (one.session.load(Ordering::Acquire), one.inode);
        let named = self.session_fds.iter().map(named);
        named.filter(|(session, _)| *session != 0 && wanted(*session)).collect()
    }

    fn note_stayed(&mut self, program: u32, what: String, why: String) {
        let Some(entry) = self.programs.get_mut(&program) else { return };
        let short = |text: String| {
            text.chars().filter(|c| !c.is_control()).take(MAX_STAYED_TEXT).collect::<String>()
        };
        let (what, why) = (short(what), short(why));
        if let Some(known) = entry.stayed.iter_mut().find(|s| s.0 == what && s.1 == why) {
            known.2 += 1;
        } else if entry.stayed.len() < MAX_STAYED {
            entry.stayed.push((what, why, 1));
        }
    }

    fn answer_segment(&self, handle: Handle<Process>, asker: &Asker, app: u32, number: u32) {
        let joined = self.processes.get(handle).into_iter().flat_map(|p| &p.joined);
        let mut programs = joined.map(|of| &of.program).chain([&asker.program]);
        let segment =
            programs.find(|program| program.number == app).and_then(|p| p.memory.segment(number));
        match segment {
            Some(segment) => {
                asker.answer(Ok(Reply::Segment { len: segment.len }), &[segment.as_fd()])
            }
            None => asker.answer(Err(refuse(Errno::ENOENT, "there is no such segment")), &[]),
        }
    }

    pub(crate) fn quota_infos(&self) -> Vec<QuotaInfo> {
        let spaces = self.spaces.values().map(|space| space.info(None));
        let programs = self.programs.values().map(|entry| &entry.program);
        let programs = programs.map(|program| program.quota.info(Some(program.number)));
        [self.quota.info(None)].into_iter().chain(spaces).chain(programs).collect()
    }

    pub(crate) fn program_infos(&self) -> Vec<ProgramInfo> {
        let info = |entry: &super::state::Entry| {
            let program = &entry.program;
            let mine = self.processes.iter().filter_map(|(_, p)| {
                let member = p.member.as_ref().filter(|m| Arc::ptr_eq(&m.program, program))?;
                Some((member.number, p.pid))
            });
            ProgramInfo {
                app: program.number,
                name: program.name.clone(),
                namespace: program.namespace.clone(),
                processes: mine.collect(),
                sessions: program.quota.count(Thing::Session),
                listeners: program.quota.count(Thing::Listener),
                segments: program.memory.segments(),
                memory: program.memory.used(),
                resident: program.memory.resident(),
                memory_limit: program.memory.limit(),
                stayed: entry.stayed.clone(),
            }
        };
        self.programs.values().map(info).collect()
    }
}

/// Binds the session on its worker. `again`: where the address is taken, it is tried once more when
/// all other workers have done what they were asked before, as one may have ended just now who had
/// it.
fn bind_at_home(
    workers: &Arc<Workers>,
    asker: Asker,
    (id, local): (SessionId, SocketAddr),
    again: bool,
) {
    let (home, all) = (worker_of(id), Arc::clone(workers));
    let job = move |worker: &mut Worker| {
        asker.hear(worker);
        let asker = asker.about(worker, id);
        let (sessions, stack) = worker.both();
        let bound = sessions.bind(stack, &asker.program, id, local);
        let is_taken = matches!(&bound, Err(refusal) if refusal.errno == Errno::EADDRINUSE);
        let owner = sessions.port_owner(&asker.program, id);
        match (bound, owner) {
            (Err(_), _) if is_taken && again && all.count() > 1 => {
                let retry = move |workers: &Arc<Workers>, _| {
                    bind_at_home(workers, asker, (id, local), false);
                };
                through_others(&all, home, |_| true, retry);
            }
            (Ok(bound), Some(owner)) => {
                let holds = move |worker: &mut Worker| {
                    worker.index() != owner || worker.sessions().stands_in_for(id)
                };
                let answer = move |workers: &Arc<Workers>, is_held: bool| match is_held {
                    true => asker.answer(Ok(Reply::Bound(bound)), &[]),
                    false => give_up(workers, asker, id),
                };
                through_others(&all, home, holds, answer);
            }
            (bound, _) => asker.answer(bound.map(Reply::Bound), &[]),
        }
    };
    workers.to_worker(home, Box::new(job));
}

/// Somebody else has the address, as the worker says that knows it for all.
fn give_up(workers: &Arc<Workers>, asker: Asker, id: SessionId) {
    let job = move |worker: &mut Worker| {
        let (sessions, stack) = worker.both();
        sessions.unbind(stack, &asker.program, id);
        asker.answer(Err(refuse(Errno::EADDRINUSE, "another socket has the port")), &[]);
    };
    workers.to_worker(worker_of(id), Box::new(job));
}

/// Asks all workers but one, behind what they were asked before, and has the last of them go on:
/// with whether all said yes.
fn through_others(
    workers: &Arc<Workers>,
    but: usize,
    ask: impl Fn(&mut Worker) -> bool + Clone + Send + 'static,
    then: impl FnOnce(&Arc<Workers>, bool) + Send + 'static,
) {
    let last = Arc::new(Mutex::new((workers.count() - 1, true, Some(then))));
    for other in (0..workers.count()).filter(|other| *other != but) {
        let (ask, last, workers) = (ask.clone(), Arc::clone(&last), Arc::clone(workers));
        let all = Arc::clone(&workers);
        let job = move |worker: &mut Worker| {
            let is_so = ask(worker);
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.0 -= 1;
            last.1 &= is_so;
            if last.0 == 0 {
                let (all_say_so, then) = (last.1, last.2.take());
                drop(last);
                then.into_iter().for_each(|then| then(&workers, all_say_so));
            }
        };
        all.to_worker(other, Box::new(job));
    }
}

pub(super) fn no_session_fd(errno: Errno) -> Refusal {
    refuse(
        errno,
        "no descriptor for one more session; raise the host's limit of open files (ulimit -n)",
    )
}

/// Adds what this worker counted.
fn add_counts(list: &mut [attach_socket::Interface], worker: &mut Worker) {
    for port in worker.engine().ports() {
        // Counted from 1, as in the list.
        let number = u32::from(port.iface.0) + 1;
        if let Some(one) = list.iter_mut().find(|one| one.number == number) {
            let (sum, more) = (&mut one.counts, &port.counters);
            sum.rx_packets += more.rx_packets;
            sum.rx_bytes += more.rx_bytes;
            sum.rx_dropped += more.rx_dropped_total();
            sum.tx_packets += more.tx_packets;
            sum.tx_bytes += more.tx_bytes;
            sum.tx_dropped += more.tx_dropped_total();
        }
    }
}

/// As many interfaces as a message holds.
fn fitting(list: Vec<attach_socket::Interface>) -> Vec<attach_socket::Interface> {
    let mut left = MAX_INTERFACES_LEN;
    // An encoded number takes five bytes at most, and an address one more for its family.
    // One of 64 bits takes ten, and there are six of them.
    let len = |one: &attach_socket::Interface| 92 + one.name.len() + one.addresses.len() * 18;
    list.into_iter()
        .take_while(|one| {
            let fits = len(one) <= left;
            left = left.saturating_sub(len(one));
            fits
        })
        .collect()
}

/// As much of both lists as a message holds.
fn fitted(generation: u32, mut own: Vec<(IpAddr, u8)>, mut routes: Vec<(IpAddr, u8)>) -> Prefixes {
    let more = own.len() > MAX_PREFIXES || routes.len() > MAX_PREFIXES;
    own.truncate(MAX_PREFIXES);
    routes.truncate(MAX_PREFIXES);
    let is_net = |(addr, len): &(IpAddr, u8)| addr.is_ipv4() && addr.is_loopback() && *len < 32;
    let loopback = own.iter().copied().filter(is_net).min_by_key(|(_, len)| *len);
    let local = own.into_iter().map(|(addr, _)| addr).collect();
    Prefixes { generation, local, loopback, routes, more, dns: Dns::default() }
}
