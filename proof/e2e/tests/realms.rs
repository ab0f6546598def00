//! Trees over several MDTs become filesets while MDS die and clients work in them: all that is in a
//! tree is marked, and nothing outside (docs/security.md, "Realms").
//!
//! `KILLS` sets the number of filesets (3), with one or two kills each; `KILLS_SEED` repeats the
//! choices.

use e2e::kills::Kills;
use e2e::lustre::lfs;
use e2e::many::Many;
use e2e::process::text;
use e2e::programs::sh;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Directories of a tree on one MDT, each with as many files.
const DIRS: usize = 8;
const FILES: usize = 40;
/// Servers are back and a tree is marked within this time.
const PATIENCE: Duration = Duration::from_secs(120);

fn lctl(many: &Many, args: &[&str]) -> String {
    let output = many.sheen(&[&["lctl"], args].concat());
    assert!(output.status.success(), "lctl {args:?}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// A tree with directories on three MDTs, below one another, a striped one, and files with names in
/// two directories.
fn plant(mount: &Path, tree: &str) {
    lfs(mount, &["mkdir", "-i", "1", tree]);
    let dir = |name: &str| format!("{tree}/{name}");
    lfs(mount, &["mkdir", "-c", "3", &dir("striped")]);
    for n in 0..3 * DIRS {
        let at = dir(&path_of(n));
        lfs(mount, &["mkdir", "-i", &(n % 3).to_string(), &at]);
        for file in 0..FILES {
            let path = mount.join(format!("{at}/f{file}"));
            fs::write(&path, tree).expect("write");
            if file % 8 == 0 {
                let second = mount.join(dir(&format!("striped/d{n}.f{file}")));
                fs::hard_link(&path, second).expect("link");
            }
        }
    }
}

/// Where a directory is in its tree.
fn path_of(n: usize) -> String {
    if n < DIRS { format!("d{n}") } else { format!("{}/d{n}", path_of(n - DIRS)) }
}

/// Makes files and directories in a tree, and moves them, until it is told to stop.
fn work(tree: &Path, stop: &AtomicBool) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let at = tree.join(path_of(round % (3 * DIRS)));
        let made = at.join(format!("new{round}"));
        File::create(&made).expect("create");
        fs::rename(&made, at.join(format!("moved{round}"))).expect("rename in a directory");
        fs::create_dir(at.join(format!("dir{round}"))).expect("mkdir");
        File::create(at.join(format!("dir{round}/file"))).expect("create");
    }
}

/// Number of the realm, once its tree is marked.
fn marked(many: &Many, fileset: &str) -> String {
    let info = lctl(many, &["nodemap_info", "tenant"]);
    let realm = info.lines().find_map(|line| line.split_once("fileset_realm="));
    let realm = realm.expect("a fileset has a realm").1.to_owned();
    let (ready, began) = (format!("{realm} {fileset} ready"), Instant::now());
    loop {
        // A daemon that has just died has no parameters.
        let said = many.sheen(&["lctl", "get_param", "-n", "mdt.*.realms"]);
        if String::from_utf8_lossy(&said.stdout).lines().any(|line| line == ready) {
            return realm;
        }
        assert!(began.elapsed() < PATIENCE, "{ready}? {}\n{}", text(&said), many.logs());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn all_of_a_tree_is_marked_whatever_dies() {
    let Some(Kills { count, mut rng, mounts, dir: _dir, mut many, .. }) = Kills::up_with_mdts(3, 3)
    else {
        return;
    };
    let [admin, tenant] = &mounts;
    let mds: Vec<usize> =
        (0..many.server_count()).filter(|at| many.server_name(*at).starts_with("mds")).collect();
    for (n, name) in ["admins", "tenant"].iter().enumerate() {
        let range = format!("{}@tcp", many.client_address(n));
        lctl(&many, &["nodemap_add", name]);
        lctl(&many, &["nodemap_add_range", "--name", name, "--range", &range]);
        for property in ["admin", "trusted"] {
            let words = ["--name", name, "--property", property, "--value", "1"];
            lctl(&many, &[&["nodemap_modify"][..], &words].concat());
        }
    }
    lctl(&many, &["nodemap_activate", "1"]);
    fs::create_dir(admin.join("outside")).expect("mkdir");
    fs::write(admin.join("outside/file"), "").expect("write");

    for round in 0..count {
        let tree = format!("tree{round}");
        plant(admin, &tree);
        many.unmount_client(1);
        let stop = AtomicBool::new(false);
        let fileset = format!("/{tree}");
        let realm = thread::scope(|scope| {
            let worker = scope.spawn(|| work(&admin.join(&tree), &stop));
            let words = ["nodemap_set_fileset", "--name", "tenant", "--fileset", &fileset];
            lctl(&many, &words);
            for _ in 0..rng.u32(1..=2) {
                thread::sleep(Duration::from_millis(rng.u64(0..300)));
                let mut killed = mds.clone();
                rng.shuffle(&mut killed);
                killed.truncate(rng.usize(1..=mds.len()));
                many.kill_together(&killed, &[]);
                println!("round {round}: killed {killed:?}");
                killed.iter().for_each(|at| many.start_server_again(*at));
            }
            let realm = marked(&many, &fileset);
            stop.store(true, Ordering::Relaxed);
            worker.join().expect("the worker");
            realm
        });
        let listed = lfs(admin, &["project", "-r", &tree]);
        let count = sh(admin, &format!("find {tree} | wc -l"));
        assert_eq!(listed.lines().count().to_string(), count.trim(), "{tree}");
        let foreign: Vec<&str> =
            listed.lines().filter(|line| line.split_whitespace().next() != Some(&realm)).collect();
        assert!(foreign.is_empty(), "not of realm {realm}: {foreign:?}");
        assert_eq!(lfs(admin, &["project", "-d", "."]), "    0 - .\n");
        assert_eq!(lfs(admin, &["project", "outside"]), "    0 - outside/file\n");
        // The tenant sees all of it, and nothing else.
        many.mount_client(1);
        let sees = |mount: &Path| sh(mount, "find . -printf '%P %i\\n' | sort");
        assert_eq!(sees(tenant), sees(&admin.join(&tree)), "{tree}");
        sh(tenant, "find . -type f -exec cat {} + > /dev/null");
        println!("round {round}: realm {realm}, {} inodes and names", count.trim());
    }
    let checked = many.fsck(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
    many.stop();
    let checked = many.fsck_at_rest(&[]);
    assert!(checked.status.success(), "{}", text(&checked));
}
