//! Squash: root of a client, or all of its users, act as others. The judge is the ordinary file
//! system: there the same operations run as the ids that they act as.

mod beside;
mod cells;
mod cost;
mod nodemap;
mod read_only;
mod realms;
mod script;
mod tickets;

use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, soon};
use e2e::process::text;
use e2e::programs::{assert_same, sh, try_sh};
use e2e::stranger::Stranger;
use script::{Ids, outcome, prepare, run};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use types::attr::SetAttr;
use types::errno::Errno;
use types::fid::Fid;
use types::name::Name;
use types::session::ClientUuid;
use types::target::TargetName;
use wire::mds::{Getattr, Lookup, MdsOp, MdsReply, Open, OpenFlags, Readdir, Setattr};
use wire::message::{Op, OpReply};

const ROOT: Ids = Ids { uid: 0, gid: 0 };
const NOBODY: Ids = Ids { uid: 65_534, gid: 65_533 };
const GUEST: Ids = Ids { uid: 500, gid: 501 };
const USER: Ids = Ids { uid: 1000, gid: 1001 };

/// The child of [`script::run`]; by itself, without a tree in its environment, it has nothing to
/// do.
#[test]
fn the_caller() {
    script::script();
}

/// The child of [`cells`].
#[test]
fn the_caller_of_cells() {
    cells::script();
}

/// A cluster whose first client is squashed as `param` says, while its second, an administrator's,
/// is not.
fn squashed(param: &str, ids: Ids, options: &[&str]) -> Option<Cluster> {
    if !e2e::can_mount() || e2e::need_program("setpriv").is_none() {
        return None;
    }
    let cluster = Cluster::with_clients("1", options)?;
    set(&cluster, param, ids);
    Some(cluster)
}

/// Sets it for good, spares the second client, and waits until the first knows.
fn set(cluster: &Cluster, param: &str, Ids { uid, gid }: Ids) {
    let spared = format!("mdt.*.nosquash_nids={}@tcp", cluster.many().client_address(1));
    assert_eq!(lctl_says(cluster, &["set_param", "-P", &spared]), "");
    assert_eq!(lctl_says(cluster, &["set_param", "-P", &format!("mdt.*.{param}={uid}:{gid}")]), "");
    acting(cluster, param, Ids { uid, gid });
}

/// Waits until the first client acts as these, and the second as itself.
fn acting(cluster: &Cluster, param: &str, Ids { uid, gid }: Ids) {
    soon(&true, || {
        let shown = lctl(cluster, &["get_param", "-n", &format!("llite.*.{param}")]);
        let mut shown: Vec<&str> = shown.lines().collect();
        shown.sort_unstable();
        let mut expected = ["0:0".to_owned(), format!("{uid}:{gid}")];
        expected.sort_unstable();
        shown == expected
    });
}

/// Runs the script on the first client's mount as `claimed`, and outside as `acts`.
fn compare(cluster: &Cluster, what: &str, claimed: Ids, acts: Ids) {
    let mounts = cluster.mounts();
    let (here, there) = (mounts[0].join(what), cluster.outside().join(what));
    // The administrator's client makes the tree, and looks at what became of it.
    prepare(&mounts[1].join(what), acts);
    prepare(&there, acts);
    let on_mount = run(&here, &claimed.into(), None);
    let outside = run(&there, &acts.into(), None);
    assert!(outside.lines().count() > 1500, "the script ran: {outside}");
    assert_same(&format!("{what}: what each operation said"), &on_mount, &outside);
    assert_same(
        &format!("{what}: what became of the files"),
        &outcome(&mounts[1].join(what)),
        &outcome(&there),
    );
}

#[test]
fn a_squashed_root_may_what_the_user_may_that_it_acts_as() {
    let Some(cluster) = squashed("root_squash", NOBODY, &["", ""]) else { return };
    compare(&cluster, "root", ROOT, NOBODY);
    compare(&cluster, "user", USER, USER);
    // The same caller at a client that is spared.
    let spared = format!("mdt.*.nosquash_nids={}@tcp 0@lo", cluster.many().client_address(0));
    lctl_says(&cluster, &["set_param", "-P", &spared]);
    let acts = || lctl(&cluster, &["get_param", "-n", "llite.*.root_squash"]);
    soon(&2, || acts().lines().count());
    soon(&true, || {
        let path = cluster.mount().join("chowned");
        fs::write(&path, "x").is_ok() && std::os::unix::fs::chown(&path, Some(7), Some(7)).is_ok()
    });
    lctl_says(&cluster, &["set_param", "-P", "mdt.*.nosquash_nids=*@tcp"]);
    soon(&"0:0\n0:0\n".to_owned(), acts);
    compare(&cluster, "spared", ROOT, ROOT);
    assert!(cluster.many().fsck(&[]).status.success());
}

