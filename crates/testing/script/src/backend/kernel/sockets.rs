//! What a script's calls do with the kernel's sockets. A call that may block runs on a thread of
//! its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use clearway_wire::{Addr, Endpoint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt as opt;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use super::namespace;
use crate::backend::{Fd, How, Net, Op, OptionValue, ReadFlags, Reply, SetOption, WriteFlags};
use crate::errno::Errno;
use crate::settings::IpVersion;

/// Not among rustix' flags.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// A socket that calls in progress hold on to.
pub(super) type Shared = Arc<OwnedFd>;

/// How a call ended.
pub(super) enum Outcome {
    /// With a value.
    Reply(Reply),
    /// With a new socket.
    Socket(Shared),
}

type Job = Box<dyn FnOnce() -> Outcome + Send>;

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno(error.raw_os_error())
    }
}

fn value(result: rustix::io::Result<usize>) -> Outcome {
    Outcome::Reply(Reply::of(result.map(|value| value as i64).map_err(Errno::from)))
}

fn nothing(result: rustix::io::Result<()>) -> Outcome {
    value(result.map(|()| 0))
}

fn new_socket(result: rustix::io::Result<OwnedFd>) -> Outcome {
    match result {
        Ok(fd) => Outcome::Socket(Arc::new(fd)),
        Err(error) => Outcome::Reply(Reply::of(Err(error.into()))),
    }
}

/// The address as a socket of this family wants it.
fn address(to: Endpoint, net: Net) -> SocketAddr {
    let ip = match net.version {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::from(to.addr.v4_octets())),
        IpVersion::V6 | IpVersion::V4Mapped => IpAddr::V6(Ipv6Addr::from(*to.addr.octets())),
    };
    SocketAddr::new(ip, to.port)
}

fn endpoint(addr: SocketAddr) -> Endpoint {
    let ip = match addr.ip() {
        IpAddr::V4(ip) => Addr::v4(ip.octets()),
        IpAddr::V6(ip) => Addr::v6(ip.octets()),
    };
    Endpoint::new(ip, addr.port())
}

/// The two ends of a connection, ours first.
pub(super) fn ends(socket: &Shared, _net: &Net) -> Result<(Endpoint, Endpoint), String> {
    let local = net::getsockname(socket).ok().and_then(|addr| SocketAddr::try_from(addr).ok());
    let remote =
        net::getpeername(socket).ok().flatten().and_then(|addr| SocketAddr::try_from(addr).ok());
    match (local, remote) {
        (Some(local), Some(remote)) => Ok((endpoint(local), endpoint(remote))),
        _ => Err("the socket is not connected".into()),
    }
}

/// Whether the operation has to wait before it can return.
pub(super) fn must_wait(op: &Op, sockets: &BTreeMap<Fd, Shared>) -> bool {
    let (fd, flags) = match op {
        Op::Accept(fd) | Op::Read(fd, ..) => (fd, PollFlags::IN),
        Op::Write(fd, ..) | Op::SendTo(fd, ..) => (fd, PollFlags::OUT),
        Op::Connect(..) | Op::WriteFirst(..) | Op::Poll(..) => return true,
        _ => return false,
    };
    let Some(fd) = sockets.get(fd) else { return false };
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(fd, flags)], Some(&now)), Ok(0))
}

