//! The turn of one core: clock, ports, stack, application.
