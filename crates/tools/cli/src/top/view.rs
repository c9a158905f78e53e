//! What happened between two looks, in the order and with the filter that somebody wants.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::sample::{Program, Sample, Session};

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Sort {
    /// Bytes a second, both ways together
    Rate,
    /// Bytes a second that came
    Receive,
    /// Bytes a second that went
    Send,
    /// Segments that were sent again, a second, then in all
    Retransmits,
    /// Memory of programs, bytes in the FIFOs of sessions
    Memory,
    /// Names of programs, then of sessions
    Name,
}

/// A number of something, and how many came each second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Counted {
    pub(super) count: u64,
    pub(super) rate: f64,
}

impl Counted {
    fn new(before: Option<u64>, now: u64, seconds: Option<f64>) -> Counted {
        // A counter that is lower than it was is another one.
        let more = |before: u64| now.checked_sub(before).unwrap_or(now) as f64;
        let rate = seconds.map_or(0.0, |seconds| more(before.unwrap_or(0)) / seconds);
        Counted { count: now, rate }
    }

    fn add(&mut self, other: Counted) {
        self.count += other.count;
        self.rate += other.rate;
    }
}

/// Bytes in, bytes out, segments again.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Traffic {
    pub(super) rx: Counted,
    pub(super) tx: Counted,
    pub(super) again: Counted,
}

/// A worker: what share of the time it was busy, and with what.
#[derive(Clone, Debug)]
pub(super) struct WorkerRow {
    pub(super) core: Option<u64>,
    pub(super) mode: String,
    pub(super) busy: f64,
    pub(super) sessions: u64,
    /// Shares of the cycles by stage; empty: nothing was counted.
    pub(super) stages: Vec<(&'static str, f64)>,
}

/// A program with the traffic of its sessions.
#[derive(Clone, Debug)]
pub(super) struct ProgramRow {
    pub(super) program: Program,
    pub(super) traffic: Traffic,
}

/// A session.
#[derive(Clone, Debug)]
pub(super) struct SessionRow {
    pub(super) session: Session,
    pub(super) program: String,
    pub(super) traffic: Traffic,
}

impl SessionRow {
    /// By what it is killed: nobody else's session, also when its slot was given away.
    pub(super) fn full_name(&self) -> String {
        format!("{}:{}", self.session.id, self.session.generation)
    }

    /// Whether it can be killed.
    pub(super) fn is_connection(&self) -> bool {
        self.session.retransmits.is_some()
    }
}

/// What happened between two looks.
#[derive(Clone, Debug)]
pub(super) struct Between {
    pub(super) version: String,
    pub(super) uptime_s: Option<u64>,
    /// None: there was no look before, and rates are not known.
    pub(super) seconds: Option<f64>,
    pub(super) total: Traffic,
    /// Segments in and out.
    pub(super) segments: [Counted; 2],
    pub(super) memory: u64,
    pub(super) session_count: u64,
    pub(super) program_count: usize,
    pub(super) told_sessions: usize,
    pub(super) workers: Vec<WorkerRow>,
    pub(super) programs: Vec<ProgramRow>,
    pub(super) sessions: Vec<SessionRow>,
}

impl Between {
    pub(super) fn new(before: Option<&Sample>, now: &Sample) -> Between {
        let seconds = before
            .map(|before| now.at.saturating_duration_since(before.at).as_secs_f64())
            .filter(|seconds| *seconds > 0.0);
        let names: HashMap<u64, &str> =
            now.programs.iter().map(|program| (program.app, program.name.as_str())).collect();
        let sessions = sessions(before, now, seconds, &names);
        let mut by_app: HashMap<u64, Traffic> = HashMap::new();
        let mut total = Traffic::default();
        for row in &sessions {
            for sum in [&mut total, by_app.entry(row.session.app).or_default()] {
                sum.rx.add(row.traffic.rx);
                sum.tx.add(row.traffic.tx);
                sum.again.add(row.traffic.again);
            }
        }
        let segments = |at: usize| {
            Counted::new(before.map(|before| before.segments[at]), now.segments[at], seconds)
        };
        // Of sessions that have ended as well.
        total.again = segments(2);
        let programs = now.programs.iter().map(|program| ProgramRow {
            program: program.clone(),
            traffic: by_app.get(&program.app).copied().unwrap_or_default(),
        });
        Between {
            version: now.version.clone(),
            uptime_s: now.uptime_s,
            seconds,
            total,
            segments: [segments(0), segments(1)],
            memory: now.programs.iter().map(|program| program.memory).sum(),
            session_count: now.session_count,
            program_count: now.programs.len(),
            told_sessions: now.sessions.len(),
            workers: workers(before, now, seconds),
            programs: programs.collect(),
            sessions,
        }
    }

