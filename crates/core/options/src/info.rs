//! The values of TCP_INFO, and where each lies in Linux's `struct tcp_info` (`linux/tcp.h`); and
//! those of TCP_CC_INFO for BBR (`struct tcp_bbr_info` of `linux/inet_diag.h`).

/// Bytes of `struct tcp_info` in Linux 6. A caller of an older time asks for less, and gets the
/// beginning.
pub const INFO_LEN: usize = 280;

/// Bytes of `struct tcp_bbr_info`.
pub const BBR_INFO_LEN: usize = 20;

/// Where that structure begins among the numbers of fields, far behind what `struct tcp_info` may
/// grow to.
const BBR_AT: usize = 4096;

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
pub struct InfoField {
    /// Its name in C. The two window scales, which are bit fields there, have names as well.
    pub name: &'static str,
    /// The byte that it begins in; of the values of congestion control, so many bytes behind a
    /// place that no structure reaches.
    pub offset: usize,
    /// The bit of that byte that it begins at; 0 unless it is shorter than a byte.
    pub shift: usize,
    /// How long it is.
    pub bits: usize,
    get: fn(&Info) -> u64,
    put: fn(&mut Info, u64),
}

macro_rules! info {
    ($( $(#[$doc:meta])* $field:ident: $kind:ty, $name:literal, $offset:literal . $shift:tt,
        $bits:literal; )*) => {
        /// A connection's inner values, for TCP_INFO. Times are in microseconds, and sizes in
        /// bytes, unless the field says otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Info {
            $( $(#[$doc])* pub $field: $kind, )*
        }

        impl Info {
            /// All values, in the order in which C has them.
            pub const FIELDS: &'static [InfoField] = &[
                $( InfoField {
                    name: $name,
                    offset: $offset,
                    shift: $shift,
                    bits: $bits,
                    get: |info| info.$field.into(),
                    put: |info, value| info.$field = value as $kind,
                }, )*
            ];
        }
    };
}

info! {
    /// The state by Linux's numbers (1 ESTABLISHED … 11 CLOSING).
    state: u8, "tcpi_state", 0 . 0, 8;
    /// Linux's numbers: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    ca_state: u8, "tcpi_ca_state", 1 . 0, 8;
    /// Timeouts in a row for the oldest segment.
    retransmits: u8, "tcpi_retransmits", 2 . 0, 8;
    /// Window probes and keepalives without an answer.
    probes: u8, "tcpi_probes", 3 . 0, 8;
    /// Doublings of the timeout.
    backoff: u8, "tcpi_backoff", 4 . 0, 8;
    /// TCPI_OPT_* bits.
    options: u8, "tcpi_options", 5 . 0, 8;
    /// The peer's window scale.
    snd_wscale: u8, "tcpi_snd_wscale", 6 . 0, 4;
    /// Ours.
    rcv_wscale: u8, "tcpi_rcv_wscale", 6 . 4, 4;
    /// 1: the delivery rate was limited by the program.
    delivery_rate_app_limited: u8, "tcpi_delivery_rate_app_limited", 7 . 0, 1;
    /// How Fast Open failed, by Linux's numbers; 0: it did not.
    fastopen_client_fail: u8, "tcpi_fastopen_client_fail", 7 . 1, 2;
    /// The retransmission timeout.
    rto: u32, "tcpi_rto", 8 . 0, 32;
    /// The delayed-ACK timeout.
    ato: u32, "tcpi_ato", 12 . 0, 32;
    /// Segment size that we send.
    snd_mss: u32, "tcpi_snd_mss", 16 . 0, 32;
    /// Segment size that the peer seems to send.
    rcv_mss: u32, "tcpi_rcv_mss", 20 . 0, 32;
    /// Segments in flight. Of a listener: connections that wait to be accepted.
    unacked: u32, "tcpi_unacked", 24 . 0, 32;
    /// Segments selectively acknowledged. Of a listener: its backlog.
    sacked: u32, "tcpi_sacked", 28 . 0, 32;
    /// Segments thought lost.
    lost: u32, "tcpi_lost", 32 . 0, 32;
    /// Segments sent again and not acknowledged.
    retrans: u32, "tcpi_retrans", 36 . 0, 32;
    /// Forward acknowledgement; Linux has not counted it since 4.15.
    fackets: u32, "tcpi_fackets", 40 . 0, 32;
    /// Milliseconds since data was sent.
    last_data_sent: u32, "tcpi_last_data_sent", 44 . 0, 32;
    /// Linux does not count it.
    last_ack_sent: u32, "tcpi_last_ack_sent", 48 . 0, 32;
    /// Milliseconds since data was received.
    last_data_recv: u32, "tcpi_last_data_recv", 52 . 0, 32;
    /// Milliseconds since an ACK was received.
    last_ack_recv: u32, "tcpi_last_ack_recv", 56 . 0, 32;
    /// The path's MTU.
    pmtu: u32, "tcpi_pmtu", 60 . 0, 32;
    /// What the window may grow to.
    rcv_ssthresh: u32, "tcpi_rcv_ssthresh", 64 . 0, 32;
    /// Smoothed round-trip time.
    rtt: u32, "tcpi_rtt", 68 . 0, 32;
    /// Its variation.
    rttvar: u32, "tcpi_rttvar", 72 . 0, 32;
    /// Slow-start threshold, in segments.
    snd_ssthresh: u32, "tcpi_snd_ssthresh", 76 . 0, 32;
    /// Congestion window, in segments.
    snd_cwnd: u32, "tcpi_snd_cwnd", 80 . 0, 32;
    /// Segment size that we announced.
    advmss: u32, "tcpi_advmss", 84 . 0, 32;
    /// Segments of disorder that are borne.
    reordering: u32, "tcpi_reordering", 88 . 0, 32;
    /// The receiver's estimate of the round-trip time.
    rcv_rtt: u32, "tcpi_rcv_rtt", 92 . 0, 32;
    /// Receive FIFO: how much may be filled.
    rcv_space: u32, "tcpi_rcv_space", 96 . 0, 32;
    /// Segments ever sent again.
    total_retrans: u32, "tcpi_total_retrans", 100 . 0, 32;
    /// Bytes per second that leave at most; the largest number without pacing.
    pacing_rate: u64, "tcpi_pacing_rate", 104 . 0, 64;
    /// The bound of it that the program set (SO_MAX_PACING_RATE); the largest number without one.
    max_pacing_rate: u64, "tcpi_max_pacing_rate", 112 . 0, 64;
    /// Payload bytes acknowledged.
    bytes_acked: u64, "tcpi_bytes_acked", 120 . 0, 64;
    /// Payload bytes received.
    bytes_received: u64, "tcpi_bytes_received", 128 . 0, 64;
    /// Segments sent.
    segs_out: u32, "tcpi_segs_out", 136 . 0, 32;
    /// Segments received.
    segs_in: u32, "tcpi_segs_in", 140 . 0, 32;
    /// Bytes not sent yet.
    notsent_bytes: u32, "tcpi_notsent_bytes", 144 . 0, 32;
    /// The least round-trip time seen.
    min_rtt: u32, "tcpi_min_rtt", 148 . 0, 32;
    /// Segments with data received.
    data_segs_in: u32, "tcpi_data_segs_in", 152 . 0, 32;
    /// Segments with data sent.
    data_segs_out: u32, "tcpi_data_segs_out", 156 . 0, 32;
    /// Bytes per second, as last measured.
    delivery_rate: u64, "tcpi_delivery_rate", 160 . 0, 64;
    /// Time with data to send or in flight.
    busy_time: u64, "tcpi_busy_time", 168 . 0, 64;
    /// Of which the peer's window was the limit.
    rwnd_limited: u64, "tcpi_rwnd_limited", 176 . 0, 64;
    /// Of which the send buffer was the limit.
    sndbuf_limited: u64, "tcpi_sndbuf_limited", 184 . 0, 64;
    /// Segments delivered, sent again included.
    delivered: u32, "tcpi_delivered", 192 . 0, 32;
    /// Of which the peer said that they were marked by ECN.
    delivered_ce: u32, "tcpi_delivered_ce", 196 . 0, 32;
    /// Payload bytes sent, again included.
    bytes_sent: u64, "tcpi_bytes_sent", 200 . 0, 64;
    /// Payload bytes sent again.
    bytes_retrans: u64, "tcpi_bytes_retrans", 208 . 0, 64;
    /// D-SACKs received.
    dsack_dups: u32, "tcpi_dsack_dups", 216 . 0, 32;
    /// Times reordering was seen.
    reord_seen: u32, "tcpi_reord_seen", 220 . 0, 32;
    /// Out-of-order segments received.
    rcv_ooopack: u32, "tcpi_rcv_ooopack", 224 . 0, 32;
    /// The peer's window.
    snd_wnd: u32, "tcpi_snd_wnd", 228 . 0, 32;
    /// Our window.
    rcv_wnd: u32, "tcpi_rcv_wnd", 232 . 0, 32;
    /// Times another path was chosen by hash.
    rehash: u32, "tcpi_rehash", 236 . 0, 32;
    /// Retransmission timeouts.
    total_rto: u16, "tcpi_total_rto", 240 . 0, 16;
    /// Recoveries after a timeout that came to an end.
    total_rto_recoveries: u16, "tcpi_total_rto_recoveries", 242 . 0, 16;
    /// Milliseconds that these took.
    total_rto_time: u32, "tcpi_total_rto_time", 244 . 0, 32;
    /// Segments that arrived marked by ECN.
    received_ce: u32, "tcpi_received_ce", 248 . 0, 32;
    /// Bytes sent that arrived with ECT(1), as the counters of AccECN tell.
    delivered_e1_bytes: u32, "tcpi_delivered_e1_bytes", 252 . 0, 32;
    /// With ECT(0).
    delivered_e0_bytes: u32, "tcpi_delivered_e0_bytes", 256 . 0, 32;
    /// Marked.
    delivered_ce_bytes: u32, "tcpi_delivered_ce_bytes", 260 . 0, 32;
    /// Bytes received with ECT(1), where AccECN is in use.
    received_e1_bytes: u32, "tcpi_received_e1_bytes", 264 . 0, 32;
    /// With ECT(0).
    received_e0_bytes: u32, "tcpi_received_e0_bytes", 268 . 0, 32;
    /// Marked.
    received_ce_bytes: u32, "tcpi_received_ce_bytes", 272 . 0, 32;
    /// What of AccECN does not get through, by Linux's bits.
    accecn_fail_mode: u16, "tcpi_accecn_fail_mode", 276 . 0, 16;
    /// 1: the peer has sent an AccECN option.
    accecn_opt_seen: u16, "tcpi_accecn_opt_seen", 278 . 0, 16;
    /// BBR: bytes per second that the path is thought to carry. Linux has it in two halves.
    bbr_bw: u64, "bbr_bw_lo", 4096 . 0, 64;
    /// BBR: the shortest round trip that it reckons with.
    bbr_min_rtt: u32, "bbr_min_rtt", 4104 . 0, 32;
    /// BBR: the gain of the pacing rate, in 256ths.
    bbr_pacing_gain: u32, "bbr_pacing_gain", 4108 . 0, 32;
    /// BBR: the gain of the window, in 256ths; 0 where the algorithm is another one.
    bbr_cwnd_gain: u32, "bbr_cwnd_gain", 4112 . 0, 32;
}

impl InfoField {
    /// Its number where it travels: where its first bit lies, which Linux never changes.
    pub const fn number(&self) -> u16 {
        (self.offset * 8 + self.shift) as u16
    }

    /// Its value.
    pub fn get(&self, info: &Info) -> u64 {
        (self.get)(info)
    }

    /// Sets it; what does not fit is cut to the largest that does.
    pub fn put(&self, info: &mut Info, value: u64) {
        let most = if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 };
        (self.put)(info, value.min(most));
    }

    /// Its value among these bytes of a `struct tcp_info`; None when they end before it.
    pub fn read(&self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(self.offset..self.offset + self.bits.div_ceil(8))?;
        Some(match *bytes {
            [byte] => u64::from(byte) >> self.shift & ((1 << self.bits) - 1),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(*bytes.first_chunk()?),
        })
    }

    fn write(&self, value: u64, begin: usize, bytes: &mut [u8]) {
        let at = self.offset - begin;
        match self.bits {
            16 => bytes[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes()),
            32 => bytes[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes()),
            64 => bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes()),
            bits => bytes[at] |= ((value & ((1 << bits) - 1)) << self.shift) as u8,
        }
    }
}

