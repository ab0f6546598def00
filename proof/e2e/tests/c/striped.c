/* Makes a striped file with the older functions, writes to it, and prints its layout as `lfs getstripe` does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <lustre/lustreapi.h>

static int show(const char *path)
{
	struct lov_user_md *lum = calloc(1, XATTR_SIZE_MAX);
	struct lov_user_md_v3 *v3 = (struct lov_user_md_v3 *)lum;
	struct lov_user_ost_data_v1 *objects;
	int i, rc;

	if (lum == NULL)
		return -ENOMEM;
	rc = llapi_file_get_stripe(path, lum);
	if (rc < 0) {
		fprintf(stderr, "llapi_file_get_stripe %s: %s\n", path, strerror(-rc));
		free(lum);
		return rc;
	}
	objects = lum->lmm_magic == LOV_USER_MAGIC_V3 ? v3->lmm_objects : lum->lmm_objects;
	printf("lmm_stripe_count:  %d\n", (int)lum->lmm_stripe_count);
	printf("lmm_stripe_size:   %u\n", lum->lmm_stripe_size);
	printf("lmm_pattern:       %s\n", lum->lmm_pattern & LOV_PATTERN_OVERSTRIPING ? "raid0,overstriped" : "raid0");
	printf("lmm_layout_gen:    %d\n", (int)lum->lmm_layout_gen);
	printf("lmm_stripe_offset: %d\n", (int)objects[0].l_ost_idx);
	if (lum->lmm_magic == LOV_USER_MAGIC_V3)
		printf("lmm_pool:          " LOV_POOLNAMEF "\n", v3->lmm_pool_name);
	printf("\tobdidx\t\t objid\t\t objid\t\t group\n");
	for (i = 0; i < lum->lmm_stripe_count; i++)
		printf("\t%6u\t%14llu\t%#13llx\t%#14llx\n", objects[i].l_ost_idx,
		       (unsigned long long)objects[i].l_ost_oi.oi_fid.f_oid,
		       (unsigned long long)objects[i].l_ost_oi.oi_fid.f_oid,
		       (unsigned long long)objects[i].l_ost_oi.oi_fid.f_seq);
	printf("\n");
	free(lum);
	return 0;
}

static void expect(const char *what, int rc, int wanted)
{
	if (rc == wanted && (rc >= 0 || errno == -rc))
		return;
	fprintf(stderr, "%s: %d (errno %d), not %d\n", what, rc, errno, wanted);
	exit(1);
}

int main(int argc, char **argv)
{
	struct llapi_stripe_param *param;
	char path[PATH_MAX];
	static char data[300000];
	int fd, i, rc;

	if (argc != 2)
		return 2;
	if (chdir(argv[1]) < 0)
		return 3;

	/* A file, then the same again: it was given a layout, so it keeps that, before it has data and afterwards. */
	expect("create", llapi_file_create("plain", 131072, 2, 3, LOV_PATTERN_RAID0), 0);
	expect("create again", llapi_file_create("plain", 65536, 1, 2, 0), -EEXIST);
	snprintf(path, sizeof(path), "%s/plain", argv[1]);
	fd = open(path, O_WRONLY);
	for (i = 0; i < (int)sizeof(data); i++)
		data[i] = (char)(i * 7);
	if (fd < 0 || write(fd, data, sizeof(data)) != (ssize_t)sizeof(data) || close(fd) < 0)
		return 4;
	expect("create over data", llapi_file_create("plain", 65536, 1, 2, 0), -EEXIST);
	rc = show(path);
	if (rc < 0)
		return 5;

	/* An open file, made with a mode that forbids its owner to write: the maker may. */
	fd = llapi_file_open("mode", O_CREAT | O_EXCL | O_RDWR, 0440, 1 << 20, -1, -1, LOV_PATTERN_RAID0);
	if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) < 0)
		return 6;
	expect("open exclusively", llapi_file_open("mode", O_CREAT | O_EXCL | O_RDWR, 0644, 0, -1, 1, 0), -EEXIST);

	/* OSTs one by one. */
	param = calloc(1, offsetof(struct llapi_stripe_param, lsp_osts) + 2 * sizeof(__u32));
	if (param == NULL)
		return 7;
	param->lsp_stripe_size = 65536;
	param->lsp_stripe_count = 2;
	param->lsp_stripe_offset = -1;
	param->lsp_is_specific = true;
	param->lsp_osts[0] = 3;
	param->lsp_osts[1] = 1;
	fd = llapi_file_open_param("specific", O_CREAT | O_WRONLY, 0644, param);
	if (fd < 0 || close(fd) < 0)
		return 8;
	param->lsp_osts[1] = 9;
	expect("an OST that is not there", llapi_file_open_param("none", O_CREAT | O_WRONLY, 0644, param), -EINVAL);
	free(param);
	if (access("none", F_OK) == 0)
		return 9;
	show("specific");

	/* Pools, and a directory's default. */
	expect("pool", llapi_file_create_pool("pooled", 0, -1, 1, 0, "sheen.two"), 0);
	show("pooled");
	expect("no pool", llapi_file_create_pool("none", 0, -1, 1, 0, "nopool"), -ENOENT);
	expect("mkdir", llapi_dir_create_pool("dir", 0755, 0, 1, 0, NULL), 0);
	expect("default layout", llapi_file_create("dir", 1 << 20, -1, 2, 0), 0);
	expect("a default names an OST", llapi_file_create("dir", 1 << 20, 1, 2, 0), 0);

	/* What cannot be. */
	expect("stripe size", llapi_file_create("none", 1000, -1, 1, 0), -EINVAL);
	expect("stripe count", llapi_file_create("none", 0, -1, 2001, 0), -EINVAL);
	expect("no name", llapi_file_create(NULL, 0, -1, 1, 0), -EINVAL);
	expect("elsewhere", llapi_file_create("/tmp/none", 0, -1, 1, 0), -ENOTTY);
	expect("limits", llapi_stripe_limit_check(65536, -1, 4, LOV_PATTERN_RAID0), 0);
	expect("no layout", llapi_file_get_stripe("/tmp", (struct lov_user_md *)data), -ENOTTY);
	return 0;
}
