//! Counters of the stacks, summed over the workers, less what they were when they were cleared.

use clearway_dev::DevCounters;
use clearway_engine::App;
use clearway_pkt::Iface;
use clearway_proto::Counters;
use serde_json::{Map, Value, json};

use super::grid::Grid;
use super::look::{Baselines, Look, Rows};
use crate::host::HostHandle;
use crate::outcome::{CommandError, Output};

/// Picks counters of one group.
type Gather = fn(&Counters) -> Rows;

/// Lists fields of counters by their names.
macro_rules! rows {
    ($counters:expr; $($field:ident),* $(,)?) => {
        vec![$((stringify!($field), $counters.$field)),*]
    };
}

fn tcp_rows(counters: &Counters) -> Rows {
    rows![counters.tcp;
        segs_in, segs_out, retransmitted_segs, active_opens, passive_opens, attempt_fails,
            established_resets, resets_out,
        syn_cookies_sent, syn_cookies_accepted, syn_cookies_failed, challenge_acks,
            challenge_acks_limited,
        fast_open_active, fast_open_not_taken, fast_open_lost, fast_open_passive,
            fast_open_cookies_given, fast_open_cookies_refused, fast_open_overflows,
        syn_acks_repeated, half_open_timeouts, retransmit_timeouts, fast_recoveries,
            tail_loss_probes, tail_loss_repairs, losses_undone, sent_unrecorded, mtu_black_holes,
                sack_reneged, timeouts,
        window_probes, keepalives_out, fin_wait_2_timeouts, resets_after_close, orphans_evicted,
            orphans_timed_out, paced_refused,
        shortage_resets, idle_evicted, ecn_classic, ecn_accurate, ce_segs_in, ce_delivered,
            ecn_reductions, prague_fallbacks, time_wait_evicted, time_wait_reused, broken,
    ]
}

fn ip_rows(counters: &Counters) -> Rows {
    rows![counters.ip;
        packets_in, bytes_in, packets_out, bytes_out, delivered, fragments_in, reassembled,
        reassembly_timeouts, fragments_discarded, fragmented, fragments_out, no_route,
        path_mtu_learned,
    ]
}

fn icmp_rows(counters: &Counters) -> Rows {
    rows![counters.icmp;
        messages_in, echo_replies_out, errors_out, errors_in, errors_limited, replies_lost,
    ]
}

fn udp_rows(counters: &Counters) -> Rows {
    rows![counters.udp; datagrams_in, datagrams_out, send_failures, lost_after_close]
}

fn drop_rows(counters: &Counters) -> Rows {
    counters.each_drop().map(|(why, count)| (why.name(), count)).collect()
}

/// Rows of all workers in one.
fn gather(host: &HostHandle, rows: Gather) -> Result<Rows, CommandError> {
    Ok(summed(host.ask_all(move |worker| rows(worker.stack().counters()))?.into_iter()))
}

fn summed(mut all: impl Iterator<Item = Rows>) -> Rows {
    let mut sum = all.next().unwrap_or_default();
    for more in all {
        sum.iter_mut().zip(more).for_each(|(sum, more)| sum.1 += more.1);
    }
    sum
}

/// What the stacks have counted since the host began, by group.
pub(super) struct Counted {
    groups: Vec<(&'static str, Rows)>,
}

impl Counted {
    /// Of all workers together.
    pub(super) fn of(host: &HostHandle) -> Result<Counted, CommandError> {
        let all = host.ask_all(|worker| worker.stack().counters().clone())?;
        Ok(Counted::sum(&all))
    }

    /// Every name, with nothing counted.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Counted {
        Counted::sum(&[Counters::default()])
    }

    fn sum(all: &[Counters]) -> Counted {
        const GROUPS: &[(&str, Gather)] = &[
            ("ip", ip_rows),
            ("icmp", icmp_rows),
            ("udp", udp_rows),
            ("tcp", tcp_rows),
            ("drop", drop_rows),
        ];
        let group = |rows: Gather| summed(all.iter().map(rows));
        Counted { groups: GROUPS.iter().map(|(name, rows)| (*name, group(*rows))).collect() }
    }