impl Info {
    /// The values that are not zero, each with its number. What is left out is zero.
    pub fn told(&self) -> impl Iterator<Item = (u16, u64)> + Clone + use<'_> {
        Info::FIELDS
            .iter()
            .map(|field| (field.number(), field.get(self)))
            .filter(|(_, value)| *value != 0)
    }

    /// Takes a value that travelled. One that is not known here is a newer host's, and skipped.
    pub fn take(&mut self, number: u16, value: u64) {
        if let Some(field) = Info::FIELDS.iter().find(|field| field.number() == number) {
            field.put(self, value);
        }
    }

    /// As Linux lays it out.
    pub fn to_linux(&self) -> [u8; INFO_LEN] {
        let mut bytes = [0; INFO_LEN];
        for field in Info::FIELDS.iter().filter(|field| field.offset < INFO_LEN) {
            field.write(field.get(self), 0, &mut bytes);
        }
        bytes
    }

    /// What Linux tells of the algorithm that goes by BBR (TCP_CC_INFO); None: of others there is
    /// nothing to tell.
    pub fn to_linux_bbr(&self) -> Option<[u8; BBR_INFO_LEN]> {
        let mut bytes = [0; BBR_INFO_LEN];
        for field in Info::FIELDS.iter().filter(|field| field.offset >= BBR_AT) {
            field.write(field.get(self), BBR_AT, &mut bytes);
        }
        (self.bbr_cwnd_gain != 0).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value is another one, and as large as it may be.
    fn full() -> Info {
        let mut info = Info::default();
        for (at, field) in Info::FIELDS.iter().enumerate() {
            field.put(&mut info, u64::MAX - at as u64);
        }
        info
    }

    #[test]
    fn every_value_comes_back_as_it_went() {
        let info = full();
        let mut back = Info::default();
        for (number, value) in info.told() {
            back.take(number, value);
        }
        assert_eq!(back, info);
        back.take(60_000, 1);
        assert_eq!(back, info, "a newer host's value is skipped");
        assert_eq!(Info::default().told().count(), 0);
    }

    #[test]
    fn every_value_lies_in_the_struct_of_c_once() {
        let info = full();
        let bytes = info.to_linux();
        let mut end = 0;
        for field in Info::FIELDS.iter().filter(|field| field.offset < BBR_AT) {
            assert_eq!(field.read(&bytes), Some(field.get(&info)), "{}", field.name);
            assert_eq!(field.read(&bytes[..field.offset]), None, "{}", field.name);
            let begin = field.offset * 8 + field.shift;
            assert!(begin >= end, "{} lies in another one", field.name);
            end = begin + field.bits;
        }
        assert_eq!(end, INFO_LEN * 8);
    }

    #[test]
    fn what_bbr_tells_lies_in_a_structure_of_its_own() {
        let info = Info {
            bbr_bw: 0x0102_0304_0506_0708,
            bbr_min_rtt: 20_000,
            bbr_pacing_gain: 320,
            bbr_cwnd_gain: 512,
            ..Info::default()
        };
        let bytes = info.to_linux_bbr().unwrap();
        let words: [u32; 5] =
            core::array::from_fn(|at| u32::from_ne_bytes(*bytes[at * 4..].first_chunk().unwrap()));
        let halves = u64::from(words[1]) << 32 | u64::from(words[0]);
        assert_eq!((halves, &words[2..]), (info.bbr_bw, &[20_000, 320, 512][..]));
        assert_eq!(info.to_linux(), [0; INFO_LEN]);
        assert_eq!(Info { bbr_bw: 5, ..Info::default() }.to_linux_bbr(), None, "another algorithm");
    }
}
