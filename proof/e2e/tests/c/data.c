/* Versions, exchanges, advice, files without a name, messages; and what is refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "check.h"

static char told[128];

static void listener(enum llapi_message_level level, int err, const char *fmt, va_list ap)
{
	int used = snprintf(told, sizeof(told), "%d %d ", (int)level, err);

	vsnprintf(told + used, sizeof(told) - used, fmt, ap);
}

static void messages(void)
{
	CHECK(llapi_msg_get_level() == LLAPI_MSG_MAX);
	llapi_msg_set_level(LLAPI_MSG_ERROR);
	llapi_error(LLAPI_MSG_WARN, -ENOENT, "nobody reads this");
	llapi_error(LLAPI_MSG_ERROR, -ENOENT, "cannot find '%s' in %d places", "x", 3);
	llapi_set_command_name("demo");
	llapi_err_noerrno(LLAPI_MSG_ERROR, "%s", "no number");
	llapi_clear_command_name();
	CHECK(llapi_error_callback_set(listener) == NULL);
	llapi_error(LLAPI_MSG_ERROR, EIO, "%s %d %.1f %lld", "heard", 7, 2.5, 1LL << 40);
	CHECK(strcmp(told, "2 5 heard 7 2.5 1099511627776") == 0);
	CHECK(llapi_error_callback_set(NULL) == listener);
	llapi_msg_set_level(LLAPI_MSG_MAX);
	llapi_printf(LLAPI_MSG_NORMAL, "%d of %s\n", 1, "these");
	CHECK(llapi_info_callback_set(listener) == NULL);
	llapi_printf(LLAPI_MSG_NORMAL, "to %s", "somebody");
	CHECK(strcmp(told, "4 0 to somebody") == 0);
}

static int content(const char *path, char *room)
{
	int fd = open(path, O_RDONLY), got;

	CHECK(fd >= 0);
	got = read(fd, room, 16);
	CHECK(close(fd) == 0);
	return got;
}

int main(int argc, char **argv)
{
	struct llapi_lu_ladvise advice[2];
	struct hsm_user_state state;
	unsigned long long size, unit = 1;
	__u64 before, after, other;
	char room[16];
	int fd, fd2, outside;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	messages();

	/* A version grows with what is written. */
	fd = open("a", O_CREAT | O_RDWR, 0644);
	CHECK(fd >= 0 && write(fd, "first", 5) == 5);
	CHECK(llapi_get_data_version(fd, &before, LL_DV_WR_FLUSH) == 0);
	CHECK(write(fd, "!", 1) == 1);
	CHECK(llapi_get_data_version(fd, &after, LL_DV_WR_FLUSH) == 0 && after > before);

	/* Two files exchange their data, unless one is being written, or is not what it was. */
	fd2 = llapi_file_open("b", O_CREAT | O_RDWR, 0644, 65536, 1, 1, 0);
	CHECK(fd2 >= 0 && write(fd2, "second", 6) == 6);
	CHECK(llapi_fswap_layouts(fd, fd2, 0, 0, 0) == -EBUSY);
	CHECK(close(fd) == 0 && close(fd2) == 0);
	fd = open("a", O_RDONLY);
	fd2 = open("b", O_RDONLY);
	CHECK(llapi_get_data_version(fd, &after, LL_DV_RD_FLUSH) == 0);
	CHECK(llapi_get_data_version(fd2, &other, LL_DV_RD_FLUSH) == 0);
	CHECK(llapi_fswap_layouts(fd, fd2, after + 1000, other, SWAP_LAYOUTS_CHECK_DV1) == -EAGAIN);
	CHECK(llapi_fswap_layouts(fd, fd2, 0, 0, 0) == 0);
	CHECK(content("a", room) == 6 && memcmp(room, "second", 6) == 0);
	CHECK(content("b", room) == 6 && memcmp(room, "first!", 6) == 0);
	CHECK(llapi_swap_layouts("a", "b", 0, 0, 0) == 0);
	CHECK(content("a", room) == 6 && memcmp(room, "first!", 6) == 0);

	/* Advice. */
	memset(advice, 0, sizeof(advice));
	advice[0].lla_advice = LU_LADVISE_WILLREAD;
	advice[0].lla_end = LUSTRE_EOF;
	advice[1].lla_advice = LU_LADVISE_DONTNEED;
	advice[1].lla_end = 4096;
	CHECK(llapi_ladvise(fd, LF_ASYNC, 2, advice) == 0);
	advice[1].lla_advice = LU_LADVISE_LOCKAHEAD;
	CHECK(llapi_ladvise(fd, 0, 2, advice) == -EOPNOTSUPP);
	CHECK(llapi_ladvise(fd, 0, 0, advice) == -EINVAL);
	CHECK(llapi_ladvise(fd, 0, LAH_COUNT_MAX + 1, advice) == -EINVAL);
	CHECK(llapi_ladvise(fd, 0, 1, NULL) == -EINVAL);

	/* A file without a name works and is nowhere. */
	fd2 = llapi_create_volatile((char *)".", 0);
	CHECK(fd2 >= 0 && write(fd2, "gone", 4) == 4 && pread(fd2, room, 16, 0) == 4);
	CHECK(close(fd2) == 0);

	/* What SheenFS does not have says so; what is elsewhere is no business of it. */
	outside = open("/tmp", O_RDONLY);
	CHECK(llapi_group_lock(outside, 7) == -ENOTTY && llapi_group_unlock(-1, 7) == -EBADF);
	CHECK(llapi_lease_acquire(outside, LL_LEASE_RDLCK) == -ENOTTY && llapi_lease_check(-1) == -EBADF);
	CHECK(llapi_hsm_state_get("a", &state) == -EOPNOTSUPP);
	CHECK(llapi_quotactl(argv[1], NULL) == -EOPNOTSUPP);
	CHECK(llapi_ladvise(outside, 0, 1, advice) == -ENOTTY);
	CHECK(llapi_get_data_version(outside, &before, 0) == -ENOTTY);

	CHECK(llapi_parse_size("4M", &size, &unit, 0) == 0 && size == 4 << 20 && unit == 1 << 20);
	return 0;
}
