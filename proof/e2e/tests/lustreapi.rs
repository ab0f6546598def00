//! The C library on a real mount: programs like those written for Lustre, compiled against its
//! headers. They read what `lfs` and `lctl` show, and `lfs` finds what they make.

use e2e::c::{prints, prints_with, run};
use e2e::cluster::Cluster;
use e2e::lustre::{lctl, lctl_says, lfs, pool_list, soon};
use e2e::process::text;
use e2e::programs::sh;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Four OSTs, two of them in the pool `two`.
fn cluster() -> Cluster {
    let cluster = Cluster::up(&["--osts", "4", "--dom-size", "0"]);
    lctl_says(&cluster, &["pool_new", "sheen.two"]);
    lctl_says(&cluster, &["pool_add", "sheen.two", "OST[1-2]"]);
    let members = "Pool: sheen.two\nsheen-OST0001_UUID\nsheen-OST0002_UUID\n".to_owned();
    soon(&members, || pool_list(&cluster.mount(), "sheen.two"));
    cluster
}

#[test]
fn c_programs_find_and_make_what_lfs_does() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = cluster();
    striped(&cluster);
    composite(&cluster);
    fids(&cluster);
    targets(&cluster);
    data(&cluster);
    // The header includes what programs expect of it; the library prints what `lfs` prints.
    let [all, one] =
        ["sheen", "sheen.two"].map(|pools| lfs(&cluster.mount(), &["pool_list", pools]));
    assert_eq!(prints(&cluster, "habits.c"), all + &one);
    let mnt = cluster.mount();
    assert_eq!(prints(&cluster, "plus.cc"), format!("3 {}", lfs(&mnt, &["path2fid", "plus"])));
    assert_eq!(lfs(&mnt, &["getstripe", "-c", "plus"]), "3\n");
}

/// Output of `lfs getstripe` for a file, without its name.
fn shown(cluster: &Cluster, file: &str) -> String {
    let all = lfs(&cluster.mount(), &["getstripe", file]);
    all.strip_prefix(&format!("{file}\n")).expect("the name first").to_owned()
}

fn striped(cluster: &Cluster) {
    let printed = prints(cluster, "striped.c");
    let expected: Vec<String> =
        ["plain", "specific", "pooled"].iter().map(|file| shown(cluster, file)).collect();
    assert_eq!(printed, expected.concat());
    let mnt = cluster.mount();
    let get = |letter: &str, file: &str| lfs(&mnt, &["getstripe", letter, file]);
    assert_eq!(
        (get("-c", "plain"), get("-S", "plain"), get("-i", "plain")),
        ("3\n".into(), "131072\n".into(), "2\n".into())
    );
    assert_eq!((get("-c", "mode"), get("-S", "mode")), ("4\n".into(), "1048576\n".into()));
    assert_eq!((get("-i", "specific"), get("-c", "specific")), ("3\n".into(), "2\n".into()));
    assert_eq!(get("-p", "pooled"), "two\n");
    let default =
        "stripe_count:  2 stripe_size:   1048576 pattern:       raid0 stripe_offset: 1\n\n";
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "dir"]), default);
    assert_eq!(
        sh(&mnt, "stat -c '%a %s' mode plain; ls"),
        "440 1\n644 300000\ndir\nmode\nplain\npooled\nspecific\n"
    );
    // The bytes are where the layout says: as another program reads them.
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7) as u8).collect();
    assert!(std::fs::read(mnt.join("plain")).expect("read") == bytes, "bytes differ");
}

/// Each component that `lfs getstripe` shows of a file, as `composite.c` prints them.
fn components(cluster: &Cluster, file: &str) -> Vec<String> {
    let all = lfs(&cluster.mount(), &["getstripe", file]);
    let component = |text: &str| {
        let value = |label: &str| {
            let after = text
                .split_once(label)
                .map(|(_, after)| after.lines().next().unwrap_or_default().trim());
            after.unwrap_or_default().to_owned()
        };
        assert_eq!(value("lmm_pattern:"), "raid0");
        let id = text.lines().next().unwrap_or_default().trim();
        let (flags, start, end) = (value("lcme_flags:"), value("e_start:"), value("e_end:"));
        let (count, size, offset) =
            (value("stripe_count:"), value("stripe_size:"), value("stripe_offset:"));
        let pool = value("lmm_pool:");
        format!(
            "id {id} flags {flags} start {start} end {end} count {count} size {size} pattern 0 offset {offset} pool '{pool}'\n"
        )
    };
    all.split("lcme_id:").skip(1).map(component).collect()
}

