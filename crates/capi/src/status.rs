//! What every function answers.

use core::ffi::{CStr, c_char};

use clearway_proto::{AddError, ConnectError, Failure, ListenError, RecvError, SendError, UdpError};

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl cw_status {
            /// The sentence for people.
            pub(crate) fn text(number: u32) -> &'static CStr {
                match number {
                    $($number => $text,)*
                    _ => c"no status of this library",
                }
            }

            /// Every status.
            #[cfg(test)]
            pub(crate) const ALL: &[cw_status] = &[$(cw_status::$name,)*];
        }
    };
}

/// What a function answers. `cw_status_text` makes a sentence of it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cw_status {
    /// Done.
    CW_OK = 0,
    /// Nothing is there now, or nothing is taken now; an event will tell.
    CW_AGAIN = 1,
    /// The peer has finished, and everything was read.
    CW_END = 2,
    /// A pointer that must not be NULL was.
    CW_NULL = 3,
    /// The call came out of a callback of a call on the same object. Nothing was done.
    CW_BUSY = 4,
    /// An argument is none that is known, or a text is not what it should be.
    CW_INVALID = 5,
    /// A number of the configuration is too large or too small.
    CW_RANGE = 6,
    /// The secret of the configuration is all zero.
    CW_SECRET = 7,
    /// The handle names nothing, or nothing any more.
    CW_STALE = 8,
    /// This side of the connection was shut down before.
    CW_CLOSED = 9,
    /// Somebody else has this address and port.
    CW_IN_USE = 10,
    /// All places for such things are taken.
    CW_FULL = 11,
    /// No ephemeral port is free.
    CW_NO_PORTS = 12,
    /// The address cannot be used for this.
    CW_BAD_ADDRESS = 13,
    /// No route or no source address leads there.
    CW_NO_ROUTE = 14,
    /// There is no memory for one more.
    CW_NO_MEMORY = 15,
    /// There is no interface of this number.
    CW_NO_INTERFACE = 16,
    /// It is there already.
    CW_EXISTS = 17,
    /// The MTU is not from 576 to 65535, or below 1280 with IPv6.
    CW_BAD_MTU = 18,
    /// Longer than can be.
    CW_TOO_LONG = 19,
    /// Not there in this version.
    CW_NOT_SUPPORTED = 20,
    /// The peer reset the connection.
    CW_RESET = 21,
    /// Nobody listens there.
    CW_REFUSED = 22,
    /// The peer does not answer.
    CW_TIMED_OUT = 23,
    /// Data stayed unacknowledged for longer than the user timeout.
    CW_USER_TIMEOUT = 24,
    /// Keepalive probes stayed without an answer.
    CW_KEEPALIVE = 25,
    /// The network says that the peer cannot be reached.
    CW_UNREACHABLE = 26,
    /// The stack found its own state impossible and gave the connection up. A bug.
    CW_BROKEN = 27,
    /// A port cannot be opened or is of no more use; `cw_host_error` says why.
    CW_DEVICE = 28,
    /// The host was stopped.
    CW_STOPPED = 29,
    /// The host runs in another call.
    CW_RUNNING = 30,
}

statuses! {
    CW_OK = 0, c"done";
    CW_AGAIN = 1, c"nothing now; an event will tell";
    CW_END = 2, c"the peer has finished, and everything was read";
    CW_NULL = 3, c"a pointer is NULL that must not be";
    CW_BUSY = 4, c"the call came out of a callback of a call on the same object";
    CW_INVALID = 5, c"an argument is none that is known";
    CW_RANGE = 6, c"a number of the configuration is too large or too small";
    CW_SECRET = 7, c"the secret is all zero; fill it from the system's random source";
    CW_STALE = 8, c"the handle names nothing any more";
    CW_CLOSED = 9, c"this side of the connection was already shut down";
    CW_IN_USE = 10, c"somebody else has this address and port";
    CW_FULL = 11, c"all places are taken; raise the limit in the configuration";
    CW_NO_PORTS = 12, c"no ephemeral port is free";
    CW_BAD_ADDRESS = 13, c"this address cannot be used for that";
    CW_NO_ROUTE = 14, c"no route or no source address to the peer; add one";
    CW_NO_MEMORY = 15, c"no buffer memory for one more; raise the numbers in the configuration";
    CW_NO_INTERFACE = 16, c"there is no interface of this number";
    CW_EXISTS = 17, c"it is there already";
    CW_BAD_MTU = 18, c"an MTU is from 576 to 65535 bytes, and at least 1280 with IPv6";
    CW_TOO_LONG = 19, c"longer than can be";
    CW_NOT_SUPPORTED = 20, c"not there in this version";
    CW_RESET = 21, c"reset by the peer";
    CW_REFUSED = 22, c"refused by the peer: nobody listens there";
    CW_TIMED_OUT = 23, c"the peer does not answer";
    CW_USER_TIMEOUT = 24, c"data stayed unacknowledged for longer than the user timeout";
    CW_KEEPALIVE = 25, c"keepalive probes stayed without an answer";
    CW_UNREACHABLE = 26, c"the network says that the peer cannot be reached";
    CW_BROKEN = 27, c"given up because its state was impossible; this is a bug of the stack";
    CW_DEVICE = 28, c"a port is of no use; cw_host_error says why";
    CW_STOPPED = 29, c"the host was stopped";
    CW_RUNNING = 30, c"the host runs in another call";
}

