//! Who is let in.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use clearway_base::Handle;
use clearway_probes::{self as probes, Text};
use clearway_session::errno::{Refusal, refuse};
use clearway_session::memory::Memory;
use clearway_session::program::{Foreign, Program};
use clearway_session::quota::{Permit, Quota, Thing};
use clearway_session::session_fds::SessionFds;
use clearway_session::sessions::{QUEUE_PAIR_SLOTS, QueuePair};
use clearway_shm::attach_socket::{Hello, Reply, RingPlaces, Token, VERSION, Welcome};
use clearway_shm::layout::{MAGIC, QueuePairHead};
use clearway_shm::notifier::RemoteNotifier;
use clearway_shm::ring::ring_len;
use clearway_shm::socket::Credentials;
use clearway_shm::{Notifier, RingConsumer, RingProducer, Segment, ShmError, socket};
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::state::{
    Entry, KIND_PROCESS, Member, Process, Supervisor, SupervisorCounts, traced, word,
};
use crate::answer::{Asker, Doorway};
use crate::namespaces::{DEFAULT, counted, same_bytes, within};

/// In place of the user of a process of whom the kernel does not say: as Linux has it, no user that
/// exists.
const NOBODY: u32 = u32::MAX;

/// Who knocks that are accepted before others are heard.
const ACCEPTS: usize = 32;

/// Bytes of a program's name that are kept.
const MAX_NAME: usize = 64;

/// Said to a process that would take a descriptor which is kept for commands.
const NO_DESCRIPTORS: &str =
    "no descriptor is left for one more process; raise the host's limit of open files (ulimit -n)";

/// A process's memory and rings, half of them still on their way to the workers.
struct NewQueuePair {
    memory: Arc<Segment>,
    fd: std::os::fd::OwnedFd,
    places: Vec<RingPlaces>,
}

impl Supervisor {
    pub(crate) fn counts(&self) -> SupervisorCounts {
        SupervisorCounts {
            processes: self.processes.len(),
            programs: self.programs.len() as u32,
            session_fds: self.session_fds.len(),
            ..self.counts
        }
    }

