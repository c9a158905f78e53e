//! What every function answers.

use core::ffi::{CStr, c_char};

use clearway_proto::{
    AddError, ConnectError, Failure, ListenError, RecvError, SendError, UdpError,
};

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl clw_status {
            /// The sentence for people.
            pub(crate) fn text(number: u32) -> &'static CStr {
                match number {
                    $($number => $text,)*
                    _ => c"no status of this library",
                }
            }

            /// Every status.
            #[cfg(test)]
            pub(crate) const ALL: &[clw_status] = &[$(clw_status::$name,)*];
        }
    };
}

/// What a function answers. `clw_status_text` makes a sentence of it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum clw_status {
    /// Done.
    CLW_OK = 0,
    /// Nothing is there now, or nothing is taken now; an event will tell.
    CLW_AGAIN = 1,
    /// The peer has finished, and everything was read.
    CLW_END = 2,
    /// A pointer that must not be NULL was.
    CLW_NULL = 3,
    /// The call came out of a callback of a call on the same object. Nothing was done.
    CLW_BUSY = 4,
    /// An argument is none that is known, or a text is not what it should be.
    CLW_INVALID = 5,
    /// A number of the configuration is too large or too small.
    CLW_RANGE = 6,
    /// The secret of the configuration is all zero.
    CLW_SECRET = 7,
    /// The handle names nothing, or nothing any more.
    CLW_STALE = 8,
    /// This side of the connection was shut down before.
    CLW_CLOSED = 9,
    /// Somebody else has this address and port.
    CLW_IN_USE = 10,
    /// All places for such things are taken.
    CLW_FULL = 11,
    /// No ephemeral port is free.
    CLW_NO_PORTS = 12,
    /// The address cannot be used for this.
    CLW_BAD_ADDRESS = 13,
    /// No route or no source address leads there.
    CLW_NO_ROUTE = 14,
    /// There is no memory for one more.
    CLW_NO_MEMORY = 15,
    /// There is no interface of this number.
    CLW_NO_INTERFACE = 16,
    /// It is there already.
    CLW_EXISTS = 17,
    /// The MTU is not from 576 to 65535, or below 1280 with IPv6.
    CLW_BAD_MTU = 18,
    /// Longer than can be.
    CLW_TOO_LONG = 19,
    /// Not there in this version.
    CLW_NOT_SUPPORTED = 20,
    /// The peer reset the connection.
    CLW_RESET = 21,
    /// Nobody listens there.
    CLW_REFUSED = 22,
    /// The peer does not answer.
    CLW_TIMED_OUT = 23,
    /// Data stayed unacknowledged for longer than the user timeout.
    CLW_USER_TIMEOUT = 24,
    /// Keepalive probes stayed without an answer.
    CLW_KEEPALIVE = 25,
    /// The network says that the peer cannot be reached.
    CLW_UNREACHABLE = 26,
    /// The stack found its own state impossible and gave the connection up. A bug.
    CLW_BROKEN = 27,
    /// A port cannot be opened or is of no more use; `clw_host_error` says why.
    CLW_DEVICE = 28,
    /// The host was stopped.
    CLW_STOPPED = 29,
    /// The host runs in another call.
    CLW_RUNNING = 30,
}

statuses! {
    CLW_OK = 0, c"done";
    CLW_AGAIN = 1, c"nothing now; an event will tell";
    CLW_END = 2, c"the peer has finished, and everything was read";
    CLW_NULL = 3, c"a pointer is NULL that must not be";
    CLW_BUSY = 4, c"the call came out of a callback of a call on the same object";
    CLW_INVALID = 5, c"an argument is none that is known";
    CLW_RANGE = 6, c"a number of the configuration is too large or too small";
    CLW_SECRET = 7, c"the secret is all zero; fill it from the system's random source";
    CLW_STALE = 8, c"the handle names nothing any more";
    CLW_CLOSED = 9, c"this side of the connection was already shut down";
    CLW_IN_USE = 10, c"somebody else has this address and port";
    CLW_FULL = 11, c"all places are taken; raise the limit in the configuration";
    CLW_NO_PORTS = 12, c"no ephemeral port is free";
    CLW_BAD_ADDRESS = 13, c"this address cannot be used for that";
    CLW_NO_ROUTE = 14, c"no route or no source address to the peer; add one";
    CLW_NO_MEMORY = 15, c"no buffer memory for one more; raise the numbers in the configuration";
    CLW_NO_INTERFACE = 16, c"there is no interface of this number";
    CLW_EXISTS = 17, c"it is there already";
    CLW_BAD_MTU = 18, c"an MTU is from 576 to 65535 bytes, and at least 1280 with IPv6";
    CLW_TOO_LONG = 19, c"longer than can be";
    CLW_NOT_SUPPORTED = 20, c"not there in this version";
    CLW_RESET = 21, c"reset by the peer";
    CLW_REFUSED = 22, c"refused by the peer: nobody listens there";
    CLW_TIMED_OUT = 23, c"the peer does not answer";
    CLW_USER_TIMEOUT = 24, c"data stayed unacknowledged for longer than the user timeout";
    CLW_KEEPALIVE = 25, c"keepalive probes stayed without an answer";
    CLW_UNREACHABLE = 26, c"the network says that the peer cannot be reached";
    CLW_BROKEN = 27, c"given up because its state was impossible; this is a bug of the stack";
    CLW_DEVICE = 28, c"a port is of no use; clw_host_error says why";
    CLW_STOPPED = 29, c"the host was stopped";
    CLW_RUNNING = 30, c"the host runs in another call";
}

