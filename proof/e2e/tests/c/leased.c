/* Leases, on two mounts of one file system: who gets one, who breaks it, and what is left of it. */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "two_mounts.h"

static const char *here, *there;

/* A close reaches the server a moment after close(2). */
static void soon(int fd, enum ll_lease_mode mode)
{
	int tries, rc = -EBUSY;

	for (tries = 0; rc == -EBUSY && tries < 500; tries++) {
		rc = llapi_lease_acquire(fd, mode);
		if (rc == -EBUSY)
			usleep(10000);
	}
	CHECK(rc == 0);
}

/* A lease that stands, and then somebody opens the file. */
static int broken_by(int fd, enum ll_lease_mode mode, const char *mount, int flags)
{
	int other, held;

	soon(fd, mode);
	CHECK(llapi_lease_check(fd) == (int)mode);
	other = at(mount, "file", flags);
	held = llapi_lease_check(fd);
	CHECK(held == 0 || held == (int)mode);
	CHECK(close(other) == 0);
	CHECK(llapi_lease_release(fd) == held);
	return held == 0;
}

static void who_breaks(void)
{
	const char *mounts[] = { here, there };
	int fd = at(here, "file", O_RDONLY), n;

	for (n = 0; n < 2; n++) {
		CHECK(!broken_by(fd, LL_LEASE_RDLCK, mounts[n], O_RDONLY));
		CHECK(broken_by(fd, LL_LEASE_RDLCK, mounts[n], O_WRONLY));
		CHECK(broken_by(fd, LL_LEASE_RDLCK, mounts[n], O_RDWR | O_CREAT));
		CHECK(broken_by(fd, LL_LEASE_WRLCK, mounts[n], O_RDONLY));
		CHECK(broken_by(fd, LL_LEASE_WRLCK, mounts[n], O_RDWR));
	}
	CHECK(close(fd) == 0);
}

/* Files that are open to read under a lock, without the server knowing. */
static void who_is_in_the_way(void)
{
	int fd = at(here, "file", O_RDWR), n;

	for (n = 0; n < 3; n++) {
		int told = at(there, "file", O_RDONLY), quiet;
		char byte;

		CHECK(close(told) == 0);
		usleep(100000);
		quiet = at(there, "file", O_RDONLY);
		CHECK(read(quiet, &byte, 1) == 1);
		CHECK(llapi_lease_acquire(fd, LL_LEASE_WRLCK) == -EBUSY && errno == EBUSY);
		soon(fd, LL_LEASE_RDLCK);
		CHECK(llapi_lease_release(fd) == LL_LEASE_RDLCK);
		/* Another one of this mount. */
		CHECK(close(quiet) == 0);
		soon(fd, LL_LEASE_WRLCK);
		CHECK(llapi_lease_release(fd) == LL_LEASE_WRLCK);
		quiet = at(here, "file", O_RDONLY);
		CHECK(llapi_lease_acquire(fd, LL_LEASE_WRLCK) == -EBUSY);
		CHECK(llapi_lease_acquire(quiet, LL_LEASE_RDLCK) == -EBUSY);
		CHECK(close(quiet) == 0);
	}
	CHECK(close(fd) == 0);
}

/* Of one open file: what other descriptors of it do is its own affair. */
static void forms(void)
{
	struct ll_ioc_lease lease = { .lil_mode = LL_LEASE_WRLCK };
	int fd = at(here, "file", O_RDWR), copy = dup(fd), dir = open(here, O_RDONLY | O_DIRECTORY);
	char path[4096];

	CHECK(llapi_lease_check(fd) == 0 && llapi_lease_release(fd) == 0);
	CHECK(llapi_lease_set(fd, &lease) == 0);
	CHECK(llapi_lease_acquire(fd, LL_LEASE_RDLCK) == -EBUSY);
	CHECK(pwrite(copy, "own", 3, 0) == 3 && ftruncate(copy, 2) == 0 && llapi_lease_check(copy) == LL_LEASE_WRLCK);
	snprintf(path, sizeof(path), "%s/file", there);
	CHECK(truncate(path, 5) == 0 && llapi_lease_check(fd) == 0);
	soon(fd, LL_LEASE_WRLCK);
	snprintf(path, sizeof(path), "%s/file", here);
	CHECK(truncate(path, 7) == 0 && llapi_lease_check(fd) == 0);
	lease.lil_flags = LL_LEASE_RESYNC;
	CHECK(llapi_lease_set(fd, &lease) == -EOPNOTSUPP);
	lease = (struct ll_ioc_lease){ .lil_mode = LL_LEASE_UNLCK };
	CHECK(llapi_lease_set(fd, &lease) == 0 && llapi_lease_set(fd, NULL) == -EINVAL);
	CHECK(llapi_lease_acquire(fd, 3) == -EINVAL && llapi_lease_get(fd, LL_LEASE_UNLCK) == -EINVAL);
	CHECK(llapi_lease_get(fd, LL_LEASE_RDLCK) == 0 && llapi_lease_put(copy) == LL_LEASE_RDLCK);
	CHECK(llapi_lease_acquire(dir, LL_LEASE_RDLCK) == -ENOTTY && llapi_lease_check(dir) == -ENOTTY);
	/* By the last descriptor, and with the process. */
	CHECK(close(fd) == 0 && llapi_lease_acquire(copy, LL_LEASE_WRLCK) == 0);
	CHECK(llapi_lease_check(copy) == LL_LEASE_WRLCK && close(copy) == 0 && close(dir) == 0);
}

/* Two files exchange their data under leases; other things are done to them meanwhile that break none. */
static void exchange(void)
{
	int a = at(here, "a", O_RDWR | O_CREAT), b = at(here, "b", O_RDWR | O_CREAT);
	char path[4096], room[8];
	int tries;

	CHECK(write(a, "first", 5) == 5 && write(b, "second", 6) == 6 && close(a) == 0 && close(b) == 0);
	a = at(here, "a", O_RDONLY);
	b = at(here, "b", O_RDONLY);
	soon(a, LL_LEASE_WRLCK);
	soon(b, LL_LEASE_RDLCK);
	snprintf(path, sizeof(path), "%s/a", there);
	CHECK(chmod(path, 0600) == 0 && access(path, R_OK) == 0);
	for (tries = 0; tries < 500 && llapi_fswap_layouts(a, b, 0, 0, 0) == -EBUSY; tries++)
		usleep(10000);
	CHECK(tries < 500);
	CHECK(pread(a, room, 8, 0) == 6 && memcmp(room, "second", 6) == 0);
	CHECK(llapi_lease_release(a) == LL_LEASE_WRLCK && llapi_lease_release(b) == LL_LEASE_RDLCK);
	CHECK(close(a) == 0 && close(b) == 0);
}

int main(int argc, char **argv)
{
	int fd;

	CHECK(argc == 3);
	here = argv[1];
	there = argv[2];
	fd = at(here, "file", O_WRONLY | O_CREAT);
	CHECK(write(fd, "bytes", 5) == 5 && close(fd) == 0);
	who_breaks();
	who_is_in_the_way();
	forms();
	exchange();
	return 0;
}
