//! Programs, their memory, and why their sockets stayed with the kernel.

use clearway_session::program::ProgramInfo;
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn apps(&self, verbose: bool) -> Result<Output, CommandError> {
        let programs = self.host.programs()?;
        let mut grid = Grid::new(&[
            ">App",
            "Name",
            "Namespace",
            "Processes",
            ">Sessions",
            ">Listeners",
            ">Memory",
        ]);
        for program in &programs {
            grid.row([
                program.app.to_string(),
                program.name.clone(),
                program.namespace.clone(),
                pids(program),
                program.sessions.to_string(),
                program.listeners.to_string(),
                program.memory.to_string(),
            ]);
        }
        let mut text = grid.text_or("No program is attached.");
        if verbose {
            programs.iter().for_each(|program| text.push_str(&detail(program)));
        }
        let apps: Vec<Value> = programs.iter().map(app_json).collect();
        Ok(Output::new(text, json!({ "apps": apps })))
    }

    pub(super) fn namespaces(&self) -> Output {
        let namespaces = self.host.namespaces();
        let namespaces = crate::outcome::locked(&namespaces);
        let mut grid =
            Grid::new(&["Namespace", ">Table", "Interface", "Secret", ">Attached", ">Refused"]);
        let mut json = Vec::new();
        for namespace in namespaces.iter() {
            let spec = &namespace.spec;
            let has_secret = spec.secret.is_some();
            let table = self.table(spec.table);
            let interface = spec.interface.clone().unwrap_or_default();
            let secret = if has_secret { "set" } else { "none" };
            let (attached, refused) = (namespace.attached, namespace.refused);
            grid.row([
                spec.id.clone(),
                table.to_string(),
                interface,
                secret.into(),
                attached.to_string(),
                refused.to_string(),
            ]);
            let limits = json!({
                "sessions": spec.limits.sessions,
                "listeners": spec.limits.listeners,
                "processes": spec.limits.processes,
                "memory": spec.limits.memory,
            });
            json.push(json!({
                "id": spec.id,
                "table": table,
                "interface": spec.interface,
                "has-secret": has_secret,
                "attached": attached,
                "refused": refused,
                "limits": limits,
            }));
        }
        Output::new(grid.text(), json!({ "namespaces": json }))
    }

    pub(super) fn segments(&self) -> Result<Output, CommandError> {
        let programs = self.host.programs()?;
        let mut grid = Grid::new(&[">App", "Name", ">Segment", ">Bytes", ">Used"]);
        let mut json = Vec::new();
        for program in &programs {
            for (index, (len, used)) in program.segments.iter().enumerate() {
                let numbers = [index.to_string(), len.to_string(), used.to_string()];
                grid.row(
                    [program.app.to_string(), program.name.clone()].into_iter().chain(numbers),
                );
                json.push(json!({ "app": program.app, "name": program.name, "segment": index,
                        "bytes": len, "used": used }));
            }
        }
        let used: u64 = programs.iter().map(|program| program.memory).sum();
        let mut text = grid.text_or("No program has memory.");
        text.push_str(&format!("{} segments, {used} bytes in use\n", json.len()));
        Ok(Output::new(text, json!({ "segments": json, "used": used })))
    }

    pub(super) fn explain(&self, pid: Option<u32>) -> Result<Output, CommandError> {
        let mut programs = self.host.programs()?;
        if let Some(pid) = pid {
            programs.retain(|program| program.processes.iter().any(|(_, other)| *other == pid));
            if programs.is_empty() {
                return Err(CommandError::Missing(format!(
                    "process {pid} here. It was not started with `clearway run`, has opened no \
                     socket yet, or could not attach"
                )));
            }
        }
        let mut text = String::new();
        for program in &programs {
            let heading = format!(
                "{} (app {}, processes {}, namespace {}): ",
                program.name,
                program.app,
                pids(program),
                program.namespace
            );
            text.push_str(&heading);
            text.push_str(&format!("{} sessions over Clearway\n", program.sessions));
            for (what, why, count) in &program.stayed {
                let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
                text.push_str(&format!("  kernel: {what}: {why}{times}\n"));
            }
            if program.stayed.is_empty() {
                text.push_str("  no socket stayed with the kernel\n");
            }
        }
        if programs.is_empty() {
            text.push_str("No program is attached.\n");
        }
        let programs: Vec<Value> = programs.iter().map(explain_json).collect();
        Ok(Output::new(text, json!({ "programs": programs })))
    }
}

fn pids(program: &ProgramInfo) -> String {
    let pids: Vec<String> = program.processes.iter().map(|(_, pid)| pid.to_string()).collect();
    pids.join(",")
}

fn detail(program: &ProgramInfo) -> String {
    format!(
        "app {}: {} segments, {} of {} bytes of memory in use, {} from the system, {} sockets \
         stayed with the kernel\n",
        program.app,
        program.segments.len(),
        program.memory,
        program.memory_limit,
        program.resident,
        program.stayed.iter().map(|(_, _, count)| count).sum::<u64>()
    )
}

fn app_json(program: &ProgramInfo) -> Value {
    json!({
        "app": program.app,
        "name": program.name,
        "namespace": program.namespace,
        "pids": program.processes.iter().map(|(_, pid)| pid).collect::<Vec<_>>(),
        "sessions": program.sessions,
        "listeners": program.listeners,
        "memory": program.memory,
        "resident": program.resident,
        "memory-limit": program.memory_limit,
    })
}

fn explain_json(program: &ProgramInfo) -> Value {
    let stayed = |(what, why, count): &(String, String, u64)| {
        json!({ "what": what, "why": why,
        "count": count })
    };
    json!({
        "app": program.app,
        "name": program.name,
        "pids": program.processes.iter().map(|(_, pid)| pid).collect::<Vec<_>>(),
        "sessions": program.sessions,
        "kernel": program.stayed.iter().map(stayed).collect::<Vec<_>>(),
    })
}
