/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface that C programs written for Lustre use, over a SheenFS mount; link with -llustreapi.
 *
 * Where nothing else is said, a function returns 0 or more, or a negative errno. Those that begin with llapi_layout_
 * return -1 (or NULL) and set errno. In both cases errno is set. A path or descriptor that is on no SheenFS is ENOTTY,
 * what SheenFS does not have is EOPNOTSUPP, a pointer that must not be NULL and is, is EINVAL. Nothing is printed but by
 * llapi_error() and llapi_printf(). docs/lustreapi.md tells more.
 */
#ifndef SHEEN_LUSTREAPI_H
#define SHEEN_LUSTREAPI_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>
#include <sys/types.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/lustre/lustre_user.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages ---- */

enum llapi_message_level {
	LLAPI_MSG_OFF = 0,
	LLAPI_MSG_FATAL = 1,
	LLAPI_MSG_ERROR = 2,
	LLAPI_MSG_WARN = 3,
	LLAPI_MSG_NORMAL = 4,
	LLAPI_MSG_INFO = 5,
	LLAPI_MSG_DEBUG = 6,
	LLAPI_MSG_MAX
};
#define LLAPI_MSG_MASK 0x00000007
/* The message has no errno behind it. */
#define LLAPI_MSG_NO_ERRNO 0x00000010

typedef void (*llapi_log_callback_t)(enum llapi_message_level level, int err, const char *fmt, va_list ap);

/* Messages of a higher level are not told. At first LLAPI_MSG_MAX. */
void llapi_msg_set_level(int level);
int llapi_msg_get_level(void);
/* Who is told instead of standard error (standard output); NULL: as at first. Returns who was told until now. */
llapi_log_callback_t llapi_error_callback_set(llapi_log_callback_t cb);
llapi_log_callback_t llapi_info_callback_set(llapi_log_callback_t cb);
void llapi_set_command_name(const char *cmd);
void llapi_clear_command_name(void);
/* At most 4095 bytes of a message are printed. */
void llapi_verror(enum llapi_message_level level, int err, const char *fmt, va_list ap);
void llapi_vprintf(enum llapi_message_level level, const char *fmt, va_list ap);

__attribute__((__format__(__printf__, 3, 4)))
static inline void llapi_error(enum llapi_message_level level, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	llapi_verror(level, err, fmt, ap);
	va_end(ap);
}

__attribute__((__format__(__printf__, 2, 3)))
static inline void llapi_printf(enum llapi_message_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	llapi_vprintf(level, fmt, ap);
	va_end(ap);
}

#define llapi_err_noerrno(level, ...) \
	llapi_error((enum llapi_message_level)((level) | LLAPI_MSG_NO_ERRNO), 0, __VA_ARGS__)

/* ---- Files with a layout ---- */

struct llapi_stripe_param {
	unsigned long long lsp_stripe_size;
	char *lsp_pool;
	int lsp_stripe_offset;
	int lsp_stripe_pattern;
	/* Number of stripes; of lsp_osts, if lsp_is_specific. */
	int lsp_stripe_count;
	bool lsp_is_specific;
	bool lsp_is_create;
	__u8 lsp_max_inherit;
	__u8 lsp_max_inherit_rr;
	SHEEN_TAIL __u32 lsp_osts[];
};
#define lsp_tgts lsp_osts

/* Makes a file, EEXIST if it has objects already. A directory gets a default layout. 0 is the default of each value, -1
 * as offset any OST, -1 as count all OSTs. */
int llapi_file_create(const char *name, unsigned long long stripe_size, int stripe_offset, int stripe_count,
		      int stripe_pattern);
int llapi_file_create_pool(const char *name, unsigned long long stripe_size, int stripe_offset, int stripe_count,
			   int stripe_pattern, char *pool_name);
/* The same; the file stays open: returns its descriptor. */
int llapi_file_open(const char *name, int flags, int mode, unsigned long long stripe_size, int stripe_offset,
		    int stripe_count, int stripe_pattern);
int llapi_file_open_pool(const char *name, int flags, int mode, unsigned long long stripe_size, int stripe_offset,
			 int stripe_count, int stripe_pattern, char *pool_name);
int llapi_file_open_param(const char *name, int flags, mode_t mode, const struct llapi_stripe_param *param);
/* The layout, or default layout, in binary form: up to XATTR_SIZE_MAX bytes. */
int llapi_file_get_stripe(const char *path, struct lov_user_md *lum);
int llapi_stripe_limit_check(unsigned long long stripe_size, int stripe_offset, int stripe_count,
			     int stripe_pattern);
