//! MDTs and OSTs: how many, which, how full.

use crate::abi::{ObdStatfs, ObdUuid};
use crate::door::{Answer, EINVAL, Failure, Place, Text, negative, plain};
use crate::whereabouts;
use ask::mounts::Mount;
use std::ffi::{c_char, c_int};
use types::attr::Statfs;
use types::errno::Errno;
use types::target::{FsName, TargetIndex, TargetKind, TargetName};

/// `LL_STATFS_LMV`
const OF_MDTS: u32 = 1;
/// `LL_STATFS_LOV`
const OF_OSTS: u32 = 2;
/// `LL_STATFS_NODELAY`: waiting has its bound anyway.
const AT_ONCE: u32 = 4;
/// Bytes of a block in `obd_statfs`.
const BLOCK_BYTES: u64 = 4096;
/// The file system's magic number (LL_SUPER_MAGIC).
const MAGIC: u64 = 0x0BD0_0BD0;

fn kind(is_mdt: bool) -> TargetKind {
    if is_mdt { TargetKind::Mdt } else { TargetKind::Ost }
}

/// `sheen-OST0001_UUID`
pub fn uuid(fsname: FsName, kind: TargetKind, index: TargetIndex) -> String {
    format!("{}_UUID", TargetName { fsname, kind, index })
}

/// One more than the highest index of MDTs or OSTs.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_obd_count(mnt: Text, count: Place<c_int>, is_mdt: c_int) -> c_int {
    negative(|| {
        let mount = whereabouts::of_path(mnt.path()?)?;
        let last = mount.targets(kind(is_mdt != 0))?.into_iter().map(|(index, _)| index).max();
        count.put(last.map_or(0, |index| c_int::from(index.0) + 1))?;
        Ok(0)
    })
}

/// Names of all OSTs. `*ost_count`: room in the array, then how many there are. -EOVERFLOW: too
/// little room.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lov_get_uuids(
    fd: c_int,
    uuidp: Place<ObdUuid>,
    ost_count: Place<c_int>,
) -> c_int {
    negative(|| uuids(fd, TargetKind::Ost, uuidp, ost_count))
}

/// As [`llapi_lov_get_uuids`], of MDTs.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_lmv_get_uuids(
    fd: c_int,
    uuidp: Place<ObdUuid>,
    mdt_count: Place<c_int>,
) -> c_int {
    negative(|| uuids(fd, TargetKind::Mdt, uuidp, mdt_count))
}

fn uuids(fd: c_int, kind: TargetKind, uuidp: Place<ObdUuid>, count: Place<c_int>) -> Answer<c_int> {
    let mount = whereabouts::of_descriptor(fd)?;
    let targets = mount.targets(kind)?;
    let room = usize::try_from(count.get()?).map_err(|_| EINVAL)?;
    count.put(targets.len() as c_int)?;
    if targets.len() > room {
        return Err(Failure(Errno::EOVERFLOW));
    }
    for (n, (index, _)) in targets.into_iter().enumerate() {
        uuidp.put_nth(n, ObdUuid::of(&uuid(mount.names.fsname, kind, index)))?;
    }
    Ok(0)
}

/// The client's name of the file system's OSTs: `sheen-clilov-00007f0000000001`.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_get_lov_uuid(path: Text, lov_uuid: Place<ObdUuid>) -> c_int {
    negative(|| lov(&whereabouts::of_path(path.path()?)?, lov_uuid))
}

/// As [`llapi_file_get_lov_uuid`], of a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_file_fget_lov_uuid(fd: c_int, lov_uuid: Place<ObdUuid>) -> c_int {
    negative(|| lov(&whereabouts::of_descriptor(fd)?, lov_uuid))
}

fn lov(mount: &Mount, place: Place<ObdUuid>) -> Answer<c_int> {
    place.put(ObdUuid::of(&format!(
        "{}-clilov-{:016x}",
        mount.names.fsname, mount.names.instance
    )))?;
    Ok(0)
}

