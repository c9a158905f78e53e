/* Answers requests over the kernel's sockets with io_uring: one ring and one thread for each core, every one with listeners of its own.
 *
 * A request that finds its connection idle costs a part of one system call: the ring accepts and receives again and again by one submission each
 * (multishot), received bytes lie in buffers that the ring chose, connections are direct descriptors, and answers are submitted with the next wait. */

#define _GNU_SOURCE
#include "../common/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bounds. */
enum {
	/* Entries of each ring that wait to be submitted, and completions that wait to be looked at. */
	ENTRIES = 4096,
	COMPLETIONS = 32768,
	/* Buffers of one ring: a datagram of an Ethernet frame fits into one with the name of who sent it. */
	BUFFERS = 8192,
	BUFFER_LEN = 2048,
	BUFFER_GROUP = 0,
	/* Answers to datagrams that are on their way at most. */
	DATAGRAMS = 4096,
	/* Handshakes that may wait to be accepted; the system allows no more than its own limit. */
	BACKLOG = 65535,
	/* Files that are no connections. */
	OTHER_FILES = 64 + 2 * MAX_ADDRESSES,
};

/* What a completion is of; the number of what it belongs to stands above it. */
enum kind { NOTIFIER, ACCEPT, RECEIVE, SEND, CANCEL, CLOSE, DATAGRAM, ANSWERED };
#define NAME(kind, number) ((uint64_t)(number) << 8 | (kind))

/* A connection, at the number of its direct descriptor. */
struct connection {
	/* Bytes of answers that have not been sent. */
	uint64_t owed;
	uint32_t partial;
	bool open, receives, sends, ends, failed;
};

/* An answer to a datagram on its way: the kernel reads all of it until it is done. */
struct datagram {
	struct msghdr message;
	struct iovec bytes;
	struct sockaddr_storage to;
	uint32_t next_free;
};

struct server {
	const struct options *options;
	unsigned index;
	pthread_t thread;
	int notifier;
	struct io_uring ring;
	struct io_uring_buf_ring *buffers;
	uint8_t *memory;
	int listeners[MAX_ADDRESSES], sockets[MAX_ADDRESSES];
	unsigned listener_count;
	/* Listeners that stopped to accept because there was no place. */
	bool waits_for_place[MAX_ADDRESSES];
	/* Requests to accept and to receive datagrams that the ring holds. */
	unsigned at_sockets;
	struct connection *connections;
	struct datagram *datagrams;
	uint32_t free_datagram;
	struct msghdr shape;
	struct counts counts;
	bool stops;
};

#define NONE UINT32_MAX

static struct io_uring_sqe *entry(struct server *server)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&server->ring);

	while (sqe == NULL) {
		int error = io_uring_submit(&server->ring);
		if (error < 0 && error != -EBUSY && error != -EINTR && error != -EAGAIN)
			die(FAILED, "cannot submit to io_uring: %s", strerror(-error));
		sqe = io_uring_get_sqe(&server->ring);
	}
	return sqe;
}

static void accept_more(struct server *server, unsigned listener)
{
	struct io_uring_sqe *sqe = entry(server);

	io_uring_prep_multishot_accept_direct(sqe, server->listeners[listener], NULL, NULL, 0);
	io_uring_sqe_set_data64(sqe, NAME(ACCEPT, listener));
	server->at_sockets++;
}

static void receive_more(struct server *server, uint32_t number)
{
	struct io_uring_sqe *sqe = entry(server);

	io_uring_prep_recv_multishot(sqe, (int)number, NULL, 0, 0);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUFFER_GROUP;
	io_uring_sqe_set_data64(sqe, NAME(RECEIVE, number));
	server->connections[number].receives = true;
}

