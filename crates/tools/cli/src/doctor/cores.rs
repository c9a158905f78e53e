//! Cores: who else runs on them, how fast they are, and what a look at the clock costs.

use super::Findings;
use super::files::{Files, list};

const CPU: &str = "sys/devices/system/cpu";

fn online(files: &Files) -> Vec<u32> {
    list(&files.text(&format!("{CPU}/online")).unwrap_or_default())
}

/// Cores kept free of other work.
pub(super) fn isolation(files: &Files, found: &mut Findings) {
    let cores = online(files);
    if cores.is_empty() {
        return;
    }
    let isolated = files.text(&format!("{CPU}/isolated")).unwrap_or_default();
    let no_tick = files.text(&format!("{CPU}/nohz_full")).unwrap_or_default();
    if list(&isolated).is_empty() {
        if cores.len() < 4 {
            return found.info(
                "isolation",
                format!(
                    "{} cores, none kept for one program; with so few that is as well",
                    cores.len()
                ),
            );
        }
        let kept = format!("{}-{}", cores[cores.len() / 2], cores[cores.len() - 1]);
        return found.advice(
            "isolation",
            format!(
                "{} cores, and any program may run on each; a core of its own makes latency even",
                cores.len()
            ),
            format!(
                "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus={kept} nohz_full={kept} \
                 rcu_nocbs={kept} /' /etc/default/grub && update-grub && reboot"
            ),
        );
    }
    let ticks = list(&isolated).iter().any(|core| !list(&no_tick).contains(core));
    let ticks = if ticks {
        ", with the kernel's tick (nohz_full would stop it)"
    } else {
        ", without the kernel's tick"
    };
    found.ok(
        "isolation",
        format!(
            "cores {isolated} are kept for programs that ask for them{ticks}: --cores {isolated}"
        ),
    );
}

/// Two hardware threads of one core share its units.
pub(super) fn siblings(files: &Files, found: &mut Findings) {
    if files.number(&format!("{CPU}/smt/active")) != Some(1) {
        return;
    }
    let siblings =
        |core: &u32| files.text(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"));
    let cores = online(files);
    let first: Vec<String> = cores.iter().filter_map(siblings).take(1).collect();
    if let Some(pair) = first.first() {
        found.info(
            "smt",
            format!("hardware threads share cores (such as {pair}); give --cores one of each"),
        );
    }
}

/// A core that saves power takes its time to wake.
pub(super) fn governor(files: &Files, found: &mut Findings) {
    let governor = |core: &u32| files.text(&format!("{CPU}/cpu{core}/cpufreq/scaling_governor"));
    let cores = online(files);
    let governors: Vec<(u32, String)> =
        cores.iter().filter_map(|core| Some((*core, governor(core)?))).collect();
    match governors.iter().find(|(_, governor)| governor != "performance") {
        Some((core, governor)) => found.advice(
            "governor",
            format!("core {core} runs as `{governor}` says, so it slows down when it is idle"),
            "cpupower frequency-set -g performance",
        ),
        None if governors.is_empty() => {
            found.info("governor", "the frequency is not this system's to choose")
        }
        None => found.ok("governor", "cores run at full speed"),
    }
}

/// Every turn of the engine looks at the clock once.
pub(super) fn clock(files: &Files, found: &mut Findings) {
    const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";
    let Some(current) =
        files.text(&format!("{CLOCK}/current_clocksource")).filter(|name| !name.is_empty())
    else {
        return;
    };
    // Those that are read without a system call.
    let quick = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
    if quick.contains(&current.as_str()) {
        return found.ok("clock", format!("the clock source is {current}"));
    }
    let available = files.text(&format!("{CLOCK}/available_clocksource")).unwrap_or_default();
    match available.split_whitespace().find(|name| quick.contains(name)) {
        Some(better) => found.advice(
            "clock",
            format!("the clock source is {current}, which is slow to read"),
            format!("echo {better} > /{CLOCK}/current_clocksource"),
        ),
        None => found.info(
            "clock",
            format!("the clock source is {current}, which is slow to read; there is no other"),
        ),
    }
}

/// With it, and Linux 6.18, a group that hands its core around a great deal may keep it for
/// seconds (docs/performance.md).
pub(super) fn autogroup(files: &Files, found: &mut Findings) {
    match files.number("proc/sys/kernel/sched_autogroup_enabled") {
        Some(0) => found.ok("autogroup", "programs share a core whatever session they are of"),
        Some(_) => found.advice(
            "autogroup",
            "programs of several sessions that share a core may stand for seconds",
            "sysctl -w kernel.sched_autogroup_enabled=0    # for good: echo \
             kernel.sched_autogroup_enabled=0 > /etc/sysctl.d/81-clearway.conf",
        ),
        None => {}
    }
}
