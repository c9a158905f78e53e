//! Names of hosts, for those who want to read names.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::process::{Command, Stdio};

use super::socket::Socket;

/// What the system calls the hosts of addresses.
#[derive(Default, Debug)]
pub(super) struct Names(HashMap<IpAddr, String>);

impl Names {
    /// Those of all addresses that are shown. `getent` asks for us, so that files, DNS and whatever
    /// else this machine has for names (nsswitch.conf(5)) hold here too; where it is not there, no
    /// address has a name.
    pub(super) fn of_system(sockets: &[&Socket]) -> Names {
        let all: BTreeSet<IpAddr> = sockets
            .iter()
            .flat_map(|socket| [socket.local, socket.remote])
            .flatten()
            .map(|addr| addr.ip())
            .filter(|ip| !ip.is_unspecified())
            .collect();
        Names(all.into_iter().filter_map(|ip| Some((ip, ask(ip)?))).collect())
    }

    pub(super) fn of(&self, ip: IpAddr) -> Option<&str> {
        self.0.get(&ip).map(String::as_str)
    }
}

fn ask(ip: IpAddr) -> Option<String> {
    let mut command = Command::new("getent");
    let out = command.args(["hosts", &ip.to_string()]).stdin(Stdio::null()).output().ok()?;
    // `127.0.0.1       localhost loopback`: the first name is the host's own.
    named(&String::from_utf8_lossy(&out.stdout))
}

pub(super) fn named(line: &str) -> Option<String> {
    // What answers is a stranger's word: nothing that a terminal would act on.
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = line.split_whitespace().nth(1)?;
    name.chars().all(good).then(|| name.to_owned())
}
