//! The thread that asks the host. A worker that hangs holds up this one and nobody else.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clearway_engine::Notifier;
use clearway_host::{Control, HostHandle, MetricsFormat};

/// How long what was gathered is good for others who ask.
const GOOD_FOR: Duration = Duration::from_millis(250);

/// What was found: the text of OpenMetrics, or why there is none.
pub(super) type Found = Result<Arc<str>, String>;

/// What is known, and since when; and who is to hear of something newer.
#[derive(Default)]
struct Known {
    found: Option<(Instant, Found)>,
    /// Asked, and not answered.
    pending: bool,
}

/// The server's side.
#[derive(Clone)]
pub(super) struct Asker {
    asks: SyncSender<()>,
    known: Arc<Mutex<Known>>,
    control: Arc<Control>,
    /// Rung when something was found.
    pub(super) notifier: Notifier,
}

impl Asker {
    /// What was found a moment ago. None: it is asked for, and `notifier` will tell.
    pub(super) fn ask(&self) -> Option<Found> {
        let mut known = locked(&self.known);
        if let Some((at, found)) = &known.found {
            if at.elapsed() < GOOD_FOR {
                return Some(found.clone());
            }
        }
        if !known.pending {
            match self.asks.try_send(()) {
                Ok(()) | Err(TrySendError::Full(())) => known.pending = true,
                Err(TrySendError::Disconnected(())) => {
                    return Some(Err("the host ends".into()));
                }
            }
        }
        None
    }

    /// Whether the host is drained.
    pub(super) fn is_draining(&self) -> bool {
        self.control.is_draining()
    }

    /// What was found since `asked`.
    pub(super) fn found_since(&self, asked: Instant) -> Option<Found> {
        let known = locked(&self.known);
        known.found.as_ref().filter(|(at, _)| *at >= asked).map(|(_, found)| found.clone())
    }
}

/// The thread.
pub(super) struct Gatherer {
    /// As long as this is here the thread goes on.
    asks: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gatherer {
    pub(super) fn begin(
        control: Arc<Control>,
        host: HostHandle,
        file: Option<(PathBuf, Duration)>,
    ) -> anyhow::Result<(Gatherer, Asker)> {
        // One that is asked for while another is made: no more is of use to anybody.
        let (asks, heard) = sync_channel(1);
        let notifier = Notifier::new()?;
        let told = Arc::clone(&control);
        let asker = Asker { asks, known: Arc::default(), control: told, notifier };
        let (known, notifier) = (Arc::clone(&asker.known), asker.notifier.clone());
        let work = Work { control, host, file };
        // A folder that is not there is told at the start, and not in a log that nobody reads.
        work.write_file()?;
        let thread = std::thread::Builder::new()
            .name("clearway-gather".into())
            .spawn(move || work.run(&heard, &known, &notifier))?;
        let asks = Some(asker.asks.clone());
        Ok((Gatherer { asks, thread: Some(thread) }, asker))
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        // The last of them: the thread hears that nobody asks any more.
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    control: Arc<Control>,
    host: HostHandle,
    file: Option<(PathBuf, Duration)>,
}

impl Work {
    fn run(self, heard: &Receiver<()>, known: &Mutex<Known>, notifier: &Notifier) {
        let mut due = self.file.as_ref().map(|(_, every)| Instant::now() + *every);
        loop {
            let wait = due.map_or(Duration::from_secs(3600), |due| {
                due.saturating_duration_since(Instant::now())
            });
            match heard.recv_timeout(wait) {
                Ok(()) => {
                    let found = self.gather(MetricsFormat::OpenMetrics).map(Arc::from);
                    let mut known = locked(known);
                    known.found = Some((Instant::now(), found));
                    known.pending = false;
                    drop(known);
                    notifier.notify();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let (Some(at), Some((path, every))) = (due, &self.file) {
                if Instant::now() >= at {
                    due = Some(Instant::now() + *every);
                    if let Err(error) = self.write_file() {
                        tracing::warn!(path = %path.display(), error = format!("{error:#}"),
                            "the file of metrics was not written");
                    }
                }
            }
        }
    }

    fn gather(&self, format: MetricsFormat) -> Result<String, String> {
        // The supervisor is asked too: whether it works is a part of the answer.
        self.host.counts().map_err(|error| error.to_string())?;
        self.control.metrics(format).map_err(|error| error.to_string())
    }

    fn write_file(&self) -> anyhow::Result<()> {
        let Some((path, _)) = &self.file else { return Ok(()) };
        let text = self.gather(MetricsFormat::TextFile).map_err(anyhow::Error::msg)?;
        replace(path, &text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Whoever reads the file finds the old text or the new one, never a part.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut beside = path.as_os_str().to_owned();
    // The collector takes files that end in .prom only.
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o644).open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
