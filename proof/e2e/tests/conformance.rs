//! POSIX conformance suites of others, on the mount and on the ordinary file system beside it.

use e2e::cluster::{Cluster, everywhere};
use e2e::programs::try_sh;
use e2e::{can_mount, need_program};
use std::collections::BTreeMap;
use std::path::Path;

/// `naptime` 20 ms: time stamps must be finer than that, which asks for a server whose clock is read at each change.
const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Name of each case -> its outcome, and the whole text.
fn pjdfstest(program: &Path, config: &Path, dir: &Path) -> (BTreeMap<String, String>, String) {
    std::fs::create_dir_all(dir).expect("make a folder");
    let output = try_sh(dir, &format!("{} -c {} -p {}", program.display(), config.display(), dir.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let cases = text
        .lines()
        .filter(|line| line.contains("::") && !line.starts_with(char::is_whitespace))
        .filter_map(|line| line.rsplit_once(' ').map(|(name, end)| (name.trim().to_owned(), end.to_owned())))
        .filter(|(_, end)| ["ok", "skipped", "FAILED", "failed"].contains(&end.as_str()))
        .collect();
    (cases, text)
}

/// Cases that pass on the local file system and cannot run on ours, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "link::link_count_max",
    "skipped by the suite: the C library knows LINK_MAX by the kind of file system, and FUSE is not in its list",
)];

#[test]
fn pjdfstest_passes_what_the_local_file_system_passes() {
    let Some(program) = need_program("pjdfstest") else { return };
    everywhere(|cluster| {
        let config = cluster.outside().join("pjdfstest.toml");
        std::fs::write(&config, PJDFSTEST).expect("write");
        let (local, text) = pjdfstest(&program, &config, &cluster.outside().join("pjd"));
        assert!(local.len() > 300, "the suite ran {} cases outside the mount:\n{text}", local.len());
        let (ours, text) = pjdfstest(&program, &config, &cluster.mount().join("pjd"));
        let passed = |cases: &BTreeMap<String, String>| {
            let excepted = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
            let ok = cases.iter().filter(|(name, end)| *end == "ok" && !excepted(name));
            ok.map(|(name, _)| name.clone()).collect::<Vec<_>>().join("\n")
        };
        let failed: Vec<&str> = text.lines().filter(|l| l.starts_with('\t') || !l.ends_with("ok")).collect();
        assert!(passed(&local) == passed(&ours), "on the mount:\n{}", failed.join("\n"));
        eprintln!("pjdfstest: {} cases pass, as outside; except:", passed(&ours).lines().count());
        EXCEPTIONS.iter().for_each(|(name, why)| eprintln!("  {name}: {why}"));
    });
}

fn fsx(stripes: &str) {
    let Some(program) = need_program("fsx") else { return };
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4", "--stripe-count", stripes]);
    let operations = std::env::var("FSX_OPERATIONS").unwrap_or_else(|_| "200000".to_owned());
    let config = cluster.outside().join("fsx.toml");
    std::fs::write(
        &config,
        "flen = 1500000\nnomsyncafterwrite = true\n[opsize]\nmin = 0\nmax = 65536\n[weights]\nclose_open = 1.0\ninvalidate = 1.0\nmapread = 5.0\nmapwrite = 5.0\nread = 5.0\nwrite = 5.0\ntruncate = 5.0\nfsync = 0.2\nfdatasync = 0.2\nposix_fallocate = 1.0\npunch_hole = 2.0\nsendfile = 1.0\nposix_fadvise = 0.5\ncopy_file_range = 1.0\n",
    )
    .expect("write");
    let script = format!(
        "{} -f {} -N {operations} -S 7 -P {} file",
        program.display(),
        config.display(),
        cluster.outside().display()
    );
    let output = try_sh(&cluster.mount(), &script);
    let text = String::from_utf8_lossy(&output.stderr);
    let end: Vec<&str> = text.lines().rev().take(40).collect();
    assert!(
        output.status.success(),
        "fsx on {stripes} stripes:\n{}",
        end.into_iter().rev().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn fsx_on_one_stripe() {
    fsx("1");
}

#[test]
fn fsx_on_four_stripes() {
    fsx("4");
}
