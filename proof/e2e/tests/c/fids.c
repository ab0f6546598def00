/* FIDs and paths, there and back. Prints a FID and paths of files that the test made. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "check.h"

int main(int argc, char **argv)
{
	struct lu_fid fid, parsed, parent;
	struct fid_array *victims;
	char path[PATH_MAX], name[256], text[FID_LEN + 1], *end;
	long long recno = -1;
	int fd, rc, index, link = 0;

	CHECK(argc == 2 && chdir(argv[1]) == 0);
	CHECK(llapi_path2fid("d/one", &fid) == 0);
	CHECK(fid_is_sane(&fid));
	printf(DFID "\n", PFID(&fid));
	snprintf(text, sizeof(text), DFID, PFID(&fid));
	CHECK(llapi_fid_parse(text, &parsed, &end) == 0 && *end == '\0' && lu_fid_eq(&fid, &parsed));
	CHECK(sscanf(text, "[" SFID "]", RFID(&parsed)) == 3 && lu_fid_eq(&fid, &parsed));
	CHECK(llapi_fid_parse("nonsense", &parsed, &end) == -EINVAL);

	/* All names, as a loop over link numbers. */
	for (;;) {
		int next = link;

		rc = llapi_fid2path(argv[1], text, path, sizeof(path), &recno, &next);
		CHECK(rc == 0);
		printf("%s\n", path);
		if (next == link)
			break;
		link = next;
	}
	link = 7;
	CHECK(llapi_fid2path("sheen", text, path, sizeof(path), NULL, &link) == -ENODATA);
	CHECK(llapi_fid2path("sheen", text, path, 3, NULL, NULL) == -EOVERFLOW);
	CHECK(llapi_fid2path("nosuchfs", text, path, sizeof(path), NULL, NULL) == -ENODEV);
	CHECK(llapi_fid2path("sheen", "[0x200000007:0x1:0x0]", path, sizeof(path), NULL, NULL) == 0);
	CHECK(strcmp(path, "/") == 0);

	/* The folder that a name is in, and the file itself. */
	CHECK(llapi_path2parent("d/one", 1, &parent, name, sizeof(name)) == 0);
	CHECK(strcmp(name, "two") == 0 && llapi_path2fid("d", &parsed) == 0 && lu_fid_eq(&parent, &parsed));
	fd = llapi_open_by_fid(argv[1], &fid, O_RDONLY);
	CHECK(fd >= 0 && read(fd, path, sizeof(path)) == 5 && memcmp(path, "data\n", 5) == 0);
	CHECK(llapi_fd2fid(fd, &parsed) == 0 && lu_fid_eq(&fid, &parsed));
	CHECK(llapi_fd2parent(fd, 0, &parent, name, sizeof(name)) == 0 && strcmp(name, "one") == 0);
	CHECK(llapi_fid2path_at(fd, &fid, path, sizeof(path), NULL, NULL) == 0 && strcmp(path, "d/one") == 0);
	CHECK(llapi_get_mdt_index_by_fid(fd, &fid, &index) == 0 && index == 0);
	CHECK(llapi_file_fget_mdtidx(fd, &index) == 0 && index == 0);
	CHECK(close(fd) == 0);
	CHECK(llapi_open_by_fid_at(AT_FDCWD, &fid, O_WRONLY) >= 0);

	/* Both names go; what never was is told in its place. */
	victims = calloc(1, sizeof(*victims) + 2 * sizeof(struct lu_fid));
	CHECK(victims != NULL);
	victims->fa_nr = 2;
	victims->fa_fids[0] = fid;
	victims->fa_fids[1].f_seq = 0x200000fffULL;
	victims->fa_fids[1].f_oid = 1;
	CHECK(llapi_rmfid(argv[1], victims) == -ENOENT);
	CHECK(victims->fa_fids[0].f_ver == 0 && (int)victims->fa_fids[1].f_ver == -ENOENT);
	CHECK(access("d/one", F_OK) == -1 && access("d/two", F_OK) == -1);
	free(victims);

	CHECK(llapi_path2fid("/tmp", &fid) == -ENOTTY && errno == ENOTTY);
	CHECK(llapi_path2fid("d/one", &fid) == -ENOENT);
	CHECK(llapi_path2fid(NULL, &fid) == -EINVAL);
	CHECK(llapi_fd2fid(-1, &fid) == -EBADF);
	return 0;
}
