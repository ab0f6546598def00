//! `lfs` on a real mount: layouts that are set are the layouts that files get, and their bytes are
//! where they say.

use e2e::cluster::{Cluster, everywhere};
use e2e::lustre::{lfs, lfs_refuses as refused};
use e2e::programs::sh;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Every number made of hexadecimal digits after "0x" becomes "0xN".
fn masked(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("0xN");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    out
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn four_stripes_of_64k_are_set_shown_and_used() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Cluster::up(&["--osts", "4", "--dom-size", "0"]);
    let mnt = cluster.mount();
    let default =
        "stripe_count:  1 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1\n\n";
    fs::create_dir(mnt.join("d")).expect("a folder");
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "d"]), default);
    lfs(&mnt, &["setstripe", "-c", "4", "-S", "64K", "d"]);
    let wide = "stripe_count:  4 stripe_size:   65536 pattern:       raid0 stripe_offset: -1\n\n";
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "d"]), wide);

    // A file and a folder made in it have it, too.
    let content = bytes(1_000_003);
    fs::write(mnt.join("d/f"), &content).expect("write");
    fs::create_dir(mnt.join("d/sub")).expect("a folder");
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "d/sub"]), wide);
    for (letter, value) in [("-c", "4\n"), ("-S", "65536\n"), ("-L", "raid0\n"), ("-p", "")] {
        assert_eq!(lfs(&mnt, &["getstripe", letter, "d/f"]), value, "{letter}");
    }
    let all = lfs(&mnt, &["getstripe", "-r", "d"]);
    assert!(
        all.starts_with(&format!("d\n{wide}d/f\nlmm_stripe_count:  4\nlmm_stripe_size:   65536\n")),
        "{all}"
    );
    assert!(all.ends_with(&format!("\n\nd/sub\n{wide}")), "{all}");

    // A file made by lfs: OSTs from the third on, shown to the character.
    lfs(&mnt, &["setstripe", "-c", "4", "-S", "64K", "-i", "2", "g"]);
    assert_eq!(fs::metadata(mnt.join("g")).expect("made").len(), 0);
    let fid = lfs(&mnt, &["path2fid", "g"]);
    let group = fid.trim_start_matches('[').split(':').next().expect("a FID").to_owned();
    let shown = lfs(&mnt, &["getstripe", "g"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[..4],
        ["g", "lmm_stripe_count:  4", "lmm_stripe_size:   65536", "lmm_pattern:       raid0"]
    );
    assert!(lines[4].starts_with("lmm_layout_gen:    "), "{shown}");
    assert_eq!(lines[5..7], ["lmm_stripe_offset: 2", "\tobdidx\t\t objid\t\t objid\t\t group"]);
    for (row, ost) in lines[7..11].iter().zip([2, 3, 0, 1]) {
        assert!(row.starts_with(&format!("\t{ost:6}\t")) && row.ends_with(&group), "{row:?}");
    }
    assert_eq!(lines[11..], [""]);

    // 15 stripes and a rest: on each OST one object of this file and one of d/f, with a quarter of
    // the bytes.
    fs::write(mnt.join("g"), &content).expect("write");
    sh(&mnt, "sync g d/f");
    let sizes = |size: usize| {
        let find = format!("for o in ost000*; do find $o -type f -size {size}c | wc -l; done");
        let counts = sh(&cluster.dir(), &find);
        counts.split_whitespace().map(|n| n.parse().expect("a number")).collect::<Vec<usize>>()
    };
    let (full, rest) = (sizes(4 * 65536), sizes(3 * 65536 + 16_963));
    assert_eq!(
        full.iter().zip(&rest).map(|(a, b)| a + b).collect::<Vec<_>>(),
        [2; 4],
        "{full:?} {rest:?}"
    );
    assert_eq!(rest.iter().sum::<usize>(), 2);
    assert!(fs::read(mnt.join("g")).expect("read") == content, "bytes differ");

    // Forbidden operations.
    refused(
        &mnt,
        &["setstripe", "-c", "2", "g"],
        17,
        "error: setstripe: can't create 'g': File exists (17)\n",
    );
    refused(
        &mnt,
        &["setstripe", "-i", "9", "h"],
        22,
        "error: setstripe: OST 9 of 'h' does not exist; lfs osts shows those that do\n",
    );
    refused(
        &mnt,
        &["setstripe", "-o", "0,9", "h"],
        22,
        "error: setstripe: OST 9 of 'h' does not exist; lfs osts shows those that do\n",
    );
    assert!(!mnt.join("h").exists(), "a file that could not be made as wished is not left behind");
    refused(
        &mnt,
        &["setstripe", "-i", "9", "d"],
        22,
        "error: setstripe: OST 9 of 'd' does not exist; lfs osts shows those that do\n",
    );
    refused(
        &mnt,
        &["getstripe", "none"],
        2,
        "error: getstripe: can't get layout of 'none': No such file or directory (2)\n",
    );

    lfs(&mnt, &["setstripe", "-o", "3,1", "named"]);
    assert_eq!(
        (lfs(&mnt, &["getstripe", "-i", "named"]), lfs(&mnt, &["getstripe", "-c", "named"])),
        ("3\n".into(), "2\n".into())
    );
    lfs(&mnt, &["setstripe", "-C", "6", "over"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-L", "over"]), "raid0,overstriped\n");
    lfs(&mnt, &["setstripe", "-d", "d"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-d", "d"]), default);

    // It is all there after a restart.
    let before = lfs(&mnt, &["getstripe", "-r", "."]);
    cluster.stop();
    cluster.start();
    assert_eq!(lfs(&mnt, &["getstripe", "-r", "."]), before);
    assert!(
        fs::read(mnt.join("g")).expect("read") == content
            && fs::read(mnt.join("d/f")).expect("read") == content
    );
}

#[test]
fn components_get_their_objects_when_they_are_written() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        lfs(&mnt, &["setstripe", "-E", "1M", "-c", "1", "-S", "64K", "-E", "-1", "-c", "2", "f"]);
        let before = lfs(&mnt, &["getstripe", "f"]);
        let flags = |text: &str| {
            text.lines()
                .filter(|l| l.contains("lcme_flags:"))
                .map(|l| l[25..].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(flags(&before), ["init", "0"], "{before}");
        assert!(
            before.starts_with("f\n  lcm_layout_gen:    ")
                && before.contains("    lcme_extent.e_end:   EOF\n"),
            "{before}"
        );
        assert_eq!(lfs(&mnt, &["getstripe", "-c", "f"]), "1\n");
        let content = bytes(3_000_000);
        fs::write(mnt.join("f"), &content).expect("write");
        assert_eq!(flags(&lfs(&mnt, &["getstripe", "f"])), ["init", "init"]);
        assert_eq!(lfs(&mnt, &["getstripe", "-c", "f"]), "2\n");
        assert!(fs::read(mnt.join("f")).expect("read") == content, "bytes differ");
    });
}

#[test]
fn targets_space_and_names() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        let at = mnt.display();
        let osts = lfs(&mnt, &["osts", "."]);
        let mut lines = osts.lines();
        assert_eq!(lines.next(), Some("OBDS:"));
        let count = (0..)
            .zip(lines)
            .map(|(n, l)| assert_eq!(l, format!("{n}: sheen-OST{n:04x}_UUID ACTIVE")))
            .count();
        assert!(count >= 2, "{osts}");
        assert_eq!(lfs(&mnt, &["mdts", "."]), "MDTS:\n0: sheen-MDT0000_UUID ACTIVE\n");

        let table = lfs(&mnt, &["df", "."]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[0],
            "UUID                   1K-blocks        Used   Available Use% Mounted on"
        );
        assert!(
            lines[1].starts_with("sheen-MDT0000_UUID   ")
                && lines[1].ends_with(&format!("% {at}[MDT:0]")),
            "{table}"
        );
        assert!(
            lines[2].starts_with("sheen-OST0000_UUID   ")
                && lines[2].ends_with(&format!("% {at}[OST:0]")),
            "{table}"
        );
        assert_eq!(lines.len(), 2 + count + 3, "{table}");
        assert!(
            lines[2 + count].is_empty() && lines[3 + count].starts_with("filesystem_summary:  "),
            "{table}"
        );
        let sum: u64 = lines[2..2 + count]
            .iter()
            .map(|l| l.split_whitespace().nth(1).unwrap_or("").parse::<u64>().expect("blocks"))
            .sum();
        assert_eq!(lines[3 + count].split_whitespace().nth(1), Some(&*sum.to_string()), "{table}");
        assert!(lfs(&mnt, &["df", "-i", "."]).starts_with(
            "UUID                      Inodes       IUsed       IFree IUse% Mounted on\n"
        ));
        assert!(lfs(&mnt, &["df", "-h", "."]).starts_with(
            "UUID                       bytes        Used   Available Use% Mounted on\n"
        ));

        let name = lfs(&mnt, &["getname", "."]);
        let instance = lfs(&mnt, &["getname", "-i", "."]);
        assert_eq!((name.clone(), instance.trim().len()), (format!("sheen-{instance}"), 16));
        assert_eq!(lfs(&mnt, &["getname", "-n", "."]), "sheen\n");

        sh(&mnt, "touch a; ln a b; ln -s a c; mkdir d");
        let fids = lfs(&mnt, &["path2fid", "a", "b", "c", "d"]);
        assert_eq!(
            masked(&fids),
            "a: [0xN:0xN:0xN]\nb: [0xN:0xN:0xN]\nc: [0xN:0xN:0xN]\nd: [0xN:0xN:0xN]\n"
        );
        let fid = |name: &str| lfs(&mnt, &["path2fid", name]);
        assert_eq!(fid("."), "[0x200000007:0x1:0x0]\n");
        assert!(fid("a") == fid("b") && fid("a") != fid("c") && fid("a") != fid("d"));
        // Asked for by name they are there; listed they are not, so that no copying tool carries
        // them about.
        assert_eq!(sh(&mnt, "getfattr -d -m - a d"), "");
    });
}

