//! Calls as the script writes them, as operations of a backend.

use clearway_options::{Field, How};
use clearway_wire::Endpoint;

use crate::ast::{Arg, Call};
use crate::backend::{
    BOUND_PORT, Fd, How as Side, Op, OptionValue, ReadFlags, SERVER_PORT, SetOption, WriteFlags,
    poll,
};
use crate::errno::Errno;

/// What a call needs to know of the run that it belongs to.
pub(crate) trait Context {
    /// The backend's socket for a number of the script.
    fn fd(&self, number: i64) -> Result<Fd, String>;
    /// Where a datagram goes: to whom spoke first, else to the server's port.
    fn peer(&self) -> Endpoint;
    /// The peer's server.
    fn server(&self) -> Endpoint;
    /// Bytes to write: those that follow what was written into the socket before.
    fn to_write(&self, fd: i64, len: u32) -> Vec<u8>;
}

/// What is looked at when the call returned, besides its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check {
    /// Nothing.
    Nothing,
    /// The number names a new socket.
    NewSocket,
    /// A new connection, which assertions are about from here on.
    NewConnection,
    /// The connection that assertions are about from here on.
    Connection(i64),
    /// The same, and bytes of its stream were written.
    First(i64),
    /// Bytes of this socket's stream were read, or only peeked at.
    Stream(i64, ReadFlags),
    /// A datagram was read.
    Datagram,
    /// Bytes of this socket's stream were written.
    Written(i64),
    /// The pending error.
    Error(i64),
    /// What poll found.
    Ready(Vec<i16>),
    /// A value that assertions use as well, held against an expected one.
    Info(i64, &'static str, i64),
}

/// The operation, if the backend has to do one, and what to look at afterwards.
pub(crate) fn translate(call: &Call, context: &dyn Context) -> Result<(Option<Op>, Check), String> {
    let args = Args { call, context };
    let op = match call.name.as_str() {
        "socket" => {
            return Ok((
                Some(Op::Socket(args.names(1)?.iter().any(|name| name == "SOCK_STREAM"))),
                Check::NewSocket,
            ));
        }
        "bind" => Op::Bind(args.fd()?, BOUND_PORT),
        "listen" => Op::Listen(args.fd()?, args.number(1)?),
        "accept" | "accept4" => return Ok((Some(Op::Accept(args.fd()?)), Check::NewConnection)),
        "connect" => {
            return Ok((
                Some(Op::Connect(args.fd()?, context.server())),
                Check::Connection(args.raw_fd()?),
            ));
        }
        "read" => return args.read(ReadFlags::default()),
        "recv" => return args.read(args.read_flags(3)?),
        "recvfrom" => {
            return Ok((
                Some(Op::Read(args.fd()?, args.number(2)?, args.read_flags(3)?)),
                Check::Datagram,
            ));
        }
        "write" => return args.write(WriteFlags::default()),
        "send" => return args.write(args.write_flags(3)?),
        "sendto" if args.names(3)?.iter().any(|name| name == "MSG_FASTOPEN") => {
            let bytes = context.to_write(args.raw_fd()?, args.number(2)?);
            let op = Op::WriteFirst(args.fd()?, bytes, context.server(), args.write_flags(3)?);
            return Ok((Some(op), Check::First(args.raw_fd()?)));
        }
        "sendto" => {
            let bytes = crate::flow::bytes_from(0, args.number(2)?);
            Op::SendTo(args.fd()?, bytes, context.peer())
        }
        "shutdown" => Op::Shutdown(args.fd()?, args.how()?),
        "close" => Op::Close(args.fd()?),
        "setsockopt" => Op::Set(args.fd()?, args.option()?),
        "getsockopt" => return args.getsockopt(),
        "fcntl" => match args.names(1)?.first().map(String::as_str) {
            Some("F_GETFL") => return Ok((None, Check::Nothing)),
            Some("F_SETFL") => {
                Op::Block(args.fd()?, !args.names(2)?.iter().any(|name| name == "O_NONBLOCK"))
            }
            _ => return Err("fcntl is for F_GETFL and F_SETFL".into()),
        },
        "poll" => return args.poll(),
        other => return Err(format!("the call `{other}` is not known here")),
    };
    Ok((Some(op), Check::Nothing))
}

