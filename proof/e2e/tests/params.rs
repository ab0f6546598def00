//! Persistent parameters: kept by the MGS, and those of a host's own file.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lctl, lctl_refuses, lctl_says, soon};
use e2e::programs::sh;
use std::fs;

#[test]
fn what_is_set_for_ever_holds_at_once_and_after_a_restart() {
    everywhere(|cluster| {
        let count = || lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]);
        let before = count();
        assert_eq!(lctl_says(cluster, &["set_param", "-P", "lod.*.stripecount=3"]), "");
        soon(&"3\n".to_owned(), count);
        assert!(
            lctl(cluster, &["get_param", "mgs.MGS.live.sheen"])
                .contains("\nparameters:\n    lod.*.stripecount=3\n")
        );
        // A value that is set by hand later stands.
        lctl(cluster, &["set_param", "lod.*.stripecount=2"]);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert_eq!(count(), "2\n");
        // The older spelling.
        assert_eq!(lctl_says(cluster, &["conf_param", "sheen-OST0001.osc.active=0"]), "");
        let active = || lctl(cluster, &["get_param", "-n", "osp.*.active"]);
        soon(&"1\n0\n1\n1\n".to_owned(), active);

        cluster.stop();
        cluster.start();
        let (count, active) = (
            || lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]),
            || lctl(cluster, &["get_param", "-n", "osp.*.active"]),
        );
        soon(&"3\n".to_owned(), count);
        soon(&"1\n0\n1\n1\n".to_owned(), active);

        // Deleted: the value stays until the next start.
        lctl_says(cluster, &["set_param", "-P", "-d", "lod.*.stripecount"]);
        lctl_says(cluster, &["conf_param", "-d", "sheen-OST0001.osc.active"]);
        assert!(!lctl(cluster, &["get_param", "mgs.MGS.live.sheen"]).contains("parameters:"));
        assert_eq!(count(), "3\n");
        cluster.stop();
        cluster.start();
        assert_eq!(lctl(cluster, &["get_param", "-n", "lod.*.stripecount"]), before);
        assert_eq!(lctl(cluster, &["get_param", "-n", "osp.*.active"]), "1\n1\n1\n1\n");
    });
}

#[test]
fn what_does_not_exist_is_not_kept() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&[]);
    let words = |name: &str| {
        format!(
            "error: set_param: {name}: there is no such parameter to be set; lctl help_param explains those that are\n"
        )
    };
    for name in ["lod.*.stripecnt", "stripecount", "lod.*.numobd"] {
        lctl_refuses(&cluster, &["set_param", "-P", &format!("{name}=1")], 2, &words(name));
    }
    let older = "error: conf_param: stripecount: write DEVICE.KIND.NAME=VALUE: sheen-OST0001.osc.active=0\n";
    lctl_refuses(&cluster, &["conf_param", "stripecount=1"], 22, older);
    assert!(!lctl(&cluster, &["get_param", "mgs.MGS.live.sheen"]).contains("parameters:"));
}

#[test]
fn a_host_has_its_own_file() {
    if !e2e::can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.toml");
    fs::write(&file, "[params]\n\"lod.*.stripesize\" = \"1M\"\n\"lod.*.stripecount\" = 2\n")
        .expect("write");
    let mut cluster = Cluster::up(&[]);
    cluster.stop();
    let settings = cluster.dir().join("node.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    let option = format!("options = \"rw,config={}\"", file.display());
    assert!(text.contains("options = \"rw\""), "{text}");
    fs::write(&settings, text.replace("options = \"rw\"", &option)).expect("write");
    cluster.start();
    assert_eq!(
        lctl(&cluster, &["get_param", "-n", "lod.*.stripesize", "lod.*.stripecount"]),
        "1048576\n2\n"
    );
    // The host's own word goes before the MGS's.
    lctl_says(&cluster, &["set_param", "-P", "lod.*.stripecount=1"]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(lctl(&cluster, &["get_param", "-n", "lod.*.stripecount"]), "2\n");
}

/// A small cluster whose mount has done a little of everything.
fn worked() -> Option<Cluster> {
    if !e2e::can_mount() {
        return None;
    }
    let cluster = Cluster::up(&["--osts", "2"]);
    let mnt = cluster.mount();
    fs::write(mnt.join("f"), vec![7; 300_000]).expect("write");
    fs::create_dir(mnt.join("d")).expect("a folder");
    sh(&mnt, "sync f; cat f > /dev/null; ls -l > /dev/null");
    Some(cluster)
}

/// Value of a parameter, without its line end.
fn value(cluster: &Cluster, name: &str) -> String {
    lctl(cluster, &["get_param", "-n", name]).trim_end().to_owned()
}

fn number(cluster: &Cluster, name: &str) -> u64 {
    let text = value(cluster, name);
    text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is no number"))
}

/// Samples of an operation, over all devices.
fn samples(cluster: &Cluster, pattern: &str, operation: &str) -> u64 {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(operation))
            .then(|| words.next().and_then(|n| n.parse::<u64>().ok()))?
    };
    value(cluster, pattern).lines().filter_map(of).sum()
}

