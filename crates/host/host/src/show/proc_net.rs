//! The tables of sockets that Linux has below /proc/net.

use clearway_command::ProcNetTable;
use clearway_shm::attach_socket::SocketTable;
use serde_json::json;

use super::look::Look;
use crate::outcome::{CommandError, Output};
use crate::sockets;

impl Look<'_> {
    /// A table, of one namespace or of all. Asked for piece by piece, as programs ask.
    pub(super) fn proc_net(
        &self,
        table: ProcNetTable,
        namespace: Option<&str>,
    ) -> Result<Output, CommandError> {
        if let Some(id) = namespace {
            let namespaces = self.host.namespaces();
            let namespaces = crate::outcome::locked(&namespaces);
            if !namespaces.iter().any(|namespace| namespace.spec.id == id) {
                return Err(CommandError::Missing(format!("namespace `{id}`")));
            }
        }
        let table = match table {
            ProcNetTable::Tcp => SocketTable::Tcp,
            ProcNetTable::Tcp6 => SocketTable::Tcp6,
            ProcNetTable::Udp => SocketTable::Udp,
            ProcNetTable::Udp6 => SocketTable::Udp6,
        };
        let mut found = Vec::new();
        for worker in 0..self.host.workers() {
            let mut slot = Some(0);
            while let Some(from) = slot {
                let namespace = namespace.map(str::to_owned);
                let (some, next) = self.host.ask(worker, move |worker| {
                    sockets::some(worker, (table, namespace.as_deref()), from)
                })?;
                found.extend(some);
                slot = next;
            }
        }
        let inodes = self.host.inodes()?;
        let lines = sockets::lines(table, 0, &found, &inodes);
        let text = sockets::heading(table) + &lines;
        let json = json!({ "text": text });
        Ok(Output::new(text, json))
    }
}
