//! `struct tcp_info` as Linux lays it out (`linux/tcp.h`).

use clearway_client::Info;

/// Every field of Linux 6.x; a caller of an older time asks for less, and gets the beginning.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct TcpInfo {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    /// Theirs in the low four bits, ours in the high ones.
    wscales: u8,
    /// Bit 0: the delivery rate was limited by the program.
    app_limited: u8,
    rto: u32,
    ato: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent: u32,
    last_ack_sent: u32,
    last_data_recv: u32,
    last_ack_recv: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt: u32,
    rttvar: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate: u64,
    busy_time: u64,
    rwnd_limited: u64,
    sndbuf_limited: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    rehash: u32,
    total_rto: u16,
    total_rto_recoveries: u16,
    total_rto_time: u32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(TcpInfo, rto) == 8 && offset_of!(TcpInfo, rtt) == 68 && offset_of!(TcpInfo, total_retrans) == 100
    );
    assert!(
        offset_of!(TcpInfo, pacing_rate) == 104
            && offset_of!(TcpInfo, segs_out) == 136
            && offset_of!(TcpInfo, delivery_rate) == 160
    );
    assert!(
        offset_of!(TcpInfo, bytes_sent) == 200 && offset_of!(TcpInfo, snd_wnd) == 228 && size_of::<TcpInfo>() == 248
    );
};

/// Without pacing Linux says the largest number.
fn rate(rate: u64) -> u64 {
    if rate == 0 { u64::MAX } else { rate }
}

pub(super) fn tcp_info(info: &Info) -> TcpInfo {
    TcpInfo {
        state: info.state,
        ca_state: info.ca_state,
        retransmits: info.retransmits,
        probes: info.probes,
        backoff: info.backoff,
        options: info.options,
        wscales: (info.snd_wscale & 15) | (info.rcv_wscale << 4),
        app_limited: u8::from(info.delivery_rate_app_limited),
        rto: info.rto,
        ato: info.ato,
        snd_mss: info.snd_mss,
        rcv_mss: info.rcv_mss,
        unacked: info.unacked,
        sacked: info.sacked,
        lost: info.lost,
        retrans: info.retrans,
        last_data_sent: info.last_data_sent,
        last_data_recv: info.last_data_recv,
        last_ack_recv: info.last_ack_recv,
        pmtu: info.pmtu,
        rcv_ssthresh: info.rcv_wnd,
        rtt: info.rtt,
        rttvar: info.rttvar,
        snd_ssthresh: info.snd_ssthresh,
        snd_cwnd: info.snd_cwnd,
        advmss: info.advmss,
        reordering: info.reordering,
        rcv_space: info.rcv_space,
        total_retrans: info.total_retrans,
        pacing_rate: rate(info.pacing_rate),
        max_pacing_rate: u64::MAX,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        segs_out: info.segs_out,
        segs_in: info.segs_in,
        notsent_bytes: info.notsent_bytes,
        min_rtt: info.min_rtt,
        data_segs_in: info.data_segs_in,
        data_segs_out: info.data_segs_out,
        delivery_rate: info.delivery_rate,
        busy_time: info.busy_time,
        rwnd_limited: info.rwnd_limited,
        sndbuf_limited: info.sndbuf_limited,
        delivered: info.delivered,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retrans,
        dsack_dups: info.dsack_dups,
        reord_seen: info.reord_seen,
        rcv_ooopack: info.rcv_ooopack,
        snd_wnd: info.snd_wnd,
        rcv_wnd: info.rcv_wnd,
        ..TcpInfo::default()
    }
}