#[test]
fn scripts_read_what_they_rely_on() {
    let Some(cluster) = worked() else { return };
    // Numbers.
    for (name, least, most) in [
        ("llite.*.max_read_ahead_mb", 64, 1024),
        ("llite.*.max_read_ahead_per_file_mb", 16, 256),
        ("llite.*.max_read_ahead_whole_mb", 4, 4),
        ("llite.*.hybrid_io", 0, 0),
        ("llite.*.default_easize", 4096, 65_536),
        ("llite.*.max_easize", 4096, 65_536),
        ("llite.*.xattr_cache", 1, 1),
        ("llite.*.opencache_threshold_count", 1, 1),
        ("lov.*.stripecount", 1, 1),
        ("lov.*.stripesize", 4 << 20, 4 << 20),
        ("osc.*OST0000*.max_rpcs_in_flight", 0, 1024),
        ("osc.*OST0000*.max_pages_per_rpc", 4096, 4096),
        ("osc.*OST0000*.short_io_bytes", 16 << 20, 16 << 20),
        ("osc.*OST0000*.max_dirty_mb", 256, 256),
        ("osc.*OST0000*.idle_timeout", 0, 0),
        ("osc.*OST0000*.checksums", 1, 1),
        ("osc.*OST0000*.grant_shrink", 1, 1),
        ("osc.*OST0000*.grant_shrink_interval", 10, 10),
        ("osc.*OST0000*.cur_grant_bytes", 0, 256 << 20),
        ("mdc.*.max_rpcs_in_flight", 0, 1024),
        ("mdc.*.max_mod_rpcs_in_flight", 0, 1024),
        ("osp.*OST0000*.max_create_count", 0, 0),
        ("osp.*OST0000*.create_count", 0, 0),
        ("osp.*OST0000*.destroys_in_flight", 0, 0),
        ("ldlm.namespaces.*-mdc-*.lock_count", 2, 1000),
        ("ldlm.namespaces.*-mdc-*.lock_unused_count", 1, 1000),
        ("ldlm.namespaces.*-mdc-*.lru_size", 1, 1000),
        ("ldlm.namespaces.*-mdc-*.lru_max_age", 0, 0),
    ] {
        let found = number(&cluster, name);
        assert!((least..=most).contains(&found), "{name}={found}");
    }
    assert_eq!(value(&cluster, "lov.*.stripeoffset"), "-1");
    assert_eq!(value(&cluster, "osc.*OST0000*.checksum_type"), "[crc32c]");

    // Words.
    let flags = value(&cluster, "mdc.*.connect_flags");
    for flag in ["acl", "xattr", "inode_bit_locks", "open_by_fid", "layout_lock"] {
        assert!(flags.lines().any(|line| line == flag), "{flag}: {flags}");
    }
    let import = value(&cluster, "mdc.*.import");
    assert!(
        import.contains(&format!("    connect_flags: [ {} ]\n", flags.replace('\n', ", "))),
        "{import}"
    );
    let of_ost = value(&cluster, "osc.*OST0001*.connect_flags");
    assert!(of_ost.contains("write_grant") && of_ost.contains("grant_shrink"), "{of_ost}");
    let flags = value(&cluster, "llite.*.sbi_flags");
    assert_eq!(flags, "checksum flock user_xattr acl layout user_fid2path xattr_cache");
    assert!(value(&cluster, "debug").contains("warning"), "what is always logged");
    let cached = value(&cluster, "llite.*.max_cached_mb");
    assert!(
        cached
            .strip_prefix("max_cached_mb: ")
            .is_some_and(|mb| mb.parse::<u64>().is_ok_and(|mb| mb > 100))
    );

    // Tables. The kernel reads ahead in larger pieces than programs read.
    let stats = value(&cluster, "llite.*.stats");
    for (name, unit) in [("mkdir", "[usecs]"), ("write_bytes", "[bytes]"), ("write", "[usecs]")] {
        let line =
            stats.lines().find(|line| line.split_whitespace().next() == Some(name)).expect(name);
        let words: Vec<&str> = line.split_whitespace().collect();
        // name N samples [unit] min max sum sumsq
        assert_eq!((words.len(), words[2], words[3]), (8, "samples", unit), "{line}");
        assert!(words[4..].iter().all(|word| word.parse::<u64>().is_ok()), "{line}");
    }
    let line = stats.lines().find(|line| line.starts_with("write_bytes ")).expect("bytes");
    assert_eq!(line.split_whitespace().nth(6), Some("300000"), "{line}");
    let extents = value(&cluster, "llite.*.extents_stats");
    let calls: u64 = extents
        .lines()
        .filter(|line| line.contains("K:") || line.contains("M:"))
        .fold(0, |sum, line| {
            let writes = line
                .split('|')
                .nth(1)
                .and_then(|half| half.split_whitespace().next())
                .expect("a count");
            sum + writes.parse::<u64>().expect("a number")
        });
    assert_eq!(calls, samples(&cluster, "llite.*.stats", "write_bytes"), "{extents}");
    lctl(&cluster, &["set_param", "llite.*.extents_stats=0"]);
    assert_eq!(samples(&cluster, "llite.*.stats", "mkdir"), 0, "cleared together");
}

