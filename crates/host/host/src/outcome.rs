//! How commands end: what they answer, and why they were not carried out.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod answer;
mod error;

pub use answer::{Answer, Outcome, Output};
pub use error::CommandError;

/// The value behind a lock. Who panicked with it left it whole: every change is made by one
/// assignment.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
