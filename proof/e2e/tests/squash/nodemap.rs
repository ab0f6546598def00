//! Nodemaps: the callers of a client, in each state of its nodemap, against the ordinary file
//! system run as the ids that they are.

use super::script::{Caller, IdMap, Ids, outcome, prepare, run};
use super::{NOBODY, ROOT};
use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, soon};
use e2e::process::text;
use e2e::programs::{assert_same, sh, try_sh};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

/// A user and a group that the id maps know, and what they are in the file system.
pub(super) const USER: Ids = Ids { uid: 1000, gid: 1001 };
pub(super) const USER_IS: Ids = Ids { uid: 5000, gid: 5001 };
/// Ids that they do not know.
const UNKNOWN: Ids = Ids { uid: 7000, gid: 7001 };
/// The maps, the same of users and of groups.
pub(super) const MAP: &IdMap =
    &[(1000, 5000), (1001, 5001), (1002, 5002), (4243, 9243), (4244, 9244), (4245, 9245)];
/// The ids as which squashed callers act.
pub(super) const SQUASH: Ids = Ids { uid: 65_532, gid: 65_532 };

/// A cluster whose first client is in the nodemap `tenant`, and whose second, an administrator's,
/// in the nodemap `admins`.
pub(super) fn tenant(map: &IdMap) -> Option<Cluster> {
    tenant_among(map, 2)
}

/// The same with so many clients; all but the first are administrators'.
pub(super) fn tenant_among(map: &IdMap, clients: usize) -> Option<Cluster> {
    if !e2e::can_mount() || e2e::need_program("setpriv").is_none() {
        return None;
    }
    let cluster = Cluster::with_clients("1", &vec![""; clients])?;
    let range = |n: usize| format!("{}@tcp", cluster.many().client_address(n));
    for words in [
        vec!["nodemap_add", "tenant"],
        vec!["nodemap_add", "admins"],
        vec!["nodemap_add_range", "--name", "tenant", "--range", &range(0)],
    ] {
        says_nothing(&cluster, &words);
    }
    for n in 1..clients {
        says_nothing(&cluster, &["nodemap_add_range", "--name", "admins", "--range", &range(n)]);
    }
    modify(&cluster, "admins", &["admin=1", "trusted=1"]);
    modify(&cluster, "tenant", &["squash_uid=65532", "squash_gid=65532"]);
    for (client, fs) in map {
        for kind in ["uid", "gid"] {
            let pair = format!("{client}:{fs}");
            let words =
                ["nodemap_add_idmap", "--name", "tenant", "--idtype", kind, "--idmap", &pair];
            says_nothing(&cluster, &words);
        }
    }
    says_nothing(&cluster, &["nodemap_activate", "1"]);
    acting(&cluster, "65532:65532");
    Some(cluster)
}

pub(super) fn says_nothing(cluster: &Cluster, words: &[&str]) {
    assert_eq!(lctl_says(cluster, words), "", "{words:?}");
}

pub(super) fn modify(cluster: &Cluster, name: &str, properties: &[&str]) {
    for property in properties {
        let (property, value) = property.split_once('=').expect("PROPERTY=VALUE");
        let words = ["--name", name, "--property", property, "--value", value];
        says_nothing(cluster, &[&["nodemap_modify"][..], &words].concat());
    }
}

/// Waits until root of the first client acts so, and that of the others as itself.
pub(super) fn acting(cluster: &Cluster, root: &str) {
    let mut expected = vec!["0:0"; cluster.mounts().len() - 1];
    expected.push(root);
    expected.sort_unstable();
    soon(&true, || {
        let shown = lctl(cluster, &["get_param", "-n", "llite.*.root_squash"]);
        let mut shown: Vec<&str> = shown.lines().collect();
        shown.sort_unstable();
        shown == expected
    });
}

/// Runs the script on the first client's mount as `claimed`, and outside as `acts`.
fn compare(cluster: &Cluster, what: &str, claimed: Caller, acts: Caller, map: &IdMap) -> usize {
    let mounts = cluster.mounts();
    let (here, there) = (mounts[0].join(what), cluster.outside().join(what));
    // What belongs to its group is that of the supplementary one, if it has one.
    let owner = Ids { gid: acts.groups.first().copied().unwrap_or(acts.ids.gid), ..acts.ids };
    prepare(&mounts[1].join(what), owner);
    prepare(&there, owner);
    let on_mount = run(&here, &claimed, None);
    let map = (!map.is_empty()).then_some((map, SQUASH.uid));
    let outside = run(&there, &acts, map);
    let cells = outside.lines().count();
    assert!(cells > 1500, "the script ran: {outside}");
    assert_same(&format!("{what}: what each operation said"), &on_mount, &outside);
    let judged = "what became of the files";
    assert_same(&format!("{what}: {judged}"), &outcome(&mounts[1].join(what)), &outcome(&there));
    cells
}