static void receive_datagrams(struct server *server, unsigned listener)
{
	struct io_uring_sqe *sqe = entry(server);

	io_uring_prep_recvmsg_multishot(sqe, server->sockets[listener], &server->shape, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUFFER_GROUP;
	io_uring_sqe_set_data64(sqe, NAME(DATAGRAM, listener));
	server->at_sockets++;
}

static uint8_t *buffer(struct server *server, unsigned id)
{
	return server->memory + (size_t)id * BUFFER_LEN;
}

static void give_back(struct server *server, unsigned id)
{
	io_uring_buf_ring_add(server->buffers, buffer(server, id), BUFFER_LEN, (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(server->buffers, 1);
}

/* Whether the ring only asks to be asked again, which says nothing of the connection. */
static bool is_to_be_repeated(int result)
{
	return result == -EINTR || result == -EAGAIN || result == -ENOBUFS;
}

/* That a peer resets or goes away is its own affair; any other end of a connection is ours, and said. */
static void say_failure(const char *what, int result)
{
	if (result != -ECONNRESET && result != -EPIPE)
		fprintf(stderr, "kernel-io_uring: a connection ends: cannot %s: %s\n", what, strerror(-result));
}

/* Closes a connection once nothing of it is on its way. */
static void close_when_idle(struct server *server, uint32_t number)
{
	struct connection *connection = &server->connections[number];
	struct io_uring_sqe *sqe;

	if (!connection->open || !connection->ends || connection->receives || connection->sends)
		return;
	connection->open = false;
	server->counts.open--;
	server->counts.reset += connection->failed;
	sqe = entry(server);
	io_uring_prep_close_direct(sqe, number);
	io_uring_sqe_set_data64(sqe, NAME(CLOSE, number));
}

static void send_owed(struct server *server, uint32_t number)
{
	struct connection *connection = &server->connections[number];
	struct io_uring_sqe *sqe;
	uint32_t len;

	if (connection->sends || connection->failed || connection->owed == 0)
		return;
	const uint8_t *bytes = next_answers(server->options, connection->owed, &len);
	sqe = entry(server);
	io_uring_prep_send(sqe, (int)number, bytes, len, MSG_NOSIGNAL | MSG_WAITALL);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data64(sqe, NAME(SEND, number));
	connection->sends = true;
}

static void on_accepted(struct server *server, unsigned listener, const struct io_uring_cqe *cqe)
{
	bool ended = !(cqe->flags & IORING_CQE_F_MORE);

	server->at_sockets -= ended;
	if (cqe->res >= 0) {
		uint32_t number = (uint32_t)cqe->res;
		server->connections[number] = (struct connection){ .open = true };
		server->counts.accepted++;
		server->counts.open++;
		receive_more(server, number);
	} else if (cqe->res == -ENFILE) {
		server->counts.refused++;
		server->waits_for_place[listener] = true;
		return;
	}
	if (ended && !server->stops)
		accept_more(server, listener);
}

/* A place is free again. */
static void on_closed(struct server *server)
{
	for (unsigned listener = 0; listener < server->listener_count; listener++) {
		if (server->waits_for_place[listener] && !server->stops) {
			server->waits_for_place[listener] = false;
			accept_more(server, listener);
		}
	}
}

static void on_received(struct server *server, uint32_t number, const struct io_uring_cqe *cqe)
{
	struct connection *connection = &server->connections[number];

	connection->receives = cqe->flags & IORING_CQE_F_MORE;
	if (cqe->res > 0) {
		unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		uint32_t ended = requests_in(server->options, &connection->partial, buffer(server, id), (size_t)cqe->res);
		give_back(server, id);
		server->counts.bytes_in += (uint64_t)cqe->res;
		server->counts.requests += ended;
		if (!server->options->burst) {
			server->counts.answers += ended;
			connection->owed += (uint64_t)ended * server->options->answer_len;
			send_owed(server, number);
		}
	} else if (!is_to_be_repeated(cqe->res)) {
		/* The peer has no more to say; what it is owed it gets. */
		connection->ends = true;
		if (cqe->res < 0) {
			connection->failed = true;
			say_failure("receive", cqe->res);
		}
	}
	if (!connection->receives && !connection->ends)
		receive_more(server, number);
	close_when_idle(server, number);
}

static void on_sent(struct server *server, uint32_t number, const struct io_uring_cqe *cqe)
{
	struct connection *connection = &server->connections[number];

	connection->sends = false;
	if (cqe->res < 0 && !is_to_be_repeated(cqe->res)) {
		say_failure("send", cqe->res);
		connection->failed = true;
		connection->ends = true;
		if (connection->receives) {
			struct io_uring_sqe *sqe = entry(server);
			io_uring_prep_cancel64(sqe, NAME(RECEIVE, number), 0);
			io_uring_sqe_set_data64(sqe, NAME(CANCEL, number));
		}
	} else {
		uint32_t sent = cqe->res < 0 ? 0 : (uint32_t)cqe->res;
		connection->owed -= sent;
		server->counts.bytes_out += sent;
		send_owed(server, number);
	}
	close_when_idle(server, number);
}

static void answer_datagram(struct server *server, unsigned listener, const void *to, socklen_t to_len)
{
	uint32_t number = server->free_datagram;
	struct io_uring_sqe *sqe;

	/* As with a full queue: the datagram has no answer. */
	if (number == NONE || to_len > sizeof(struct sockaddr_storage))
		return;
	struct datagram *datagram = &server->datagrams[number];
	server->free_datagram = datagram->next_free;
	memcpy(&datagram->to, to, to_len);
	datagram->bytes = (struct iovec){ server->options->answers, server->options->answer_len };
	datagram->message = (struct msghdr){ .msg_name = &datagram->to, .msg_namelen = to_len, .msg_iov = &datagram->bytes, .msg_iovlen = 1 };
	sqe = entry(server);
	io_uring_prep_sendmsg(sqe, server->sockets[listener], &datagram->message, MSG_NOSIGNAL);
	io_uring_sqe_set_data64(sqe, NAME(ANSWERED, number));
}

static void on_datagram(struct server *server, unsigned listener, const struct io_uring_cqe *cqe)
{
	if (cqe->res >= 0) {
		unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		struct io_uring_recvmsg_out *out = io_uring_recvmsg_validate(buffer(server, id), cqe->res, &server->shape);
		if (out != NULL) {
			server->counts.requests++;
			server->counts.bytes_in += out->payloadlen;
			if (!server->options->burst)
				answer_datagram(server, listener, io_uring_recvmsg_name(out), out->namelen);
		}
		give_back(server, id);
	}
	if (cqe->flags & IORING_CQE_F_MORE)
		return;
	server->at_sockets--;
	if (!server->stops)
		receive_datagrams(server, listener);
}

static void on_answered(struct server *server, uint32_t number, const struct io_uring_cqe *cqe)
{
	if (cqe->res >= 0) {
		server->counts.answers++;
		server->counts.bytes_out += (uint32_t)cqe->res;
	}
	server->datagrams[number].next_free = server->free_datagram;
	server->free_datagram = number;
}

static void on_completion(struct server *server, const struct io_uring_cqe *cqe)
{
	uint32_t number = (uint32_t)(cqe->user_data >> 8);

	switch ((enum kind)(cqe->user_data & 0xff)) {
	case NOTIFIER: server->stops = true; break;
	case ACCEPT: on_accepted(server, number, cqe); break;
	case RECEIVE: on_received(server, number, cqe); break;
	case SEND: on_sent(server, number, cqe); break;
	case CLOSE: on_closed(server); break;
	case DATAGRAM: on_datagram(server, number, cqe); break;
	case ANSWERED: on_answered(server, number, cqe); break;
	case CANCEL: break;
	}
}

/* Waits for completions and looks at all of them. */
static void turn(struct server *server)
{
	int error = io_uring_submit_and_wait(&server->ring, 1);
	struct io_uring_cqe *cqe;
	unsigned head, count = 0;

	if (error < 0 && error != -EINTR && error != -EBUSY && error != -EAGAIN)
		die(FAILED, "cannot wait for io_uring: %s", strerror(-error));
	io_uring_for_each_cqe(&server->ring, head, cqe) {
		on_completion(server, cqe);
		count++;
	}
	io_uring_cq_advance(&server->ring, count);
}

/* Takes the sockets out of the ring and closes them. The kernel clears a ring some time after its process has ended, and until then
 * it would share what comes to the port between these sockets and those of whoever serves next, and reset what it gave to these. */
static void leave_sockets(struct server *server)
{
	for (unsigned listener = 0; listener < server->listener_count; listener++) {
		const uint64_t names[] = { NAME(ACCEPT, listener), NAME(DATAGRAM, listener) };

		for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			struct io_uring_sqe *sqe = entry(server);
			io_uring_prep_cancel64(sqe, names[i], 0);
			io_uring_sqe_set_data64(sqe, NAME(CANCEL, 0));
		}
	}
	while (server->at_sockets > 0)
		turn(server);
	for (unsigned listener = 0; listener < server->listener_count; listener++) {
		close(server->listeners[listener]);
		close(server->sockets[listener]);
	}
}

static void make_ring(struct server *server)
{
	/* Work is done when we ask for it, and nobody else asks; older kernels know less of that. */
	const unsigned wishes[] = { IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0 };
	int error = -EINVAL;

	for (unsigned i = 0; i < sizeof(wishes) / sizeof(wishes[0]) && error == -EINVAL; i++) {
		struct io_uring_params params = { .flags = wishes[i] | IORING_SETUP_CQSIZE, .cq_entries = COMPLETIONS };
		error = io_uring_queue_init_params(ENTRIES, &server->ring, &params);
	}
	if (error == -EPERM)
		die(FAILED, "io_uring is forbidden here: as root run sysctl kernel.io_uring_disabled=0");
	if (error < 0)
		die(FAILED, "io_uring does not start: %s; it needs Linux 6.0 or later", strerror(-error));
	error = io_uring_register_files_sparse(&server->ring, server->options->connections);
	if (error < 0)
		die(FAILED, "%u connections are more than io_uring takes: %s; give fewer with --connections", server->options->connections, strerror(-error));
}

static void make_buffers(struct server *server)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = BUFFER_GROUP };
	void *ring;

	if (posix_memalign(&ring, 4096, BUFFERS * sizeof(struct io_uring_buf)) != 0 ||
	    posix_memalign((void **)&server->memory, 4096, (size_t)BUFFERS * BUFFER_LEN) != 0)
		die(FAILED, "no memory for %d buffers", BUFFERS);
	server->buffers = ring;
	reg.ring_addr = (uintptr_t)ring;
	int error = io_uring_register_buf_ring(&server->ring, &reg, 0);
	if (error < 0)
		die(FAILED, "io_uring takes no ring of buffers: %s; it needs Linux 6.0 or later", strerror(-error));
	io_uring_buf_ring_init(server->buffers);
	for (unsigned id = 0; id < BUFFERS; id++)
		io_uring_buf_ring_add(server->buffers, buffer(server, id), BUFFER_LEN, (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), (int)id);
	io_uring_buf_ring_advance(server->buffers, BUFFERS);
}

