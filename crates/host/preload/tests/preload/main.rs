//! C programs that know nothing of Clearway, run over the kernel alone, with the library but no
//! host, and over a host: the output must be the same.
//!
//! They need a C compiler and the `clearway` command; without them they say that they are skipped,
//! or fail where `CI` is set.

use std::os::unix::fs::MetadataExt as _;

use crate::world::{
    Host, PROGRAMS, build, build_static, build_with_module, compare, plain, preloaded, prepared,
    trapped,
};

mod world;

/// The kernel's own addresses.
const KERNEL: [&str; 2] = ["127.0.0.1", "::1"];

#[test]
fn without_a_host_everything_is_as_it_was() {
    if !prepared(false) {
        return;
    }
    for program in PROGRAMS {
        let path = build(program);
        for addr in KERNEL {
            compare(
                &format!("{program} {addr} without a host"),
                &plain(&path, addr),
                &preloaded(&path, addr, &[]),
            );
        }
    }
}

#[test]
fn with_a_host_the_kernels_addresses_stay_the_kernels() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    for program in PROGRAMS {
        let path = build(program);
        compare(
            &format!("{program} beside a host"),
            &plain(&path, KERNEL[0]),
            &preloaded(&path, KERNEL[0], &host.environment()),
        );
    }
}

/// Runs a program over the host, IPv4 and IPv6, and compares it with the kernel.
fn over_a_host(program: &str) {
    over_a_host_built(program, build);
}

fn over_a_host_built(program: &str, build: impl Fn(&str) -> crate::world::Program) {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build(program);
    for (kernels, ours) in KERNEL.into_iter().zip(Host::ADDRESSES) {
        compare(
            &format!("{program} over Clearway"),
            &plain(&path, kernels),
            &preloaded(&path, ours, &host.environment()),
        );
    }
}

#[test]
fn errno_for_errno() {
    over_a_host("errnos");
}

#[test]
fn pointers_that_lead_nowhere() {
    over_a_host("faults");
}

#[test]
fn a_child_without_what_belongs_to_a_thread_makes_system_calls() {
    over_a_host("bare");
}

#[test]
fn processes_that_confined_themselves_take_what_comes() {
    over_a_host("filtered");
}

#[test]
fn processes_share_sockets() {
    over_a_host("forks");
}

#[test]
fn programs_that_are_executed_keep_their_sockets() {
    over_a_host("execs");
}

#[test]
fn what_a_process_has_ahead_of_need_is_not_seen() {
    over_a_host("ahead");
}

#[test]
fn connections_that_are_made_by_a_message_are_as_any() {
    over_a_host("connects");
}

#[test]
fn edge_triggered_sets_of_both_kinds() {
    over_a_host("edges");
}

#[test]
fn threads_of_one_process() {
    over_a_host("threads");
}

#[test]
fn listeners_that_wait_change_and_end() {
    over_a_host("listeners");
}

#[test]
fn a_port_that_the_kernel_gave_is_good_for_a_connection() {
    over_a_host("ephemeral");
}

#[test]
fn a_port_by_number_is_anothers_while_its_connection_closes() {
    over_a_host("reserved");
}

/// A table of pairs: more than two thousand, and as many lines.
#[test]
fn who_may_have_a_port_beside_whom() {
    over_a_host("binds");
}

#[test]
fn sockets_that_are_bound_to_the_wildcard_of_ipv4_leave_ipv6_alone() {
    over_a_host("mapped");
}

#[test]
fn streams_that_are_bound_without_a_port_get_theirs_with_the_connection() {
    over_a_host("portless");
}

#[test]
fn one_port_is_for_as_many_as_share_it() {
    over_a_host("shared");
}

#[test]
fn what_one_process_shuts_wakes_those_that_wait_in_others() {
    over_a_host("shuts");
}

#[test]
fn what_one_process_connects_is_connected_in_all() {
    over_a_host("connected");
}

#[test]
fn who_has_no_descriptor_left_uses_the_sockets_that_are_there() {
    over_a_host("full");
}