fn composite(cluster: &Cluster) {
    let mnt = cluster.mount();
    let printed = prints(cluster, "composite.c");
    let shown = components(cluster, "pfl");
    let parts = [
        "start 0 end 1048576 count 1 size 4194304 pattern 0 offset 2 pool ''",
        "start 1048576 end 67108864 count 4 size 1048576 pattern 0 offset ",
        "start 67108864 end EOF count 2 size 4194304 pattern 0 offset 1 pool 'two'",
    ];
    assert!(
        shown.len() == 3 && shown.iter().zip(parts).all(|(line, part)| line.contains(part)),
        "{shown:?}"
    );
    assert_eq!(printed, shown.concat().repeat(3));

    // The same by lfs, and the copy has the shape.
    let yaml = |file: &str| {
        let text = lfs(&mnt, &["getstripe", file]);
        let shape = |line: &&str| {
            ["lcme_id:", "e_start:", "e_end:", "stripe_count:", "stripe_size:", "lmm_pool:"]
                .iter()
                .any(|w| line.contains(w))
        };
        text.lines().filter(shape).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let pfl = yaml("pfl");
    for words in [
        "lcme_extent.e_end:   1048576",
        "lcme_extent.e_end:   67108864",
        "lcme_extent.e_end:   EOF",
        "two",
    ] {
        assert!(pfl.contains(words), "{pfl}");
    }
    let without_ids = |text: &str| {
        text.lines().filter(|l| !l.contains("_id:")).map(str::to_owned).collect::<Vec<_>>()
    };
    let counts = |text: &str| text.replace("stripe_count:  -1", "stripe_count:  4");
    assert_eq!(without_ids(&counts(&yaml("copy"))), without_ids(&counts(&pfl)));
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "--component-count", "made"]), "3\n");
    let small = lfs(&mnt, &["getstripe", "small"]);
    assert!(
        small.contains("lmm_pattern:       mdt\n") && small.contains("lcm_entry_count:   2\n"),
        "{small}"
    );
    assert_eq!(lfs(&mnt, &["getstripe", "-L", "over"]), "raid0,overstriped\n");
    let over = lfs(&mnt, &["getstripe", "-q", "over"]);
    let osts: Vec<&str> = over.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(osts, ["1", "1", "0"], "{over}");
}

fn fids(cluster: &Cluster) {
    let mnt = cluster.mount();
    sh(&mnt, "mkdir d; echo data > d/one; ln d/one d/two");
    let fid = lfs(&mnt, &["path2fid", "d/one"]);
    let paths = lfs(&mnt, &["fid2path", "sheen", fid.trim_end()]);
    assert_eq!(paths, "d/one\nd/two\n");
    assert_eq!(prints(cluster, "fids.c"), format!("{fid}{paths}"));
}

fn targets(cluster: &Cluster) {
    let mnt = cluster.mount();
    let printed = prints(cluster, "targets.c");
    let df = lfs(&mnt, &["df", "."]);
    let rows: Vec<Vec<&str>> = df
        .lines()
        .filter(|line| line.contains("_UUID "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some(lfs(&mnt, &["getname", mnt.to_str().expect("text")]).trim_end()));
    assert_eq!(rows.len(), 5, "{df}");
    for row in rows {
        let words: Vec<&str> = lines.next().expect("a row").split_whitespace().collect();
        assert_eq!((words[0], words[2]), (row[0], row[5]), "{printed}{df}");
        // Others use the volume, too.
        let [kib, by_lfs] = [words[1], row[1]].map(|n| n.parse::<f64>().expect("a number"));
        assert!((kib / by_lfs - 1.0).abs() < 0.05, "{kib} {by_lfs}");
    }
    let rest: Vec<&str> = lines.collect();
    assert_eq!(rest.join("\n") + "\n", lctl(cluster, &["get_param", "osc.*.active"]));
}

fn data(cluster: &Cluster) {
    let output = run(cluster, "data.c");
    assert!(output.status.success(), "{}", text(&output));
    let said = "error: cannot find 'x' in 3 places: No such file or directory (2)\nerror: demo: no number\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 of these\n");
    // The file without a name left nothing behind.
    assert_eq!(sh(&cluster.mount(), "ls -A | grep -c volatile || true"), "0\n");
}

