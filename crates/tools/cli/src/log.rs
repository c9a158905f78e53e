//! The log of a host: one line for each event, with time, level and what happened, for people or as
//! JSON; to standard error, or to a file of its user alone.
//!
//! Whoever makes the same thing happen again and again does not fill the disk: of each kind of
//! event so many are written, then it is said how many more there were.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clearway_host::config::{LogFormat, LogLevel, LogSpec};
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{fmt, reload};

/// Events of one kind that are written within [`WINDOW`].
const BURST: u32 = 20;

/// How long it takes until as many are written again.
const WINDOW: Duration = Duration::from_secs(10);

/// The target of what the log says of itself.
const OF_LOG: &str = "clearway::log";

/// Where the log goes, and how much of it.
pub(crate) struct Log {
    place: Arc<Place>,
    filter: reload::Handle<Targets, tracing_subscriber::Registry>,
    limit: Arc<Limit>,
}

struct Place {
    path: Option<PathBuf>,
    out: Mutex<Option<File>>,
}

impl Log {
    /// From now on events are written: to `path`, or to standard error.
    pub(crate) fn begin(path: Option<PathBuf>, spec: &LogSpec) -> anyhow::Result<Log> {
        let file = path.as_deref().map(open).transpose()?;
        let place = Arc::new(Place { path, out: Mutex::new(file) });
        let limit = Arc::new(Limit::default());
        let (filter, handle) = reload::Layer::new(targets(spec));
        let all = tracing_subscriber::registry()
            .with(filter)
            .with(Limited(Arc::clone(&limit)))
            .with((spec.format == LogFormat::Text).then(|| text(&place)))
            .with((spec.format == LogFormat::Json).then(|| json(&place)));
        tracing::subscriber::set_global_default(all).context("cannot begin the log")?;
        Ok(Log { place, filter: handle, limit })
    }

    /// The file is opened anew: somebody moved it away. And from now on so much is written. How its
    /// lines are written stays.
    pub(crate) fn reopen(&self, spec: &LogSpec) -> anyhow::Result<()> {
        let _ = self.filter.reload(targets(spec));
        let Some(path) = &self.place.path else { return Ok(()) };
        let file = open(path)?;
        *self.place.out.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// Says what was left out.
    pub(crate) fn settle(&self) {
        self.limit.tell(self.limit.left_out(|_| true));
    }
}

/// Lines for people.
fn text<S: Subscriber + for<'a> LookupSpan<'a>>(place: &Arc<Place>) -> impl Layer<S> + use<S> {
    let place = Arc::clone(place);
    fmt::layer().with_ansi(false).with_writer(move || Line(Arc::clone(&place)))
}

/// An object of JSON in each line: `timestamp`, `level`, `target`, `message`, and the event's own
/// fields beside them.
fn json<S: Subscriber + for<'a> LookupSpan<'a>>(place: &Arc<Place>) -> impl Layer<S> + use<S> {
    let place = Arc::clone(place);
    fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(move || Line(Arc::clone(&place)))
}

/// What passes. What the log says of itself does always, unless nothing does.
fn targets(spec: &LogSpec) -> Targets {
    let level = filter(spec.level);
    let own = if level == LevelFilter::OFF { level } else { level.max(LevelFilter::WARN) };
    Targets::new()
        .with_default(level)
        .with_target(OF_LOG, own)
        .with_targets(spec.targets.iter().map(|(path, level)| (path.clone(), filter(*level))))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// Opens a log, for its user alone: what programs are called and what they reach is nobody else's
/// concern.
pub(crate) fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path);
    let file = file.with_context(|| format!("cannot write the log {}", path.display()))?;
    let private =
        file.metadata().is_ok_and(|meta| !meta.is_file() || meta.permissions().mode() & 0o077 == 0);
    if !private {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot close the log {} to others", path.display()))?;
    }
    Ok(file)
}

