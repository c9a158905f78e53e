//! Several processes at one listener: who of them is woken for a connection.

use clearway_base::Duration;
use clearway_shm::attach_socket::{Kind, Request};
use clearway_shm::layout::{request, state};

use crate::guest::{Guest, Sock, hello};
use crate::minute::StillHost;

const ADDRESS: &str = "172.16.1.1:80";

/// A listener that a process and those that it forked hold.
struct Shared {
    host: StillHost,
    listener: Sock,
    parent: Guest,
    children: Vec<Guest>,
    client: Guest,
}

impl Shared {
    fn new(name: &str) -> Shared {
        let host = StillHost::new(name);
        let parent = Guest::attach(&host.attach_socket, hello("server", None)).unwrap();
        let listener = parent.listener(ADDRESS);
        let child = |_| {
            let mut inherit = hello("", None);
            inherit.inherit = Some(parent.welcome.token);
            let child = Guest::attach(&host.attach_socket, inherit).unwrap();
            child.ask(Request::Subscribe { session: listener.session.id }).unwrap();
            child
        };
        let children = (0..4).map(child).collect();
        let client = Guest::attach(&host.attach_socket, hello("client", None)).unwrap();
        Shared { host, listener, parent, children, client }
    }

    /// A connection comes, and the host has turned since.
    fn connect(&self) -> Sock {
        let mut ours = self.client.open(Kind::Stream, false).unwrap();
        self.client.begin(&mut ours, ADDRESS.parse().unwrap()).unwrap();
        self.client.wait_for(|| ours.state() & state::CONNECTED != 0);
        self.host.tick(Duration::ZERO);
        ours
    }

    /// Which of the children were woken.
    fn notified(&self) -> Vec<usize> {
        (0..self.children.len()).filter(|at| self.children[*at].is_rung()).collect()
    }
}

#[test]
fn one_of_those_that_wait_is_woken_for_each_connection_in_turn() {
    let mut shared = Shared::new("turns");
    // The parent sleeps, and one of its children, for something else.
    shared.parent.lie_down(&shared.listener);
    shared.children[3].lie_down(&shared.listener);
    for child in &shared.children[..3] {
        child.lie_down_to_accept(&shared.listener);
    }
    let mut turns = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..9 {
        ours.push(shared.connect());
        let notified = shared.notified();
        assert_eq!(notified.len(), 1, "{notified:?}");
        let child = &shared.children[notified[0]];
        child.get_up_from_accept(&shared.listener);
        child.accept(&mut shared.listener);
        child.lie_down_to_accept(&shared.listener);
        turns.extend(notified);
    }
    turns[..3].sort_unstable();
    assert_eq!(turns[..3], [0, 1, 2], "everybody's turn came");
    assert_eq!(turns[3..6], turns[6..], "and comes again, in the same order");
    assert!(!shared.parent.is_rung(), "it does not wait for connections");
}

#[test]
fn connections_that_come_while_one_is_being_woken_wake_others() {
    let shared = Shared::new("several");
    shared.children.iter().for_each(|child| child.lie_down_to_accept(&shared.listener));
    let _ours: Vec<_> = (1..=3)
        .map(|notified| (shared.connect(), assert_eq!(shared.notified().len(), notified)))
        .collect();
}

#[test]
fn a_connection_that_is_not_taken_soon_wakes_everybody() {
    let shared = Shared::new("late");
    shared.parent.lie_down(&shared.listener);
    shared.children.iter().for_each(|child| child.lie_down_to_accept(&shared.listener));
    let _ours = shared.connect();
    assert_eq!(shared.notified().len(), 1);
    shared.host.tick(Duration::from_micros(4_900));
    assert_eq!(shared.notified().len(), 1);
    shared.host.tick(Duration::from_micros(200));
    assert_eq!(shared.notified().len(), 4);
    assert!(shared.parent.is_rung());
}

#[test]
fn where_nobody_is_known_to_wait_everybody_is_woken() {
    let shared = Shared::new("unknown");
    shared.children.iter().for_each(|child| child.lie_down(&shared.listener));
    let _ours = shared.connect();
    assert_eq!(shared.notified().len(), 4);
}

/// A process that has closed its last descriptor of a connection says so, when another may hold it.
#[test]
fn who_has_left_a_connection_is_not_woken_for_what_comes_there() {
    let mut shared = Shared::new("left");
    let mut ours = shared.connect();
    let (parent, child) = (&shared.parent, &shared.children[0]);
    let theirs = parent.accept(&mut shared.listener);
    child.ask(Request::Subscribe { session: theirs.session.id }).unwrap();
    let mut ask = || {
        shared.children[1..].iter().chain([&shared.client]).for_each(Guest::get_up);
        [parent, child].iter().for_each(|guest| guest.lie_down(&theirs));
        assert_eq!(shared.client.write_some(&mut ours, b"?"), 1);
        shared.host.tick(Duration::ZERO);
        let woken = [parent, child].map(Guest::is_rung);
        [parent, child].iter().for_each(|guest| guest.get_up());
        woken
    };
    assert_eq!(ask(), [true, true], "both hold it");
    parent.say(&theirs.session, request::LEAVE, 0);
    assert_eq!(ask(), [false, true]);
    // It may come by it again.
    parent.ask(Request::Subscribe { session: theirs.session.id }).unwrap();
    assert_eq!(ask(), [true, true]);
}
