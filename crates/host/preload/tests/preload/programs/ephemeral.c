// bind to port 0, then connect, by a client that closes first: its ports stay in TIME-WAIT. Then the same, and listen, where many ports are taken.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 500
// So many ports are taken that some of the rounds draw one of them.
#define TAKEN 600
#define DRAWS 200

static struct sockaddr_storage wildcard, server;
static socklen_t len;

static unsigned short port_of(int fd) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0) return 0;
    return name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port : ((struct sockaddr_in *)&name)->sin_port;
}

// How many of the rounds went wrong, and in how many the port was another one afterwards.
static void rounds(int listener, int asks) {
    int failed = 0, moved = 0, last = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int fd = socket(wildcard.ss_family, SOCK_STREAM, 0);
        unsigned short told = 0;
        if (bind(fd, (struct sockaddr *)&wildcard, len) != 0) { failed++; last = errno; close(fd); continue; }
        if (asks) told = port_of(fd);
        if (connect(fd, (struct sockaddr *)&server, len) != 0) { failed++; last = errno; close(fd); continue; }
        if (asks && port_of(fd) != told) moved++;
        int peer = accept(listener, NULL, NULL);
        char byte;
        close(fd);
        if (peer < 0 || read(peer, &byte, 1) != 0) failed++;
        close(peer);
    }
    printf("%s: %d failed (%s), %d moved\n", asks ? "asked" : "not asked", failed, failed ? strerror(last) : "-", moved);
}

// Ports of the address itself, which the wildcard address cannot have beside it.
static void take_ports(void) {
    struct sockaddr_storage any = server;
    if (any.ss_family == AF_INET6) ((struct sockaddr_in6 *)&any)->sin6_port = 0; else ((struct sockaddr_in *)&any)->sin_port = 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int one = 0; one < TAKEN; one++) {
        int fd = socket(any.ss_family, SOCK_STREAM, 0);
        if (bind(fd, (struct sockaddr *)&any, len) != 0 || listen(fd, 1) != 0) { printf("port %d: %s\n", one, strerror(errno)); return; }
    }
}

// In how many of the draws a socket that listens, or waits, has another port than it was told, or fails though it was told none.
static void draws(int kind, int asks) {
    int failed = 0, moved = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        int fd = socket(wildcard.ss_family, kind, 0);
        if (bind(fd, (struct sockaddr *)&wildcard, len) != 0) { failed++; close(fd); continue; }
        unsigned short told = asks ? port_of(fd) : 0;
        char byte;
        if (kind == SOCK_STREAM) failed += listen(fd, 1) != 0;
        else if (asks) failed += sendto(fd, "x", 1, 0, (struct sockaddr *)&server, len) != 1;
        else failed += recv(fd, &byte, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN;
        if (asks && port_of(fd) != told) moved++;
        close(fd);
    }
    printf("%s: %d failed, %d moved\n", kind == SOCK_STREAM ? "listeners" : asks ? "senders" : "receivers", failed, moved);
}

int main(int argc, char **argv) {
    const char *addr = argc > 1 ? argv[1] : "127.0.0.1";
    if (strchr(addr, ':')) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&server;
        in6->sin6_family = AF_INET6;
        inet_pton(AF_INET6, addr, &in6->sin6_addr);
        len = sizeof *in6;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&server;
        in->sin_family = AF_INET;
        inet_pton(AF_INET, addr, &in->sin_addr);
        len = sizeof *in;
    }
    wildcard.ss_family = server.ss_family;
    int listener = socket(server.ss_family, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&server, len) != 0 || listen(listener, 64) != 0) { perror("listener"); return 1; }
    socklen_t size = len;
    getsockname(listener, (struct sockaddr *)&server, &size);
    rounds(listener, 0);
    rounds(listener, 1);
    take_ports();
    rounds(listener, 1);
    draws(SOCK_STREAM, 1);
    draws(SOCK_STREAM, 0);
    draws(SOCK_DGRAM, 1);
    draws(SOCK_DGRAM, 0);
    return 0;
}
