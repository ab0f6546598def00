//! The device of a volume: which one it is, what is on it, its head.
//!
//! Making a volume: what is there is looked at before anything is changed. Then the first MiB and
//! the last unit are zeros, durably, so that what was there is no longer taken for one of its kind;
//! then the head at the end, then the one at the beginning: it is a volume from then on.

use crate::error::{DeviceFault, StoreError};
use disk::volume::{FIRST_UNIT, HeadFound, UNIT_BYTES, UNITS_MAX, UNITS_MIN, VolumeHead};
use env::Env;
use env::disk::{File, Open};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::errno::Errno;

/// Name of the file in a target's folder that names its device.
pub const DEVICE: &str = "volume";
/// Longest name of a device, bytes.
const NAME_MAX: usize = 4096;
/// Bytes at the beginning that must be zeros.
const EMPTY_BYTES: usize = FIRST_UNIT as usize * UNIT_BYTES as usize;

/// Marks of what a device may hold: where, the bytes, the name.
const MARKS: [(usize, &[u8], &str); 11] = [
    (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a Btrfs file system"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (512, b"LABELONE", "an LVM physical volume"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a member of a RAID (md)"),
    (3, b"NTFS    ", "an NTFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// The volume to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// A block device, or a file.
    pub device: PathBuf,
    /// Bytes of it that are used; `None`: all. A file that is not there needs it.
    pub bytes: Option<u64>,
    /// Destroy what is on it.
    pub reformat: bool,
}

/// A device that will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suits {
    units: u32,
    is_new: bool,
}

fn fault(device: &Path, fault: DeviceFault) -> StoreError {
    StoreError::Device { device: device.to_owned(), fault }
}

fn open(env: &Env, device: &Path) -> Result<Arc<dyn File>, StoreError> {
    env.disk.open(device, Open::Sole).map_err(|error| match Errno::from(&error) {
        Errno::EBUSY => fault(device, DeviceFault::InUse),
        Errno::ENOENT => fault(device, DeviceFault::Missing),
        _ => StoreError::io("open", device)(error),
    })
}

fn size(file: &dyn File, device: &Path) -> Result<u64, StoreError> {
    Ok(file.size_and_blocks().map_err(StoreError::io("look at", device))?.0)
}

/// Reads all of `buf`, zeros behind the end.
fn read(file: &dyn File, device: &Path, buf: &mut [u8], offset: u64) -> Result<(), StoreError> {
    let mut done = 0;
    while done < buf.len() {
        let read = file.read_at(&mut buf[done..], offset + done as u64);
        match read.map_err(StoreError::io("read", device))? {
            0 => break,
            n => done += n,
        }
    }
    buf[done..].fill(0);
    Ok(())
}

/// The name of the device that a target's folder names, if its objects are on one.
///
/// # Errors
/// The disk refuses, or the name is none.
pub fn device_of(env: &Env, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = dir.join(DEVICE);
    let file = match env.disk.open(&path, Open::Existing) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(StoreError::io("open", &path))?,
    };
    let len = size(&*file, &path)?;
    let mut text = vec![0; usize::try_from(len).map_or(NAME_MAX, |len| len.min(NAME_MAX))];
    read(&*file, &path, &mut text, 0)?;
    let damaged = |reason: &str| StoreError::Damaged {
        file: path.clone(),
        offset: 0,
        reason: reason.to_owned(),
    };
    let text = String::from_utf8(text).map_err(|_| damaged("it is not text"))?;
    match text.trim_end() {
        "" => Err(damaged("it names no device")),
        name => Ok(Some(dir.join(name))),
    }
}

/// Makes a target's folder name its device. Durable once the folder is synced.
///
/// # Errors
/// The disk refuses.
pub fn name_device(env: &Env, dir: &Path, device: &Path) -> Result<(), StoreError> {
    let path = dir.join(DEVICE);
    let file = env.disk.open(&path, Open::Create).map_err(StoreError::io("create", &path))?;
    let text = format!("{}\n", device.display());
    file.set_len(0).map_err(StoreError::io("write", &path))?;
    file.write_all_at(text.as_bytes(), 0).map_err(StoreError::io("write", &path))?;
    file.sync_data().map_err(StoreError::io("sync", &path))
}

/// Looks whether a volume can be made on a device, and changes nothing.
///
/// # Errors
/// It is too small or too large, in use, or holds something that may not be destroyed.
pub fn examine(env: &Env, spec: &VolumeSpec) -> Result<Suits, StoreError> {
    let device = &spec.device;
    let fail = |reason| Err(fault(device, reason));
    let file = match open(env, device) {
        Err(StoreError::Device { fault: DeviceFault::Missing, .. }) if spec.bytes.is_some() => None,
        file => Some(file?),
    };
    let has = file.as_deref().map_or(Ok(0), |file| size(file, device))?;
    let is_new = has == 0;
    let bytes = match spec.bytes {
        Some(wanted) if !is_new && wanted > has => {
            return fail(DeviceFault::Smaller { bytes: has, wanted });
        }
        wanted => wanted.unwrap_or(has),
    };
    let units = bytes / UNIT_BYTES;
    if units < UNITS_MIN {
        return fail(DeviceFault::TooSmall { bytes, least: UNITS_MIN * UNIT_BYTES });
    }
    let most = UNITS_MAX * UNIT_BYTES;
    let units = match u32::try_from(units) {
        Ok(units) if u64::from(units) <= UNITS_MAX => units,
        _ => return fail(DeviceFault::TooLarge { bytes, most }),
    };
    if let Some(file) = file.filter(|_| !is_new && !spec.reformat) {
        let mut first = vec![0; EMPTY_BYTES];
        read(&*file, device, &mut first, 0)?;
        if let Some(what) = content(&first) {
            return fail(DeviceFault::Holds(what));
        }
    }
    Ok(Suits { units, is_new })
}

