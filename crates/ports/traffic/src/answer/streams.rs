//! Answers of several segments: what is known of each connection, so that as much leaves as its
//! window allows.

use std::collections::HashMap;

use clearway_dev::device::MAX_IP_PACKET;
use clearway_dev::{Facts, Transmit};
use clearway_wire::{Addr, Flags, Segment, Seq, eth, ipv4, tcp};

use super::segment::{Asked, ISS, WINDOW, fill, send};
use crate::reflect::Reflected;

/// Of a segment without options.
const HEADERS: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;

/// RFC 7323 2.3.
const MAX_SHIFT: u8 = 14;

/// Client's address and port, and ours.
type Key = (Addr, u16, u16);

/// Which connections there are.
#[derive(Default)]
pub(super) struct Streams(HashMap<Key, Stream>);

/// A connection that is being answered. What was sent is not sent again.
struct Stream {
    /// By how many places the client's window is shifted (RFC 7323 2.2).
    shift: u8,
    /// The next byte that leaves.
    next: Seq,
    /// Bytes of answers that have not left.
    left: usize,
    /// The next byte's place in the answer.
    at: usize,
    /// Our end follows what is left.
    ends: bool,
}

impl Stream {
    /// A connection that this SYN opens; `reply` becomes the answer to it.
    fn begin(syn: &Segment, mtu: usize, reply: &mut Segment) -> Stream {
        (reply.seq, reply.flags) = (ISS, Flags::SYN | Flags::ACK);
        reply.opts.mss = u16::try_from(mtu - HEADERS).ok();
        // The client's window is scaled only when both say so.
        reply.opts.wscale = syn.opts.wscale.map(|_| 0);
        let shift = syn.opts.wscale.unwrap_or(0).min(MAX_SHIFT);
        Stream { shift, next: ISS + 1, left: 0, at: 0, ends: false }
    }

    /// Sends what the window has room for; says whether that was our end of the connection.
    fn send<D: Transmit + Facts>(
        &mut self,
        dev: &mut D,
        counts: &mut Reflected,
        asked: &Asked<'_>,
        (mut segment, window_end): (Segment, Seq),
        answer: &[u8],
    ) -> bool {
        let (mss, offloads) = (dev.mtu() - HEADERS, dev.offloads());
        let packet = (offloads.max_segmented_frame as usize).saturating_sub(eth::HEADER_LEN);
        let most = if offloads.tso4 { packet.min(MAX_IP_PACKET) - HEADERS } else { mss };
        loop {
            let len = self.next_len(window_end, most, mss);
            let is_last = len == self.left;
            let ends = is_last && self.ends;
            if len == 0 && !ends {
                return false;
            }
            (segment.seq, segment.flags) = (self.next, Flags::ACK);
            if is_last && len > 0 {
                segment.flags |= Flags::PSH;
            }
            if ends {
                segment.flags |= Flags::FIN;
            }
            let at = self.at;
            if !send(dev, counts, asked, &segment, (len, mss), |place| fill(place, answer, at)) {
                return false;
            }
            self.next += len as u32;
            self.left -= len;
            self.at = (at + len) % answer.len();
            if ends {
                return true;
            }
        }
    }

    /// How many bytes may leave now in one segment of at most `most`: no small one while more than
    /// that is left (RFC 9293 3.8.6.2.1).
    fn next_len(&self, window_end: Seq, most: usize, mss: usize) -> usize {
        let open = window_end.since(self.next) as i32;
        let len = usize::try_from(open).unwrap_or(0).min(self.left).min(most);
        if len < self.left { len - len % mss } else { len }
    }
}

/// What a segment asks for: the same answer so many times, and the end of the connection behind it.
pub(super) struct Answers<'a> {
    pub(super) answer: &'a [u8],
    pub(super) count: usize,
    pub(super) closes: bool,
}

impl Streams {
    /// Takes a segment of a connection with long answers.
    pub(super) fn go_on<D: Transmit + Facts>(
        &mut self,
        dev: &mut D,
        counts: &mut Reflected,
        asked: &Asked<'_>,
        answers: &Answers<'_>,
    ) {
        let segment = &asked.segment;
        let key = (asked.ip.src(), segment.src_port, segment.dst_port);
        let Streams(streams) = self;
        let mut reply = Segment {
            src_port: segment.dst_port,
            dst_port: segment.src_port,
            seq: segment.ack,
            ack: segment.seq + segment.seq_len(asked.data.len()),
            flags: Flags::ACK,
            wnd: WINDOW,
            ..Segment::default()
        };
        if segment.flags.syn() {
            streams.insert(key, Stream::begin(segment, dev.mtu(), &mut reply));
            send(dev, counts, asked, &reply, (0, 0), |_| ());
            return;
        }
        let Some(stream) = streams.get_mut(&key).filter(|_| !segment.flags.rst()) else {
            streams.remove(&key);
            // Of a connection that we have ended before the client does.
            match segment.flags.fin() {
                true => _ = send(dev, counts, asked, &reply, (0, 0), |_| ()),
                false => counts.unanswered += 1,
            }
            return;
        };
        stream.left += answers.count * answers.answer.len();
        stream.ends |= segment.flags.fin() || (answers.closes && answers.count > 0);
        let window = u32::from(segment.wnd) << stream.shift;
        let window_end = segment.ack + window;
        let before = counts.returned;
        if stream.send(dev, counts, asked, (reply, window_end), answers.answer) {
            streams.remove(&key);
        } else if counts.returned > before {
            // What left acknowledges, too.
        } else if asked.data.is_empty() && !segment.flags.fin() {
            counts.unanswered += 1;
        } else {
            reply.seq = stream.next;
            send(dev, counts, asked, &reply, (0, 0), |_| ());
        }
    }
}
