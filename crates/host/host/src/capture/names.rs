//! Whose packets are: sessions and programs by addresses and ports.

use std::collections::HashMap;
use std::net::SocketAddr;

use clearway_dev::Headers;
use clearway_session::sessions::SessionKind;
use clearway_session::worker::Worker;
use clearway_wire::Proto;

use crate::host::HostHandle;

/// Sessions of one worker that are looked at in one go: it does nothing else meanwhile.
const MAX_LOOKED_AT: usize = 10_000;

/// Names that are remembered: sessions that have ended keep theirs until then.
const MAX_NAMES: usize = 65_536;

/// Workers are asked again so soon when a packet is nobody's, and so soon when all have names: an
/// address may be another session's by now. By the packets' own time.
const ASK_AGAIN_NS: u64 = 100_000_000;
const REFRESH_NS: u64 = 1_000_000_000;

/// Protocol, our side, and the other where there is one.
type Key = (Proto, SocketAddr, Option<SocketAddr>);

/// Names of sessions, as comments have them.
pub(super) struct Names {
    host: HostHandle,
    known: HashMap<Key, String>,
    asked_unix_ns: u64,
}

impl Names {
    pub(super) fn new(host: HostHandle) -> Names {
        Names { host, known: HashMap::new(), asked_unix_ns: 0 }
    }

    /// Asks the workers, if it is time to: `unnamed` when a packet of theirs has no name.
    pub(super) fn refresh(&mut self, unix_ns: u64, unnamed: bool) {
        let wait = if unnamed { ASK_AGAIN_NS } else { REFRESH_NS };
        if unix_ns.abs_diff(self.asked_unix_ns) < wait {
            return;
        }
        self.asked_unix_ns = unix_ns;
        let (Ok(sessions), Ok(programs)) = (self.host.ask_all(sessions), self.host.programs())
        else {
            return;
        };
        let programs: HashMap<u32, String> = programs
            .into_iter()
            .map(|program| {
                let text = format!("{} namespace {}", program.name, program.namespace);
                (program.app, text)
            })
            .collect();
        let mut fresh: HashMap<Key, String> = HashMap::new();
        for (key, session, app) in sessions.into_iter().flatten() {
            let program = programs.get(&app).map_or("gone", String::as_str);
            let text = format!("session {session} program {app} {program}");
            // Several namespaces may have one address, and several listeners one port.
            fresh
                .entry(key)
                .and_modify(|name| {
                    if name.len() < MAX_NAME {
                        name.push_str(&format!(" or {text}"));
                    }
                })
                .or_insert(text);
        }
        if self.known.len() + fresh.len() > MAX_NAMES {
            self.known.clear();
        }
        self.known.extend(fresh);
    }

    /// Whose a packet is, on a line for either side that is ours; nothing when it is nobody's.
    /// False when it has no name yet and could have one.
    pub(super) fn name(&self, head: &[u8], ethernet: bool, out: &mut String) -> bool {
        let Some(headers) = Headers::of(head, ethernet) else { return true };
        let (Some((src_port, dst_port)), Some(proto)) = (headers.ports, headers.proto) else {
            return true;
        };
        let src = SocketAddr::new(headers.src.into(), src_port);
        let dst = SocketAddr::new(headers.dst.into(), dst_port);
        let (from, to) = (self.find(proto, src, dst), self.find(proto, dst, src));
        for (word, name) in [("from", from), ("to", to)] {
            if let Some(name) = name {
                out.push_str(if out.is_empty() { "" } else { "\n" });
                out.push_str(&format!("{word} {name}"));
            }
        }
        from.or(to).is_some()
    }

    fn find(&self, proto: Proto, local: SocketAddr, remote: SocketAddr) -> Option<&String> {
        let any: SocketAddr = if local.is_ipv4() {
            ([0; 4], local.port()).into()
        } else {
            ([0u16; 8], local.port()).into()
        };
        let any_v6: SocketAddr = ([0u16; 8], local.port()).into();
        [(local, Some(remote)), (local, None), (any, None), (any_v6, None)]
            .into_iter()
            .find_map(|(local, remote)| self.known.get(&(proto, local, remote)))
    }
}

/// A comment of several names ends here.
const MAX_NAME: usize = 200;

/// The sessions of a worker that have an address: key, name, program.
fn sessions(worker: &mut Worker) -> Vec<(Key, String, u32)> {
    let (stack, sessions) = worker.engine().stack_and_app();
    let stack: &_ = stack;
    let named = sessions.iter(stack).take(MAX_LOOKED_AT).filter_map(|info| {
        let proto = if info.kind == SessionKind::Datagram { Proto::UDP } else { Proto::TCP };
        let remote = if info.kind == SessionKind::Listener { None } else { info.remote };
        let name = format!("{}:{}", info.worker, (info.id >> 32) & 0x00ff_ffff);
        Some(((proto, info.local?, remote), name, info.app))
    });
    named.collect()
}
