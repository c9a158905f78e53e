//! Workers: what they do, how busy they are, and at which stage of their turns.

use clearway_engine::{App, Mode, Stage, StageCycles};
use clearway_session::worker::Worker;
use serde_json::{Map, Value, json};

use super::grid::Grid;
use super::interfaces::mode_name;
use super::last_looks::Done;
use super::look::Look;
use crate::outcome::{CommandError, Output};

/// A worker as it is shown.
struct Row {
    mode: Mode,
    sessions: u32,
    /// Frames, and other things that it asked of other workers.
    handed_over: u64,
    done: Done,
}

fn row(worker: &mut Worker) -> Row {
    let at = worker.time().now;
    let sessions = worker.sessions().count();
    let jobs = worker.sessions().report().handed_over;
    let engine = worker.engine();
    let handed_over = jobs + engine.frames_handed_over();
    let (turns, sleeps) = engine.turns_and_sleeps();
    let done = Done { at, turns, sleeps, busy: engine.turn_times().sum() };
    Row { mode: engine.mode(), sessions, handed_over, done }
}

/// What a worker did in a second, on the average of some time.
struct Rates {
    seconds: f64,
    turns: f64,
    sleeps: f64,
    /// The share of the time that turns with work took.
    busy: f64,
}

impl Rates {
    /// None: no time has passed.
    fn between(then: &Done, now: &Done) -> Option<Rates> {
        let seconds = now.at.since(then.at).as_nanos() as f64 / 1e9;
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        (seconds > 0.0).then(|| Rates {
            seconds,
            turns: rate(now.turns, then.turns),
            sleeps: rate(now.sleeps, then.sleeps),
            busy: (rate(now.busy.as_nanos(), then.busy.as_nanos()) / 1e9).min(1.0),
        })
    }
}

/// `3d 04:05:06`, without the days when there are none.
fn clock(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

impl Look<'_> {
    /// Seconds since the host began; None: it is not known when.
    fn uptime(&self) -> Result<Option<u64>, CommandError> {
        let now = self.host.ask(0, |worker| worker.time().since_1970.as_nanos() / 1_000_000_000)?;
        Ok((self.options.started > 0).then(|| now.saturating_sub(self.options.started)))
    }

    pub(super) fn threads(&self) -> Result<Output, CommandError> {
        let uptime = self.uptime()?;
        let rows = self.host.ask_all(row)?;
        let now: Vec<Done> = rows.iter().map(|row| row.done).collect();
        let before = self.view.last_looks.borrow_mut().before(&now);
        let heads = [
            ">Worker",
            ">Core",
            "Mode",
            ">Turns",
            ">Sleeps",
            ">Busy s",
            ">Sessions",
            ">Handed over",
            ">Busy %",
            ">Turns/s",
            ">Sleeps/s",
        ];
        let mut grid = Grid::new(&heads);
        let mut json = Vec::new();
        for (worker, Row { mode, sessions, handed_over, done }) in rows.into_iter().enumerate() {
            let core = self.options.cores.get(worker).copied().flatten();
            let shown = core.map_or("any".into(), |core| core.to_string());
            let mode = mode_name(mode);
            let busy = done.busy.as_nanos() as f64 / 1e9;
            let rates = before.get(worker).and_then(|then| Rates::between(then, &done));
            let shown_rate = |of: fn(&Rates) -> f64, digits: usize| {
                rates.as_ref().map_or("-".into(), |rates| format!("{:.digits$}", of(rates)))
            };
            grid.row([
                worker.to_string(),
                shown,
                mode.into(),
                done.turns.to_string(),
                done.sleeps.to_string(),
                format!("{busy:.3}"),
                sessions.to_string(),
                handed_over.to_string(),
                shown_rate(|rates| rates.busy * 100.0, 1),
                shown_rate(|rates| rates.turns, 0),
                shown_rate(|rates| rates.sleeps, 0),
            ]);
            json.push(json!({ "worker": worker, "core": core, "mode": mode, "turns": done.turns,
                "sleeps": done.sleeps, "busy-seconds": busy, "sessions": sessions, "handed-over": handed_over,
                "rates": rates.map(|rates| json!({ "seconds": rates.seconds, "turns": rates.turns,
                    "sleeps": rates.sleeps, "busy-share": rates.busy })) }));
        }
        let up = uptime.map_or(String::new(), |up| format!("The host is up {}.\n", clock(up)));
        let text = format!("{up}{}", grid.text());
        Ok(Output::new(text, json!({ "uptime-seconds": uptime, "threads": json })))
    }

    pub(super) fn stages(&self) -> Result<Output, CommandError> {
        let rows: Vec<StageCycles> =
            self.host.ask_all(|worker| worker.engine().probe().ask())?.into_iter().collect();
        let mut heads = vec![">Worker", ">Turns"];
        heads.extend(Stage::ALL.map(Stage::name));
        let mut grid = Grid::new(&heads);
        let mut json = Vec::new();
        for (worker, spent) in rows.iter().enumerate() {
            let all = spent.all();
            let share = |stage: Stage| match all {
                0 => "-".to_owned(),
                all => format!("{:.1} %", spent.of(stage) as f64 * 100.0 / all as f64),
            };
            let numbers = [worker.to_string(), spent.turns.to_string()];
            grid.row(numbers.into_iter().chain(Stage::ALL.map(share)));
            let cycles: Map<String, Value> = Stage::ALL
                .iter()
                .map(|stage| (stage.name().replace(' ', "-"), spent.of(*stage).into()))
                .collect();
            json.push(json!({ "worker": worker, "turns": spent.turns, "cycles": cycles }));
        }
        let text = format!(
            "Shares of the cycles of turns with work, counted while somebody asks:\n{}",
            grid.text()
        );
        Ok(Output::new(text, json!({ "stages": json })))
    }
}

#[cfg(test)]
mod tests;
