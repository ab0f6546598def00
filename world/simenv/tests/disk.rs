//! What a disk keeps.

use env::Env;
use env::disk::{File, Open};
use simenv::machine::{Kill, Process};
use simenv::world::World;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 4096;

struct Rig {
    world: World,
    env: Env,
    process: Arc<Process>,
}

fn rig(seed: u64, bytes: u64) -> Rig {
    let world = World::new(seed);
    let machine = world.machine(bytes);
    let (env, process) = world.start(machine);
    Rig { world, env, process }
}

impl Rig {
    fn crash(&mut self, how: Kill) {
        self.world.kill(&self.process, how);
        (self.env, self.process) = self.world.start(self.process.machine());
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.env.disk.open(Path::new(path), Open::Existing).ok()?;
        let mut bytes = vec![0; file.size_and_blocks().unwrap().0 as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        Some(bytes)
    }

    fn open(&self, path: &str) -> Arc<dyn File> {
        self.env.disk.open(Path::new(path), Open::Create).unwrap()
    }
}

#[test]
fn bytes_holes_and_sizes() {
    let rig = rig(1, 1 << 20);
    let file = rig.open("/f");
    file.write_all_at(b"hello", 3 * PAGE - 2).unwrap();
    assert_eq!(file.size_and_blocks().unwrap(), (3 * PAGE + 3, 16));
    assert_eq!(file.seek(0, false).unwrap(), Some(2 * PAGE));
    assert_eq!(file.seek(2 * PAGE + 5, true).unwrap(), Some(3 * PAGE + 3));
    assert_eq!(file.seek(3 * PAGE + 3, false).unwrap(), None);
    let mut buf = [9; 8];
    assert_eq!(file.read_at(&mut buf, 3 * PAGE - 4).unwrap(), 7);
    assert_eq!(&buf, b"\0\0hello\x09");
    file.punch(3 * PAGE, 1).unwrap();
    file.set_len(3 * PAGE + 2).unwrap();
    file.set_len(3 * PAGE + 4).unwrap();
    assert_eq!(file.read_at(&mut buf, 3 * PAGE - 2).unwrap(), 6);
    assert_eq!(&buf[..6], b"he\0l\0\0", "what was cut off comes back as zeros");
    file.punch(0, 4 * PAGE).unwrap();
    assert_eq!(file.size_and_blocks().unwrap(), (3 * PAGE + 4, 0));
    file.allocate(0, 5 * PAGE, true).unwrap();
    assert_eq!(file.size_and_blocks().unwrap(), (5 * PAGE, 40));
    file.set_len(0).unwrap();
    assert_eq!(rig.world.volume(rig.process.machine()).used(), 0);
}

#[test]
fn a_full_disk_says_so_and_has_room_after_a_remove() {
    let rig = rig(2, 4 * PAGE);
    let file = rig.open("/f");
    file.write_all_at(&[1; 4 * PAGE as usize], 0).unwrap();
    assert_eq!(file.write_all_at(b"x", 4 * PAGE).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(b"x", PAGE).unwrap();
    assert_eq!(rig.env.disk.space(Path::new("/")).unwrap().bytes_free, 0);
    rig.env.disk.remove(Path::new("/f")).unwrap();
    file.write_all_at(b"y", 0).unwrap();
    drop(file);
    // As long as a power cut may bring its name back, its pages are not given away.
    assert_eq!(rig.env.disk.space(Path::new("/")).unwrap().bytes_free, 0);
    rig.env.disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(rig.env.disk.space(Path::new("/")).unwrap().bytes_free, 4 * PAGE);
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    let mut rig = rig(3, 1 << 20);
    rig.env.disk.create_dirs(Path::new("/a/b")).unwrap();
    rig.open("/a/b/f").write_all_at(b"kept", 0).unwrap();
    let stale = rig.open("/a/b/f");
    let lock = rig.env.disk.lock(Path::new("/lock")).unwrap().expect("free");
    assert!(rig.env.disk.lock(Path::new("/lock")).unwrap().is_none());
    rig.crash(Kill::Process);
    assert_eq!(rig.read("/a/b/f").unwrap(), b"kept");
    assert!(stale.write_all_at(b"late", 0).is_err(), "the dead write nothing");
    let again = rig.env.disk.lock(Path::new("/lock")).unwrap().expect("ended with its holder");
    drop(lock);
    assert!(
        rig.env.disk.lock(Path::new("/lock")).unwrap().is_none(),
        "a dead holder's guard frees nothing"
    );
    drop(again);
    assert!(rig.env.disk.lock(Path::new("/lock")).unwrap().is_some());
}

#[test]
fn a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() {
    let (mut old, mut new, mut torn, mut unnamed) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut rig = rig(seed, 1 << 20);
        let file = rig.open("/synced");
        file.write_all_at(&[1; 2 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
        rig.env.disk.sync_dir(Path::new("/")).unwrap();
        file.write_all_at(&[2; 2 * PAGE as usize], 0).unwrap();
        let loose = rig.open("/loose");
        loose.write_all_at(b"x", 0).unwrap();
        loose.sync_data().unwrap();
        rig.crash(Kill::Power);
        let bytes = rig.read("/synced").expect("its name was synced");
        assert_eq!(bytes.len(), 2 * PAGE as usize);
        match (bytes[0], bytes[PAGE as usize]) {
            (1, 1) => old += 1,
            (2, 2) => new += 1,
            (1, 2) | (2, 1) => torn += 1,
            other => panic!("{other:?}"),
        }
        match rig.read("/loose") {
            None => unnamed += 1,
            Some(bytes) => assert_eq!(bytes, b"x"),
        }
    }
    assert!(old > 40 && new > 40 && torn > 10, "{old} {new} {torn}");
    assert!((50..150).contains(&unnamed), "{unnamed}");
}

#[test]
fn a_synced_rename_is_whole_and_an_unsynced_one_is_old_or_new() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..50 {
        let mut rig = rig(seed, 1 << 20);
        let write = |path: &str, text: &[u8]| {
            let file = rig.open(path);
            file.write_all_at(text, 0).unwrap();
            file.sync_data().unwrap();
        };
        write("/f", b"old");
        rig.env.disk.sync_dir(Path::new("/")).unwrap();
        write("/f.new", b"new");
        rig.env.disk.rename(Path::new("/f.new"), Path::new("/f")).unwrap();
        let synced = seed % 2 == 0;
        if synced {
            rig.env.disk.sync_dir(Path::new("/")).unwrap();
        }
        rig.crash(Kill::Power);
        *seen.entry((synced, rig.read("/f").unwrap())).or_insert(0) += 1;
    }
    assert_eq!(seen[&(true, b"new".to_vec())], 25);
    assert!(seen[&(false, b"old".to_vec())] > 3 && seen[&(false, b"new".to_vec())] > 3, "{seen:?}");
}

#[test]
fn a_lost_directory_takes_its_files_along() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..40 {
        let mut rig = rig(seed, 1 << 20);
        rig.env.disk.create_dirs(Path::new("/d")).unwrap();
        let file = rig.open("/d/f");
        file.write_all_at(b"x", 0).unwrap();
        file.sync_data().unwrap();
        rig.env.disk.sync_dir(Path::new("/d")).unwrap();
        drop(file);
        rig.crash(Kill::Power);
        match rig.env.disk.list(Path::new("/d")) {
            Ok(names) => {
                kept += 1;
                assert_eq!(names, ["f"]);
            }
            Err(error) => {
                lost += 1;
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
        }
    }
    assert!(lost > 5 && kept > 5, "{lost} lost, {kept} kept");
}