#[test]
fn where_all_are_squashed_root_is_too() {
    let Some(cluster) = squashed("all_squash", GUEST, &["", ""]) else { return };
    compare(&cluster, "all", ROOT, GUEST);
    // Root's own word counts more.
    set(&cluster, "root_squash", NOBODY);
    fs::write(cluster.mount().join("all/open/of root"), "x").expect("anybody may");
    let made = fs::metadata(cluster.mount().join("all/open/of root")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (NOBODY.uid, NOBODY.gid));
}

/// What the mount and its kernel have cached for others is not root's.
#[test]
fn what_others_have_cached_is_checked() {
    let Some(cluster) = squashed("root_squash", NOBODY, &["", ""]) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(
        &admin,
        "mkdir private && echo secret > private/file && chmod 600 private/file && chmod 700 private",
    );
    sh(&admin, "chown -R 1000:1001 private");
    let user = format!(
        "setpriv --reuid 1000 --regid 1001 --clear-groups sh -c 'cd {} && {{}}'",
        mount.display()
    );
    let as_user = |script: &str| sh(Path::new("/"), &user.replace("{}", script));
    for _ in 0..3 {
        assert_eq!(as_user("ls private && cat private/file"), "file\nsecret\n");
    }
    for _ in 0..3 {
        for script in
            ["ls private", "cat private/file", "echo x > private/file", "cat private/absent"]
        {
            let refused = try_sh(&mount, script);
            assert!(text(&refused).contains("Permission denied"), "{script}: {}", text(&refused));
        }
        assert_eq!(as_user("ls private && cat private/file"), "file\nsecret\n");
    }
    // An open file stays open for its holder.
    sh(&admin, "mkdir -m 777 open");
    sh(
        &mount.join("open"),
        "echo mine > of_root && exec 3< of_root && chmod 000 of_root && cat <&3",
    );
}

#[test]
fn it_holds_at_once_and_after_restarts_until_it_is_taken_back() {
    let Some(mut cluster) = squashed("root_squash", NOBODY, &["", ""]) else { return };
    let mount = cluster.mount();
    let chown = |name: &str| {
        let path = mount.join(name);
        fs::write(&path, "x").expect("the root directory is writable");
        std::os::unix::fs::chown(&path, Some(5), None).map_err(|error| error.raw_os_error())
    };
    let admin = cluster.mounts()[1].clone();
    sh(&admin, "chmod 777 .");
    assert_eq!(chown("a"), Err(Some(libc::EPERM)));
    let made = fs::metadata(mount.join("a")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (NOBODY.uid, NOBODY.gid));
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.root_squash"]), "65534:65533\n");
    // The MDS restarts: what it keeps holds before the first request.
    let mds = (0..cluster.many().server_count())
        .find(|at| cluster.many().server_name(*at) == "mds")
        .expect("an MDS");
    for round in 0..3 {
        cluster.many_mut().kill_server(mds);
        cluster.many_mut().start_server_again(mds);
        assert_eq!(chown(&format!("b{round}")), Err(Some(libc::EPERM)));
    }
    // So does the client.
    cluster.many().unmount_client(0);
    cluster.many().mount_client(0);
    assert_eq!(
        lctl(&cluster, &["get_param", "-n", "llite.*.root_squash"]).matches("65534:65533").count(),
        1
    );
    assert_eq!(chown("c"), Err(Some(libc::EPERM)));
    // Taken back.
    assert_eq!(lctl_says(&cluster, &["conf_param", "sheen.mdt.root_squash=0:0"]), "");
    soon(&Ok(()), || chown("a"));
    soon(&"0:0\n0:0\n".to_owned(), || lctl(&cluster, &["get_param", "-n", "llite.*.root_squash"]));
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.root_squash"]), "0:0\n");
    // For a while only.
    assert!(cluster.lctl(&["set_param", "mdt.*.root_squash=65534:65533"]).status.success());
    acting(&cluster, "root_squash", NOBODY);
    assert_eq!(chown("d"), Err(Some(libc::EPERM)));
}

#[test]
fn values_that_are_none_are_refused() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.root_squash"]), "0:0\n");
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.nosquash_nids"]), "NONE\n");
    for value in ["root_squash=0:99", "root_squash=99", "all_squash=99:0", "nosquash_nids=10.0.0.1"]
    {
        for args in [vec!["set_param"], vec!["set_param", "-P"]] {
            let value = format!("mdt.*.{value}");
            let args: Vec<&str> = args.into_iter().chain([&*value]).collect();
            let output = cluster.lctl(&args);
            assert_eq!(output.status.code(), Some(libc::EINVAL), "{args:?}: {}", text(&output));
        }
    }
    let list = "10.0.[2-10].[1-255]@tcp *@tcp";
    assert!(cluster.lctl(&["set_param", &format!("mdt.*.nosquash_nids={list}")]).status.success());
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.nosquash_nids"]), format!("{list}\n"));
    assert!(cluster.lctl(&["set_param", "mdt.*.nosquash_nids=clear"]).status.success());
    assert_eq!(lctl(&cluster, &["get_param", "-n", "mdt.*.nosquash_nids"]), "NONE\n");
    // Mounts of the servers' own process are never squashed.
    assert!(cluster.lctl(&["set_param", "mdt.*.root_squash=99:99"]).status.success());
    fs::write(cluster.mount().join("f"), "x").expect("root may");
    std::os::unix::fs::chown(cluster.mount().join("f"), Some(5), Some(6)).expect("root may");
}