    pub(super) fn sorted(mut self, sort: Sort, reversed: bool) -> Between {
        let way = |order: Ordering| if reversed { order.reverse() } else { order };
        self.programs.sort_by(|a, b| {
            let memory = b.program.memory.cmp(&a.program.memory);
            let name = || (&a.program.name, a.program.app).cmp(&(&b.program.name, b.program.app));
            way(by(sort, &a.traffic, &b.traffic, memory).then_with(name))
        });
        self.sessions.sort_by(|a, b| {
            let memory = b.session.queued.cmp(&a.session.queued);
            let key = |row: &SessionRow| (row.program.clone(), number(&row.session.id));
            way(by(sort, &a.traffic, &b.traffic, memory).then_with(|| key(a).cmp(&key(b))))
        });
        self
    }

    /// Only what has this text in it; capitals do not matter.
    pub(super) fn with(mut self, filter: &str) -> Between {
        let wanted = filter.to_lowercase();
        let has = |words: &[&str]| words.join(" ").to_lowercase().contains(&wanted);
        self.sessions.retain(|row| {
            let Session { id, kind, state, local, remote, .. } = &row.session;
            has(&[&row.program, id, kind, state, local, remote])
        });
        let busy: Vec<u64> = self.sessions.iter().map(|row| row.session.app).collect();
        self.programs.retain(|row| {
            let Program { app, name, namespace, .. } = &row.program;
            busy.contains(app) || has(&[name, namespace])
        });
        self
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "version": self.version,
            "uptime-seconds": self.uptime_s,
            "seconds": self.seconds,
            "total": traffic_json(&self.total),
            "segments": {
                "in": counted_json(&self.segments[0]), "out": counted_json(&self.segments[1]),
            },
            "memory": self.memory,
            "session-count": self.session_count,
            "workers": self.workers.iter().enumerate().map(worker_json).collect::<Vec<_>>(),
            "programs": self.programs.iter().map(program_json).collect::<Vec<_>>(),
            "sessions": self.sessions.iter().map(session_json).collect::<Vec<_>>(),
        })
    }
}

/// Worker and slot, so that 0:10 comes after 0:9.
fn number(id: &str) -> (u64, u64) {
    let (worker, slot) = id.split_once(':').unwrap_or((id, ""));
    (worker.parse().unwrap_or(u64::MAX), slot.parse().unwrap_or(u64::MAX))
}

/// The most first; names do not count here.
fn by(sort: Sort, a: &Traffic, b: &Traffic, memory: Ordering) -> Ordering {
    let most = |of: fn(&Traffic) -> f64| of(b).total_cmp(&of(a));
    match sort {
        Sort::Rate => most(|traffic| traffic.rx.rate + traffic.tx.rate),
        Sort::Receive => most(|traffic| traffic.rx.rate),
        Sort::Send => most(|traffic| traffic.tx.rate),
        Sort::Retransmits => {
            most(|traffic| traffic.again.rate).then_with(|| b.again.count.cmp(&a.again.count))
        }
        Sort::Memory => memory,
        Sort::Name => Ordering::Equal,
    }
}

