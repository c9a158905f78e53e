//! Socket options: what each does to a socket of Clearway, and how what is not done fails.
//!
//! A pending socket is the kernel's, so the kernel judges what is set on it; that is remembered,
//! and set again when the socket becomes Clearway's ([`replay`]). On a socket of Clearway, `set`
//! and `get` judge as Linux does.

use std::ffi::c_int;

use clearway_client::SocketOptions;
use clearway_options::{Going, SocketOption};

use crate::errno::{Answer, fail};
use crate::object::Ours;

mod ip;
mod ip6;
mod multicast;
mod socket;
pub(crate) mod stamps;
pub(crate) mod tcp;
mod udp;

pub(crate) use socket::timeout;

#[cfg(test)]
mod tests;

/// Bytes of the longest option that is remembered. Longer ones are of kinds that only the kernel
/// has.
pub(crate) const LONGEST: usize = 264;

/// Not in the `libc` crate.
pub(crate) const SO_MEMINFO: c_int = 55;

/// What was said of one socket at most, when that is of groups.
const MOST_TOLD: usize = 64;

/// An option that the kernel took for a pending socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    level: c_int,
    name: c_int,
    value: Vec<u8>,
}

impl Told {
    /// `value` is cut to what is worth remembering.
    pub(crate) fn new(level: c_int, name: c_int, value: &[u8]) -> Told {
        Told { level, name, value: value[..value.len().min(LONGEST)].to_vec() }
    }

    /// Adds it to a list, in place of what was said of the same option before.
    pub(crate) fn remember(list: &mut Vec<Told>, told: Told) {
        // A socket can be in many groups.
        if multicast::changes_group(told.level, told.name) {
            list.truncate(MOST_TOLD);
        } else {
            list.retain(|old| (old.level, old.name) != (told.level, told.name));
        }
        list.push(told);
    }

    /// The option's name, for people.
    pub(crate) fn describe(&self) -> String {
        match SocketOption::of(self.level, self.name) {
            Some(known) => known.name.to_owned(),
            None => format!("socket option {} of level {}", self.name, self.level),
        }
    }

    /// Setting it again for this socket of the kernel's.
    pub(crate) fn parts(&self) -> (c_int, c_int, &[u8]) {
        (self.level, self.name, &self.value)
    }
}

/// Options whose values this library keeps, because the stack needs none of them or gets them with
/// each datagram.
#[derive(Clone, Default, Debug)]
pub(crate) struct Extra {
    /// What was set before the socket was connected, so that a socket that goes back to the kernel
    /// can take it along.
    pub(crate) told: Vec<Told>,
    /// SO_BROADCAST.
    pub(crate) broadcast: bool,
    /// SO_PRIORITY.
    priority: c_int,
    /// SO_BUSY_POLL.
    busy_poll: c_int,
    /// SO_ZEROCOPY.
    pub(crate) zero_copy: bool,
    /// TCP_INQ.
    pub(crate) inq: bool,
    /// SO_BINDTODEVICE; empty: bound to none.
    device: Vec<u8>,
    /// IP_PKTINFO and its like, of which the shared flags know only that one of a pair is set.
    pub(crate) wants: Wants,
}

impl Extra {
    /// What a connection has of its listener.
    pub(crate) fn inherited(&self) -> Extra {
        Extra { told: Vec::new(), ..self.clone() }
    }
}

/// Which control messages a datagram brings along.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Wants {
    pub(crate) pktinfo: bool,
    pub(crate) pktinfo6: bool,
    pub(crate) tos: bool,
    pub(crate) tclass: bool,
    pub(crate) ttl: bool,
    pub(crate) hop_limit: bool,
    pub(crate) errors: bool,
    pub(crate) errors6: bool,
}

/// What `getsockopt` answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// A number: as much of its four bytes as the caller has room for.
    Number(c_int),
    /// A number that Linux gives as one byte when there is no room for more (the level IP).
    Short(c_int),
    /// A structure or a name: as much of it as there is room for.
    Bytes(Vec<u8>),
}

/// The socket that an option is set on, with its options as they were.
struct Setting<'a> {
    ours: &'a Ours,
    options: SocketOptions,
    /// The host is to be told though nothing changes.
    acts: bool,
}

/// Sets an option.
pub(crate) fn set(ours: &Ours, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
    let mut setting = Setting::new(ours);
    setting.set(level, name, value)?;
    setting.finish()
}

impl Setting<'_> {
    fn new(ours: &Ours) -> Setting<'_> {
        Setting { ours, options: ours.socket.options(), acts: false }
    }

    fn set(&mut self, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
        let ours = self.ours;
        let by_rule = match level {
            _ if multicast::is_one(level, name) => {
                multicast::set(self, level, name, value).map(|()| true)?
            }
            libc::SOL_SOCKET => stamps::set(self, name, value)? || socket::set(self, name, value)?,
            libc::IPPROTO_TCP if ours.is_stream() => tcp::set(self, name, value)?,
            libc::IPPROTO_UDP if !ours.is_stream() => udp::set(self, name, value)?,
            libc::IPPROTO_IP => ip::set(self, name, value)?,
            libc::IPPROTO_IPV6 if ours.socket.is_v6() => ip6::set(self, name, value)?,
            _ => return fail(libc::ENOPROTOOPT),
        };
        if !by_rule {
            let number = if level == libc::IPPROTO_IP { ip::short(value)? } else { number(value)? };
            let Some(option) = SocketOption::of(level, name) else {
                return fail(libc::ENOPROTOOPT);
            };
            option.set(&mut self.options, number).or_else(fail)?;
        }
        if ours.socket.remote().is_none() {
            Told::remember(&mut ours.extra().told, Told::new(level, name, value));
        }
        Ok(())
    }

    /// Tells the host, if it has to know.
    fn finish(self) -> Answer<()> {
        if !self.acts && self.options == self.ours.socket.options() {
            return Ok(());
        }
        self.ours.socket.set_options(&self.options)
    }
}

