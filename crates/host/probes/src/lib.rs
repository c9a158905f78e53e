//! Places of the host where a tracer can look: static probes (USDT, of the kind that SystemTap,
//! bpftrace and perf know), each a `nop` behind a word that tells whether anybody looks.
//!
//! [`PROBES`] and the functions are made of one declaration, and a test holds `docs/trace.md` to
//! it. Texts are handed over as addresses of bytes that end with a zero, as bpftrace's `str(arg0)`
//! reads them; they are made only while somebody looks.

mod text;

use probe::probe_lazy;

pub use text::Text;

/// A probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its name, behind the provider `clearway`.
    pub name: &'static str,
    /// When it fires.
    pub about: &'static str,
    /// What it hands over, `arg0` first: what that is called, and whether it is a `text` or a
    /// `number` of 64 bits.
    pub arguments: &'static [(&'static str, &'static str)],
}

/// What goes into a register.
trait Register {
    fn register(&self) -> u64;
}

impl Register for u64 {
    fn register(&self) -> u64 {
        *self
    }
}

impl Register for Text {
    fn register(&self) -> u64 {
        self.address()
    }
}

/// What a probe hands over, by place.
trait Arguments {
    fn at(&self, place: usize) -> u64;
}

macro_rules! arguments {
    ($( $kind:ident $place:tt )+) => {
        impl<$( $kind: Register ),+> Arguments for ($( $kind, )+) {
            fn at(&self, place: usize) -> u64 {
                match place {
                    $( $place => self.$place.register(), )+
                    _ => 0,
                }
            }
        }
    };
}

arguments!(A 0 B 1);
arguments!(A 0 B 1 C 2);
arguments!(A 0 B 1 C 2 D 3);
arguments!(A 0 B 1 C 2 D 3 E 4);
arguments!(A 0 B 1 C 2 D 3 E 4 F 5);

/// What a probe hands over, made when the first of it is asked for. It stays where it is until the
/// probe has fired, and with it the texts.
struct Lazy<T, F> {
    make: Option<F>,
    made: Option<T>,
}

impl<T: Arguments, F: FnOnce() -> T> Lazy<T, F> {
    fn new(make: F) -> Lazy<T, F> {
        Lazy { make: Some(make), made: None }
    }

    fn at(&mut self, place: usize) -> isize {
        if let Some(make) = self.make.take() {
            self.made = Some(make());
        }
        self.made.as_ref().map_or(0, |made| made.at(place)) as isize
    }
}

/// The probe of this name, with as many arguments as there are words.
macro_rules! fire {
    ($name:ident $l:ident $a:ident $b:ident) => {
        probe_lazy!(clearway, $name, $l.at(0), $l.at(1))
    };
    ($name:ident $l:ident $a:ident $b:ident $c:ident) => {
        probe_lazy!(clearway, $name, $l.at(0), $l.at(1), $l.at(2))
    };
    ($name:ident $l:ident $a:ident $b:ident $c:ident $d:ident) => {
        probe_lazy!(clearway, $name, $l.at(0), $l.at(1), $l.at(2), $l.at(3))
    };
    ($name:ident $l:ident $a:ident $b:ident $c:ident $d:ident $e:ident) => {
        probe_lazy!(clearway, $name, $l.at(0), $l.at(1), $l.at(2), $l.at(3), $l.at(4))
    };
    ($name:ident $l:ident $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident) => {
        probe_lazy!(clearway, $name, $l.at(0), $l.at(1), $l.at(2), $l.at(3), $l.at(4), $l.at(5))
    };
}

/// What a probe is handed.
macro_rules! given {
    (text) => {
        Text
    };
    (number) => {
        u64
    };
}

/// Declares all probes.
macro_rules! probes {
    ($( #[doc = $about:literal] $name:ident ( $( $arg:ident : $kind:ident ),+ ) )+) => {
        /// All probes.
        pub const PROBES: &[Probe] = &[ $( Probe {
            name: stringify!($name),
            about: $about,
            arguments: &[ $( (stringify!($arg), stringify!($kind)) ),+ ],
        }, )+ ];

        $(
            #[doc = $about]
            ///
            /// `make` is called while somebody looks, and not otherwise.
            #[inline(always)]
            pub fn $name(make: impl FnOnce() -> ($( given!($kind), )+)) {
                let mut lazy = Lazy::new(make);
                fire!($name lazy $( $arg )+);
            }
        )+
    };
}

probes! {
    /// A segment of TCP has arrived, its checksum is good, and it is looked at next.
    segment_in(local: text, remote: text, seq: number, ack: number, len: number, flags: number)
    /// A segment of a connection has left. One that the device is to cut is told of once.
    segment_out(local: text, remote: text, seq: number, ack: number, len: number, flags: number)
    /// A packet was dropped: the reason is the name in docs/drops.md.
    drop(reason: text, interface: number, len: number)
    /// Bytes leave that have left before: `lost`, `rescue`, `tail-probe` or `syn` says why.
    retransmit(local: text, remote: text, seq: number, len: number, why: text)
    /// The retransmission timer has run out with something in flight, so often in a row.
    retransmit_timeout(local: text, remote: text, flight: number, tries: number)
    /// A probe for the loss of the last segments is to leave (RFC 8985 7).
    tail_loss_probe(local: text, remote: text, flight: number)
    /// Fast recovery begins.
    recovery_enter(local: text, remote: text, flight: number)
    /// All that was in flight when recovery began is acknowledged: `fast` or `timeout`.
    recovery_exit(local: text, remote: text, from: text)
    /// Nothing was lost: what recovery or a timeout did to the congestion window is taken back.
    undone(local: text, remote: text)
    /// A connection has another state, by the names of RFC 9293.
    state_change(local: text, remote: text, from: text, to: text)
    /// A connection was reset because it held memory while that was short, and moved too little.
    shortage_reset(local: text, remote: text)
    /// What became of Fast Open in a handshake (RFC 7413).
    fast_open(local: text, remote: text, what: text)
    /// A neighbour's link address is known: what waited for it may leave.
    neighbour_resolved(address: text, link_address: text, interface: number)
    /// A neighbour did not answer.
    neighbour_failed(address: text, interface: number)
    /// A path is narrower than what was known of it.
    path_mtu(remote: text, mtu: number)
    /// A program has a new socket, or a listener a new connection: `stream` or `datagram`.
    session_open(session: number, kind: text, program: text, namespace: text)
    /// Nobody has the socket any more.
    session_close(session: number, program: text, namespace: text)
    /// A program listens.
    listen(session: number, local: text, backlog: number, program: text)
    /// A program has begun a connection.
    connect(session: number, local: text, remote: text, program: text)
    /// A connection waits at a program's listener.
    incoming(session: number, local: text, remote: text, program: text)
    /// The program has accepted it.
    accept(session: number, local: text, remote: text, program: text)
    /// A worker has nothing to do and goes to sleep.
    sleep(worker: number, sessions: number)
    /// A worker goes on: somebody has notified it (1), or a packet or a timer has (0).
    wake(worker: number, notified: number)
    /// A process was let in.
    attach(pid: number, program: text, namespace: text, app: number)
    /// A process has ended, or is served no more.
    detach(pid: number, program: text, namespace: text, app: number)
    /// A process was not let in.
    refused(pid: number, program: text, namespace: text, why: text)
    /// A program wrote something impossible and is served no more.
    cut_off(app: number, program: text, namespace: text, why: text)
}

#[cfg(test)]
mod tests;
