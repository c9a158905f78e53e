//! Errors of calls, under Linux's names and numbers.

use std::fmt;

/// An error of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// The errors that sockets give.
const NAMES: [(i32, &str); 33] = [
    (1, "EPERM"),
    (4, "EINTR"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (22, "EINVAL"),
    (24, "EMFILE"),
    (32, "EPIPE"),
    (71, "EPROTO"),
    (89, "EDESTADDRREQ"),
    (90, "EMSGSIZE"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (106, "EISCONN"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (88, "ENOTSOCK"),
];

impl Errno {
    pub(crate) const NO_ENTRY: Errno = Errno(2);
    pub(crate) const AGAIN: Errno = Errno(11);
    pub(crate) const NO_MEMORY: Errno = Errno(12);
    pub(crate) const INVALID: Errno = Errno(22);
    pub(crate) const BAD_FD: Errno = Errno(9);
    pub(crate) const PIPE: Errno = Errno(32);
    pub(crate) const PROTOCOL: Errno = Errno(71);
    pub(crate) const TOO_LONG: Errno = Errno(90);
    pub(crate) const NO_PROTOCOL: Errno = Errno(92);
    pub(crate) const IN_USE: Errno = Errno(98);
    pub(crate) const NOT_AVAILABLE: Errno = Errno(99);
    pub(crate) const NET_UNREACHABLE: Errno = Errno(101);
    pub(crate) const RESET: Errno = Errno(104);
    pub(crate) const CONNECTED: Errno = Errno(106);
    pub(crate) const NOT_CONNECTED: Errno = Errno(107);
    pub(crate) const TIMED_OUT: Errno = Errno(110);
    pub(crate) const REFUSED: Errno = Errno(111);
    pub(crate) const HOST_UNREACHABLE: Errno = Errno(113);
    pub(crate) const ALREADY: Errno = Errno(114);
    pub(crate) const IN_PROGRESS: Errno = Errno(115);

    /// The error of that name.
    pub fn of(name: &str) -> Option<Errno> {
        let name = if name == "EWOULDBLOCK" { "EAGAIN" } else { name };
        NAMES.iter().find(|(_, known)| *known == name).map(|(number, _)| Errno(*number))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}
