//! Keys of an MDT's records: one tag byte, then big endian numbers, so that byte order is the order
//! of scans.
//!
//! | tag | rest                         | record                                             |
//! |-----|------------------------------|----------------------------------------------------|
//! | `B` | FID 16, number 4              | bytes of a file on its MDT (`chunk`)               |
//! | `C` | client UUID 16               | client with a session (docs/recovery.md)           |
//! | `D` | transno 8, FID 16            | objects of a removed file, to be destroyed         |
//! | `E` | directory FID 16, name       | directory entry                                    |
//! | `F` | realm 4                      | fileset whose tree is marked (MDT0000)             |
//! | `I` | FID 16                       | inode                                              |
//! | `M` | FID 16                       | directory whose names move between its stripes     |
//! | `O` | FID 16                       | file that has the objects named after this one     |
//! | `P` | FID 16                       | orphan: no name left, was open                     |
//! | `R` | client UUID 16, slot 2       | reply to a change of a client                      |
//! | `S` | `mdt`                        | state of the MDT as a whole                        |
//! | `S` | `redo`                       | keys under which redo is sealed (`redo_keys`)      |
//! | `U` | coordinator 2, boot 8, number 8 | operation over several MDTs (`bundle`)          |
//! | `V` | MDT 2                        | what is under way with another MDT (`bundle`)      |
//! | `W` | FID 16                       | written or cut: file and objects may disagree      |
//! | `X` | FID 16, name                 | extended attribute                                 |

use types::bundle::BundleId;
use types::fid::Fid;
use types::session::{ClientUuid, Transno};
use types::target::TargetIndex;

/// Bytes of a FID in a key.
const FID_BYTES: usize = 16;
/// Longest key of an MDT: tag, FID, name of 255 bytes.
pub const KEY_BYTES_MAX: usize = 1 + FID_BYTES + 255;

/// A key on the stack.
#[derive(Clone, Copy)]
pub struct Key {
    len: u16,
    bytes: [u8; KEY_BYTES_MAX],
}

impl Key {
    fn new(tag: u8) -> Key {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[0] = tag;
        Key { len: 1, bytes }
    }

    fn and(mut self, more: &[u8]) -> Key {
        let at = usize::from(self.len);
        self.bytes[at..at + more.len()].copy_from_slice(more);
        self.len += more.len() as u16;
        self
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Inode.
pub fn inode(fid: Fid) -> [u8; 17] {
    tagged(b'I', fid)
}

/// Key of the record that names the file with the objects named after `owner`, if that is not
/// `owner` itself.
pub fn objects_at(owner: Fid) -> [u8; 17] {
    tagged(b'O', owner)
}

/// Mark of a directory whose names move between its stripes.
pub fn moving(fid: Fid) -> [u8; 17] {
    tagged(b'M', fid)
}

/// Mark of a fileset whose tree is marked, by the number of its realm.
pub fn realm(realm: u32) -> [u8; 5] {
    let mut key = [b'F'; 5];
    key[1..].copy_from_slice(&realm.to_be_bytes());
    key
}

/// The number in the key of such a mark.
pub fn realm_of(key: &[u8]) -> Option<u32> {
    let number = key.strip_prefix(b"F")?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// Orphan mark.
pub fn orphan(fid: Fid) -> [u8; 17] {
    tagged(b'P', fid)
}

/// Writer mark.
pub fn writer(fid: Fid) -> [u8; 17] {
    tagged(b'W', fid)
}

/// Chunk `n` of the bytes on the MDT that are named after `fid`.
pub fn chunk(fid: Fid, n: u32) -> [u8; 21] {
    let mut key = [b'B'; 21];
    key[1..17].copy_from_slice(&fid.to_be_bytes());
    key[17..].copy_from_slice(&n.to_be_bytes());
    key
}

/// First key that does not belong to the chunks named after `fid` any more.
pub fn chunks_end(fid: Fid) -> [u8; 17] {
    tagged(b'B', after(fid))
}

/// The number of a chunk key.
pub fn chunk_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(17..)?.try_into().ok()?))
}

/// Client with a session.
pub fn client(client: ClientUuid) -> [u8; 17] {
    let mut key = [b'C'; 17];
    key[1..].copy_from_slice(&client.0.to_be_bytes());
    key
}

/// Reply to a change of a client.
pub fn reply(client: ClientUuid, slot: u16) -> [u8; 19] {
    let mut key = [b'R'; 19];
    key[1..17].copy_from_slice(&client.0.to_be_bytes());
    key[17..].copy_from_slice(&slot.to_be_bytes());
    key
}