pub(super) fn caller(ids: Ids, groups: &[u32]) -> Caller {
    Caller { ids, groups: groups.to_vec() }
}

/// Each kind of caller, in the states in which something else becomes of it: some 1,500 operations
/// each. (Its own kernel refuses another squashed user more than the MDT would.)
#[test]
fn callers_may_what_the_ids_may_that_they_are() {
    let Some(cluster) = tenant(MAP) else { return };
    let mut cells = 0;
    let mut row = |what: &str, claimed: Caller, acts: Caller, map: &IdMap| {
        cells += compare(&cluster, what, claimed, acts, map);
    };
    // Ids are mapped, and root is squashed.
    row("known", caller(USER, &[]), caller(USER_IS, &[]), MAP);
    let by_group = Ids { uid: 1002, gid: 1002 };
    row("group", caller(by_group, &[1001]), caller(Ids { uid: 5002, gid: 5002 }, &[5001]), MAP);
    row("root", caller(ROOT, &[]), caller(SQUASH, &[]), MAP);
    // Root is root.
    modify(&cluster, "tenant", &["admin=1"]);
    acting(&cluster, "0:0");
    row("admin", caller(ROOT, &[]), caller(ROOT, &[]), &[MAP, &[(0, 0)]].concat());
    // Ids are the same on both sides; then root is squashed, too.
    modify(&cluster, "tenant", &["trusted=1"]);
    soon(&(USER_IS.uid, USER_IS.gid), || owners(&cluster.mounts()[0].join("known/mine")));
    row("trusted", caller(UNKNOWN, &[1001]), caller(UNKNOWN, &[1001]), &[]);
    modify(&cluster, "tenant", &["admin=0"]);
    acting(&cluster, "65532:65532");
    row("trusted_root", caller(ROOT, &[]), caller(SQUASH, &[]), &[]);
    // Nodemaps hold no longer.
    says_nothing(&cluster, &["nodemap_activate", "0"]);
    acting(&cluster, "0:0");
    row("inactive", caller(ROOT, &[]), caller(ROOT, &[]), &[]);
    eprintln!("{cells} cells are equal");
    assert!(cluster.many().fsck(&[]).status.success());
}

pub(super) fn owners(path: &Path) -> (u32, u32) {
    let about = fs::symlink_metadata(path).expect("it is there");
    (about.uid(), about.gid())
}

