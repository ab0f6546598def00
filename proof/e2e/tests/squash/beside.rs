//! Random operations of a tenant in its fileset, and of an administrator beside it in the same
//! directory of the whole: every answer to both must fit one order. `TENANT_SECONDS=3600` is an
//! hour of it.

use super::nodemap::{modify, says_nothing, tenant};
use e2e::cluster::Cluster;
use e2e::lustre::soon;
use e2e::process::text;
use e2e::programs::sh;
use oracle::run::{Plan, Report, run};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Threads, half of them the tenant's.
const THREADS: usize = 8;
/// A round.
const ROUND: Duration = Duration::from_secs(10);
/// What the tenant must not see.
const OUTSIDE: &str = "find tenants -path tenants/own -prune -o -printf '%p %i %m %U %s %T@ %n\\n' \
                       | sort; cat tenants/other/secret";

fn seconds() -> u64 {
    let said = std::env::var("TENANT_SECONDS").ok();
    said.map_or(e2e::sized(20, 60), |text| text.parse().expect("TENANT_SECONDS is a number"))
}

fn judged(mounts: Vec<PathBuf>, folder: &str, time: Duration) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = now.as_millis() as u64;
    let (folder, round) = (folder.to_owned(), ROUND.min(time));
    let (without, opens_told) = (Vec::new(), true);
    let plan = Plan { mounts, folder, seed, time, round, threads: THREADS, without, opens_told };
    run(&plan, |sentence| eprintln!("{sentence}")).unwrap_or_else(|why| panic!("{why}"))
}

/// The mount of the tenant, whose root is `tenants/own`, and the folder of the administrator's.
fn divided(cluster: &Cluster) -> (PathBuf, PathBuf) {
    let (mount, admin) = (cluster.mount(), cluster.mounts()[1].clone());
    sh(&admin, "mkdir -p tenants/own tenants/other && echo hidden > tenants/other/secret");
    modify(cluster, "tenant", &["admin=1", "trusted=1"]);
    let words = ["nodemap_set_fileset", "--name", "tenant", "--fileset", "/tenants/own"];
    says_nothing(cluster, &words);
    let realms = || text(&cluster.lctl(&["get_param", "-n", "mdt.*.realms"]));
    soon(&true, || realms().trim_end().ends_with(" /tenants/own ready"));
    cluster.many().unmount_client(0);
    let mounted = cluster.many().try_mount_directory(0, "");
    assert!(mounted.status.success(), "{}", text(&mounted));
    (mount, admin)
}

#[test]
fn a_tenant_and_an_administrator_beside_it_see_one_tree() {
    let Some(cluster) = tenant(&[]) else { return };
    let (mount, admin) = divided(&cluster);
    let before = sh(&admin, OUTSIDE);
    let time = Duration::from_secs(seconds());
    let report = judged(vec![mount.clone(), admin.join("tenants/own")], "oracle", time);
    let first: Vec<_> = report.violations.iter().take(12).map(String::as_str).collect();
    assert!(first.is_empty(), "{} violations:\n{}", report.violations.len(), first.join("\n"));
    assert_eq!(report.undecided, [""; 0]);
    assert!(report.operations > 1000, "only {} operations", report.operations);
    eprintln!("{} operations in {time:?}", report.operations);
    assert_eq!(sh(&admin, OUTSIDE), before);
    assert_eq!(sh(&mount, "ls -A"), sh(&admin.join("tenants/own"), "ls -A"));

    // The twin: of what is elsewhere the same programs make no one tree.
    sh(&admin, "mkdir -p tenants/own/twin tenants/other/twin/round0");
    // As the oracle makes it in the folder of the first mount.
    sh(&admin, "truncate -s 1M tenants/other/twin/round0/words");
    let twin = vec![mount, admin.join("tenants/other")];
    let wrong = judged(twin, "twin", Duration::from_secs(2));
    assert!(!wrong.violations.is_empty(), "two directories pass for one");
    assert!(cluster.many().fsck(&[]).status.success());
}
