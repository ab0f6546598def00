//! A small whole tree, damaged in every way: it is found, and mended until nothing is found.

use crate::check::{Check, Counts, FIRST, THEN};
use crate::finding::Finding;
use crate::judge::{Records, Verdict, clear, judge};
use disk::inode::{InodeRecord, ItemTag, item_head};
use disk::key::{self, MDT_STATE};
use disk::mark::Mark;
use disk::mdt_state::MdtState;
use disk::{bundle, chunk, destroy_log, dirent, inode, mark, mdt_state, objects_at, xattr};
use layout::dir_stripes::DirStripes;
use layout::layout::{Component, EOF, Layout, Pattern};
use namespace::inode::InodeFlags;
use std::collections::BTreeMap;
use types::attr::{Attr, FileType};
use types::dir_stripes::DirHash;
use types::fid::Fid;
use types::object::ObjectId;
use types::target::TargetIndex;
use types::time::Timestamp;

type Store = BTreeMap<Vec<u8>, Vec<u8>>;
type Objects = BTreeMap<(TargetIndex, ObjectId), (u64, u64)>;

const DIR: Fid = fid(1);
const SUB: Fid = fid(2);
const FILE: Fid = fid(3);
const LINK: Fid = fid(4);

const fn fid(oid: u32) -> Fid {
    Fid { seq: Fid::SEQ_NORMAL, oid, ver: 0 }
}

fn object(stripe: u32) -> (TargetIndex, ObjectId) {
    (TargetIndex(stripe as u16), ObjectId { fid: FILE, instance: 1, stripe })
}

fn put_inode(
    store: &mut Store,
    fid: Fid,
    file_type: FileType,
    nlink: u32,
    parent: Fid,
    tail: &[u8],
) {
    let time = Timestamp::default();
    let (size, blocks) = if file_type == FileType::Regular { (200_000, 400) } else { (4096, 8) };
    let attr = Attr {
        fid,
        mode: file_type.mode_bits() | 0o644,
        uid: 0,
        gid: 0,
        nlink,
        rdev: 0,
        size,
        blocks,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        version: 7,
    };
    let mut bytes = Vec::new();
    inode::encode(&InodeRecord { attr, parent, flags: 0, base: attr.version, tail }, &mut bytes);
    store.insert(key::inode(fid).to_vec(), bytes);
}

fn put_name(store: &mut Store, dir: Fid, name: &str, fid: Fid, file_type: FileType) {
    store.insert(
        key::dirent(dir, name.as_bytes()).to_vec(),
        dirent::encode(fid, file_type).to_vec(),
    );
}

/// `/dir/sub`, `/dir/file` = `/other` with two stripes, `/link`.
fn whole() -> (Store, Objects) {
    let mut store = Store::new();
    let layout = Layout {
        generation: 1,
        owner: Fid::NONE,
        spent: 0,
        components: vec![Component {
            id: 1,
            start: 0,
            end: EOF,
            pattern: Pattern::Raid0,
            stripe_size: 65536,
            stripe_count: 2,
            overstriped: false,
            pool: None,
            stripes: vec![TargetIndex(0), TargetIndex(1)],
            wanted: Vec::new(),
        }],
    };
    let mut bytes = Vec::new();
    layout::codec::encode(&layout, &mut bytes);
    let mut tail = item_head(ItemTag::Layout, bytes.len()).to_vec();
    tail.extend_from_slice(&bytes);
    put_inode(&mut store, Fid::ROOT, FileType::Directory, 3, Fid::ROOT, &[]);
    put_inode(&mut store, DIR, FileType::Directory, 3, Fid::ROOT, &[]);
    put_inode(&mut store, SUB, FileType::Directory, 2, DIR, &[]);
    put_inode(&mut store, FILE, FileType::Regular, 2, Fid::NONE, &tail);
    put_inode(&mut store, LINK, FileType::Symlink, 1, Fid::NONE, &[]);
    put_name(&mut store, Fid::ROOT, "dir", DIR, FileType::Directory);
    put_name(&mut store, DIR, "sub", SUB, FileType::Directory);
    put_name(&mut store, DIR, "file", FILE, FileType::Regular);
    put_name(&mut store, Fid::ROOT, "other", FILE, FileType::Regular);
    put_name(&mut store, Fid::ROOT, "link", LINK, FileType::Symlink);
    store.insert(
        MDT_STATE.to_vec(),
        mdt_state::encode(&MdtState { seq_next: Fid::SEQ_NORMAL + 100 }).to_vec(),
    );
    let objects = [(object(0), (131_072, 256)), (object(1), (68_928, 144))].into();
    (store, objects)
}

