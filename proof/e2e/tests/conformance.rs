//! POSIX conformance suites of others, on the mount and on the ordinary file system beside it.

use e2e::cluster::{Cluster, everywhere, on_hosts_striped};
use e2e::lustre::{lctl_says, lfs, soon};
use e2e::need_program;
use e2e::programs::try_sh;
use e2e::restripe::Restriper;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `naptime` 20 ms: time stamps must be finer than that, which asks for a server whose clock is
/// read at each change.
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
    let output =
        try_sh(dir, &format!("{} -c {} -p {}", program.display(), config.display(), dir.display()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let cases = text
        .lines()
        .filter(|line| line.contains("::") && !line.starts_with(char::is_whitespace))
        .filter_map(|line| {
            line.rsplit_once(' ').map(|(name, end)| (name.trim().to_owned(), end.to_owned()))
        })
        .filter(|(_, end)| ["ok", "skipped", "FAILED", "failed"].contains(&end.as_str()))
        .collect();
    (cases, text)
}

/// Cases that pass on the local file system and cannot run on SheenFS, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "link::link_count_max",
    "skipped by the suite: the C library knows LINK_MAX by the kind of file system, and FUSE is not in its list",
)];

#[test]
fn pjdfstest_passes_what_the_local_file_system_passes() {
    let Some(program) = need_program("pjdfstest") else { return };
    everywhere(|cluster| passes_the_same(&program, cluster, &cluster.mount().join("pjd")));
}

/// Runs pjdfstest in this directory and outside of the mount.
fn passes_the_same(program: &Path, cluster: &Cluster, dir: &Path) {
    let config = cluster.outside().join("pjdfstest.toml");
    std::fs::write(&config, PJDFSTEST).expect("write");
    let (local, text) = pjdfstest(program, &config, &cluster.outside().join("pjd"));
    assert!(local.len() > 300, "the suite ran {} cases outside the mount:\n{text}", local.len());
    let (ours, text) = pjdfstest(program, &config, dir);
    let passed = |cases: &BTreeMap<String, String>| {
        let excepted = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
        let ok = cases.iter().filter(|(name, end)| *end == "ok" && !excepted(name));
        ok.map(|(name, _)| name.clone()).collect::<Vec<_>>().join("\n")
    };
    let failed: Vec<&str> =
        text.lines().filter(|l| l.starts_with('\t') || !l.ends_with("ok")).collect();
    assert!(passed(&local) == passed(&ours), "on the mount:\n{}", failed.join("\n"));
    eprintln!("pjdfstest: {} cases pass, as outside; except:", passed(&ours).lines().count());
    EXCEPTIONS.iter().for_each(|(name, why)| eprintln!("  {name}: {why}"));
}

/// In a remote directory, and in one with stripes on four MDTs whose new directories are on other
/// MDTs, and which are all split and merged meanwhile.
#[test]
fn pjdfstest_passes_in_directories_that_are_split_and_merged() {
    let Some(program) = need_program("pjdfstest") else { return };
    let Some(cluster) = Cluster::with_clients_and_mdts("1", &[""], 4) else { return };
    lfs(&cluster.mount(), &["mkdir", "-i", "1", "remote"]);
    passes_the_same(&program, &cluster, &cluster.mount().join("remote"));
    let striped = cluster.mount().join("striped");
    lfs(&cluster.mount(), &["mkdir", "-c", "4", "striped"]);
    lfs(&cluster.mount(), &["setdirstripe", "-D", "-c", "2", "-i", "-1", "striped"]);
    let restriper = Restriper::begin(&striped, 4, fastrand::u64(..));
    passes_the_same(&program, &cluster, &striped);
    let begun = restriper.end();
    eprintln!("{begun} splits and merges");
    assert!(begun > 10, "{begun} splits and merges");
}

/// Ids that the suite uses beside root's, of users and groups ([`PJDFSTEST`]).
const USED: [u32; 2] = [1, 65_534];
/// An id that is not mapped; it is shown as an id that no user has.
const UNMAPPED: u32 = 4_321;
const OF_NO_USER: u32 = u32::MAX - 1;

