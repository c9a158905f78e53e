//! Servers with the stack inside.

use std::fs;
use std::process::Command;

use crate::world::{PYTHON, Running, World, text};

fn redis(world: &World) -> Running {
    let folder = world.folder.to_str().unwrap();
    let words = ["redis-server", "--save", "", "--protected-mode", "no", "--dir", folder];
    let server = world.start(world.inside(&words), "redis.log");
    server.until("redis answers", || cli(world, &["ping"]) == "PONG\n");
    server
}

fn cli(world: &World, words: &[&str]) -> String {
    let args: Vec<&str> =
        ["20", "redis-cli", "-h", "10.0.0.2"].iter().chain(words).copied().collect();
    String::from_utf8_lossy(&world.netns.run("timeout", &args).stdout).into_owned()
}

#[test]
fn redis_serves_clients_of_the_kernel_from_its_own_process() {
    let Some(world) = World::with(&["redis-server", "redis-cli", "redis-benchmark"]) else {
        return;
    };
    let server = redis(&world);
    assert_eq!(cli(&world, &["set", "key", "value"]), "OK\n");
    assert_eq!(cli(&world, &["get", "key"]), "value\n");
    for pipeline in ["1", "16"] {
        let load =
            ["-h", "10.0.0.2", "-t", "set,get", "-n", "4000", "-c", "20", "-P", pipeline, "--csv"];
        let said = world.netns.text("redis-benchmark", &load);
        assert_eq!(said.lines().count(), 3, "{said}\n{}", server.log());
    }
}

/// redis brings an allocator of its own. `ip netns exec`, by which the others are started, hides the
/// machine's devices from `/sys`; here they are seen, as by most users.
#[test]
fn a_program_with_another_allocator_sees_the_machines_own_devices() {
    let Some(world) = World::with(&["redis-server", "redis-cli", "nsenter"]) else { return };
    let namespace = format!("--net=/run/netns/{}", world.netns.name);
    let mut inside = Command::new("nsenter");
    inside.args([&namespace, "--", env!("CARGO_BIN_EXE_clearway")]);
    inside.args(["run", "--inproc", "--port", "tap:cw0", "-a", "10.0.0.2/24", "--"]);
    inside.args(["redis-server", "--save", "", "--protected-mode", "no"]);
    inside.current_dir(&world.folder);
    let server = world.start(inside, "redis.log");
    server.until("redis answers", || cli(&world, &["ping"]) == "PONG\n");
}

/// The child of BGSAVE has a picture of the parent's memory, the stack's among it.
#[test]
fn a_forked_child_leaves_the_stack_with_its_parent() {
    let Some(world) = World::with(&["redis-server", "redis-cli"]) else { return };
    let server = redis(&world);
    assert_eq!(cli(&world, &["set", "key", "value"]), "OK\n");
    for _ in 0..2 {
        assert_eq!(cli(&world, &["bgsave"]), "Background saving started\n");
        server.until("the child has saved", || {
            cli(&world, &["info", "persistence"]).contains("rdb_bgsave_in_progress:0")
        });
    }
    assert!(
        cli(&world, &["info", "persistence"]).contains("rdb_last_bgsave_status:ok"),
        "{}",
        server.log()
    );
    assert_eq!(cli(&world, &["get", "key"]), "value\n");
    assert!(fs::metadata(world.file("dump.rdb")).is_ok(), "{}", server.log());
    let told = server.log().matches("sockets fail with EBADF").count();
    assert_eq!(told, 1, "{}", server.log());
}

/// Each thread blocks in `recv` of its own, so whichever has waited turns the stack for all.
const THREADS: &str = "
import socket, threading
listener = socket.create_server(('10.0.0.2', 7000), backlog=64)
def echo(conn):
    with conn:
        while data := conn.recv(65536):
            conn.sendall(data)
print('ready', flush=True)
while True:
    conn, _ = listener.accept()
    threading.Thread(target=echo, args=(conn,), daemon=True).start()
