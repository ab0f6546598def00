//! The authority is replaced while programs work: none of them notices, a server dies and starts in
//! the middle, hosts join before, during and after, and then a key that the old authority signed is
//! out, and stays out.

use super::Site;
use e2e::can_mount;
use e2e::need_program;
use e2e::process::{detach, kill_and_wait, text};
use seal::authority::{Authority, Subject};
use seal::credentials::Credentials;
use seal::fingerprint::Fingerprint;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use types::principal::Role;

/// Longest file of the model, bytes.
const MODEL_BYTES: usize = 1 << 20;
/// Most bytes of an operation of it.
const OPERATION_BYTES: usize = 64 << 10;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs at work; each counts its rounds, and ends with the first error.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    rounds: Vec<(&'static str, Arc<AtomicU64>)>,
    threads: Vec<(&'static str, JoinHandle<Result<(), String>>)>,
}

/// One of them: does a round, whose number it is told.
type Round = Box<dyn FnMut(u64) -> Result<(), String> + Send>;

impl Load {
    /// Two mounts of one file system, on two hosts.
    pub(super) fn start(one: &Path, other: &Path) -> Load {
        let mut load = Load { stop: Arc::default(), rounds: Vec::new(), threads: Vec::new() };
        load.add("files", files(one.to_owned(), other.to_owned()));
        load.add("model", model(one.join("model"), other.join("model")));
        load.add("build", build(other.join("build")));
        if let Some(program) = need_program("fsx") {
            load.add("fsx", fsx(program, one.join("fsx")));
        }
        load
    }

    fn add(&mut self, name: &'static str, mut round: Round) {
        let (stop, rounds) = (self.stop.clone(), Arc::new(AtomicU64::new(0)));
        self.rounds.push((name, rounds.clone()));
        let work = move || {
            while !stop.load(Ordering::SeqCst) {
                round(rounds.load(Ordering::SeqCst))?;
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        self.threads.push((name, std::thread::spawn(work)));
    }

    /// Waits until each has done a whole round from here on, so that what was just changed holds
    /// for all that it does in it.
    pub(super) fn goes_on(&self, site: &Site) {
        let now = |rounds: &AtomicU64| rounds.load(Ordering::SeqCst);
        let from: Vec<u64> = self.rounds.iter().map(|(_, rounds)| now(rounds)).collect();
        for ((name, rounds), from) in self.rounds.iter().zip(from) {
            wait(site, &format!("{name} goes on"), || now(rounds) > from + 1);
        }
    }

    pub(super) fn end(self, site: &Site) {
        self.stop.store(true, Ordering::SeqCst);
        for (name, thread) in self.threads {
            let ended = thread.join().expect("no panic");
            assert_eq!(ended, Ok(()), "{name}\n{}", site.logs());
        }
        for (name, rounds) in self.rounds {
            eprintln!("{name}: {} rounds", rounds.load(Ordering::SeqCst));
        }
    }
}

fn wait(site: &Site, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not after {PATIENCE:?}\n{}", site.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn said<T>(what: &str) -> impl Fn(io::Error) -> Result<T, String> + '_ {
    move |error| Err(format!("{what}: {error}"))
}

/// Bytes of a file, by its number.
fn content(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let bytes = random.usize(1..200_000);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Files are made durable and named through one mount, and read and removed through the other.
fn files(one: PathBuf, other: PathBuf) -> Round {
    Box::new(move |number| {
        let (fresh, name) = (one.join("fresh"), format!("file{number}"));
        let written = content(number);
        let mut file = File::create(&fresh).or_else(said("create"))?;
        file.write_all(&written).or_else(said("write"))?;
        file.sync_all().or_else(said("sync"))?;
        fs::rename(&fresh, one.join(&name)).or_else(said("rename"))?;
        let read = fs::read(other.join(&name)).or_else(said("read"))?;
        if read != written {
            return Err(format!("{name} has other bytes"));
        }
        // The newest are kept, to be read at the end.
        if number >= 50 {
            fs::remove_file(other.join(format!("file{}", number - 50))).or_else(said("remove"))?;
        }
        Ok(())
    })
}

/// A file is written, cut and read anywhere through both mounts, and compared with what it must be.
fn model(one: PathBuf, other: PathBuf) -> Round {
    let (mut must, mut random) = (Vec::new(), fastrand::Rng::with_seed(7));
    Box::new(move |number| {
        let open = |path: &Path| {
            File::options().read(true).write(true).create(true).truncate(false).open(path)
        };
        let path = if number % 2 == 0 { &one } else { &other };
        let file = open(path).or_else(said("open"))?;
        for _ in 0..50 {
            let at = random.usize(0..MODEL_BYTES);
            let bytes = random.usize(1..OPERATION_BYTES).min(MODEL_BYTES - at);
            match random.u8(0..8) {
                0 => {
                    must.resize(at, 0);
                    file.set_len(at as u64).or_else(said("truncate"))?;
                }
                1..=3 => {
                    let fill: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
                    must.resize(must.len().max(at + bytes), 0);
                    must[at..at + bytes].copy_from_slice(&fill);
                    file.write_all_at(&fill, at as u64).or_else(said("write"))?;
                }
                _ => {
                    let mut read = vec![0; bytes];
                    let got = file.read_at(&mut read, at as u64).or_else(said("read"))?;
                    let end = must.len().min(at + bytes).max(at);
                    let expected = must.get(at..end).unwrap_or_default();
                    if read[..got] != *expected {
                        return Err(format!("{bytes} bytes at {at} of round {number} differ"));
                    }
                }
            }
        }
        file.sync_all().or_else(said("sync"))
    })
}

/// A program of a few sources is built from nothing, and run.
fn build(dir: PathBuf) -> Round {
    const SOURCES: usize = 4;
    Box::new(move |number| {
        fs::create_dir(&dir).or_else(said("mkdir"))?;
        let mut names = String::new();
        for n in 0..SOURCES {
            let source = format!("int part{n}(void) {{ return {}; }}\n", number as usize % 50 + n);
            fs::write(dir.join(format!("part{n}.c")), source).or_else(said("write"))?;
            names += &format!(" part{n}.o");
        }
        let calls: Vec<String> = (0..SOURCES).map(|n| format!("part{n}()")).collect();
        let declared: String = (0..SOURCES).map(|n| format!("int part{n}(void);\n")).collect();
        let main = format!("{declared}int main(void) {{ return {}; }}\n", calls.join(" + "));
        fs::write(dir.join("main.c"), main).or_else(said("write"))?;
        let makefile = format!("program: main.o{names}\n\tcc -o $@ $^\n");
        fs::write(dir.join("Makefile"), makefile).or_else(said("write"))?;
        let made = Command::new("make").arg("-s").current_dir(&dir).output();
        let made = made.or_else(said("make"))?;
        if !made.status.success() {
            return Err(format!("make: {}", text(&made)));
        }
        let ran = Command::new(dir.join("program")).status().or_else(said("run"))?;
        let expected = SOURCES * (number as usize % 50) + SOURCES * (SOURCES - 1) / 2;
        if ran.code() != Some(expected as i32) {
            return Err(format!("the program that was built says {ran} for {expected}"));
        }
        fs::remove_dir_all(&dir).or_else(said("rm"))
    })
}

fn fsx(program: PathBuf, file: PathBuf) -> Round {
    Box::new(move |number| {
        let mut fsx = Command::new(&program);
        fsx.args(["-N", "500", "-S", &number.to_string()]).arg(&file);
        let ran = fsx.output().or_else(said("fsx"))?;
        match ran.status.success() {
            true => Ok(()),
            false => Err(format!("fsx: {}", text(&ran))),
        }
    })
}

/// The authority that signed the key in this file.
fn signer(path: &str) -> Fingerprint {
    key(path).authority()
}

fn key(path: &str) -> Credentials {
    Credentials::from_text(&fs::read_to_string(path).unwrap()).unwrap()
}

impl Site {
    pub(super) fn token(&self, uses: &str) -> String {
        let output = self.must(1, &["auth", "token", &self.at("mgt"), "--uses", uses]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A host joins; returns what it says, and the folder of its keys.
    fn join(&self, host: usize, token: &str, name: &str) -> (Output, PathBuf) {
        let keys = PathBuf::from(self.at(&format!("keys-{name}")));
        let mut command = self.hosts.command(host, &e2e::sheen());
        command
            .args(["auth", "join", token, "--name", name])
            .env("SHEEN_KEYS_DIR", &keys)
            .stdin(Stdio::null());
        (command.output().expect("sheen runs"), keys)
    }

    /// A host joins, and gets this key.
    pub(super) fn joined(&self, host: usize, token: &str, name: &str) -> String {
        let (output, keys) = self.join(host, token, name);
        assert!(output.status.success(), "{}\n{}", text(&output), self.logs());
        let mut files = fs::read_dir(keys).unwrap().map(|entry| entry.unwrap().path());
        let key = files.find(|path| path.extension().is_some_and(|ext| ext == "pem"));
        key.expect("a key").display().to_string()
    }

    /// Authorities that hold, names with good keys, and those of them that are behind, as
    /// `sheen status` of the MGS tells programs.
    fn standing(&self) -> [u64; 3] {
        let keys = &self.status_of_mgs()["keys"];
        ["authorities", "names", "behind"].map(|what| keys[what].as_u64().expect("a number"))
    }

    fn status_of_mgs(&self) -> serde_json::Value {
        let output = self.must(1, &["status", &self.at("mgt"), "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Waits until this is told by `sheen status`, by parameters and as metrics.
    fn stands(&self, expected: [u64; 3]) {
        wait(self, &format!("{expected:?}"), || self.standing() == expected);
        let [authorities, _, behind] = expected;
        // The MGS looks each half second.
        let shown = || {
            let all = ["mgs.MGS.authorities", "mgs.MGS.keys_behind", "mgs.MGS.keys_ending"];
            self.lctl(&[&["get_param", "-n"], &all[..]].concat())
        };
        let numbers = format!("{authorities}\n{behind}\n1\n");
        wait(self, &format!("{numbers:?}"), || shown() == numbers);
        let addr = self.status_of_mgs()["http"].as_str().expect("an address").to_owned();
        let (status, metrics) = self.hosts.on(1, || e2e::http::get(&addr, "/metrics", ""));
        assert_eq!(status, 200, "{metrics}");
        for gauge in [
            format!("sheen_mgs_authorities {authorities}.0"),
            format!("sheen_mgs_keys_behind {behind}.0"),
            "sheen_mgs_keys_ending 1.0".to_owned(),
        ] {
            assert!(metrics.lines().any(|line| line == gauge), "{gauge}\n{metrics}");
        }
    }

    fn list(&self) -> String {
        text(&self.must(1, &["auth", "list", &self.at("mgt")]))
    }

    /// Gives hosts with the keys in these files, and that of the MGS, new ones of the same
    /// authority, which are good for so long (options of `issue`). Each process takes its own.
    pub(super) fn renew_keys(&self, hosts: &[(&str, &str, &str)], life: &[&str]) {
        let taken = || self.logs().matches("the key was read again").count();
        let before = taken();
        for (name, role, path) in hosts {
            let mgt = self.at("mgt");
            let made = ["auth", "issue", &mgt, "--name", name, "--role", role];
            let made = [&made, life].concat();
            let made = String::from_utf8(self.must(1, &made).stdout).unwrap();
            fs::rename(self.keep(&format!("{name}.new"), &made), path).unwrap();
        }
        self.must(1, &[&["auth", "renew", &self.at("mgt")], life].concat());
        wait(self, "all take their new keys", || taken() > before + hosts.len());
    }

    /// A server dies, and starts again.
    pub(super) fn restart(&mut self, name: &str, again: impl FnOnce(&mut Site)) {
        let at = self.servers.iter().position(|(server, _)| *server == name).expect("a server");
        let (_, mut killed) = self.servers.remove(at);
        kill_and_wait(killed.id() as i32);
        // It was just killed.
        let _ = killed.wait();
        again(self);
    }
}

#[test]
fn the_authority_is_replaced_under_load_and_then_keys_of_the_old_one_are_out() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    let [oss, client3, client4] = [("oss", "server"), ("client3", "client"), ("client4", "client")]
        .map(|(name, role)| site.key(name, role));
    // A host that is away for a while, with a key that ends soon.
    let late = site.must(1, &["auth", "issue", &mgt, "--name", "late", "--days", "20"]);
    let late = site.keep("late", &String::from_utf8(late.stdout).unwrap());
    let own = site.at("mgt/auth/key.pem");
    let first = signer(&client3);
    // A thief of the first authority makes keys with it that no list has.
    let stolen = fs::read_to_string(site.at("mgt/auth/authority.pem")).unwrap();
    let stolen = Authority::from_text(key(&own).principal().cluster, &stolen).unwrap();
    let forged = |name: &str| {
        let subject = Subject { role: Role::Client, name: &name.parse().unwrap(), nids: &[] };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let key = stolen.issue_key(subject, Vec::new(), (now.as_secs() as i64, 86_400)).unwrap();
        site.keep(name, &key.to_text())
    };
    let (forged, forged_later) = (forged("forged"), forged("forged-later"));
    let server = |site: &mut Site, name: &str| {
        let (mgs, oss) = (site.mgs(), oss.clone());
        match name {
            "mds" => site.serve(1, "mds", &["mgt", "mdt"], &[]),
            _ => site.serve(2, "oss", &["ost"], &["--mgsnode", &mgs, "--key", &oss]),
        }
    };
    site.serve_all(&[], &["--key", &oss]);
    let one = site.mount(3, &format!("key={client3}"));
    let other = site.mount(4, &format!("key={client4}"));
    let before = site.token("2");
    let load = Load::start(&one, &other);
    load.goes_on(&site);
    assert!(!site.list().contains("authority"), "{}", site.list());
    site.stands([1, 5, 0]);
    for _ in 0..3 {
        let before = [&own, &oss, &client3, &client4].map(|path| key(path).principal().key);
        let hosts = [
            ("oss", "server", &oss[..]),
            ("client3", "client", &client3),
            ("client4", "client", &client4),
        ];
        site.renew_keys(&hosts, &[]);
        let renewed = [&own, &oss, &client3, &client4].map(|path| key(path).principal().key);
        assert!(before.iter().all(|key| !renewed.contains(key)));
    }
    load.goes_on(&site);
    site.stands([1, 5, 0]);

    // The new authority. The MGS dies before it can have told anybody much.
    site.must(1, &["auth", "rotate-ca", &mgt]);
    site.restart("mds", |site| server(site, "mds"));
    let again = site.sheen(1, &["auth", "rotate-ca", &mgt]);
    assert!(!again.status.success() && text(&again).contains("still holds"), "{}", text(&again));
    let keys = [&own, &oss, &client3, &client4];
    wait(&site, "all renew", || keys.iter().all(|path| signer(path) != first));
    let second = signer(&own);
    assert!(keys.iter().all(|path| signer(path) == second && key(path).is_in_overlap()));
    load.goes_on(&site);
    // One is missing, and is named, until it comes.
    site.stands([2, 5, 1]);
    let list = site.list();
    assert!(list.contains("two authorities hold; keys of the old one only have: late"), "{list}");
    let status = text(&site.must(1, &["status", &mgt]));
    assert!(status.contains("1 of 5 names have keys of the old one only: late"), "{status}");
    let shown = site.lctl(&["get_param", "-n", "mgs.MGS.keys"]);
    let (behind, ending) = ("role: client, name: late", "role: client, name: late, days: 19");
    let names = format!("names_behind:\n- {{ {behind} }}\nnames_ending:\n- {{ {ending} }}\n");
    assert_eq!(shown, format!("authorities: 2\nnames: 5\nbehind: 1\nending: 1\n{names}"));
    site.mount_at(2, "late", &format!("key={late}"));
    wait(&site, "the last one renews", || signer(&late) == second);
    site.stands([2, 5, 0]);
    let list = site.list();
    assert!(list.contains("two authorities hold; all hosts have keys of the new one"), "{list}");
    assert!(!list.contains("not renewed"), "{list}");
    let status = text(&site.must(1, &["status", &mgt]));
    assert!(
        status.contains("two authorities hold, all 5 names have keys of the new one"),
        "{status}"
    );
    // Servers that start in the overlap; hosts that come with tokens of before and of now.
    site.restart("oss", |site| server(site, "oss"));
    load.goes_on(&site);
    let during = site.joined(2, &before, "during");
    assert_eq!(signer(&during), second, "also with a token of before");
    let during = site.mount_at(2, "during", &format!("key={during}"));
    fs::write(during.join("during"), "joined").unwrap();
    assert_eq!(fs::read_to_string(one.join("during")).unwrap(), "joined");
    let now = site.token("1");
    // The twin: until the withdrawal the forged key is as good as any, and is not renewed.
    let thief = site.mount_at(4, "thief", &format!("key={forged},soft"));
    fs::write(thief.join("theirs"), "before").unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(signer(&forged), first, "it got a key of the new authority");
    assert!(site.logs().contains("no such key in its list"), "{}", site.logs());

    // The withdrawal.
    site.must(1, &["auth", "rotate-ca", &mgt, "--now"]);
    let began = Instant::now();
    while fs::write(thief.join("theirs"), "after").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "it still writes\n{}", site.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("withdrawn after {:?}", began.elapsed());
    load.goes_on(&site);
    detach(&thief);
    site.mounts.retain(|mount| *mount != thief);
    wait(&site, "all forget the old authority", || {
        keys.iter().all(|path| !key(path).is_in_overlap())
    });
    site.stands([1, 6, 0]);
    let refused = site.try_mount_at(4, "thief", &format!("key={forged_later}"));
    assert!(
        !refused.status.success() && text(&refused).contains("another authority signed it"),
        "{}",
        text(&refused)
    );
    let (refused, _) = site.join(1, &before, "late");
    assert!(
        !refused.status.success() && text(&refused).contains("another authority signed it"),
        "{}",
        text(&refused)
    );
    let after = site.joined(1, &now, "after");
    assert!(signer(&after) == second && !key(&after).is_in_overlap());
    let after = site.mount_at(1, "after", &format!("key={after}"));
    assert_eq!(fs::read_to_string(after.join("during")).unwrap(), "joined");
    fs::write(after.join("after"), "joined").unwrap();
    assert_eq!(fs::read_to_string(one.join("after")).unwrap(), "joined");
    assert_eq!(fs::read_to_string(during.join("after")).unwrap(), "joined");
    load.goes_on(&site);
    load.end(&site);

    // So it is after everything was started again.
    site.stop();
    site.serve_all(&[], &["--key", &oss]);
    let one = site.mount(3, &format!("key={client3}"));
    let left = fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<u64> =
        left.filter_map(|name| name.to_string_lossy().strip_prefix("file")?.parse().ok()).collect();
    assert!(!left.is_empty());
    for number in left {
        let read = fs::read(one.join(format!("file{number}"))).unwrap();
        assert!(read == content(number), "file{number}");
    }
    let said = site.refused(4, &format!("key={forged_later}"));
    assert!(said.contains("another authority signed it"), "{said}");
    let fsck = site.sheen(1, &["fsck", &site.mgs()]);
    assert!(fsck.status.success(), "{}\n{}", text(&fsck), site.logs());
    // And a third authority.
    site.must(1, &["auth", "rotate-ca", &mgt]);
    wait(&site, "they renew again", || {
        [&own, &oss, &client3].iter().all(|path| signer(path) != second)
    });
    let list = site.list();
    let away = "after, client4, during, late";
    assert!(list.contains(&format!("keys of the old one only have: {away}")), "{list}");
    site.stands([2, 7, 4]);
    site.stop();
}
