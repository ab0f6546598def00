//! Output of every command of `lfs` and `lctl`, to the character: the transcript of one session.
//!
//! The forms are Lustre's. Values that differ from run to run are replaced by words of the same
//! width, but only where they stand and if they have the required form. FIDs become `F1`, `F2`, ...
//! (which shows the equal ones); the others are numbers of space, versions, ports and ids.
//! `SHEEN_BLESS=1` writes the transcript again; a person reads the difference.

use e2e::cluster::Cluster;
use e2e::lustre::{lfs, pool_list, soon, try_lfs};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Output;

/// One command a line, `#` begins a heading; `{name}` is the FID of that file.
const SESSION: &str = include_str!("golden/session.txt");

/// The values of this run, and the words that replace them.
struct Masks {
    mount: String,
    /// Number of the mount, 16 hexadecimal digits.
    instance: String,
    uuid: String,
    /// (sequence, object) of each FID met so far; fixed ones are not among them.
    fids: Vec<(u64, u64)>,
}

impl Masks {
    fn of(mnt: &Path) -> Masks {
        let name = |letter| lfs(mnt, &["getname", letter, "."]).trim_end().to_owned();
        let (instance, uuid) = (name("-i"), name("-u"));
        assert!(
            instance.len() == 16 && instance.bytes().all(|b| b.is_ascii_hexdigit()),
            "{instance}"
        );
        assert_eq!(uuid.len(), 36, "{uuid}");
        Masks { mount: mnt.display().to_string(), instance, uuid, fids: Vec::new() }
    }

    /// `F1` for the first that is met.
    fn fid(&mut self, seq: u64, oid: u64) -> String {
        let known = self.fids.iter().position(|fid| *fid == (seq, oid));
        let number = known.unwrap_or_else(|| {
            self.fids.push((seq, oid));
            self.fids.len() - 1
        });
        format!("F{}", number + 1)
    }

    /// All text of a command.
    fn text(&mut self, command: &str, text: &str) -> String {
        let text = text
            .replace(&self.mount, "/MNT")
            .replace(&self.instance, "INSTANCE-OF-16-X")
            .replace(&self.uuid, "UUID");
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            out.push_str(&self.line(command, line));
            out.push_str(end);
        }
        out
    }

    fn line(&mut self, command: &str, line: &str) -> String {
        let line = self.fids_of(&ports_of(line));
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["lfs", "df", ..] if !words.contains(&"-u") => table(&line),
            ["lfs", "data_version", ..] => number(&line),
            ["lctl", "dl", ..] if !line.contains(": ") => device(&line),
            ["lfs", "getsom", "-b", ..] => number(&line),
            ["lfs", "getsom", ..] => behind(&line, "blocks: "),
            ["lfs", "getstripe", ..] if line.starts_with('\t') => self.object(&line),
            ["lfs", "getstripe", ..] => {
                behind(&behind(&line, "lmm_seq:           "), "lmm_object_id:     ")
            }
            ["lctl", "get_param", ..] => parameter(&line),
            _ => line,
        }
    }

    /// `[0x200000401:0x2:0x0]` becomes `[F1:0x0]`. Those that are the same in every file system
    /// stay.
    fn fids_of(&mut self, line: &str) -> String {
        let (mut out, mut rest) = (String::new(), line);
        while let Some(at) = rest.find("[0x") {
            let end = rest[at..].find(']').map_or(rest.len(), |end| at + end);
            let parts: Vec<Option<u64>> = rest[at + 1..end]
                .split(':')
                .map(|part| {
                    part.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
                })
                .collect();
            out.push_str(&rest[..at]);
            match parts[..] {
                [Some(seq @ 0x2_0000_0400..=0x2_0000_0ffe), Some(oid), Some(ver)] => {
                    write!(out, "[{}:{ver:#x}", self.fid(seq, oid)).expect("memory");
                }
                _ => out.push_str(&rest[at..end]),
            }
            rest = &rest[end..];
        }
        out + rest
    }

    /// A row of objects: `"\t%6u\t%14llu\t%#13llx\t%#14llx"`.
    fn object(&mut self, line: &str) -> String {
        let cells: Vec<&str> = line.split('\t').collect();
        let ["", ost, id, hex, seq] = cells[..] else { return line.to_owned() };
        assert_eq!([ost.len(), id.len(), hex.len(), seq.len()], [6, 14, 13, 14], "{line:?}");
        let parsed = |text: &str| {
            u64::from_str_radix(text.trim_start().trim_start_matches("0x"), 16).expect(line)
        };
        let (oid, seq) = (parsed(hex), parsed(seq));
        assert_eq!(id.trim_start().parse(), Ok(oid), "{line:?}");
        let name = self.fid(seq, oid);
        format!(
            "\t{ost}\t{:>14}\t{:>13}\t{:>14}",
            format!("{name}.oid"),
            format!("{name}.oid"),
            format!("{name}.seq")
        )
    }
}

