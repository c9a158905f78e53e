//! Tells the host of a program that will not speak to it, so that `explain` does.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clearway_shm::attach_socket::{Hello, Reply, Request, Secret, VERSION};
use clearway_shm::{paths, socket};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::time::TimeVal;

use super::Args;
use super::fit::Unfit;

/// A host that does not answer for so long is not waited for: this is only for people to read.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Numbers that programs do not look for things at.
const OUT_OF_THE_WAY: i32 = 900;

/// Enters the host for the program, as which this process goes on, and says why nothing more will
/// be heard of it. The conversation ends with the program. Whatever goes wrong is of no
/// consequence.
pub(super) fn tell(args: &Args, command: &Command, unfit: &Unfit) {
    let Some(attach_socket) = enter(args, command) else { return };
    let what = format!("run {}", unfit.path.display());
    let why = format!("the program {}", unfit.why);
    if ask(&attach_socket, &Request::Stayed { what, why }).is_none() {
        return;
    }
    // This number stays open in the program until it ends, and nothing is done with it.
    let _ = fcntl(&attach_socket, FcntlArg::F_DUPFD(OUT_OF_THE_WAY));
}

fn enter(args: &Args, command: &Command) -> Option<OwnedFd> {
    let said = |name: &str| {
        let set = command
            .get_envs()
            .find(|(known, _)| *known == OsStr::new(name))
            .map(|(_, value)| value.map(Into::into));
        set.unwrap_or_else(|| std::env::var_os(name))
    };
    let path = said(paths::SOCKET_VARIABLE).map_or_else(paths::attach_socket_of_host, Into::into);
    let attach_socket = socket::connect(&path).ok()?;
    setsockopt(&attach_socket, ReceiveTimeout, &TimeVal::new(TIME_LIMIT.as_secs() as i64, 0))
        .ok()?;
    let text = |name: &str| said(name).map(|value| value.to_string_lossy().into_owned());
    let program =
        Path::new(&args.command[0]).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let hello = Hello {
        version: VERSION,
        namespace: text("CLEARWAY_NS").unwrap_or_default(),
        secret: text("CLEARWAY_SECRET").map(Secret),
        program,
        rx_fifo: 0,
        tx_fifo: 0,
        inherit: None,
        cut_through: false,
    };
    ask(&attach_socket, &Request::Hello(hello)).map(|_| attach_socket)
}

/// The answer, unless it is a refusal.
fn ask(attach_socket: &OwnedFd, request: &Request) -> Option<Reply> {
    socket::send(attach_socket.as_fd(), request, &[]).ok()?;
    let (reply, _) =
        socket::recv::<Reply>(attach_socket.as_fd(), socket::MAX_DESCRIPTORS).ok()??;
    (!matches!(reply, Reply::Error { .. })).then_some(reply)
}
