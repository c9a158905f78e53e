//! The host itself: its buffers, rules and captures.

use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn buffers(&self) -> Result<Output, CommandError> {
        let rows = self.host.ask_all(|worker| {
            let pool = worker.pool();
            [("small", pool.small()), ("large", pool.large())]
                .map(|(size, pool)| (size, pool.buf_len(), pool.count(), pool.available()))
        })?;
        let mut grid = Grid::new(&[">Worker", "Size", ">Bytes", ">Buffers", ">Free"]);
        let mut json = Vec::new();
        for (worker, pools) in rows.into_iter().enumerate() {
            for (size, len, count, free) in pools {
                grid.row([
                    worker.to_string(),
                    size.into(),
                    len.to_string(),
                    count.to_string(),
                    free.to_string(),
                ]);
                json.push(json!({ "worker": worker, "size": size, "bytes": len, "buffers": count,
                    "free": free }));
            }
        }
        Ok(Output::new(grid.text(), json!({ "buffers": json })))
    }

    pub(super) fn dpdk_version(&self) -> Result<Output, CommandError> {
        let version = clearway_ports::dpdk::version().ok_or(CommandError::NotBuiltIn("DPDK"))?;
        Ok(Output::new(format!("{version}\n"), json!({ "dpdk": version })))
    }

    /// What a port of DPDK's has in its own pools; other ports have none of these buffers.
    pub(super) fn dpdk_buffers(&self) -> Result<Output, CommandError> {
        self.dpdk_version()?;
        let mut grid = Grid::new(&["Name", ">Buffers", ">Free"]);
        let mut json = Vec::new();
        for (name, buffers) in self.driver_buffers()? {
            grid.row([name.clone(), buffers.count.to_string(), buffers.free.to_string()]);
            json.push(json!({ "name": name, "buffers": buffers.count, "free": buffers.free }));
        }
        let text = grid.text_or("There is no interface over a port of DPDK.");
        Ok(Output::new(text, json!({ "buffers": json })))
    }

    pub(super) fn dpdk_memory(&self) -> Result<Output, CommandError> {
        self.dpdk_version()?;
        let Some(memory) = clearway_ports::dpdk::memory() else {
            return Ok(Output::new(
                "DPDK does not run: there is no port of DPDK's.\n".into(),
                json!({ "memory": null }),
            ));
        };
        let kind = if memory.huge { "huge" } else { "plain" };
        let mut grid = Grid::new(&["Pages", ">Bytes", ">Free"]);
        grid.row([kind.into(), memory.bytes.to_string(), memory.free.to_string()]);
        let json =
            json!({ "memory": { "pages": kind, "bytes": memory.bytes, "free": memory.free } });
        Ok(Output::new(grid.text(), json))
    }

    pub(super) fn acl(&self) -> Result<Output, CommandError> {
        let rules = self.view.packets.rules();
        let mut grid = Grid::new(&[">Rule", "Action", "What", ">Packets", ">Bytes"]);
        let mut json: Vec<Value> = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            let (action, what) = (rule.action(), rule.text());
            grid.row([
                number.to_string(),
                action.into(),
                what.clone(),
                rule.packets.to_string(),
                rule.bytes.to_string(),
            ]);
            json.push(
                json!({ "rule": number, "action": action, "what": what, "packets": rule.packets,
                    "bytes": rule.bytes }),
            );
        }
        Ok(Output::new(
            grid.text_or("There is no rule: every packet passes."),
            json!({ "rules": json }),
        ))
    }

    pub(super) fn pcap(&self) -> Output {
        self.view.packets.status()
    }
}
