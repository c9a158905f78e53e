//! One queue of the generator, and what it is told and tells.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use clearway_base::{Duration, Histogram, Instant};
use clearway_dev::{DevCounters, DevError, Facts as _, Receive as _, Transmit as _};
use clearway_pkt::{Burst, PoolBuf};
use clearway_ports::Port;
use clearway_traffic::{Account, Came, FramesPerSecond, Generator, Plan, Sent, Shape, WIRE_EXTRA};

use super::Args;
use crate::crew::Work;

/// What all queues are told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Nothing; what a size brought is handed in.
    Pause,
    /// To send a frame now and then, until one comes back.
    Knock,
    /// To send frames of the size with this index.
    Send(usize),
    /// To send no more of them and see what still comes.
    Drain(usize),
}

/// Frames per second and queue while knocking.
const KNOCKS: FramesPerSecond = FramesPerSecond { frames: 100, seconds: 1 };

/// The whole work, which all queues look at.
pub(super) struct Job {
    shape: Shape,
    sizes: Vec<usize>,
    rates: Vec<Option<FramesPerSecond>>,
    seconds: Duration,
    flows: u32,
    queues: u32,
    // The kind in the lowest two bits, the index above. A thread looks at it once per turn.
    order: AtomicU32,
    results: Mutex<Vec<Outcome>>,
}

/// What one queue did with one size.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) index: usize,
    pub(super) queue: usize,
    pub(super) sent: Sent,
    pub(super) came: Came,
    pub(super) latency: Histogram,
    /// How long it sent.
    pub(super) sent_for: Duration,
    /// How long frames came in.
    pub(super) came_for: Duration,
    /// What was lost at the port meanwhile.
    pub(super) port: DevCounters,
    /// Frames given to the port and lost there.
    pub(super) port_drops: u64,
}

impl Job {
    pub(super) fn new(args: &Args, shape: Shape) -> Job {
        let queues = args.crew.queues();
        let extra = if args.wire { WIRE_EXTRA } else { 0 };
        let rate =
            |&size: &usize| args.rate.frames(size, args.line, extra).map(|rate| rate.split(queues));
        Job {
            shape,
            sizes: args.sizes.clone(),
            rates: args.sizes.iter().map(rate).collect(),
            seconds: args.seconds.into(),
            // Each queue has a flow at least.
            flows: args.flows.max(queues as u32),
            queues: queues as u32,
            order: AtomicU32::new(0),
            results: Mutex::default(),
        }
    }

    /// What the frames are on this port.
    pub(super) fn shape_on(&self, port: &Port) -> Shape {
        let macs = port.mac().zip(self.shape.macs).map(|(own, (src, dst))| {
            // Zero stands for the port's own.
            (if src == clearway_dev::Mac::ZERO { own } else { src }, dst)
        });
        Shape { macs, ..self.shape }
    }

    pub(super) fn give(&self, order: Order) {
        let word = match order {
            Order::Pause => 0,
            Order::Knock => 1,
            Order::Send(index) => (index as u32) << 2 | 2,
            Order::Drain(index) => (index as u32) << 2 | 3,
        };
        self.order.store(word, Ordering::Release);
    }

    fn order(&self) -> Order {
        let word = self.order.load(Ordering::Acquire);
        let index = (word >> 2) as usize;
        match word & 3 {
            0 => Order::Pause,
            1 => Order::Knock,
            2 => Order::Send(index),
            _ => Order::Drain(index),
        }
    }

    /// How many queues have handed in what they did with a size.
    pub(super) fn results(&self, index: usize) -> usize {
        self.outcomes(index).len()
    }

    pub(super) fn outcomes(&self, index: usize) -> Vec<Outcome> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes: Vec<_> =
            results.iter().filter(|outcome| outcome.index == index).cloned().collect();
        outcomes.sort_by_key(|outcome| outcome.queue);
        outcomes
    }
}

/// What others see of a queue while it works.
#[derive(Clone, Default)]
pub(super) struct Report {
    /// The size that the rest is about; None while there is none.
    index: Option<usize>,
    done: bool,
    pub(super) sent: Sent,
    pub(super) came: Came,
    pub(super) latency_sum_ns: u64,
    pub(super) latency_count: u64,
    pub(super) port_drops: u64,
}

impl Report {
    /// Whether it is about this size.
    pub(super) fn is_of(&self, index: usize) -> bool {
        self.index == Some(index)
    }

    /// Whether everything of this size was sent.
    pub(super) fn is_done(&self, index: usize) -> bool {
        self.is_of(index) && self.done
    }
}

/// One queue.
pub(super) struct Queue<'a> {
    job: &'a Job,
    queue: usize,
    order: Order,
    generator: Option<Generator>,
    account: Option<Account>,
    /// The port's counters when the size began.
    port_before: DevCounters,
    sent_until: Instant,
}