fn check(store: &Store, objects: &Objects) -> (Vec<Finding>, Counts) {
    let mut check = Check::default();
    for tag in FIRST.into_iter().chain(THEN) {
        let (start, end) = key::all(tag);
        for (key, value) in store.range(start.to_vec()..end.to_vec()) {
            check.record(0, key, value).unwrap();
        }
    }
    for ((ost, object), (size, blocks)) in objects {
        check.object(*ost, *object, *size, *blocks);
    }
    (0..2).for_each(|ost| check.all_objects_of(TargetIndex(ost)));
    check.finish()
}

fn look(store: &Store, finding: &Finding) -> Records {
    let mut records = Records::default();
    for key in finding.keys() {
        if let Some(value) = store.get(&key) {
            records.insert(key, value.clone());
        }
    }
    records
}

/// Kinds of what is found, sorted.
fn kinds(store: &Store, objects: &Objects) -> Vec<&'static str> {
    let mut kinds: Vec<_> = check(store, objects).0.iter().map(Finding::kind).collect();
    kinds.sort_unstable();
    kinds
}

/// One run of repairs, as `fsck` makes them.
fn mend(store: &mut Store, objects: &mut Objects) {
    for finding in check(store, objects).0 {
        match judge(&finding, &look(store, &finding)) {
            Verdict::Gone | Verdict::Changed => {}
            Verdict::Confirmed(None) => {
                let Finding::OrphanObject { ost, object, .. } = finding else {
                    panic!("no repair: {finding}")
                };
                objects.remove(&(ost, object));
            }
            Verdict::Confirmed(Some(mend)) => {
                for seen in &mend.expect {
                    assert_eq!(store.get(&seen.key), seen.value.as_ref(), "{finding}");
                }
                for change in mend.put {
                    match change.value {
                        Some(value) => store.insert(change.key, value),
                        None => store.remove(&change.key),
                    };
                }
            }
        }
    }
}

/// Makes damage and checks which findings it gives, and that repairs end with no finding left.
#[track_caller]
fn found_and_mended(
    damage: impl FnOnce(&mut Store, &mut Objects),
    wanted: &[&str],
) -> (Store, Objects) {
    let (mut store, mut objects) = whole();
    damage(&mut store, &mut objects);
    assert_eq!(kinds(&store, &objects), wanted, "{:#?}", check(&store, &objects).0);
    for _ in 0..4 {
        mend(&mut store, &mut objects);
    }
    assert_eq!(check(&store, &objects).0, [], "after repairs");
    (store, objects)
}

#[test]
fn a_whole_tree_is_whole() {
    let (store, objects) = whole();
    let (findings, counts) = check(&store, &objects);
    assert_eq!(findings, []);
    assert_eq!((counts.inodes, counts.directories, counts.names, counts.objects), (5, 3, 5, 2));
    assert_eq!(counts.object_bytes, 400 * 512);
}

#[test]
fn names() {
    found_and_mended(
        |store, _| put_name(store, DIR, "ghost", fid(99), FileType::Regular),
        &["dangling"],
    );
    // A directory that is gone: what was in it goes to lost+found.
    let (store, _) = found_and_mended(
        |store, _| {
            store.remove(&key::inode(SUB).to_vec());
            put_name(store, SUB, "in", LINK, FileType::Symlink);
            store.remove(&*key::dirent(Fid::ROOT, b"link").to_vec());
        },
        &["dangling", "nameless", "stray-name", "wrong-nlink"],
    );
    let lost = key::dirent(crate::lost_found::LOST_FOUND, LINK.to_string().as_bytes()).to_vec();
    assert!(store.contains_key(&lost));
    found_and_mended(
        |store, _| put_name(store, DIR, "file", FILE, FileType::Fifo),
        &["wrong-type"],
    );
    found_and_mended(
        |store, _| put_name(store, Fid::ROOT, "again", SUB, FileType::Directory),
        &["second-name", "wrong-nlink"],
    );
}

