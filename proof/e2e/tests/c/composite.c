/* Makes files from layouts as values, and prints what it reads back: extent, stripes, size, pool, OSTs of each component. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <lustre/lustreapi.h>
#include "check.h"

static int show(struct llapi_layout *layout, void *data)
{
	uint64_t start, end, count, size, pattern, ost;
	uint32_t id, flags;
	char pool[LOV_MAXPOOLNAME + 1];
	int *seen = data;

	CHECK(llapi_layout_comp_extent_get(layout, &start, &end) == 0);
	CHECK(llapi_layout_stripe_count_get(layout, &count) == 0);
	CHECK(llapi_layout_stripe_size_get(layout, &size) == 0);
	CHECK(llapi_layout_pattern_get(layout, &pattern) == 0);
	CHECK(llapi_layout_comp_id_get(layout, &id) == 0);
	CHECK(llapi_layout_comp_flags_get(layout, &flags) == 0);
	CHECK(llapi_layout_pool_name_get(layout, pool, sizeof(pool)) == 0);
	CHECK(llapi_layout_ost_index_get(layout, 0, &ost) == 0);
	printf("id %u flags %s start %" PRIu64 " end %s%.0" PRIu64 " count %" PRIu64 " size %" PRIu64 " pattern %" PRIu64
	       " offset %d pool '%s'\n",
	       id, flags & LCME_FL_INIT ? "init" : "0", start, end == LUSTRE_EOF ? "EOF" : "",
	       end == LUSTRE_EOF ? 0 : end, count, size, pattern, ost == LLAPI_LAYOUT_DEFAULT ? -1 : (int)ost, pool);
	*seen += 1;
	return LLAPI_LAYOUT_ITER_CONT;
}

static int stop_at_once(struct llapi_layout *layout, void *data)
{
	(void)layout;
	*(int *)data += 1;
	return LLAPI_LAYOUT_ITER_STOP;
}

int main(int argc, char **argv)
{
	struct llapi_layout *layout, *read_back, *other, *more;
	char value[XATTR_SIZE_MAX];
	struct lu_fid fid;
	uint64_t number, end;
	ssize_t size;
	uint32_t id;
	int fd, n, seen = 0;
	struct stat info;
	char bytes[8];

	CHECK(argc == 2 && chdir(argv[1]) == 0);

	/* One stripe on the third OST up to 1 MiB, all OSTs up to 64 MiB, then two of a pool. */
	layout = llapi_layout_alloc();
	CHECK(layout != NULL);
	CHECK(!llapi_layout_is_composite(layout));
	CHECK(llapi_layout_comp_extent_set(layout, 0, 1 << 20) == 0);
	CHECK(llapi_layout_stripe_count_set(layout, 1) == 0);
	CHECK(llapi_layout_ost_index_set(layout, 0, 2) == 0);
	CHECK(llapi_layout_comp_add(layout) == 0);
	CHECK(llapi_layout_comp_extent_set(layout, 2 << 20, 64 << 20) == -1 && errno == EINVAL);
	CHECK(llapi_layout_comp_extent_set(layout, 1 << 20, 64 << 20) == 0);
	CHECK(llapi_layout_stripe_count_set(layout, LLAPI_LAYOUT_WIDE) == 0);
	CHECK(llapi_layout_stripe_size_set(layout, 1 << 20) == 0);
	CHECK(llapi_layout_stripe_size_set(layout, 1000) == -1 && errno == EINVAL);
	CHECK(llapi_layout_comp_add(layout) == 0);
	CHECK(llapi_layout_comp_extent_set(layout, 64 << 20, LUSTRE_EOF) == 0);
	CHECK(llapi_layout_stripe_count_set(layout, 2) == 0);
	CHECK(llapi_layout_pool_name_set(layout, "two") == 0);
	CHECK(llapi_layout_is_composite(layout));
	CHECK(llapi_layout_sanity(layout, false, false, NULL) == LSE_OK);
	/* Each component can name OSTs, of its pool if it has one. */
	CHECK(llapi_layout_ost_index_set(layout, 0, 3) == 0);
	CHECK(llapi_layout_file_create("pfl", O_RDWR, 0640, layout) == -1 && errno == EINVAL);
	CHECK(llapi_layout_ost_index_set(layout, 0, 1) == 0);
	fd = llapi_layout_file_create("pfl", O_RDWR, 0640, layout);
	CHECK(fd >= 0);
	CHECK(llapi_layout_file_create("pfl", O_RDWR, 0640, layout) == -1 && errno == EEXIST);
	CHECK(pwrite(fd, "data", 4, 2 << 20) == 4);

	/* By descriptor, by path, by FID, and from the attribute: always the same. */
	read_back = llapi_layout_get_by_fd(fd, 0);
	CHECK(read_back != NULL && llapi_layout_is_composite(read_back));
	CHECK(llapi_layout_comp_iterate(read_back, show, &seen) == 0 && seen == 3);
	CHECK(llapi_layout_comp_iterate(read_back, stop_at_once, &seen) == LLAPI_LAYOUT_ITER_STOP && seen == 4);
	CHECK(llapi_layout_comp_use(read_back, LLAPI_LAYOUT_COMP_USE_LAST) == 0);
	CHECK(llapi_layout_comp_use(read_back, LLAPI_LAYOUT_COMP_USE_NEXT) == 1);
	CHECK(llapi_layout_get_last_init_comp(read_back) == 0);
	CHECK(llapi_layout_comp_extent_get(read_back, &number, &end) == 0 && number == 1 << 20);
	CHECK(llapi_layout_ost_index_get(read_back, 3, &number) == 0 && number < 4);
	CHECK(llapi_layout_ost_index_get(read_back, 4, &number) == -1 && errno == EINVAL);
	llapi_layout_free(read_back);
	seen = 0;
	size = fgetxattr(fd, XATTR_LUSTRE_LOV, value, sizeof(value));
	CHECK(size > 0);
	read_back = llapi_layout_get_by_xattr(value, size, LLAPI_LAYOUT_GET_CHECK);
	CHECK(read_back != NULL && llapi_layout_comp_iterate(read_back, show, &seen) == 0 && seen == 3);
	llapi_layout_free(read_back);
	CHECK(llapi_layout_get_by_xattr(value, size - 1, 0) == NULL && errno == EINVAL);
	CHECK(llapi_fd2fid(fd, &fid) == 0);
	read_back = llapi_layout_get_by_fid(".", &fid, 0);
	CHECK(read_back != NULL && llapi_layout_comp_iterate(read_back, show, &seen) == 0 && seen == 6);
	CHECK(close(fd) == 0);

	/* What was read makes another file of the same shape. */
	other = llapi_layout_get_by_path("pfl", LLAPI_LAYOUT_GET_COPY);
	CHECK(other != NULL);
	fd = llapi_layout_file_open("copy", O_CREAT | O_WRONLY, 0640, other);
	CHECK(fd >= 0 && close(fd) == 0);
	llapi_layout_free(other);
	llapi_layout_free(read_back);

	/* A default for a directory, and what a file there would get. */
	CHECK(mkdir("made", 0755) == 0);
	other = llapi_layout_get_by_path("made", 0);
	CHECK(other != NULL && llapi_layout_stripe_count_get(other, &number) == 0 && number == LLAPI_LAYOUT_DEFAULT);
	llapi_layout_free(other);
	other = llapi_layout_get_by_path("made/none", LAYOUT_GET_EXPECTED);
	CHECK(other != NULL && llapi_layout_stripe_size_get(other, &number) == 0 && number == 4 << 20);
	llapi_layout_free(other);
	CHECK(llapi_layout_get_by_path("made/none", 0) == NULL && errno == ENOENT);
	fd = open("made", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && llapi_layout_set_by_fd(fd, layout) == 0);
	CHECK(llapi_layout_comp_use(layout, LLAPI_LAYOUT_COMP_USE_FIRST) == 0);
	CHECK(llapi_layout_ost_index_reset(layout) == 0);
	CHECK(llapi_layout_set_by_fd(fd, layout) == 0 && close(fd) == 0);

	/* Stripes on named OSTs, overstriped. */
	other = llapi_layout_alloc();
	CHECK(llapi_layout_pattern_set(other, LLAPI_LAYOUT_OVERSTRIPING) == 0);
	CHECK(llapi_layout_stripe_count_set(other, 3) == 0);
	CHECK(llapi_layout_ost_index_set(other, 0, 1) == 0);
	CHECK(llapi_layout_ost_index_set(other, 1, 1) == 0);
	CHECK(llapi_layout_file_create("over", O_WRONLY, 0644, other) == -1 && errno == EINVAL);
	CHECK(llapi_layout_ost_index_set(other, 2, 0) == 0);
	fd = llapi_layout_file_create("over", O_WRONLY, 0644, other);
	CHECK(fd >= 0 && close(fd) == 0);

	/* The first 64 KiB on the MDT. */
	llapi_layout_free(layout);
	layout = llapi_layout_alloc();
	CHECK(llapi_layout_comp_extent_set(layout, 0, 65536) == 0);
	CHECK(llapi_layout_pattern_set(layout, LLAPI_LAYOUT_MDT) == 0);
	CHECK(llapi_layout_comp_add(layout) == 0);
	CHECK(llapi_layout_pattern_set(layout, LLAPI_LAYOUT_MDT) == 0);
	CHECK(llapi_layout_sanity(layout, false, false, NULL) == LSE_DOM_FIRST);
	CHECK(llapi_layout_pattern_set(layout, LLAPI_LAYOUT_RAID0) == 0);
	CHECK(llapi_layout_dom_size(layout, &number) == 0 && number == 65536);
	fd = llapi_layout_file_create("small", O_WRONLY, 0644, layout);
	CHECK(fd >= 0 && write(fd, "small", 5) == 5 && close(fd) == 0);
	read_back = llapi_layout_get_by_path("small", 0);
	CHECK(read_back != NULL && llapi_layout_pattern_get(read_back, &number) == 0 && number == LLAPI_LAYOUT_MDT);
	llapi_layout_free(read_back);

	/* Components are added behind the last one, once. */
	more = llapi_layout_alloc();
	CHECK(llapi_layout_comp_extent_set(more, 0, 1 << 20) == 0);
	fd = llapi_layout_file_create("longer", O_WRONLY, 0644, more);
	CHECK(fd >= 0 && write(fd, "short", 5) == 5 && close(fd) == 0);
	CHECK(llapi_layout_comp_extent_set(more, 1 << 20, LUSTRE_EOF) == 0);
	CHECK(llapi_layout_file_comp_add("longer", more) == 0);
	CHECK(llapi_layout_file_comp_add("longer", more) == -1 && errno == EINVAL);

	/* What has no objects can be taken away again, and added. */
	CHECK(llapi_layout_file_comp_del("longer", 0, 0) == -1 && errno == EINVAL);
	CHECK(llapi_layout_file_comp_del("longer", 0, LCME_FL_INIT) == -1 && errno == EOPNOTSUPP);
	CHECK(llapi_layout_file_comp_del("longer", 0, LCME_FL_NEG | LCME_FL_INIT) == 0);
	CHECK(llapi_layout_file_comp_del("longer", 0, LCME_FL_NEG | LCME_FL_INIT) == -1 && errno == ENODATA);
	read_back = llapi_layout_get_by_path("longer", 0);
	CHECK(read_back != NULL && llapi_layout_comp_use(read_back, LLAPI_LAYOUT_COMP_USE_FIRST) == 0);
	CHECK(llapi_layout_comp_id_get(read_back, &id) == 0);
	llapi_layout_free(read_back);
	CHECK(llapi_layout_file_comp_del("longer", id, 0) == -1 && errno == EINVAL);
	CHECK(llapi_layout_file_comp_add("longer", more) == 0);

	/* What has objects goes with its bytes, unless somebody writes; the size follows. */
	fd = open("longer", O_RDWR);
	CHECK(fd >= 0 && pwrite(fd, "far", 3, 3 << 20) == 3);
	read_back = llapi_layout_get_by_path("longer", 0);
	CHECK(read_back != NULL && llapi_layout_comp_use(read_back, LLAPI_LAYOUT_COMP_USE_LAST) == 0);
	CHECK(llapi_layout_comp_id_get(read_back, &id) == 0);
	llapi_layout_free(read_back);
	CHECK(llapi_layout_file_comp_del("longer", id, 0) == -1 && errno == EBUSY);
	CHECK(close(fd) == 0);
	for (n = 0; n < 500 && llapi_layout_file_comp_del("longer", id, 0) != 0; n++) {
		CHECK(errno == EBUSY);
		usleep(10000);
	}
	CHECK(n < 500 && stat("longer", &info) == 0 && info.st_size == 1 << 20);
	fd = open("longer", O_RDWR);
	CHECK(fd >= 0 && pread(fd, bytes, 6, 0) == 6 && memcmp(bytes, "short", 6) == 0);
	CHECK(pwrite(fd, "far", 3, 3 << 20) == -1 && close(fd) == 0);
	CHECK(llapi_layout_file_comp_add("longer", more) == 0);
	llapi_layout_free(more);
	read_back = llapi_layout_get_by_path("longer", 0);
	CHECK(read_back != NULL && llapi_layout_comp_use(read_back, LLAPI_LAYOUT_COMP_USE_LAST) == 0);
	CHECK(llapi_layout_comp_extent_get(read_back, &number, &end) == 0 && number == 1 << 20 && end == LUSTRE_EOF);
	llapi_layout_free(read_back);

	/* What is not there yet. */
	CHECK(llapi_layout_mirror_count_set(other, 2) == -1 && errno == EOPNOTSUPP);
	CHECK(llapi_layout_comp_flags_set(other, LCME_FL_PREF_RD) == 0);
	CHECK(llapi_layout_file_create("flagged", O_WRONLY, 0644, other) == -1 && errno == EOPNOTSUPP);
	CHECK(llapi_layout_sanity(other, false, false, NULL) == LSE_FLAGS);
	CHECK(access("flagged", F_OK) == -1);
	CHECK(llapi_layout_get_by_path("/tmp", 0) == NULL && errno == ENOTTY);
	llapi_layout_free(other);
	llapi_layout_free(layout);
	llapi_layout_free(NULL);
	return 0;
}
