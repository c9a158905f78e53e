//! What a request costs by stage of the engine's turn, as people and machines read it.

use clearway_engine::{CoreReport, Stage, StageCycles};
use serde_json::{Map, Value, json};

/// Requests, and the cycles of all cores, up to some time or between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Spent {
    requests: u64,
    stages: StageCycles,
}

/// Cycles of the seconds in which there were requests from beginning to end: what it takes to begin
/// and to end is not in them.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Whether anything is counted.
    is_counted: bool,
    last: Spent,
    /// The last second, if it had requests, and whether the one before it had.
    waits: Option<(Spent, bool)>,
    sum: Spent,
}

impl Budget {
    /// A second has passed: so many requests there were from the start.
    pub(crate) fn second<R>(&mut self, requests: u64, reports: &[CoreReport<R>]) {
        let mut stages = StageCycles::default();
        for told in reports.iter().filter_map(|report| report.stages.as_ref()) {
            self.is_counted = true;
            stages.add(told);
        }
        self.take(Spent { requests, stages });
    }

    fn take(&mut self, now: Spent) {
        // A core that has not told anything new is one that is about to.
        if now.stages.turns == self.last.stages.turns {
            return;
        }
        let second = Spent {
            requests: now.requests - self.last.requests,
            stages: now.stages.since(&self.last.stages),
        };
        self.last = now;
        let had_requests = self.waits.is_some();
        if let Some((before, true)) = self.waits.filter(|_| second.requests > 0) {
            self.sum.requests += before.requests;
            self.sum.stages.add(&before.stages);
        }
        self.waits = (second.requests > 0).then_some((second, had_requests));
    }

    /// What there is to tell: of whole seconds, or of everything when it was over too soon.
    fn told(&self) -> Option<Spent> {
        let spent = if self.sum.requests > 0 { self.sum } else { self.last };
        (self.is_counted && spent.requests > 0 && spent.stages.all() > 0).then_some(spent)
    }

    /// A table, a line for each stage; nothing when nothing was counted.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Some(spent) = self.told() else { return Vec::new() };
        let each = |cycles: u64| cycles as f64 / spent.requests as f64;
        let all = spent.stages.all();
        let line = |name: &str, cycles: u64| {
            format!(
                "  {name:<16} {:>8.0} cycles {:>5.1} %",
                each(cycles),
                cycles as f64 / all as f64 * 100.0
            )
        };
        let mut lines = vec!["a request, by stage:".to_string()];
        lines.extend(Stage::ALL.map(|stage| line(stage.name(), spent.stages.of(stage))));
        lines.push(line("all", all));
        lines.push(format!(
            "  {:.1} requests in a turn that had work",
            spent.requests as f64 / spent.stages.turns as f64
        ));
        lines
    }

    /// The same as an object; null when nothing was counted.
    pub(crate) fn json(&self) -> Value {
        let Some(spent) = self.told() else { return Value::Null };
        let each = |cycles: u64| cycles as f64 / spent.requests as f64;
        let mut stages = Map::new();
        for stage in Stage::ALL {
            stages.insert(stage.name().replace(' ', "_"), each(spent.stages.of(stage)).into());
        }
        json!({
            "requests": spent.requests, "turns": spent.stages.turns, "cycles_per_request": stages,
            "all": each(spent.stages.all()),
        })
    }
}

#[cfg(test)]
mod tests;