/// What has to be done for an operation.
pub(super) fn job(op: Op, sockets: &BTreeMap<Fd, Shared>, net: Net) -> Result<Job, String> {
    let get = |fd: Fd| sockets.get(&fd).cloned().ok_or_else(|| format!("socket {fd} was closed"));
    Ok(match op {
        Op::Socket(stream) => {
            let family = if net.version == IpVersion::V4 {
                AddressFamily::INET
            } else {
                AddressFamily::INET6
            };
            let kind = if stream { SocketType::STREAM } else { SocketType::DGRAM };
            // Made here and now: a new thread would make it in this namespace too, but only because
            // it inherits it.
            let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None);
            if let (true, Ok(socket)) = (stream, &socket) {
                namespace::choose_congestion(socket);
            }
            Box::new(move || new_socket(socket))
        }
        Op::Bind(fd, port) => {
            let (fd, to) = (get(fd)?, address(Endpoint::new(net.local, port), net));
            Box::new(move || nothing(net::bind(&fd, &to)))
        }
        Op::Listen(fd, backlog) => {
            let fd = get(fd)?;
            Box::new(move || nothing(net::listen(&fd, backlog as i32)))
        }
        Op::Accept(fd) => {
            let fd = get(fd)?;
            Box::new(move || new_socket(net::accept_with(&fd, SocketFlags::CLOEXEC)))
        }
        Op::Connect(fd, to) => {
            let (fd, to) = (get(fd)?, address(to, net));
            Box::new(move || nothing(net::connect(&fd, &to)))
        }
        Op::Read(fd, len, flags) => {
            let fd = get(fd)?;
            Box::new(move || read(&fd, len, flags))
        }
        Op::Write(fd, bytes, flags) => {
            let fd = get(fd)?;
            Box::new(move || write(&fd, &bytes, flags))
        }
        Op::WriteFirst(fd, bytes, to, flags) => {
            let (fd, to) = (get(fd)?, address(to, net));
            let mut how = SendFlags::NOSIGNAL | SendFlags::from_bits_retain(MSG_FASTOPEN);
            how.set(SendFlags::DONTWAIT, flags.dont_wait);
            Box::new(move || value(net::sendto(&fd, &bytes, how, &to)))
        }
        Op::SendTo(fd, bytes, to) => {
            let (fd, to) = (get(fd)?, address(to, net));
            Box::new(move || value(net::sendto(&fd, &bytes, SendFlags::NOSIGNAL, &to)))
        }
        Op::Shutdown(fd, how) => {
            let fd = get(fd)?;
            let how = match how {
                How::Read => Shutdown::Read,
                How::Write => Shutdown::Write,
                How::Both => Shutdown::Both,
            };
            Box::new(move || nothing(net::shutdown(&fd, how)))
        }
        Op::Set(fd, option) => {
            let fd = get(fd)?;
            Box::new(move || set(&fd, option, net))
        }
        Op::TakeError(fd) => {
            let fd = get(fd)?;
            Box::new(move || {
                value(
                    opt::socket_error(&fd)
                        .map(|r| r.err().map_or(0, |e| e.raw_os_error() as usize)),
                )
            })
        }
        Op::Block(fd, block) => {
            let fd = get(fd)?;
            Box::new(move || nothing(rustix::io::ioctl_fionbio(&fd, !block)))
        }
        Op::Poll(wanted, timeout_ms) => {
            let wanted = wanted
                .into_iter()
                .map(|(fd, bits)| Ok((get(fd)?, bits)))
                .collect::<Result<Vec<_>, String>>()?;
            Box::new(move || poll_all(&wanted, timeout_ms))
        }
        Op::Edges(..) => return Err("epoll is the adapter's".into()),
        Op::Close(_) => return Err("close needs no thread".into()),
    })
}

fn read(fd: &OwnedFd, len: u32, flags: ReadFlags) -> Outcome {
    let mut how = RecvFlags::empty();
    how.set(RecvFlags::PEEK, flags.peek);
    how.set(RecvFlags::DONTWAIT, flags.dont_wait);
    let mut data = vec![0; len as usize];
    match net::recv(fd, &mut data, how) {
        Ok((count, _)) => {
            data.truncate(count);
            Outcome::Reply(Reply { value: Ok(count as i64), data, ready: Vec::new() })
        }
        Err(error) => Outcome::Reply(Reply::of(Err(error.into()))),
    }
}

