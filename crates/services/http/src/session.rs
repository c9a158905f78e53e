//! One connection's conversation: head, body, response, and again. It knows no socket and no stack;
//! [`Io`] is all it sees of either.

use clearway_base::Instant;
use clearway_engine::{Io, Next};
use sha2::{Digest, Sha256};

use crate::body::Body;
use crate::config::Timeouts;
use crate::page::{self, Persistence};
use crate::request::{Head, MAX_HEAD, Method, Parser, Reject};
use crate::server::{Plan, Server};
use crate::transfer::Transfer;

/// The state of one conversation. An idle one owns no memory besides itself.
pub struct Session {
    phase: Phase,
    deadline: Instant,
    // The connection goes on after the response that is being made or sent.
    keep: bool,
}

enum Phase {
    Idle,
    /// A head has begun and came in pieces.
    Head(Box<Carry>),
    /// A body is being read; the answer comes after it.
    Upload(Box<Upload>),
    /// A response could not be handed over at once.
    Sending(Box<Transfer>),
    /// Everything is said; the peer's bytes are thrown away until it closes.
    Linger,
}

struct Carry {
    parser: Parser,
    bytes: Vec<u8>,
}

struct Upload {
    remaining: u64,
    len: u64,
    persistence: Persistence,
    answer: Answer,
}

enum Answer {
    /// Length and digest of what came.
    Digest(Sha256),
    /// What was planned from the head; the body is thrown away.
    Planned(Transfer),
}

impl Session {
    /// A conversation that has not begun.
    pub fn new(now: Instant, timeouts: &Timeouts) -> Session {
        Session { phase: Phase::Idle, deadline: now + timeouts.idle, keep: true }
    }