";

/// Twelve at once, each with its own bytes, some of which are longer than a window.
const CLIENTS: &str = "
import hashlib, socket, threading
def talk(number, results):
    conn = socket.create_connection(('10.0.0.2', 7000), timeout=60)
    sent = bytes([number]) * (1 + number * 40000)
    threading.Thread(target=conn.sendall, args=(sent,), daemon=True).start()
    got = b''
    while len(got) < len(sent):
        data = conn.recv(65536)
        if not data: break
        got += data
    results[number] = got == sent
results = {}
threads = [threading.Thread(target=talk, args=(number, results)) for number in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(results.values()))
";

#[test]
fn threads_that_block_in_the_same_process_serve_each_other() {
    let Some(world) = World::with(&[PYTHON]) else { return };
    let server = world.start(world.inside(&[PYTHON, "-c", THREADS]), "server.log");
    server.until("it listens", || server.log().contains("ready"));
    for _ in 0..3 {
        assert_eq!(world.netns.text(PYTHON, &["-c", CLIENTS]), "12\n", "{}", server.log());
    }
}

/// The first thread waits for connections, two others for what comes over those: all of them in
/// `epoll_wait`. Who is asked for `count` says how often the first has slept.
const WAITERS: &str = "
import select, socket, threading
listener = socket.create_server(('10.0.0.2', 7000), backlog=64)
listener.setblocking(False)
first = threading.get_native_id()
conns = {}
def slept():
    with open(f'/proc/self/task/{first}/status') as status:
        return next(line.split()[1] for line in status if line.startswith('voluntary'))
def serve(poll):
    while True:
        for fd, _ in poll.poll():
            data = conns[fd].recv(4096)
            if not data:
                poll.unregister(fd)
                conns.pop(fd).close()
            else:
                conns[fd].send(slept().encode() if data == b'count' else data)
polls = [select.epoll(), select.epoll()]
for poll in polls:
    threading.Thread(target=serve, args=(poll,), daemon=True).start()
accepts = select.epoll()
accepts.register(listener, select.EPOLLIN)
print('ready', flush=True)
while True:
    accepts.poll()
    conn, _ = listener.accept()
    conns[conn.fileno()] = conn
    polls[len(conns) % 2].register(conn, select.EPOLLIN)
";

/// Asks over four connections in turn, one after the other; how often the first thread of the
/// server slept meanwhile.
const ASKS: &str = "
import socket
conns = [socket.create_connection(('10.0.0.2', 7000), timeout=60) for _ in range(4)]
def ask(conn, what):
    conn.sendall(what)
    return conn.recv(4096)
before = int(ask(conns[0], b'count'))
for number in range(2000):
    assert ask(conns[number % 4], b'x') == b'x'
print(int(ask(conns[0], b'count')) - before)
";

/// It would be woken for each packet, were it to watch the device as the others do.
#[test]
fn a_thread_that_waits_for_something_else_is_left_asleep() {
    let Some(world) = World::with(&[PYTHON]) else { return };
    let server = world.start(world.inside(&[PYTHON, "-c", WAITERS]), "server.log");
    server.until("it listens", || server.log().contains("ready"));
    // On a machine that lets the server wait for its processor, who was to watch comes too late
    // now and then, and all watch for a while.
    let fewest = (0..5)
        .map(|_| world.netns.text(PYTHON, &["-c", ASKS]).trim().parse::<u32>().unwrap())
        .min()
        .unwrap();
    assert!(fewest < 500, "{fewest} of 2000 times\n{}", server.log());
}

/// The first thread waits for connections, another one computes 3 ms, without a call, for what comes
/// over each. Who is asked for `c` says how often the first has slept.
const SLOW: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int slept(char *out, size_t size)
{
    char path[64], line[128];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", getpid());
    FILE *status = fopen(path, "r");
    while (fgets(line, sizeof line, status))
        sscanf(line, "voluntary_ctxt_switches: %d", &count);
    fclose(status);
    return snprintf(out, size, "%d", count);
}