/// For each way to wait, how many connections each of the processes had.
fn shares(run: &world::Run) -> Vec<(String, Vec<u32>)> {
    let line = |line: &str| {
        let (way, counts) =
            line.split_once(" failed 0:").unwrap_or_else(|| panic!("connections failed: {line}"));
        (
            way.to_owned(),
            counts.split_whitespace().map(|count| count.parse().expect("a number")).collect(),
        )
    };
    run.stdout.lines().map(line).collect()
}

/// Connections of each program of `spread.c`, and the processes that share them.
const SPREAD: (u32, u32) = (400, 4);

/// The kernel wakes one process in turn where processes block in `accept`, and has them race
/// otherwise. So what is asked is that everybody has a fifth of an even share at least, in each way
/// to wait: without turns the same process wins nearly always.
#[test]
fn processes_that_wait_at_one_listener_share_its_connections() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("spread");
    let (all, processes) = SPREAD;
    let kernels = shares(&plain(&path, KERNEL[0]));
    let ways: Vec<_> = kernels.iter().map(|(way, _)| way.as_str()).collect();
    assert_eq!(ways, ["accept", "poll", "epoll", "exclusive"]);
    assert!(kernels.iter().all(|(_, had)| had.iter().sum::<u32>() == all), "{kernels:?}");
    for address in Host::ADDRESSES {
        let ours = shares(&preloaded(&path, address, &host.environment()));
        assert_eq!(ours.iter().map(|(way, _)| way.as_str()).collect::<Vec<_>>(), ways, "{ours:?}");
        for (way, had) in &ours {
            assert_eq!(had.iter().sum::<u32>(), all, "{way}: {ours:?}");
            let least = had.iter().min().expect("four processes");
            assert!(*least >= all / processes / 5, "{way}: {ours:?}; the kernel: {kernels:?}");
        }
    }
}

#[test]
fn streams_of_the_c_library() {
    over_a_host("streams");
}

#[test]
fn what_is_held_back_leaves_after_a_while() {
    over_a_host("corks");
}

#[test]
fn system_calls_by_their_numbers() {
    over_a_host("numbers");
}

#[test]
fn standard_streams_that_become_connections() {
    over_a_host("redirected");
}

#[test]
fn bytes_that_go_round_the_library_are_refused_and_not_lost() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("astray");
    let expected = "\
write: -1 EPIPE
SIGPIPE: 0
send: 4
recv: 4
text: good
read: -1 EAGAIN
recv: 5
io_uring_setup: -1 ENOSYS
a ring's write: refused
connect: 0
write: -1 EPIPE
read: -1 EAGAIN
recv: -1 EAGAIN
";
    for addr in Host::ADDRESSES {
        let run = preloaded(&path, addr, &host.environment());
        assert_eq!(run.stdout, expected, "{}", run.stderr);
    }
}

/// What `interfaces.c` says of the namespace's interface.
const LOOP0: &str = "\
loop0: packet, hatype 772 mask none up loopback counted
loop0: 172.16.1.1 mask 255.255.255.0 up loopback
loop0: fd00:1::1 mask ffff:ffff:ffff:ffff:: up loopback
loop0: 172.17.0.1 mask 255.255.0.0 up loopback
others: 1
index: as if_nametoindex
name: loop0
address: 172.16.1.1
netmask: 255.255.255.0
mtu: a loopback's
flags: 9
among all: 172.16.1.1, netmask 255.255.255.0
among all: 172.17.0.1, netmask 255.255.0.0
of no name: ENODEV
and back: loop0
no name: 0 ENODEV
listed: with its index
in the file: fd000001000000000000000000000001/64, scope 0, flags 80, with its index
a link: type 772 up, without:, in 64 bits more more more more, in 32 bits more more more more
a link: type 772 up, without:, in 64 bits more more more more, in 32 bits more more more more
an address: 172.16.1.1/24
an address: 172.17.0.1/16
an address: 172.16.1.1/24
an address: fd00:1::1/64
an address: 172.17.0.1/16
an address: 172.16.1.1/24
an address: fd00:1::1/64
an address: 172.17.0.1/16
of others: 0, then EAGAIN
by index alone: answered, of its length, to us: a link of type 772 up, the index, flags 0, loop0 answered, of its length, to us: acknowledged, 0; then EAGAIN
loop0 alone: answered, of its length, to us: a link of type 772 up, the index, flags 0, loop0 answered, of its length, to us: acknowledged, 0; then EAGAIN
nothing alone: answered, of its length, to us: acknowledged, -19; then EAGAIN
by index alone: answered, of its length, to us: acknowledged, -19; then EAGAIN
";