/// A directory whose inode is on another MDT than its name.
#[test]
fn a_remote_directory_is_whole_or_found() {
    let far = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 1, ver: 0 };
    let kinds = |name: bool, inode: bool| {
        let (mut here, mut there) = (Store::new(), Store::new());
        put_inode(&mut here, Fid::ROOT, FileType::Directory, 2 + u32::from(name), Fid::ROOT, &[]);
        if name {
            put_name(&mut here, Fid::ROOT, "far", far, FileType::Directory);
        }
        if inode {
            put_inode(&mut there, far, FileType::Directory, 2, Fid::ROOT, &[]);
        }
        let used = mdt_state::encode(&MdtState { seq_next: far.seq + 100 });
        there.insert(MDT_STATE.to_vec(), used.to_vec());
        there.insert(
            key::peer(TargetIndex(0)).to_vec(),
            bundle::encode_peer(&bundle::Peer::default()),
        );
        let mut check = Check::default();
        for tag in FIRST.into_iter().chain(THEN) {
            let (start, end) = key::all(tag);
            for (mdt, store) in [&here, &there].into_iter().enumerate() {
                for (key, value) in store.range(start.to_vec()..end.to_vec()) {
                    check.record(mdt as u16, key, value).unwrap();
                }
            }
        }
        check.finish().0.iter().map(Finding::kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(true, true), [] as [&str; 0]);
    assert_eq!(kinds(true, false), ["dangling", "wrong-nlink"]);
    assert_eq!(kinds(false, true), ["nameless"]);
}

#[test]
fn damaged_records_of_operations_over_mdts_are_found() {
    let id = types::bundle::BundleId { coordinator: TargetIndex(0), boot: 1, number: 1 };
    for key in [key::bundle(id).to_vec(), key::peer(TargetIndex(1)).to_vec()] {
        let (mut store, objects) = whole();
        store.insert(key, b"no such record".to_vec());
        assert_eq!(kinds(&store, &objects), ["damaged"]);
    }
}

#[test]
fn counts_and_parents() {
    let nlink = |store: &mut Store, fid: Fid, nlink: u32, parent: Fid| {
        put_inode(store, fid, FileType::Directory, nlink, parent, &[]);
    };
    found_and_mended(|store, _| nlink(store, DIR, 9, Fid::ROOT), &["wrong-nlink"]);
    found_and_mended(|store, _| nlink(store, SUB, 2, Fid::ROOT), &["wrong-parent"]);
    found_and_mended(|store, _| nlink(store, SUB, 0, DIR), &["wrong-nlink"]);
    found_and_mended(
        |store, _| put_inode(store, LINK, FileType::Symlink, 5, Fid::NONE, &[]),
        &["wrong-nlink"],
    );
}

#[test]
fn inodes_without_names() {
    let (store, _) = found_and_mended(
        |store, _| {
            store.remove(&*key::dirent(DIR, b"sub").to_vec());
        },
        &["nameless", "wrong-nlink"],
    );
    let sub = inode::decode(SUB, &store[&key::inode(SUB).to_vec()]).unwrap();
    assert_eq!(sub.parent, crate::lost_found::LOST_FOUND);
    let (store, _) = found_and_mended(
        |store, _| put_inode(store, fid(8), FileType::Fifo, 0, Fid::NONE, &[]),
        &["forgotten"],
    );
    assert!(store.contains_key(key::orphan(fid(8)).as_slice()));
    // Two directories that have only each other.
    found_and_mended(
        |store, _| {
            store.remove(&*key::dirent(Fid::ROOT, b"dir").to_vec());
            put_inode(store, Fid::ROOT, FileType::Directory, 2, Fid::ROOT, &[]);
            put_inode(store, DIR, FileType::Directory, 3, SUB, &[]);
            put_inode(store, SUB, FileType::Directory, 3, DIR, &[]);
            put_name(store, SUB, "dir", DIR, FileType::Directory);
        },
        &["detached"],
    );
}