int llapi_parse_size(const char *optarg, unsigned long long *size, unsigned long long *size_units, int bytes_spec);
/* A file without a name, gone when it is closed. mdt_idx: -1 or 0. */
int llapi_create_volatile_idx(const char *directory, int mdt_idx, int open_flags);

static inline int llapi_create_volatile(char *directory, int open_flags)
{
	return llapi_create_volatile_idx(directory, -1, open_flags);
}

/* Directories lie on MDT 0 and have one stripe: what asks for more is EOPNOTSUPP. */
int llapi_dir_create(const char *name, mode_t mode, const struct llapi_stripe_param *param);
int llapi_dir_create_pool(const char *name, int mode, int stripe_offset, int stripe_count, int stripe_pattern,
			  const char *poolname);
int llapi_file_fget_mdtidx(int fd, int *mdtidx);

/* ---- Layouts as values ---- */

struct llapi_layout;

#define LLAPI_LAYOUT_INVALID 0x1000000000000001ULL
#define LLAPI_LAYOUT_DEFAULT (LLAPI_LAYOUT_INVALID + 1)
#define LLAPI_LAYOUT_WIDE (LLAPI_LAYOUT_INVALID + 2)
#define LLAPI_LAYOUT_RAID0 0ULL
#define LLAPI_LAYOUT_MDT 2ULL
#define LLAPI_LAYOUT_OVERSTRIPING 4ULL

enum llapi_layout_get_flags {
	/* What is open is filled in with what a new file would get. */
	LLAPI_LAYOUT_GET_EXPECTED = 0x1,
	/* The shape only, for another file. */
	LLAPI_LAYOUT_GET_COPY = 0x2,
	/* Objects must be there (llapi_layout_get_by_xattr). */
	LLAPI_LAYOUT_GET_CHECK = 0x4
};
#define LAYOUT_GET_EXPECTED LLAPI_LAYOUT_GET_EXPECTED
#define LAYOUT_GET_CHECK LLAPI_LAYOUT_GET_CHECK

enum llapi_layout_comp_use {
	LLAPI_LAYOUT_COMP_USE_FIRST = 1,
	LLAPI_LAYOUT_COMP_USE_LAST = 2,
	LLAPI_LAYOUT_COMP_USE_NEXT = 3,
	LLAPI_LAYOUT_COMP_USE_PREV = 4
};

/* What is wrong with a layout, for llapi_layout_sanity_perror(). */
enum llapi_layout_sanity_error {
	LSE_OK = 0,
	LSE_FLAGS,
	LSE_DOM_FIRST,
	LSE_SET_COMP_START,
	LSE_END_NOT_GREATER,
	LSE_NOT_ADJACENT_PREV,
	LSE_ALIGN_END,
	LSE_OTHER,
	LSE_LAST
};

/* All DEFAULT, over the whole file. Must be freed; NULL may be. */
struct llapi_layout *llapi_layout_alloc(void);
void llapi_layout_free(struct llapi_layout *layout);

/* The layout of a file; of a directory, its default. To be freed. */
struct llapi_layout *llapi_layout_get_by_path(const char *path, enum llapi_layout_get_flags flags);
struct llapi_layout *llapi_layout_get_by_fd(int fd, enum llapi_layout_get_flags flags);
struct llapi_layout *llapi_layout_get_by_fid(const char *path, const struct lu_fid *fid,
					     enum llapi_layout_get_flags flags);
struct llapi_layout *llapi_layout_get_by_xattr(void *lov_xattr, ssize_t lov_xattr_size,
					       enum llapi_layout_get_flags flags);

