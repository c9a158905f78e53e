//! `SO_TIMESTAMPING`, `SO_TIMESTAMP` and `SO_TIMESTAMPNS` of a stream. In virtual time nothing
//! happens between two looks at the core, so what a look finds is noted with its time.

use std::collections::VecDeque;
use std::ffi::c_int;

use clearway_options::stamping::{
    ALL, NANOSECONDS, OPT_ID, OPT_ID_TCP, OPT_TSONLY, RX_SOFTWARE, SOFTWARE, STAMP, TX_ACK,
    TX_NOTED, TX_SCHED, TX_SOFTWARE,
};
use clearway_script::Backend;
use clearway_script::ast::Micros;

use crate::control::Message;
use crate::world::{BEGIN, Errno, State, World};

/// `SO_EE_ORIGIN_TIMESTAMPING` (`linux/errqueue.h`).
const ORIGIN: u8 = 4;

/// Which time of a call's last byte it is (`SCM_TSTAMP_*`).
const SENT: u32 = 0;
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// A call of whose last byte something is to be told.
#[derive(Debug, PartialEq)]
struct Mark {
    key: u32,
    end: u64,
    has_left: bool,
}

/// Stamps of one socket.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Stamps {
    /// Flags of SO_TIMESTAMPING, and above them what SO_TIMESTAMP and SO_TIMESTAMPNS say.
    word: u32,
    /// Bytes that were written in all, and those before the first that has a number.
    written: u64,
    first: u64,
    waiting: VecDeque<Mark>,
    /// What is to be told: which time, of which number, and when.
    done: VecDeque<(u32, u32, Micros)>,
    /// Bytes that were read in all, and up to where they came when.
    read: u64,
    came: VecDeque<(u64, Micros)>,
}

impl Stamps {
    /// So many bytes were written by one call.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        if bytes > 0 && self.word & TX_NOTED != 0 {
            let key = if self.word & OPT_ID == 0 { 0 } else { self.written - 1 - self.first };
            self.waiting.push_back(Mark { key: key as u32, end: self.written, has_left: false });
        }
    }

    /// So many bytes have left for the first time, and were acknowledged.
    fn moved(&mut self, left: u64, acknowledged: u64, now: Micros) {
        let Stamps { word, waiting, done, .. } = self;
        for mark in waiting.iter_mut().filter(|mark| !mark.has_left && mark.end <= left) {
            mark.has_left = true;
            for (flag, what) in [(TX_SCHED, SCHEDULED), (TX_SOFTWARE, SENT)] {
                if *word & flag != 0 {
                    done.push_back((what, mark.key, now));
                }
            }
        }
        while waiting.front().is_some_and(|mark| mark.end <= acknowledged) {
            let mark = waiting.pop_front();
            if let Some(mark) = mark.filter(|_| *word & TX_ACK != 0) {
                done.push_back((ACKNOWLEDGED, mark.key, now));
            }
        }
    }

    /// So many bytes wait to be read.
    fn unread(&mut self, bytes: u64, now: Micros) {
        let end = self.read + bytes;
        if self.came.back().map_or(self.read, |(last, _)| *last) < end {
            self.came.push_back((end, now));
        }
    }

    /// So many bytes were read, or only looked at; when the last of them came.
    pub(crate) fn read(&mut self, bytes: usize, peek: bool) -> Option<Micros> {
        let end = self.read + bytes as u64;
        let when = self.came.iter().find(|(to, _)| *to >= end).map(|(_, when)| *when);
        if !peek {
            self.read = end;
            self.came.retain(|(to, _)| *to > end);
        }
        when.filter(|_| bytes > 0)
    }

    /// Whether there is something to tell.
    pub(crate) fn is_told(&self) -> bool {
        !self.done.is_empty()
    }

    fn looks(&self) -> bool {
        !self.waiting.is_empty() || self.word & (RX_SOFTWARE | STAMP) != 0
    }

    /// Control messages for something that came, or was sent, then.
    fn messages(&self, when: Micros, sent: bool) -> Vec<Message> {
        let at = BEGIN + when;
        let (seconds, micros) = (at / 1_000_000, at % 1_000_000);
        let mut messages = Vec::new();
        let mut put = |kind: c_int, words: &[Micros]| {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            messages.push((libc::SOL_SOCKET, kind, bytes));
        };
        if self.word & STAMP != 0 {
            match self.word & NANOSECONDS {
                0 => put(libc::SO_TIMESTAMP, &[seconds, micros]),
                _ => put(libc::SO_TIMESTAMPNS, &[seconds, micros * 1000]),
            }
        }
        if self.word & SOFTWARE != 0 && (sent || self.word & RX_SOFTWARE != 0) {
            put(libc::SO_TIMESTAMPING, &[seconds, micros * 1000, 0, 0, 0, 0]);
        }
        messages
    }
}

/// Notes what has happened to the streams since the last look.
pub(crate) fn look(world: &World, state: &mut State) {
    if !state.sockets.values().any(|socket| socket.stamps.looks()) {
        return;
    }
    let now = world.now(state);
    let looking = state.sockets.iter().filter(|(_, socket)| socket.stamps.looks());
    let looking: Vec<_> = looking.map(|(fd, socket)| (*fd, socket.core)).collect();
    for (fd, core) in looking {
        let info = world.core(state).info(core).unwrap_or_default();
        let value = |name: &str| info.get(name).copied().unwrap_or_default() as u64;
        let left = value("tcpi_bytes_sent").saturating_sub(value("tcpi_bytes_retrans"));
        let queued = world.core(state).queued(core);
        if let Some(socket) = state.sockets.get_mut(&fd) {
            socket.stamps.moved(left, value("tcpi_bytes_acked"), now);
            if let Some((unread, _)) = queued {
                socket.stamps.unread(unread.into(), now);
            }
        }
    }
}

