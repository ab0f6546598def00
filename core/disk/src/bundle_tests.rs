use super::*;
use crate::inode::InodeRecord;
use types::attr::Attr;

const A: Fid = Fid { seq: 0x2_4000_0400, oid: 1, ver: 0 };
const TIME: Timestamp = Timestamp { sec: -5, nsec: 7 };

fn sample() -> Kept {
    let attr = Attr {
        fid: A,
        mode: 0o40755,
        uid: 0,
        gid: 0,
        nlink: 2,
        rdev: 0,
        size: 4096,
        blocks: 8,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
        btime: TIME,
        version: 0,
    };
    let mut record = Vec::new();
    inode::encode(
        &InodeRecord { attr, parent: Fid::ROOT, flags: 0, base: 0, tail: &[] },
        &mut record,
    );
    let name = Name::new(b"new").unwrap();
    let mut reply = Vec::new();
    crate::session::encode_reply(9, b"reply", &mut reply);
    Kept::Applied {
        others: vec![(TargetIndex(1), false), (TargetIndex(2), true)],
        steps: vec![
            Step::Change {
                fid: A,
                atime: false,
                mtime: true,
                record: record.clone(),
                xattrs: vec![(b"user.a".to_vec(), Some(b"b".to_vec())), (b"user.c".to_vec(), None)],
            },
            Step::Make { fid: A, record, xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())] },
            Step::Remove { fid: A, time: TIME },
            Step::Enter {
                dir: Fid::ROOT,
                name: name.clone(),
                fid: A,
                file_type: FileType::Directory,
                time: TIME,
            },
            Step::Leave {
                dir: Fid::ROOT,
                name: name.clone(),
                file_type: FileType::Directory,
                time: TIME,
            },
            Step::Drop {
                fid: A,
                dir: Fid::ROOT,
                name: name.clone(),
                file_type: FileType::Regular,
                time: TIME,
            },
            Step::Link {
                fid: A,
                dir: Fid::ROOT,
                name: name.clone(),
                file_type: FileType::Symlink,
                time: TIME,
            },
            Step::Move {
                fid: A,
                from: (Fid::ROOT, name.clone()),
                to: (A, name.clone()),
                file_type: FileType::Directory,
                time: TIME,
            },
            Step::Restripe { fid: A, nlink: -1, record: b"stripes".to_vec() },
            Step::Give { dir: Fid::ROOT, name: name.clone(), file_type: FileType::Directory },
            Step::Take {
                dir: Fid::ROOT,
                name: name.clone(),
                fid: A,
                file_type: FileType::Directory,
            },
            Step::Home { fid: A, from: Fid::ROOT, to: A, name, file_type: FileType::Directory },
            Step::Objects { fid: A, named: Fid::ROOT, chunks: vec![(3, b"bytes".to_vec())] },
            Step::Discard { fid: A },
            Step::Reply { client: ClientUuid(7), slot: 3, record: reply },
        ],
    }
}

#[test]
fn bytes_never_change_and_round_trip() {
    let bytes = encode(&sample());
    crate::golden::check("bundle", &bytes);
    assert_eq!(decode(&bytes), Ok(sample()));
    crate::golden::refuses_other_lengths(&bytes, |bytes| decode(bytes).is_err());
    let stopped = encode(&Kept::Stopped);
    crate::golden::check("bundle_stopped", &stopped);
    assert_eq!(decode(&stopped), Ok(Kept::Stopped));
    assert_eq!(decode(&encode_steps_of_a_stop()), Err(field("kind", STOPPED.into())));
}

fn encode_steps_of_a_stop() -> Vec<u8> {
    let mut bytes = encode(&sample());
    bytes[5] = STOPPED;
    seal(&mut bytes);
    bytes
}

#[test]
fn each_step_is_of_the_mdt_of_its_inode() {
    let Kept::Applied { steps, .. } = sample() else { panic!("it is applied") };
    let mdts: Vec<_> = steps.iter().map(|step| step.mdt().map(|mdt| mdt.0)).collect();
    let (inode, name) = (Some(A.mdt()), Some(Fid::ROOT.mdt()));
    assert_eq!(
        mdts,
        [
            inode, inode, inode, name, name, inode, inode, inode, inode, name, name, inode, inode,
            inode, None
        ]
    );
}

#[test]
fn another_mdt_is_kept() {
    let peer = Peer { under_way: true, below: Place { boot: 3, number: 9 } };
    let bytes = encode_peer(&peer);
    crate::golden::check("bundle_peer", &bytes);
    assert_eq!(decode_peer(&bytes), Ok(peer));
    assert!((0..bytes.len()).all(|len| decode_peer(&bytes[..len]).is_err()));
    let mut flags = bytes;
    flags[5] = 2;
    seal(&mut flags);
    assert_eq!(decode_peer(&flags), Err(Damaged::Field { record: PEER, field: "flags", found: 2 }));
}
