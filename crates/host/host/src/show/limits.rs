//! Who has how much of what there is only so much of.

use clearway_session::quota::QuotaInfo;
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    /// What the host, each namespace and each program has and may have, and then the tables of each
    /// worker's stack.
    pub(super) fn limits(&self) -> Result<Output, CommandError> {
        let quotas = self.host.quotas()?;
        let mut grid = Grid::new(&["Who", "What", ">Used", ">Limit", ">Free now"]);
        for quota in &quotas {
            for row in &quota.rows {
                let numbers = [row.used, row.limit, row.free].map(|number| number.to_string());
                grid.row([who(quota), row.thing.into()].into_iter().chain(numbers));
            }
        }
        let mut text = grid.text();
        let tables = self.host.ask_all(|worker| worker.stack().tables())?;
        let mut grid = Grid::new(&[">Worker", "Table", ">Used", ">Limit"]);
        let mut json = Vec::new();
        for (worker, tables) in tables.into_iter().enumerate() {
            for (name, used, limit) in tables {
                grid.row([worker.to_string(), name.into(), used.to_string(), limit.to_string()]);
                json.push(json!({ "worker": worker, "table": name, "used": used, "limit": limit }));
            }
        }
        text.push_str(&grid.text());
        let quotas: Vec<Value> = quotas.iter().map(quota_json).collect();
        Ok(Output::new(text, json!({ "limits": quotas, "tables": json })))
    }
}

fn who(quota: &QuotaInfo) -> String {
    match quota.app {
        Some(app) => format!("app {app} {}", quota.name),
        None if quota.level == "host" => "host".into(),
        None => format!("{} {}", quota.level, quota.name),
    }
}

fn quota_json(quota: &QuotaInfo) -> Value {
    let row = |row: &clearway_session::quota::QuotaRow| {
        let numbers = json!({ "used": row.used, "limit": row.limit, "free": row.free });
        (row.thing.to_owned(), numbers)
    };
    let rows: serde_json::Map<String, Value> = quota.rows.iter().map(row).collect();
    json!({ "level": quota.level, "name": quota.name, "app": quota.app, "things": rows })
}