static void *serve(void *arg)
{
    int *sets = arg;
    struct epoll_event came;
    char bytes[64];
    for (;;) {
        epoll_wait(*sets, &came, 1, -1);
        ssize_t len = recv(came.data.fd, bytes, sizeof bytes, 0);
        if (len <= 0) {
            close(came.data.fd);
            continue;
        }
        if (bytes[0] == 'c')
            len = slept(bytes, sizeof bytes);
        else
            for (double end = now() + 0.003; now() < end;)
                ;
        send(came.data.fd, bytes, len, 0);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(7000) };
    struct epoll_event event = { .events = EPOLLIN }, came;
    int sets[2] = { epoll_create1(0), epoll_create1(0) };
    pthread_t thread;
    inet_pton(AF_INET, argv[1], &addr.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&addr, sizeof addr);
    listen(listener, 8);
    epoll_ctl(sets[1], EPOLL_CTL_ADD, listener, &event);
    pthread_create(&thread, NULL, serve, sets);
    puts("ready");
    fflush(stdout);
    for (;;) {
        epoll_wait(sets[1], &came, 1, -1);
        event.data.fd = accept(listener, NULL, NULL);
        epoll_ctl(sets[0], EPOLL_CTL_ADD, event.data.fd, &event);
    }
}
"#;

/// Says something each millisecond, so that most of it comes while the server computes.
const SAYS_ON: &str = "
import socket, time
conn = socket.create_connection(('10.0.0.2', 7000), timeout=60)
conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def slept():
    conn.sendall(b'c')
    return int(conn.recv(64))
before = slept()
for _ in range(400):
    conn.sendall(b'x')
    time.sleep(0.001)
got = 0
while got < 400:
    got += len(conn.recv(4096))
print(slept() - before)
";

/// What comes for a thread that is awake, and too busy to look, is not for those that sleep.
#[test]
fn who_sleeps_is_not_called_for_what_a_busy_thread_will_take() {
    let Some(world) = World::with(&["cc", PYTHON]) else { return };
    let program = compiled(&world, SLOW);
    let server = world.start(world.inside(&[&program, "10.0.0.2"]), "server.log");
    server.until("it listens", || server.log().contains("ready"));
    let fewest = (0..3)
        .map(|_| world.netns.text(PYTHON, &["-c", SAYS_ON]).trim().parse::<u32>().unwrap())
        .min()
        .unwrap();
    assert!(fewest < 20, "{fewest} times\n{}", server.log());
}

/// While one thread computes, without a call, who sleeps aside is served nevertheless.
const COMPUTES: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/// Answers what comes over its connection; `busy` takes 50 ms for each.
static void *serve(void *arg)
{
    int *conn = arg, busy = conn[1], set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN }, came;
    char bytes[16];
    epoll_ctl(set, EPOLL_CTL_ADD, conn[0], &event);
    for (;;) {
        epoll_wait(set, &came, 1, -1);
        ssize_t len = recv(conn[0], bytes, sizeof bytes, 0);
        if (len <= 0)
            return NULL;
        for (double end = now() + 0.05; busy && now() < end;)
            ;
        send(conn[0], bytes, len, 0);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(7000) };
    static int conns[2][2];
    pthread_t threads[2];
    inet_pton(AF_INET, argv[1], &addr.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&addr, sizeof addr);
    listen(listener, 8);
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        conns[i][0] = accept(listener, NULL, NULL);
        conns[i][1] = i;
        pthread_create(&threads[i], NULL, serve, conns[i]);
    }
    pthread_join(threads[0], NULL);
    return 0;
}
"#;

/// Each time that the busy one is at work, the other is asked; the median, in milliseconds.
const ASKS_MEANWHILE: &str = "
import socket, statistics, time
quick, busy = [socket.create_connection(('10.0.0.2', 7000), timeout=60) for _ in range(2)]
times = []
for _ in range(40):
    quick.sendall(b'x'); quick.recv(16)
    busy.sendall(b'x')
    time.sleep(0.005)
    begun = time.monotonic()
    quick.sendall(b'x'); quick.recv(16)
    times.append(time.monotonic() - begun)
    busy.recv(16)
