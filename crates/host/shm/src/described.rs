//! A session's description in its own words: for who accepts a connection or makes one, and need
//! not ask the host what it is.

use crate::atomic::Ordering;
use crate::attach_socket::{FifoPlace, Kind, Place, Session, SessionId, SocketOptions};
use crate::layout::{DESCRIBED, SessionHead};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Words of a FIFO's place, and of an address.
const PART: usize = DESCRIBED / 4;

/// Where the family stands in an address's last word, above the port. The scope is in the upper
/// half.
const FAMILY_SHIFT: u32 = 16;

impl SessionHead {
    /// Writes the description of a stream. The host's, before it says that there is something to
    /// read.
    pub fn describe(&self, session: &Session) {
        let words = [
            fifo_words(session.rx.unwrap_or_default()),
            fifo_words(session.tx.unwrap_or_default()),
            address_words(session.local),
            address_words(session.remote),
        ];
        for (word, value) in self.described.iter().zip(words.as_flattened()) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Reads it. What is not said here is as with the listener, or as the process has set it.
    pub fn described(
        &self,
        id: SessionId,
        head: Place,
        v6: bool,
        options: SocketOptions,
    ) -> Session {
        let part = |index: usize| -> [u64; PART] {
            std::array::from_fn(|word| self.described[index * PART + word].load(Ordering::Relaxed))
        };
        Session {
            id,
            kind: Kind::Stream,
            v6,
            head,
            rx: fifo_of(part(0)),
            tx: fifo_of(part(1)),
            local: address_of(part(2)),
            remote: address_of(part(3)),
            options,
        }
    }

    /// Writes where [`crate::layout::request::CONNECT`] connects to. The process's.
    pub fn set_destination(&self, destination: SocketAddr) {
        for (word, value) in self.destination.iter().zip(address_words(Some(destination))) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Reads it, once. None: no address stands there.
    pub fn destination(&self) -> Option<SocketAddr> {
        address_of(std::array::from_fn(|word| self.destination[word].load(Ordering::Relaxed)))
    }
}

fn two(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn fifo_words(place: FifoPlace) -> [u64; PART] {
    let FifoPlace { head, data, capacity, limit } = place;
    [two(head.segment, head.offset), two(data.segment, data.offset), two(capacity, limit)]
}

/// Whatever stands there: a place that is none is refused by who goes there. None: no FIFO was
/// described.
fn fifo_of(words: [u64; PART]) -> Option<FifoPlace> {
    let place = |word| {
        let (segment, offset) = halves(word);
        Place { segment, offset }
    };
    let (capacity, limit) = halves(words[2]);
    (capacity != 0).then(|| FifoPlace {
        head: place(words[0]),
        data: place(words[1]),
        capacity,
        limit,
    })
}

fn address_words(address: Option<SocketAddr>) -> [u64; PART] {
    let (family, bytes, scope) = match address {
        None => (0, [0; 16], 0),
        Some(SocketAddr::V4(v4)) => (4, v4.ip().to_ipv6_mapped().octets(), 0),
        Some(SocketAddr::V6(v6)) => (6, v6.ip().octets(), v6.scope_id()),
    };
    let port = address.map_or(0, |address| address.port());
    let bytes = u128::from_be_bytes(bytes);
    [(bytes >> 64) as u64, bytes as u64, two(scope, family << FAMILY_SHIFT | u32::from(port))]
}

fn address_of(words: [u64; PART]) -> Option<SocketAddr> {
    let ip = Ipv6Addr::from(u128::from(words[0]) << 64 | u128::from(words[1]));
    let (scope, rest) = halves(words[2]);
    let port = rest as u16;
    match rest >> FAMILY_SHIFT {
        4 => Some(SocketAddr::new(IpAddr::V4(ip.to_ipv4_mapped()?), port)),
        6 => Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))),
        _ => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn place(at: u32) -> FifoPlace {
        FifoPlace {
            head: Place { segment: at, offset: at + 64 },
            data: Place { segment: at + 1, offset: at + 128 },
            capacity: 1 << 20,
            limit: 1 << 19,
        }
    }

    #[test]
    fn what_is_described_is_read_again() {
        let addresses =
            ["192.0.2.1:80", "[2001:db8::1]:65535", "[fe80::1%7]:1", "[::ffff:192.0.2.1]:443"];
        for address in addresses {
            let remote: SocketAddr = address.parse().unwrap();
            let session = Session {
                id: 7,
                kind: Kind::Stream,
                v6: remote.is_ipv6(),
                head: Place { segment: 3, offset: 256 },
                rx: Some(place(0)),
                tx: Some(place(9)),
                local: None,
                remote: Some(remote),
                options: SocketOptions::default(),
            };
            let head = SessionHead::default();
            head.describe(&session);
            assert_eq!(head.described(7, session.head, session.v6, session.options), session);
        }
    }

    #[test]
    fn any_words_are_a_description() {
        let head = SessionHead::default();
        for value in [1, 4 << 16, 5 << 16, u64::MAX] {
            head.described.iter().for_each(|word| word.store(value, Ordering::Relaxed));
            let read = head.described(1, Place::default(), true, SocketOptions::default());
            assert!(read.local.is_none(), "{value}");
        }
    }
}
