/* What programs take for granted: that the header brings string.h, linux/fs.h and linux/fiemap.h, and functions that are
 * asked now and then. It is run in the mount that its argument names. */
#include <lustre/lustreapi.h>
#include <libcfs/util/param.h>
#include <unistd.h>
#include "check.h"

int main(int argc, char **argv)
{
	struct fiemap map;
	glob_t params;
	__u32 version = 77, later = 0;
	int fd, dir;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	memset(&map, 0, sizeof(map));
	CHECK(strlen("four") == 4 && map.fm_extent_count == 0 && FS_IOC_GETFLAGS != 0 && FS_IOC_FIEMAP != 0);

	dir = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	CHECK(llapi_file_lookup(dir, "none") == -ENOENT);
	fd = llapi_file_open("lazy", O_CREAT | O_RDWR, 0644, 0, -1, 2, 0);
	CHECK(fd >= 0);
	CHECK(llapi_file_lookup(dir, "lazy") == 0);
	CHECK(llapi_file_lookup(dir, "a/b") == -EINVAL && llapi_file_lookup(dir, NULL) == -EINVAL);
	CHECK(llapi_file_lookup(-1, "lazy") == -EBADF);
	CHECK(llapi_get_ost_layout_version(fd, &version) == 0 && version != 77);
	CHECK(llapi_get_ost_layout_version(fd, &later) == 0 && later == version);
	CHECK(llapi_get_ost_layout_version(dir, &later) == -ENODATA);
	CHECK(llapi_get_ost_layout_version(fd, NULL) == -EINVAL);
	close(fd);
	close(dir);

	CHECK(cfs_get_param_paths(&params, "osc.*%s*.active", "OST0000") == 0 && params.gl_pathc >= 1);
	CHECK(strstr(params.gl_pathv[0], "OST0000") != NULL);
	cfs_free_param_data(&params);
	CHECK(cfs_get_param_paths(&params, "no.such.%d", 7) == -1 && errno == ENOENT);
	cfs_free_param_data(&params);

	CHECK(llapi_poollist(argv[1]) == 0);
	CHECK(llapi_poollist("sheen.two") == 0);
	CHECK(llapi_poollist("sheen.none") == -ENOENT);
	return 0;
}
