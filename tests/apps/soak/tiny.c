// The smallest client and server: for starting very many of them.
//   tiny serve PORT            echoes one byte of each connection
//   tiny ask ADDRESS PORT      sends a byte and waits for it; exit code 0 when it came
//   tiny spawn N ADDRESS PORT  starts `ask` N times, four at once; each tenth is killed soon after its start
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, host, &at.sin_addr);
    return at;
}

static int serve(const char *port) {
    struct sockaddr_in at = address("0.0.0.0", port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    // A client that was stopped in its midst must not stop the others.
    struct timeval timeout = {.tv_sec = 5};
    signal(SIGPIPE, SIG_IGN);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64)) {
        perror("listen");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int conversation = accept(listener, NULL, NULL);
        char byte;
        if (conversation < 0) {
            perror("accept");
            return 1;
        }
        setsockopt(conversation, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        if (read(conversation, &byte, 1) == 1 && write(conversation, &byte, 1) < 0 && errno != EPIPE && errno != ECONNRESET)
            perror("write");
        close(conversation);
    }
}

static int ask(const char *host, const char *port) {
    struct sockaddr_in at = address(host, port);
    int conversation = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 'x';
    if (connect(conversation, (struct sockaddr *)&at, sizeof at)) {
        perror("connect");
        return 1;
    }
    if (write(conversation, &byte, 1) != 1 || read(conversation, &byte, 1) != 1) {
        perror("conversation");
        return 1;
    }
    return byte != 'x';
}

#define AT_ONCE 4

static int spawn(char *self, long count, char *host, char *port) {
    char *words[] = {self, "ask", host, port, NULL};
    struct { pid_t pid; int killed; } running[AT_ONCE] = {{0}};
    long failed = 0, started = 0, left = 0;
    while (started < count || left > 0) {
        if (started < count && left < AT_ONCE) {
            int slot = 0;
            while (running[slot].pid)
                slot++;
            if (posix_spawn(&running[slot].pid, self, NULL, NULL, words, environ)) {
                perror("posix_spawn");
                return 1;
            }
            running[slot].killed = ++started % 10 == 0;
            left++;
            if (running[slot].killed) {
                usleep(started % 100 * 50);
                kill(running[slot].pid, SIGKILL);
            }
            continue;
        }
        int status;
        pid_t pid = wait(&status);
        for (int slot = 0; slot < AT_ONCE; slot++)
            if (running[slot].pid == pid) {
                failed += status != 0 && !running[slot].killed;
                running[slot].pid = 0;
                left--;
            }
    }
    printf("%ld started, %ld failed\n", started, failed);
    return failed != 0;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "serve"))
        return serve(words[2]);
    if (count == 4 && !strcmp(words[1], "ask"))
        return ask(words[2], words[3]);
    if (count == 5 && !strcmp(words[1], "spawn"))
        return spawn(words[0], atol(words[2]), words[3], words[4]);
    return 2;
}