#[test]
fn what_adapts_by_itself_says_what_governs_it() {
    let Some(cluster) = worked() else { return };
    for (name, wanted, said) in [
        ("osc.*OST0000*.max_rpcs_in_flight", "8", "bandwidth and delay"),
        ("mdc.*.max_mod_rpcs_in_flight", "7", "bandwidth and delay"),
        ("osc.*OST0000*.max_pages_per_rpc", "256", "The format bounds it"),
        ("osc.*OST0000*.idle_timeout", "20", "ping_interval"),
        ("llite.*.max_cached_mb", "100", "memory.max of a cgroup"),
        ("llite.*.hybrid_io", "1", "size alone decides nothing"),
        ("osp.*OST0000*.max_create_count", "20000", "none are made ahead"),
        ("lov.*.stripecount", "2", "lod.*.stripecount"),
    ] {
        let output = cluster.lctl(&["set_param", &format!("{name}={wanted}")]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(95), "{name}: {error}");
        assert!(
            error.starts_with("error: set_param: setting ") && error.contains(said),
            "{name}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // Restoring the present value is accepted.
    for name in
        ["osc.*OST0000*.max_pages_per_rpc", "osc.*OST0000*.idle_timeout", "llite.*.hybrid_io"]
    {
        lctl(&cluster, &["set_param", &format!("{name}={}", value(&cluster, name))]);
    }
    // Unavailable values say so when named, and are left out otherwise.
    for name in ["osc.*OST0000*.resend_count", "osc.*OST0000*.cur_dirty_bytes"] {
        let output = cluster.lctl(&["get_param", name]);
        assert_eq!(output.status.code(), Some(95), "{name}");
        assert!(
            output.stdout.is_empty() && output.stderr.starts_with(b"error: get_param: reading '"),
            "{name}"
        );
        assert!(!lctl(&cluster, &["list_param", name]).is_empty());
    }
    lctl(&cluster, &["get_param", "llite.*.*"]);
    let kept = cluster.lctl(&["set_param", "-P", "osc.*.max_rpcs_in_flight=8"]);
    assert_eq!(kept.status.code(), Some(95), "{}", String::from_utf8_lossy(&kept.stderr));
    assert!(String::from_utf8_lossy(&kept.stderr).contains("bandwidth and delay"));
}

#[test]
fn what_can_be_set_acts() {
    let Some(cluster) = worked() else { return };
    let set = |setting: &str| lctl(&cluster, &["set_param", "-n", setting]);
    let mnt = cluster.mount();

    // The kernel reads ahead, too, by as much, and 4 MiB at most: seen where it keeps it.
    let minor = {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(&mnt).expect("the mount").dev() & 0xff
    };
    let window = || {
        fs::read_to_string(format!("/sys/class/bdi/0:{minor}/read_ahead_kb"))
            .expect("the kernel's window")
    };
    assert_eq!(window(), "4096\n");
    for (wanted, kb) in [("0", "0\n"), ("0.5", "512\n"), ("8M", "4096\n"), ("256", "4096\n")] {
        set(&format!("llite.*.max_read_ahead_mb={wanted}"));
        assert_eq!(window(), kb, "{wanted}");
    }

    // What the mount reads ahead: blocks in sequence, past the page cache.
    sh(&mnt, "dd if=/dev/urandom of=long bs=1M count=1 conv=fsync status=none");
    let asked = || {
        let before = samples(&cluster, "osc.*.stats", "ost_read");
        sh(&mnt, "dd if=long of=/dev/null bs=4k count=40 iflag=direct status=none");
        samples(&cluster, "osc.*.stats", "ost_read") - before
    };
    set("llite.*.max_read_ahead_mb=0");
    let one_by_one = asked();
    set("llite.*.max_read_ahead_mb=256");
    set("llite.*.read_ahead_stats=clear");
    assert_eq!(samples(&cluster, "llite.*.read_ahead_stats", "hits"), 0);
    let ahead = asked();
    assert!(one_by_one >= 24 && ahead <= 8, "{one_by_one} and {ahead} requests");
    let found = samples(&cluster, "llite.*.read_ahead_stats", "hits");
    assert!((24..=39).contains(&found), "{found} pages");

    // Extended attributes: kept, or asked for each time.
    sh(&mnt, "setfattr -n user.x -v 1 f");
    let asked = || {
        let before = samples(&cluster, "mdc.*.stats", "mds_getxattr");
        sh(&mnt, "getfattr -n user.x f > /dev/null; getfattr -n user.x f > /dev/null");
        samples(&cluster, "mdc.*.stats", "mds_getxattr") - before
    };
    asked();
    assert_eq!(asked(), 0, "kept");
    set("llite.*.xattr_cache=0");
    assert!(asked() >= 2);
    assert!(!value(&cluster, "llite.*.sbi_flags").contains("xattr_cache"));
    set("llite.*.xattr_cache=1");
    asked();
    assert_eq!(asked(), 0, "kept again");

    // Opens.
    let opened = || {
        let before = samples(&cluster, "mdt.*.md_stats", "open");
        sh(&mnt, "cat f > /dev/null; cat f > /dev/null");
        samples(&cluster, "mdt.*.md_stats", "open") - before
    };
    opened();
    assert_eq!(opened(), 0, "without a request");
    set("llite.*.opencache_threshold_count=0");
    assert!(opened() >= 2);
    set("llite.*.opencache_threshold_count=1");
    opened();
    assert_eq!(opened(), 0);

    // Locks: not more than so many, not older than so.
    sh(&mnt, "for n in $(seq 100); do echo > l$n; done; ls -l > /dev/null");
    let held = || number(&cluster, "ldlm.namespaces.*-mdc-*.lock_count");
    assert!(held() > 100);
    set("ldlm.namespaces.*mdc*.lru_size=50");
    soon(&true, || held() <= 50);
    set("ldlm.namespaces.*mdc*.lru_size=0");
    sh(&mnt, "ls -l > /dev/null");
    assert!(held() > 100);
    set("ldlm.namespaces.*mdc*.lru_max_age=1s");
    soon(&true, || held() <= 2);
    set("ldlm.namespaces.*mdc*.lru_max_age=0");

    // Granted space that is not used is given back.
    let granted = || {
        number(&cluster, "osc.*OST0000*.cur_grant_bytes")
            + number(&cluster, "osc.*OST0001*.cur_grant_bytes")
    };
    set("osc.*.grant_shrink=0");
    sh(&mnt, "for n in 1 2 3 4; do head -c 100000 /dev/zero > g$n; done; sync");
    assert!(granted() > 0);
    std::thread::sleep(std::time::Duration::from_secs(12));
    assert!(granted() > 0, "kept");
    set("osc.*.grant_shrink_interval=1");
    set("osc.*.grant_shrink=1");
    soon(&0, granted);

    // The others, by what is read back, and by what is refused.
    for (name, good, bad) in [
        ("osc.*OST0000*.max_dirty_mb", "32", "0"),
        ("osc.*OST0000*.checksums", "0", "2"),
        ("osc.*OST0000*.checksums", "1", "yes"),
        ("osc.*OST0000*.grant_shrink_interval", "60", "0"),
        ("debug", "inode", "nonsense"),
    ] {
        set(&format!("{name}={good}"));
        assert!(value(&cluster, name).contains(good), "{name}");
        assert!(
            !cluster.lctl(&["set_param", &format!("{name}={bad}")]).status.success(),
            "{name}={bad}"
        );
    }
    assert_eq!(value(&cluster, "mdc.*.checksums"), "1");
    let bad = cluster.lctl(&["set_param", "osc.*OST0000*.checksum_type=adler"]);
    assert_eq!(bad.status.code(), Some(22));
    set("debug=0");
    assert_eq!(value(&cluster, "debug"), "warning error emerg");
}

#[test]
fn clearing_the_lru_drops_locks_and_caches_at_once() {
    let Some(cluster) = worked() else { return };
    let mnt = cluster.mount();
    let caches = e2e::caches::mine();
    let held = |kind: &str| {
        let text = value(&cluster, &format!("ldlm.namespaces.*-{kind}-*.lock_count"));
        text.lines().map(|line| line.parse::<u64>().expect("a number")).sum::<u64>()
    };
    let reads = || samples(&cluster, "osc.*.stats", "ost_read");
    let asks = || {
        let stats = value(&cluster, "mdc.*.stats");
        stats
            .lines()
            .filter(|line| line.starts_with("mds_") || line.starts_with("ldlm_ibits"))
            .fold(0, |sum, line| {
                sum + line
                    .split_whitespace()
                    .nth(1)
                    .and_then(|n| n.parse::<u64>().ok())
                    .unwrap_or(0)
            })
    };
    let work = || sh(&mnt, "cat f | cksum > /dev/null; stat f d > /dev/null");
    // A file that was changed a moment ago is read past the page cache.
    std::thread::sleep(std::time::Duration::from_secs(3));
    work();
    let before = (reads(), asks());
    work();
    assert_eq!((reads(), asks()), before, "all of it is covered by locks, pages are the kernel's");
    assert!(held("osc") == 1 && held("mdc") >= 3, "{} {}", held("osc"), held("mdc"));

    // Data alone.
    lctl(&cluster, &["set_param", "-n", "ldlm.namespaces.*osc*.lru_size=clear"]);
    assert_eq!(held("osc"), 0);
    assert!(held("mdc") >= 3);
    work();
    assert!(reads() > before.0, "the kernel's pages went, too");
    // The lock on data comes with that read, and the open after it may use pages.
    work();
    let again = reads();
    work();
    assert_eq!(reads(), again, "and are kept again: no other client wanted the file");

    // All of it; dirty data is stored first.
    fs::write(mnt.join("f"), vec![8; 300_000]).expect("write");
    lctl(&cluster, &["set_param", "-n", "ldlm.namespaces.*.lru_size=clear"]);
    assert_eq!(
        (
            held("mdc"),
            held("osc"),
            number(&cluster, "ldlm.namespaces.sheen-????????????????.lock_count")
        ),
        (0, 0, 0)
    );
    assert_eq!(number(&cluster, "llite.*.cur_dirty_bytes"), 0);
    let before = asks();
    work();
    assert!(asks() > before, "names and attributes are asked for");
    assert_eq!(fs::read(mnt.join("f")).expect("read"), vec![8; 300_000]);
    drop(caches);
}

#[test]
fn an_open_file_survives_the_clearing_of_locks() {
    let Some(cluster) = worked() else { return };
    let mnt = cluster.mount();
    let clear = || lctl(&cluster, &["set_param", "-n", "ldlm.namespaces.*.lru_size=clear"]);
    let file = fs::File::open(mnt.join("f")).expect("open");
    clear();
    fs::remove_file(mnt.join("f")).expect("remove");
    clear();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut &file, &mut text).expect("read what has no name");
    assert_eq!(text, vec![7; 300_000]);
    drop(file);
    soon(&0, || number(&cluster, "osp.*OST0000*.destroys_in_flight"));
}

#[test]
fn locks_of_removed_files_are_not_held() {
    let Some(cluster) = worked() else { return };
    let mnt = cluster.mount();
    let held = || number(&cluster, "ldlm.namespaces.sheen-????????????????.lock_count");
    let before = held();
    sh(
        &mnt,
        "for n in $(seq 300); do echo x > t; rm t; mkdir u; rmdir u; echo a > v; echo b > w; mv w v; rm v; done",
    );
    // The kernel gives references back in its own time.
    soon(&true, || held() <= before + 2);
    let there = number(&cluster, "ldlm.namespaces.mdt-sheen-MDT0000.lock_count");
    assert!(held() <= there + 2, "{} held here, {there} at the MDT", held());
}
