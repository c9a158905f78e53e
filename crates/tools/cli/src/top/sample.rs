//! What a host says at one moment.

use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

use crate::ctl::Host;

/// What a host says at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) version: String,
    pub(super) uptime_s: Option<u64>,
    /// Segments in, out, and out again.
    pub(super) segments: [u64; 3],
    pub(super) workers: Vec<Worker>,
    pub(super) programs: Vec<Program>,
    pub(super) sessions: Vec<Session>,
    /// How many sessions there are; no more than some are told of.
    pub(super) session_count: u64,
}

/// A worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub(super) core: Option<u64>,
    pub(super) mode: String,
    pub(super) busy_s: f64,
    pub(super) sessions: u64,
    /// Cycles by the names of the stages, in the order of a turn.
    pub(super) stages: Vec<(&'static str, u64)>,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) app: u64,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) pids: Vec<u64>,
    pub(super) sessions: u64,
    pub(super) memory: u64,
}

/// A session.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) generation: u64,
    pub(super) app: u64,
    pub(super) kind: String,
    pub(super) state: String,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) rx_bytes: u64,
    pub(super) tx_bytes: u64,
    /// Bytes that wait in both FIFOs.
    pub(super) queued: u64,
    /// Segments that were sent again; None: it is no connection.
    pub(super) retransmits: Option<u64>,
    pub(super) rtt_us: Option<u64>,
}

/// Stages as `show stages` names them, each with a short name for a line.
const STAGES: [(&str, &str); 7] = [
    ("driver-receive", "rx"),
    ("stack-in", "in"),
    ("timers", "timers"),
    ("application", "app"),
    ("stack-out", "out"),
    ("driver-send", "tx"),
    ("other", "other"),
];

impl Sample {
    pub(super) fn of(host: &mut Host) -> anyhow::Result<Sample> {
        let version = host.shown("show version")?;
        let threads = host.shown("show threads")?;
        let stages = host.shown("show stages")?;
        let tcp = host.shown("show tcp")?;
        let apps = host.shown("show app")?;
        let sessions = host.shown("show session verbose")?;
        // Rates are of the time between the answers that tell bytes.
        let at = Instant::now();
        let list = |of: &Value, name: &str| {
            of[name].as_array().cloned().with_context(|| format!("the host's answer has no {name}"))
        };
        let count = |name: &str| tcp["tcp"][name].as_u64().unwrap_or(0);
        let stages = list(&stages, "stages")?;
        let workers = list(&threads, "threads")?;
        Ok(Sample {
            at,
            version: text(&version["version"]),
            uptime_s: threads["uptime-seconds"].as_u64(),
            segments: ["segs-in", "segs-out", "retransmitted-segs"].map(count),
            workers: workers
                .iter()
                .enumerate()
                .map(|(at, worker)| Worker::of(worker, stages.get(at)))
                .collect(),
            programs: list(&apps, "apps")?.iter().map(Program::of).collect(),
            session_count: list(&sessions, "threads")?
                .iter()
                .filter_map(|thread| thread["sessions"].as_u64())
                .sum(),
            sessions: list(&sessions, "sessions")?.iter().map(Session::of).collect(),
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Worker {
    fn of(shown: &Value, stages: Option<&Value>) -> Worker {
        let cycles = |name: &str| stages.and_then(|all| all["cycles"][name].as_u64()).unwrap_or(0);
        Worker {
            core: shown["core"].as_u64(),
            mode: text(&shown["mode"]),
            busy_s: shown["busy-seconds"].as_f64().unwrap_or(0.0),
            sessions: shown["sessions"].as_u64().unwrap_or(0),
            stages: STAGES.map(|(name, short)| (short, cycles(name))).into(),
        }
    }
}

impl Program {
    fn of(shown: &Value) -> Program {
        let number = |name: &str| shown[name].as_u64().unwrap_or(0);
        Program {
            app: number("app"),
            name: text(&shown["name"]),
            namespace: text(&shown["namespace"]),
            pids: shown["pids"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .collect(),
            sessions: number("sessions"),
            memory: number("memory"),
        }
    }
}

impl Session {
    fn of(shown: &Value) -> Session {
        let number = |name: &str| shown[name].as_u64().unwrap_or(0);
        let tcp = shown.get("tcp");
        Session {
            id: text(&shown["id"]),
            generation: number("generation"),
            app: number("app"),
            kind: text(&shown["kind"]),
            state: text(&shown["state"]),
            local: text(&shown["local"]),
            remote: text(&shown["remote"]),
            rx_bytes: number("rx-bytes"),
            tx_bytes: number("tx-bytes"),
            queued: number("rx-fifo") + number("tx-fifo"),
            retransmits: tcp.and_then(|tcp| tcp["retransmits"].as_u64()),
            rtt_us: tcp.and_then(|tcp| tcp["rtt-us"].as_u64()).filter(|rtt| *rtt > 0),
        }
    }
}