    /// The rows of a group.
    pub(super) fn rows(&self, group: &str) -> &[(&'static str, u64)] {
        self.groups.iter().find(|(name, _)| *name == group).map_or(&[], |(_, rows)| rows)
    }

    /// A counter by its group and its name in kebab case, such as `tcp.segs-in`. A name that ends
    /// in `*` is the sum of all that begin so.
    pub(super) fn get(&self, path: &str) -> Option<u64> {
        let (group, wanted) = path.split_once('.')?;
        let rows = self.rows(group);
        let fits = |name: &str| match wanted.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name.replace('_', "-") == wanted,
        };
        let mut found = rows.iter().filter(|(name, _)| fits(name)).map(|(_, count)| *count);
        let first = found.next()?;
        Some(first + found.sum::<u64>())
    }
}

fn less(mut rows: Rows, baseline: &Rows) -> Rows {
    rows.iter_mut().zip(baseline).for_each(|(row, before)| row.1 = row.1.saturating_sub(before.1));
    rows
}

impl Baselines {
    /// Counts TCP from here.
    pub(crate) fn clear_tcp(&mut self, host: &HostHandle) -> Result<(), CommandError> {
        self.tcp = gather(host, tcp_rows)?;
        Ok(())
    }

    /// Counts drops from here.
    pub(crate) fn clear_errors(&mut self, host: &HostHandle) -> Result<(), CommandError> {
        self.errors = gather(host, drop_rows)?;
        Ok(())
    }

    /// Counts an interface from here.
    pub(crate) fn set_interface(&mut self, iface: Iface, counters: DevCounters) {
        self.interfaces.retain(|(known, _)| *known != iface);
        self.interfaces.push((iface, counters));
    }

    /// The interface is gone; its number may be given to another.
    pub(crate) fn forget(&mut self, iface: Iface) {
        self.interfaces.retain(|(known, _)| *known != iface);
    }

    /// What an interface had counted when it was cleared.
    pub(crate) fn interface(&self, iface: Iface) -> DevCounters {
        self.interfaces
            .iter()
            .find(|(known, _)| *known == iface)
            .map(|(_, counters)| *counters)
            .unwrap_or_default()
    }
}

impl Look<'_> {
    pub(super) fn tcp(&self) -> Result<Output, CommandError> {
        let rows = less(gather(self.host, tcp_rows)?, &self.view.baselines.tcp);
        let held = self.host.ask_all(|worker| worker.stack().population())?;
        let held: Rows = vec![
            ("connections", held.iter().map(|p| u64::from(p.connections)).sum()),
            ("half_open", held.iter().map(|p| u64::from(p.half_open)).sum()),
            ("time_wait", held.iter().map(|p| u64::from(p.time_wait)).sum()),
            ("orphans", held.iter().map(|p| u64::from(p.orphans)).sum()),
            ("listeners", held.iter().map(|p| u64::from(p.listeners)).sum()),
        ];
        Ok(listed("tcp", &[held, rows].concat()))
    }

    pub(super) fn udp(&self) -> Result<Output, CommandError> {
        let mut rows = gather(self.host, udp_rows)?;
        let sockets =
            self.host.ask_all(|worker| u64::from(worker.stack().population().udp_sockets))?;
        rows.insert(0, ("sockets", sockets.iter().sum()));
        let lost = self.host.ask_all(|worker| worker.sessions().report().datagrams_lost)?;
        rows.push(("lost_in_sessions", lost.iter().sum()));
        Ok(listed("udp", &rows))
    }

    pub(super) fn errors(&self, all: bool) -> Result<Output, CommandError> {
        let mut rows = less(gather(self.host, drop_rows)?, &self.view.baselines.errors);
        rows.push(("acl-denied", self.view.packets.denied()));
        rows.retain(|(_, count)| all || *count > 0);
        let mut grid = Grid::new(&[">Packets", "Reason"]);
        rows.iter().for_each(|(name, count)| grid.row([count.to_string(), (*name).into()]));
        Ok(Output::new(grid.text_or("No packet was dropped."), json!({ "errors": object(&rows) })))
    }
}

fn listed(name: &str, rows: &Rows) -> Output {
    let mut grid = Grid::new(&["Counter", ">Value"]);
    rows.iter().for_each(|(name, count)| grid.row([name.replace('_', "-"), count.to_string()]));
    Output::new(grid.text(), json!({ name: object(rows) }))
}

fn object(rows: &Rows) -> Value {
    let entries = rows.iter().map(|(name, count)| (name.replace('_', "-"), Value::from(*count)));
    Value::Object(entries.collect::<Map<_, _>>())
}