/// Ports of this host.
fn ports_of(line: &str) -> String {
    let mut parts = line.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(rest.len() < part.len(), "an address without a port: {line}");
        write!(out, "127.0.0.1:PORT{rest}").expect("memory");
    }
    out
}

/// A number alone.
fn number(line: &str) -> String {
    if !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()) {
        "NUMBER".to_owned()
    } else {
        line.to_owned()
    }
}

/// The word behind `label`, which must be a number.
fn behind(line: &str, label: &str) -> String {
    let Some((before, value)) = line.split_once(label) else { return line.to_owned() };
    let len = value.find(' ').unwrap_or(value.len());
    let (value, rest) = value.split_at(len);
    let digits = value.strip_prefix("0x").unwrap_or(value);
    assert!(!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
    format!("{before}{label}{}{rest}", if value.starts_with("0x") { "0xNUMBER" } else { "NUMBER" })
}

/// A row of `lfs df`: `"%-20s %11llu %11llu %11llu %3d%% %s"`. Numbers become `N`, in the column's
/// width.
fn table(line: &str) -> String {
    if !(line.contains("_UUID ") || line.starts_with("filesystem_summary:")) {
        return line.to_owned();
    }
    let (name, rest) = line.split_at(20);
    let mut out = name.to_owned();
    let mut rest = rest;
    for width in [11, 11, 11] {
        let (cell, more) = rest.split_at(1 + width);
        let value = cell.trim_start();
        let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let shown = match value.split_once('.') {
            Some((_, part)) => {
                assert!(part.len() == 2 && unit.len() == 1, "one digit and a unit: {line:?}");
                format!("N.N{}", "U")
            }
            None => {
                assert!(unit.is_empty() && !value.is_empty(), "{line:?}");
                "N".to_owned()
            }
        };
        write!(out, " {shown:>width$}").expect("memory");
        rest = more;
    }
    let (share, place) = rest.split_at(5);
    assert!(share.ends_with('%') && share[..4].trim_start().parse::<u8>().is_ok(), "{line:?}");
    format!("{out}   N%{place}")
}

/// A row of `lctl dl`: `"%3d %s %s %s %s %d"`.
fn device(line: &str) -> String {
    let words: Vec<&str> = line.trim_start().split(' ').collect();
    let (words, nid) = words.split_at(words.len().min(6));
    let [_, state, kind, name, uuid, refs] = words[..] else { return line.to_owned() };
    let nid: String = nid.iter().map(|nid| format!(" {nid}")).collect();
    assert!(refs.parse::<u32>().is_ok(), "{line:?}");
    let uuid = if uuid.len() == 36 { "UUID" } else { uuid };
    format!("{} {state} {kind} {name} {uuid} N{nid}", &line[..3])
}

/// Times and counts of a parameter's lines.
fn parameter(line: &str) -> String {
    let mut out = String::new();
    let mut digits = false;
    let from =
        line.find(['=', ':']).filter(|_| !line.contains("_UUID")).map_or(line.len(), |at| at + 1);
    for (at, c) in line.char_indices() {
        match c.is_ascii_digit() && at >= from {
            true if digits => {}
            true => out.push('N'),
            false => out.push(c),
        }
        digits = c.is_ascii_digit() && at >= from;
    }
    out
}

/// The client and the MDT hear of a change a moment after the MGS.
fn wait_for_pool(cluster: &Cluster, mnt: &Path) {
    let wanted = "Pool: sheen.flash\nsheen-OST0001_UUID\nsheen-OST0002_UUID\n".to_owned();
    soon(&wanted, || pool_list(mnt, "sheen.flash"));
    let known = || {
        String::from_utf8_lossy(&cluster.lctl(&["get_param", "-n", "lod.*.pools.flash"]).stdout)
            .into_owned()
    };
    soon(&"sheen-OST0001_UUID\nsheen-OST0002_UUID\n".to_owned(), known);
}

/// Words of a line; `{two}` becomes the FID of `two`.
fn words(line: &str, mnt: &Path) -> Vec<String> {
    let meant = |word: &str| match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        Some(file) => lfs(mnt, &["path2fid", file]).trim_end().to_owned(),
        None => word.to_owned(),
    };
    line.split(' ').map(meant).collect()
}