/* Of the current component. */
int llapi_layout_stripe_count_get(const struct llapi_layout *layout, uint64_t *count);
int llapi_layout_stripe_count_set(struct llapi_layout *layout, uint64_t count);
int llapi_layout_stripe_size_get(const struct llapi_layout *layout, uint64_t *size);
int llapi_layout_stripe_size_set(struct llapi_layout *layout, uint64_t size);
int llapi_layout_pattern_get(const struct llapi_layout *layout, uint64_t *pattern);
int llapi_layout_pattern_set(struct llapi_layout *layout, uint64_t pattern);
int llapi_layout_ost_index_get(const struct llapi_layout *layout, uint64_t stripe_number, uint64_t *index);
/* Stripe 0 alone: where to begin. All stripes: exactly these. */
int llapi_layout_ost_index_set(struct llapi_layout *layout, int stripe_number, uint64_t index);
int llapi_layout_ost_index_reset(struct llapi_layout *layout);
int llapi_layout_pool_name_get(const struct llapi_layout *layout, char *pool_name, size_t pool_name_len);
int llapi_layout_pool_name_set(struct llapi_layout *layout, const char *pool_name);
int llapi_layout_comp_extent_get(const struct llapi_layout *layout, uint64_t *start, uint64_t *end);
int llapi_layout_comp_extent_set(struct llapi_layout *layout, uint64_t start, uint64_t end);
int llapi_layout_comp_flags_get(const struct llapi_layout *layout, uint32_t *flags);
int llapi_layout_comp_flags_set(struct llapi_layout *layout, uint32_t flags);
int llapi_layout_comp_flags_clear(struct llapi_layout *layout, uint32_t flags);
int llapi_layout_comp_id_get(const struct llapi_layout *layout, uint32_t *id);

/* Behind the last one; it becomes the current one. */
int llapi_layout_comp_add(struct llapi_layout *layout);
/* The current one, which must be the last, and not the only one. */
int llapi_layout_comp_del(struct llapi_layout *layout);
/* 1: there is no next (previous) one. */
int llapi_layout_comp_use(struct llapi_layout *layout, uint32_t pos);
int llapi_layout_comp_use_id(struct llapi_layout *layout, uint32_t id);

enum llapi_layout_iterator {
	LLAPI_LAYOUT_ITER_CONT = 0,
	LLAPI_LAYOUT_ITER_STOP = 1
};
typedef int (*llapi_layout_iter_cb)(struct llapi_layout *layout, void *cbdata);
/* Returns what the call-back returned last; it ends with the first value that is not LLAPI_LAYOUT_ITER_CONT. */
int llapi_layout_comp_iterate(struct llapi_layout *layout, llapi_layout_iter_cb cb, void *cbdata);
bool llapi_layout_is_composite(struct llapi_layout *layout);
/* Of the whole layout: 0, and no flag can be set. */
int llapi_layout_flags_get(struct llapi_layout *layout, uint32_t *flags);
int llapi_layout_flags_set(struct llapi_layout *layout, uint32_t flags);
/* Makes the last component that has objects the current one. */
int llapi_layout_get_last_init_comp(struct llapi_layout *layout);
/* Bytes of the part on the MDT; 0: none. */
int llapi_layout_dom_size(struct llapi_layout *layout, uint64_t *size);

/* 0, or what is wrong (LSE_...). incomplete: it may begin behind 0. */
int llapi_layout_sanity(struct llapi_layout *layout, bool incomplete, bool flr, char *fsname);
void llapi_layout_sanity_perror(int error);

/* A file with this layout (NULL: default); returns its descriptor. _create: it must not exist. */
int llapi_layout_file_open(const char *path, int open_flags, mode_t mode, const struct llapi_layout *layout);
int llapi_layout_file_create(const char *path, int open_flags, int mode, const struct llapi_layout *layout);
/* Of a file that holds no data, or default layout of a directory. */
int llapi_layout_set_by_fd(int fd, const struct llapi_layout *layout);

/* ---- FIDs and paths ---- */

int llapi_path2fid(const char *path, struct lu_fid *fid);
int llapi_fd2fid(int fd, struct lu_fid *fid);
int llapi_fid_parse(const char *fidstr, struct lu_fid *fid, char **endptr);
/* Path below the root. linkno: which name (0: the first); afterwards the next one, or unchanged if there is none. For
 * root. recno is left alone. */
int llapi_fid2path(const char *path_or_device, const char *fidstr, char *path, int pathlen, long long *recno,
		   int *linkno);
int llapi_fid2path_at(int mnt_fd, const struct lu_fid *fid, char *path_buf, int path_buf_size, long long *recno,
		      int *linkno);
int llapi_path2parent(const char *path, unsigned int linkno, struct lu_fid *parent_fid, char *name, size_t name_size);
int llapi_fd2parent(int fd, unsigned int linkno, struct lu_fid *parent_fid, char *name, size_t name_size);
int llapi_get_mdt_index_by_fid(int fd, const struct lu_fid *fid, int *mdt_index);
/* For root. */
int llapi_open_by_fid(const char *dir, const struct lu_fid *fid, int open_flags);
int llapi_open_by_fid_at(int at_fd, const struct lu_fid *fid, int open_flags);
/* Returns the first error, and each in its place. For root. */
int llapi_rmfid(const char *path, struct fid_array *fa);