/// Asks for an option.
pub(crate) fn get(ours: &Ours, level: c_int, name: c_int) -> Answer<Value> {
    let by_rule = match level {
        _ if multicast::is_one(level, name) => multicast::get(ours, level, name).map(Some)?,
        libc::SOL_SOCKET => match stamps::get(ours, name) {
            Some(value) => Some(value),
            None => socket::get(ours, name)?,
        },
        libc::IPPROTO_TCP if ours.is_stream() => tcp::get(ours, name)?,
        libc::IPPROTO_UDP if !ours.is_stream() => udp::get(ours, name)?,
        libc::IPPROTO_IP => ip::get(ours, name)?,
        libc::IPPROTO_IPV6 if ours.socket.is_v6() => ip6::get(ours, name)?,
        // Linux says so of levels that it does not know, and says it differently for the two
        // families.
        _ if ours.socket.is_v6() => return fail(libc::ENOPROTOOPT),
        _ => return fail(libc::EOPNOTSUPP),
    };
    if let Some(value) = by_rule {
        return Ok(value);
    }
    let Some(option) = SocketOption::of(level, name) else { return fail(libc::ENOPROTOOPT) };
    let number = option.get(&ours.socket.options()).or_else(fail)?;
    Ok(if level == libc::IPPROTO_IP { Value::Short(number) } else { Value::Number(number) })
}

/// Sets again, on a new socket of Clearway, what the kernel was told before. Gives the names of
/// those that only tune and were left out; an option that does more than that and has no
/// counterpart is the error.
pub(crate) fn replay(ours: &Ours, told: &[Told]) -> Result<Vec<String>, String> {
    let mut setting = Setting::new(ours);
    let mut left_out = Vec::new();
    for one in told {
        match setting.set(one.level, one.name, &one.value) {
            Ok(()) => {}
            Err(_) if going(one) == Some(Going::Tunes) => left_out.push(one.describe()),
            // It is off, as it always is here.
            Err(_) if going(one) == Some(Going::Stays) && !one.is_on() => {}
            Err(errno) => return Err(format!("{} ({errno})", one.describe())),
        }
    }
    setting.finish().map_err(|errno| format!("the host refuses its options ({errno})"))?;
    Ok(left_out)
}

/// What becomes of a socket that has this option; None for one that nobody knows.
fn going(told: &Told) -> Option<Going> {
    SocketOption::of(told.level, told.name).map(|option| option.going)
}

/// The first of these options that Clearway has no counterpart of, and that changes what the socket
/// does.
pub(crate) fn only_the_kernels(told: &[Told]) -> Option<String> {
    let is_one =
        |told: &&Told| going(told) == Some(Going::Stays) && told.is_on() && !told.means_ours();
    told.iter().find(is_one).map(Told::describe)
}

/// One of these means an interface of Clearway's for groups, so that is whose groups the socket
/// means.
pub(crate) fn means_our_groups(told: &[Told]) -> bool {
    told.iter().any(Told::means_ours)
}

/// One of these binds the socket to an interface of Clearway's.
pub(crate) fn means_our_device(told: &[Told]) -> bool {
    told.iter().any(|told| socket::names_our_device(told.level, told.name, &told.value))
}

/// The socket shares its port with others that say so too (SO_REUSEPORT).
pub(crate) fn shares_port(told: &[Told]) -> bool {
    told.iter().any(|told| {
        (told.level, told.name) == (libc::SOL_SOCKET, libc::SO_REUSEPORT)
            && told.value.iter().any(|byte| *byte != 0)
    })
}

/// The kernel cannot judge this option, for it means an interface of Clearway's. What is said of it
/// in the kernel's place.
pub(crate) fn judged_for_the_kernel(level: c_int, name: c_int, value: &[u8]) -> Option<Answer<()>> {
    let is_ours =
        multicast::means_ours(level, name, value) || socket::names_our_device(level, name, value);
    is_ours.then(|| socket::judge(level, name, value))
}

/// What such an option of a socket that is still the kernel's is told to be. None: the kernel knows.
pub(crate) fn told_of_ours(told: &[Told], level: c_int, name: c_int) -> Option<Answer<Value>> {
    let is_it = |told: &&Told| (told.level, told.name) == (level, name);
    let known = told.iter().find(is_it)?;
    let is_told = multicast::is_where_from(level, name) && known.means_ours();
    is_told.then(|| multicast::get_told(level, &known.value))
}

impl Told {
    fn means_ours(&self) -> bool {
        multicast::means_ours(self.level, self.name, &self.value)
            || socket::names_our_device(self.level, self.name, &self.value)
    }

    fn is_on(&self) -> bool {
        self.value.iter().any(|&byte| byte != 0)
    }
}

/// The number at the beginning of a value; EINVAL when it is too short for one.
fn number(value: &[u8]) -> Answer<c_int> {
    match value.first_chunk() {
        Some(bytes) => Ok(c_int::from_ne_bytes(*bytes)),
        None => fail(libc::EINVAL),
    }
}

/// A number in bounds, or EINVAL.
fn within(number: c_int, low: c_int, high: c_int) -> Answer<c_int> {
    if (low..=high).contains(&number) { Ok(number) } else { fail(libc::EINVAL) }
}

/// The bytes of a C structure without padding that matters.
fn bytes<T: Copy>(value: T) -> Vec<u8> {
    // SAFETY: any value can be read as bytes for the length of its type; callers pass structures
    // without padding.
    unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) }.to_vec()
}
