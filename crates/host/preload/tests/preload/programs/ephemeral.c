// bind to port 0, then connect, by a client that closes first: its ports stay in TIME-WAIT.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 500

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
    return 0;
}