/* ---- Mounts and targets ---- */

/* mntdir has PATH_MAX bytes, fsname LUSTRE_MAXFSNAME + 1; each may be NULL. pathname: "" or NULL for all mounts. */
int llapi_search_mounts(const char *pathname, int index, char *mntdir, char *fsname);
int llapi_search_fsname(const char *pathname, char *fsname);
/* pathname has PATH_MAX bytes. */
int llapi_search_rootpath(char *pathname, const char *fsname);
int llapi_getname(const char *path, char *buf, size_t size);
int llapi_get_fsname(const char *path, char *fsname, size_t fsname_len);
int llapi_get_instance(const char *path, char *instance, size_t instance_len);
int llapi_get_fsname_instance(const char *path, char *fsname, size_t fsname_len, char *instance,
			      size_t instance_len);
int llapi_is_lustre_mnttype(const char *type);
int llapi_is_lustre_mnt(struct mntent *mnt);
/* One more than the highest index. */
int llapi_get_obd_count(char *mnt, int *count, int is_mdt);
int llapi_lov_get_uuids(int fd, struct obd_uuid *uuidp, int *ost_count);
int llapi_lmv_get_uuids(int fd, struct obd_uuid *uuidp, int *mdt_count);
int llapi_file_get_lov_uuid(const char *path, struct obd_uuid *lov_uuid);
int llapi_file_fget_lov_uuid(int fd, struct obd_uuid *lov_uuid);
/* -ENODEV: no target has this index or a higher one; -EAGAIN: none has this one; -ENODATA: it is out of use. */
int llapi_obd_statfs(char *path, __u32 type, __u32 index, struct obd_statfs *stat_buf, struct obd_uuid *uuid_buf);
int llapi_obd_fstatfs(int fd, __u32 type, __u32 index, struct obd_statfs *stat_buf, struct obd_uuid *uuid_buf);
/* 1: it is there; 0: it is not. No name: is there any? */
int llapi_search_ost(const char *fsname, const char *poolname, const char *ostname);
int llapi_search_tgt(const char *fsname, const char *poolname, const char *tgtname, bool is_mdt);
/* Number of pools (members); texts lie in buffer. -EOVERFLOW: not enough room. */
int llapi_get_poollist(const char *name, char **poollist, int list_size, char *buffer, int buffer_size);
int llapi_get_poolmembers(const char *poolname, char **members, int list_size, char *buffer, int buffer_size);
/* 1: the same, the end "_UUID" being optional. */
int llapi_uuid_match(char *real_uuid, char *search_uuid);
int llapi_get_version_string(char *version, unsigned int version_size);

/* Prints by llapi_printf() the pools of a file system (its name, or a path on it), or with .POOL behind it the members of
 * one. Returns 0. */
static inline int llapi_poollist(const char *name)
{
	/* More than there can be OSTs, and their names with a NUL. */
	const int entries = 4096, bytes = 4096 * 64;
	const char *pool = name != NULL ? strrchr(name, '.') : NULL;
	char **list;
	char *texts;
	char word[PATH_MAX], fsname[PATH_MAX];
	int count, i;

	if (name == NULL || strlen(name) >= sizeof(word))
		return -EINVAL;
	list = (char **)calloc((size_t)entries, sizeof(*list));
	texts = (char *)malloc((size_t)bytes);
	count = list == NULL || texts == NULL ? -ENOMEM : llapi_get_poollist(name, list, entries, texts, bytes);
	strcpy(word, name);
	if (count < 0 && count != -ENOMEM && pool != NULL) {
		word[pool - name] = '\0';
		count = llapi_get_poolmembers(name, list, entries, texts, bytes);
	} else {
		pool = NULL;
	}
	strcpy(fsname, word);
	if (count >= 0 && strchr(word, '/') != NULL)
		llapi_search_fsname(word, fsname);
	if (count >= 0 && pool != NULL)
		llapi_printf(LLAPI_MSG_NORMAL, "Pool: %s%s\n", fsname, pool);
	else if (count >= 0)
		llapi_printf(LLAPI_MSG_NORMAL, "Pools from %s:\n", fsname);
	for (i = 0; i < count; i++)
		llapi_printf(LLAPI_MSG_NORMAL, "%s\n", list[i]);
	free(list);
	free(texts);
	return count < 0 ? count : 0;
}

