//! The kernel of this machine as the stack under test: sockets in a network namespace of their own,
//! and a TUN device whose far end is the script.

mod diag;
mod namespace;
mod sockets;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clearway_dev::{
    Facts as _, FramePool, PoolBudget, Receive as _, TapMode, TapSpec, Transmit as _,
};
use clearway_pkt::{Buf, Burst, PoolBuf, TxMeta};
use clearway_tap::TapQueue;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Backend, Fd, Info, Net, Op, Reply, Sent};
use crate::ast::{Body, Icmp, IcmpKind, Micros, Packet};
use crate::flow::Flow;
use crate::{build, show};
use sockets::{Outcome, Shared};

pub use namespace::may_run;

/// The name of the device; each lives in a namespace of its own.
const DEVICE: &str = "tun0";

/// The kernel under test. It stays on the thread that made it, because the namespace is that
/// thread's.
pub struct Kernel {
    net: Net,
    start: Instant,
    queue: TapQueue,
    burst: Burst<PoolBuf>,
    sent: std::collections::VecDeque<Sent>,
    sockets: BTreeMap<Fd, Shared>,
    next: Fd,
    call: Option<Receiver<(Outcome, Instant)>>,
    reply: Option<(Reply, Micros)>,
}

impl Kernel {
    /// Puts this thread into a network namespace of its own, for the rest of its life, and makes
    /// everything that a script needs there.
    pub fn new(net: Net) -> Result<Kernel, String> {
        namespace::enter()?;
        let mut spec = TapSpec::new(TapMode::Tun, DEVICE);
        spec.offload = false;
        spec.mtu = Some(net.mtu as usize);
        let mut fds = clearway_tap::open(&spec).map_err(|error| error.to_string())?;
        let fd = fds.pop().ok_or("the TUN device has no queue")?;
        namespace::settle(DEVICE, &net)?;
        let mut kernel = Kernel {
            net,
            start: Instant::now(),
            queue: fd.into_queue(FramePool::new(PoolBudget::default())),
            burst: Burst::new(),
            sent: std::collections::VecDeque::new(),
            sockets: BTreeMap::new(),
            next: 1,
            call: None,
            reply: None,
        };
        kernel.wait_until_ready()?;
        Ok(kernel)
    }

    /// The kernel makes addresses and links ready in its own time, and drops packets until then: it
    /// is asked with echo requests.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let icmp = Icmp { kind: IcmpKind::EchoRequest(1, 0), quoted: None, quoted_udp: None };
        let packet = Packet { flow: 0, optional: false, ecn: None, body: Body::Icmp(icmp) };
        let request = build::inbound(&self.net, &mut Flow::new(0, 0), &packet)?;
        let remote = self.net.remote;
        let is_reply = |sent: &Sent| show::view(&sent.bytes).is_some_and(|view| view.dst == remote);
        for _ in 0..400 {
            self.inject(&request)?;
            self.advance(self.now() + 5_000)?;
            if self.sent.iter().any(is_reply) {
                // Nothing of this shall be left for the script.
                thread::sleep(Duration::from_millis(2));
                self.look()?;
                self.sent.clear();
                return Ok(());
            }
        }
        Err("the kernel does not answer an echo request over the TUN device".into())
    }

    /// Script time begins now.
    pub fn begin(&mut self) {
        self.start = Instant::now();
    }

    fn at(&self, moment: Instant) -> Micros {
        moment.saturating_duration_since(self.start).as_micros() as Micros
    }

    fn look(&mut self) -> Result<bool, String> {
        let mut any = false;
        loop {
            self.burst.clear();
            self.queue.rx(&mut self.burst).map_err(|error| error.to_string())?;
            if self.burst.is_empty() {
                break;
            }
            let at = self.at(Instant::now());
            for index in 0..self.burst.len() {
                if let Some((buf, _)) = self.burst.take(index) {
                    self.sent.push_back(Sent { at, bytes: buf.bytes().to_vec() });
                    any = true;
                }
            }
        }
        Ok(any)
    }

    /// Whether the call in progress is over.
    fn look_at_call(&mut self, wait: Duration) -> Result<bool, String> {
        let Some(call) = &self.call else { return Ok(false) };
        let outcome = if wait.is_zero() {
            call.try_recv().map_err(|error| error == TryRecvError::Disconnected)
        } else {
            call.recv_timeout(wait).map_err(|error| error == RecvTimeoutError::Disconnected)
        };
        match outcome {
            Ok((outcome, moment)) => {
                let at = self.at(moment);
                self.call = None;
                self.finish(outcome, at);
                Ok(true)
            }
            Err(true) => Err("the thread of a call died".into()),
            Err(false) => Ok(false),
        }
    }

    fn finish(&mut self, outcome: Outcome, at: Micros) {
        let reply = match outcome {
            Outcome::Reply(reply) => reply,
            Outcome::Socket(socket) => {
                let fd = self.next;
                self.next += 1;
                self.sockets.insert(fd, socket);
                Reply::of(Ok(i64::from(fd)))
            }
        };
        self.reply = Some((reply, at));
    }
}

