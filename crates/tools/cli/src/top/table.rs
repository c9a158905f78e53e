//! Rows as text: for the screen, and for who asks once.

use super::view::{Between, ProgramRow, SessionRow, Sort, Traffic, WorkerRow};

/// A column: its head, its width, and what it is sorted by, if by anything. A width of 0 takes what
/// is left.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) width: u16,
    pub(super) sort: Option<Sort>,
}

const fn column(head: &'static str, width: u16, sort: Option<Sort>) -> Column {
    Column { head, width, sort }
}

/// Columns of programs. With a space between each they take 80 columns with 26 for the name.
pub(super) const PROGRAMS: &[Column] = &[
    column("PROGRAM", 0, Some(Sort::Name)),
    column("PID", 8, None),
    column("SESS", 5, None),
    column("RX/s", 6, Some(Sort::Receive)),
    column("TX/s", 6, Some(Sort::Send)),
    column("RETR/s", 6, Some(Sort::Retransmits)),
    column("MEM", 6, Some(Sort::Memory)),
];

/// Columns of sessions.
pub(super) const SESSIONS: &[Column] = &[
    column("SESSION", 9, Some(Sort::Name)),
    column("PROGRAM", 10, None),
    column("LOCAL > REMOTE", 0, None),
    column("STATE", 6, None),
    column("RX/s", 6, Some(Sort::Receive)),
    column("TX/s", 6, Some(Sort::Send)),
    column("RETR/s", 6, Some(Sort::Retransmits)),
];

/// A number in at most five characters: `0`, `999`, `1.2K`, `34K`, `5.6M`.
pub(super) fn short(number: f64, base: f64) -> String {
    const UNITS: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    let (mut number, mut unit) = (number.max(0.0), 0);
    // What would be shown as a thousand is one of the next unit.
    while number >= if base > 1_000.0 { 1_023.5 } else { 999.5 } && unit + 1 < UNITS.len() {
        number /= base;
        unit += 1;
    }
    let digits = usize::from(number < 9.95 && (unit > 0 || (number > 0.0 && number < 1.0)));
    format!("{number:.digits$}{}", UNITS[unit])
}

/// Bytes or segments a second.
pub(super) fn rate(number: f64) -> String {
    short(number, 1_000.0)
}

/// Bytes of memory.
pub(super) fn bytes(number: u64) -> String {
    short(number as f64, 1_024.0)
}

pub(super) fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

/// The lines above the tables.
pub(super) fn summary(between: &Between) -> [String; 2] {
    let up = between.uptime_s.map_or(String::new(), |up| format!(", up {}", clock(up)));
    let Traffic { rx, tx, again } = &between.total;
    let rates = match between.seconds {
        None => "rates come with the second look".to_owned(),
        Some(_) => format!(
            "rx {}B/s  tx {}B/s  segments in {}/s out {}/s again {}/s",
            rate(rx.rate),
            rate(tx.rate),
            rate(between.segments[0].rate),
            rate(between.segments[1].rate),
            rate(again.rate)
        ),
    };
    let told = match (between.session_count, between.told_sessions as u64) {
        (count, told) if told < count => format!("{count} sessions (the first {told} here)"),
        (count, _) => format!("{count} sessions"),
    };
    let (programs, memory) = (between.program_count, bytes(between.memory));
    [format!("{}{up}: {programs} programs, {told}, {memory}B", between.version), rates]
}

/// A line for a worker.
pub(super) fn worker(number: usize, row: &WorkerRow) -> String {
    let core = row.core.map_or(String::new(), |core| format!(" core {core}"));
    let stages: Vec<String> =
        row.stages.iter().map(|(name, share)| format!("{name} {:.0}", share * 100.0)).collect();
    format!(
        "worker {number}{core} {} busy {:3.0} %: {}",
        row.mode,
        row.busy * 100.0,
        stages.join(" ")
    )
}

pub(super) fn program(row: &ProgramRow) -> Vec<String> {
    let program = &row.program;
    let more = if program.pids.len() > 1 { "+" } else { "" };
    let pid = program.pids.first().map_or(String::new(), |pid| format!("{pid}{more}"));
    let name = format!("{} ({})", program.name, program.namespace);
    let mut cells = vec![name, pid, program.sessions.to_string()];
    cells.extend(rates(&row.traffic));
    cells.push(bytes(program.memory));
    cells
}

pub(super) fn session(row: &SessionRow) -> Vec<String> {
    let session = &row.session;
    let ends = match session.remote.as_str() {
        "" => session.local.clone(),
        remote => format!("{} > {remote}", session.local),
    };
    let mut cells =
        vec![session.id.clone(), row.program.clone(), ends, short_state(&session.state).to_owned()];
    cells.extend(rates(&row.traffic));
    cells
}

fn rates(traffic: &Traffic) -> [String; 3] {
    [traffic.rx.rate, traffic.tx.rate, traffic.again.rate].map(rate)
}

/// States in six letters, so that addresses have room.
fn short_state(state: &str) -> &str {
    match state {
        "ESTABLISHED" => "ESTAB",
        "UNCONNECTED" => "UNCONN",
        "SYN-SENT" | "SYN_SENT" => "SYN-S",
        "SYN-RECEIVED" | "SYN_RECV" => "SYN-R",
        "FIN-WAIT-1" | "FIN_WAIT1" => "FIN-1",
        "FIN-WAIT-2" | "FIN_WAIT2" => "FIN-2",
        "CLOSE-WAIT" | "CLOSE_WAIT" => "CLOS-W",
        "LAST-ACK" | "LAST_ACK" => "LAST-A",
        "TIME-WAIT" | "TIME_WAIT" => "TIME-W",
        other => other,
    }
}

/// Everything, for who asks once: every column as wide as it must be.
pub(super) fn text(between: &Between) -> String {
    let [first, second] = summary(between);
    let mut text = format!("{first}\n{second}\n");
    for (number, row) in between.workers.iter().enumerate() {
        text.push_str(&format!("{}\n", worker(number, row)));
    }
    text.push('\n');
    text.push_str(&grid(PROGRAMS, between.programs.iter().map(program).collect()));
    text.push('\n');
    text.push_str(&grid(SESSIONS, between.sessions.iter().map(session).collect()));
    text
}

fn grid(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let heads: Vec<String> = columns.iter().map(|column| column.head.to_owned()).collect();
    let mut all = vec![heads];
    all.extend(rows);
    let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(columns).map(|((cell, width), column)| {
            if is_number(column) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    all.iter().map(line).collect()
}

/// Numbers stand to the right.
pub(super) fn is_number(column: &Column) -> bool {
    matches!(column.head, "PID" | "SESS" | "RX/s" | "TX/s" | "RETR/s" | "MEM")
}
