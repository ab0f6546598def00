//! Everything a user at the terminal sees: help texts (golden), wrong usage, missing things. No
//! root, no mount needed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn sheen(args: &[&str]) -> Output {
    called_as("sheen", args)
}

/// Runs the binary under another name.
fn called_as(name: &str, args: &[&str]) -> Output {
    use std::os::unix::process::CommandExt;
    Command::new(env!("CARGO_BIN_EXE_sheen"))
        .arg0(name)
        .args(args)
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .output()
        .expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Fails with this code and one sentence that has these words; standard output stays empty.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_eq!(stdout(output), "", "talk belongs on standard error");
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

/// `SHEEN_BLESS=1 cargo test` writes the files; a person reads the difference.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SHEEN_BLESS").is_some() {
        fs::write(&path, text).expect("write the golden file");
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(text, expected, "{name} changed; if it should, run with SHEEN_BLESS=1 and commit");
}

#[test]
fn help_is_what_was_agreed() {
    let top = sheen(&["--help"]);
    assert_eq!(top.status.code(), Some(0));
    assert_eq!(stderr(&top), "");
    golden("help.txt", &stdout(&top));
    for command in [
        "up",
        "down",
        "status",
        "serve",
        "router",
        "mkfs",
        "mount",
        "top",
        "why",
        "dash",
        "auth",
        "completion",
        "man",
    ] {
        let help = sheen(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        golden(&format!("help-{command}.txt"), &stdout(&help));
    }
    for command in [
        "export",
        "init",
        "issue",
        "install",
        "join",
        "list",
        "revoke",
        "renew",
        "rotate-ca",
        "show",
        "token",
        "trust",
    ] {
        let help = sheen(&["auth", command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        golden(&format!("help-auth-{command}.txt"), &stdout(&help));
    }
    golden("help-bench.txt", &stdout(&sheen(&["bench", "--help"])));
    for item in [
        "mdtest", "io", "ls", "find", "build", "rtt", "warm", "watched", "wan", "mdts", "net",
        "report", "memory", "engine",
    ] {
        let help = sheen(&["bench", item, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{item}");
        golden(&format!("help-bench-{item}.txt"), &stdout(&help));
    }
    golden("help-lctl.txt", &stdout(&called_as("lctl", &["--help"])));
    for command in [
        "dl",
        "get_param",
        "set_param",
        "list_param",
        "help_param",
        "conf_param",
        "del_ost",
        "del_mdt",
        "mark",
        "dk",
        "clear",
        "pool_new",
        "pool_add",
        "pool_remove",
        "pool_destroy",
        "pool_list",
        "nodemap_activate",
        "nodemap_add",
        "nodemap_del",
        "nodemap_modify",
        "nodemap_add_range",
        "nodemap_add_idmap",
        "nodemap_set_fileset",
        "nodemap_info",
        "nodemap_test_nid",
        "nodemap_test_id",
        "list_nids",
        "ping",
        "which_nid",
        "net_drop_add",
        "net_drop_del",
        "net_drop_reset",
        "net_drop_list",
        "net_delay_add",
        "net_delay_del",
        "net_delay_reset",
        "net_delay_list",
        "activate",
        "deactivate",
        "abort_recovery",
        "abort_recovery_mdt",
    ] {
        let help = called_as("lctl", &[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        golden(&format!("help-lctl-{command}.txt"), &stdout(&help));
    }
    golden("help-lfs.txt", &stdout(&called_as("lfs", &["--help"])));
    for command in [
        "setstripe",
        "getstripe",
        "osts",
        "mdts",
        "df",
        "path2fid",
        "getname",
        "find",
        "check",
        "mkdir",
        "getdirstripe",
        "ladvise",
        "flushctx",
        "getsom",
        "pool_list",
        "fid2path",
        "rmfid",
        "data_version",
        "swap_layouts",
        "migrate",
    ] {
        let help = called_as("lfs", &[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        golden(&format!("help-lfs-{command}.txt"), &stdout(&help));
    }
    golden("help-lshowmount.txt", &stdout(&called_as("lshowmount", &["--help"])));
    golden("help-lnetctl.txt", &stdout(&called_as("lnetctl", &["--help"])));
    for command in [
        "net show",
        "net add",
        "net del",
        "peer show",
        "peer add",
        "peer del",
        "route show",
        "route add",
        "route del",
        "routing show",
        "ping",
        "discover",
        "export",
        "import",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = called_as("lnetctl", &words);
        assert_eq!(help.status.code(), Some(0), "{command}");
        golden(&format!("help-lnetctl-{}.txt", command.replace(' ', "-")), &stdout(&help));
    }
}

/// Runs a program that reads its commands.
fn reading(name: &str, input: &str) -> Output {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheen"));
    command.arg0(name).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // It may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

#[test]
fn commands_are_read_where_none_is_given() {
    let one = stdout(&called_as("lctl", &["help_param", "lod.*.stripecount"]));
    let read = reading(
        "lctl",
        "# says nothing\n\n help_param 'lod.*.stripecount'\nquit\nhelp_param lod.*.stripesize\n",
    );
    assert_eq!(
        (stdout(&read), stderr(&read), read.status.code()),
        (one.clone(), String::new(), Some(0))
    );
    // A failure does not end it; the last command counts.
    let read = reading("lctl", "help_param no.such\nhelp_param \"lod.*.stripecount\"");
    assert_eq!((stdout(&read), read.status.code()), (one, Some(0)));
    assert_eq!(
        stderr(&read),
        "error: help_param: param_path 'no/such': No such file or directory\n"
    );
    let read = reading("lfs", "getstripe /no/such/file\n");
    assert_eq!(read.status.code(), Some(2), "{}", stderr(&read));
    let read = reading("lfs", "mirror create x\nsetstrip x\nsetstripe -c many x\n");
    assert_eq!(read.status.code(), Some(22), "{}", stderr(&read));
    assert_eq!(stderr(&read).lines().count(), 3, "{}", stderr(&read));
    assert_eq!(reading("lfs", "").status.code(), Some(0));
    let long = format!("getstripe {}\n", "x".repeat(70_000));
    assert!(stderr(&reading("lfs", &long)).contains("65536 bytes"));
    for (name, some) in
        [("lfs", ["fid2path", "setstripe", "find"]), ("lctl", ["get_param", "net_drop_add", "dl"])]
    {
        let list = stdout(&called_as(name, &["--list-commands"]));
        assert!(some.iter().all(|command| list.lines().any(|line| line == *command)), "{list}");
    }
    // Everything, each with its meaning.
    let all = stdout(&called_as("lctl", &["help_param"]));
    assert!(
        all.contains("lod.*.stripesize\n    Stripe size")
            && all.matches("\n    may be: ").count() > 80,
        "{all}"
    );
}

#[test]
fn lfs_fails_with_errno_in_lustre_s_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("f");
    let path = file.to_str().expect("text");
    for (args, status, said) in [
        (
            &["getstripe", path][..],
            2,
            "error: getstripe: can't get layout of 'F': No such file or directory (2)\n",
        ),
        (
            &["setstripe", "-c", "2", path],
            95,
            "error: setstripe: can't create 'F': it is on no SheenFS mount: Operation not supported (95)\n",
        ),
        (
            &["df", "/proc"],
            95,
            "error: df: can't ask the mount of '/proc': it is on no SheenFS mount: Operation not supported (95)\n",
        ),
        (
            &["path2fid", "/proc"],
            95,
            "error: path2fid: can't get FID of '/proc': Operation not supported (95)\n",
        ),
        (
            &["setstripe", "-i", "1", "-o", "2", path],
            22,
            "error: setstripe: the OST of the first stripe (-i) is not the first of the list (-o): Invalid argument (22)\n",
        ),
    ] {
        let output = called_as("lfs", args);
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(status), said.replace("'F'", &format!("'{path}'"))),
            "{args:?}"
        );
        assert_eq!(stdout(&output), "");
    }
    assert!(!file.exists(), "a file that could not be made as wished is not made");
    refused(
        &called_as("lfs", &["setstripe", "-S", "1000", path]),
        22,
        &["error: setstripe:", "--stripe-size", "65536"],
    );
    refused(&called_as("lfs", &["no-such-command"]), 22, &["error: lfs:", "no-such-command"]);
    assert!(stdout(&called_as("lfs", &["--version"])).starts_with("lfs 0."));
    assert!(stdout(&called_as("lfs", &["help", "setstripe"])).contains("--stripe-count"));
    assert_eq!(sheen(&["lfs", "getstripe", path]).status.code(), Some(2));
}

#[test]
fn a_link_plays_the_program_of_its_name() {
    for name in ["mkfs.sheen", "mount.sheen"] {
        let help = called_as(&format!("/sbin/{name}"), &["--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(stdout(&help).contains(&format!("Usage: {name}")), "{}", stdout(&help));
        refused(&called_as(name, &["--bogus"]), 64, &[name, "--bogus"]);
    }
    for name in ["mkfs.lustre", "mount.lustre"] {
        let help = called_as(&format!("/sbin/{name}"), &["--help"]);
        assert!(
            help.status.success() && stdout(&help).contains(&format!("Usage: {name}")),
            "{}",
            stdout(&help)
        );
        golden(&format!("help-{name}.txt"), &stdout(&help));
        refused(&called_as(name, &["--bogus"]), 64, &[name, "--bogus"]);
    }
    assert!(stdout(&sheen(&["mkfs.sheen", "--help"])).contains("--mgsnode"));
    assert!(stdout(&called_as("mount.sheen", &["--version"])).starts_with("mount.sheen 0."));
}

#[test]
fn wrong_usage_is_64_and_one_sentence() {
    for (args, words) in [
        (&["--no-such-flag"][..], &["--no-such-flag"][..]),
        (&["no-such-command"], &["no-such-command"]),
        (&["up", "--ots", "1"], &["--ots", "--osts", "sheen up --help"]),
        (&["up", "--osts", "0"], &["0", "1..=4096"]),
        (&["up", "--osts", "many"], &["many"]),
        (&["up", "--listen", "here"], &["\"here\"", "127.0.0.1:988"]),
        (
            &["up", "--listen", "0.0.0.0:988", "/nonexistent/x"],
            &["0.0.0.0:988", "others can reach"],
        ),
        (&["up", "--fsname", "much-too-long"], &["\"much-too-long\"", "1 to 8"]),
        (&["up", "--ost-size", "huge"], &["\"huge\"", "64M"]),
        (&["up", "--ost-size", "1M", "/nonexistent/x"], &["ost_bytes"]),
        (&["up", "a", "b"], &["'b'"]),
        (&["down", "--timeout", "5"], &["\"5\"", "5s"]),
        (&["serve"], &["DIR"]),
        (&["mkfs", "/tmp/x"], &["--mgs", "--mdt", "--ost"]),
        (&["mkfs", "--mdt", "--ost", "/tmp/x"], &["--mdt", "--ost"]),
        (&["mkfs", "--ost", "--mgsnode", "10.0.0.1", "/tmp/x"], &["\"10.0.0.1\" is no NID"]),
        (&["mkfs", "--mgs", "--index", "1", "/tmp/x"], &["--index"]),
        (&["mount", "/dev/sda1", "/mnt"], &["\"/dev/sda1\" names no file system"]),
        (&["mount", "10.0.0.1@tcp:/sheen", "/mnt", "-o", "ro,bogus"], &["\"bogus\"", "nosuid"]),
        (&["completion", "tcsh"], &["tcsh", "bash"]),
    ] {
        refused(&sheen(args), 64, words);
    }
}

#[test]
fn folders_without_a_node_say_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("UTF-8");
    refused(&sheen(&["status", path]), 1, &[path, "no home"]);
    refused(&sheen(&["down", path]), 1, &[path, "no home"]);
    refused(&sheen(&["status", "/nonexistent/x"]), 1, &["/nonexistent/x", "no home"]);
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("write");
    let file = file.to_str().expect("UTF-8");
    refused(&sheen(&["status", file]), 1, &["is no directory"]);
    refused(&sheen(&["up", file]), 2, &[file, "is no directory"]);
}

#[test]
fn serving_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("UTF-8");
    refused(&sheen(&["serve", path]), 2, &[path, "holds no target", "mkfs.sheen"]);
    assert_eq!(fs::read_dir(path).expect("list").count(), 0, "nothing was left there");
}

#[test]
fn a_home_that_is_down_is_known() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("node.toml"), "targets = [\"mgt\"]\n").expect("write");
    let path = dir.path().to_str().expect("UTF-8");
    let status = sheen(&["status", path]);
    assert_eq!((status.status.code(), stdout(&status)), (Some(1), format!("{path}: down\n")));
    let json: serde_json::Value =
        serde_json::from_slice(&sheen(&["status", path, "--json"]).stdout).expect("JSON");
    assert_eq!(json, serde_json::json!({ "home": path, "state": "down" }));
    let down = sheen(&["down", path]);
    assert_eq!(down.status.code(), Some(0));
    assert!(stderr(&down).contains("not up"), "{}", stderr(&down));
}

#[test]
fn broken_settings_are_explained() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("node.toml"), "targets = [\"mgt\"]\nosts = 3\n").expect("write");
    let path = dir.path().to_str().expect("UTF-8");
    refused(&sheen(&["up", path]), 2, &["node.toml", "unknown field `osts`"]);
    refused(&sheen(&["serve", path]), 2, &["node.toml", "unknown field `osts`"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    // /proc refuses even root.
    refused(&sheen(&["up", "/proc/sheen"]), 2, &["/proc/sheen"]);
}

#[test]
fn man_pages_and_completion_are_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let pages: PathBuf = dir.path().join("man8");
    let output = sheen(&["man", pages.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let listed = stdout(&output);
    assert!(listed.lines().all(|l| Path::new(l).is_file()), "{listed}");
    assert!(listed.lines().any(|l| Path::new(l).file_name() == Some(OsStr::new("mount.sheen.8"))));
    assert!(stdout(&sheen(&["completion", "bash"])).contains("complete -F _sheen"));
    refused(&sheen(&["man", "/proc/nowhere"]), 2, &["/proc/nowhere"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sheen"))
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

/// Lustre's spellings make the same as SheenFS's own; options without a meaning here are refused
/// with the reason.
#[test]
fn lustre_s_names_of_mkfs_and_mount() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let ost = path("ost");
    let make = [
        "--ost",
        "--fsname=lfs1",
        "--index=3",
        "--mgsnode=10.0.0.1@tcp,10.1.0.1@tcp",
        "--mgsnode=10.0.0.2@tcp",
    ];
    let made = called_as("mkfs.lustre", &[&make[..], &["--quiet", &ost]].concat());
    assert!(made.status.success() && made.stderr.is_empty(), "{}", stderr(&made));
    let settings = fs::read_to_string(format!("{ost}/node.toml")).expect("what --mgsnode says");
    for nid in ["10.0.0.1@tcp", "10.1.0.1@tcp", "10.0.0.2@tcp", "lfs1"] {
        assert!(settings.contains(nid), "{settings}");
    }
    refused(&called_as("mkfs.lustre", &[&make[..], &[&ost]].concat()), 2, &["mkfs.lustre: ", &ost]);
    let again = called_as("mkfs.lustre", &[&make[..], &["--reformat", &ost]].concat());
    assert!(again.status.success() && stderr(&again).contains("made an OST"), "{}", stderr(&again));
    let dry = called_as("mkfs.lustre", &["--mgs", "-n", &path("mgt")]);
    assert!(
        dry.status.success() && stderr(&dry).contains("would make the MGT"),
        "{}",
        stderr(&dry)
    );
    assert!(!dir.path().join("mgt").exists());
    let file = path("device");
    fs::write(&file, b"").expect("write");
    for (args, words) in [
        (&["--mgs", "--mdt", "x"][..], "two directories"),
        (&["x"], "--mgs, --mdt or --ost"),
        (&["--ost", "--servicenode=10.0.0.1", "x"], "is no NID"),
        (&["--mgs", "--servicenode=10.0.0.1@tcp", "x"], "--servicenode"),
        (&["--mdt", "--backfstype", "zfs", "x"], "--backfstype is not offered"),
        (&["--ost", "--param", "sys.timeout=40", "x"], "lctl set_param -P"),
        (&["--ost", "--replace", "x"], "--replace is not offered"),
        (&["--mgs", "--index=0", "x"], "--index"),
        (&["--ost", &file], "no directory"),
    ] {
        refused(&called_as("mkfs.lustre", args), 64, &["mkfs.lustre: ", words]);
    }
    let mount = |args: &[&str]| called_as("mount.lustre", args);
    let fake = mount(&[
        "-f",
        "-v",
        "-t",
        "lustre",
        "10.0.0.1@tcp,10.1.0.1@tcp:10.0.0.2@tcp:/lfs1",
        "/mnt/x",
        "-o",
        "flock,user_xattr,acl,lazystatfs,_netdev,ro",
    ]);
    let said = "mount 10.0.0.1@tcp,10.1.0.1@tcp,10.0.0.2@tcp:/lfs1 at /mnt/x with ro\n";
    assert!(fake.status.success() && stderr(&fake).ends_with(said), "{}", stderr(&fake));
    refused(
        &mount(&["-f", "10.0.0.1@tcp:/x", "/mnt/x", "-o", "noacl"]),
        64,
        &["noacl is not offered", "ACLs"],
    );
    refused(&mount(&["-f", "10.0.0.1@tcp:/x", "/mnt/x", "-o", "bogus"]), 64, &["bogus"]);
    refused(&mount(&[&ost, "/mnt/x"]), 64, &["mount.lustre: ", "sheen serve"]);
}
