//! Which cores to run on.

use std::fmt;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A list of cores such as `0`, `0,1` or `0-3,6`; one thread runs on each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cores(Vec<usize>);

/// Why a text is no list of cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoresError(String);

impl fmt::Display for CoresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CoresError {}

impl Cores {
    /// The cores, in the order given.
    pub fn list(&self) -> &[usize] {
        &self.0
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl FromStr for Cores {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Cores, CoresError> {
        let wrong = |word: &str| {
            CoresError(format!("`{word}` is no core: write a list such as 0 or 0,1 or 0-3"))
        };
        let mut cores = Vec::new();
        for word in text.split(',') {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n < CpuSet::count());
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(wrong(word));
            };
            if first > last {
                return Err(wrong(word));
            }
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(CoresError(format!(
                        "core {core} is named twice: one thread runs on each core"
                    )));
                }
                cores.push(core);
            }
        }
        Ok(Cores(cores))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, core) in self.0.iter().enumerate() {
            write!(f, "{}{core}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// How many cores this process may run on.
pub fn available() -> usize {
    let mine = sched_getaffinity(Pid::from_raw(0));
    mine.map_or(1, |set| {
        (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).count()
    })
    .max(1)
}

/// Why a thread cannot run on a core. Printed, it says which cores there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinError {
    core: usize,
    why: nix::errno::Errno,
    mine: Cores,
    all: String,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PinError { core, why, mine, all } = self;
        write!(
            f,
            "cannot run on core {core}: {why}. This thread may run on {mine}, and this machine \
             has {all}"
        )
    }
}

impl std::error::Error for PinError {}

/// Binds the calling thread to one core.
///
/// # Errors
/// When there is no such core, or this process may not run on it.
pub fn pin(core: usize) -> Result<(), PinError> {
    let mut set = CpuSet::new();
    set.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).map_err(|why| {
        let mine = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let mine = Cores(
            (0..CpuSet::count()).filter(|&core| mine.is_set(core).unwrap_or(false)).collect(),
        );
        let all = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let all =
            if all.trim().is_empty() { "others perhaps".into() } else { all.trim().to_owned() };
        PinError { core, why, mine, all }
    })
}

#[cfg(test)]
mod tests;