/// For a client whose ids are mapped, each to itself: MDTs check what its users may, and targets
/// ask it for tickets.
#[test]
fn pjdfstest_passes_for_a_client_with_mapped_ids() {
    let Some(program) = need_program("pjdfstest") else { return };
    let Some(cluster) = Cluster::with_clients("1", &[""]) else { return };
    let of_unmapped = cluster.mount().join("of-unmapped");
    std::fs::write(&of_unmapped, "").expect("write");
    std::os::unix::fs::chown(&of_unmapped, Some(UNMAPPED), None).expect("chown");
    let name = ["--name", "tenant"];
    let says_nothing = |words: &[&str]| assert_eq!(lctl_says(&cluster, words), "", "{words:?}");
    let range = format!("{}@tcp", cluster.many().client_address(0));
    says_nothing(&["nodemap_add", "tenant"]);
    says_nothing(&[&["nodemap_add_range"], &name[..], &["--range", &range]].concat());
    for (property, value) in [("admin", "1"), ("squash_uid", "65532"), ("squash_gid", "65532")] {
        let words = ["--property", property, "--value", value];
        says_nothing(&[&["nodemap_modify"], &name[..], &words].concat());
    }
    for (kind, id) in ["uid", "gid"].into_iter().flat_map(|kind| USED.map(|id| (kind, id))) {
        let pair = format!("{id}:{id}");
        let words = ["--idtype", kind, "--idmap", &pair];
        says_nothing(&[&["nodemap_add_idmap"], &name[..], &words].concat());
    }
    says_nothing(&["nodemap_activate", "1"]);
    let shown = || std::fs::metadata(&of_unmapped).expect("stat").uid();
    soon(&OF_NO_USER, shown);
    passes_the_same(&program, &cluster, &cluster.mount().join("pjd"));
    assert_eq!(shown(), OF_NO_USER, "ids were mapped all the time");
}

/// Every kind of operation that fsx knows. It need not msync after each store to a mapping: that
/// would only time fsync.
const FSX: &str = r#"
nomsyncafterwrite = true

[weights]
close_open = 1.0
invalidate = 1.0
mapread = 5.0
mapwrite = 5.0
read = 5.0
write = 5.0
truncate = 5.0
fsync = 0.2
fdatasync = 0.2
posix_fallocate = 1.0
punch_hole = 2.0
sendfile = 1.0
posix_fadvise = 0.5
copy_file_range = 1.0
"#;

/// Runs fsx on a file of up to `file_bytes` bytes in operations of up to `operation_bytes`.
fn fsx(stripes: &str, file_bytes: u32, operation_bytes: u32) {
    fsx_on(stripes, &[], file_bytes, operation_bytes);
}

/// As [`fsx`], where new files get the layout that these options of `lfs setstripe` describe.
fn fsx_on(stripes: &str, layout: &[&str], file_bytes: u32, operation_bytes: u32) {
    let Some(program) = need_program("fsx") else { return };
    on_hosts_striped(stripes, |cluster| {
        if !layout.is_empty() {
            lfs(&cluster.mount(), &[&["setstripe"], layout, &["."]].concat());
        }
        run_fsx(&program, cluster, &cluster.mount(), file_bytes, operation_bytes);
    });
}

fn run_fsx(program: &Path, cluster: &Cluster, dir: &Path, file_bytes: u32, operation_bytes: u32) {
    let most = e2e::sized("2000", "20000");
    let operations = std::env::var("FSX_OPERATIONS").unwrap_or_else(|_| most.to_owned());
    let config = cluster.outside().join("fsx.toml");
    let sizes = format!("flen = {file_bytes}\nopsize = {{ min = 0, max = {operation_bytes} }}\n");
    std::fs::write(&config, sizes + FSX).expect("write");
    let (program, config, artifacts) = (program.display(), config.display(), cluster.outside());
    let script =
        format!("{program} -f {config} -N {operations} -S 7 -P {} file", artifacts.display());
    let output = try_sh(dir, &script);
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let end: Vec<&str> = text.lines().rev().take(40).collect();
    assert!(output.status.success(), "{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    assert!(text.contains("All operations completed A-OK!"), "fsx did not finish:\n{text}");
}

#[test]
fn fsx_on_one_stripe() {
    fsx("1", 1_500_000, 65_536);
}

/// Small operations, half of them on the MDT, some across the end of what is there.
#[test]
fn fsx_on_the_mdt() {
    fsx_on("1", &["-E", "64K", "-L", "mdt", "-E", "-1", "-S", "64K", "-c", "2"], 131_072, 20_000);
}

/// The name of the file moves from MDT to MDT.
#[test]
fn fsx_in_a_directory_that_is_split_and_merged() {
    let Some(program) = need_program("fsx") else { return };
    let Some(cluster) = Cluster::with_clients_and_mdts("2", &[""], 4) else { return };
    let dir = cluster.mount().join("d");
    lfs(&cluster.mount(), &["mkdir", "-c", "4", "d"]);
    let restriper = Restriper::begin(&dir, 4, fastrand::u64(..));
    run_fsx(&program, &cluster, &dir, 1_500_000, 65_536);
    let begun = restriper.end();
    assert!(begun > 5, "{begun} splits and merges");
}

/// Stripes are of 4 MiB: the file is long enough to reach every object twice.
#[test]
fn fsx_on_four_stripes() {
    fsx("4", 34_000_000, 300_000);
}
