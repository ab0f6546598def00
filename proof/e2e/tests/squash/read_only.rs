//! Nodemaps whose clients change nothing, and nodemaps whose clients' changes are written down.

use super::nodemap::{MAP, modify, tenant};
use e2e::cluster::Cluster;
use e2e::lustre::{lctl, soon};
use e2e::process::text;
use e2e::programs::{sh, try_sh};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

fn options_of(mount: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let at = mount.display().to_string();
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(&at)).expect("a mount");
    line.split(' ').nth(3).expect("options").to_owned()
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn clients_of_a_read_only_nodemap_change_nothing() {
    let Some(mut cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    modify(&cluster, "tenant", &["admin=1", "trusted=1"]);
    soon(&true, || {
        try_sh(&mount, "mkdir -p d && echo first > d/f && ln -sf f d/l").status.success()
    });
    let mut held = OpenOptions::new().append(true).open(mount.join("d/f")).expect("open");
    held.write_all(b"before\n").expect("write");
    modify(&cluster, "tenant", &["readonly_mount=1"]);
    soon(&Some(libc::EROFS), || errno(fs::create_dir(mount.join("new"))));
    let changes = [
        "mkdir d/e",
        "touch d/new",
        "rm d/f",
        "rmdir d",
        "mv d/f d/g",
        "ln d/f d/h",
        "ln -s f d/s",
        "mknod d/p p",
        "chmod 600 d/f",
        "chown 5 d/f",
        "touch -d 2000-01-01 d/f",
        "truncate -s 0 d/f",
        "truncate -s 1M d/f",
        "echo x > d/f",
        "echo x >> d/f",
        "setfattr -n user.a -v b d/f",
    ];
    let refuse = |changes: &[&str]| {
        for change in changes {
            let refused = try_sh(&mount, change);
            assert!(!refused.status.success(), "{change}");
            assert!(
                text(&refused).contains("Read-only file system"),
                "{change}: {}",
                text(&refused)
            );
        }
    };
    refuse(&changes);
    // What was open for writing may be written until it is closed, and nothing of it is lost.
    held.write_all(b"after\n").expect("write");
    held.sync_all().expect("sync");
    drop(held);
    let whole = "first\nbefore\nafter\n";
    assert_eq!(fs::read_to_string(admin.join("d/f")).expect("read"), whole);
    assert_eq!(errno(OpenOptions::new().append(true).open(mount.join("d/f"))), Some(libc::EROFS));
    // What changes nothing works, and others are not concerned.
    sh(&mount, "ls -l d && cat d/f d/l && flock -s d/f true && stat -f . && getfattr -d d/f");
    sh(&admin, "echo more >> d/f && mkdir d/e && rmdir d/e");
    assert_eq!(fs::read_to_string(mount.join("d/f")).expect("read"), format!("{whole}more\n"));
    // A restarted MDT knows it before its first request.
    {
        let many = cluster.many_mut();
        let at = (0..many.server_count()).find(|at| many.server_name(*at) == "mds").expect("it");
        many.kill_server(at);
        many.start_server_again(at);
    }
    refuse(&changes[..3]);
    assert!(options_of(&mount).starts_with("rw"), "as it was mounted");
    // A mount that is made now says so.
    cluster.many().unmount_client(0);
    cluster.many().mount_client(0);
    assert!(options_of(&mount).starts_with("ro"), "{}", options_of(&mount));
    let log = cluster.many().log_of_client(0);
    assert!(log.contains("readonly_mount"), "{log}");
    refuse(&changes);
    sh(&mount, "cat d/f");
    modify(&cluster, "tenant", &["readonly_mount=0"]);
    cluster.many().unmount_client(0);
    cluster.many().mount_client(0);
    assert!(options_of(&mount).starts_with("rw"), "{}", options_of(&mount));
    soon(&true, || try_sh(&mount, "touch d/new").status.success());
    assert!(cluster.many().fsck(&[]).status.success());
}

/// The lines of the audit, newest last.
fn audit(cluster: &Cluster) -> Vec<serde_json::Value> {
    let shown = lctl(cluster, &["get_param", "-n", "mdt.*.audit"]);
    shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn changes_and_refusals_of_audited_clients_are_written_down() {
    let Some(cluster) = tenant(MAP) else { return };
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(&admin, "chmod 777 .");
    let user = |script: &str| {
        let at = mount.display();
        let run = "setpriv --reuid 1000 --regid 1001 --clear-groups";
        try_sh(Path::new("/"), &format!("{run} sh -c 'cd {at} && {script}'"))
    };
    assert!(user("mkdir unseen").status.success());
    assert!(audit(&cluster).is_empty(), "nobody asked for it");
    modify(&cluster, "tenant", &["audit_mode=1"]);
    soon(&true, || {
        assert!(user("mkdir a && rmdir a").status.success());
        audit(&cluster).iter().any(|line| line["operation"] == "mds_create")
    });
    let made = "mkdir \"new dir\" && mv \"new dir\" moved && echo x > moved/f && cat moved/f";
    assert!(user(made).status.success());
    // Its kernel lets root, which is squashed: the MDT does not.
    assert!(!try_sh(&mount, "rm -f moved/f").status.success());
    sh(&admin, "mkdir of-admin");
    let has = |operation: &str, name: &str, result: &str| {
        audit(&cluster).into_iter().find(|line| {
            line["operation"] == operation
                && (name.is_empty() || line["name"] == name)
                && line["result"] == result
        })
    };
    // A thread of its own writes the lines.
    soon(&true, || has("mds_unlink", "f", "EACCES").is_some());
    let line = has("mds_create", "new dir", "done").expect("the directory");
    let address = cluster.many().client_address(0);
    assert!(line["nid"].as_str().is_some_and(|nid| nid.starts_with(&address)), "{line}");
    assert_eq!((&line["uid"], &line["gid"]), (&1000.into(), &1001.into()));
    assert_eq!((&line["acts_uid"], &line["acts_gid"]), (&5000.into(), &5001.into()));
    assert_eq!(line["target"], "sheen-MDT0000");
    assert_eq!(line["found"].as_str().map(|fid| fid.starts_with("[0x")), Some(true));
    let moved = has("mds_rename", "new dir", "done").expect("the move");
    assert_eq!(moved["to_name"], "moved");
    let refused = has("mds_unlink", "f", "EACCES").expect("the refusal");
    assert_eq!(refused["acts_uid"], 65_532);
    assert!(
        has("mds_create", "of-admin", "done").is_none()
            && has("mds_create", "unseen", "done").is_none()
    );
    assert!(
        audit(&cluster)
            .iter()
            .all(|line| line["operation"] != "mds_lookup" || line["result"] != "done")
    );
    // The file has the same lines.
    let mut files = Vec::new();
    find(&cluster.dir(), "audit.log", &mut files);
    let [file] = &files[..] else { panic!("one process has an MDT: {files:?}") };
    let written = || fs::read_to_string(file).expect("the file").lines().count();
    soon(&audit(&cluster).len(), written);
}

fn find(dir: &Path, name: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(&path, name, found),
            _ if path.file_name().is_some_and(|last| last == name) => found.push(path),
            _ => {}
        }
    }
}