static int open_listener(const struct options *options, const struct address *address, int kind)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(options->port), .sin6_addr = in6addr_any };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(options->port) };
	bool is_v4 = address != NULL && !address->v6;
	const int on = 1;

	if (address != NULL && is_v4)
		v4.sin_addr = address->ip.v4;
	else if (address != NULL)
		v6.sin6_addr = address->ip.v6;
	int fd = socket(is_v4 ? AF_INET : AF_INET6, kind | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0;
	if (good && kind == SOCK_STREAM) {
		good = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0;
		/* Connections inherit it. */
		good = good && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0;
	}
	good = good && (is_v4 ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) : bind(fd, (struct sockaddr *)&v6, sizeof(v6))) == 0;
	good = good && (kind != SOCK_STREAM || listen(fd, BACKLOG) == 0);
	if (!good)
		die(FAILED, "cannot listen on %s, port %u: %s; choose a free port with -p, and addresses of this machine", address ? address->text : "every address",
		    options->port, strerror(errno));
	return fd;
}

/* The listeners of one thread. Made for all threads before any begins, so that an address that is taken is told of at once. */
static void open_doors(struct server *server)
{
	const struct options *options = server->options;

	server->listener_count = options->address_count ? options->address_count : 1;
	for (unsigned i = 0; i < server->listener_count; i++) {
		const struct address *address = options->address_count ? &options->addresses[i] : NULL;
		server->listeners[i] = open_listener(options, address, SOCK_STREAM);
		server->sockets[i] = open_listener(options, address, SOCK_DGRAM);
	}
}

