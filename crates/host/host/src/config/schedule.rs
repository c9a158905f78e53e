//! How the system divides the workers' time.

use std::sync::Arc;

use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

use super::settings::{Policy, Settings};
use clearway_session::worker::ThreadHook;

impl Settings {
    /// Sets policy and priority on each worker's thread; None when they are as for every program.
    pub(super) fn thread_hook(&self) -> Option<ThreadHook> {
        let (policy, priority) = (self.policy, self.priority);
        if policy == Policy::Other {
            return None;
        }
        Some(Arc::new(move |_worker| schedule(policy, priority)))
    }
}

fn schedule(policy: Policy, priority: u8) -> Result<(), String> {
    let system = match policy {
        Policy::Other => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other),
        Policy::Batch => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch),
        Policy::Fifo => ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo),
        Policy::RoundRobin => {
            ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin)
        }
    };
    // The other policies know no priority but 0.
    let wanted = if matches!(policy, Policy::Fifo | Policy::RoundRobin) { priority } else { 0 };
    let refused = |error: &dyn std::fmt::Debug| {
        let name = policy.name();
        format!(
            "cannot run under the scheduler policy \"{name}\" with priority {priority}: {error:?}. \
             Root may, and who has CAP_SYS_NICE"
        )
    };
    let value = ThreadPriorityValue::try_from(wanted).map_err(|error| refused(&error))?;
    let done = set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(value),
        system,
    );
    done.map_err(|error| refused(&error))
}