/// What a mount and its kernel have cached is shown anew when the map changes.
#[test]
fn a_changed_map_is_seen_at_once() {
    let Some(cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(&admin, "chmod 777 . && mkdir d && chown 5000:5001 d && echo x > d/f && chown 5002:77 d/f");
    let foreign = u32::MAX - 1;
    for _ in 0..3 {
        assert_eq!(owners(&mount.join("d")), (1000, 1001));
        assert_eq!(owners(&mount.join("d/f")), (1002, foreign));
    }
    let idmap = |command: &str, kind: &str, pair: &str| {
        let words = [command, "--name", "tenant", "--idtype", kind, "--idmap", pair];
        says_nothing(&cluster, &words);
    };
    idmap("nodemap_del_idmap", "uid", "1002:5002");
    idmap("nodemap_add_idmap", "gid", "70-79:70");
    let changed = Instant::now();
    soon(&(foreign, 77), || owners(&mount.join("d/f")));
    assert!(changed.elapsed() < Duration::from_secs(5), "{:?}", changed.elapsed());
    // What is new belongs to its maker.
    let user =
        format!("setpriv --reuid 1000 --regid 1001 --clear-groups sh -c 'cd {}", mount.display());
    sh(Path::new("/"), &format!("{user} && echo new > new'"));
    assert_eq!(
        (owners(&mount.join("new")), owners(&admin.join("new"))),
        ((1000, 1001), (5000, 5001))
    );
    // An ACL cannot name ids that are not known: another would get what they were to get. Of one
    // that is known it names what that is.
    let refused = try_sh(Path::new("/"), &format!("{user} && setfacl -m u:1002:r new'"));
    let said = text(&refused);
    assert!(said.contains("Invalid argument"), "an ACL with an unknown id: {said}");
    sh(Path::new("/"), &format!("{user} && setfacl -m u:1001:r,u:4243:rw new'"));
    let [shown, kept] = [&mount, &admin].map(|at| sh(at, "getfacl -cn new | grep -o ^user:.*:r.*"));
    assert_eq!(shown, "user::rw-\nuser:1001:r--\nuser:4243:rw-\n");
    assert_eq!(kept, "user::rw-\nuser:5001:r--\nuser:9243:rw-\n");
    // Both are kept over a restart of the servers.
    let shown = lctl(&cluster, &["nodemap_info", "all"]);
    assert!(shown.contains("{ idtype: gid, client_id: 70-79, fs_id: 70-79 }"), "{shown}");
    let mut cluster = cluster;
    for name in ["mgs", "mds"] {
        let many = cluster.many_mut();
        let at = (0..many.server_count()).find(|at| many.server_name(*at) == name).expect("it");
        many.kill_server(at);
        many.start_server_again(at);
    }
    assert_eq!(owners(&mount.join("d/f")), (foreign, 77));
    assert_eq!(lctl(&cluster, &["nodemap_info", "all"]), shown);
    assert_eq!(
        chown(mount.join("new"), Some(1000), None).map_err(|e| e.raw_os_error()),
        Err(Some(libc::EPERM))
    );
}

#[test]
fn unknown_users_are_refused_where_that_is_wished() {
    let Some(cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(&admin, "chmod 777 . && mkdir -m 777 open && echo all > open/f && chmod 666 open/f");
    sh(&mount, "ls open && cat open/f");
    modify(&cluster, "tenant", &["deny_unknown=1"]);
    soon(&true, || fs::read_dir(mount.join("open")).is_err());
    for script in
        ["ls open", "cat open/f", "echo x > open/f", "echo x > new", "rm open/f", "ls -l open/f"]
    {
        let refused = try_sh(&mount, script);
        assert!(text(&refused).contains("Permission denied"), "{script}: {}", text(&refused));
    }
    let user =
        format!("setpriv --reuid 1000 --regid 1001 --clear-groups sh -c 'cd {}", mount.display());
    sh(Path::new("/"), &format!("{user} && ls open && cat open/f && echo mine > mine && rm mine'"));
    // The nodemap of the others.
    says_nothing(&cluster, &["nodemap_del", "tenant"]);
    acting(&cluster, "65534:65534");
    sh(&mount, "echo x > new");
    let made = fs::metadata(admin.join("new")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (NOBODY.uid, 65_534));
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let refused = |words: &[&str], errno: i32, sentence: &str| {
        let output = cluster.lctl(words);
        assert_eq!(output.status.code(), Some(errno), "{words:?}: {}", text(&output));
        assert!(text(&output).contains(sentence), "{words:?}: {}", text(&output));
    };
    assert_eq!(lctl(&cluster, &["nodemap_info"]), "default\n");
    says_nothing(&cluster, &["nodemap_add", "a"]);
    says_nothing(&cluster, &["nodemap_add_range", "--name", "a", "--range", "10.0.0.*@tcp"]);
    says_nothing(&cluster, &["nodemap_add_range", "--name", "a", "--range", "node7@key"]);
    refused(&["nodemap_add", "a"], libc::EEXIST, "there is a nodemap a already");
    refused(&["nodemap_del", "default"], libc::EINVAL, "that of all clients");
    let range = ["nodemap_add_range", "--name", "default", "--range", "10.1.0.0/16@tcp"];
    refused(&range, libc::EINVAL, "has no ranges");
    says_nothing(&cluster, &["nodemap_add", "b"]);
    let range = ["nodemap_add_range", "--name", "b", "--range", "10.0.0.0/8@tcp"];
    refused(&range, libc::EEXIST, "overlaps 10.0.0.*@tcp of the nodemap a");
    let range = ["nodemap_add_range", "--name", "b", "--range", "10.0.0.9"];
    refused(&range, libc::EINVAL, "write ADDRESS@tcp");
    let modify = ["nodemap_modify", "--name", "b", "--property", "rbac", "--value", "all"];
    refused(&modify, libc::EOPNOTSUPP, "does not exist here");
    let modify = ["nodemap_modify", "--name", "b", "--property", "squash_uid", "--value", "0"];
    refused(&modify, libc::EINVAL, "a number from 1");
    let idmap = ["nodemap_add_idmap", "--name", "b", "--idtype", "uid", "--idmap", "0:5"];
    refused(&idmap, libc::EINVAL, "the property admin says what root may");
    let idmap = ["nodemap_add_idmap", "--name", "b", "--idtype", "projid", "--idmap", "1:5"];
    refused(&idmap, libc::EOPNOTSUPP, "project ids are the same");
    assert_eq!(lctl(&cluster, &["nodemap_info", "list"]), "a\nb\ndefault\n");
    assert_eq!(lctl(&cluster, &["nodemap_test_nid", "10.0.0.7@tcp"]), "a\n");
    assert_eq!(lctl(&cluster, &["nodemap_test_nid", "node7@key"]), "a\n");
    assert_eq!(lctl(&cluster, &["nodemap_test_nid", "10.0.1.7@tcp"]), "default\n");
    let id = ["nodemap_test_id", "--nid", "10.0.0.7@tcp", "--idtype", "uid", "--id", "1000"];
    assert_eq!(lctl(&cluster, &id), "1000\n");
    says_nothing(&cluster, &["nodemap_activate"]);
    assert_eq!(lctl(&cluster, &id), "65534\n");
    // Mounts of the servers' own process are never changed.
    fs::write(cluster.mount().join("f"), "x").expect("root may");
    chown(cluster.mount().join("f"), Some(5), Some(6)).expect("root may");
}
