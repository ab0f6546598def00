/* What every program here says of itself: where something is not so, and errno. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                           \
	do {                                                                                                       \
		if (!(condition)) {                                                                                \
			fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);  \
			exit(1);                                                                                   \
		}                                                                                                  \
	} while (0)

#endif