/// Space of one target.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_obd_statfs(
    path: Text,
    target_type: u32,
    index: u32,
    stat_buf: Place<ObdStatfs>,
    uuid_buf: Place<ObdUuid>,
) -> c_int {
    negative(|| {
        statfs(&whereabouts::of_path(path.path()?)?, target_type, index, stat_buf, uuid_buf)
    })
}

/// As [`llapi_obd_statfs`], the mount by a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_obd_fstatfs(
    fd: c_int,
    target_type: u32,
    index: u32,
    stat_buf: Place<ObdStatfs>,
    uuid_buf: Place<ObdUuid>,
) -> c_int {
    negative(|| statfs(&whereabouts::of_descriptor(fd)?, target_type, index, stat_buf, uuid_buf))
}

fn statfs(
    mount: &Mount,
    target_type: u32,
    index: u32,
    stat_buf: Place<ObdStatfs>,
    uuid_buf: Place<ObdUuid>,
) -> Answer<c_int> {
    let kind = match target_type & !AT_ONCE {
        OF_MDTS => TargetKind::Mdt,
        OF_OSTS => TargetKind::Ost,
        _ => return Err(EINVAL),
    };
    let none = Failure(Errno::ENODEV);
    let index = TargetIndex(u16::try_from(index).map_err(|_| none)?);
    let targets = mount.targets(kind)?;
    match targets.iter().find(|(known, _)| *known >= index) {
        None => return Err(none),
        Some((known, _)) if *known != index => return Err(Failure(Errno::EAGAIN)),
        Some(_) => uuid_buf.put_if_wanted(ObdUuid::of(&uuid(mount.names.fsname, kind, index))),
    }
    match mount.space_of(kind, index)?.space {
        Ok(space) => stat_buf.put(as_statfs(&space))?,
        Err(Errno::ESHUTDOWN) => return Err(Failure(Errno::ENODATA)),
        Err(errno) => return Err(errno.into()),
    }
    Ok(0)
}

fn as_statfs(space: &Statfs) -> ObdStatfs {
    let blocks = |bytes: u64| bytes / BLOCK_BYTES;
    let state = match (space.bytes_available, space.files_free) {
        (0, _) => 0x20,
        (_, 0) => 0x40,
        _ => 0,
    };
    ObdStatfs {
        fs_type: MAGIC,
        blocks: blocks(space.bytes_total),
        bfree: blocks(space.bytes_free),
        bavail: blocks(space.bytes_available),
        files: space.files_total,
        ffree: space.files_free,
        fsid: [0; 40],
        bsize: BLOCK_BYTES as u32,
        namelen: types::name::NAME_BYTES_MAX as u32,
        maxbytes: i64::MAX as u64,
        state,
        rest: [0; 9],
    }
}

/// 1: the OST is there, in the pool if one is named.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_search_ost(fsname: Text, poolname: Text, ostname: Text) -> c_int {
    negative(|| search(fsname, poolname, ostname, TargetKind::Ost))
}

/// As [`llapi_search_ost`]; MDTs are in no pool.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_search_tgt(
    fsname: Text,
    poolname: Text,
    tgtname: Text,
    is_mdt: bool,
) -> c_int {
    negative(|| search(fsname, poolname, tgtname, kind(is_mdt)))
}

