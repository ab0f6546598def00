//! The place where files without a name get one: `/lost+found`. Each is named by its FID.
//!
//! The directory has a fixed FID (Lustre's number for it), so it can be made without asking for a
//! new one.

use crate::judge::{Mend, Records, inode_change};
use disk::inode::{self, InodeRecord};
use disk::{dirent, key};
use types::attr::{Attr, FileType};
use types::fid::Fid;

/// `/lost+found` (FID_SEQ_DOT_LUSTRE, FID_OID_DOT_LUSTRE_LPF).
pub(crate) const LOST_FOUND: Fid = Fid { seq: 0x2_0000_0002, oid: 3, ver: 0 };
const NAME: &[u8] = b"lost+found";

fn name_in_it(fid: Fid) -> Vec<u8> {
    fid.to_string().into_bytes()
}

/// Records that are needed to name `fid` there.
pub(crate) fn keys(fid: Fid) -> Vec<Vec<u8>> {
    vec![
        key::inode(fid).to_vec(),
        key::inode(Fid::ROOT).to_vec(),
        key::inode(LOST_FOUND).to_vec(),
        key::dirent(Fid::ROOT, NAME).to_vec(),
        key::dirent(LOST_FOUND, &name_in_it(fid)).to_vec(),
    ]
}

/// Adds to a mend the records that name `fid` there. `None` if it is not possible: something else
/// has the name, or a needed record is damaged.
pub(crate) fn name_there(records: &Records, fid: Fid, mend: &mut Mend) -> Option<()> {
    let record = records.get(&key::inode(fid))?;
    let found = inode::decode(fid, record).ok()?;
    let is_dir = found.attr.is_dir();
    let entry = key::dirent(LOST_FOUND, &name_in_it(fid));
    let root_entry = key::dirent(Fid::ROOT, NAME);
    let root_record = records.get(&key::inode(Fid::ROOT))?;
    match records.get(&key::inode(LOST_FOUND)) {
        Some(record) => {
            mend.expect(&key::inode(LOST_FOUND), Some(record));
            let more = u32::from(is_dir);
            mend.put.push(inode_change(LOST_FOUND, record, |record| record.attr.nlink += more)?);
        }
        None => {
            let root = inode::decode(Fid::ROOT, root_record).ok()?.attr;
            if records.get(&root_entry).is_some() {
                return None;
            }
            mend.expect(&root_entry, None);
            mend.expect(&key::inode(LOST_FOUND), None);
            mend.expect(&key::inode(Fid::ROOT), Some(root_record));
            mend.put.push(inode_change(Fid::ROOT, root_record, |record| record.attr.nlink += 1)?);
            mend.put(&root_entry, Some(&dirent::encode(LOST_FOUND, FileType::Directory)));
            let mode = FileType::Directory.mode_bits() | 0o700;
            // Times and size of the root: there is no clock here.
            let attr = Attr {
                fid: LOST_FOUND,
                mode,
                uid: 0,
                gid: 0,
                nlink: 2 + u32::from(is_dir),
                rdev: 0,
                ..root
            };
            let mut bytes = Vec::new();
            inode::encode(
                &InodeRecord { attr, parent: Fid::ROOT, flags: 0, base: attr.version, tail: &[] },
                &mut bytes,
            );
            mend.put(&key::inode(LOST_FOUND), Some(&bytes));
        }
    }
    mend.expect(&entry, None);
    mend.put(&entry, Some(&dirent::encode(fid, found.attr.file_type())));
    mend.expect(&key::inode(fid), Some(record));
    mend.put.push(inode_change(fid, record, |record| match is_dir {
        true => record.parent = LOST_FOUND,
        false => record.attr.nlink = 1,
    })?);
    Some(())
}
