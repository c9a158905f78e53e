//! What the host tells Prometheus: over HTTP, and as a file for node_exporter.
//!
//! ```text
//!   scrapers ⇄ server (one thread, polls) ── asks ─▶ gatherer (one thread) ── asks ─▶ workers
//!                                         ◀─ rings ─          └── writes ─▶ file
//! ```
//!
//! Whoever scrapes reaches the server only. It has [`talk::MAX_TALKS`] places, each for
//! [`talk::WITHIN`] at most, and asks for one gathering at a time, so that many who ask cost the
//! workers what one costs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clearway_host::{Control, HostHandle, Settings};

use self::gather::Gatherer;
use self::server::Server;

mod gather;
mod server;
mod talk;

/// Both threads. They end when this is dropped.
pub(crate) struct Metrics {
    _server: Option<Server>,
    // Behind the server, which asks it.
    _gatherer: Option<Gatherer>,
}

impl Metrics {
    /// As the settings say; nothing by default.
    pub(crate) fn begin(
        settings: &Settings,
        control: &Arc<Control>,
        host: &HostHandle,
    ) -> anyhow::Result<Metrics> {
        let wanted = &settings.metrics;
        if wanted.listen.is_none() && wanted.file.is_none() {
            return Ok(Metrics { _server: None, _gatherer: None });
        }
        let every = Duration::from_nanos(wanted.file_every.as_nanos());
        let file: Option<(PathBuf, Duration)> = wanted.file.clone().map(|path| (path, every));
        let (gatherer, asker) = Gatherer::begin(Arc::clone(control), host.clone(), file)?;
        let server = wanted.listen.as_ref().map(|address| {
            Server::begin(address, asker)
                .with_context(|| format!("cannot serve metrics at {address}"))
        });
        let server = server.transpose()?;
        if let Some(address) = &wanted.listen {
            tracing::info!(%address, "metrics are served");
        }
        Ok(Metrics { _server: server, _gatherer: Some(gatherer) })
    }
}
