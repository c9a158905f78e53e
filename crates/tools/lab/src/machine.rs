//! The machine that something was measured on.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long the time stamp counter is watched.
const TSC_PROBE: Duration = Duration::from_millis(50);

/// What a figure depends on.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name and release of the kernel.
    pub kernel: String,
    /// What the processor says of itself.
    pub cpu: String,
    /// How many cores this program may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The time stamp counter's rate.
    pub tsc_mhz: f64,
    /// Who decides about the cores' clock rate; the hypervisor where this says nothing.
    pub governor: Option<String>,
    /// Huge pages of the size that DPDK asks for first: how many, how many are free, and how large.
    pub huge_pages: String,
    /// What the machine is, where the hypervisor tells.
    pub hypervisor: bool,
}

impl Machine {
    /// Looks.
    pub fn look() -> Machine {
        let cpuinfo = text("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_string())
        };
        let release = text("/proc/sys/kernel/osrelease");
        Machine {
            kernel: format!("{} {}", text("/proc/sys/kernel/ostype").trim(), release.trim()),
            cpu: field("model name")
                .or_else(|| field("CPU part"))
                .unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: clearway_engine::cores::available(),
            memory_gib: (meminfo("MemTotal") as f64 / (1 << 30) as f64 * 10.0).round() / 10.0,
            tsc_mhz: tsc_mhz(),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|name| name.trim().to_string()),
            huge_pages: format!(
                "{} of {} kB, {} free",
                meminfo_number("HugePages_Total"),
                meminfo_number("Hugepagesize"),
                meminfo_number("HugePages_Free")
            ),
            hypervisor: field("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let governor = match (&self.governor, self.hypervisor) {
            (Some(governor), _) => format!("governor {governor}"),
            (None, true) => "a virtual machine, whose hypervisor decides about clock rates".into(),
            (None, false) => "no governor".into(),
        };
        format!(
            "{}, {} cores, {} GiB, TSC {:.0} MHz, {governor}, {}, huge pages: {}",
            self.cpu, self.cores, self.memory_gib, self.tsc_mhz, self.kernel, self.huge_pages
        )
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A number of `/proc/meminfo` in the unit that stands there.
fn meminfo_number(name: &str) -> u64 {
    let text = text("/proc/meminfo");
    let line = text.lines().find(|line| line.split(':').next() == Some(name));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// An amount of `/proc/meminfo` in bytes.
pub(crate) fn meminfo(name: &str) -> u64 {
    meminfo_number(name) << 10
}

/// Whether DPDK finds huge pages enough for the two ends of a link: what it asks for is 256 MiB
/// each.
pub(crate) fn huge_pages_free() -> bool {
    meminfo_number("HugePages_Free") * meminfo("Hugepagesize") >= 512 << 20
}

/// What a process has in memory, in bytes; 0 when it is gone.
pub(crate) fn resident(pid: nix::unistd::Pid) -> u64 {
    let status = text(&format!("/proc/{pid}/status"));
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) << 10
}

/// Processes that wanted to run, on the average of the last minute.
pub(crate) fn load() -> f64 {
    text("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Time of some cores: in all, in which nothing ran, and what the hypervisor gave to others, in
/// ticks.
#[derive(Clone, Copy)]
pub(crate) struct CoreTime {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl CoreTime {
    pub(crate) fn of(cores: &[usize]) -> CoreTime {
        let stat = text("/proc/stat");
        let mut time = CoreTime { all: 0, idle: 0, stolen: 0 };
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let core = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok());
            if core.is_some_and(|core| cores.contains(&core)) {
                // user nice system idle iowait irq softirq steal; what follows is part of the first
                // two.
                let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
                time.all += ticks.iter().sum::<u64>();
                time.stolen += ticks.get(7).copied().unwrap_or(0);
                time.idle += ticks.iter().skip(3).take(2).sum::<u64>();
            }
        }
        time
    }

    /// The share that was stolen since an earlier time.
    pub(crate) fn stolen_since(&self, before: CoreTime) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let stolen = self.stolen.saturating_sub(before.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }

    /// The share of the time since an earlier time in which something ran, of what was not stolen.
    /// None: no time has passed.
    pub(crate) fn busy_since(&self, before: CoreTime) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        let had = all.saturating_sub(self.stolen.saturating_sub(before.stolen));
        let idle = self.idle.saturating_sub(before.idle).min(had);
        (had > 0).then(|| (had - idle) as f64 / had as f64)
    }
}

fn tsc_mhz() -> f64 {
    let (start, from) = (Instant::now(), clearway_hint::cycles());
    std::thread::sleep(TSC_PROBE);
    let (cycles, elapsed) = (clearway_hint::cycles().saturating_sub(from), start.elapsed());
    (cycles as f64 / elapsed.as_secs_f64() / 1e6 * 10.0).round() / 10.0
}

/// A day and time of UTC, from seconds after 1970 began.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that some have more is their last; eras of 400
    // years are all the same.
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::{CoreTime, Machine, utc};

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_gib > 0.1, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux ") && !machine.cpu.is_empty(), "{machine:?}");
    }

    #[test]
    fn what_was_stolen_is_neither_busy_nor_idle() {
        let before = CoreTime { all: 1_000, idle: 500, stolen: 10 };
        let after = CoreTime { all: 1_200, idle: 550, stolen: 110 };
        assert_eq!(after.busy_since(before), Some(0.5));
        assert_eq!(before.busy_since(before), None);
        // Ticks of idle time are counted elsewhere, and may run ahead.
        let ahead = CoreTime { all: 1_100, idle: 700, stolen: 10 };
        assert_eq!(ahead.busy_since(before), Some(0.0));
    }
}