/// First key of the replies of a client, and the first key after them.
pub fn replies(of: ClientUuid) -> ([u8; 19], [u8; 20]) {
    let mut end = [0; 20];
    end[..19].copy_from_slice(&reply(of, u16::MAX));
    (reply(of, 0), end)
}

/// The client of a client or reply key.
pub fn client_of(key: &[u8]) -> Option<ClientUuid> {
    Some(ClientUuid(u128::from_be_bytes(key.get(1..17)?.try_into().ok()?)))
}

/// The slot of a reply key.
pub fn slot_of(key: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(key.get(17..19)?.try_into().ok()?))
}

/// Operation over several MDTs.
pub fn bundle(id: BundleId) -> [u8; 19] {
    let mut key = [b'U'; 19];
    key[1..3].copy_from_slice(&id.coordinator.0.to_be_bytes());
    key[3..11].copy_from_slice(&id.boot.to_be_bytes());
    key[11..].copy_from_slice(&id.number.to_be_bytes());
    key
}

/// The name in the key of an operation over several MDTs; `None`: it is no such key.
pub fn bundle_of(key: &[u8]) -> Option<BundleId> {
    let [Some(mdt), Some(boot), Some(number)] = [key.get(1..3), key.get(3..11), key.get(11..)]
    else {
        return None;
    };
    if key[0] != Tag::Bundle as u8 {
        return None;
    }
    let wide = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
    let coordinator = TargetIndex(u16::from_be_bytes(mdt.try_into().ok()?));
    Some(BundleId { coordinator, boot: wide(boot)?, number: wide(number)? })
}

/// Another MDT.
pub fn peer(mdt: TargetIndex) -> [u8; 3] {
    let [high, low] = mdt.0.to_be_bytes();
    [b'V', high, low]
}

/// The MDT in the key of another MDT.
pub fn peer_of(key: &[u8]) -> Option<TargetIndex> {
    Some(TargetIndex(u16::from_be_bytes(key.get(1..)?.try_into().ok()?)))
}

/// State of the MDT.
pub const MDT_STATE: &[u8] = b"Smdt";
/// Keys under which redo is sealed.
pub const REDO_KEYS: &[u8] = b"Sredo";

/// Directory entry. Names beyond 255 bytes do not exist (`types::name::Name`).
///
/// # Panics
/// If the name is longer, which is a bug of the caller.
pub fn dirent(parent: Fid, name: &[u8]) -> Key {
    Key::new(b'E').and(&parent.to_be_bytes()).and(name)
}

/// Extended attribute. Names beyond 255 bytes do not exist.
///
/// # Panics
/// If the name is longer, which is a bug of the caller.
pub fn xattr(fid: Fid, name: &[u8]) -> Key {
    Key::new(b'X').and(&fid.to_be_bytes()).and(name)
}

/// Objects of a removed file.
pub fn destroy(transno: Transno, fid: Fid) -> Key {
    Key::new(b'D').and(&transno.0.to_be_bytes()).and(&fid.to_be_bytes())
}

/// First key that does not belong to directory `parent` any more.
pub fn dirents_end(parent: Fid) -> [u8; 17] {
    tagged(b'E', after(parent))
}

/// First key that does not belong to the extended attributes of `fid` any more.
pub fn xattrs_end(fid: Fid) -> [u8; 17] {
    tagged(b'X', after(fid))
}

/// All keys with a tag: start (inclusive) and end (exclusive).
pub fn all(tag: Tag) -> ([u8; 1], [u8; 1]) {
    ([tag as u8], [tag as u8 + 1])
}

/// Kinds of records that are scanned as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tag {
    /// Bytes of files.
    Chunk = b'B',
    /// Clients with a session.
    Client = b'C',
    /// Destroy log.
    Destroy = b'D',
    /// Directory entries.
    Entry = b'E',
    /// Filesets whose trees are marked.
    Realm = b'F',
    /// Inodes.
    Inode = b'I',
    /// Directories whose names move between their stripes.
    Moving = b'M',
    /// Files that have objects named after others.
    ObjectsAt = b'O',
    /// Orphan marks.
    Orphan = b'P',
    /// Replies to changes.
    Reply = b'R',
    /// State of the MDT.
    State = b'S',
    /// Operations over several MDTs.
    Bundle = b'U',
    /// Other MDTs.
    Peer = b'V',
    /// Writer marks.
    Writer = b'W',
    /// Extended attributes.
    Xattr = b'X',
}