static void make_tables(struct server *server)
{
	/* Pages that no connection ever used cost nothing. */
	server->connections = calloc(server->options->connections, sizeof(struct connection));
	server->datagrams = calloc(DATAGRAMS, sizeof(struct datagram));
	if (server->connections == NULL || server->datagrams == NULL)
		die(FAILED, "no memory for %u connections: give fewer with --connections", server->options->connections);
	for (uint32_t i = 0; i < DATAGRAMS; i++)
		server->datagrams[i].next_free = i + 1 < DATAGRAMS ? i + 1 : NONE;
	server->shape.msg_namelen = sizeof(struct sockaddr_storage);
}

static pthread_barrier_t all_ready;

static void *serve(void *argument)
{
	struct server *server = argument;

	pin_to_core(server->options, server->index);
	make_ring(server);
	make_buffers(server);
	make_tables(server);
	struct io_uring_sqe *sqe = entry(server);
	io_uring_prep_poll_add(sqe, server->notifier, POLLIN);
	io_uring_sqe_set_data64(sqe, NAME(NOTIFIER, 0));
	for (unsigned listener = 0; listener < server->listener_count; listener++) {
		accept_more(server, listener);
		receive_datagrams(server, listener);
	}
	io_uring_submit(&server->ring);
	pthread_barrier_wait(&all_ready);
	double began = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	while (!server->stops)
		turn(server);
	leave_sockets(server);
	/* A thread that waits here is never busy in vain. */
	server->counts.busy_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - began;
	return NULL;
}