    /// Takes those who knock, some at a time: who knocks without end keeps nobody from being heard.
    pub(super) fn let_in(&mut self, attach_socket: usize) {
        for _ in 0..ACCEPTS {
            let Some(Some(attach_socket)) = self.attach_sockets.get(attach_socket) else { return };
            let came = (attach_socket.namespace.clone(), attach_socket.is_way_back);
            match socket::accept(attach_socket.fd.as_fd()) {
                Ok(socket) => self.meet(socket, came),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // Who knocked went away meanwhile.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        tracing::error!(%error,
                            "limit reached: nobody can be accepted for the moment");
                        // Once more with what that gives back, or later.
                        if !self.make_room() {
                            return self.shut_attach_sockets();
                        }
                    }
                },
            }
        }
    }

    /// A process is about to fork, and the child may not reach the attach socket: it gets a
    /// connection, by which it comes as if to the attach socket that its parent came to.
    pub(super) fn expect_child(&mut self, handle: Handle<Process>, asker: &Asker) {
        let Some(parent) = self.processes.get(handle) else { return };
        let came = (parent.through.clone(), parent.by_way_back);
        // The child's own number is not known to anybody yet.
        let who = Credentials { pid: parent.pid, uid: parent.uid, gid: parent.uid };
        match socket::connection() {
            Ok((ours, theirs)) => {
                self.meet_as(ours, came, Some(who));
                asker.answer(Ok(Reply::Done), &[theirs.as_fd()]);
            }
            Err(error) => asker.answer(Err(refuse(Errno::ENFILE, error.to_string())), &[]),
        }
    }

    /// A connection for this process itself, as if it had come to the main attach socket.
    pub(crate) fn bring_in(&mut self) -> io::Result<OwnedFd> {
        let (ours, theirs) = socket::connection()?;
        let who = socket::peer_credentials(ours.as_fd()).ok();
        self.meet_as(ours, (None, false), who);
        Ok(theirs)
    }

    /// Somebody knocked, at the attach socket of this namespace, or at the one that is the way
    /// back.
    fn meet(&mut self, socket: OwnedFd, came: (Option<String>, bool)) {
        let who = socket::peer_credentials(socket.as_fd()).ok();
        self.meet_as(socket, came, who);
    }

    fn meet_as(
        &mut self,
        socket: OwnedFd,
        (through, by_way_back): (Option<String>, bool),
        who: Option<Credentials>,
    ) {
        // Who is connected and said nothing yet makes room; nobody can hold all places, or all
        // descriptors, without showing a secret.
        if self.strangers.is_full() || self.processes.is_full() {
            self.make_room();
        }
        let socket = match self.descriptors.fits_process(&socket) {
            true => Some(socket),
            false => {
                self.make_room();
                self.descriptors.for_process(socket)
            }
        };
        let Some(socket) = socket else {
            self.counts.refused_other += 1;
            tracing::warn!("limit reached: open files; who knocked was sent away");
            return;
        };
        let (pid, uid) = who.map_or((0, NOBODY), |who| (who.pid, who.uid));
        let process = Process {
            attach_socket: Arc::new(Doorway::new(socket)),
            pid,
            uid,
            through,
            by_way_back,
            member: None,
            joined: Vec::new(),
        };
        let Some(handle) = self.processes.insert(process) else {
            self.counts.refused_other += 1;
            tracing::warn!(pid, "limit reached: limits.processes; who knocked was sent away");
            return;
        };
        self.strangers.add(handle, who);
        let watched = match self.processes.get(handle) {
            Some(p) => {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, word(KIND_PROCESS, handle));
                self.epoll.add(p.attach_socket.socket.as_fd(), event)
            }
            None => Ok(()),
        };
        match watched {
            // Who says at once who it is has not been silent for a moment.
            Ok(()) => self.hear(handle),
            Err(_) => self.end_process(handle),
        }
    }

    /// A process says who it is.
    pub(super) fn on_hello(&mut self, handle: Handle<Process>, hello: &Hello) {
        let Some(process) = self.processes.get(handle) else { return };
        let attach_socket = Arc::clone(&process.attach_socket);
        if let Err(Refusal { errno, why }) = self.attach(handle, hello) {
            match errno {
                Errno::EACCES => self.counts.refused_secret += 1,
                _ => self.counts.refused_other += 1,
            }
            let (pid, through) =
                self.processes.get(handle).map_or((0, None), |p| (p.pid, p.through.clone()));
            let wanted = match hello.namespace.as_str() {
                "" => through.unwrap_or_else(|| DEFAULT.to_owned()),
                wanted => shortened(wanted),
            };
            tracing::warn!(
                pid,
                program = shortened(&hello.program),
                namespace = wanted,
                why,
                "refused"
            );
            probes::refused(|| {
                (pid.into(), Text::of(&hello.program), Text::of(&wanted), Text::of(&why))
            });
            self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).count(&wanted, false);
            attach_socket.answer(&Reply::Error { errno: errno as i32, why }, &[]);
        }
    }

    fn attach(&mut self, handle: Handle<Process>, hello: &Hello) -> Result<(), Refusal> {
        let process = self.processes.get(handle).ok_or_else(|| refuse(Errno::EBADF, "gone"))?;
        if process.member.is_some() {
            return Err(refuse(Errno::EISCONN, "the process is attached already"));
        }
        if hello.version != VERSION {
            let why = format!(
                "the host speaks version {VERSION}, and the program's library {}",
                hello.version
            );
            return Err(refuse(Errno::EPROTONOSUPPORT, why));
        }
        let through = process.through.as_deref();
        let program = match hello.inherit.and_then(|token| self.program_of(&token, through)) {
            Some(program) => program,
            None => self.new_program(handle, hello)?,
        };
        let result = self.make_member(handle, &program);
        if result.is_err() {
            self.end_program_if_empty(program.number);
        }
        result
    }

    /// The program of this token, if the attach socket that it was shown at lets into that
    /// program's namespace.
    pub(super) fn program_of(&self, token: &Token, through: Option<&str>) -> Option<Arc<Program>> {
        let mut programs = self.programs.values().map(|entry| &entry.program);
        let program = programs.find(|p| same_bytes(&p.token.0, &token.0))?;
        let is_open = program.is_behind(through) && !program.is_cut.load(Ordering::Acquire);
        is_open.then(|| Arc::clone(program))
    }

    fn has_token(&self, token: &Token) -> bool {
        self.programs.values().any(|entry| same_bytes(&entry.program.token.0, &token.0))
    }

    fn new_program(
        &mut self,
        handle: Handle<Process>,
        hello: &Hello,
    ) -> Result<Arc<Program>, Refusal> {
        let process = self.processes.get(handle).ok_or_else(|| refuse(Errno::EBADF, "gone"))?;
        let (through, by_way_back, owner) =
            (process.through.clone(), process.by_way_back, process.uid);
        let wanted = match (hello.namespace.as_str(), &through) {
            ("", None) => DEFAULT,
            ("", Some(through)) => through,
            (wanted, Some(through)) if wanted != through => {
                let why = format!(
                    "this is the attach socket of the namespace {through}, not of {}",
                    shortened(wanted)
                );
                return Err(refuse(Errno::EINVAL, why));
            }
            (wanted, _) => wanted,
        };
        let namespaces = Arc::clone(&self.namespaces);
        let namespaces = namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = namespaces.find(wanted).ok_or_else(|| {
            refuse(Errno::ENOENT, format!("there is no namespace {}", shortened(wanted)))
        })?;
        // A program of an earlier start of the host was let in then.
        let is_known = self.remembers(hello.inherit.as_ref(), namespace);
        if by_way_back && !is_known {
            return Err(refuse(
                Errno::EACCES,
                "only programs that were let in before come in here",
            ));
        }
        if !is_known && !namespace.admits(hello.secret.as_ref()) {
            let how = if hello.secret.is_some() { "wrong" } else { "missing" };
            return Err(refuse(
                Errno::EACCES,
                format!("the secret of the namespace {wanted} is {how}"),
            ));
        }
        if self.programs.len() as u32 >= self.setup.programs {
            return Err(refuse(
                Errno::EUSERS,
                "the host has all programs that it may (limits.programs)",
            ));
        }
        let limits = within(self.setup.program, &namespace.spec.limits);
        let old = hello.inherit.filter(|token| is_known && !self.has_token(token));
        let no_random = |_| refuse(Errno::EIO, "the system's random source cannot be read");
        let token = old.map_or_else(|| self.key.token(namespace), Ok).map_err(no_random)?;
        let space = self.spaces.entry(namespace.number).or_insert_with(|| {
            let together = &namespace.spec.limits.together;
            Quota::within(
                &self.quota,
                wanted.to_owned(),
                counted(together),
                together.memory.unwrap_or(u64::MAX),
            )
        });
        let quota =
            Quota::within(space, shortened(&hello.program), limits.counted(), limits.memory);
        let number = self.next_program;
        self.next_program += 1;
        let program = Arc::new(Program {
            number,
            name: shortened(&hello.program),
            namespace: wanted.to_owned(),
            owner,
            table: namespace.spec.table,
            interface: namespace.spec.interface.clone(),
            token,
            cut_through: hello.cut_through,
            limits,
            rx_fifo: if hello.rx_fifo == 0 { limits.rx_fifo } else { hello.rx_fifo },
            tx_fifo: if hello.tx_fifo == 0 { limits.tx_fifo } else { hello.tx_fifo },
            memory: Memory::new(
                format!("clearway-app-{number}"),
                Arc::clone(quota.memory()),
                Arc::clone(&self.workers.stop),
            ),
            quota,
            traffic: Arc::clone(&namespace.traffic),
            foreign: Foreign::default(),
            is_cut: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
        });
        let entry = Entry {
            program: Arc::clone(&program),
            processes: 0,
            session_fds: 0,
            stayed: Vec::new(),
            revived: Vec::new(),
        };
        self.programs.insert(number, entry);
        Ok(program)
    }

    fn make_member(
        &mut self,
        handle: Handle<Process>,
        program: &Arc<Program>,
    ) -> Result<(), Refusal> {
        let no_memory = |error: ShmError| refuse(Errno::ENOMEM, error.to_string());
        let permit = Permit::take(&program.quota, Thing::Process);
        let permit = permit.map_err(|scarce| refuse(Errno::EUSERS, scarce.to_string()))?;
        let number = self.next_process;
        let queue_pair = make_queue_pair(number, self.workers.count()).map_err(no_memory)?;
        let (notifier, notifier_fd) =
            RemoteNotifier::new().map_err(|error| no_memory(error.into()))?;
        let notifier = Arc::new(notifier);
        let session_fds = Arc::new(SessionFds::default());
        let mut ours = Vec::new();
        for _ in 0..self.workers.count() {
            ours.push(Notifier::new().map_err(|error| no_memory(error.into()))?);
        }
        if !self.descriptors.fits_process(&notifier_fd)
            || ours.iter().any(|notifier| !self.descriptors.fits_process(notifier))
        {
            return Err(refuse(Errno::EMFILE, NO_DESCRIPTORS));
        }
        for (worker, (places, ours)) in queue_pair.places.iter().zip(&ours).enumerate() {
            let rings = (
                RingConsumer::new(&queue_pair.memory, places.requests, places.slots)
                    .map_err(no_memory)?,
                RingProducer::new(&queue_pair.memory, places.events, places.slots)
                    .map_err(no_memory)?,
            );
            let view = queue_pair.memory.queue_pair().map_err(no_memory)?;
            let notifiers = (Arc::clone(&notifier), ours.clone());
            let queue_pair = QueuePair::new(
                number,
                Arc::clone(program),
                Arc::clone(&session_fds),
                view,
                rings,
                notifiers,
            );
            self.workers.to_worker(
                worker,
                Box::new(move |worker| worker.sessions().add_queue_pair(queue_pair)),
            );
        }
        let process = self.processes.get_mut(handle).ok_or_else(|| refuse(Errno::EBADF, "gone"))?;
        self.strangers.remove(handle);
        process.member = Some(Member {
            number,
            program: Arc::clone(program),
            _notifier: notifier,
            _permit: permit,
            session_fds,
        });
        let attach_socket = Arc::clone(&process.attach_socket);
        self.next_process += 1;
        self.counts.attached += 1;
        tracing::info!(
            pid = process.pid,
            app = program.number,
            program = program.name,
            namespace = program.namespace,
            "attached"
        );
        probes::attach(|| traced(process.pid, program));
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .count(&program.namespace, true);
        if let Some(entry) = self.programs.get_mut(&program.number) {
            entry.processes += 1;
        }
        let welcome = Welcome {
            boot: self.boot,
            app: program.number,
            process: number,
            token: program.token,
            queue_pair_len: queue_pair.memory.len() as u32,
            host_len: self.workers.page.len() as u32,
            rings: queue_pair.places,
            rx_fifo: program.rx_len(0),
            tx_fifo: program.tx_len(0),
        };
        let mut descriptors =
            vec![queue_pair.fd.as_fd(), self.page_fd.as_fd(), notifier_fd.as_fd()];
        descriptors.extend(ours.iter().map(|notifier| notifier.as_fd()));
        attach_socket.answer(&Reply::Welcome(welcome), &descriptors);
        Ok(())
    }
}

fn make_queue_pair(process: u32, workers: usize) -> Result<NewQueuePair, ShmError> {
    let mut end = size_of::<QueuePairHead>() as u32;
    let mut next = || {
        let at = end;
        end += ring_len(QUEUE_PAIR_SLOTS);
        at
    };
    let places = (0..workers)
        .map(|_| RingPlaces { requests: next(), events: next(), slots: QUEUE_PAIR_SLOTS })
        .collect();
    let (memory, fd) = Segment::create(&format!("clearway-queue-pair-{process}"), end as usize)?;
    let memory = Arc::new(memory);
    let head = memory.queue_pair()?;
    head.magic.store(MAGIC, Ordering::Relaxed);
    head.version.store(VERSION, Ordering::Relaxed);
    head.process.store(process, Ordering::Relaxed);
    Ok(NewQueuePair { memory, fd, places })
}

/// What a stranger calls itself, made fit to be shown.
fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect()
}
