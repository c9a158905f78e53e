/* Streams of the C library over a connection. */
#include "common.h"

static void *answers(void *given)
{
	FILE *in = fdopen(dup(*(int *)given), "r"), *out = fdopen(*(int *)given, "w");
	char line[200];

	while (fgets(line, sizeof(line), in)) {
		fprintf(out, "you said: %s", line);
		fflush(out);
	}
	fprintf(out, "the end\n");
	fclose(in);
	fclose(out);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	int ends[2];
	pthread_t other;
	char line[200];

	pair(ends);
	pthread_create(&other, NULL, answers, &ends[1]);
	FILE *both = fdopen(ends[0], "r+");
	printf("the descriptor is %s\n", fileno(both) == ends[0] ? "the same" : "another");
	for (int i = 0; i < 3; i++) {
		fprintf(both, "line %d\n", i);
		fflush(both);
		if (!fgets(line, sizeof(line), both))
			die("fgets");
		fputs(line, stdout);
	}
	shutdown(ends[0], SHUT_WR);
	while (fgets(line, sizeof(line), both))
		fputs(line, stdout);
	printf("at the end: %d, error: %d\n", feof(both), ferror(both));
	pthread_join(other, NULL);
	printf("closed: %d\n", fclose(both));
	printf("again: %d\n", close(ends[0]));
	return 0;
}