/// A mount whose kernel opens files without a message would open for root without a check.
#[test]
fn a_squashed_mount_sees_opens() {
    let Some(cluster) = squashed("root_squash", NOBODY, &["localflock", ""]) else { return };
    cluster.many().unmount_client(0);
    cluster.many().mount_client(0);
    let said = "so opens are seen: mounted with flock";
    assert!(cluster.many().log_of_client(0).contains(said), "{}", cluster.many().log_of_client(0));
    sh(&cluster.mounts()[1], "echo secret > secret && chmod 600 secret");
    let refused = try_sh(&cluster.mount(), "cat secret");
    assert!(text(&refused).contains("Permission denied"), "{}", text(&refused));
}

/// A client that says it is root, whatever it was told.
#[test]
fn a_client_that_lies_is_squashed() {
    let Some(cluster) = squashed("root_squash", NOBODY, &["", ""]) else { return };
    sh(
        &cluster.mounts()[1],
        "chmod 777 . && echo secret > secret && chmod 600 secret && mkdir -m 700 closed closed/in",
    );
    let many = cluster.many();
    let address: Ipv4Addr = many.client_address(0).parse().expect("an address");
    let (client, target) = (ClientUuid(77), TargetName::mdt("sheen".parse().expect("a name"), 0));
    let (secret, closed) = many.on_client(0, || {
        let mut liar = Stranger::greet(IpAddr::V4(address), &many.mds_address(), 7);
        assert_eq!(liar.session(client, target).expect("an answer"), None);
        let mut ask = |op: MdsOp| match liar.result(client, target, Op::Mds(op)).0 {
            Ok(OpReply::Mds(reply)) => Ok(reply),
            Ok(other) => panic!("{other:?}"),
            Err(errno) => Err(errno),
        };
        let find = |ask: &mut dyn FnMut(MdsOp) -> Result<MdsReply, Errno>, parent, name: &str| {
            let name = Name::new(name.as_bytes()).expect("a name");
            ask(MdsOp::Lookup(Lookup { parent, name })).map(|reply| match reply {
                MdsReply::Entry(entry) => entry.attr.fid,
                other => panic!("{other:?}"),
            })
        };
        let secret = find(&mut ask, Fid::ROOT, "secret").expect("the root directory is open");
        let closed = find(&mut ask, Fid::ROOT, "closed").expect("the root directory is open");
        assert_eq!(find(&mut ask, closed, "in"), Err(Errno::EACCES));
        let flags =
            OpenFlags { read: true, write: false, exec: false, append: false, lasting: false };
        assert_eq!(ask(MdsOp::Open(Open { fid: secret, flags })), Err(Errno::EACCES));
        let set = |set| MdsOp::Setattr(Setattr { fid: secret, set });
        assert_eq!(ask(set(SetAttr { uid: Some(0), ..SetAttr::default() })), Err(Errno::EPERM));
        assert_eq!(
            ask(set(SetAttr { mode: Some(0o777), ..SetAttr::default() })),
            Err(Errno::EPERM)
        );
        assert_eq!(ask(set(SetAttr { size: Some(0), ..SetAttr::default() })), Err(Errno::ENOKEY));
        let list = Readdir {
            fid: closed,
            after: None,
            limit: 10,
            bytes_max: 1 << 16,
            with_attr: true,
            with_layout: true,
        };
        assert_eq!(ask(MdsOp::Readdir(list)), Err(Errno::EACCES));
        // What it makes is not root's.
        let Op::Mds(make) = e2e::stranger::make_directory("made") else {
            panic!("an operation of an MDT")
        };
        assert!(ask(make).is_ok());
        (secret, closed)
    });
    assert_ne!(secret, closed);
    let made = fs::metadata(cluster.mount().join("made")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (NOBODY.uid, NOBODY.gid));
    // The same process at the address of a client that is spared.
    let spared: Ipv4Addr = many.client_address(1).parse().expect("an address");
    many.on_client(1, || {
        let client = ClientUuid(78);
        let mut true_root = Stranger::greet(IpAddr::V4(spared), &many.mds_address(), 8);
        assert_eq!(true_root.session(client, target).expect("an answer"), None);
        let getattr = Op::Mds(MdsOp::Getattr(Getattr::of(secret)));
        assert!(true_root.result(client, target, getattr).0.is_ok());
        let set = SetAttr { mode: Some(0o640), ..SetAttr::default() };
        let set = Op::Mds(MdsOp::Setattr(Setattr { fid: secret, set }));
        assert!(true_root.result(client, target, set).0.is_ok());
    });
}