#[test]
fn marks_attributes_logs_counters() {
    let plain = mark::encode(Mark::default());
    found_and_mended(
        |store, _| drop(store.insert(key::writer(fid(50)).to_vec(), plain.to_vec())),
        &["stray-mark"],
    );
    found_and_mended(
        |store, _| drop(store.insert(key::orphan(LINK).to_vec(), plain.to_vec())),
        &["stray-mark"],
    );
    let value = || {
        let mut value = Vec::new();
        xattr::encode(b"v", &mut value);
        value
    };
    found_and_mended(
        |store, _| drop(store.insert(key::xattr(fid(50), b"user.a").to_vec(), value())),
        &["stray-xattr"],
    );
    found_and_mended(
        |store, _| drop(store.insert(key::xattr(DIR, b"user.a").to_vec(), value())),
        &["hidden-xattrs"],
    );
    let log = |fid: Fid| {
        let mut log = Vec::new();
        destroy_log::encode(
            fid,
            [(TargetIndex(0), ObjectId { fid, ..object(0).1 })].into_iter(),
            &mut log,
        );
        (key::destroy(types::session::Transno(3), fid).to_vec(), log)
    };
    found_and_mended(|store, _| store.extend([log(FILE)]), &["destroys-living"]);
    let zero = mdt_state::encode(&MdtState { seq_next: Fid::SEQ_NORMAL });
    found_and_mended(
        |store, _| drop(store.insert(MDT_STATE.to_vec(), zero.to_vec())),
        &["counter"],
    );
    // Objects that are being removed are not stray.
    let (mut store, mut objects) = whole();
    store.extend([log(fid(60))]);
    objects.insert((TargetIndex(0), ObjectId { fid: fid(60), ..object(0).1 }), (1, 8));
    assert_eq!(check(&store, &objects).0, []);
}

#[test]
fn objects() {
    let other = ObjectId { instance: 2, ..object(0).1 };
    let (_, objects) = found_and_mended(
        |_, objects| {
            objects.insert((TargetIndex(0), ObjectId { fid: fid(70), ..other }), (5, 8));
            objects.insert((TargetIndex(1), object(0).1), (5, 8));
            objects.insert((TargetIndex(0), other), (5, 8));
        },
        &["orphan-object", "orphan-object", "orphan-object"],
    );
    assert_eq!(objects.len(), 2);
    let (store, _) = found_and_mended(
        |_, objects| assert!(objects.remove(&object(1)).is_some()),
        &["lost-object"],
    );
    assert_eq!(inode::decode(FILE, &store[&key::inode(FILE).to_vec()]).unwrap().attr.blocks, 256);
    found_and_mended(
        |_, objects| assert!(objects.insert(object(1), (131_072, 128)).is_some()),
        &["short-size"],
    );
    found_and_mended(
        |_, objects| assert!(objects.insert(object(1), (68_928, 4000)).is_some()),
        &["wrong-blocks"],
    );
    // The client that writes the file knows its size better.
    let (mut store, mut objects) = whole();
    store.insert(key::writer(FILE).to_vec(), mark::encode(Mark::default()).to_vec());
    objects.remove(&object(1));
    assert_eq!(check(&store, &objects).0, []);
}

#[test]
fn objects_named_after_another_file() {
    let (mut store, mut objects) = whole();
    let (named, before) = (fid(80), objects.clone());
    let record = store[&key::inode(FILE).to_vec()].clone();
    let record = inode::decode(FILE, &record).unwrap();
    let mut layout =
        layout::codec::decode(inode::item(record.tail, ItemTag::Layout).unwrap().unwrap()).unwrap();
    layout.owner = named;
    let mut bytes = Vec::new();
    layout::codec::encode(&layout, &mut bytes);
    let mut tail = item_head(ItemTag::Layout, bytes.len()).to_vec();
    tail.extend_from_slice(&bytes);
    put_inode(&mut store, FILE, FileType::Regular, 2, Fid::NONE, &tail);
    objects = objects
        .into_iter()
        .map(|((ost, o), size)| ((ost, ObjectId { fid: named, ..o }), size))
        .collect();
    // Looked at before the swap, judged after it: the files that the names of the objects speak of
    // are gone.
    let early = check(&store, &objects).0;
    assert_eq!(
        early.iter().map(Finding::kind).collect::<Vec<_>>(),
        ["orphan-object", "orphan-object", "lost-object"]
    );
    store.insert(key::objects_at(named).to_vec(), objects_at::encode(FILE).to_vec());
    for finding in &early[..2] {
        assert_eq!(judge(finding, &look(&store, finding)), Verdict::Changed, "{finding}");
    }
    assert_eq!(check(&store, &objects).0, []);
    // An object named after a file that has exchanged its objects may have come back to it between
    // two looks, so it is left alone.
    objects.extend(before);
    let found = check(&store, &objects).0;
    assert_eq!(found.iter().map(Finding::kind).collect::<Vec<_>>(), ["orphan-object"; 2]);
    for finding in &found {
        assert_eq!(judge(finding, &look(&store, finding)), Verdict::Changed, "{finding}");
    }
    // An object that its layout does not have is an orphan all the same.
    let stray = (TargetIndex(0), ObjectId { fid: named, instance: 9, stripe: 0 });
    let found = check(&store, &[(stray, (1, 8))].into()).0;
    let orphan = found.iter().find(|f| f.kind() == "orphan-object").unwrap();
    assert_eq!(judge(orphan, &look(&store, orphan)), Verdict::Confirmed(None));
    // An unknown owner is no reason to remove objects.
    store.get_mut(&key::objects_at(named)[..]).unwrap()[9] ^= 1;
    let found = check(&store, &objects).0;
    assert_eq!(found[0].kind(), "damaged");
    let sure = found[1..]
        .iter()
        .filter(|f| judge(f, &look(&store, f)) == Verdict::Confirmed(None))
        .count();
    assert_eq!(sure, 0);
}