#[test]
fn every_command_prints_what_it_always_printed() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Cluster::up(&["--osts", "4"]);
    let mnt = cluster.mount();
    // The OST of a file that names none is not fixed: here each names its own.
    lfs(&mnt, &["setstripe", "-i", "0", "other"]);
    fs::write(mnt.join("other"), vec![1; 100_000]).expect("write");
    let mut masks = Masks::of(&mnt);
    let mut transcript = String::new();
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for line in SESSION.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            write!(transcript, "\n# {heading}\n").expect("memory");
            continue;
        }
        let words = words(line, &mnt);
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        used.insert((
            words[0].clone(),
            args.iter().find(|arg| !arg.starts_with('-')).unwrap_or(&"").to_string(),
        ));
        used.extend(args.iter().map(|arg| (words[0].clone(), (*arg).to_owned())));
        let output: Output = match &*words[0] {
            "lfs" => try_lfs(&mnt, &args),
            "lctl" => cluster.lctl(&args),
            other => panic!("{other} is neither lfs nor lctl"),
        };
        writeln!(transcript, "$ {line}").expect("memory");
        let stdout = String::from_utf8(output.stdout).expect("text").replace('\0', "\\0");
        let stdout = masks.text(line, &stdout);
        transcript += &stdout;
        if !stdout.is_empty() && !stdout.ends_with('\n') {
            transcript += "\\\n";
        }
        for said in masks.text("", &String::from_utf8(output.stderr).expect("text")).lines() {
            writeln!(transcript, "2> {said}").expect("memory");
        }
        match output.status.code() {
            Some(0) => {}
            Some(status) => writeln!(transcript, "[{status}]").expect("memory"),
            None => panic!("{line} was killed"),
        }
        if line == "lctl pool_remove sheen.flash OST0003" {
            wait_for_pool(&cluster, &mnt);
        }
    }
    // No command is forgotten.
    for program in ["lfs", "lctl"] {
        let output = match program {
            "lfs" => try_lfs(&mnt, &["--list-commands"]),
            _ => cluster.lctl(&["--list-commands"]),
        };
        for name in
            String::from_utf8(output.stdout).expect("text").lines().filter(|name| *name != "help")
        {
            assert!(
                used.contains(&(program.to_owned(), name.to_owned())),
                "{program} {name} is not in the session"
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/transcript.txt");
    if std::env::var_os("SHEEN_BLESS").is_some() {
        fs::write(&path, &transcript).expect("write the transcript");
    }
    let expected = fs::read_to_string(&path).expect("the transcript");
    e2e::programs::assert_same("transcripts", &expected, &transcript);
}
