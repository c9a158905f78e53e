//! A socket, as the host tells of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

/// What it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Tcp,
    Udp,
}

/// A program that is attached.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) pids: Vec<u64>,
}

impl Program {
    /// Out of `show app`.
    pub(super) fn of(app: &Value) -> Program {
        let text = |key: &str| app[key].as_str().unwrap_or_default().to_owned();
        let pids = app["pids"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        Program { name: text("name"), namespace: text("namespace"), pids }
    }
}

/// One socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) kind: Kind,
    /// By the words of ss(8).
    pub(super) state: &'static str,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) program: Option<Program>,
    /// All of it, for who reads JSON.
    pub(super) json: Value,
}

/// The words of ss(8) for the states of the host. A TCP socket that is neither bound nor connected
/// is closed, which is UNCONN there.
const STATES: &[(&str, &str)] = &[
    ("ESTABLISHED", "ESTAB"),
    ("SYN-SENT", "SYN-SENT"),
    ("SYN-RECEIVED", "SYN-RECV"),
    ("FIN-WAIT-1", "FIN-WAIT-1"),
    ("FIN-WAIT-2", "FIN-WAIT-2"),
    ("TIME-WAIT", "TIME-WAIT"),
    ("CLOSE-WAIT", "CLOSE-WAIT"),
    ("LAST-ACK", "LAST-ACK"),
    ("CLOSING", "CLOSING"),
    ("LISTEN", "LISTEN"),
    ("UNCONNECTED", "UNCONN"),
    ("CLOSED", "UNCONN"),
];

impl Socket {
    /// Out of `show session verbose 2`; None for a session that is nothing yet, such as one that
    /// was made ahead of need.
    pub(super) fn of(session: &Value, programs: &BTreeMap<u64, Program>) -> Option<Socket> {
        let kind = match session["kind"].as_str()? {
            "stream" | "listener" => Kind::Tcp,
            "datagram" => Kind::Udp,
            _ => return None,
        };
        let told = session["state"].as_str()?;
        let state =
            STATES.iter().find(|(name, _)| *name == told).map_or("UNKNOWN", |(_, word)| word);
        let side = |key: &str| session[key].as_str().and_then(|text| text.parse().ok());
        let program = session["app"].as_u64().and_then(|app| programs.get(&app)).cloned();
        let mut json = session.clone();
        json["netid"] = (if kind == Kind::Tcp { "tcp" } else { "udp" }).into();
        json["state"] = state.into();
        if let Some(program) = &program {
            json["program"] = json!({ "name": program.name, "namespace": program.namespace,
                "pids": program.pids });
        }
        Some(Socket { kind, state, local: side("local"), remote: side("remote"), program, json })
    }

    pub(super) fn is_v6(&self) -> bool {
        self.local.or(self.remote).is_some_and(|addr| addr.is_ipv6())
    }

    /// What waits for others: a TCP listener, or a UDP socket without a peer.
    pub(super) fn is_listening(&self) -> bool {
        self.state == "LISTEN" || self.kind == Kind::Udp && self.state == "UNCONN"
    }

    pub(super) fn number(&self, key: &str) -> u64 {
        self.json[key].as_u64().unwrap_or(0)
    }

    /// A value of TCP_INFO, by its name in C without `tcpi_`.
    pub(super) fn tcp(&self, key: &str) -> u64 {
        self.json["tcp"]["linux"][key].as_u64().unwrap_or(0)
    }
}
