#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program_name = "baseline";

void die(int code, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(code);
}

static void help(const struct program *program)
{
	printf("%s\n\nUsage: %s %s[OPTIONS]\n\n", program->about, program->name, program->has_port ? "--port PORT -a ADDR/LEN " : "");
	if (program->has_port)
		printf("      --port PORT           the port of the stack: dpdk:DEVICE, with mtu=BYTES, mac=ADDRESS and offload=on|off among its words\n");
	printf("  -a, --address ADDR/LEN    an address to answer at; may be repeated%s\n", program->has_port ? "" : " [default: every address]");
	if (program->has_port)
		printf("      --gateway ADDR        the router for everything that is not on the link\n");
	printf("  -p, --server-port PORT    the port to listen on, for TCP and UDP [default: 10000]\n"
	       "  -l, --length BYTES        answer with so many bytes; requests have as many unless --request says otherwise [default: 64]\n"
	       "  -m, --message TEXT        answer with this text; \\r \\n \\t \\0 \\\\ and \\xNN stand for bytes\n"
	       "      --request WHERE       where a request ends: after so many BYTES; with an empty line (http); or whatever arrives together is one (any)\n"
	       "  -g, --pattern PATTERN     answer each request, or only count: ping-pong (or 1), burst (or 2) [default: ping-pong]\n"
	       "      --cores LIST          cores to run on, such as 0 or 0,1 or 0-3 [default: one thread on any core]\n"
	       "      --connections NUMBER  connections that one core may have at a time, %u at most [default: %u]\n"
	       "  -t, --time SECONDS        stop after so many seconds\n"
	       "      --json                print figures as JSON, an object per line\n"
	       "      --poll                never sleep: %s\n"
	       "  -h, --help                print this\n"
	       "  -V, --version             print the versions of what is inside\n",
	       program->most_connections, program->connections, program->has_port ? "as this program is anyway" : "has no meaning over the kernel's sockets");
}

/* A number with k, M or G behind it. */
static uint64_t number(const char *what, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	errno = 0;
	uint64_t value = strtoull(text, &end, 10);
	unsigned shift = 0;

	if (*end == 'k' || *end == 'K')
		shift = 10;
	else if (*end == 'M')
		shift = 20;
	else if (*end == 'G')
		shift = 30;
	end += shift != 0;
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > (UINT64_MAX >> shift))
		die(WRONG_USE, "`%s` is no number for %s: write one such as 64 or 4K", text, what);
	value <<= shift;
	if (value < least || value > most)
		die(WRONG_USE, "%s is from %llu to %llu; `%s` is not", what, (unsigned long long)least, (unsigned long long)most, text);
	return value;
}

static void add_address(struct options *options, const char *text)
{
	if (options->address_count == MAX_ADDRESSES)
		die(WRONG_USE, "there are more than %d addresses: give fewer -a", MAX_ADDRESSES);
	struct address *address = &options->addresses[options->address_count++];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);

	address->text = text;
	if (len >= sizeof(address->host))
		die(WRONG_USE, "`%s` is no address: write one such as 10.0.0.2/24", text);
	memcpy(address->host, text, len);
	address->host[len] = '\0';
	if (inet_pton(AF_INET, address->host, &address->ip.v4) == 1)
		address->v6 = false;
	else if (inet_pton(AF_INET6, address->host, &address->ip.v6) == 1)
		address->v6 = true;
	else
		die(WRONG_USE, "`%s` is no address: write one such as 10.0.0.2/24", text);
	unsigned longest = address->v6 ? 128 : 32;
	address->prefix_len = slash ? (unsigned)number("a prefix length", slash + 1, 0, longest) : longest;
}