/// Sets one of the options of level SOL_SOCKET; false when it is another.
pub(crate) fn set(
    world: &World,
    fd: c_int,
    name: c_int,
    number: impl FnOnce() -> Result<c_int, Errno>,
) -> Result<bool, Errno> {
    let names = [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING];
    if !names.contains(&name) {
        return Ok(false);
    }
    let number = number()?;
    let mut state = world.enter();
    let core = state.sockets.get(&fd).map(|socket| socket.core).ok_or(libc::EBADF)?;
    let info = world.core(&mut state).info(core).ok();
    let value = |name: &str| {
        info.as_ref().and_then(|info| info.get(name).copied()).unwrap_or_default() as u64
    };
    // CLOSE and LISTEN, by Linux's numbers: no connection is there.
    let is_begun = info.is_some() && ![0, 7, 10].contains(&value("tcpi_state"));
    let (acknowledged, waiting) = (value("tcpi_bytes_acked"), world.core(&mut state).queued(core));
    let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
    let stamps = &mut socket.stamps;
    match name {
        libc::SO_TIMESTAMPING => {
            let flags = number as u32;
            let wrong = flags & !ALL != 0 || flags & OPT_ID_TCP != 0 && flags & OPT_ID == 0;
            let begins = flags & OPT_ID != 0 && stamps.word & OPT_ID == 0;
            if wrong || begins && socket.stream && !is_begun {
                return Err(libc::EINVAL);
            }
            if begins {
                stamps.first = if flags & OPT_ID_TCP != 0 { stamps.written } else { acknowledged };
            }
            stamps.word = stamps.word & !ALL | flags;
        }
        _ if number == 0 => stamps.word &= !(STAMP | NANOSECONDS),
        libc::SO_TIMESTAMP => stamps.word = stamps.word & !NANOSECONDS | STAMP,
        _ => stamps.word |= STAMP | NANOSECONDS,
    }
    if stamps.looks() && stamps.came.is_empty() {
        // Of what waits already nobody has noted when it came.
        let unread = waiting.map_or(0, |(unread, _)| u64::from(unread));
        stamps.came.push_back((stamps.read + unread, Micros::MIN));
    }
    Ok(true)
}

/// The value of such an option; None when it is another.
pub(crate) fn get(stamps: &Stamps, name: c_int) -> Option<Vec<u8>> {
    let stamp = stamps.word & (STAMP | NANOSECONDS);
    let flag = |on: bool| Some(c_int::from(on).to_ne_bytes().to_vec());
    match name {
        libc::SO_TIMESTAMP => flag(stamp == STAMP),
        libc::SO_TIMESTAMPNS => flag(stamp == STAMP | NANOSECONDS),
        libc::SO_TIMESTAMPING => Some([(stamps.word & ALL).to_ne_bytes(), [0; 4]].concat()),
        _ => None,
    }
}

/// What is to be told beside bytes that were read.
pub(crate) fn beside(world: &World, fd: c_int, bytes: usize, peek: bool) -> Vec<Message> {
    let mut state = world.enter();
    let Some(socket) = state.sockets.get_mut(&fd) else { return Vec::new() };
    match socket.stamps.read(bytes, peek).filter(|when| *when != Micros::MIN) {
        Some(when) => socket.stamps.messages(when, false),
        None => Vec::new(),
    }
}

/// The next time of something that was sent, and what `msg_flags` says: without OPT_TSONLY that the
/// bytes do not come along.
pub(crate) fn take(world: &World, fd: c_int) -> Result<(Vec<Message>, c_int), Errno> {
    let v6 = world.flags().net.v6();
    let mut state = world.enter();
    let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
    let (what, key, when) = socket.stamps.done.pop_front().ok_or(libc::EAGAIN)?;
    let mut messages = socket.stamps.messages(when, true);
    messages.push(crate::copies::extended(v6, libc::ENOMSG, (ORIGIN, 0), (what, key)));
    let cut = if socket.stamps.word & OPT_TSONLY == 0 { libc::MSG_TRUNC } else { 0 };
    Ok((messages, libc::MSG_ERRQUEUE | cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_told_of_by_its_last_byte() {
        let mut stamps = Stamps {
            word: TX_SCHED | TX_SOFTWARE | TX_ACK | SOFTWARE | OPT_ID,
            ..Stamps::default()
        };
        stamps.wrote(100);
        stamps.wrote(50);
        stamps.moved(149, 0, 10);
        stamps.moved(150, 100, 20);
        stamps.moved(150, 150, 30);
        let told = [
            (SCHEDULED, 99, 10),
            (SENT, 99, 10),
            (SCHEDULED, 149, 20),
            (SENT, 149, 20),
            (ACKNOWLEDGED, 99, 20),
            (ACKNOWLEDGED, 149, 30),
        ];
        assert_eq!(stamps.done, told);
    }

    #[test]
    fn bytes_have_the_time_of_the_last_of_them() {
        let mut stamps = Stamps { word: STAMP, ..Stamps::default() };
        stamps.unread(10, 1);
        stamps.unread(20, 2);
        stamps.unread(20, 3);
        assert_eq!(stamps.read(15, true), Some(2));
        assert_eq!(stamps.read(10, false), Some(1));
        assert_eq!(stamps.read(5, false), Some(2));
        stamps.unread(6, 4);
        assert_eq!(stamps.read(5, false), Some(2));
        assert_eq!(stamps.read(1, false), Some(4));
    }
}