/// Gives the file a first component on the MDT, with so many bytes there.
fn with_data_here(store: &mut Store, named: Fid, bytes: &[usize]) {
    let record = inode::decode(FILE, &store[&key::inode(FILE)[..]]).unwrap();
    let mut layout =
        layout::codec::decode(inode::item(record.tail, ItemTag::Layout).unwrap().unwrap()).unwrap();
    let mut dom = layout.components[0].clone();
    (dom.id, dom.end, dom.pattern, dom.stripe_count) = (9, 65536, Pattern::Mdt, 0);
    dom.stripes.clear();
    layout.components[0].start = dom.end;
    layout.components.insert(0, dom);
    layout.owner = if named == FILE { Fid::NONE } else { named };
    let mut encoded = Vec::new();
    layout::codec::encode(&layout, &mut encoded);
    let mut tail = item_head(ItemTag::Layout, encoded.len()).to_vec();
    tail.extend_from_slice(&encoded);
    put_inode(store, FILE, FileType::Regular, 2, Fid::NONE, &tail);
    for (n, len) in (0..).zip(bytes) {
        let mut record = Vec::new();
        chunk::encode(&vec![7; *len], &mut record);
        store.insert(key::chunk(named, n).to_vec(), record);
    }
    if named != FILE {
        store.insert(key::objects_at(named).to_vec(), objects_at::encode(FILE).to_vec());
    }
}

#[test]
fn data_on_the_mdt() {
    let (mut store, objects) = whole();
    with_data_here(&mut store, FILE, &[16384, 100]);
    assert_eq!(check(&store, &objects).0, [], "its space is within the slack");
    // Named after another file, by an exchange of layouts.
    let (mut store, mut objects) = whole();
    objects.clear();
    with_data_here(&mut store, LINK, &[16384, 100]);
    assert_eq!(
        kinds(&store, &objects),
        ["lost-object"],
        "only the objects under the other name are missed"
    );
    // Objects without an owner: no such file, after the end of the component, of a file without
    // such a component.
    let stray = |key: [u8; 21]| {
        move |store: &mut Store, _: &mut Objects| {
            with_data_here(store, FILE, &[16384]);
            let record = store[&key::chunk(FILE, 0)[..]].clone();
            store.insert(key.to_vec(), record);
        }
    };
    for key in [key::chunk(fid(77), 0), key::chunk(FILE, 4), key::chunk(LINK, 0)] {
        let (store, _) = found_and_mended(stray(key), &["stray-chunk"]);
        assert!(store.contains_key(&key::chunk(FILE, 0)[..]) && !store.contains_key(&key[..]));
    }
    // A damaged record is reported and left alone until the administrator asks for its removal.
    let (mut store, objects) = whole();
    with_data_here(&mut store, FILE, &[16384]);
    store.get_mut(&key::chunk(FILE, 0)[..]).unwrap()[9] ^= 1;
    let (findings, _) = check(&store, &objects);
    assert_eq!(findings.iter().map(Finding::kind).collect::<Vec<_>>(), ["damaged"]);
    let records = look(&store, &findings[0]);
    assert_eq!(judge(&findings[0], &records), Verdict::Confirmed(None));
    assert_eq!(clear(&key::chunk(FILE, 0), &records).unwrap().put[0].value, None);
}

