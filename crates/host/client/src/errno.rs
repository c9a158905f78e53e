//! Errors as the C library's caller knows them.

/// A Linux error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! known {
    ($($name:ident = $number:ident),* $(,)?) => {
        impl Errno {
            $(#[doc = stringify!($number)] pub const $name: Errno = Errno(libc::$number);)*

            /// Its name, when it is one that this crate makes itself.
            fn name(self) -> Option<&'static str> {
                match self {
                    $(Errno::$name => Some(stringify!($number)),)*
                    _ => None,
                }
            }
        }
    };
}

known! {
    AGAIN = EAGAIN,
    ALREADY = EALREADY,
    BADF = EBADF,
    BADMSG = EBADMSG,
    CONNABORTED = ECONNABORTED,
    CONNREFUSED = ECONNREFUSED,
    CONNRESET = ECONNRESET,
    DESTADDRREQ = EDESTADDRREQ,
    EXIST = EEXIST,
    FAULT = EFAULT,
    INPROGRESS = EINPROGRESS,
    INTR = EINTR,
    INVAL = EINVAL,
    IO = EIO,
    ISCONN = EISCONN,
    LOOP = ELOOP,
    MFILE = EMFILE,
    MSGSIZE = EMSGSIZE,
    NETDOWN = ENETDOWN,
    NOBUFS = ENOBUFS,
    NOENT = ENOENT,
    NOMEM = ENOMEM,
    NOTCONN = ENOTCONN,
    OPNOTSUPP = EOPNOTSUPP,
    PIPE = EPIPE,
    PROTO = EPROTO,
    TIMEDOUT = ETIMEDOUT,
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno(error.raw_os_error())
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.0)
    }
}