/* ---- Data ---- */

int llapi_get_data_version(int fd, __u64 *data_version, __u64 flags);
/* Generation of the file's layout. -ENODATA: it has none. */
int llapi_get_ost_layout_version(int fd, __u32 *layout_version);
/* 0: the MDT knows the name in this directory. */
int llapi_file_lookup(int dirfd, const char *name);
/* Nobody may have them open to write, the caller included (-EBUSY). */
int llapi_fswap_layouts(int fd1, int fd2, __u64 dv1, __u64 dv2, __u64 flags);
int llapi_swap_layouts(const char *path1, const char *path2, __u64 dv1, __u64 dv2, __u64 flags);
int llapi_ladvise(int fd, unsigned long long flags, int num_advise, struct llapi_lu_ladvise *ladvise);

/* ---- Parameters ---- */

/* gl_pathv: names of parameters of this host's daemons, for llapi_param_get_value(). For the owner of the daemons. */
int llapi_param_get_paths(const char *pattern, glob_t *paths);
void llapi_param_paths_free(glob_t *paths);
/* *buf: to be freed with free(3), ended by NUL; *buflen without it. */
int llapi_param_get_value(const char *path, char **buf, size_t *buflen);

/* ---- Locks over whole files ---- */

/* The data of a file for the open files of a group. */
int llapi_group_lock(int fd, int gid);
int llapi_group_unlock(int fd, int gid);
int llapi_group_lock64(int fd, __u64 gid);
int llapi_group_unlock64(int fd, __u64 gid);

/* A file for one open file, until somebody else opens it: LL_LEASE_RDLCK to write, LL_LEASE_WRLCK at all. -EBUSY: somebody else has. */
int llapi_lease_acquire(int fd, enum ll_lease_mode mode);
/* The mode that stands (until now); 0: it was broken, or there is none. */
int llapi_lease_check(int fd);
int llapi_lease_release(int fd);
/* The same in one: LL_LEASE_UNLCK releases. Flags are about mirrors: -EOPNOTSUPP. */
int llapi_lease_set(int fd, const struct ll_ioc_lease *data);
/* Older names of acquire and release. */
int llapi_lease_get(int fd, int mode);
int llapi_lease_put(int fd);

/* ---- What SheenFS does not have: EOPNOTSUPP. The descriptor is looked at first (EBADF, ENOTTY). ---- */

int llapi_fswap_layouts_grouplock(int fd1, int fd2, __u64 dv1, __u64 dv2, int gid, __u64 flags);

/* Changes of the components of a file that exists; mirrors; components that extend themselves. */
int llapi_layout_file_comp_add(const char *path, const struct llapi_layout *layout);
int llapi_layout_file_comp_del(const char *path, uint32_t id, uint32_t flags);
int llapi_layout_file_comp_set(const char *path, uint32_t *ids, uint32_t *flags, size_t count);
int llapi_layout_merge(struct llapi_layout **dst_layout, const struct llapi_layout *src_layout);
/* 1 is the only number. */
int llapi_layout_mirror_count_get(struct llapi_layout *layout, uint16_t *count);
int llapi_layout_mirror_count_set(struct llapi_layout *layout, uint16_t count);
int llapi_layout_mirror_id_get(const struct llapi_layout *layout, uint32_t *id);
int llapi_layout_extension_size_get(const struct llapi_layout *layout, uint64_t *size);
int llapi_layout_extension_size_set(struct llapi_layout *layout, uint64_t size);
int llapi_mirror_set(int fd, unsigned int id);
int llapi_mirror_clear(int fd);

/* Archives, quotas, foreign files. */
int llapi_hsm_state_get_fd(int fd, struct hsm_user_state *hus);
int llapi_hsm_state_get(const char *path, struct hsm_user_state *hus);
int llapi_hsm_state_set_fd(int fd, __u64 setmask, __u64 clearmask, __u32 archive_id);
int llapi_hsm_state_set(const char *path, __u64 setmask, __u64 clearmask, __u32 archive_id);
int llapi_unlink_foreign(char *pathname);
struct if_quotactl;
int llapi_quotactl(char *mnt, struct if_quotactl *qctl);

#ifdef __cplusplus
}
#endif

#endif
