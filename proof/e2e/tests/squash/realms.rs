//! A client of a nodemap with a fileset that keeps to no rule reaches nothing outside of it
//! (docs/security.md, "Realms"). Each operation of the table is tried in the tests of `mds`; here
//! real servers are asked, and the mount of the same host works meanwhile.

use super::nodemap::{MAP, modify, says_nothing, tenant};
use super::tickets::on_mdt;
use bytes::Bytes;
use e2e::cluster::Cluster;
use e2e::lustre::{lfs, soon};
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use e2e::stranger::Stranger;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use types::attr::{SetAttr, WrittenAt};
use types::errno::Errno;
use types::fid::Fid;
use types::lock::InodeBits;
use types::name::Name;
use types::session::ClientUuid;
use types::target::{FsName, TargetName};
use wire::mds::{
    AskTickets, Create, CreateKind, GetLayout, GetParent, Getattr, Getxattr, Link, Lock, Lookup,
    MdsOp, MdsReply, Open, OpenFlags, Read, Readdir, Rename, Setattr, Setxattr, Store, Unlink,
    Write, Wrote,
};
use wire::message::{Op, OpReply};

const CLIENT: ClientUuid = ClientUuid(0x79);

fn mdt() -> TargetName {
    TargetName::mdt(FsName::default(), 0)
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn fid(mount: &Path, path: &str) -> Fid {
    lfs(mount, &["path2fid", path]).trim().parse().expect("a FID")
}

fn attacker(cluster: &Cluster) -> Stranger {
    let many = cluster.many();
    let address: Ipv4Addr = many.client_address(0).parse().expect("an address");
    let greet = || Stranger::greet(IpAddr::V4(address), &many.mds_address(), CLIENT.0);
    let mut stranger = many.on_client(0, greet);
    assert_eq!(stranger.session(CLIENT, mdt()).expect("an answer"), None);
    stranger
}

/// What a client may try with an inode, or with the name `secret` in it. `own`: a directory that it
/// reaches. Data is sent apart from a request, which this client does not do.
fn attacks(x: Fid, own: Fid) -> Vec<MdsOp> {
    let (data, at) = (Bytes::from_static(b"attack"), WrittenAt::Now);
    let flags = |write| OpenFlags { read: true, write, exec: false, append: false, lasting: false };
    let secret = || name("secret");
    let set = |set| MdsOp::Setattr(Setattr { fid: x, set });
    let (after, limit, bytes_max) = (None, 100, 65536);
    let xattr = || Bytes::from_static(b"user.a");
    vec![
        MdsOp::Getattr(Getattr::of(x)),
        MdsOp::GetParent(GetParent { fid: x }),
        MdsOp::Lookup(Lookup { parent: x, name: secret() }),
        MdsOp::Readdir(Readdir {
            fid: x,
            after,
            limit,
            bytes_max,
            with_attr: true,
            with_layout: true,
        }),
        set(SetAttr { mode: Some(0o777), ..SetAttr::default() }),
        set(SetAttr { size: Some(1), ..SetAttr::default() }),
        MdsOp::Open(Open { fid: x, flags: flags(false) }),
        MdsOp::Open(Open { fid: x, flags: flags(true) }),
        MdsOp::Create(Create {
            parent: x,
            name: name("planted"),
            kind: CreateKind::Regular(Some(flags(true))),
            mode: 0o644,
            umask: 0,
            exclusive: true,
        }),
        MdsOp::Rename(Rename {
            parent: x,
            name: secret(),
            new_parent: own,
            new_name: name("stolen"),
            flags: Default::default(),
        }),
        MdsOp::Link(Link { fid: x, new_parent: own, new_name: name("linked") }),
        MdsOp::Unlink(Unlink { parent: x, name: secret() }),
        MdsOp::Getxattr(Getxattr { fid: x, name: xattr() }),
        MdsOp::Setxattr(Setxattr { fid: x, name: xattr(), value: data, flags: Default::default() }),
        MdsOp::Lock(Lock { fid: x, bits: InodeBits::DATA, needs: None }),
        MdsOp::GetLayout(GetLayout { fid: x, write: true, start: 0, end: u64::MAX }),
        MdsOp::Read(Read { fid: x, offset: 0, len: 100 }),
        MdsOp::Write(Write {
            fid: x,
            offset: 0,
            data: Bytes::new(),
            at,
            kill_suidgid: false,
            keeps: false,
        }),
        MdsOp::Store(Store { fid: x, pieces: vec![(0, Bytes::new())], at }),
        MdsOp::Wrote(Wrote { fid: x, end: 1 << 20, blocks_delta: 8, at, kill_suidgid: false }),
    ]
}

#[test]
fn a_hostile_client_reaches_nothing_outside_of_its_fileset() {
    let Some(cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(&admin, "mkdir -p tenants/a/below tenants/b && echo own > tenants/a/below/file");
    on_mdt(&cluster, &admin.join("tenants/b"));
    sh(&admin, "echo hidden > tenants/b/secret && echo hidden > tenants/secret && sync");
    let own = fid(&admin, "tenants/a");
    let outside =
        ["tenants", "tenants/b", "tenants/b/secret", "tenants/secret"].map(|at| fid(&admin, at));
    // Whatever its users are, root among them, only the fileset stands before it.
    modify(&cluster, "tenant", &["admin=1", "trusted=1"]);
    soon(&true, || try_sh(&mount, "rm -f tenants/b/try; echo x > tenants/b/try").status.success());
    // What programs have written stays, though it is not stored yet.
    sh(&mount, "head -c 300000 /dev/zero > tenants/b/late && echo late > tenants/late");
    let words = ["nodemap_set_fileset", "--name", "tenant", "--fileset", "/tenants/a"];
    says_nothing(&cluster, &words);
    soon(&true, || fs::read_dir(mount.join("tenants")).is_err());
    assert_eq!(sh(&admin, "cat tenants/late && stat -c %s tenants/b/late"), "late\n300000\n");
    sh(&admin, "head -c 300000 /dev/zero | cmp - tenants/b/late");
    let within = ["nodemap_set_fileset", "--name", "admins", "--fileset", "/tenants/a/below"];
    let refused = cluster.lctl(&within);
    assert_eq!(refused.status.code(), Some(libc::EEXIST), "{}", text(&refused));
    assert!(text(&refused).contains("filesets are apart"));
    cluster.many().unmount_client(0);
    let mounted = cluster.many().try_mount_directory(0, "");
    assert!(mounted.status.success(), "{}", text(&mounted));
    let realms = || text(&cluster.lctl(&["get_param", "-n", "mdt.*.realms"]));
    soon(&true, || realms().trim_end().ends_with(" /tenants/a ready"));
    assert_eq!(sh(&mount, "cat below/file && echo more >> below/file && ls"), "own\nbelow\n");

    let state = || {
        sh(
            &admin,
            "find tenants -printf '%p %i %m %U %s %T@ %C@ %n\\n' | sort; cat tenants/b/secret \
             tenants/secret; getfattr -dR tenants",
        )
    };
    let before = state();
    let mut foe = attacker(&cluster);
    foe.locks = InodeBits::ALL;
    for x in outside {
        for attack in attacks(x, own) {
            let asked = format!("{attack:?}");
            let result = foe.result(CLIENT, mdt(), Op::Mds(attack)).0;
            assert_eq!(result.map(drop), Err(Errno::ESTALE), "{asked}");
        }
        let asked = AskTickets { fids: vec![x], of_objects: false, had: Vec::new() };
        match foe.result(CLIENT, mdt(), Op::Mds(MdsOp::AskTickets(asked))).0 {
            Ok(OpReply::Mds(MdsReply::Tickets { tickets, .. })) => {
                assert_eq!(
                    tickets.into_iter().map(|t| t.map(drop)).collect::<Vec<_>>(),
                    [Err(Errno::ESTALE)]
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(state(), before);
    // Its own tree is its own, and nothing leaves it.
    let getattr = MdsOp::Getattr(Getattr::of(own));
    assert!(foe.result(CLIENT, mdt(), Op::Mds(getattr)).0.is_ok());
    assert_eq!(sh(&admin, "cat tenants/a/below/file"), "own\nmore\n");
    assert!(!try_sh(&admin, "ln tenants/a/below/file tenants/file").status.success());
    let line = lfs(&admin, &["project", "-d", "tenants/a"]);
    assert!(
        line.trim_start().starts_with("21474836") && line.ends_with(" P tenants/a\n"),
        "{line}"
    );
    assert!(cluster.many().fsck(&[]).status.success());
}

#[test]
fn projects_are_listed_set_checked_and_taken_away() {
    let Some(cluster) = tenant(MAP) else { return };
    let admin = cluster.mounts()[1].clone();
    sh(&admin, "mkdir -p d/e && echo f > d/e/f && ln -s f d/e/l");
    let project = |args: &[&str]| lfs(&admin, &[&["project"], args].concat());
    assert_eq!(project(&["d"]), "    0 - d/e\n");
    assert_eq!(project(&["-p", "100", "-s", "-r", "d"]), "");
    let all = "  100 P d\n  100 P d/e\n  100 - d/e/f\n  100 - d/e/l\n";
    assert_eq!(project(&["-r", "d"]), all);
    sh(&admin, "mkdir d/new && echo g > d/new/g");
    assert_eq!(project(&["d/new"]), "  100 - d/new/g\n");
    assert_eq!(project(&["-d", "d", "d/e/f"]), "  100 P d\n  100 - d/e/f\n");
    let found = lfs(&admin, &["find", "d", "-projid", "100", "-type", "f"]);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["d/e/f", "d/new/g"]);
    assert_eq!(project(&["-C", "-k", "d/e"]), "");
    assert_eq!(project(&["-p", "7", "d/new/g"]), "");
    let said = project(&["-c", "-r", "d"]);
    let expected = "d/e - project ID is not inherited\nd/new/g - project ID is 7, not 100\n";
    assert_eq!(said, expected);
    assert_eq!(project(&["-c", "-r", "-0", "-p", "100", "d"]), "d/e\0d/new/g\0");
    assert_eq!(project(&["-C", "-r", "d"]), "");
    assert!(project(&["-r", "d"]).lines().all(|line| line.starts_with("    0 - ")));
    sh(&admin, "touch x && mkdir p q");
    project(&["-p", "5", "-s", "p"]);
    sh(&admin, "mv x p/ && test -e p/x");
    assert_eq!(project(&["p"]), "    5 - p/x\n", "mv(1) has copied it");
    let refused = try_sh(&cluster.mount(), "setfattr -n lustre.project -v 9 q");
    assert!(!refused.status.success());
    assert_eq!(project(&["-d", "q"]), "    0 - q\n");
}