print(statistics.median(times) * 1000)
";

/// Who watched is the one that computes: another one has to watch before it is done.
#[test]
fn threads_are_served_while_the_one_that_watched_computes() {
    let Some(world) = World::with(&["cc", PYTHON]) else { return };
    let program = compiled(&world, COMPUTES);
    let least = (0..5)
        .map(|_| {
            let mut server = world.start(world.inside(&[&program, "10.0.0.2"]), "server.log");
            server.until("it listens", || server.log().contains("ready"));
            let said = world.netns.text(PYTHON, &["-c", ASKS_MEANWHILE]);
            server.end();
            said.trim().parse::<f64>().unwrap()
        })
        .fold(f64::MAX, f64::min);
    // The thread of the library's own, which stands in when nobody watches, would come after 10 ms.
    assert!(least < 8.0, "{least} ms");
}

/// Threads are told to end while they block in `recv` and turn the stack for all; then the peer
/// must still be served.
const CANCELLED: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int conn[2];

static void *blocks(void *unused)
{
    char bytes[16];
    recv(conn[0], bytes, sizeof bytes, 0);
    return unused;
}

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(7000) };
    char bytes[16] = "";
    int cancelled = 0;
    inet_pton(AF_INET, argv[1], &addr.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    conn[0] = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&addr, sizeof addr);
    listen(listener, 8);
    connect(conn[0], (struct sockaddr *)&addr, sizeof addr);
    conn[1] = accept(listener, NULL, NULL);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        void *ended;
        pthread_create(&thread, NULL, blocks, NULL);
        usleep(i % 7 * 100);
        pthread_cancel(thread);
        pthread_join(thread, &ended);
        cancelled += ended == PTHREAD_CANCELED;
    }
    send(conn[1], "still there", 11, 0);
    recv(conn[0], bytes, sizeof bytes, 0);
    printf("%d %s\n", cancelled, bytes);
    return 0;
}
"#;

/// The program of this source, and where it lies.
fn compiled(world: &World, source: &str) -> String {
    let (file, program) = (world.file("program.c"), world.file("program"));
    fs::write(&file, source).unwrap();
    let compiled =
        Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(&file).status().unwrap();
    assert!(compiled.success());
    program.to_str().unwrap().into()
}

#[test]
fn a_thread_that_is_cancelled_leaves_the_stack_whole() {
    let Some(world) = World::with(&["cc"]) else { return };
    let program = compiled(&world, CANCELLED);
    let words =
        ["run", "--inproc", "--port", "loop", "-a", "10.0.0.2/24", "--", &program, "10.0.0.2"];
    let output = world.netns.command(env!("CARGO_BIN_EXE_clearway"), &words).output().unwrap();
    assert_eq!(text(&output), "200 still there\n");
}

/// Both ends are in one process, and one of them is only looked at: by SO_ERROR after a reset, and
/// by FIONREAD after bytes. How many of 20 times a few looks were enough. Between two of them the
/// process may be kept from running, and the library's own thread may hold the stack then.
const LOOKS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ROUNDS = 20, FEW = 16 };

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(7000) };
    struct linger at_once = { 1, 0 };
    int by_bytes = 0, by_error = 0;
    inet_pton(AF_INET, argv[1], &addr.sin_addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&addr, sizeof addr);
    listen(listener, 8);
    for (int i = 0; i < ROUNDS; i++) {
        int ours = socket(AF_INET, SOCK_STREAM, 0), looks, there = 0, error = 0;
        if (connect(ours, (struct sockaddr *)&addr, sizeof addr))
            return 1;
        int theirs = accept(listener, NULL, NULL);
        send(theirs, "hello", 5, MSG_DONTWAIT);
        for (looks = 0; there == 0; looks++)
            ioctl(ours, FIONREAD, &there);
        by_bytes += looks <= FEW && there == 5;
        setsockopt(theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(theirs);
        for (looks = 0; error == 0; looks++)
            getsockopt(ours, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){ sizeof error });
        by_error += looks <= FEW;
        close(ours);
    }
    printf("%d %d\n", by_bytes, by_error);
    return 0;
}
"#;