#[test]
fn the_data_of_a_file_is_a_groups_on_all_mounts() {
    let Some(cluster) = Cluster::with_clients("1", &["flock", "flock"]) else { return };
    assert_eq!(prints(&cluster, "grouped.c"), "");
}

#[test]
fn a_lease_stands_until_somebody_else_comes() {
    let Some(mut cluster) = Cluster::with_clients("1", &["", "", "localflock"]) else { return };
    assert_eq!(prints_with(&cluster, "leased.c", &cluster.mounts()[..2]), "");
    let mounts = cluster.mounts();
    std::fs::write(mounts[0].join("held"), "bytes").expect("write");

    // A restart of the MDT takes it along; a new one can be had.
    let mut first = Holder::start(&cluster, &mounts[0], "2");
    assert_eq!((first.says(), first.left()), (0, 2));
    let many = cluster.many_mut();
    let mds =
        (0..many.server_count()).find(|at| many.server_name(*at).contains("mds")).expect("an MDS");
    many.kill_server(mds);
    many.start_server_again(mds);
    assert_eq!((first.left(), first.left()), (0, 0));
    let mut second = Holder::start(&cluster, &mounts[1], "2");
    assert_eq!(second.says(), -libc::EBUSY, "the first has it open still");
    second.ends();

    // A killed process, or one whose mount was killed, is in the way of no other.
    first.ends();
    let gets = |mount: &Path, mode: &str| {
        let mut holder = Holder::start(&cluster, mount, mode);
        let said = holder.says();
        holder.ends();
        said
    };
    soon(&0, || gets(&mounts[1], "2"));
    let mut first = Holder::start(&cluster, &mounts[0], "2");
    assert_eq!((first.says(), gets(&mounts[1], "1")), (0, -libc::EBUSY));
    assert_eq!(first.left(), 0, "the other one opened it to write");
    cluster.many().kill_client(0);
    let deadline = Instant::now() + LEASE_AND_MORE;
    while gets(&mounts[1], "2") != 0 {
        assert!(Instant::now() < deadline, "its open file is still in the way\n{}", cluster.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    first.ends();
    cluster.many().detach_client(0);
    assert_eq!(gets(&mounts[2], "1"), -libc::EOPNOTSUPP, "this mount is told of no opens");
}

/// A client that is not heard of for this long is evicted (`types::limits::LEASE`), and the
/// server's own rhythm.
const LEASE_AND_MORE: Duration = Duration::from_secs(30 + 10);

/// A process that took a lease of the file `held` of a mount.
struct Holder {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Holder {
    fn start(cluster: &Cluster, mount: &Path, mode: &str) -> Holder {
        let program = e2e::c::compiled(&cluster.outside(), "holds.c");
        let mut command = Command::new(program);
        command.arg(mount.join("held")).arg(mode).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let said = BufReader::new(child.stdout.take().expect("its output"));
        Holder { child, said }
    }

    fn says(&mut self) -> i32 {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        line.trim_end().parse().expect("a number")
    }

    /// State of the lease.
    fn left(&mut self) -> i32 {
        self.child.stdin.as_mut().expect("its input").write_all(b"\n").expect("ask");
        self.says()
    }

    fn ends(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

#[test]
fn where_nothing_is_mounted_programs_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = e2e::c::compiled(dir.path(), "striped.c");
    let output = Command::new(program).arg(dir.path()).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("create: -25 (errno 25)"), "{said}");
    assert!(!dir.path().join("plain").exists());
}