fn search(fsname: Text, poolname: Text, name: Text, kind: TargetKind) -> Answer<c_int> {
    // Without a file system, the pool or the target names it.
    let prefix = |text: &Text, mark: char| Some(text.str().ok()?.split_once(mark)?.0.to_owned());
    let word = match fsname.bytes() {
        Some(_) => fsname.str()?.to_owned(),
        None => prefix(&poolname, '.').or_else(|| prefix(&name, '-')).ok_or(EINVAL)?,
    };
    let mount = whereabouts::of_word(&word)?;
    let members: Vec<TargetIndex> = match poolname.bytes() {
        None | Some([]) => mount.targets(kind)?.into_iter().map(|(index, _)| index).collect(),
        Some(_) if kind == TargetKind::Mdt => return Err(EINVAL),
        Some(_) => {
            let pool = poolname.str()?;
            let pool = pool.split_once('.').map_or(pool, |(_, pool)| pool);
            mount.pool(pool)?.ok_or(Failure(Errno::ENOENT))?
        }
    };
    let wanted = match name.bytes() {
        None | Some([]) => return Ok(c_int::from(!members.is_empty())),
        Some(_) => name.str()?,
    };
    let wanted = wanted.strip_suffix("_UUID").unwrap_or(wanted);
    let is_it = |index: &TargetIndex| {
        let full = TargetName { fsname: mount.names.fsname, kind, index: *index }.to_string();
        full == wanted || full.split_once('-').is_some_and(|(_, short)| short == wanted)
    };
    Ok(c_int::from(members.iter().any(is_it)))
}

/// 1: both names mean the same target.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_uuid_match(real_uuid: Text, search_uuid: Text) -> c_int {
    plain(0, || match (real_uuid.bytes(), search_uuid.bytes()) {
        (Some(a), Some(b)) => c_int::from(bare(a) == bare(b)),
        _ => 0,
    })
}

fn bare(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"_UUID").unwrap_or(name)
}

/// Version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn llapi_get_version_string(version: Place<c_char>, version_size: u32) -> c_int {
    negative(|| {
        version.put_text(
            version_size as usize,
            env!("CARGO_PKG_VERSION").as_bytes(),
            Errno::EOVERFLOW,
        )?;
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::testing::{null, null_text, places, text};

    #[test]
    fn space_is_in_blocks_and_full_is_said() {
        let space = Statfs {
            bytes_total: 10 << 20,
            bytes_free: 8 << 20,
            bytes_available: 4 << 20,
            files_total: 9,
            files_free: 7,
        };
        let shown = as_statfs(&space);
        assert_eq!(
            (shown.blocks, shown.bfree, shown.bavail, shown.files, shown.ffree),
            (2560, 2048, 1024, 9, 7)
        );
        assert_eq!((shown.bsize, shown.state), (4096, 0));
        assert_eq!(as_statfs(&Statfs { bytes_available: 0, ..space }).state, 0x20);
        assert_eq!(as_statfs(&Statfs { files_free: 0, ..space }).state, 0x40);
    }

    #[test]
    fn the_end_of_a_uuid_is_optional() {
        let same = |a, b| llapi_uuid_match(text(a), text(b));
        assert_eq!(same(c"sheen-OST0001_UUID", c"sheen-OST0001"), 1);
        assert_eq!(same(c"sheen-OST0001", c"sheen-OST0001"), 1);
        assert_eq!(same(c"sheen-OST0001_UUID", c"sheen-OST0002_UUID"), 0);
        assert_eq!(llapi_uuid_match(null_text(), text(c"")), 0);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        assert_eq!(llapi_obd_statfs(text(c"/"), OF_OSTS, 0, null(), null()), -libc::ENOTTY);
        assert_eq!(llapi_obd_fstatfs(-1, OF_OSTS, 0, null(), null()), -libc::EBADF);
        assert_eq!(llapi_search_ost(null_text(), null_text(), null_text()), -libc::EINVAL);
        assert_eq!(llapi_search_ost(text(c"nosuchfs"), null_text(), null_text()), -libc::ENODEV);
        assert_eq!(llapi_get_obd_count(text(c"/"), null(), 0), -libc::ENOTTY);
        let mut room = [0; 32];
        assert_eq!(llapi_get_version_string(places(&mut room), 2), -libc::EOVERFLOW);
        assert_eq!(llapi_get_version_string(places(&mut room), 32), 0);
    }
}