#[test]
fn users_see_layouts_and_may_not_change_those_of_others() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        sh(&mnt, "mkdir open; chmod 1777 open; mkdir closed");
        let user = |args: &[&str]| {
            let mut command = Command::new(e2e::sheen());
            command
                .arg0("lfs")
                .args(args)
                .current_dir(&mnt)
                .stdin(Stdio::null())
                .uid(12345)
                .gid(12345);
            command.output()
        };
        if let Err(error) = user(&["--version"]) {
            return eprintln!("skipped: another user cannot run the binary: {error}");
        }
        let user = |args: &[&str]| user(args).expect("lfs runs as a user");
        let status = |args: &[&str]| user(args).status.code();
        assert_eq!(status(&["setstripe", "-c", "2", "open/f"]), Some(0));
        assert_eq!(status(&["setstripe", "-c", "2", "closed/f"]), Some(libc::EACCES));
        assert_eq!(status(&["setstripe", "-c", "2", "closed"]), Some(libc::EACCES));
        assert_eq!(status(&["setstripe", "-c", "2", "open"]), Some(libc::EPERM));
        let shown = lfs(&mnt, &["getstripe", "-v", "closed"]);
        assert_eq!(user(&["getstripe", "-v", "closed"]).stdout, shown.as_bytes());
        assert_eq!(status(&["df", "."]), Some(0));
    });
}

