//! A question about one link, by its index or its name, and one about the addresses of one.
//!
//! The kernel knows none of ours and would answer ENODEV. So it is asked about its loopback in
//! place of ours, in the program's words but for that: the program has something to read when it
//! always has, behind what waits there already, and what is answered is ours in its place. An
//! acknowledgement that was asked for follows, and the end of a dump, of which nothing but that is
//! let through.

use std::ffi::c_int;

use clearway_client::{Errno, Interface};
use libc::ssize_t;

use super::{HEAD, MOST_DUMPS, NLM_F_DUMP, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK};
use super::{half, of_link, port, word};
use crate::errno::Answer;
use crate::interfaces::{named, numbered};
use crate::{errno, real};

/// Bytes of `ifinfomsg`, behind which attributes stand.
const INFO: usize = 16;

/// The index of the kernel's loopback, in each network namespace.
const LOOPBACK: u32 = 1;

/// Names longer than IFNAMSIZ stand in another attribute, also for who has none so long.
const IFLA_ALT_IFNAME: u16 = 53;

/// The link that a message asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::interfaces) enum Asked<'a> {
    Index(u32),
    Name(&'a [u8]),
}

/// Which link a message asks about, if it does that.
pub(in crate::interfaces) fn asked(message: &[u8]) -> Option<Asked<'_>> {
    if half(message, 4)? != RTM_GETLINK || half(message, 6)? & NLM_F_DUMP == NLM_F_DUMP {
        return None;
    }
    let index = word(message, HEAD + 4)?;
    if index != 0 {
        return Some(Asked::Index(index));
    }
    let mut rest = message.get(HEAD + INFO..)?;
    loop {
        let len = usize::from(half(rest, 0)?);
        let value = rest.get(4..len)?;
        if [libc::IFLA_IFNAME, IFLA_ALT_IFNAME].contains(&half(rest, 2)?) {
            return Some(Asked::Name(value));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

impl Asked<'_> {
    /// That link, if it is one of ours.
    pub(super) fn link(self) -> Option<Interface> {
        match self {
            Asked::Index(index) => numbered(index),
            Asked::Name(name) => named(name),
        }
    }
}

/// What the kernel is asked in place of that.
pub(in crate::interfaces) fn instead(message: &[u8]) -> Vec<u8> {
    let mut other = message[..HEAD].to_vec();
    other[..4].copy_from_slice(&((HEAD + INFO) as u32).to_ne_bytes());
    other.extend([0; 4]);
    other.extend(LOOPBACK.to_ne_bytes());
    other.extend([0; 8]);
    other
}

/// Answers that wait to stand in the place of the kernel's, by their sequence numbers.
#[derive(Default)]
pub(super) struct Answers {
    links: Vec<(u32, Vec<u8>)>,
    /// Dumps of which ours is all.
    dumps: Vec<u32>,
}

impl Answers {
    /// Asks the kernel what it can answer in place of a question about a link of ours. None: there
    /// are too many already.
    pub(super) fn ask(
        &mut self,
        fd: c_int,
        message: &[u8],
        one: &Interface,
        flags: c_int,
    ) -> Option<Answer<ssize_t>> {
        let sequence = word(message, 8).filter(|_| self.links.len() < MOST_DUMPS)?;
        Some(send(fd, &instead(message), flags).map(|()| {
            // The socket has its number by now.
            self.links.push((sequence, of_link(one, sequence, port(fd), 0)));
            message.len() as ssize_t
        }))
    }

    /// The same for a dump of the addresses of a link of ours.
    pub(super) fn ask_all(
        &mut self,
        fd: c_int,
        message: &[u8],
        flags: c_int,
    ) -> Option<Answer<ssize_t>> {
        let sequence = word(message, 8).filter(|_| self.dumps.len() < MOST_DUMPS)?;
        let mut other = message.to_vec();
        other.get_mut(HEAD + 4..HEAD + 8)?.copy_from_slice(&LOOPBACK.to_ne_bytes());
        Some(send(fd, &other, flags).map(|()| {
            self.dumps.push(sequence);
            message.len() as ssize_t
        }))
    }

    /// What stands in the place of what the kernel has to be read next. That is gone then, unless
    /// it is only looked at.
    pub(super) fn take(&mut self, fd: c_int, flags: c_int) -> Option<Vec<u8>> {
        while !(self.links.is_empty() && self.dumps.is_empty()) {
            let next = kernels(fd, libc::MSG_PEEK, HEAD)?;
            let (kind, sequence) = (half(&next, 4)?, word(&next, 8)?);
            let is_looked_at = flags & libc::MSG_PEEK != 0;
            let link = self.links.iter().position(|(of, _)| *of == sequence);
            if let Some(at) = link.filter(|_| kind == RTM_NEWLINK) {
                if is_looked_at {
                    return Some(self.links[at].1.clone());
                }
                kernels(fd, 0, HEAD);
                return Some(self.links.remove(at).1);
            }
            let at = self.dumps.iter().position(|of| *of == sequence)?;
            let rest = without_addresses(&kernels(fd, libc::MSG_PEEK, whole_len(fd)?)?);
            if !rest.is_empty() && is_looked_at {
                return Some(rest);
            }
            kernels(fd, 0, HEAD);
            if !rest.is_empty() {
                self.dumps.remove(at);
                return Some(rest);
            }
        }
        None
    }
}

/// Messages of a dump but for those that tell of an address.
pub(in crate::interfaces) fn without_addresses(mut messages: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(len) = word(messages, 0).filter(|len| *len as usize >= HEAD) {
        let (first, rest) =
            messages.split_at(messages.len().min((len as usize).next_multiple_of(4)));
        if half(first, 4) != Some(RTM_NEWADDR) {
            out.extend_from_slice(first);
        }
        messages = rest;
    }
    out
}

fn send(fd: c_int, message: &[u8], flags: c_int) -> Answer<()> {
    // SAFETY: the bytes live through the call.
    let sent = unsafe { real::send(fd, message.as_ptr().cast(), message.len(), flags) };
    if sent < 0 { Err(Errno(errno::get())) } else { Ok(()) }
}

/// So much, at most, of the front of what the kernel has to be read next. None: there is less, or
/// nothing.
fn kernels(fd: c_int, flags: c_int, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    (receive(fd, &mut bytes, flags) == len as ssize_t).then_some(bytes)
}

/// How long that is as a whole.
fn whole_len(fd: c_int) -> Option<usize> {
    usize::try_from(receive(fd, &mut [], libc::MSG_PEEK | libc::MSG_TRUNC)).ok()
}

fn receive(fd: c_int, into: &mut [u8], flags: c_int) -> ssize_t {
    let saved = errno::get();
    // SAFETY: as many bytes as there is room for.
    let len =
        unsafe { real::recv(fd, into.as_mut_ptr().cast(), into.len(), flags | libc::MSG_DONTWAIT) };
    errno::set(saved);
    len
}