/// A sentence for people about a status; a constant text that ends with a zero byte, for any
/// number.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn clw_status_text(status: u32) -> *const c_char {
    clw_status::text(status).as_ptr()
}

/// The answer of a verb as C hears it.
pub(crate) fn answer(result: Result<(), clw_status>) -> clw_status {
    result.err().unwrap_or(clw_status::CLW_OK)
}

impl From<Failure> for clw_status {
    fn from(why: Failure) -> clw_status {
        match why {
            Failure::Reset => clw_status::CLW_RESET,
            Failure::Refused => clw_status::CLW_REFUSED,
            Failure::TimedOut => clw_status::CLW_TIMED_OUT,
            Failure::UserTimeout => clw_status::CLW_USER_TIMEOUT,
            Failure::KeepaliveTimedOut => clw_status::CLW_KEEPALIVE,
            Failure::Unreachable(_) => clw_status::CLW_UNREACHABLE,
            Failure::NoMemory => clw_status::CLW_NO_MEMORY,
            Failure::Broken | Failure::Killed => clw_status::CLW_BROKEN,
        }
    }
}

impl From<SendError> for clw_status {
    fn from(why: SendError) -> clw_status {
        match why {
            SendError::Stale => clw_status::CLW_STALE,
            SendError::Closed => clw_status::CLW_CLOSED,
            SendError::Failed(why) => why.into(),
        }
    }
}

impl From<RecvError> for clw_status {
    fn from(why: RecvError) -> clw_status {
        match why {
            RecvError::Stale => clw_status::CLW_STALE,
            RecvError::Failed(why) => why.into(),
        }
    }
}

impl From<ListenError> for clw_status {
    fn from(why: ListenError) -> clw_status {
        match why {
            ListenError::InUse => clw_status::CLW_IN_USE,
            ListenError::TooMany => clw_status::CLW_FULL,
            ListenError::NoPorts => clw_status::CLW_NO_PORTS,
            ListenError::BadAddress => clw_status::CLW_BAD_ADDRESS,
            ListenError::NoReservation => clw_status::CLW_STALE,
            ListenError::NotSupported => clw_status::CLW_NOT_SUPPORTED,
        }
    }
}

impl From<ConnectError> for clw_status {
    fn from(why: ConnectError) -> clw_status {
        match why {
            ConnectError::NoRoute => clw_status::CLW_NO_ROUTE,
            ConnectError::BadAddress => clw_status::CLW_BAD_ADDRESS,
            ConnectError::InUse => clw_status::CLW_IN_USE,
            ConnectError::NoPorts => clw_status::CLW_NO_PORTS,
            ConnectError::TooMany => clw_status::CLW_FULL,
            ConnectError::NoMemory => clw_status::CLW_NO_MEMORY,
            ConnectError::NoReservation => clw_status::CLW_STALE,
            ConnectError::NotSupported => clw_status::CLW_NOT_SUPPORTED,
        }
    }
}

impl From<AddError> for clw_status {
    fn from(why: AddError) -> clw_status {
        match why {
            AddError::Full => clw_status::CLW_FULL,
            AddError::NoInterface => clw_status::CLW_NO_INTERFACE,
            AddError::NoTable => clw_status::CLW_RANGE,
            AddError::Exists => clw_status::CLW_EXISTS,
            AddError::BadAddress => clw_status::CLW_BAD_ADDRESS,
            AddError::BadGateway => clw_status::CLW_NO_ROUTE,
            AddError::BadMtu => clw_status::CLW_BAD_MTU,
        }
    }
}

impl From<UdpError> for clw_status {
    fn from(why: UdpError) -> clw_status {
        match why {
            UdpError::Stale => clw_status::CLW_STALE,
            UdpError::InUse => clw_status::CLW_IN_USE,
            UdpError::TooMany => clw_status::CLW_FULL,
            UdpError::NoPorts => clw_status::CLW_NO_PORTS,
            UdpError::BadAddress => clw_status::CLW_BAD_ADDRESS,
            UdpError::NoRoute => clw_status::CLW_NO_ROUTE,
            UdpError::Full => clw_status::CLW_AGAIN,
            UdpError::TooLong => clw_status::CLW_TOO_LONG,
            UdpError::BadSegmentSize => clw_status::CLW_RANGE,
        }
    }
}