#[test]
fn programs_are_shown_the_namespaces_interfaces_beside_the_kernels() {
    if !prepared(true) {
        return;
    }
    let host = Host::start_with("set interface ip address loop0 172.17.0.1/16\n");
    let path = build("interfaces");
    let both = host.environment();
    let run = preloaded(&path, "loop0", &both);
    assert_eq!(run.stdout, LOOP0, "{}", run.stderr);
    // Where the kernel has no other interface there is ours.
    let mut kernels = plain(&path, "lo");
    kernels.stdout = kernels.stdout.replace("others: 0\n", "others: 1\n");
    compare("the kernel's beside ours", &kernels, &preloaded(&path, "lo", &both));
    let with = |whose: &str| {
        let mut environment = host.environment();
        environment.push(("CLEARWAY_INTERFACES", whose.to_owned()));
        environment
    };
    let alone = preloaded(&path, "loop0", &with("clearway"));
    assert_eq!(alone.stdout, LOOP0.replace("others: 1", "others: 0"), "{}", alone.stderr);
    let kernels = preloaded(&path, "loop0", &with("kernel"));
    assert!(kernels.stdout.starts_with("others: 1\nindex: ENODEV\n"), "{}", kernels.stdout);
}

#[test]
fn options_do_what_they_do_on_linux() {
    over_a_host("options");
}

#[test]
fn control_messages_are_those_of_the_family_that_a_datagram_goes_over() {
    over_a_host("beside");
}

#[test]
fn sockets_are_used_for_something_else_afterwards() {
    over_a_host("again");
}

#[test]
fn owners_of_streams_are_told_of_urgent_data() {
    over_a_host("owners");
}

#[test]
fn what_comes_and_leaves_is_stamped_as_on_linux() {
    over_a_host("stamps");
}

#[test]
fn data_leaves_with_the_syn_where_it_may_and_programs_see_no_difference() {
    if !prepared(true) {
        return;
    }
    let path = build("early");
    // Without a server that gives cookies, and with one.
    for (settings, early) in
        [("", false), ("[tcp]\nfast-open = 3\n", true), ("[tcp]\nfast-open = 2\n", false)]
    {
        let host = Host::configured("", settings);
        for (kernels, ours) in KERNEL.into_iter().zip(Host::ADDRESSES) {
            compare("early", &plain(&path, kernels), &preloaded(&path, ours, &host.environment()));
        }
        // Of either family, all connections but the first of those that ask.
        let expected = if early { 2 * 7 } else { 0 };
        let both = (host.counter("fast-open-active"), host.counter("fast-open-passive"));
        assert_eq!(both, (expected, expected), "with {settings:?}");
    }
}

#[test]
fn sockets_are_bound_to_the_namespaces_interface() {
    if !is_root() || !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("device");
    compare("device", &plain(&path, "lo"), &preloaded(&path, "loop0", &host.environment()));
}

#[test]
fn groups_on_an_interface_of_clearways() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("groups");
    // The kernel sends to no group of IPv6 by its loopback, so what it says of IPv4 is what is
    // right for both.
    let kernels = plain(&path, KERNEL[0]);
    assert!(kernels.stdout.contains("heard: joined before"), "{}", kernels.stdout);
    for ours in Host::ADDRESSES {
        compare("groups", &kernels, &preloaded(&path, ours, &host.environment()));
    }
    let host = Host::start_with("ip route add 239.0.0.0/8 via 172.16.1.2 loop0\n");
    let mut environment = host.environment();
    environment.push(("GROUPS_ROUTED", "1".to_owned()));
    let routed = preloaded(&path, Host::ADDRESSES[0], &environment);
    let heard = routed.stdout.matches("heard: by the route").count();
    assert_eq!(heard, 4, "{}", routed.stdout);
}