struct Args<'a> {
    call: &'a Call,
    context: &'a dyn Context,
}

type Translated = Result<(Option<Op>, Check), String>;

impl Args<'_> {
    fn get(&self, index: usize) -> Result<&Arg, String> {
        self.call
            .args
            .get(index)
            .ok_or_else(|| format!("`{}` wants more arguments", self.call.name))
    }

    fn number(&self, index: usize) -> Result<u32, String> {
        match self.get(index)? {
            Arg::Number(value) => {
                u32::try_from(*value).map_err(|_| format!("{value} is out of range"))
            }
            _ => Err(format!("argument {} of `{}` has to be a number", index + 1, self.call.name)),
        }
    }

    fn raw_fd(&self) -> Result<i64, String> {
        match self.get(0)? {
            Arg::Number(value) => Ok(*value),
            _ => Err("the first argument has to be a socket".into()),
        }
    }

    fn fd(&self) -> Result<Fd, String> {
        self.context.fd(self.raw_fd()?)
    }

    /// Names of constants; none for the number 0.
    fn names(&self, index: usize) -> Result<&[String], String> {
        match self.get(index)? {
            Arg::Names(names) => Ok(names),
            Arg::Number(0) | Arg::Whatever => Ok(&[]),
            _ => Err(format!(
                "argument {} of `{}` has to be names of constants",
                index + 1,
                self.call.name
            )),
        }
    }

    fn name(&self, index: usize) -> Result<&str, String> {
        match self.names(index)? {
            [name] => Ok(name),
            _ => Err(format!(
                "argument {} of `{}` has to be the name of a constant",
                index + 1,
                self.call.name
            )),
        }
    }

    fn read_flags(&self, index: usize) -> Result<ReadFlags, String> {
        let mut flags = ReadFlags::default();
        for name in self.names(index)? {
            match name.as_str() {
                "MSG_PEEK" => flags.peek = true,
                "MSG_DONTWAIT" => flags.dont_wait = true,
                _ => return Err(format!("{name} is not known here for reading")),
            }
        }
        Ok(flags)
    }

    fn write_flags(&self, index: usize) -> Result<WriteFlags, String> {
        let mut flags = WriteFlags::default();
        for name in self.names(index)? {
            match name.as_str() {
                "MSG_OOB" => flags.urgent = true,
                "MSG_MORE" => flags.more = true,
                "MSG_EOR" => flags.ends_record = true,
                "MSG_DONTWAIT" => flags.dont_wait = true,
                "MSG_NOSIGNAL" | "MSG_FASTOPEN" => {}
                _ => return Err(format!("{name} is not known here for writing")),
            }
        }
        Ok(flags)
    }

    fn read(&self, flags: ReadFlags) -> Translated {
        Ok((
            Some(Op::Read(self.fd()?, self.number(2)?, flags)),
            Check::Stream(self.raw_fd()?, flags),
        ))
    }

    fn write(&self, flags: WriteFlags) -> Translated {
        let bytes = self.context.to_write(self.raw_fd()?, self.number(2)?);
        Ok((Some(Op::Write(self.fd()?, bytes, flags)), Check::Written(self.raw_fd()?)))
    }

    fn how(&self) -> Result<Side, String> {
        match self.name(1)? {
            "SHUT_RD" => Ok(Side::Read),
            "SHUT_WR" => Ok(Side::Write),
            "SHUT_RDWR" => Ok(Side::Both),
            other => Err(format!("{other} is no way to shut down")),
        }
    }

    /// The value in `[1]`, or None for something else.
    fn boxed(&self, index: usize) -> Result<&Arg, String> {
        match self.get(index)? {
            Arg::List(items) if items.len() == 1 => Ok(&items[0]),
            other => Ok(other),
        }
    }

    fn option_value(&self) -> Result<i32, String> {
        match self.boxed(3)? {
            Arg::Number(value) => {
                i32::try_from(*value).map_err(|_| format!("{value} is out of range"))
            }
            _ => Err("the value of this option has to be a number in brackets, as in [1]".into()),
        }
    }

    fn option(&self) -> Result<SetOption, String> {
        let name = self.name(2)?;
        let option = SetOption::option(name)
            .ok_or_else(|| format!("the option {name} is not known here"))?;
        let value = match option.how {
            How::Shaped(Field::Linger) => OptionValue::Linger(self.linger()?),
            How::Shaped(Field::Congestion) => match self.boxed(3)? {
                Arg::Text(name) => OptionValue::Name(name.clone()),
                _ => return Err(format!("{name} wants a text")),
            },
            _ => OptionValue::Number(self.option_value()?),
        };
        Ok(SetOption { option, value })
    }

    fn linger(&self) -> Result<Option<u32>, String> {
        let Arg::Fields(fields) = self.boxed(3)? else {
            return Err("SO_LINGER wants {onoff=1, linger=0}".into());
        };
        let field = |name: &str| {
            fields
                .iter()
                .find(|(field, _)| field == name || field.strip_prefix("l_") == Some(name))
                .map(|(_, value)| value)
        };
        match (field("onoff"), field("linger")) {
            (Some(Arg::Number(0)), _) => Ok(None),
            (Some(Arg::Number(_)), Some(Arg::Number(seconds))) => Ok(Some(*seconds as u32)),
            _ => Err("SO_LINGER wants {onoff=1, linger=0}".into()),
        }
    }

    fn getsockopt(&self) -> Translated {
        let wanted = match self.boxed(3)? {
            Arg::Number(value) => Some(*value),
            Arg::Names(names) => {
                let errno = names.first().and_then(|name| Errno::of(name));
                Some(i64::from(errno.ok_or("that is the name of no error")?.0))
            }
            _ => None,
        };
        let raw = self.raw_fd()?;
        match self.name(2)? {
            "SO_ERROR" => {
                Ok((Some(Op::TakeError(self.fd()?)), wanted.map_or(Check::Nothing, Check::Error)))
            }
            "TCP_MAXSEG" => Ok((
                None,
                wanted.map_or(Check::Nothing, |wanted| Check::Info(raw, "tcpi_snd_mss", wanted)),
            )),
            other => Err(format!(
                "getsockopt is for SO_ERROR and TCP_MAXSEG here, not for {other}; assertions tell \
                 the rest"
            )),
        }
    }

    fn poll(&self) -> Translated {
        let Arg::List(items) = self.get(0)? else { return Err("poll wants a list".into()) };
        let mut wanted = Vec::new();
        let mut expected = Vec::new();
        for item in items {
            let Arg::Fields(fields) = item else {
                return Err("poll wants {fd=3, events=POLLIN, revents=0}".into());
            };
            let field =
                |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
            let Some(Arg::Number(fd)) = field("fd") else { return Err("poll wants fd=".into()) };
            wanted.push((self.context.fd(*fd)?, bits(field("events"))?));
            expected.push(bits(field("revents"))?);
        }
        let timeout = match self.get(2)? {
            Arg::Number(ms) => u32::try_from(*ms).ok(),
            _ => return Err("poll wants a timeout in milliseconds".into()),
        };
        Ok((Some(Op::Poll(wanted, timeout)), Check::Ready(expected)))
    }
}

fn bits(arg: Option<&Arg>) -> Result<i16, String> {
    let Some(Arg::Names(names)) = arg else { return Ok(0) };
    names.iter().try_fold(0, |bits, name| {
        let bit = match name.as_str() {
            "POLLIN" => poll::IN,
            "POLLPRI" => poll::PRI,
            "POLLOUT" => poll::OUT,
            "POLLERR" => poll::ERR,
            "POLLHUP" => poll::HUP,
            "POLLRDHUP" => poll::RDHUP,
            other => return Err(format!("{other} is no bit of poll")),
        };
        Ok(bits | bit)
    })
}

/// The peer's server.
pub(crate) fn server(net: &crate::backend::Net) -> Endpoint {
    Endpoint::new(net.remote, SERVER_PORT)
}
