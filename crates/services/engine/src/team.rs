//! Several cores and the one who watches them. On the packet path they share nothing but a flag
//! that is read; figures are left on a board once per second.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_dev::DevCounters;
use clearway_proto::Counters;

use crate::core_queues::CoreQueues;
use crate::stages::StageCycles;
use crate::wait::Notifier;

/// What one core has done so far.
#[derive(Clone, Debug, Default)]
pub struct CoreReport<R> {
    /// Turns of the loop.
    pub turns: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// All its ports together.
    pub dev: DevCounters,
    /// Its stack.
    pub stack: Counters,
    /// Frames from other cores that were lost because this one did not take them in time.
    pub core_queue_lost: u64,
    /// Cycles by stage, where they are counted.
    pub stages: Option<StageCycles>,
    /// Its application.
    pub app: R,
}

/// The watcher's side.
pub struct Team<R> {
    stop: Arc<AtomicBool>,
    notifiers: Vec<Notifier>,
    boards: Vec<Board<R>>,
    running: Arc<Running>,
}

/// One core's side: everything that an engine needs of its surroundings. Goes to the thread that
/// will run it.
pub struct Seat<R> {
    index: usize,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) notifier: Notifier,
    pub(crate) core_queues: CoreQueues,
    board: Board<R>,
    running: Arc<Running>,
}

type Board<R> = Arc<Mutex<CoreReport<R>>>;

struct Running {
    seats: AtomicUsize,
    changed: Notifier,
}

impl<R: Clone + Default + Send + 'static> Team<R> {
    /// A team of `count` cores, and their seats.
    ///
    /// # Errors
    /// When the system has no descriptors left for the notifiers.
    pub fn new(count: usize) -> io::Result<(Team<R>, Vec<Seat<R>>)> {
        Team::with_notifiers((0..count).map(|_| Notifier::new()).collect::<io::Result<Vec<_>>>()?)
    }

    /// A team of a core for each notifier, and their seats. The notifier wakes its core, whoever
    /// rings it.
    ///
    /// # Errors
    /// When the system has no descriptor left for one notifier more.
    pub fn with_notifiers(notifiers: Vec<Notifier>) -> io::Result<(Team<R>, Vec<Seat<R>>)> {
        let count = notifiers.len();
        let boards: Vec<Board<R>> = (0..count).map(|_| Board::default()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let running =
            Arc::new(Running { seats: AtomicUsize::new(count), changed: Notifier::new()? });
        let seats = CoreQueues::between(notifiers.clone())
            .into_iter()
            .enumerate()
            .map(|(index, core_queues)| Seat {
                index,
                stop: Arc::clone(&stop),
                notifier: notifiers[index].clone(),
                core_queues,
                board: Arc::clone(&boards[index]),
                running: Arc::clone(&running),
            })
            .collect();
        Ok((Team { stop, notifiers, boards, running }, seats))
    }

    /// Tells all engines to stop. They finish their turn, let their applications say goodbye, and
    /// return.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        for notifier in &self.notifiers {
            notifier.notify();
        }
    }

    /// Has all engines turn once, also those that sleep: an application has something to find.
    pub fn wake(&self) {
        for notifier in &self.notifiers {
            notifier.notify();
        }
    }

    /// Engines that have not returned.
    pub fn running(&self) -> usize {
        self.running.seats.load(Ordering::Acquire)
    }

    /// Rings whenever an engine returns.
    pub fn changed(&self) -> &Notifier {
        &self.running.changed
    }

    /// What each core had done when it last wrote it down: at most about a second ago while it
    /// works, and up to date when it sleeps or has returned.
    pub fn reports(&self) -> Vec<CoreReport<R>> {
        self.boards
            .iter()
            .map(|board| board.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }
}

impl<R> Seat<R> {
    /// The notifier that wakes this core.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Which of the team's cores this is, counted from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether the team was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Leaves a report for the watcher. An engine does so itself; this is for those who have no
    /// engine.
    pub fn publish(&self, report: CoreReport<R>) {
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }
}

impl<R> Drop for Seat<R> {
    fn drop(&mut self) {
        self.running.seats.fetch_sub(1, Ordering::AcqRel);
        self.running.changed.notify();
    }
}