/// Each component can name the OSTs that it gets when it is written, as can the default layout of a
/// directory.
#[test]
fn osts_can_be_named_for_later_components_and_for_directories() {
    everywhere(|cluster| {
        let mnt = cluster.mount();
        let offsets = |file: &str| {
            let text = lfs(&mnt, &["getstripe", file]);
            let of =
                |line: &str| line.split_once("lmm_stripe_offset: ").map(|(_, at)| at.to_owned());
            text.lines().filter_map(of).collect::<Vec<_>>()
        };
        let pfl = ["-E", "1M", "-c", "1", "-i1", "-E", "2M", "-i", "3", "-E", "-1", "-o", "2,0"];
        lfs(&mnt, &[&["setstripe"][..], &pfl, &["f"]].concat());
        assert_eq!(offsets("f"), ["1", "3", "2"]);
        let content = bytes(3_000_000);
        fs::write(mnt.join("f"), &content).expect("write");
        assert_eq!(offsets("f"), ["1", "3", "2"]);
        let rows = lfs(&mnt, &["getstripe", "-q", "f"]);
        let osts: Vec<&str> = rows
            .lines()
            .filter_map(|row| row.split("l_ost_idx:").nth(1)?.split(',').next())
            .collect();
        assert_eq!(
            osts.iter().map(|ost| ost.trim()).collect::<Vec<_>>(),
            ["1", "3", "2", "0"],
            "{rows}"
        );
        assert!(fs::read(mnt.join("f")).expect("read") == content, "bytes differ");
        // Components that are added later name OSTs, too.
        lfs(&mnt, &["setstripe", "-E", "1M", "-i", "0", "g"]);
        lfs(&mnt, &["setstripe", "--component-add", "-E", "-1", "-i", "2", "g"]);
        assert_eq!(offsets("g"), ["0", "2"]);

        fs::create_dir(mnt.join("d")).expect("a folder");
        lfs(&mnt, &["setstripe", "-c", "2", "-i", "3", "d"]);
        let default =
            "stripe_count:  2 stripe_size:   4194304 pattern:       raid0 stripe_offset: 3\n\n";
        assert_eq!(lfs(&mnt, &["getstripe", "-d", "d"]), default);
        sh(&mnt, "touch d/1 d/2; mkdir d/sub; touch d/sub/3");
        assert_eq!(lfs(&mnt, &["getstripe", "-i", "d/1", "d/2", "d/sub/3"]), "3\n3\n3\n");
        lfs(&mnt, &["setstripe", "-o", "2,0,1", "d"]);
        sh(&mnt, "touch d/listed");
        let rows = lfs(&mnt, &["getstripe", "-q", "d/listed"]);
        let osts: Vec<&str> =
            rows.lines().filter_map(|row| row.split_whitespace().next()).collect();
        assert_eq!(osts, ["2", "0", "1"], "{rows}");
        cluster.stop();
        cluster.start();
        sh(&mnt, "touch d/later");
        assert_eq!(lfs(&mnt, &["getstripe", "-i", "d/later"]), "2\n");
    });
}