/// The FID of an inode key or that of a mark.
pub fn fid_of(key: &[u8]) -> Option<Fid> {
    Some(Fid::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

/// The FID of an inode key; `None`: it is no inode key.
pub fn inode_of(key: &[u8]) -> Option<Fid> {
    fid_of(key).filter(|_| key[0] == Tag::Inode as u8)
}

/// The directory and the name of an entry key; `None`: it is no entry key.
pub fn entry_of(key: &[u8]) -> Option<(Fid, &[u8])> {
    (key.first() == Some(&(Tag::Entry as u8))).then(|| Some((owner_of(key)?, name_of(key)?)))?
}

/// The FID that an inode, mark, entry, chunk or xattr key begins with: of an entry, its directory.
pub fn owner_of(key: &[u8]) -> Option<Fid> {
    Some(Fid::from_be_bytes(key.get(1..1 + FID_BYTES)?.try_into().ok()?))
}

/// The transno of a destroy log key.
pub fn transno_of(key: &[u8]) -> Option<Transno> {
    Some(Transno(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?)))
}

/// The name in an entry or xattr key.
pub fn name_of(key: &[u8]) -> Option<&[u8]> {
    key.get(1 + FID_BYTES..)
}

fn tagged(tag: u8, fid: Fid) -> [u8; 17] {
    let mut key = [tag; 17];
    key[1..].copy_from_slice(&fid.to_be_bytes());
    key
}

/// The next FID in byte order. Versions are never all ones, so this cannot overflow in practice;
/// saturating is right.
fn after(fid: Fid) -> Fid {
    let n = u128::from_be_bytes(fid.to_be_bytes()).saturating_add(1);
    Fid::from_be_bytes(n.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: 0x2_0000_0400, oid: 1, ver: 0 };

    #[test]
    fn entries_sort_by_directory_then_name() {
        let keys = [dirent(A, b"a"), dirent(A, b"aa"), dirent(A, b"b"), dirent(A, &[255; 255])];
        assert!(keys.windows(2).all(|w| *w[0] < *w[1]));
        assert!(keys.iter().all(|k| **k < dirents_end(A)[..]));
        assert!(dirent(Fid { oid: 2, ..A }, b"a")[..] >= dirents_end(A)[..]);
    }

    #[test]
    fn parts_are_found_again() {
        assert_eq!(fid_of(&inode(A)), Some(A));
        assert_eq!(name_of(&dirent(A, b"name")), Some(&b"name"[..]));
        assert_eq!((fid_of(b"I"), inode_of(b"I"), entry_of(b"E")), (None, None, None));
        assert_eq!((inode_of(&inode(A)), inode_of(&orphan(A))), (Some(A), None));
        assert_eq!(
            (entry_of(&dirent(A, b"n")), entry_of(&xattr(A, b"n"))),
            (Some((A, &b"n"[..])), None)
        );
        assert_eq!(transno_of(&destroy(Transno(7), A)), Some(Transno(7)));
        let who = ClientUuid(7);
        assert_eq!((client_of(&client(who)), client_of(&reply(who, 3))), (Some(who), Some(who)));
        assert_eq!((slot_of(&reply(who, 3)), slot_of(&client(who))), (Some(3), None));
        let (start, end) = replies(who);
        assert!(start[..] <= reply(who, 0)[..] && reply(who, u16::MAX)[..] < end[..]);
        assert!(end[..] < reply(ClientUuid(8), 0)[..]);
        assert_eq!(
            (owner_of(&chunk(A, 7)), chunk_of(&chunk(A, 7)), chunk_of(&inode(A))),
            (Some(A), Some(7), None)
        );
        let id = BundleId { coordinator: TargetIndex(2), boot: 7, number: 1 << 40 };
        assert_eq!(
            (bundle_of(&bundle(id)), bundle_of(b"U"), bundle_of(&inode(A))),
            (Some(id), None, None)
        );
        assert_eq!(
            (peer_of(&peer(TargetIndex(300))), peer_of(b"V")),
            (Some(TargetIndex(300)), None)
        );
        assert!(chunk(A, 0) < chunk(A, 256) && chunk(A, u32::MAX)[..] < chunks_end(A)[..]);
    }

    #[test]
    fn bytes_never_change() {
        let mut all = inode(A).to_vec();
        all.extend_from_slice(&dirent(A, b"name"));
        all.extend_from_slice(&xattr(A, b"user.x"));
        all.extend_from_slice(&destroy(Transno(7), A));
        all.extend_from_slice(&client(ClientUuid(7)));
        all.extend_from_slice(&reply(ClientUuid(7), 3));
        all.extend_from_slice(&chunk(A, 7));
        all.extend_from_slice(&bundle(BundleId {
            coordinator: TargetIndex(1),
            boot: 7,
            number: 3,
        }));
        all.extend_from_slice(&peer(TargetIndex(1)));
        crate::golden::check("key", &all);
    }
}
