/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and constants that programs written for Lustre share with the file system: FIDs, layouts, statfs, advice.
 * Names, values and sizes are those of Lustre's user interface; docs/lustreapi.md says what SheenFS does with them.
 * All integers of structures are little endian on disk and in attributes.
 */
#ifndef SHEEN_LINUX_LUSTRE_USER_H
#define SHEEN_LINUX_LUSTRE_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Arrays without a length, and unions and structures without a name: old C and strict C++ do not know all of them. */
#define SHEEN_TAIL __extension__
#define SHEEN_NAMELESS __extension__

/* ---- FIDs ---- */

/* Identity of a file: sequence, number in the sequence, version (0). */
struct lu_fid {
	__u64 f_seq;
	__u32 f_oid;
	__u32 f_ver;
} __attribute__((packed));

typedef struct lu_fid lustre_fid;

/* Bytes of a FID as text, with its NUL: without and with brackets. */
#define FID_NOBRACE_LEN 40
#define FID_LEN (FID_NOBRACE_LEN + 2)
/* For printf(3) and scanf(3). */
#define DFID_NOBRACE "0x%llx:0x%x:0x%x"
#define DFID "[" DFID_NOBRACE "]"
#define PFID(fid) (unsigned long long)(fid)->f_seq, (unsigned int)(fid)->f_oid, (unsigned int)(fid)->f_ver
#define SFID "0x%llx:0x%x:0x%x"
#define RFID(fid) (unsigned long long *)&((fid)->f_seq), &((fid)->f_oid), &((fid)->f_ver)

static inline __u64 fid_seq(const struct lu_fid *fid) { return fid->f_seq; }
static inline __u32 fid_oid(const struct lu_fid *fid) { return fid->f_oid; }
static inline __u32 fid_ver(const struct lu_fid *fid) { return fid->f_ver; }
static inline bool fid_is_zero(const struct lu_fid *fid) { return fid->f_seq == 0 && fid->f_oid == 0; }
static inline bool fid_is_sane(const struct lu_fid *fid)
{
	return fid->f_seq >= 0x200000000ULL && fid->f_oid != 0 && fid->f_ver == 0;
}
static inline bool lu_fid_eq(const struct lu_fid *a, const struct lu_fid *b)
{
	return a->f_seq == b->f_seq && a->f_oid == b->f_oid && a->f_ver == b->f_ver;
}

/* FIDs for llapi_rmfid(): on return f_ver of each is 0 or its negative errno. */
struct fid_array {
	__u32 fa_nr;
	__u32 fa_padding0;
	__u64 fa_padding1;
	SHEEN_TAIL struct lu_fid fa_fids[];
};

/* Object id and sequence, in layouts. */
SHEEN_NAMELESS struct ost_id {
	union {
		struct {
			__u64 oi_id;
			__u64 oi_seq;
		} oi;
		struct lu_fid oi_fid;
	};
} __attribute__((packed));

/* ---- Layouts ---- */

#define LOV_USER_MAGIC_MAGIC 0x0BD0
#define LOV_USER_MAGIC_V1 0x0BD10BD0
#define LOV_USER_MAGIC LOV_USER_MAGIC_V1
#define LOV_USER_MAGIC_JOIN_V1 0x0BD20BD0
#define LOV_USER_MAGIC_V3 0x0BD30BD0
#define LOV_USER_MAGIC_SPECIFIC 0x0BD50BD0
#define LOV_USER_MAGIC_COMP_V1 0x0BD60BD0
#define LOV_USER_MAGIC_FOREIGN 0x0BD70BD0
#define LOV_USER_MAGIC_SEL 0x0BD80BD0
#define LMV_USER_MAGIC 0x0CD30CD0

#define LOV_PATTERN_NONE 0x000
#define LOV_PATTERN_RAID0 0x001
#define LOV_PATTERN_RAID1 0x002
#define LOV_PATTERN_PARITY 0x004
#define LOV_PATTERN_MDT 0x100
#define LOV_PATTERN_OVERSTRIPING 0x200
#define LOV_PATTERN_FOREIGN 0x400
#define LOV_PATTERN_COMPRESS 0x800
#define LOV_PATTERN_F_MASK 0xffff0000
#define LOV_PATTERN_F_HOLE 0x40000000
#define LOV_PATTERN_F_RELEASED 0x80000000

#define LOV_MAXPOOLNAME 15
#define LOV_POOLNAMEF "%.15s"
#define LOV_MIN_STRIPE_BITS 16
#define LOV_MIN_STRIPE_SIZE (1 << LOV_MIN_STRIPE_BITS)
#define LOV_MAX_STRIPE_COUNT 2000
#define LOV_ALL_STRIPES 0xffff
/* More than a stripe can have. */
#define LOV_ALL_STRIPES_MASK 0xffff
#define LUSTRE_EOF 0xffffffffffffffffULL