#[test]
fn files_get_their_layout_as_long_as_they_have_none_of_their_own() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
    // The umask decides, as for every program.
    sh(
        &mnt,
        &format!(
            "ln -s {} ../lfs; (umask 0; ../lfs setstripe -c 1 open); (umask 27; ../lfs setstripe -c 1 shut)",
            e2e::sheen().display()
        ),
    );
    assert_eq!(sh(&mnt, "stat -c %a open shut"), "666\n640\n");
    // mknod(2) makes a file that was never opened for writing: it takes a layout once, and keeps
    // what is written.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        mnt.join("made"),
        rustix::fs::FileType::RegularFile,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("mknod");
    lfs(&mnt, &["setstripe", "-c", "3", "made"]);
    assert_eq!(lfs(&mnt, &["getstripe", "-c", "made"]), "3\n");
    let said = |file: &str| format!("error: setstripe: can't create '{file}': File exists (17)\n");
    refused(&mnt, &["setstripe", "-c", "2", "made"], 17, &said("made"));
    refused(&mnt, &["setstripe", "-c", "2", "open"], 17, &said("open"));
    sh(&mnt, ": > opened; mkfifo pipe");
    refused(&mnt, &["setstripe", "-c", "2", "opened"], 17, &said("opened"));
    refused(&mnt, &["setstripe", "-c", "2", "pipe"], 17, &said("pipe"));
    assert_eq!(sh(&mnt, "stat -c %a made"), "600\n");
}

#[test]
fn values_stand_behind_their_options_and_components_are_chosen() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
    lfs(&mnt, &["setstripe", "-E1M", "-c1", "-S64K", "-E2M", "-c2", "-E-1", "-c-1", "f"]);
    let get = |words: &str| {
        lfs(&mnt, &[&["getstripe"][..], &words.split(' ').collect::<Vec<_>>(), &["f"]].concat())
    };
    let ids = |text: &str| {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("lcme_id:")?.trim().parse().ok())
            .collect::<Vec<u32>>()
    };
    let all = ids(&get("-v").replace("- lcme", "lcme"));
    assert_eq!(all.len(), 3);
    assert_eq!(ids(&get(&format!("-I{}", all[1]))), all[1..2]);
    assert_eq!(ids(&get(&format!("--component-id={}", all[2]))), all[2..]);
    for (words, expected) in [
        ("--component-start=1M", &all[1..2]),
        ("--component-start=+0", &all[1..]),
        ("--component-start=-2M", &all[..2]),
        ("--component-end=eof", &all[2..]),
        ("-E-2M", &all[..1]),
        ("--component-end=+1M", &all[1..]),
        ("--component-flags=init", &all[..1]),
        ("--component-flags=^init", &all[1..]),
        ("--component-flags=stale", &[]),
        ("--mirror-id=0 --component-start=0", &all[..1]),
        ("--mirror-index=^1", &[]),
    ] {
        assert_eq!(ids(&get(words)), expected, "{words}");
    }
    assert_eq!(get("-c --component-start=1M"), "2\n");
    assert_eq!(
        get("--component-start -c --component-end=eof"),
        "lcme_extent.e_start: 2097152\nlmm_stripe_count:  -1\n"
    );
    // Without a path all mounts of the machine would be listed, also those of other tests, whose
    // daemons may be gone.
    assert!(lfs(&mnt, &["df", "-m0", "."]).contains("MDT0000"));
    assert!(!lfs(&mnt, &["df", "-o1", "."]).contains("OST0000"));
    let said = "error: setstripe: files have no mirrors yet; only -N1 can be had\n";
    refused(&mnt, &["setstripe", "-N2", "m"], 95, said);
    lfs(&mnt, &["setstripe", "-N1", "-c2", "m"]);
    // A listing says so for entries without a layout.
    sh(&mnt, "mkdir l; ln -s ../f l/link; mkfifo l/pipe");
    let listed = lfs(&mnt, &["getstripe", "l"]);
    assert!(listed.contains("l/link has no stripe info\nl/pipe has no stripe info\n"), "{listed}");
}