#[test]
fn a_call_that_only_looks_sees_what_has_come() {
    let Some(world) = World::with(&["cc"]) else { return };
    let program = compiled(&world, LOOKS);
    let said = text(&world.inside(&[&program, "10.0.0.2"]).output().unwrap());
    let enough: Vec<u32> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(enough.len() == 2 && enough.iter().all(|times| *times > 10), "{said}");
}

/// Calls that go well, with `errno` set to what none of them says before each. lftp takes what it
/// finds there behind a `getsockopt` for the socket's error. Names those that changed it.
const ERRNO: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MINE = 4711 };

#define WELL(name, call) do { \
        errno = MINE; \
        if ((call) < 0) printf("%s fails: %s\n", name, strerror(errno)); \
        else if (errno != MINE) printf("%s: %s\n", name, strerror(errno)); \
    } while (0)

int main(int argc, char **argv)
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(7000) }, name;
    socklen_t len = sizeof name, int_len = sizeof(int);
    int listener, ours, theirs, set, value = 1;
    char bytes[8];
    inet_pton(AF_INET, argv[1], &addr.sin_addr);
    WELL("socket", listener = socket(AF_INET, SOCK_STREAM, 0));
    WELL("setsockopt", setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value));
    WELL("bind", bind(listener, (struct sockaddr *)&addr, sizeof addr));
    WELL("listen", listen(listener, 8));
    ours = socket(AF_INET, SOCK_STREAM, 0);
    WELL("connect", connect(ours, (struct sockaddr *)&addr, sizeof addr));
    WELL("accept", theirs = accept4(listener, NULL, NULL, SOCK_NONBLOCK));
    WELL("getpeername", getpeername(ours, (struct sockaddr *)&name, &len));
    WELL("getsockname", getsockname(ours, (struct sockaddr *)&name, &len));
    WELL("SO_ERROR", getsockopt(ours, SOL_SOCKET, SO_ERROR, &value, &int_len));
    WELL("epoll_create", set = epoll_create1(0));
    struct epoll_event event = { .events = EPOLLIN }, came;
    WELL("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, theirs, &event));
    WELL("epoll_wait, nothing", epoll_wait(set, &came, 1, 0));
    WELL("send", send(ours, "hello", 5, 0));
    WELL("epoll_wait", epoll_wait(set, &came, 1, 1000));
    WELL("FIONREAD", ioctl(theirs, FIONREAD, &value));
    struct pollfd polled = { theirs, POLLIN, 0 };
    WELL("poll", poll(&polled, 1, 1000));
    WELL("poll, nothing", poll(&(struct pollfd){ ours, POLLIN, 0 }, 1, 30));
    WELL("recv", recv(theirs, bytes, sizeof bytes, 0));
    WELL("write", write(theirs, "world", 5));
    WELL("read", read(ours, bytes, sizeof bytes));
    WELL("shutdown", shutdown(ours, SHUT_WR));
    poll(&polled, 1, 1000);
    WELL("recv of the end", recv(theirs, bytes, sizeof bytes, 0));
    WELL("close", close(theirs));
    WELL("close", close(ours));
    WELL("close of a listener", close(listener));
    printf("done\n");
    return 0;
}
"#;

#[test]
fn a_call_that_goes_well_leaves_errno_alone() {
    let Some(world) = World::with(&["cc"]) else { return };
    let program = compiled(&world, ERRNO);
    let said = text(&world.inside(&[&program, "10.0.0.2"]).output().unwrap());
    assert_eq!(said, "done\n");
}