#ifndef XATTR_SIZE_MAX
#define XATTR_SIZE_MAX 65536
#endif
#define XATTR_LUSTRE_PREFIX "lustre."
#define XATTR_LUSTRE_LOV "lustre.lov"
#define XATTR_NAME_LOV "trusted.lov"
#define XATTR_NAME_LMV "trusted.lmv"

/* One object of a file. SheenFS makes l_ost_oi up: docs/layout.md. */
struct lov_user_ost_data_v1 {
	struct ost_id l_ost_oi;
	__u32 l_ost_gen;
	__u32 l_ost_idx;
} __attribute__((packed));
#define lov_user_ost_data lov_user_ost_data_v1

struct lov_user_md_v1 {
	__u32 lmm_magic;
	__u32 lmm_pattern;
	struct ost_id lmm_oi;
	__u32 lmm_stripe_size;
	__u16 lmm_stripe_count;
	SHEEN_NAMELESS union {
		__u16 lmm_stripe_offset;
		__u16 lmm_layout_gen;
	};
	SHEEN_TAIL struct lov_user_ost_data_v1 lmm_objects[];
} __attribute__((packed, __may_alias__));
#define lov_user_md lov_user_md_v1

struct lov_user_md_v3 {
	__u32 lmm_magic;
	__u32 lmm_pattern;
	struct ost_id lmm_oi;
	__u32 lmm_stripe_size;
	__u16 lmm_stripe_count;
	SHEEN_NAMELESS union {
		__u16 lmm_stripe_offset;
		__u16 lmm_layout_gen;
	};
	char lmm_pool_name[LOV_MAXPOOLNAME + 1];
	SHEEN_TAIL struct lov_user_ost_data_v1 lmm_objects[];
} __attribute__((packed, __may_alias__));

struct lu_extent {
	__u64 e_start;
	__u64 e_end;
} __attribute__((packed));

#define LCME_ID_INVAL 0x0
#define LCME_ID_MIN 0x1
#define LCME_ID_MAX 0x7FFFFFFF
#define LCME_ID_ALL 0xFFFFFFFF
#define LCME_ID_NOT_ID LCME_ID_INVAL

enum lov_comp_md_entry_flags {
	LCME_FL_STALE = 0x00000001,
	LCME_FL_PREF_RD = 0x00000002,
	LCME_FL_PREF_WR = 0x00000004,
	LCME_FL_PREF_RW = 0x00000006,
	LCME_FL_OFFLINE = 0x00000008,
	LCME_FL_INIT = 0x00000010,
	LCME_FL_NOSYNC = 0x00000020,
	LCME_FL_EXTENSION = 0x00000040,
	LCME_FL_PARITY = 0x00000080,
	LCME_FL_COMPRESS = 0x00000100,
	LCME_FL_PARTIAL = 0x00000200,
	LCME_FL_NOCOMPR = 0x00000400
};
/* "All but these". */
#define LCME_FL_NEG 0x80000000U

struct lov_comp_md_entry_v1 {
	__u32 lcme_id;
	__u32 lcme_flags;
	struct lu_extent lcme_extent;
	__u32 lcme_offset;
	__u32 lcme_size;
	__u32 lcme_layout_gen;
	__u64 lcme_timestamp;
	__u32 lcme_padding_1;
} __attribute__((packed));

struct lov_comp_md_v1 {
	__u32 lcm_magic;
	__u32 lcm_size;
	__u32 lcm_layout_gen;
	__u16 lcm_flags;
	__u16 lcm_entry_count;
	__u16 lcm_mirror_count;
	__u16 lcm_padding1[3];
	__u64 lcm_padding2;
	SHEEN_TAIL struct lov_comp_md_entry_v1 lcm_entries[];
} __attribute__((packed));

/* Bytes of a plain layout with so many stripes. */
static inline __u32 lov_user_md_size(__u16 stripes, __u32 lmm_magic)
{
	__u32 header = sizeof(struct lov_user_md_v1);

	if (stripes == (__u16)-1)
		stripes = 0;
	if (lmm_magic == LOV_USER_MAGIC_V3 || lmm_magic == LOV_USER_MAGIC_SPECIFIC)
		header = sizeof(struct lov_user_md_v3);
	return header + stripes * (__u32)sizeof(struct lov_user_ost_data_v1);
}

/* ---- Targets ---- */

#define UUID_MAX 40
struct obd_uuid {
	char uuid[UUID_MAX];
};

static inline char *obd_uuid2str(const struct obd_uuid *uuid)
{
	return (char *)(uintptr_t)uuid->uuid;
}

/* Which targets llapi_obd_statfs() means. */
enum ll_statfs_type {
	LL_STATFS_LMV = 1,
	LL_STATFS_LOV = 2,
	LL_STATFS_NODELAY = 4
};

