//! UDP sockets of a simulated host: they send numbered datagrams, answer them, and look at what
//! comes in.
//!
//! A datagram says who it is: a number, its length, and bytes that follow from both. So a receiver
//! knows whether what it got was sent as it is, without anybody keeping a copy.

use std::collections::BTreeMap;

use clearway_proto::export::Imported;
use clearway_proto::{Stack, UdpError, UdpEvents, UdpId, UdpSpec};
use clearway_wire::Endpoint;

use crate::stores::SimEnv;
use crate::stream::Stream;

/// Tokens of UDP sockets begin here.
const DATAGRAMS: u64 = 1 << 33;
/// Bytes of the number in front of every datagram.
const NUMBER_LEN: usize = 8;
/// Set in the number of an answer.
const ANSWER: u64 = 1 << 63;

/// What became of the datagrams of one socket.
#[derive(Clone, Default, Debug)]
pub struct Post {
    /// Datagrams that the stack took.
    pub sent: u64,
    /// Datagrams that came in, each counted once.
    pub received: BTreeMap<u64, u32>,
    /// Errors that came back.
    pub errors: u64,
}

struct Socket {
    id: UdpId,
    /// Answers each datagram with one of the same length.
    answers: bool,
    /// Datagrams that wait to be sent: whom to, number, length.
    waiting: Vec<(Endpoint, u64, usize)>,
    blocked: bool,
    post: Post,
}

/// The UDP sockets of one host.
#[derive(Default)]
pub struct Datagrams {
    sockets: Vec<Socket>,
    wrong: Option<String>,
}

/// The bytes of datagram `number`.
fn compose(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(NUMBER_LEN)];
    Stream(number).fill(0, &mut bytes[NUMBER_LEN..]);
    bytes[..NUMBER_LEN].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl Datagrams {
    /// The stack is another one, in which every socket has a new name. False: one is missing there.
    pub fn renewed(&mut self, made: &Imported) -> bool {
        self.sockets.iter_mut().all(|socket| {
            match made.sockets.iter().find(|(was, _)| *was == socket.id) {
                Some((_, is)) => {
                    socket.id = *is;
                    true
                }
                None => false,
            }
        })
    }

    /// Opens a socket; returns its place here.
    pub fn open(
        &mut self,
        stack: &mut Stack<SimEnv>,
        spec: UdpSpec,
        answers: bool,
    ) -> Result<usize, UdpError> {
        let index = self.sockets.len();
        let id = stack.udp_bind(UdpSpec { token: DATAGRAMS | index as u64, ..spec })?;
        self.sockets.push(Socket {
            id,
            answers,
            waiting: Vec::new(),
            blocked: false,
            post: Post::default(),
        });
        Ok(index)
    }

    /// Sends datagram `number` of `len` bytes, now or as soon as there is room.
    pub fn send(
        &mut self,
        stack: &mut Stack<SimEnv>,
        socket: usize,
        to: Endpoint,
        number: u64,
        len: usize,
    ) {
        self.sockets[socket].waiting.push((to, number, len));
        self.push(stack, socket);
    }

    fn push(&mut self, stack: &mut Stack<SimEnv>, index: usize) {
        let socket = &mut self.sockets[index];
        while let (false, Some(&(to, number, len))) = (socket.blocked, socket.waiting.first()) {
            match stack.udp_send(socket.id, Some(to), None, &compose(number, len)) {
                Ok(()) => {
                    socket.post.sent += 1;
                    socket.waiting.remove(0);
                }
                Err(UdpError::Full) => socket.blocked = true,
                Err(why) => {
                    self.wrong =
                        Some(format!("a datagram of {len} bytes to {to} was refused: {why:?}"));
                    return;
                }
            }
        }
    }

    /// Something happened to a socket.
    pub fn on_event(&mut self, stack: &mut Stack<SimEnv>, index: usize, what: UdpEvents) {
        let socket = &mut self.sockets[index];
        if what.has(UdpEvents::ERROR) && stack.udp_error(socket.id).is_some() {
            socket.post.errors += 1;
        }
        if what.has(UdpEvents::WRITABLE) {
            socket.blocked = false;
        }
        while let Some(datagram) = stack.udp_recv(socket.id) {
            let Some(number) =
                datagram.payload.first_chunk::<NUMBER_LEN>().map(|n| u64::from_be_bytes(*n))
            else {
                self.wrong = Some(format!(
                    "a datagram of {} bytes came, which nobody sent",
                    datagram.payload.len()
                ));
                return;
            };
            let len = datagram.payload.len();
            if datagram.payload != compose(number, len) {
                self.wrong = Some(format!("datagram {number:#x} of {len} bytes came changed"));
                return;
            }
            *socket.post.received.entry(number).or_default() += 1;
            if socket.answers {
                socket.waiting.push((datagram.from, number | ANSWER, len));
            }
        }
        self.push(stack, index);
    }

    /// What became of the datagrams of a socket.
    pub fn post(&self, socket: usize) -> &Post {
        &self.sockets[socket].post
    }

    /// Closes all sockets.
    pub fn close(&mut self, stack: &mut Stack<SimEnv>) {
        for socket in self.sockets.drain(..) {
            stack.udp_close(socket.id);
        }
    }

    /// What went wrong, if anything did.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }
}
