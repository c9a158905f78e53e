//! TCP_INFO: a connection's values as Linux tells them.

use clearway_base::Duration;
use clearway_options::Info;

use super::{EcnFeedback, Phase, TcpInfo};

/// TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_WSCALE.
const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;
/// TCPI_OPT_ECN, TCPI_OPT_ECN_SEEN.
const OPT_ECN: u8 = 8;
const OPT_ECN_SEEN: u8 = 16;
/// TCPI_OPT_SYN_DATA.
const OPT_SYN_DATA: u8 = 32;

/// TCP_ACCECN_ACE_FAIL_RECV: the ACE field that came was not one.
const ACE_FAIL_RECV: u8 = 2;

/// Bytes that the timestamps option takes of each segment, padded (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u32 = 12;

/// Linux shows this for a threshold that was never set (TCP_INFINITE_SSTHRESH).
const NO_SSTHRESH: u32 = i32::MAX as u32;

/// Linux says the largest number where nothing paces.
const NO_PACING: u64 = u64::MAX;

/// Linux tells gains in 256ths.
fn linux_gain(hundredths: u32) -> u32 {
    hundredths * 256 / 100
}

impl TcpInfo {
    /// As Linux's TCP_INFO has it, which counts in segments where this stack counts in bytes.
    pub fn to_linux(&self) -> Info {
        let mss = u32::from(self.snd_mss).max(1);
        let micros = |d: Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
        let millis = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
        let segments = |bytes: u32| bytes.div_ceil(mss);
        let option = |on: bool, bit: u8| if on { bit } else { 0 };
        Info {
            state: self.state.linux_number(),
            ca_state: match self.phase {
                Phase::Open => 0,
                Phase::Disorder => 1,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            retransmits: u8::try_from(self.retransmits).unwrap_or(u8::MAX),
            probes: self.probes,
            backoff: self.backoff,
            options: option(self.timestamps, OPT_TIMESTAMPS)
                | option(self.sack, OPT_SACK)
                | option(self.snd_wscale.is_some(), OPT_WSCALE)
                | option(self.ecn.feedback != EcnFeedback::None, OPT_ECN)
                | option(self.ecn.seen, OPT_ECN_SEEN)
                | option(self.syn_data, OPT_SYN_DATA),
            snd_wscale: self.snd_wscale.unwrap_or(0),
            rcv_wscale: self.rcv_wscale.unwrap_or(0),
            rto: micros(self.rto),
            ato: micros(self.ato),
            snd_mss: self.snd_mss.into(),
            rcv_mss: self.rcv_mss.into(),
            // Linux takes the room of the timestamps off what it announced
            // (`tcp_rcv_synsent_state_process`).
            advmss: u32::from(self.advertised_mss).saturating_sub(if self.timestamps {
                TIMESTAMPS_LEN
            } else {
                0
            }),
            pmtu: self.path_mtu,
            rtt: micros(self.rtt),
            rttvar: micros(self.rttvar),
            min_rtt: micros(self.min_rtt),
            snd_ssthresh: if self.ssthresh == u32::MAX { NO_SSTHRESH } else { self.ssthresh / mss },
            snd_cwnd: self.cwnd / mss,
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.rcv_wnd,
            rcv_ssthresh: self.rcv_wnd,
            unacked: segments(self.unacked),
            sacked: segments(self.sacked),
            // Linux counts what is lost as such until it is acknowledged, sent again or not.
            lost: segments(match self.phase {
                Phase::Recovery | Phase::Loss => self.lost.saturating_add(self.retransmitted),
                Phase::Open | Phase::Disorder => self.lost,
            }),
            retrans: segments(self.retransmitted),
            total_retrans: self.total_retransmits,
            reordering: self.reordering,
            dsack_dups: self.dsack_dups,
            reord_seen: self.reord_seen,
            rcv_ooopack: self.rcv_ooo_segs,
            rcv_space: self.rcv_space,
            last_data_sent: millis(self.last_data_sent),
            last_data_recv: millis(self.last_data_received),
            last_ack_recv: millis(self.last_ack_received),
            notsent_bytes: self.unsent,
            bytes_acked: self.bytes_acked,
            bytes_received: self.bytes_received,
            bytes_sent: self.bytes_sent,
            bytes_retrans: self.bytes_retransmitted,
            segs_out: self.segs_out,
            segs_in: self.segs_in,
            data_segs_in: self.data_segs_in,
            data_segs_out: self.data_segs_out,
            delivered: self.delivered,
            delivered_ce: self.ecn.delivered_ce,
            received_ce: self.ecn.received_ce,
            delivered_e0_bytes: self.ecn.delivered_bytes[0],
            delivered_ce_bytes: self.ecn.delivered_bytes[1],
            delivered_e1_bytes: self.ecn.delivered_bytes[2],
            received_e0_bytes: self.ecn.received_bytes[0],
            received_ce_bytes: self.ecn.received_bytes[1],
            received_e1_bytes: self.ecn.received_bytes[2],
            accecn_fail_mode: option(self.ecn.deaf, ACE_FAIL_RECV).into(),
            accecn_opt_seen: self.ecn.options_seen.into(),
            delivery_rate: self.delivery_rate,
            delivery_rate_app_limited: self.delivery_rate_app_limited.into(),
            pacing_rate: self.pacing_rate.unwrap_or(NO_PACING),
            max_pacing_rate: self.max_pacing_rate.unwrap_or(NO_PACING),
            bbr_bw: self.bbr.map_or(0, |bbr| bbr.bw),
            bbr_min_rtt: self.bbr.map_or(0, |bbr| micros(bbr.min_rtt)),
            bbr_pacing_gain: self.bbr.map_or(0, |bbr| linux_gain(bbr.pacing_gain)),
            bbr_cwnd_gain: self.bbr.map_or(0, |bbr| linux_gain(bbr.cwnd_gain)),
            busy_time: self.busy.as_micros(),
            rwnd_limited: self.rwnd_limited.as_micros(),
            sndbuf_limited: self.sndbuf_limited.as_micros(),
            ..Info::default()
        }
    }
}
