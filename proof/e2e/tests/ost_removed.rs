//! An OST that is gone for good: using its files fails at once and in words, everything else goes
//! on, and nothing is lost should it come back.

use e2e::cluster::Cluster;
use e2e::lustre::{lctl_says, lfs, lfs_refuses, soon};
use e2e::process::text;
use e2e::programs::sh;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a program that waits for the OST to learn that it is out of use.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn what_a_removed_ost_held_is_an_error_and_nothing_else_is() {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut cluster) = Cluster::on_hosts("1") else { return };
    let mnt = cluster.mount();
    let content = |byte: u8| vec![byte; 300_000];
    for (options, name) in [
        (["-i", "0"], "here"),
        (["-i", "2"], "there"),
        (["-o", "1,3"], "half"),
        (["-i", "3"], "old"),
    ] {
        lfs(&mnt, &["setstripe", options[0], options[1], "-S", "64K", name]);
        fs::write(mnt.join(name), content(name.as_bytes()[0])).expect("write");
    }
    let caches = e2e::caches::mine();
    sh(&mnt, "sync -f .; echo 3 > /proc/sys/vm/drop_caches");
    drop(caches);
    let oss = (0..cluster.many().server_count())
        .find(|n| cluster.many().server_name(*n) == "oss1")
        .expect("oss1");
    cluster.many_mut().kill_server(oss);

    // A program waits, because the server may be restarting, until the administrator says that it
    // is not.
    let mut cat = Command::new("cat");
    cat.arg(mnt.join("there")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = cat.spawn().expect("cat runs");
    std::thread::sleep(Duration::from_secs(1));
    assert!(waiting.try_wait().expect("a child").is_none(), "nobody said yet that the OST is gone");
    lctl_says(
        &cluster,
        &["conf_param", "sheen-OST0002.osc.active=0", "sheen-OST0003.osc.active=0"],
    );
    let since = Instant::now();
    let ended = loop {
        match waiting.try_wait().expect("a child") {
            Some(status) => break status,
            None => assert!(since.elapsed() < SOON, "it waits for an OST that is out of use"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    waiting.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(!ended.success() && said.contains("Input/output error"), "{said}");

    // Everybody says which.
    let osts = |two: &str| {
        format!(
            "OBDS:\n0: sheen-OST0000_UUID ACTIVE\n1: sheen-OST0001_UUID ACTIVE\n2: sheen-OST0002_UUID {two}\n\
             3: sheen-OST0003_UUID {two}\n"
        )
    };
    soon(&osts("INACTIVE"), || lfs(&mnt, &["osts", "."]));
    let df = lfs(&mnt, &["df", "."]);
    assert!(
        df.contains(
            "\nsheen-OST0002_UUID: inactive device\nsheen-OST0003_UUID: inactive device\n\n"
        ),
        "{df}"
    );
    let check = lfs(&mnt, &["check", "osts", "."]);
    assert_eq!(check.lines().filter(|line| line.ends_with(" inactive.")).count(), 2, "{check}");
    sh(&mnt, "df . > /dev/null");

    // Files elsewhere can be read; the others are an error at once.
    assert!(fs::read(mnt.join("here")).expect("read") == content(b'h'));
    let began = Instant::now();
    assert_eq!(
        fs::read(mnt.join("half")).expect_err("half of it is gone").raw_os_error(),
        Some(libc::EIO)
    );
    assert_eq!(
        sh(&mnt, "stat -c '%n %s' *"),
        "half 300000\nhere 300000\nold 300000\nthere 300000\n"
    );
    fs::remove_file(mnt.join("old")).expect("remove");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());

    // New files avoid it.
    let used: BTreeSet<String> = (0..6)
        .map(|n| {
            let name = format!("new{n}");
            fs::write(mnt.join(&name), content(b'n')).expect("write");
            assert!(fs::read(mnt.join(&name)).expect("read") == content(b'n'));
            lfs(&mnt, &["getstripe", "-i", &name]).trim_end().to_owned()
        })
        .collect();
    assert_eq!(used, ["0", "1"].map(str::to_owned).into());
    lfs(&mnt, &["setstripe", "-c", "-1", "wide"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-c", "wide"]), "2\n");
    let said = "error: setstripe: can't set layout of 'x': No space left on device (28); no OST that it may be on has \
                space and is active; lfs df shows them\n";
    lfs_refuses(&mnt, &["setstripe", "-i", "2", "x"], 28, said);

    // It comes back after all.
    cluster.many_mut().start_server_again(oss);
    lctl_says(
        &cluster,
        &["conf_param", "sheen-OST0002.osc.active=1", "sheen-OST0003.osc.active=1"],
    );
    soon(&osts("ACTIVE"), || lfs(&mnt, &["osts", "."]));
    assert!(fs::read(mnt.join("there")).expect("read") == content(b't'), "nothing was lost");
    assert!(fs::read(mnt.join("half")).expect("read") == content(b'h'), "nothing was lost");
    lfs(&mnt, &["setstripe", "-i", "2", "x"]);
    let removed =
        Command::new("rm").arg(mnt.join("there")).arg(mnt.join("half")).output().expect("rm runs");
    assert!(removed.status.success(), "{}", text(&removed));
}