    /// When [`Session::on_timeout`] is due, unless something happens before. Only read it after a
    /// step: every step may move it.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Nothing was asked that is not answered.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Goes on as far as the connection's bytes and room allow.
    pub fn on_ready<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Next {
        loop {
            let next = match self.phase {
                Phase::Idle => self.first_piece(now, server, io),
                Phase::Head(_) => self.next_piece(now, server, io),
                Phase::Upload(_) => self.upload(now, server, io),
                Phase::Sending(_) => self.sending(now, server, io),
                Phase::Linger => linger(io),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// The deadline has passed and nothing happened.
    pub fn on_timeout<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Next {
        server.stats.timeouts += 1;
        match self.phase {
            Phase::Idle | Phase::Linger => Next::Close,
            Phase::Sending(_) => Next::Abort,
            Phase::Head(_) | Phase::Upload(_) => {
                self.refuse(now, server, io, 408);
                self.on_ready(now, server, io)
            }
        }
    }

    // The steps below answer None to be asked again at once.

    fn first_piece<I: Io>(
        &mut self,
        now: Instant,
        server: &mut Server,
        io: &mut I,
    ) -> Option<Next> {
        let bytes = io.recv();
        if bytes.is_empty() {
            return Some(if io.peer_closed() { Next::Close } else { Next::Wait });
        }
        let mut parser = Parser::default();
        match parser.advance(bytes) {
            Ok(Some(head)) => {
                // The usual request: it came in one segment and is answered from there.
                let plan = server.plan(&head, bytes);
                io.consumed(head.len);
                self.answer(now, server, io, &head, plan)
            }
            Ok(None) => {
                let len = bytes.len();
                if bytes.iter().any(|&b| b != b'\r' && b != b'\n') {
                    self.phase = Phase::Head(Box::new(Carry { parser, bytes: bytes.to_vec() }));
                    self.deadline = now + server.timeouts().head;
                }
                io.consumed(len);
                None
            }
            Err(reject) => {
                self.reject(now, server, io, reject);
                None
            }
        }
    }

    fn next_piece<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Option<Next> {
        let Phase::Head(carry) = &mut self.phase else { return None };
        let before = carry.bytes.len();
        let bytes = io.recv();
        if bytes.is_empty() {
            return Some(if io.peer_closed() { Next::Close } else { Next::Wait });
        }
        let taken = bytes.len().min(MAX_HEAD - before.min(MAX_HEAD));
        carry.bytes.extend_from_slice(&bytes[..taken]);
        match carry.parser.advance(&carry.bytes) {
            Ok(Some(head)) => {
                let plan = server.plan(&head, &carry.bytes);
                // What was copied from behind the head stays with the connection.
                io.consumed(head.len - before);
                self.phase = Phase::Idle;
                self.answer(now, server, io, &head, plan)
            }
            Ok(None) => {
                io.consumed(taken);
                None
            }
            Err(reject) => {
                self.reject(now, server, io, reject);
                None
            }
        }
    }

    #[inline]
    fn answer<I: Io>(
        &mut self,
        now: Instant,
        server: &mut Server,
        io: &mut I,
        head: &Head,
        plan: Plan,
    ) -> Option<Next> {
        self.keep = head.keep_alive;
        let body_len = head.content_length.unwrap_or(0);
        match plan {
            Plan::Page(persistence) if body_len == 0 => {
                let page = server.page();
                let bytes = page.bytes(persistence);
                let head_len = page.head_len(persistence);
                let bytes = if head.method == Method::Head { &bytes[..head_len] } else { bytes };
                let sent = io.send(bytes);
                let body_len = if head.method == Method::Head { 0 } else { page.len() };
                if sent == head_len + body_len as usize {
                    server.stats.answered(200);
                    server.stats.body_out += body_len;
                    return self.answered(now, server, io);
                }
                let rest = if sent < head_len {
                    Transfer::new(bytes[sent..head_len].to_vec(), Body::text(0, body_len))
                } else {
                    Transfer::new(Vec::new(), Body::text((sent - head_len) as u64, body_len))
                };
                server.stats.answered(200);
                server.stats.body_out += (sent.saturating_sub(head_len)) as u64;
                self.phase = Phase::Sending(Box::new(rest));
                self.deadline = now + server.timeouts().stall;
            }
            Plan::Upload(persistence) => {
                self.begin_upload(now, server, io, head, persistence, Answer::Digest(Sha256::new()))
            }
            plan => {
                let persistence = Persistence::of(head.http11, head.keep_alive);
                let transfer = match plan {
                    Plan::Send(transfer) => *transfer,
                    _ => {
                        server.stats.answered(200);
                        server.page_transfer(persistence, head.method == Method::Head)
                    }
                };
                if body_len == 0 {
                    self.phase = Phase::Sending(Box::new(transfer));
                    self.deadline = now + server.timeouts().stall;
                } else {
                    self.begin_upload(
                        now,
                        server,
                        io,
                        head,
                        persistence,
                        Answer::Planned(transfer),
                    );
                }
            }
        }
        None
    }

    fn begin_upload<I: Io>(
        &mut self,
        now: Instant,
        server: &mut Server,
        io: &mut I,
        head: &Head,
        persistence: Persistence,
        answer: Answer,
    ) {
        let len = head.content_length.unwrap_or(0);
        if len > server.max_body(matches!(answer, Answer::Digest(_))) {
            self.refuse(now, server, io, 413);
            return;
        }
        if head.expect_continue && len > 0 {
            // 25 bytes at the start of a response; should they not fit, the client begins by itself
            // after a while (RFC 9110 10.1.1).
            io.send(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.phase = Phase::Upload(Box::new(Upload { remaining: len, len, persistence, answer }));
        self.deadline = now + server.timeouts().stall;
    }

    fn upload<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Option<Next> {
        let Phase::Upload(upload) = &mut self.phase else { return None };
        while upload.remaining > 0 {
            let bytes = io.recv();
            if bytes.is_empty() {
                // A body that ends early was not the body (RFC 9112 8).
                return Some(if io.peer_closed() { Next::Abort } else { Next::Wait });
            }
            let n = usize::try_from(upload.remaining).unwrap_or(usize::MAX).min(bytes.len());
            if let Answer::Digest(digest) = &mut upload.answer {
                digest.update(&bytes[..n]);
            }
            io.consumed(n);
            upload.remaining -= n as u64;
            server.stats.body_in += n as u64;
            self.deadline = now + server.timeouts().stall;
        }
        let Phase::Upload(upload) = core::mem::replace(&mut self.phase, Phase::Idle) else {
            return None;
        };
        let transfer = match upload.answer {
            Answer::Planned(transfer) => transfer,
            Answer::Digest(digest) => {
                server.digest_transfer(upload.len, &digest.finalize(), upload.persistence)
            }
        };
        self.phase = Phase::Sending(Box::new(transfer));
        self.deadline = now + server.timeouts().stall;
        None
    }

    fn sending<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Option<Next> {
        let Phase::Sending(transfer) = &mut self.phase else { return None };
        if transfer.sent < transfer.head.len() {
            let sent = io.send(&transfer.head[transfer.sent..]);
            transfer.sent += sent;
            if sent > 0 {
                self.deadline = now + server.timeouts().stall;
            }
            if transfer.sent < transfer.head.len() {
                return Some(Next::Wait);
            }
        }
        while transfer.body.remaining() > 0 {
            // One byte more than there is room for, so that the send is cut short and its end is
            // told.
            let (scratch, stats) = server.scratch();
            let len = scratch.len().min(io.room().saturating_add(1));
            let Ok(len) = transfer.body.peek(&mut scratch[..len]) else { return Some(Next::Abort) };
            let sent = io.send(&scratch[..len]);
            transfer.body.skip(sent);
            stats.body_out += sent as u64;
            if sent > 0 {
                self.deadline = now + server.timeouts().stall;
            }
            if sent < len {
                return Some(Next::Wait);
            }
        }
        self.answered(now, server, io)
    }

    #[inline]
    fn answered<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) -> Option<Next> {
        if self.keep {
            self.phase = Phase::Idle;
            self.deadline = now + server.timeouts().idle;
            return None;
        }
        if io.recv().is_empty() {
            return Some(Next::Close);
        }
        // Closing over unread bytes resets the connection, and the reset may overtake the answer
        // (RFC 9112 9.6).
        self.begin_linger(now, server, io);
        None
    }

    fn begin_linger<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I) {
        io.shutdown();
        self.phase = Phase::Linger;
        self.deadline = now + server.timeouts().linger;
    }

    fn reject<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I, reject: Reject) {
        self.refuse(now, server, io, reject.status());
    }

    // The answer to something that cannot be served and after which the stream makes no sense.
    fn refuse<I: Io>(&mut self, now: Instant, server: &mut Server, io: &mut I, status: u16) {
        server.stats.answered(status);
        let bytes = page::error(status, server.date(), Persistence::Close, false, "");
        // A send queue that has no room for this line belongs to a peer that does not read; it
        // learns by the close.
        io.send(&bytes);
        self.begin_linger(now, server, io);
    }
}

fn linger<I: Io>(io: &mut I) -> Option<Next> {
    loop {
        let n = io.recv().len();
        if n == 0 {
            return Some(if io.peer_closed() { Next::Close } else { Next::Wait });
        }
        io.consumed(n);
    }
}

#[cfg(test)]
mod tests;