#[test]
fn damaged_records() {
    let spoil = |store: &mut Store, key: Vec<u8>| store.get_mut(&key).unwrap()[5] ^= 0x40;
    found_and_mended(
        |store, _| spoil(store, key::dirent(Fid::ROOT, b"link").to_vec()),
        &["damaged", "nameless"],
    );
    // The mark of the MDT's counter: removed, then counted afresh.
    found_and_mended(|store, _| spoil(store, MDT_STATE.to_vec()), &["damaged"]);
    // A damaged inode is reported and left alone, with what belongs to it, until the administrator
    // asks for its removal.
    let (mut store, mut objects) = whole();
    spoil(&mut store, key::inode(FILE).to_vec());
    let (findings, _) = check(&store, &objects);
    assert_eq!(findings.iter().map(Finding::kind).collect::<Vec<_>>(), ["damaged"]);
    let records = look(&store, &findings[0]);
    assert_eq!(judge(&findings[0], &records), Verdict::Confirmed(None));
    let change = clear(&key::inode(FILE), &records).unwrap().put.remove(0);
    assert_eq!(change.value, None);
    store.remove(&change.key);
    for _ in 0..3 {
        mend(&mut store, &mut objects);
    }
    assert_eq!(check(&store, &objects).0, []);
    assert_eq!(objects.len(), 0);
}

#[test]
fn flags_and_items_agree_on_projects() {
    let project = [&item_head(ItemTag::Project, 4)[..], &7_u32.to_le_bytes()].concat();
    let (mut store, objects) = whole();
    let mut put = |flags: u32, more: &[u8]| {
        let bytes = store[&key::inode(LINK).to_vec()].clone();
        let record = inode::decode(LINK, &bytes).unwrap();
        let links = inode::items(record.tail).filter(|item| !matches!(item, Ok((7, _))));
        let mut tail = Vec::new();
        for (tag, bytes) in links.map(Result::unwrap) {
            tail.extend(tag.to_le_bytes());
            tail.extend((bytes.len() as u32).to_le_bytes());
            tail.extend(bytes);
        }
        tail.extend(more);
        let mut out = Vec::new();
        inode::encode(&InodeRecord { flags, tail: &tail, ..record }, &mut out);
        store.insert(key::inode(LINK).to_vec(), out);
        let (findings, _) = check(&store, &objects);
        findings.iter().map(Finding::kind).collect::<Vec<_>>()
    };
    assert_eq!(put(32768, &project), [""; 0]);
    assert_eq!(put(0, &project), ["damaged"]);
    assert_eq!(put(32768, &[]), ["damaged"]);
    assert_eq!(put(0, &[]), [""; 0]);
}

#[test]
fn what_changed_meanwhile_is_not_told() {
    let (mut store, objects) = whole();
    put_inode(&mut store, LINK, FileType::Symlink, 5, Fid::NONE, &[]);
    put_name(&mut store, DIR, "ghost", fid(99), FileType::Regular);
    let (findings, _) = check(&store, &objects);
    // A client removes the name and changes the link.
    store.remove(&*key::dirent(DIR, b"ghost").to_vec());
    let bytes = inode::with_version(LINK, &store[&key::inode(LINK).to_vec()], 8).unwrap();
    store.insert(key::inode(LINK).to_vec(), bytes);
    let verdicts: Vec<_> =
        findings.iter().map(|f| (f.kind(), judge(f, &look(&store, f)))).collect();
    assert_eq!(verdicts, [("dangling", Verdict::Gone), ("wrong-nlink", Verdict::Changed)]);
}