/// What a device whose first bytes these are holds; `None`: nothing.
fn content(first: &[u8]) -> Option<String> {
    let head = first.get(..VolumeHead::SIZE).unwrap_or(first);
    match VolumeHead::decode(head) {
        HeadFound::Volume(head) => return Some(format!("the volume {:032x}", head.volume)),
        HeadFound::Damaged(_) => return Some("a damaged volume".to_owned()),
        HeadFound::Foreign => {}
    }
    let has =
        |(at, mark, _): &&(usize, &[u8], &str)| first.get(*at..*at + mark.len()) == Some(mark);
    if let Some((_, _, name)) = MARKS.iter().find(has) {
        return Some((*name).to_owned());
    }
    let at = first.iter().position(|byte| *byte != 0)?;
    Some(format!("data (the first byte that is not zero is at {at})"))
}

/// Makes an empty volume for this store on a device that suits. Durable when this returns.
///
/// # Errors
/// The device refuses.
pub fn make(env: &Env, spec: &VolumeSpec, suits: Suits, store: u128) -> Result<(), StoreError> {
    let device = &spec.device;
    let Suits { units, is_new } = suits;
    let file = match is_new {
        true => {
            let file = env.disk.open(device, Open::Create);
            let file = file.map_err(StoreError::io("create", device))?;
            let bytes = u64::from(units) * UNIT_BYTES;
            file.allocate(0, bytes, false).map_err(StoreError::io("allocate", device))?;
            if let Some(folder) = device.parent() {
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                env.disk.sync_dir(folder).map_err(StoreError::io("sync", folder))?;
            }
            file
        }
        false => open(env, device)?,
    };
    let write =
        |bytes: &[u8], at| file.write_all_at(bytes, at).map_err(StoreError::io("write", device));
    let sync = || file.sync_data().map_err(StoreError::io("sync", device));
    let last = last_head(units);
    write(&vec![0; EMPTY_BYTES], 0)?;
    write(&vec![0; UNIT_BYTES as usize], u64::from(units - 1) * UNIT_BYTES)?;
    sync()?;
    let head = VolumeHead { volume: env.random.next_u128(), store, units }.encode();
    write(&head, last)?;
    sync()?;
    write(&head, 0)?;
    sync()
}

/// Where the second head is.
fn last_head(units: u32) -> u64 {
    u64::from(units) * UNIT_BYTES - VolumeHead::SIZE as u64
}

/// Opens the volume on a device, for this store.
///
/// # Errors
/// There is none, it is another one's, or it is damaged.
pub(super) fn open_volume(
    env: &Env,
    device: &Path,
    store: u128,
) -> Result<(Arc<dyn File>, VolumeHead), StoreError> {
    let file = open(env, device)?;
    let bytes = size(&*file, device)?;
    let mut head = [0; VolumeHead::SIZE];
    read(&*file, device, &mut head, 0)?;
    let head = match VolumeHead::decode(&head) {
        HeadFound::Volume(head) => head,
        HeadFound::Foreign => return Err(fault(device, DeviceFault::NoVolume)),
        HeadFound::Damaged(damaged) => second(&*file, device, bytes, damaged)?,
    };
    if head.store != store {
        return Err(fault(device, DeviceFault::Another { found: head.volume }));
    }
    let wanted = u64::from(head.units) * UNIT_BYTES;
    if bytes < wanted {
        return Err(fault(device, DeviceFault::Smaller { bytes, wanted }));
    }
    Ok((file, head))
}

/// The second head, when the first is damaged: at the end of the device, which is that of the
/// volume unless --device-size said less.
fn second(
    file: &dyn File,
    device: &Path,
    bytes: u64,
    damaged: disk::damaged::Damaged,
) -> Result<VolumeHead, StoreError> {
    let mut head = [0; VolumeHead::SIZE];
    let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
    if u64::from(units) >= UNITS_MIN {
        read(file, device, &mut head, last_head(units))?;
    }
    match VolumeHead::decode(&head) {
        HeadFound::Volume(head) => {
            tracing::error!(device = %device.display(), %damaged, "the first head of the volume is damaged; the second one is used");
            Ok(head)
        }
        _ => Err(fault(device, DeviceFault::Head(damaged))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_holds_has_a_name() {
        let empty = vec![0; EMPTY_BYTES];
        assert_eq!(content(&empty), None);
        for (at, mark, name) in MARKS {
            let mut first = empty.clone();
            first[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(content(&first).as_deref(), Some(name));
        }
        let head = VolumeHead { volume: 0xabc, store: 1, units: 4096 };
        let mut first = empty.clone();
        first[..VolumeHead::SIZE].copy_from_slice(&head.encode());
        assert!(content(&first).unwrap().ends_with("abc"));
        first[100] = 1;
        assert_eq!(content(&first).as_deref(), Some("a damaged volume"));
        let mut first = empty;
        first[EMPTY_BYTES - 1] = 9;
        assert!(content(&first).unwrap().contains("1048575"));
    }
}