impl Backend for Kernel {
    fn now(&self) -> Micros {
        self.at(Instant::now())
    }

    fn advance(&mut self, until: Micros) -> Result<(), String> {
        loop {
            if self.look()? || self.look_at_call(Duration::ZERO)? {
                return Ok(());
            }
            let left = until - self.now();
            if left <= 0 {
                return Ok(());
            }
            // A call may return while the device is silent, and poll counts in milliseconds at
            // best: the last of them is slept through.
            let slice = if self.call.is_some() { left.min(500) } else { left };
            if slice < 1_000 {
                thread::sleep(Duration::from_micros(slice.min(200) as u64));
                continue;
            }
            let fd = self.queue.wait_fd().ok_or("the TUN device cannot be waited for")?;
            let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
            let wait = PollTimeout::try_from((slice / 1_000) as i32).unwrap_or(PollTimeout::ZERO);
            poll(&mut fds, wait).map_err(|error| error.to_string())?;
        }
    }

    fn inject(&mut self, packet: &[u8]) -> Result<(), String> {
        let room = self.queue.reserve(packet.len()).ok_or("the TUN device takes no packet")?;
        room[..packet.len()].copy_from_slice(packet);
        self.queue.commit(packet.len(), TxMeta::default());
        self.queue.flush();
        self.look().map(drop)
    }

    fn sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn call(&mut self, op: Op) -> Result<(), String> {
        if let Op::Close(fd) = op {
            let known = self.sockets.remove(&fd).is_some();
            let value = if known { Ok(0) } else { Err(crate::errno::Errno::BAD_FD) };
            self.reply = Some((Reply::of(value), self.now()));
            return self.look().map(drop);
        }
        let waits = sockets::must_wait(&op, &self.sockets);
        let job = sockets::job(op, &self.sockets, self.net)?;
        if !waits {
            let outcome = job();
            let at = self.now();
            self.finish(outcome, at);
            return self.look().map(drop);
        }
        let (sender, receiver) = channel();
        let (started, start) = channel();
        // A call that blocks for ever leaves its thread behind when its script fails; the process
        // ends it.
        thread::spawn(move || {
            let _ = started.send(());
            sender.send((job(), Instant::now()))
        });
        self.call = Some(receiver);
        // A busy machine may take a while to start the thread, which is not the stack's fault.
        let _ = start.recv_timeout(Duration::from_secs(1));
        self.look_at_call(Duration::from_millis(1))?;
        self.look().map(drop)
    }

    fn reply(&mut self) -> Option<(Reply, Micros)> {
        self.reply.take()
    }

    fn info(&mut self, fd: Fd) -> Result<Info, String> {
        let socket = self.sockets.get(&fd).ok_or("the socket is closed")?;
        let ends = sockets::ends(socket, &self.net)?;
        diag::tcp_info(ends, self.net)
    }

    fn command(&mut self, command: &str) -> Result<(), String> {
        namespace::command(command)
    }

    fn tolerance(&self) -> Micros {
        20_000
    }

    /// The kernel's timers are coarser the further away they are: up to an eighth, and only ever
    /// late. As much again is for a busy machine.
    fn slack(&self, wait: Micros) -> Micros {
        wait / 4
    }

    fn call_limit(&self) -> Micros {
        2_000_000
    }
}
