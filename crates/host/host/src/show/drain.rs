//! Whether the host is drained, and which connections are left.

use clearway_proto::counters::Drop;
use clearway_session::sessions::Left;
use serde_json::json;

use super::look::Look;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn drain(&self) -> Result<Output, CommandError> {
        let rows = self.host.ask_all(|worker| {
            let kept_out = worker.stack().counters().drops(Drop::TcpDraining);
            let now = worker.time().now;
            let (sessions, stack) = worker.both();
            (sessions.left(stack), kept_out, now)
        })?;
        let left = rows.iter().fold(Left::default(), |sum, (left, ..)| sum + *left);
        let kept_out: u64 = rows.iter().map(|(_, kept_out, _)| kept_out).sum();
        let Left { open, waiting, closing } = left;
        let total = left.total();
        let drain = self.view.drain;
        let now = rows.first().map(|(.., now)| *now);
        let seconds =
            drain.zip(now).map(|(drain, now)| now.since(drain.since).as_nanos() / 1_000_000_000);
        let first = match drain {
            None => "The host is not drained: new connections are taken.\n".into(),
            Some(drain) => format!(
                "The host is drained since {} s: {}.\n",
                seconds.unwrap_or(0),
                drain.mode_name()
            ),
        };
        let text = format!(
            "{first}Connections from other machines: {total} (open {open}, waiting {waiting}, \
             closing {closing})\nSYNs kept out since the host began: {kept_out}\n"
        );
        let json = json!({
            "draining": drain.is_some(),
            "mode": drain.map(|drain| drain.mode_name()),
            "seconds": seconds,
            "connections": total,
            "open": open,
            "waiting": waiting,
            "closing": closing,
            "kept-out": kept_out,
        });
        Ok(Output::new(text, json))
    }
}