static void add_cores(struct options *options, const char *list)
{
	options->core_count = 0;
	options->pinned = true;
	for (const char *at = list;;) {
		char *end;
		long first = strtol(at, &end, 10), last = first;

		if (end != at && *end == '-') {
			at = end + 1;
			last = strtol(at, &end, 10);
		}
		if (end == at || first < 0 || last < first || last >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
			die(WRONG_USE, "`%s` is no list of cores: write one such as 0 or 0,1 or 0-3", list);
		for (long core = first; core <= last; core++) {
			if (options->core_count == options->program->most_cores)
				die(WRONG_USE, "%s runs on %u core%s at most: give --cores fewer", options->program->name, options->program->most_cores,
				    options->program->most_cores == 1 ? "" : "s");
			options->cores[options->core_count++] = (int)core;
		}
		if (*end == '\0')
			return;
		at = end + 1;
	}
}

static int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The bytes that a text means, into `to`, which has room for as many as the text; how many they are. */
static uint32_t unescape(const char *text, uint8_t *to)
{
	uint32_t len = 0;

	for (; *text != '\0'; text++) {
		if (*text != '\\') {
			to[len++] = (uint8_t)*text;
			continue;
		}
		switch (*++text) {
		case 'r': to[len++] = '\r'; break;
		case 'n': to[len++] = '\n'; break;
		case 't': to[len++] = '\t'; break;
		case '0': to[len++] = '\0'; break;
		case '\\': to[len++] = '\\'; break;
		case 'x': {
			int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
			if (low < 0)
				die(WRONG_USE, "`\\x` wants two hexadecimal digits, such as \\x0a");
			to[len++] = (uint8_t)(high << 4 | low);
			text += 2;
			break;
		}
		default:
			die(WRONG_USE, "a backslash stands before r, n, t, 0, x or another backslash: write \\\\ for itself");
		}
	}
	return len;
}

/* The answer, and as many copies of it behind it as go together. */
static void make_answers(struct options *options, const char *message, uint32_t length)
{
	static const char filler[] = "The same bytes whichever stack sends them. ";
	uint32_t len = message ? (uint32_t)strnlen(message, MAX_ANSWER) : length;
	uint8_t *answer = malloc(len + 1);

	if (answer == NULL)
		die(FAILED, "no memory for an answer of %u bytes: give a smaller -l", len);
	if (message)
		len = unescape(message, answer);
	else
		for (uint32_t i = 0; i < len; i++)
			answer[i] = (uint8_t)filler[i % (sizeof(filler) - 1)];
	if (len == 0)
		die(WRONG_USE, "a message has at least one byte: give another -m");
	uint32_t copies = len < TOGETHER ? TOGETHER / len : 1;
	options->answer_len = len;
	options->answers_len = copies * len;
	options->answers = malloc(options->answers_len);
	if (options->answers == NULL)
		die(FAILED, "no memory for an answer of %u bytes: give a smaller -l", len);
	for (uint32_t i = 0; i < copies; i++)
		memcpy(options->answers + (size_t)i * len, answer, len);
	free(answer);
}

static void choose_framing(struct options *options, const char *request, bool has_message)
{
	bool answers_http = options->answer_len >= 5 && memcmp(options->answers, "HTTP/", 5) == 0;

	options->request_len = options->answer_len;
	if (request != NULL && strcmp(request, "http") == 0)
		options->framing = HTTP;
	else if (request != NULL && strcmp(request, "any") == 0)
		options->framing = ANY;
	else if (request != NULL)
		options->request_len = (uint32_t)number("--request", request, 1, UINT32_MAX);
	else if (answers_http)
		options->framing = HTTP;
	else if (has_message)
		options->framing = ANY;
}

static bool pattern_is_burst(const char *text)
{
	if (strcmp(text, "burst") == 0 || strcmp(text, "2") == 0)
		return true;
	if (strcmp(text, "ping-pong") != 0 && strcmp(text, "1") != 0)
		die(WRONG_USE, "`%s` is no pattern: write ping-pong or burst", text);
	return false;
}

void options_read(struct options *options, const struct program *program, int argc, char **argv)
{
	enum { PORT = 256, GATEWAY, REQUEST, CORES, CONNECTIONS, JSON, POLL };
	static const struct option words[] = {
		{ "port", required_argument, NULL, PORT }, { "address", required_argument, NULL, 'a' },
		{ "gateway", required_argument, NULL, GATEWAY }, { "server-port", required_argument, NULL, 'p' },
		{ "length", required_argument, NULL, 'l' }, { "message", required_argument, NULL, 'm' },
		{ "request", required_argument, NULL, REQUEST }, { "pattern", required_argument, NULL, 'g' },
		{ "cores", required_argument, NULL, CORES }, { "connections", required_argument, NULL, CONNECTIONS },
		{ "time", required_argument, NULL, 't' }, { "json", no_argument, NULL, JSON }, { "poll", no_argument, NULL, POLL },
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { 0 },
	};
	const char *message = NULL, *request = NULL;
	uint32_t length = 64;
	char *end;
	int word;

	program_name = program->name;
	*options = (struct options){ .program = program, .port = 10000, .core_count = 1, .connections = program->connections };
	while ((word = getopt_long(argc, argv, "a:p:l:m:g:t:hV", words, NULL)) != -1) {
		switch (word) {
		case PORT: options->port_name = optarg; break;
		case 'a': add_address(options, optarg); break;
		case GATEWAY:
			if (inet_pton(AF_INET, optarg, &options->gateway) != 1)
				die(WRONG_USE, "`%s` is no IPv4 address of a router", optarg);
			break;
		case 'p': options->port = (uint16_t)number("a port", optarg, 1, 65535); break;
		case 'l': length = (uint32_t)number("an answer's length", optarg, 1, MAX_ANSWER); break;
		case 'm': message = optarg; break;
		case REQUEST: request = optarg; break;
		case 'g': options->burst = pattern_is_burst(optarg); break;
		case CORES: add_cores(options, optarg); break;
		case CONNECTIONS: options->connections = (uint32_t)number("--connections", optarg, 1, program->most_connections); break;
		case 't':
			options->seconds = strtod(optarg, &end);
			if (end == optarg || *end != '\0' || !(options->seconds > 0))
				die(WRONG_USE, "`%s` is no number of seconds", optarg);
			break;
		case JSON: options->json = true; break;
		case POLL: break;
		case 'h': help(program); exit(ENDED);
		case 'V': printf("%s: %s\n", program->name, program->version); exit(ENDED);
		default: exit(WRONG_USE);
		}
	}
	if (optind < argc)
		die(WRONG_USE, "`%s` is no option; --help tells which there are", argv[optind]);
	if (program->has_port && options->port_name == NULL)
		die(WRONG_USE, "there is no port: give --port");
	if (!program->has_port && options->port_name != NULL)
		die(WRONG_USE, "this runs over the kernel's sockets: leave --port out");
	if (program->has_port && options->address_count == 0)
		die(WRONG_USE, "there is no address: give -a, such as -a 10.0.0.2/24");
	make_answers(options, message, length);
	choose_framing(options, request, message != NULL);
}

/* Counts empty lines; `partial` is how much of \r\n\r\n was there at the end. */
static uint32_t empty_lines_in(uint32_t *partial, const uint8_t *bytes, size_t len)
{
	uint32_t ended = 0, seen = *partial;

	/* What is usual: a head that came whole and is the only one. */
	if (seen == 0 && len >= 4) {
		const uint8_t *end = memmem(bytes, len, "\r\n\r\n", 4);
		if (end != NULL && end + 4 == bytes + len)
			return 1;
	}
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '\r')
			seen = seen == 2 ? 3 : 1;
		else if (bytes[i] == '\n' && (seen == 1 || seen == 3))
			seen++;
		else
			seen = 0;
		if (seen == 4) {
			ended++;
			seen = 0;
		}
	}
	*partial = seen;
	return ended;
}

