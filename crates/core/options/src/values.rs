//! The values that the host has to know of a socket, and how they travel.

/// A congestion control algorithm by the name that TCP_CONGESTION gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// What the host is configured to.
    Default,
    /// "reno".
    Reno,
    /// "cubic".
    Cubic,
    /// "bbr", the third version.
    Bbr,
    /// "bbr1", the first version, which Linux names "bbr".
    Bbr1,
    /// "prague".
    Prague,
}

impl Congestion {
    /// The algorithms that a program can ask for, by Linux's names.
    pub const BY_NAME: &'static [(&'static str, Congestion)] = &[
        ("reno", Congestion::Reno),
        ("cubic", Congestion::Cubic),
        ("bbr", Congestion::Bbr),
        ("bbr1", Congestion::Bbr1),
        ("prague", Congestion::Prague),
    ];

    /// The algorithm of that name.
    pub fn named(name: &[u8]) -> Option<Congestion> {
        Congestion::BY_NAME
            .iter()
            .find(|(known, _)| known.as_bytes() == name)
            .map(|(_, congestion)| *congestion)
    }

    /// Its name; None for the default, which is the host's to name.
    pub fn name(self) -> Option<&'static str> {
        Congestion::BY_NAME
            .iter()
            .find(|(_, congestion)| *congestion == self)
            .map(|(name, _)| *name)
    }
}

/// A value as it travels.
trait Carried: Sized {
    fn number(self) -> u64;
    /// None when the number stands for nothing.
    fn of(number: u64) -> Option<Self>;
}

impl Carried for bool {
    fn number(self) -> u64 {
        u64::from(self)
    }

    fn of(number: u64) -> Option<bool> {
        (number <= 1).then_some(number == 1)
    }
}

macro_rules! carried {
    ($($kind:ty),*) => {$(
        impl Carried for $kind {
            fn number(self) -> u64 {
                self.into()
            }

            fn of(number: u64) -> Option<$kind> {
                number.try_into().ok()
            }
        }

        /// None travels as 0, and every number as the next one.
        impl Carried for Option<$kind> {
            fn number(self) -> u64 {
                self.map_or(0, |value| u64::from(value) + 1)
            }

            fn of(number: u64) -> Option<Option<$kind>> {
                let Some(value) = number.checked_sub(1) else { return Some(None) };
                value.try_into().ok().map(Some)
            }
        }
    )*};
}
carried!(u8, u16, u32);

impl Carried for u64 {
    fn number(self) -> u64 {
        self
    }

    fn of(number: u64) -> Option<u64> {
        Some(number)
    }
}

impl Carried for Congestion {
    fn number(self) -> u64 {
        match self {
            Congestion::Default => 0,
            Congestion::Reno => 1,
            Congestion::Cubic => 2,
            Congestion::Bbr => 3,
            Congestion::Prague => 4,
            Congestion::Bbr1 => 5,
        }
    }

    fn of(number: u64) -> Option<Congestion> {
        match number {
            0 => Some(Congestion::Default),
            1 => Some(Congestion::Reno),
            2 => Some(Congestion::Cubic),
            3 => Some(Congestion::Bbr),
            4 => Some(Congestion::Prague),
            5 => Some(Congestion::Bbr1),
            // A newer program asks for one that this host does not have: the default is as near as
            // it gets.
            _ => Some(Congestion::Default),
        }
    }
}

