// Ports by number for connections, as bindresvport walks through them: one whose connection is closing is another's, and the next is taken.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_storage here, wildcard, server;
static socklen_t len;

static in_port_t *port_of(struct sockaddr_storage *name) {
    return name->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)name)->sin6_port : &((struct sockaddr_in *)name)->sin_port;
}

// The next number that nobody has, as bindresvport looks for one.
static in_port_t free_port(void) {
    static int last;
    if (last == 0) last = 600 + getpid() % 300;
    for (int left = 400; left > 0; left--) {
        struct sockaddr_storage any = wildcard;
        *port_of(&any) = htons(last++);
        if (last > 1000) last = 600;
        int fd = socket(here.ss_family, SOCK_STREAM, 0);
        int bound = bind(fd, (struct sockaddr *)&any, len);
        close(fd);
        if (bound == 0) return *port_of(&any);
    }
    return 0;
}

static int told(const char *what, int result) {
    printf("  %s: %s\n", what, result < 0 ? strerror(errno) : "ok");
    return result;
}

static int from(struct sockaddr_storage address, in_port_t port, int shared, const char *what) {
    int fd = socket(address.ss_family, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared);
    *port_of(&address) = port;
    if (told(what, bind(fd, (struct sockaddr *)&address, len)) < 0) { close(fd); return -1; }
    return fd;
}

// The first connection is closed by its client, and its server has not seen to that yet.
static void closing(int listener, int shared) {
    printf("the first %s\n", shared ? "shares its address" : "shares nothing");
    in_port_t port = free_port();
    int first = from(wildcard, port, shared, "bind");
    if (told("connect", connect(first, (struct sockaddr *)&server, len)) < 0) return;
    int peer = accept(listener, NULL, NULL);
    char byte;
    close(first);
    told("read", read(peer, &byte, 1));
    close(from(wildcard, port, 0, "bind to any address"));
    close(from(here, port, 0, "bind to the address"));
    int beside = from(wildcard, port, 1, "bind, shared");
    if (beside >= 0) told("connect again", connect(beside, (struct sockaddr *)&server, len));
    int other = from(wildcard, free_port(), 0, "bind to another");
    if (told("connect from there", connect(other, (struct sockaddr *)&server, len)) == 0) close(accept(listener, NULL, NULL));
    close(beside);
    close(other);
    close(peer);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int six = strchr(argv[1], ':') != NULL;
    here.ss_family = wildcard.ss_family = six ? AF_INET6 : AF_INET;
    len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    inet_pton(here.ss_family, argv[1], six ? (void *)&((struct sockaddr_in6 *)&here)->sin6_addr : (void *)&((struct sockaddr_in *)&here)->sin_addr);
    server = here;
    int listener = socket(here.ss_family, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&here, len) != 0 || listen(listener, 16) != 0) return 1;
    socklen_t size = sizeof server;
    getsockname(listener, (struct sockaddr *)&server, &size);
    closing(listener, 0);
    closing(listener, 1);
    return 0;
}