fn write(fd: &OwnedFd, bytes: &[u8], flags: WriteFlags) -> Outcome {
    let mut how = SendFlags::NOSIGNAL;
    how.set(SendFlags::OOB, flags.urgent);
    how.set(SendFlags::MORE, flags.more);
    how.set(SendFlags::EOR, flags.ends_record);
    how.set(SendFlags::DONTWAIT, flags.dont_wait);
    value(net::send(fd, bytes, how))
}

fn seconds(value: u32) -> Duration {
    Duration::from_secs(u64::from(value))
}

/// What there is a function without unsafe code for.
fn set(fd: &OwnedFd, SetOption { option, value }: SetOption, net: Net) -> Outcome {
    let number = match value {
        OptionValue::Number(number) => number,
        OptionValue::Linger(wait) => return nothing(opt::set_socket_linger(fd, wait.map(seconds))),
        OptionValue::Name(name) => return nothing(opt::set_tcp_congestion(fd, &name)),
        OptionValue::Bytes(_) => return nothing(Err(rustix::io::Errno::NOPROTOOPT)),
    };
    let (on, count) = (number != 0, number.max(0) as u32);
    nothing(match option.name {
        "SO_REUSEADDR" => opt::set_socket_reuseaddr(fd, on),
        "SO_KEEPALIVE" => opt::set_socket_keepalive(fd, on),
        "SO_OOBINLINE" => opt::set_socket_oobinline(fd, on),
        "SO_RCVBUF" => opt::set_socket_recv_buffer_size(fd, count as usize),
        "SO_SNDBUF" => opt::set_socket_send_buffer_size(fd, count as usize),
        "TCP_NODELAY" => opt::set_tcp_nodelay(fd, on),
        "TCP_CORK" => opt::set_tcp_cork(fd, on),
        "TCP_QUICKACK" => opt::set_tcp_quickack(fd, on),
        "TCP_MAXSEG" => {
            nix::sys::socket::setsockopt(fd, nix::sys::socket::sockopt::TcpMaxSeg, &count)
                .map_err(|error| rustix::io::Errno::from_raw_os_error(error as i32))
        }
        "TCP_FASTOPEN_CONNECT" => {
            nix::sys::socket::setsockopt(fd, nix::sys::socket::sockopt::TcpFastOpenConnect, &on)
                .map_err(|error| rustix::io::Errno::from_raw_os_error(error as i32))
        }
        "TCP_USER_TIMEOUT" => opt::set_tcp_user_timeout(fd, count),
        "TCP_KEEPIDLE" => opt::set_tcp_keepidle(fd, seconds(count)),
        "TCP_KEEPINTVL" => opt::set_tcp_keepintvl(fd, seconds(count)),
        "TCP_KEEPCNT" => opt::set_tcp_keepcnt(fd, count),
        // A script says one word for both families.
        "IP_TOS" | "IPV6_TCLASS" if net.version == IpVersion::V4 => {
            opt::set_ip_tos(fd, count as u8)
        }
        "IP_TOS" | "IPV6_TCLASS" => opt::set_ipv6_tclass(fd, count),
        _ => Err(rustix::io::Errno::NOPROTOOPT),
    })
}

fn poll_all(wanted: &[(Shared, i16)], timeout_ms: Option<u32>) -> Outcome {
    let flags = |bits: i16| PollFlags::from_bits_retain(bits as u16);
    let mut fds: Vec<PollFd<'_>> =
        wanted.iter().map(|(fd, bits)| PollFd::new(fd, flags(*bits))).collect();
    let timeout = timeout_ms.map(|ms| Timespec {
        tv_sec: i64::from(ms / 1000),
        tv_nsec: i64::from(ms % 1000) * 1_000_000,
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(count) => {
            let ready = fds.iter().map(|fd| fd.revents().bits() as i16).collect();
            Outcome::Reply(Reply { value: Ok(count as i64), data: Vec::new(), ready })
        }
        Err(error) => Outcome::Reply(Reply::of(Err(error.into()))),
    }
}
