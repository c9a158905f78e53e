//! Commands that say how workers wait, and which of them serves what.

use clearway_command::{PlaceOn, RxMode};
use clearway_dev::{Absent, Facts};
use clearway_engine::Mode;
use clearway_pkt::Iface;
use clearway_ports::{Port, Unwrapped};
use clearway_session::worker::Worker;

use super::plane::{Control, State};
use crate::outcome::{CommandError, Output};

impl Control {
    pub(super) fn set_rx_mode(
        &self,
        state: &mut State,
        name: &str,
        queue: Option<u16>,
        mode: RxMode,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        let (mode, word) = match mode {
            RxMode::Polling => (Mode::Polling, "polling"),
            RxMode::Interrupt => (Mode::Interrupt, "interrupt"),
            RxMode::Adaptive => (Mode::Adaptive(self.options.spin), "adaptive"),
        };
        let workers = match queue {
            None => 0..self.host.workers(),
            Some(queue) => self.holder(state, name, queue).map(|worker| worker..worker + 1)?,
        };
        for worker in workers {
            self.host
                .ask(worker, move |worker| worker.engine().set_port_mode(iface, Some(mode)))?;
        }
        state.made.mode(iface, queue, word);
        Ok(Output::done())
    }

    pub(super) fn set_rx_placement(
        &self,
        state: &mut State,
        name: &str,
        queue: u16,
        on: PlaceOn,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        let from = self.holder(state, name, queue)?;
        let PlaceOn::Worker(to) = on else {
            let why = "cannot be served by the main thread, which carries no packets".into();
            return Err(CommandError::Interface { name: name.into(), why });
        };
        let to = usize::from(to);
        if to >= self.host.workers() {
            let workers = self.host.workers();
            return Err(CommandError::Missing(format!(
                "worker {to}. There are {workers}, counted from 0"
            )));
        }
        if from != to {
            self.swap_queues(name, iface, from, to)?;
            state.placements.swap(iface, from, to);
        }
        Ok(Output::done())
    }

    /// Two workers exchange what they have of a port.
    fn swap_queues(
        &self,
        name: &str,
        iface: Iface,
        a: usize,
        b: usize,
    ) -> Result<(), CommandError> {
        let stays = || CommandError::Interface {
            name: name.into(),
            why: "has a queue on every worker, and they stay there".into(),
        };
        let from_a =
            self.host.ask(a, move |worker| take_queue(worker, iface))?.ok_or_else(stays)?;
        let from_b = match self.host.ask(b, move |worker| take_queue(worker, iface))? {
            Some(queue) => queue,
            None => {
                self.host.ask(a, move |worker| put_queue(worker, iface, from_a))??;
                return Err(stays());
            }
        };
        self.host.ask(b, move |worker| put_queue(worker, iface, from_a))??;
        self.host.ask(a, move |worker| put_queue(worker, iface, from_b))?
    }

    /// The worker that has a queue of an interface.
    fn holder(&self, state: &State, name: &str, queue: u16) -> Result<usize, CommandError> {
        let iface = self.iface(name)?;
        let is_there = move |worker: &mut Worker| {
            worker.engine().port(iface).is_some_and(|port| !port.is_absent())
        };
        let worker = state.placements.worker(iface, usize::from(queue));
        let there = self.host.ask_all(is_there)?;
        if there.get(worker).copied().unwrap_or(false) {
            return Ok(worker);
        }
        let queues = there.iter().filter(|there| **there).count();
        Err(CommandError::Missing(format!(
            "queue {queue} of {name}. It has {queues}, counted from 0"
        )))
    }
}

/// Takes a worker's queue on its way to another; an absent one stands in its place. None when it is
/// of a kind that stays.
fn take_queue(worker: &mut Worker, iface: Iface) -> Option<Unwrapped> {
    let engine = worker.engine();
    let port = engine.port(iface)?;
    let absent = Absent::new(port.mtu(), port.mac(), port.offloads());
    match engine.replace_port(iface, Port::Absent(absent)).ok()?.into_unwrapped() {
        Ok(queue) => Some(queue),
        Err(port) => {
            // It was here a moment ago, so there is a place for it.
            let _ = engine.replace_port(iface, *port);
            None
        }
    }
}

fn put_queue(worker: &mut Worker, iface: Iface, queue: Unwrapped) -> Result<(), CommandError> {
    let port = queue.into_port(worker.pool())?;
    worker.engine().replace_port(iface, port)?;
    Ok(())
}
