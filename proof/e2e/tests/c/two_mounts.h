/* For programs that use one file system through two mounts. */
#ifndef TWO_MOUNTS_H
#define TWO_MOUNTS_H

#include <fcntl.h>
#include "check.h"

/* Opens, or makes, a file in the root of a mount. */
static int at(const char *mount, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", mount, name);
	fd = open(path, flags, 0644);
	CHECK(fd >= 0);
	return fd;
}

#endif
