/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters by pattern, as programs written for Lustre ask for them. What is found are names of parameters, not paths of
 * files: llapi_param_get_value() reads them.
 */
#ifndef SHEEN_LIBCFS_UTIL_PARAM_H
#define SHEEN_LIBCFS_UTIL_PARAM_H

#include <errno.h>
#include <glob.h>
#include <lustre/lustreapi.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0, or -1 with errno (ENOENT: no parameter matches). To be freed with cfs_free_param_data(), also after -1. */
__attribute__((__format__(__printf__, 2, 3)))
static inline int cfs_get_param_paths(glob_t *paths, const char *pattern, ...)
{
	char name[PATH_MAX];
	va_list ap;
	int rc;

	if (paths == NULL || pattern == NULL) {
		errno = EINVAL;
		return -1;
	}
	memset(paths, 0, sizeof(*paths));
	va_start(ap, pattern);
	rc = vsnprintf(name, sizeof(name), pattern, ap);
	va_end(ap);
	if (rc < 0 || (size_t)rc >= sizeof(name)) {
		errno = rc < 0 ? EINVAL : ENAMETOOLONG;
		return -1;
	}
	return llapi_param_get_paths(name, paths) < 0 ? -1 : 0;
}

static inline void cfs_free_param_data(glob_t *paths)
{
	llapi_param_paths_free(paths);
}

#ifdef __cplusplus
}
#endif

#endif
