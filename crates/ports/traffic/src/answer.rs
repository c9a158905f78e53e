//! Answers requests over TCP without a stack: the least that a server does over a link.
//!
//! Each segment is answered from what stands in it, and nothing is remembered: no retransmission,
//! no window, no reordering. So it is good for clients that wait for an answer before they ask again
//! by another segment, and for short answers over a link that loses nothing; and it says how many
//! requests such a link and its clients carry when the server costs nothing.
//!
//! Of answers that are longer than a segment it remembers how much of them has left, for more leaves
//! only as the client's window allows: that is what a stack cannot do without. Each byte is copied
//! into a frame, as a server copies it to where its stack takes it from.

mod segment;
mod streams;

use clearway_base::Instant;
use clearway_dev::device::max_frame;
use clearway_dev::{Dev, DevError};
use clearway_pkt::{Buf, Burst};
use clearway_wire::{Flags, Segment, Seq, ipv4, tcp};

use crate::reflect::Reflected;

use segment::{Asked, ISS, WINDOW, asked, fill, frame_len, send};
use streams::{Answers, Streams};

/// How requests are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// HTTP without bodies: each ends with an empty line (RFC 9112 2.1).
    Http,
    /// RESP, which redis speaks: each begins with a line that begins with `*`.
    Redis,
}

impl Requests {
    /// How many there are in the data of a segment. A request that two segments share counts in one
    /// of them.
    fn count(self, data: &[u8]) -> usize {
        match self {
            Requests::Http => data.windows(4).filter(|four| *four == b"\r\n\r\n").count(),
            Requests::Redis => {
                usize::from(data.first() == Some(&b'*'))
                    + data.windows(2).filter(|two| *two == b"\n*").count()
            }
        }
    }
}

/// Answers what comes in on one queue.
pub struct Answerer {
    requests: Requests,
    answer: Box<[u8]>,
    closes: bool,
    server: Option<Server>,
    /// The connections, when answers are longer than a segment.
    streams: Option<Streams>,
    counts: Reflected,
}

/// Who is asked before the requests of a burst are answered.
type Server = Box<dyn FnMut() + Send>;

/// What fits into a segment over an Ethernet without jumbo frames.
const SHORT: usize = 1_460;

impl Answerer {
    /// Answers each request with these bytes; `closes`: and with the end of the connection.
    pub fn new(requests: Requests, answer: &[u8], closes: bool) -> Answerer {
        let streams = (answer.len() > SHORT).then(Streams::default);
        let (answer, counts) = (answer.into(), Reflected::default());
        Answerer { requests, answer, closes, server: None, streams, counts }
    }

    /// Calls `server` once for each burst with requests in it, before they are answered: a loop
    /// whose server is somebody else has to ask it and to wait for it.
    pub fn asking(self, server: impl FnMut() + Send + 'static) -> Answerer {
        Answerer { server: Some(Box::new(server)), ..self }
    }

    /// What happened so far.
    pub fn counts(&self) -> &Reflected {
        &self.counts
    }

    /// Takes what came in and answers it; says whether there was anything.
    ///
    /// # Errors
    /// What the port says when it is gone.
    pub fn turn<D: Dev>(
        &mut self,
        now: Instant,
        dev: &mut D,
        burst: &mut Burst<D::Buf>,
    ) -> Result<bool, DevError> {
        dev.set_now(now);
        dev.rx(burst)?;
        let came = !burst.is_empty();
        self.ask(burst);
        for index in 0..burst.len() {
            let Some((buf, _)) = burst.peek(index) else { continue };
            let frame = buf.bytes();
            self.counts.frames += 1;
            self.counts.bytes += frame.len() as u64;
            match asked(frame) {
                Some(asked) => self.answer(dev, &asked),
                None => self.counts.unanswered += 1,
            }
        }
        burst.clear();
        dev.flush();
        Ok(came)
    }

    /// Asks the server, if there is one and something to ask.
    fn ask<B: Buf>(&mut self, burst: &Burst<B>) {
        let Some(server) = &mut self.server else { return };
        let requests = self.requests;
        let is_request = |index| {
            let frame = burst.peek(index).map(|(buf, _)| buf.bytes());
            frame.and_then(asked).is_some_and(|asked| requests.count(asked.data) > 0)
        };
        if (0..burst.len()).any(is_request) {
            server();
        }
    }

    fn answer<D: Dev>(&mut self, dev: &mut D, asked: &Asked<'_>) {
        if let Some(streams) = &mut self.streams {
            let count = self.requests.count(asked.data);
            let answers = Answers { answer: &self.answer, count, closes: self.closes };
            return streams.go_on(dev, &mut self.counts, asked, &answers);
        }
        let Some((mut reply, answers)) = self.reply(&asked.segment, asked.data) else {
            self.counts.unanswered += 1;
            return;
        };
        reply.src_port = asked.segment.dst_port;
        reply.dst_port = asked.segment.src_port;
        if reply.flags.syn() {
            // Without it 536 bytes are sent at a time (RFC 9293 3.7.1), and requests are cut.
            reply.opts.mss = u16::try_from(dev.mtu() - ipv4::HEADER_LEN - tcp::HEADER_LEN).ok();
        }
        let Answerer { answer, counts, .. } = self;
        let len = answer.len() * answers;
        if frame_len(&reply, len) > max_frame(dev.mtu(), true) {
            counts.too_long += 1;
            return;
        }
        send(dev, counts, asked, &reply, (len, len), |place| fill(place, answer, 0));
    }

    /// What a segment is answered with, and with how many answers behind it.
    fn reply(&self, asked: &Segment, data: &[u8]) -> Option<(Segment, usize)> {
        let has_data = !data.is_empty();
        if asked.flags.rst() || !(asked.flags.syn() || asked.flags.fin() || has_data) {
            return None;
        }
        let mut reply = Segment {
            seq: asked.ack,
            ack: Seq(asked.seq.0.wrapping_add(asked.seq_len(data.len()))),
            flags: Flags::ACK,
            wnd: WINDOW,
            ..Segment::default()
        };
        if asked.flags.syn() {
            reply.seq = ISS;
            reply.flags |= Flags::SYN;
            return Some((reply, 0));
        }
        let answers = self.requests.count(data);
        if answers > 0 {
            reply.flags |= Flags::PSH;
        }
        // Who closes says so with the answer, and only acknowledges the peer's end.
        if if self.closes { answers > 0 } else { asked.flags.fin() } {
            reply.flags |= Flags::FIN;
        }
        Some((reply, answers))
    }
}

#[cfg(test)]
mod tests;