impl<'a> Queue<'a> {
    pub(super) fn new(job: &'a Job, queue: usize) -> Queue<'a> {
        let account = Some(Account::new(job.flows));
        let (order, port_before) = (Order::Pause, DevCounters::default());
        Queue {
            job,
            queue,
            order,
            generator: None,
            account,
            port_before,
            sent_until: Instant::ZERO,
        }
    }

    fn begin(&mut self, now: Instant, dev: &Port, index: Option<usize>) {
        let account = self.generator.take().map(Generator::into_account).or(self.account.take());
        let account = account.unwrap_or_else(|| Account::new(self.job.flows));
        let shape = self.job.shape_on(dev);
        let (size, rate, end, run) = match index {
            // Another run for every size, and one for the knocking, so that nothing late is taken
            // for new.
            Some(at) => (
                self.job.sizes[at],
                self.job.rates[at],
                now + self.job.seconds,
                shape.run ^ (at as u16 + 1),
            ),
            None => (shape.least().max(60), Some(KNOCKS), Instant::NEVER, shape.run),
        };
        let (queue, queues) = (self.queue as u32, self.job.queues);
        let shape = Shape { run, ..shape };
        let plan =
            Plan { shape, size, flows: self.job.flows, queue, queues, rate, start: now, end };
        // The sizes were tried when the queue was made, and the knocking one is long enough.
        self.generator = Generator::new(plan, account).ok();
        (self.port_before, self.sent_until) = (dev.counters(), now);
    }

    fn port_drops(&self, dev: &Port) -> u64 {
        dev.counters().tx_dropped_total() - self.port_before.tx_dropped_total()
    }

    fn hand_in(&mut self, dev: &Port, index: usize) {
        let Some(generator) = &self.generator else { return };
        let (sent, account, start) =
            (generator.sent(), generator.account(), generator.plan().start);
        let sent_for = self.sent_until.since(start);
        let mut port = dev.counters();
        let before = &self.port_before;
        port.rx_drops.iter_mut().zip(before.rx_drops).for_each(|(now, before)| *now -= before);
        port.tx_drops.iter_mut().zip(before.tx_drops).for_each(|(now, before)| *now -= before);
        let outcome = Outcome {
            index,
            queue: self.queue,
            sent,
            came: *account.came(),
            latency: account.latency().clone(),
            sent_for,
            came_for: account.last().since(start).max(sent_for),
            port,
            port_drops: self.port_drops(dev),
        };
        self.job.results.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
    }

    #[cold]
    fn obey(&mut self, now: Instant, dev: &Port, order: Order) {
        match (self.order, order) {
            (_, Order::Knock) => self.begin(now, dev, None),
            (_, Order::Send(index)) => self.begin(now, dev, Some(index)),
            (_, Order::Drain(_)) => {
                if let Some(generator) = &mut self.generator {
                    generator.stop(now);
                }
            }
            (Order::Send(index) | Order::Drain(index), Order::Pause) => {
                self.hand_in(dev, index);
                self.account = self.generator.take().map(Generator::into_account);
            }
            (_, Order::Pause) => {
                self.account =
                    self.generator.take().map(Generator::into_account).or(self.account.take())
            }
        }
        self.order = order;
    }
}

impl Work for Queue<'_> {
    type Report = Report;

    fn turn(
        &mut self,
        now: Instant,
        dev: &mut Port,
        burst: &mut Burst<PoolBuf>,
    ) -> Result<bool, DevError> {
        let order = self.job.order();
        if order != self.order {
            self.obey(now, dev, order);
        }
        match &mut self.generator {
            Some(generator) => {
                let was_done = generator.is_done();
                let worked = generator.turn(now, dev, burst)?;
                if !was_done {
                    self.sent_until = now.min(generator.plan().end);
                }
                Ok(worked)
            }
            // Between two sizes, so that nobody's queue fills up.
            None => {
                dev.set_now(now);
                dev.rx(burst)?;
                let worked = !burst.is_empty();
                burst.clear();
                dev.flush();
                Ok(worked)
            }
        }
    }

    fn next_due(&self) -> Instant {
        self.generator.as_ref().map_or(Instant::NEVER, Generator::next_due)
    }

    fn report(&self, dev: &Port) -> Report {
        let Some(generator) = &self.generator else { return Report::default() };
        let account = generator.account();
        let index = match self.order {
            Order::Send(index) | Order::Drain(index) => Some(index),
            Order::Pause | Order::Knock => None,
        };
        Report {
            index,
            done: generator.is_done(),
            sent: generator.sent(),
            came: *account.came(),
            latency_sum_ns: account.latency().sum(),
            latency_count: account.latency().count(),
            port_drops: self.port_drops(dev),
        }
    }
}