fn sessions(
    before: Option<&Sample>,
    now: &Sample,
    seconds: Option<f64>,
    names: &HashMap<u64, &str>,
) -> Vec<SessionRow> {
    // A slot that was given away is another session.
    let key = |session: &Session| (session.id.clone(), session.generation);
    let earlier: HashMap<_, &Session> = before
        .iter()
        .flat_map(|sample| &sample.sessions)
        .map(|session| (key(session), session))
        .collect();
    let row = |session: &Session| {
        let then = earlier.get(&key(session));
        let counted =
            |of: fn(&Session) -> u64| Counted::new(then.map(|then| of(then)), of(session), seconds);
        SessionRow {
            session: session.clone(),
            program: names.get(&session.app).map_or(String::new(), |name| (*name).to_owned()),
            traffic: Traffic {
                rx: counted(|session| session.rx_bytes),
                tx: counted(|session| session.tx_bytes),
                again: counted(|session| session.retransmits.unwrap_or(0)),
            },
        }
    };
    now.sessions.iter().map(row).collect()
}

fn workers(before: Option<&Sample>, now: &Sample, seconds: Option<f64>) -> Vec<WorkerRow> {
    let row = |(at, worker): (usize, &super::sample::Worker)| {
        let then = before.and_then(|before| before.workers.get(at));
        let busy = then.zip(seconds).map_or(0.0, |(then, seconds)| {
            ((worker.busy_s - then.busy_s) / seconds).clamp(0.0, 1.0)
        });
        let spent: Vec<(&'static str, u64)> = match then {
            Some(then) => worker
                .stages
                .iter()
                .zip(&then.stages)
                .map(|((name, now), (_, then))| (*name, now.saturating_sub(*then)))
                .collect(),
            None => Vec::new(),
        };
        let all: u64 = spent.iter().map(|(_, cycles)| cycles).sum();
        let share = |(name, cycles)| (name, cycles as f64 / all as f64);
        let stages = if all > 0 { spent.into_iter().map(share).collect() } else { Vec::new() };
        WorkerRow {
            core: worker.core,
            mode: worker.mode.clone(),
            busy,
            sessions: worker.sessions,
            stages,
        }
    };
    now.workers.iter().enumerate().map(row).collect()
}

fn counted_json(counted: &Counted) -> Value {
    json!({ "count": counted.count, "per-second": counted.rate })
}

fn traffic_json(traffic: &Traffic) -> Value {
    json!({
        "rx-bytes": counted_json(&traffic.rx),
        "tx-bytes": counted_json(&traffic.tx),
        "retransmits": counted_json(&traffic.again),
    })
}

fn worker_json((worker, row): (usize, &WorkerRow)) -> Value {
    let stages: Map<String, Value> =
        row.stages.iter().map(|(name, share)| ((*name).to_owned(), (*share).into())).collect();
    json!({ "worker": worker, "core": row.core, "mode": row.mode, "busy-share": row.busy,
        "sessions": row.sessions, "stages": stages })
}

fn program_json(row: &ProgramRow) -> Value {
    let Program { app, name, namespace, pids, sessions, memory } = &row.program;
    let mut json = json!({ "app": app, "name": name, "namespace": namespace, "pids": pids,
        "sessions": sessions, "memory": memory });
    merge(&mut json, traffic_json(&row.traffic));
    json
}

fn session_json(row: &SessionRow) -> Value {
    let session = &row.session;
    let mut json = json!({
        "id": session.id,
        "generation": session.generation,
        "app": session.app,
        "program": row.program,
        "kind": session.kind,
        "state": session.state,
        "local": session.local,
        "remote": session.remote,
        "queued": session.queued,
        "rtt-us": session.rtt_us,
    });
    merge(&mut json, traffic_json(&row.traffic));
    json
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