/// One line on its way.
struct Line(Arc<Place>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full disk is no reason for a host to end: what cannot be written is lost.
        let _ = match self.0.out.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(file) => file.write_all(bytes),
            None => io::stderr().write_all(bytes),
        };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many of each kind were written.
#[derive(Default)]
struct Limit(Mutex<HashMap<Identifier, Kind>>);

struct Kind {
    name: &'static str,
    line: u32,
    since: Instant,
    count: u32,
}

impl Limit {
    /// Whether one more of this kind is written.
    fn takes(&self, metadata: &'static tracing::Metadata<'static>, now: Instant) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Kind {
            name: metadata.target(),
            line: metadata.line().unwrap_or(0),
            since: now,
            count: 0,
        };
        let kind = kinds.entry(metadata.callsite()).or_insert_with(new);
        kind.count = kind.count.saturating_add(1);
        kind.count <= BURST
    }

    /// Kinds whose window is over, and how many of each were left out.
    fn left_out(&self, is_over: impl Fn(Instant) -> bool) -> Vec<(&'static str, u32, u32)> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::new();
        kinds.retain(|_, kind| {
            let over = is_over(kind.since);
            if over && kind.count > BURST {
                left.push((kind.name, kind.line, kind.count - BURST));
            }
            !over
        });
        left
    }

    fn tell(&self, left: Vec<(&'static str, u32, u32)>) {
        for (from, line, more) in left {
            tracing::warn!(target: OF_LOG, more, from, line, "events of this kind were left out");
        }
    }
}

struct Limited(Arc<Limit>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Limited {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if event.metadata().target() == OF_LOG {
            return true;
        }
        let now = Instant::now();
        self.0.tell(self.0.left_out(|since| now.duration_since(since) >= WINDOW));
        self.0.takes(event.metadata(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_kind_of_event_so_many_are_written_and_the_rest_is_counted() {
        let folder = std::env::temp_dir().join(format!("cwlog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("host.log");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let noisy = "clearway::log::tests::noisy".to_owned();
        let mut spec = LogSpec { targets: vec![(noisy, LogLevel::Debug)], ..LogSpec::default() };
        let log = Log::begin(Some(path.clone()), &spec).unwrap();
        for n in 0..1_000 {
            tracing::warn!(n, "the same again");
            tracing::debug!(n, "not asked for");
        }
        tracing::info!("another kind");
        tracing::debug!(target: "clearway::log::tests::noisy", "asked for by its target");
        log.settle();
        let said = std::fs::read_to_string(&path).unwrap();
        assert_eq!(said.matches("the same again").count(), BURST as usize, "{said}");
        assert!(
            said.contains("another kind")
                && said.contains("asked for by its target")
                && said.contains("more=980")
                && !said.contains("not asked for"),
            "{said}"
        );
        assert!(
            said.lines().all(|line| {
                ["Z  WARN ", "Z  INFO ", "Z DEBUG "].iter().any(|level| line.contains(level))
            }),
            "{said}"
        );
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let moved = folder.join("host.log.1");
        std::fs::rename(&path, &moved).unwrap();
        spec.level = LogLevel::Debug;
        log.reopen(&spec).unwrap();
        tracing::debug!("after it was moved away");
        assert!(std::fs::read_to_string(&path).unwrap().contains("after it was moved away"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_line_of_json_has_what_happened_and_each_figure_under_its_own_name() {
        let folder = std::env::temp_dir().join(format!("cwlogj-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("host.log");
        let place = Place { path: None, out: Mutex::new(Some(open(&path).unwrap())) };
        let subscriber = tracing_subscriber::registry().with(json(&Arc::new(place)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(pid = 4711, why = "a \"quoted\" word\nand a line", "cut off");
        });
        let said = std::fs::read_to_string(&path).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        let line: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&line["level"], &line["message"]), (&"WARN".into(), &"cut off".into()));
        assert_eq!((&line["pid"], &line["target"]), (&4711.into(), &"clearway::log::tests".into()));
        assert_eq!(line["why"], "a \"quoted\" word\nand a line");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
