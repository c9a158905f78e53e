use core::mem::size_of;

use super::*;
use crate::store::Env;
use crate::testing::TestEnv;

#[test]
fn who_traces_nothing_is_told_for_nothing() {
    let addr = Addr::v4([10, 0, 0, 1]);
    // What is handed over lies in registers or is nothing at all; the default does not look.
    TestEnv::trace(Trace::PathMtu { remote: addr, mtu: 1400 });
    assert!(size_of::<Trace<'_>>() <= 64, "{}", size_of::<Trace<'_>>());
}

#[test]
fn both_ends_are_told_as_the_stack_has_them() {
    let (local, remote) = (Addr::v4([10, 0, 0, 1]), Addr::v6([0xfe; 16]));
    let ends = Ends { local: &local, remote: &remote, local_port: 80, remote_port: 4000 };
    assert_eq!(ends.local(), Endpoint::new(local, 80));
    assert_eq!(ends.remote(), Endpoint::new(remote, 4000));
}
