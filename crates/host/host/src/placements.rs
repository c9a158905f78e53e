//! Which worker has which queue.

use clearway_pkt::Iface;

/// Queues that are not with the worker of their own number.
#[derive(Default)]
pub(crate) struct Placements {
    moved: Vec<(Iface, usize, usize)>,
}

impl Placements {
    /// The worker that has a queue.
    pub(crate) fn worker(&self, iface: Iface, queue: usize) -> usize {
        let moved = self.moved.iter().find(|(of, moved, _)| (*of, *moved) == (iface, queue));
        moved.map_or(queue, |(_, _, worker)| *worker)
    }

    /// The queue that a worker has.
    pub(crate) fn queue(&self, iface: Iface, worker: usize) -> usize {
        let moved = self.moved.iter().find(|(of, _, on)| (*of, *on) == (iface, worker));
        moved.map_or(worker, |(_, queue, _)| *queue)
    }

    /// Two workers have changed their places.
    pub(crate) fn swap(&mut self, iface: Iface, a: usize, b: usize) {
        let (of_a, of_b) = (self.queue(iface, a), self.queue(iface, b));
        self.moved.retain(|(of, queue, _)| *of != iface || (*queue != of_a && *queue != of_b));
        self.moved.extend([(iface, of_a, b), (iface, of_b, a)]);
    }

    /// The interface is gone; its number may be given to another.
    pub(crate) fn forget(&mut self, iface: Iface) {
        self.moved.retain(|(of, ..)| *of != iface);
    }
}

#[cfg(test)]
mod tests;
