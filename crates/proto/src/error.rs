//! Filled by the authors of the core.