/// A sentence for people about a status; a constant text that ends with a zero byte, for any number.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn cw_status_text(status: u32) -> *const c_char {
    cw_status::text(status).as_ptr()
}

/// The answer of a verb as C hears it.
pub(crate) fn answer(result: Result<(), cw_status>) -> cw_status {
    result.err().unwrap_or(cw_status::CW_OK)
}

impl From<Failure> for cw_status {
    fn from(why: Failure) -> cw_status {
        match why {
            Failure::Reset => cw_status::CW_RESET,
            Failure::Refused => cw_status::CW_REFUSED,
            Failure::TimedOut => cw_status::CW_TIMED_OUT,
            Failure::UserTimeout => cw_status::CW_USER_TIMEOUT,
            Failure::KeepaliveTimedOut => cw_status::CW_KEEPALIVE,
            Failure::Unreachable(_) => cw_status::CW_UNREACHABLE,
            Failure::NoMemory => cw_status::CW_NO_MEMORY,
            Failure::Broken => cw_status::CW_BROKEN,
        }
    }
}

impl From<SendError> for cw_status {
    fn from(why: SendError) -> cw_status {
        match why {
            SendError::Stale => cw_status::CW_STALE,
            SendError::Closed => cw_status::CW_CLOSED,
            SendError::Failed(why) => why.into(),
        }
    }
}

impl From<RecvError> for cw_status {
    fn from(why: RecvError) -> cw_status {
        match why {
            RecvError::Stale => cw_status::CW_STALE,
            RecvError::Failed(why) => why.into(),
        }
    }
}

impl From<ListenError> for cw_status {
    fn from(why: ListenError) -> cw_status {
        match why {
            ListenError::InUse => cw_status::CW_IN_USE,
            ListenError::TooMany => cw_status::CW_FULL,
            ListenError::NoPorts => cw_status::CW_NO_PORTS,
            ListenError::BadAddress => cw_status::CW_BAD_ADDRESS,
            ListenError::NoReservation => cw_status::CW_STALE,
            ListenError::NotSupported => cw_status::CW_NOT_SUPPORTED,
        }
    }
}

impl From<ConnectError> for cw_status {
    fn from(why: ConnectError) -> cw_status {
        match why {
            ConnectError::NoRoute => cw_status::CW_NO_ROUTE,
            ConnectError::BadAddress => cw_status::CW_BAD_ADDRESS,
            ConnectError::InUse => cw_status::CW_IN_USE,
            ConnectError::NoPorts => cw_status::CW_NO_PORTS,
            ConnectError::TooMany => cw_status::CW_FULL,
            ConnectError::NoMemory => cw_status::CW_NO_MEMORY,
            ConnectError::NoReservation => cw_status::CW_STALE,
            ConnectError::NotSupported => cw_status::CW_NOT_SUPPORTED,
        }
    }
}

impl From<AddError> for cw_status {
    fn from(why: AddError) -> cw_status {
        match why {
            AddError::Full => cw_status::CW_FULL,
            AddError::NoInterface => cw_status::CW_NO_INTERFACE,
            AddError::NoTable => cw_status::CW_RANGE,
            AddError::Exists => cw_status::CW_EXISTS,
            AddError::BadAddress => cw_status::CW_BAD_ADDRESS,
            AddError::BadMtu => cw_status::CW_BAD_MTU,
        }
    }
}

impl From<UdpError> for cw_status {
    fn from(why: UdpError) -> cw_status {
        match why {
            UdpError::Stale => cw_status::CW_STALE,
            UdpError::InUse => cw_status::CW_IN_USE,
            UdpError::TooMany => cw_status::CW_FULL,
            UdpError::NoPorts => cw_status::CW_NO_PORTS,
            UdpError::BadAddress => cw_status::CW_BAD_ADDRESS,
            UdpError::NoRoute => cw_status::CW_NO_ROUTE,
            UdpError::Full => cw_status::CW_AGAIN,
            UdpError::TooLong => cw_status::CW_TOO_LONG,
            UdpError::BadSegmentSize => cw_status::CW_RANGE,
        }
    }
}
