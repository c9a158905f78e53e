//! What IP itself has to say leaves: requests for link addresses, the frames that waited for them,
//! answers, and reports of groups.

use clearway_pkt::Sink;
use clearway_wire::{Proto, Segment, tcp};

use crate::flow::FlowKey;
use crate::net::output::{Cursor, IpOut, OutError, Outgoing, Transport};
use crate::net::path_cache::RouteCache;
use crate::net::replies::{LinkWhat, Replies, ReplyTcp};
use crate::net::{arp, group_reports, ndp};

/// Hops that an ICMP message may take.
const REPLY_TTL: u8 = 64;

/// Sends all of it: link addresses first, for others wait for them. False: something is left that
/// could not leave.
pub(crate) fn emit<S: Sink>(replies: &mut Replies, out: &mut IpOut<'_, S>) -> bool {
    let mut done = true;
    if out.ip.neighbours.wants_emit() {
        done &= emit_requests(out) && out.released();
    }
    if !replies.is_empty() {
        done &= emit_replies(replies, out);
    }
    if out.ip.groups.wants_emit() {
        done &= group_reports::emit(out);
    }
    done
}

/// Asks for neighbours that what was just sent has met and that nobody knows yet. False: the device
/// takes no more.
pub(crate) fn emit_late_requests<S: Sink>(out: &mut IpOut<'_, S>) -> bool {
    !out.ip.neighbours.wants_emit() || emit_requests(out)
}

/// Sends the requests that wait, ARP or neighbour solicitation. False: the device takes no more.
fn emit_requests<S: Sink>(out: &mut IpOut<'_, S>) -> bool {
    while let Some(request) = out.ip.neighbours.next_request() {
        let sent = match request.addr.is_v4() {
            true => arp::emit_request(out, &request),
            false => ndp::emit_solicit(out, &request),
        };
        if !sent {
            return false;
        }
        out.counters.neighbours.requests_out += 1;
        out.ip.neighbours.asked();
    }
    true
}

/// Sends the answers that were noted. False: the device takes no more.
fn emit_replies<S: Sink>(replies: &mut Replies, out: &mut IpOut<'_, S>) -> bool {
    while let Some(reply) = replies.link.front() {
        let sent = if reply.ours.is_v4() {
            arp::emit_reply(out, reply)
        } else {
            ndp::emit_reply(out, reply)
        };
        if !sent {
            return false;
        }
        match reply.what {
            LinkWhat::Answer { .. } => out.counters.neighbours.replies_out += 1,
            LinkWhat::Probe | LinkWhat::RouterSolicit => out.counters.neighbours.requests_out += 1,
            LinkWhat::Announcement => out.counters.neighbours.announcements_out += 1,
        }
        replies.link.pop();
    }
    while let Some(reply) = replies.tcp.front() {
        match emit_tcp(out, reply) {
            Ok(()) => {
                out.counters.tcp.segs_out += 1;
                out.counters.tcp.resets_out += u64::from(reply.seg.flags.rst());
            }
            Err(OutError::Full) => return false,
            Err(_) => out.counters.icmp.replies_lost += 1,
        }
        replies.tcp.pop();
    }
    while let Some((reply, message)) = replies.icmp.front() {
        let key = FlowKey {
            local: reply.from,
            remote: reply.to,
            local_port: 0,
            remote_port: 0,
            table: reply.table,
        };
        let proto = if reply.to.is_v4() { Proto::ICMP } else { Proto::ICMPV6 };
        let cursor = &mut replies.icmp_cursor;
        let mut cache = RouteCache::default();
        let (tos, transport) = (reply.tos, Transport::Whole);
        let datagram =
            Outgoing { key: &key, proto, tos, ttl: REPLY_TTL, head: &[], body: message, transport };
        match out.send(&mut cache, &datagram, cursor) {
            Ok(()) if reply.is_error => out.counters.icmp.errors_out += 1,
            Ok(()) => out.counters.icmp.echo_replies_out += 1,
            Err(OutError::Full) => return false,
            Err(_) => out.counters.icmp.replies_lost += 1,
        }
        *cursor = Cursor::default();
        replies.icmp.pop();
    }
    true
}

fn emit_tcp<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyTcp) -> Result<(), OutError> {
    let seg =
        Segment { src_port: reply.key.local_port, dst_port: reply.key.remote_port, ..reply.seg };
    let len = seg.opts.header_len();
    let mut room =
        out.begin(&mut RouteCache::default(), &reply.key, Proto::TCP, len, reply.tos, reply.ttl)?;
    let len = tcp::emit(&seg, room.l4());
    let done = room.finish(len, Transport::Tcp { header_len: len as u8, segment_size: 0 });
    out.commit(done);
    Ok(())
}
