//! What happens in the stack, told to the probes.

use clearway_probes::{self as probes, Text};
use clearway_proto::{Ends, Trace, TracedSegment};

/// Tells it. Each arm is one probe's word of memory to be looked at while nobody traces; a call
/// with a value that the compiler knows is that arm alone.
#[inline(always)]
pub(crate) fn tell(what: Trace<'_>) {
    match what {
        Trace::SegmentIn(segment) => probes::segment_in(|| of_segment(&segment)),
        Trace::SegmentOut(segment) => probes::segment_out(|| of_segment(&segment)),
        Trace::Drop { why, iface, len } => {
            probes::drop(|| (Text::of(why), iface.0.into(), len.into()))
        }
        Trace::Retransmit { ends, seq, len, why } => probes::retransmit(|| {
            let (local, remote) = texts(&ends);
            (local, remote, seq.into(), len.into(), Text::of(why))
        }),
        Trace::RetransmitTimeout { ends, flight, tries } => probes::retransmit_timeout(|| {
            let (local, remote) = texts(&ends);
            (local, remote, flight.into(), tries.into())
        }),
        Trace::TailLossProbe { ends, flight } => probes::tail_loss_probe(|| {
            let (local, remote) = texts(&ends);
            (local, remote, flight.into())
        }),
        Trace::RecoveryEnter { ends, flight } => probes::recovery_enter(|| {
            let (local, remote) = texts(&ends);
            (local, remote, flight.into())
        }),
        Trace::RecoveryExit { ends, from } => probes::recovery_exit(|| {
            let (local, remote) = texts(&ends);
            (local, remote, Text::of(from))
        }),
        Trace::Undone { ends } => probes::undone(|| texts(&ends)),
        Trace::StateChange { ends, from, to } => probes::state_change(|| {
            let (local, remote) = texts(&ends);
            (local, remote, Text::of(from), Text::of(to))
        }),
        Trace::ShortageReset { ends } => probes::shortage_reset(|| texts(&ends)),
        Trace::FastOpen { ends, what } => probes::fast_open(|| {
            let (local, remote) = texts(&ends);
            (local, remote, Text::of(what))
        }),
        Trace::NeighbourResolved { iface, addr, mac } => {
            probes::neighbour_resolved(|| (Text::of(addr), Text::of(mac), iface.0.into()))
        }
        Trace::NeighbourFailed { iface, addr } => {
            probes::neighbour_failed(|| (Text::of(addr), iface.0.into()))
        }
        Trace::PathMtu { remote, mtu } => probes::path_mtu(|| (Text::of(remote), mtu.into())),
    }
}

#[cold]
#[inline(never)]
fn texts(ends: &Ends<'_>) -> (Text, Text) {
    (Text::of(ends.local()), Text::of(ends.remote()))
}

#[cold]
#[inline(never)]
fn of_segment(segment: &TracedSegment<'_>) -> (Text, Text, u64, u64, u64, u64) {
    let TracedSegment { ends, seq, ack, len, flags } = *segment;
    let (local, remote) = texts(&ends);
    (local, remote, seq.into(), ack.into(), len.into(), flags.into())
}