#[test]
fn however_a_process_parts_from_a_socket_what_it_wrote_arrives() {
    over_a_host("endings");
}

#[test]
fn children_in_their_parents_memory_end_alone_and_rights_are_given_up_by_all_threads() {
    over_a_host("spawned");
}

#[test]
fn sockets_without_an_address_are_served_as_soon_as_their_port_is_told_or_they_are_handed_over() {
    over_a_host("waited");
}

#[test]
fn who_waits_at_a_socket_before_it_has_an_address_is_told_what_comes_to_it_afterwards() {
    over_a_host("replaced");
}

#[test]
fn children_that_are_forked_while_threads_use_their_first_sockets_use_sockets() {
    over_a_host("beginnings");
}

#[test]
fn modules_that_look_for_functions_in_themselves_first_find_the_librarys() {
    over_a_host_built("modules", build_with_module);
}

#[test]
fn functions_are_taken_over_by_their_other_names_too() {
    over_a_host("aliases");
}

#[test]
fn functions_that_call_others_inside_of_the_c_library_mean_the_same_sockets() {
    over_a_host("composed");
}

#[test]
fn functions_that_are_looked_up_in_the_c_library_are_those_of_this_one() {
    over_a_host("symbols");
}

#[test]
fn numbers_that_were_closed_unseen_are_what_they_are_given_out_for() {
    over_a_host("reused");
}

#[test]
fn sockets_that_are_handed_to_processes_of_other_programs_work_there() {
    over_a_host("strangers");
}

#[test]
fn sockets_that_go_to_another_process_undecided_are_decided_there() {
    over_a_host("undecided");
}

#[test]
fn handlers_on_short_stacks_use_sockets() {
    over_a_host("altstacks");
}

#[test]
fn programs_that_a_process_executes_with_another_effective_user_have_the_library() {
    over_a_host("effective");
}

/// What `scoped.c` says where `loop0` has a link-local address.
const SCOPED: &str = "\
getaddrinfo: 0, on loop0
bound: on loop0
connected: 0 from fe80::7, on loop0
to fe80::7, on loop0
accepted from fe80::7, on loop0
sent: 5, came 5 from fe80::7, on loop0
answered: 6, came 6
to nobody's interface: ENODEV or ENETUNREACH
";

#[test]
fn link_local_addresses_are_said_with_their_interface() {
    if !prepared(true) {
        return;
    }
    let host = Host::start_with("set interface ip address loop0 fe80::7/64\n");
    let path = build("scoped");
    let run = preloaded(&path, "fe80::7%loop0", &host.environment());
    assert_eq!(run.stdout, SCOPED, "{}", run.stderr);
}

#[test]
fn signals_while_blocked() {
    over_a_host("signals");
}

/// A call looks for a while before it sleeps, and a signal may come then. Here it looks for longer
/// than the program lives, so that every signal comes then; and as it does by default.
#[test]
fn signals_while_a_call_looks() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("interrupts");
    let kernels = plain(&path, KERNEL[0]);
    let mut environment = host.environment();
    compare(
        "interrupts over Clearway",
        &kernels,
        &preloaded(&path, Host::ADDRESSES[0], &environment),
    );
    environment.push(("CLEARWAY_SPIN_US", "600000000".to_owned()));
    compare(
        "interrupts over Clearway that looks without end",
        &kernels,
        &preloaded(&path, Host::ADDRESSES[0], &environment),
    );
}

#[test]
fn handlers_that_do_not_come_back_or_that_call_again() {
    over_a_host("handlers");
}

#[test]
fn close_waits_as_so_linger_says() {
    over_a_host("lingers");
}

