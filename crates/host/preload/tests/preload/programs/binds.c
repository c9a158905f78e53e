// Who may have a port beside whom: every pair of addresses, options and states, and who gets the datagrams.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANY4, ONE4, MAPPED, MAPPED_ANY, ANY6, ONLY6, ONE6, ADDRESSES };
static const char *names[ADDRESSES] = {"0.0.0.0", "v4", "::ffff:v4", "::ffff:0.0.0.0", "::", ":: only", "v6"};
static const char *shares[4] = {"-", "address", "port", "both"};
static const char *v4, *v6;
static unsigned short port;

static socklen_t fill(int which, unsigned short at, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    if (which == ANY4 || which == ONE4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = at;
        if (which == ONE4) inet_pton(AF_INET, v4, &in->sin_addr);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = at;
    if (which == ONE6) inet_pton(AF_INET6, v6, &in6->sin6_addr);
    if (which == MAPPED || which == MAPPED_ANY) {
        char text[64];
        snprintf(text, sizeof text, "::ffff:%s", which == MAPPED ? v4 : "0.0.0.0");
        inet_pton(AF_INET6, text, &in6->sin6_addr);
    }
    return sizeof *in6;
}

static int make(int type, int which, int share) {
    int fd = socket(which == ANY4 || which == ONE4 ? AF_INET : AF_INET6, type, 0), on = 1, off = 0;
    if (share & 1) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (share & 2) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (which == ONLY6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (which == ANY6 || which == MAPPED || which == MAPPED_ANY) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return fd;
}

static int bound(int fd, int which, unsigned short at) {
    struct sockaddr_storage addr;
    socklen_t len = fill(which, at, &addr);
    return bind(fd, (struct sockaddr *)&addr, len) == 0 ? 0 : errno;
}

// A port that nobody has, on any address.
static unsigned short free_port(int type) {
    for (;;) {
        int fd = make(type, ANY6, 0);
        struct sockaddr_storage name;
        socklen_t len = sizeof name;
        bound(fd, ANY6, 0);
        getsockname(fd, (struct sockaddr *)&name, &len);
        close(fd);
        unsigned short at = ((struct sockaddr_in6 *)&name)->sin6_port;
        // The library's sockets with port 0 are the kernel's until they are used.
        fd = make(type, ANY6, 0);
        int taken = bound(fd, ANY6, at);
        close(fd);
        if (!taken) return at;
    }
}

static void pairs(int type, int acts) {
    for (int a = 0; a < ADDRESSES; a++) for (int share_a = 0; share_a < 4; share_a++)
        for (int b = 0; b < ADDRESSES; b++) for (int share_b = 0; share_b < 4; share_b++) {
            // Beside a socket for both families that is connected over IPv6, Linux lets this one be and not the same of an IPv4 socket.
            if (acts && type == SOCK_DGRAM && a == ANY6 && b == MAPPED_ANY) continue;
            int first = make(type, a, share_a), second = make(type, b, share_b), acted = 0, listens = -1;
            int one = bound(first, a, port);
            if (acts && type == SOCK_STREAM) acted = listen(first, 4) == 0 ? 0 : errno;
            if (acts && type == SOCK_DGRAM) {
                struct sockaddr_storage to;
                socklen_t len = fill(a == ANY4 || a == ONE4 ? ONE4 : a == MAPPED || a == MAPPED_ANY ? MAPPED : ONE6, htons(9), &to);
                acted = connect(first, (struct sockaddr *)&to, len) == 0 ? 0 : errno;
            }
            int two = bound(second, b, port);
            if (two == 0 && type == SOCK_STREAM) listens = listen(second, 4) == 0 ? 0 : errno;
            printf("%s %s %s (%d %d) before %s %s: %d %d\n", type == SOCK_STREAM ? "tcp" : "udp", names[a], shares[share_a], one, acted,
                   names[b], shares[share_b], two, listens);
            close(first);
            close(second);
        }
}

// Options that change after the bind count too.
static void later(int type) {
    int first = make(type, ONE4, 0), second = make(type, ONE4, 2), on = 1, off = 0;
    int one = bound(first, ONE4, port), two = bound(second, ONE4, port);
    setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    int three = bound(second, ONE4, port);
    printf("later: %d %d %d\n", one, two, three);
    close(first);
    close(second);
}

// Sends a datagram from each of some ports and says which of the sockets had it.
static void deliver(const char *what, int *fds, int count, int client, int shows) {
    struct sockaddr_storage to;
    socklen_t len = fill(ONE4, port, &to);
    int had[8] = {0}, strange = 0, first[16];
    for (int round = 0; round < 2; round++)
        for (int flow = 0; flow < 16; flow++) {
            int from = client >= 0 ? client : make(SOCK_DGRAM, ONE4, 0);
            if (client < 0) bound(from, ONE4, htons(20000 + flow));
            sendto(from, "x", 1, 0, (struct sockaddr *)&to, len);
            struct pollfd polls[8];
            for (int i = 0; i < count; i++) polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
            if (poll(polls, count, 20000) != 1) strange++;
            for (int i = 0; i < count; i++) if (polls[i].revents) {
                char byte;
                recv(fds[i], &byte, 1, 0);
                had[i]++;
                if (round == 0) first[flow] = i;
                else if (first[flow] != i) strange++;
            }
            if (client < 0) close(from);
        }
    printf("%s:", what);
    for (int i = 0; i < count; i++) if (shows) printf(" %d", had[i]);
    printf(" strange %d\n", strange);
}

static void groups(void) {
    for (int share = 1; share < 4; share++) {
        int fds[4];
        for (int i = 0; i < 4; i++) {
            fds[i] = make(SOCK_DGRAM, i % 2 && share == 1 ? ONE4 : ONE4, share);
            bound(fds[i], ONE4, port);
        }
        // Which member of a group has a flow, everybody hashes as he likes.
        deliver(shares[share], fds, 4, -1, share == 1);
        int client = make(SOCK_DGRAM, ONE4, 0);
        bound(client, ONE4, htons(20100));
        struct sockaddr_storage to;
        socklen_t len = fill(ONE4, htons(20100), &to);
        connect(fds[1], (struct sockaddr *)&to, len);
        deliver("connected", fds, 4, client, 1);
        for (int i = 0; i < 4; i++) close(fds[i]);
        close(client);
    }
}

int main(int argc, char **argv) {
    const char *addr = argc > 1 ? argv[1] : "127.0.0.1";
    int kernels = !strcmp(addr, "127.0.0.1") || !strcmp(addr, "::1");
    v4 = kernels ? "127.0.0.1" : "172.16.1.1";
    v6 = kernels ? "::1" : "fd00:1::1";
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        port = free_port(type);
        pairs(type, 0);
        pairs(type, 1);
        later(type);
    }
    groups();
    return 0;
}