/// `/dir`, whose stripes are on MDT 0 and 1, with a name in each.
fn striped() -> (Store, [Fid; 2]) {
    let shard = Fid { seq: Fid::SEQ_NORMAL + Fid::SEQ_WIDTH, oid: 9, ver: 0 };
    let stripes = DirStripes::new(DirHash::AllChar, vec![DIR, shard]).unwrap();
    let bytes = stripes.encode();
    let mut tail = item_head(ItemTag::Stripes, bytes.len()).to_vec();
    tail.extend_from_slice(&bytes);
    let mut store = Store::new();
    put_inode(&mut store, Fid::ROOT, FileType::Directory, 3, Fid::ROOT, &[]);
    put_inode(&mut store, DIR, FileType::Directory, 2, Fid::ROOT, &tail);
    put_inode(&mut store, shard, FileType::Directory, 3, DIR, &tail);
    for fid in [DIR, shard] {
        change_inode(&mut store, fid, |record| record.flags = InodeFlags::STRIPED.bits());
    }
    put_inode(&mut store, LINK, FileType::Symlink, 1, Fid::NONE, &[]);
    put_inode(&mut store, SUB, FileType::Directory, 2, DIR, &[]);
    put_name(&mut store, Fid::ROOT, "dir", DIR, FileType::Directory);
    let (even, odd) = ("b", "a");
    assert_eq!((stripes.place(even.as_bytes()), stripes.place(odd.as_bytes())), (DIR, shard));
    put_name(&mut store, DIR, even, LINK, FileType::Symlink);
    put_name(&mut store, shard, odd, SUB, FileType::Directory);
    (store, [DIR, shard])
}

fn change_inode(store: &mut Store, fid: Fid, change: impl FnOnce(&mut InodeRecord<'_>)) {
    let old = store[&key::inode(fid)[..]].clone();
    let mut record = inode::decode(fid, &old).unwrap();
    change(&mut record);
    let mut bytes = Vec::new();
    inode::encode(&record, &mut bytes);
    store.insert(key::inode(fid).to_vec(), bytes);
}

fn found_in(store: &Store) -> Vec<Finding> {
    let mut findings = check(store, &Objects::new()).0;
    // The test has one counter for all MDTs.
    findings.retain(|finding| !matches!(finding, Finding::Counter { .. }));
    findings
}

#[test]
fn stripes_of_a_directory_belong_together() {
    let (whole, [master, shard]) = striped();
    assert_eq!(found_in(&whole), []);
    let found = |change: &dyn Fn(&mut Store)| {
        let mut store = whole.clone();
        change(&mut store);
        let findings = found_in(&store);
        for finding in &findings {
            assert!(!finding.advice().is_empty() && !finding.to_string().is_empty());
            let mut records = Records::default();
            for key in finding.keys() {
                if let Some(value) = store.get(&key) {
                    records.insert(key, value.clone());
                }
            }
            assert!(matches!(judge(finding, &records), Verdict::Confirmed(_)), "{finding}");
        }
        findings.iter().map(Finding::kind).collect::<Vec<_>>()
    };
    assert_eq!(
        found(&|store| change_inode(store, shard, |record| record.attr.mode ^= 0o20)),
        ["unlike-stripe"]
    );
    assert_eq!(
        found(&|store| {
            let value = store.remove(&key::dirent(shard, b"a")[..]).unwrap();
            store.insert(key::dirent(master, b"a").to_vec(), value);
            change_inode(store, shard, |record| record.attr.nlink = 2);
            change_inode(store, master, |record| record.attr.nlink = 3);
        }),
        ["misplaced-name"]
    );
    let parent = found(&|store| change_inode(store, SUB, |record| record.parent = shard));
    assert_eq!(parent, ["wrong-parent"]);
    let marked = found(&|store| {
        store.insert(key::moving(master).to_vec(), mark::encode(Mark::default()).to_vec());
    });
    assert_eq!(marked, ["stray-mark"]);
    let lost = found(&|store| _ = store.remove(&key::inode(shard)[..]));
    assert!(lost.contains(&"lost-stripe") && lost.contains(&"stray-name"), "{lost:?}");
    let stray = found(&|store| {
        store.remove(&key::inode(master)[..]);
        store.remove(&key::dirent(Fid::ROOT, b"dir")[..]);
        change_inode(store, Fid::ROOT, |record| record.attr.nlink = 2);
    });
    assert!(stray.contains(&"stray-stripe"), "{stray:?}");
    let nlink = found(&|store| change_inode(store, shard, |record| record.attr.nlink = 7));
    assert_eq!(nlink, ["wrong-nlink"]);
    let damaged = found(&|store| {
        change_inode(store, shard, |record| record.tail = &[]);
    });
    assert!(damaged.contains(&"damaged"), "{damaged:?}");
}
