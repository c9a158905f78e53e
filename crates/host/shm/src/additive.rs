//! Socket options and TCP_INFO on the attach socket: a list of what is not as it is by default,
//! each value behind its field's number.
//!
//! So a field may be added without a new version of everything: what one side does not know it
//! skips, what the other did not tell has its default.

use std::fmt;

use clearway_options::{Info, SocketOptions};
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserializer, Serializer};

/// Hands each pair of a list on; `take` says false to refuse one.
struct Pairs<F>(F);

impl<'de, F: FnMut(u16, u64) -> bool> Visitor<'de> for Pairs<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers of fields and their values")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some((number, value)) = list.next_element::<(u16, u64)>()? {
            if !(self.0)(number, value) {
                return Err(A::Error::custom(format_args!(
                    "{value} stands for nothing in field {number}"
                )));
            }
        }
        Ok(())
    }
}

fn write<S: Serializer>(
    told: impl Iterator<Item = (u16, u64)> + Clone,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(told.clone().count()))?;
    for pair in told {
        list.serialize_element(&pair)?;
    }
    list.end()
}

/// For `#[serde(with)]` on [`SocketOptions`].
pub(crate) mod options {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        options: &SocketOptions,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        write(options.told(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<SocketOptions, D::Error> {
        let mut options = SocketOptions::default();
        from.deserialize_seq(Pairs(|number, value| options.take(number, value)))?;
        Ok(options)
    }
}

/// For `#[serde(with)]` on [`Info`].
pub(crate) mod info {
    use super::*;

    #[expect(clippy::borrowed_box, reason = "the field is a box")]
    pub(crate) fn serialize<S: Serializer>(info: &Box<Info>, to: S) -> Result<S::Ok, S::Error> {
        write(info.told(), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Info>, D::Error> {
        let mut info = Box::<Info>::default();
        from.deserialize_seq(Pairs(|number, value| {
            info.take(number, value);
            true
        }))?;
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use crate::attach_socket::{Info, Reply, Request, SocketOptions};

    /// What a library says that knows these fields: the request of the same shape, with a plain
    /// list in the options' place.
    fn said(session: u64, pairs: &[(u16, u64)]) -> Vec<u8> {
        let whole =
            postcard::to_stdvec(&Request::Options { session, options: SocketOptions::default() })
                .unwrap();
        // Options that nobody changed are an empty list, one byte.
        let mut bytes = whole[..whole.len() - 1].to_vec();
        bytes.extend(postcard::to_stdvec(&pairs).unwrap());
        bytes
    }

    fn heard(bytes: &[u8]) -> Option<SocketOptions> {
        match postcard::from_bytes(bytes).ok()? {
            Request::Options { session: 7, options } => Some(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_an_older_and_of_a_newer_library_are_understood() {
        assert_eq!(heard(&said(7, &[])), Some(SocketOptions::default()));
        let nodelay = SocketOptions { nodelay: true, ..SocketOptions::default() };
        assert_eq!(heard(&said(7, &[(1, 1)])), Some(nodelay), "one that knows a single option");
        assert_eq!(
            heard(&said(7, &[(999, 5), (1, 1), (60_000, u64::MAX)])),
            Some(nodelay),
            "one that knows more"
        );
        assert_eq!(
            heard(&said(7, &[(1, 2)])),
            None,
            "a flag that is neither on nor off is nonsense"
        );
    }

    #[test]
    fn values_of_a_newer_host_are_skipped() {
        let info = Info { rtt: 1234, bytes_acked: 1 << 50, ..Info::default() };
        let whole = postcard::to_stdvec(&Reply::Info(Box::new(info))).unwrap();
        assert_eq!(
            whole.len(),
            1 + 1 + (2 + 2) + (2 + 8),
            "two values: their numbers and themselves"
        );
        let mut newer = whole.clone();
        newer[1] += 1;
        newer.extend(postcard::to_stdvec(&(60_000u16, 77u64)).unwrap());
        for bytes in [whole, newer] {
            match postcard::from_bytes(&bytes).unwrap() {
                Reply::Info(told) => assert_eq!(*told, info),
                other => panic!("{other:?}"),
            }
        }
    }
}