/* As many sockets as the system lets us have, some kept for other files. */
static uint32_t sockets_allowed(uint32_t wanted)
{
	struct rlimit limit;

	limit.rlim_cur = limit.rlim_max = wanted + OTHER_FILES;
	/* Root may raise the hard limit as well. */
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return wanted;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	rlim_t most = limit.rlim_max > OTHER_FILES + 16 ? limit.rlim_max - OTHER_FILES : 16;
	return most < wanted ? (uint32_t)most : wanted;
}

int main(int argc, char **argv)
{
	struct program program = {
		.name = "kernel-io_uring",
		.over = "io_uring",
		/* Given by the build: this release of the library cannot be asked. */
		.version = "liburing " LIBURING_VERSION,
		.about = "Answers requests over the kernel's sockets with io_uring: the requests of `clearway bench client`.",
		.most_cores = MAX_CORES,
		.most_connections = sockets_allowed(1 << 20),
	};
	static struct options options;

	program.connections = program.most_connections;
	options_read(&options, &program, argc, argv);
	signals_take();
	unsigned count = options.core_count;
	struct server *servers = calloc(count, sizeof(*servers));
	struct counts *counts = calloc(count, sizeof(*counts));
	if (servers == NULL || counts == NULL)
		die(FAILED, "no memory for %u threads: name fewer cores", count);
	for (unsigned i = 0; i < count; i++) {
		servers[i] = (struct server){ .options = &options, .index = i, .notifier = eventfd(0, EFD_CLOEXEC) };
		open_doors(&servers[i]);
	}
	pthread_barrier_init(&all_ready, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0)
			die(FAILED, "cannot start a thread: name fewer cores");
	pthread_barrier_wait(&all_ready);
	say_ready(&options);
	signals_wait(&options);
	for (unsigned i = 0; i < count; i++)
		eventfd_write(servers[i].notifier, 1);
	for (unsigned i = 0; i < count; i++) {
		pthread_join(servers[i].thread, NULL);
		counts[i] = servers[i].counts;
	}
	say_summary(&options, counts, count);
	return ENDED;
}
