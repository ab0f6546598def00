/* Mounts, targets, pools and parameters; prints a table as `lfs df` does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "check.h"

static int table(char *mount, __u32 type, const char *kind)
{
	struct obd_statfs space;
	struct obd_uuid uuid;
	__u32 index;
	int rows = 0;

	for (index = 0;; index++) {
		int rc = llapi_obd_statfs(mount, type, index, &space, &uuid);

		if (rc == -ENODEV)
			return rows;
		if (rc == -EAGAIN)
			continue;
		if (rc == -ENODATA) {
			printf("%s: inactive device\n", obd_uuid2str(&uuid));
			continue;
		}
		CHECK(rc == 0);
		printf("%s %llu %s[%s:%u]\n", obd_uuid2str(&uuid),
		       (unsigned long long)(space.os_blocks * (space.os_bsize / 1024)), mount, kind, index);
		CHECK(space.os_bavail <= space.os_bfree && space.os_bfree <= space.os_blocks);
		rows++;
	}
}

static void parameters(void)
{
	glob_t paths;
	char *value;
	size_t length, i;
	int found = 0;

	CHECK(llapi_param_get_paths("osc.*.active", &paths) == 0);
	for (i = 0; i < paths.gl_pathc; i++) {
		CHECK(llapi_param_get_value(paths.gl_pathv[i], &value, &length) == 0);
		CHECK(length == strlen(value));
		printf("%s=%s%s", paths.gl_pathv[i], value, strchr(value, '\n') ? "" : "\n");
		free(value);
		found++;
	}
	llapi_param_paths_free(&paths);
	CHECK(found > 0);
	CHECK(llapi_param_get_paths("no.such.parameter", &paths) == -ENOENT);
	CHECK(llapi_param_get_value("osc.*.active", &value, &length) == -EINVAL);
}

int main(int argc, char **argv)
{
	char mount[PATH_MAX], fsname[LUSTRE_MAXFSNAME + 1], name[64], buffer[512], *list[8];
	struct obd_uuid uuids[8], lov;
	int fd, count, index, seen = 0;
	struct mntent entry = { 0 }, *next;
	FILE *mounts;

	CHECK(argc == 2 && chdir(argv[1]) == 0);

	/* Which file system, where. */
	CHECK(llapi_search_fsname(argv[1], fsname) == 0 && strcmp(fsname, "sheen") == 0);
	CHECK(llapi_search_fsname("not-yet-there", fsname) == 0);
	CHECK(llapi_search_mounts(argv[1], 0, mount, fsname) == 0 && strcmp(mount, argv[1]) == 0);
	CHECK(llapi_search_mounts("/tmp", 0, mount, fsname) == -ENOENT);
	for (index = 0; llapi_search_mounts(NULL, index, mount, fsname) == 0; index++)
		seen += strcmp(mount, argv[1]) == 0;
	CHECK(seen == 1);
	CHECK(llapi_search_rootpath(mount, "sheen") == 0 && strcmp(mount, argv[1]) == 0);
	CHECK(llapi_search_rootpath(mount, "nosuchfs") == -ENODEV);
	CHECK(llapi_getname(argv[1], name, sizeof(name)) == 0);
	printf("%s\n", name);
	CHECK(llapi_getname(argv[1], name, 4) == -ENAMETOOLONG);
	CHECK(llapi_get_fsname_instance(argv[1], fsname, sizeof(fsname), name, sizeof(name)) == 0 && strlen(name) == 16);
	mounts = setmntent("/proc/mounts", "r");
	CHECK(mounts != NULL);
	seen = 0;
	while ((next = getmntent(mounts)) != NULL)
		seen += llapi_is_lustre_mnt(next) && strcmp(next->mnt_dir, argv[1]) == 0;
	endmntent(mounts);
	CHECK(seen == 1 && !llapi_is_lustre_mnt(&entry));

	/* Targets. */
	CHECK(llapi_get_obd_count(argv[1], &count, 0) == 0 && count == 4);
	CHECK(llapi_get_obd_count(argv[1], &count, 1) == 0 && count == 1);
	CHECK(table(argv[1], LL_STATFS_LMV, "MDT") == 1 && table(argv[1], LL_STATFS_LOV, "OST") == 4);
	CHECK(llapi_obd_statfs(argv[1], 9, 0, NULL, NULL) == -EINVAL);
	fd = open(".", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	count = 3;
	CHECK(llapi_lov_get_uuids(fd, uuids, &count) == -EOVERFLOW && count == 4);
	count = 8;
	CHECK(llapi_lov_get_uuids(fd, uuids, &count) == 0 && count == 4);
	CHECK(llapi_uuid_match(obd_uuid2str(&uuids[3]), (char *)"sheen-OST0003") == 1);
	CHECK(llapi_file_fget_lov_uuid(fd, &lov) == 0 && strncmp(lov.uuid, "sheen-clilov-", 13) == 0);
	close(fd);
	CHECK(llapi_search_ost("sheen", NULL, "sheen-OST0002_UUID") == 1);
	CHECK(llapi_search_ost("sheen", NULL, "OST0004") == 0);
	CHECK(llapi_search_ost("sheen", "two", "sheen-OST0000") == 0);
	CHECK(llapi_search_ost("sheen", "nopool", NULL) == -ENOENT);
	CHECK(llapi_search_tgt("sheen", NULL, "MDT0000", true) == 1);

	/* Pools. */
	CHECK(llapi_get_poollist("sheen", list, 8, buffer, sizeof(buffer)) == 1 && strcmp(list[0], "sheen.two") == 0);
	CHECK(llapi_get_poolmembers("sheen.two", list, 8, buffer, sizeof(buffer)) == 2);
	CHECK(strcmp(list[0], "sheen-OST0001_UUID") == 0 && strcmp(list[1], "sheen-OST0002_UUID") == 0);
	CHECK(llapi_get_poolmembers("sheen.two", list, 8, buffer, 20) == -EOVERFLOW);
	CHECK(llapi_get_poolmembers("sheen.none", list, 8, buffer, sizeof(buffer)) == -ENOENT);

	parameters();
	CHECK(llapi_get_version_string(buffer, sizeof(buffer)) == 0 && strchr(buffer, '.') != NULL);
	return 0;
}