uint32_t requests_in(const struct options *options, uint32_t *partial, const uint8_t *bytes, size_t len)
{
	switch (options->framing) {
	case HTTP:
		return empty_lines_in(partial, bytes, len);
	case ANY:
		return len > 0;
	default:
		break;
	}
	uint64_t all = *partial + (uint64_t)len;
	/* What is usual: one whole request. */
	if (all == options->request_len) {
		*partial = 0;
		return 1;
	}
	*partial = (uint32_t)(all % options->request_len);
	return (uint32_t)(all / options->request_len);
}

const uint8_t *next_answers(const struct options *options, uint64_t owed, uint32_t *len)
{
	/* Into the first answer, as far as it was handed over already. */
	uint32_t into = (uint32_t)((options->answer_len - owed % options->answer_len) % options->answer_len);
	uint64_t room = options->answers_len - into;

	*len = (uint32_t)(owed < room ? owed : room);
	return options->answers + into;
}

double seconds_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double began_s;
static uint64_t began_cycles;

double seconds_per_cycle(void)
{
	uint64_t cycles = cycles_now() - began_cycles;
	return cycles > 0 ? (seconds_of(CLOCK_MONOTONIC) - began_s) / (double)cycles : 0;
}

static sigset_t ending(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	return set;
}

void signals_take(void)
{
	sigset_t set = ending();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void signals_wait(const struct options *options)
{
	sigset_t set = ending();
	struct timespec left = { 0 };
	int got;

	do {
		double seconds = began_s + options->seconds - seconds_of(CLOCK_MONOTONIC);
		seconds = seconds < 0 ? 0 : seconds;
		left.tv_sec = (time_t)seconds;
		left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
		got = options->seconds > 0 ? sigtimedwait(&set, NULL, &left) : sigwaitinfo(&set, NULL);
	} while (got < 0 && errno == EINTR);
}

bool signals_came(const struct options *options)
{
	sigset_t set = ending();
	const struct timespec now = { 0 };

	if (options->seconds > 0 && seconds_of(CLOCK_MONOTONIC) - began_s >= options->seconds)
		return true;
	return sigtimedwait(&set, NULL, &now) > 0;
}

void pin_to_core(const struct options *options, unsigned index)
{
	cpu_set_t set;

	if (!options->pinned)
		return;
	CPU_ZERO(&set);
	CPU_SET(options->cores[index], &set);
	int error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (error != 0)
		die(FAILED, "cannot run on core %d: %s; name others with --cores", options->cores[index], strerror(error));
}

static void addresses_of(const struct options *options, const char *quote, const char *between)
{
	for (unsigned i = 0; i < options->address_count; i++)
		printf("%s%s%s%s", i ? between : "", quote, options->addresses[i].text, quote);
}

void say_ready(const struct options *options)
{
	began_s = seconds_of(CLOCK_MONOTONIC);
	began_cycles = cycles_now();
	if (options->json) {
		printf("{\"event\":\"ready\",\"over\":\"%s\",\"version\":\"%s\",\"addresses\":[", options->program->over, options->program->version);
		addresses_of(options, "\"", ",");
		printf("],\"port\":%u,\"cores\":%u}\n", options->port, options->core_count);
	} else {
		printf("Answering at ");
		addresses_of(options, "", " ");
		printf("%s, port %u, over %s\n", options->address_count ? "" : "every address", options->port, options->program->version);
	}
	fflush(stdout);
}

static void say_json(const struct options *options, const struct counts *sum, double seconds, double share, double cycles_per_s)
{
	printf("{\"event\":\"summary\",\"over\":\"%s\",\"version\":\"%s\",\"seconds\":%.6f,\"accepted\":%llu,\"open\":%llu,\"reset_connections\":%llu,"
	       "\"refused_connections\":%llu,\"requests\":%llu,\"answers\":%llu,\"bytes_in\":%llu,\"bytes_out\":%llu,\"busy_share\":%.6f,\"per_request\":",
	       options->program->over, options->program->version, seconds, (unsigned long long)sum->accepted, (unsigned long long)sum->open,
	       (unsigned long long)sum->reset, (unsigned long long)sum->refused, (unsigned long long)sum->requests, (unsigned long long)sum->answers,
	       (unsigned long long)sum->bytes_in, (unsigned long long)sum->bytes_out, share);
	if (sum->requests > 0)
		printf("{\"busy_ns\":%.3f,\"cycles\":%.3f}}\n", sum->busy_s * 1e9 / (double)sum->requests, sum->busy_s * cycles_per_s / (double)sum->requests);
	else
		printf("null}\n");
}

void say_summary(const struct options *options, const struct counts *of_cores, unsigned count)
{
	double seconds = seconds_of(CLOCK_MONOTONIC) - began_s;
	double cycles_per_s = (double)(cycles_now() - began_cycles) / seconds;
	struct counts sum = { 0 };

	for (unsigned i = 0; i < count; i++) {
		const struct counts *core = &of_cores[i];
		sum.accepted += core->accepted;
		sum.open += core->open;
		sum.reset += core->reset;
		sum.refused += core->refused;
		sum.requests += core->requests;
		sum.answers += core->answers;
		sum.bytes_in += core->bytes_in;
		sum.bytes_out += core->bytes_out;
		sum.busy_s += core->busy_s;
	}
	double share = sum.busy_s / seconds / count;
	if (options->json) {
		say_json(options, &sum, seconds, share, cycles_per_s);
	} else {
		printf("\n%llu requests and %llu answers on %llu connections in %.1f s\n", (unsigned long long)sum.requests,
		       (unsigned long long)sum.answers, (unsigned long long)sum.accepted, seconds);
		if (sum.reset + sum.refused > 0)
			printf("%llu connections reset, %llu refused\n", (unsigned long long)sum.reset, (unsigned long long)sum.refused);
		if (sum.requests > 0)
			printf("busy %.1f %% of the time: %.0f ns or %.0f cycles a request\n", share * 100, sum.busy_s * 1e9 / (double)sum.requests,
			       sum.busy_s * cycles_per_s / (double)sum.requests);
	}
	fflush(stdout);
}