enum obd_statfs_state {
	OS_STATFS_DEGRADED = 0x00000001,
	OS_STATFS_READONLY = 0x00000002,
	OS_STATFS_NOCREATE = 0x00000004,
	OS_STATFS_UNUSED1 = 0x00000008,
	OS_STATFS_UNUSED2 = 0x00000010,
	OS_STATFS_ENOSPC = 0x00000020,
	OS_STATFS_ENOINO = 0x00000040,
	OS_STATFS_SUM = 0x00000100,
	OS_STATFS_NONROT = 0x00000200
};

struct obd_statfs {
	__u64 os_type;
	__u64 os_blocks;
	__u64 os_bfree;
	__u64 os_bavail;
	__u64 os_files;
	__u64 os_ffree;
	__u8 os_fsid[40];
	__u32 os_bsize;
	__u32 os_namelen;
	__u64 os_maxbytes;
	__u32 os_state;
	__u32 os_fprecreated;
	__u32 os_granted;
	__u32 os_spare3;
	__u32 os_spare4;
	__u32 os_spare5;
	__u32 os_spare6;
	__u32 os_spare7;
	__u32 os_spare8;
	__u32 os_spare9;
};

/* ---- Advice ---- */

enum lu_ladvise_type {
	LU_LADVISE_INVALID = 0,
	LU_LADVISE_WILLREAD = 1,
	LU_LADVISE_DONTNEED = 2,
	LU_LADVISE_LOCKNOEXPAND = 3,
	LU_LADVISE_LOCKAHEAD = 4,
	LU_LADVISE_AHEAD = 5,
	LU_LADVISE_MAX
};

enum ladvise_flag {
	LF_ASYNC = 0x00000001,
	LF_UNSET = 0x00000002
};

/* Advices of one call, at most. */
#define LAH_COUNT_MAX 1024

struct llapi_lu_ladvise {
	__u16 lla_advice;
	__u16 lla_value1;
	__u32 lla_value2;
	__u64 lla_start;
	__u64 lla_end;
	__u32 lla_value3;
	__u32 lla_value4;
};
#define lu_ladvise llapi_lu_ladvise

/* ---- Versions, exchange of layouts, leases ---- */

#define LL_DV_RD_FLUSH (1 << 0)
#define LL_DV_WR_FLUSH (1 << 1)
#define LL_DV_SZ_UPDATE (1 << 2)

#define SWAP_LAYOUTS_CHECK_DV1 (1 << 0)
#define SWAP_LAYOUTS_CHECK_DV2 (1 << 1)
#define SWAP_LAYOUTS_KEEP_MTIME (1 << 2)
#define SWAP_LAYOUTS_KEEP_ATIME (1 << 3)
#define SWAP_LAYOUTS_CLOSE (1 << 4)

enum ll_lease_mode {
	LL_LEASE_RDLCK = 0x01,
	LL_LEASE_WRLCK = 0x02,
	LL_LEASE_UNLCK = 0x04
};

enum ll_lease_flags {
	LL_LEASE_RESYNC = 0x1,
	LL_LEASE_RESYNC_DONE = 0x2,
	LL_LEASE_LAYOUT_MERGE = 0x4,
	LL_LEASE_LAYOUT_SPLIT = 0x8
};

struct ll_ioc_lease {
	__u32 lil_mode;
	__u32 lil_flags;
	__u32 lil_count;
	SHEEN_TAIL __u32 lil_ids[];
};

/* ---- Archive: always "no such state" here ---- */

enum hsm_states {
	HS_NONE = 0x00000000,
	HS_EXISTS = 0x00000001,
	HS_DIRTY = 0x00000002,
	HS_RELEASED = 0x00000004,
	HS_ARCHIVED = 0x00000008,
	HS_NORELEASE = 0x00000010,
	HS_NOARCHIVE = 0x00000020,
	HS_LOST = 0x00000040
};

struct hsm_extent {
	__u64 offset;
	__u64 length;
} __attribute__((packed));

struct hsm_user_state {
	__u32 hus_states;
	__u32 hus_archive_id;
	__u32 hus_in_progress_state;
	__u32 hus_in_progress_action;
	struct hsm_extent hus_in_progress_location;
	char hus_extended_info[1];
};

/* Open it to be written without giving it objects yet. Here a file made by mknod(2) has none either. */
#ifndef FASYNC
#define FASYNC 00020000
#endif
#define O_LOV_DELAY_CREATE (O_NOCTTY | FASYNC)
#define LL_FILE_IGNORE_LOCK 0x00000001
#define MAX_OBD_NAME 128
#define LUSTRE_MAXFSNAME 8
#define LUSTRE_VOLATILE_HDR ".\x0c\x13\x14\x12:VOLATILE"

#ifdef __cplusplus
}
#endif

#endif