macro_rules! fields {
    ($( $(#[$doc:meta])* $id:literal $variant:ident, $field:ident: $kind:ty = $default:expr;
        )*) => {
        /// Everything that a socket can be told which matters to the stack.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct SocketOptions {
            $( $(#[$doc])* pub $field: $kind, )*
        }

        impl Default for SocketOptions {
            /// As Linux starts.
            fn default() -> SocketOptions {
                SocketOptions { $( $field: $default, )* }
            }
        }

        /// A field of [`SocketOptions`]. Its number never changes, and is never used again.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum Field {
            $( $(#[$doc])* $variant = $id, )*
        }

        impl Field {
            /// All of them.
            pub const ALL: &'static [Field] = &[$( Field::$variant, )*];
        }

        impl SocketOptions {
            /// A field's value as it travels.
            pub fn get(&self, field: Field) -> u64 {
                match field { $( Field::$variant => self.$field.number(), )* }
            }

            /// Sets a field to a value that travelled; false when it stands for nothing.
            #[must_use]
            pub fn put(&mut self, field: Field, value: u64) -> bool {
                match field {
                    $( Field::$variant => match Carried::of(value) {
                        Some(value) => self.$field = value,
                        None => return false,
                    }, )*
                }
                true
            }
        }
    };
}

fields! {
    /// TCP_NODELAY.
    1 Nodelay, nodelay: bool = false;
    /// TCP_CORK.
    2 Cork, cork: bool = false;
    /// TCP_QUICKACK was set (true) or cleared (false) last.
    3 QuickAck, quick_ack: bool = true;
    /// SO_KEEPALIVE.
    4 Keepalive, keepalive: bool = false;
    /// TCP_KEEPIDLE in seconds.
    5 KeepIdle, keep_idle: u32 = 7200;
    /// TCP_KEEPINTVL in seconds.
    6 KeepInterval, keep_interval: u32 = 75;
    /// TCP_KEEPCNT.
    7 KeepCount, keep_count: u8 = 9;
    /// TCP_USER_TIMEOUT in milliseconds; 0: none.
    8 UserTimeout, user_timeout: u32 = 0;
    /// TCP_MAXSEG; 0: the link decides.
    9 MaxSegment, max_segment: u16 = 0;
    /// TCP_CONGESTION.
    10 Congestion, congestion: Congestion = Congestion::Default;
    /// SO_LINGER: seconds when on. `Some(0)` makes close a reset.
    11 Linger, linger: Option<u16> = None;
    /// IP_TOS or IPV6_TCLASS.
    12 Tos, tos: u8 = 0;
    /// IP_TTL or IPV6_UNICAST_HOPS.
    13 Ttl, ttl: u8 = 64;
    /// IPV6_V6ONLY.
    14 V6Only, v6_only: bool = false;
    /// SO_REUSEADDR.
    15 ReuseAddress, reuse_address: bool = false;
    /// SO_REUSEPORT.
    16 ReusePort, reuse_port: bool = false;
    /// SO_OOBINLINE.
    17 OobInline, oob_inline: bool = false;
    /// TCP_DEFER_ACCEPT in seconds; 0: off.
    18 DeferAccept, defer_accept: u32 = 0;
    /// SO_RCVBUF as it was set; 0: never. Decides the receive FIFO when it is set before connect or
    /// listen.
    19 ReceiveBuffer, receive_buffer: u32 = 0;
    /// SO_SNDBUF, likewise.
    20 SendBuffer, send_buffer: u32 = 0;
    /// IPV6_MTU as it was set; 0: the path decides.
    21 Mtu, mtu: u16 = 0;
    /// IP_MTU_DISCOVER, by Linux's numbers (0 DONT, 1 WANT, 2 DO, 3 PROBE, 4 INTERFACE, 5 OMIT).
    /// None: never set, which is told as WANT.
    22 Discover4, discover_v4: Option<u8> = None;
    /// IPV6_MTU_DISCOVER, likewise.
    23 Discover6, discover_v6: Option<u8> = None;
    /// IPV6_DONTFRAG.
    24 DontFragment6, dont_fragment_v6: bool = false;
    /// IP_RECVERR or IPV6_RECVERR: errors of datagrams are told one by one.
    25 ReceiveErrors, receive_errors: bool = false;
    /// IP_MULTICAST_TTL or IPV6_MULTICAST_HOPS.
    26 MulticastTtl, multicast_ttl: u8 = 1;
    /// IP_MULTICAST_LOOP or IPV6_MULTICAST_LOOP.
    27 MulticastLoop, multicast_loop: bool = true;
    /// IP_MULTICAST_IF or IPV6_MULTICAST_IF: an interface's number in the namespace; 0: as the
    /// route says.
    28 MulticastIface, multicast_iface: u32 = 0;
    /// IP_MULTICAST_ALL or IPV6_MULTICAST_ALL.
    29 MulticastAll, multicast_all: bool = true;
    /// TCP_SYNCNT; 0: as the host is configured.
    30 SynCount, syn_count: u8 = 0;
    /// TCP_LINGER2 in seconds; 0: not at all (a negative number there). None: as the host is
    /// configured.
    31 FinWait2, fin_wait_2: Option<u8> = None;
    /// TCP_WINDOW_CLAMP; 0: none.
    32 WindowClamp, window_clamp: u32 = 0;
    /// TCP_THIN_LINEAR_TIMEOUTS.
    33 LinearTimeouts, linear_timeouts: bool = false;
    /// TCP_NOTSENT_LOWAT as it was set; 0: none.
    34 NotsentLowat, notsent_lowat: u32 = 0;
    /// SO_MAX_PACING_RATE in bytes a second; `u64::MAX`: none.
    40 MaxPacingRate, max_pacing_rate: u64 = u64::MAX;
    /// TCP_FASTOPEN of a listener: connections whose handshakes are not complete; 0: none.
    36 FastOpen, fast_open: u32 = 0;
    /// TCP_FASTOPEN_CONNECT.
    37 FastOpenConnect, fast_open_connect: bool = false;
    /// TCP_FASTOPEN_NO_COOKIE.
    41 FastOpenNoCookie, fast_open_no_cookie: bool = false;
    /// TCP_FASTOPEN_KEY of a listener: how many of the keys below there are, each as two numbers.
    42 FastOpenKeyCount, fast_open_key_count: u8 = 0;
    /// The first half of the present key.
    43 FastOpenKeyLow, fast_open_key_low: u64 = 0;
    /// Its second half.
    44 FastOpenKeyHigh, fast_open_key_high: u64 = 0;
    /// The first half of the key before.
    45 FastOpenOldKeyLow, fast_open_old_key_low: u64 = 0;
    /// Its second half.
    46 FastOpenOldKeyHigh, fast_open_old_key_high: u64 = 0;
    /// SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING: [`crate::stamping`].
    47 Timestamping, timestamping: u32 = 0;
    /// The address that IP_MULTICAST_IF named, as a number; 0: none. Datagrams to groups come from
    /// it, where the socket has no address of its own.
    48 MulticastSource, multicast_source: u32 = 0;
    /// IP_BIND_ADDRESS_NO_PORT: a stream that binds to port 0 gets its port when it connects, one
    /// that may be used towards other peers as well.
    49 BindAddressNoPort, bind_address_no_port: bool = false;
}

/// The least that TCP_NOTSENT_LOWAT stands for.
const LEAST_UNSENT: u32 = 16 * 1024;

/// IP_PMTUDISC_DO and IPV6_PMTUDISC_DO: the first of the values that forbid to cut.
pub const PMTU_DISC_DO: u8 = 2;
/// IP_PMTUDISC_PROBE and IPV6_PMTUDISC_PROBE.
pub const PMTU_DISC_PROBE: u8 = 3;
/// IP_PMTUDISC_INTERFACE and IPV6_PMTUDISC_INTERFACE: the last of them.
pub const PMTU_DISC_INTERFACE: u8 = 4;

impl SocketOptions {
    /// The fields that are not as they are at first, each with its number. What is left out is so
    /// by default.
    pub fn told(&self) -> impl Iterator<Item = (u16, u64)> + Clone + use<'_> {
        let first = SocketOptions::default();
        let changed = move |field: &&Field| self.get(**field) != first.get(**field);
        Field::ALL.iter().filter(changed).map(|&field| (field as u16, self.get(field)))
    }

    /// Takes a field that travelled. One that is not known here is a newer program's, and skipped.
    /// False when the value stands for nothing.
    #[must_use]
    pub fn take(&mut self, number: u16, value: u64) -> bool {
        let known = Field::ALL.iter().find(|field| **field as u16 == number);
        known.is_none_or(|&field| self.put(field, value))
    }

    /// TCP_FASTOPEN_KEY: the present key and the one before, as far as there are any.
    pub fn fast_open_keys(&self) -> [Option<[u8; 16]>; 2] {
        let key = |index: u8, low: u64, high: u64| {
            (index < self.fast_open_key_count)
                .then(|| (u128::from(high) << 64 | u128::from(low)).to_le_bytes())
        };
        [
            key(0, self.fast_open_key_low, self.fast_open_key_high),
            key(1, self.fast_open_old_key_low, self.fast_open_old_key_high),
        ]
    }

    /// Sets what [`SocketOptions::fast_open_keys`] tells: 16 bytes, or 32 for the key before as
    /// well. False, and nothing is changed, when it is neither.
    #[must_use]
    pub fn set_fast_open_keys(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() != 16 && bytes.len() != 32 {
            return false;
        }
        let half = |at: usize| {
            let half = bytes.get(at..at + 8).and_then(|half| half.try_into().ok());
            half.map_or(0, u64::from_le_bytes)
        };
        self.fast_open_key_count = (bytes.len() / 16) as u8;
        (self.fast_open_key_low, self.fast_open_key_high) = (half(0), half(8));
        (self.fast_open_old_key_low, self.fast_open_old_key_high) = (half(16), half(24));
        true
    }

    /// Bytes that may be written and not sent; None: as many as there is room for. A bound that is
    /// less than two large segments would have programs write in crumbs: Linux, which takes a whole
    /// segment whenever it is below the bound, does not heed such a one either.
    pub fn unsent_bound(&self) -> Option<u32> {
        (self.notsent_lowat != 0 && self.notsent_lowat != u32::MAX)
            .then(|| self.notsent_lowat.max(LEAST_UNSENT))
    }

    /// A datagram that is longer than the path takes is refused, and not cut.
    pub fn refuses_longer(&self, v6: bool) -> bool {
        let how = if v6 { self.discover_v6 } else { self.discover_v4 };
        how.is_some_and(|how| (PMTU_DISC_DO..=PMTU_DISC_INTERFACE).contains(&how))
            || (v6 && self.dont_fragment_v6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_as_it_went() {
        let set = SocketOptions {
            nodelay: true,
            keep_idle: u32::MAX,
            linger: Some(u16::MAX),
            discover_v4: Some(0),
            congestion: Congestion::Reno,
            multicast_all: false,
            ttl: 0,
            ..SocketOptions::default()
        };
        let mut back = SocketOptions::default();
        let told = set.told();
        assert_eq!(told.count(), 7, "only what was changed is told");
        for (number, value) in set.told() {
            assert!(back.take(number, value));
        }
        assert_eq!(back, set);
    }

    #[test]
    fn an_option_of_a_newer_library_is_skipped_and_a_value_without_meaning_is_refused() {
        let mut options = SocketOptions::default();
        assert!(options.take(60_000, 7));
        assert_eq!(options, SocketOptions::default());
        assert!(!options.take(Field::Nodelay as u16, 2));
        assert!(!options.take(Field::KeepCount as u16, 256));
        assert!(!options.take(Field::Linger as u16, 0x1_0001));
        assert_eq!(options, SocketOptions::default());
    }

    #[test]
    fn no_two_fields_have_one_number() {
        for (at, field) in Field::ALL.iter().enumerate() {
            assert!(
                Field::ALL[..at].iter().all(|other| *other as u16 != *field as u16),
                "{field:?}"
            );
        }
    }

    #[test]
    fn congestion_controls_go_by_linuxs_names() {
        for (name, congestion) in Congestion::BY_NAME {
            assert_eq!(
                (Congestion::named(name.as_bytes()), congestion.name()),
                (Some(*congestion), Some(*name))
            );
            assert_eq!(Congestion::of(congestion.number()), Some(*congestion));
        }
        assert_eq!((Congestion::named(b"vegas"), Congestion::Default.name()), (None, None));
    }
}