/// Whether we may change the user. Without, these tests say so, or fail where `CI` is set.
fn is_root() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|is| is.uid() == 0);
    assert!(
        root || std::env::var_os("CI").is_none(),
        "changing the user needs root, and with CI set nothing may be skipped"
    );
    if !root {
        eprintln!("SKIPPED: changing the user needs root");
    }
    root
}

#[test]
fn children_that_change_user_and_root_and_confine_themselves_go_on_with_their_sockets() {
    if is_root() {
        over_a_host("rights");
    }
}

#[test]
fn programs_executed_without_the_variables_and_receivers_of_descriptors_have_the_sockets() {
    over_a_host("handed");
}

/// Not the namespace's secret, and no word of any message.
const OTHER_SECRET: &str = "4321-unlike-any-word";

#[test]
fn a_wrong_secret_is_said_and_never_falls_back_to_the_kernel() {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    let path = build("refused");
    let mut environment = host.environment();
    environment.retain(|(name, _)| *name != "CLEARWAY_SECRET");
    environment.push(("CLEARWAY_SECRET", OTHER_SECRET.to_owned()));
    let run = preloaded(&path, Host::ADDRESSES[0], &environment);
    assert_eq!(run.stdout, "connect: ECONNREFUSED\nbind: EACCES\nthe kernel's loopback: 0\n");
    assert!(run.stderr.contains("clearway: ") && run.stderr.contains("refused"), "{}", run.stderr);
    assert!(!run.stderr.contains(OTHER_SECRET), "the secret was shown: {}", run.stderr);
}

#[test]
fn a_required_host_that_is_absent_is_an_error() {
    if !prepared(false) {
        return;
    }
    let path = build("refused");
    let required = ("CLEARWAY_REQUIRED", "1".to_owned());
    let run = preloaded(&path, "172.16.1.1", &[required]);
    assert_eq!(run.stdout, "connect: ECONNREFUSED\nbind: EACCES\nthe kernel's loopback: 0\n");
    assert!(run.stderr.contains("no host at"), "{}", run.stderr);
}

/// The loopback's addresses are the namespace's there.
#[test]
fn no_address_at_all_means_this_machine() {
    if !prepared(true) {
        return;
    }
    let host = Host::start_with(
        "set interface ip address loop0 127.0.0.1/8\nset interface ip address loop0 ::1/128\n",
    );
    let program = build("unspecified");
    let expected = plain(&program, "");
    compare("over Clearway", &expected, &preloaded(&program, "", &host.environment()));
    assert_eq!(host.counter("active-opens"), 19, "streams");
}

/// With a C library of their own, which makes all its system calls itself.
#[cfg(target_arch = "x86_64")]
const TRAPPED: [&str; 31] = [
    "errnos",
    "numbers",
    "forks",
    "threads",
    "edges",
    "execs",
    "interrupts",
    "handlers",
    "lingers",
    "endings",
    "listeners",
    "options",
    "stamps",
    "streams",
    "redirected",
    "handed",
    "strangers",
    "undecided",
    "altstacks",
    "waited",
    "beginnings",
    "replaced",
    "spawned",
    "connects",
    "faults_handled",
    "mapped",
    "owners",
    "beside",
    "again",
    "composed",
    "reused",
];

/// Each of them says over Clearway what it says over the kernel.
#[cfg(target_arch = "x86_64")]
fn trapped_over_a_host(how: &str, build: impl Fn(&str) -> crate::world::Program) {
    if !prepared(true) {
        return;
    }
    let host = Host::start();
    for program in TRAPPED {
        let path = build(program);
        compare(
            &format!("{program}, {how}, over Clearway"),
            &plain(&path, KERNEL[0]),
            &trapped(&path, Host::ADDRESSES[0], &host.environment()),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn statically_linked_programs_see_no_difference_when_their_calls_are_trapped() {
    trapped_over_a_host("statically linked", build_static);
}

/// As programs in Go that call C are, whose own system calls a library does not see. The loader and
/// the C library are then the program's, and trapped too.
#[cfg(target_arch = "x86_64")]
#[test]
fn dynamically_linked_programs_see_no_difference_when_their_calls_are_trapped() {
    trapped_over_a_host("with its loader", build);
}
