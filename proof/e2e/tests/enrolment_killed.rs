//! The process of the MGS is killed before each step of an enrolment (`strace` does it: at the
//! system call that would be next), and is started again. No token gives more keys than it is for,
//! and the host gets its key in the end: with the same token, or as the refusal says.

use e2e::hosts::Hosts;
use e2e::process::text;
use e2e::sheen;
use seal::credentials::Credentials;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is delayed, is so for longer than that.
const DELAY_SECONDS: u64 = 60;
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// The system calls by which a file is written, in their order: a fresh one is made, filled, made
/// durable, and takes the name; then the name is made durable, which is asked of the folder.
const OF_FILE: [&str; 4] = ["openat", "write", "fsync", "?rename,?renameat,?renameat2"];

/// A step before which a process is killed: a system call, the file that it is about, and how often
/// it is done before.
struct Step {
    calls: &'static str,
    file: String,
    nth: usize,
}

impl Step {
    fn of_file(name: &str) -> impl Iterator<Item = Step> {
        let file = format!("mgt/auth/{name}");
        OF_FILE.into_iter().map(move |calls| Step { calls, file: file.clone(), nth: 1 })
    }

    fn of_folder(nth: usize) -> Step {
        Step { calls: "fsync", file: "mgt/auth".to_owned(), nth }
    }

    /// What `strace` is told, besides of the process; `instead`: what happens at the step.
    fn arguments(&self, site: &Site, instead: &str) -> Vec<String> {
        let Step { calls, nth, .. } = self;
        let inject = format!("inject={calls}:{instead}:when={nth}");
        ["-f", "-o", "/dev/null", "-P", &site.at(&self.file), "-e", &inject]
            .map(String::from)
            .into()
    }
}

struct Site {
    hosts: Hosts,
    dir: tempfile::TempDir,
    mgs: Option<Child>,
}

impl Site {
    fn new() -> Option<Site> {
        let there = Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success());
        if !there {
            eprintln!("skipped: no strace");
            return None;
        }
        let hosts = Hosts::new(2)?;
        let mut site = Site { hosts, dir: tempfile::tempdir().unwrap(), mgs: None };
        let (mgt, nid) = (site.at("mgt"), format!("{}@tcp", site.hosts.address(1)));
        site.must(1, &["mkfs", "--mgs", &mgt]);
        site.must(1, &["auth", "init", &mgt, "--mgsnode", &nid, "--name", "mds"]);
        site.serve();
        // From here on it is in service.
        let token = site.token(&[]);
        assert_eq!(site.gets_its_key(&token, "first", "nothing is killed"), 1);
        Some(site)
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The keys of a host of this name.
    fn keys(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("keys-{name}"))
    }

    fn command(&self, host: usize, args: &[&str]) -> Command {
        let mut command = self.hosts.command(host, &sheen());
        command.args(args).env(e2e::cluster::RUN_DIR, self.at("run")).stdin(Stdio::null());
        command
    }

    fn must(&self, host: usize, args: &[&str]) -> String {
        let output = self.command(host, args).output().expect("sheen runs");
        assert!(output.status.success(), "sheen {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    fn serve(&mut self) {
        let address = format!("{}:988", self.hosts.address(1));
        let log = File::options().create(true).append(true).open(self.at("mgs.log")).unwrap();
        let mut command = self.command(1, &["serve", &self.at("mgt"), "--listen", &address]);
        self.mgs = Some(command.stdout(Stdio::null()).stderr(log).spawn().expect("sheen runs"));
    }

    fn mgs(&mut self) -> &mut Child {
        self.mgs.as_mut().expect("the MGS was started")
    }

    fn token(&self, more: &[&str]) -> String {
        self.must(1, &[&["auth", "token", &self.at("mgt")], more].concat())
    }

    fn join(&self, token: &str, name: &str) -> Command {
        let mut command = self.command(2, &["auth", "join", token, "--name", name]);
        command.env("SHEEN_KEYS_DIR", self.keys(name));
        command
    }

    /// What a host hears that tries to join until the MGS answers.
    fn answer(&self, token: &str, name: &str) -> Output {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.join(token, name).output().expect("sheen runs");
            let said = text(&output);
            let is_answer = ["is not known, was used", "there is a key of the name"];
            if output.status.success() || is_answer.iter().any(|answer| said.contains(answer)) {
                return output;
            }
            assert!(Instant::now() < deadline, "{said}");
            sleep(LOOK);
        }
    }

    /// Hashes of the keys of this name that the MGS has made.
    fn listed(&self, name: &str) -> Vec<String> {
        let list = fs::read_to_string(self.at("mgt/auth/keys.json")).expect("a list");
        let list: serde_json::Value = serde_json::from_str(&list).expect("a whole list");
        let all = list["keys"].as_array().expect("keys").iter();
        let of_name = all.filter(|key| key["name"] == name);
        of_name.map(|key| key["key"].as_str().expect("a hash").to_owned()).collect()
    }

    /// The MGS, when it was killed, starts again. A host with this token, and as many more as it is
    /// told to get, gets its key; returns the tokens that it took.
    fn gets_its_key(&self, first: &str, name: &str, step: &str) -> usize {
        let (mut token, mut tokens) = (first.to_owned(), 1);
        loop {
            assert!(self.listed(name).len() <= tokens, "{step}: {:?}", self.listed(name));
            let output = self.answer(&token, name);
            if output.status.success() {
                break;
            }
            assert!(tokens < 3, "{step}: it does not help: {}", text(&output));
            tokens += 1;
            token = match text(&output).contains("there is a key of the name") {
                // The answer was lost, and the key with it.
                true => self.token(&["--name", name]),
                false => self.token(&[]),
            };
        }
        let file = fs::read_dir(self.keys(name)).expect("a key").next().expect("one").unwrap();
        let key = Credentials::from_text(&fs::read_to_string(file.path()).unwrap()).unwrap();
        let listed = self.listed(name);
        assert!(listed.contains(&key.principal().key.to_string()), "{step}: the MGS knows it not");
        assert!(listed.len() <= tokens, "{step}: {listed:?} of {tokens} tokens");
        // The token was for one key.
        let again = self.answer(first, &format!("{name}-more"));
        assert!(!again.status.success(), "{step}: a token for one key gave two");
        tokens
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may be dead.
        if let Some(mut mgs) = self.mgs.take() {
            let _ = mgs.kill();
            let _ = mgs.wait();
        }
    }
}

/// `strace` at a process that runs, from when it looks at all of its threads on.
fn attached(site: &mut Site, arguments: &[String]) -> Child {
    let pid = site.mgs().id().to_string();
    let mut strace = Command::new("strace");
    strace.args(arguments).args(["-p", &pid]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut strace = strace.stderr(Stdio::piped()).spawn().expect("strace runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(strace.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("it says something");
    assert!(said.contains("attached"), "{said}");
    // What it says later is read, so that it does not wait.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    strace
}

fn ended(child: &mut Child, what: &str) {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < deadline, "{what}: it was not killed");
        sleep(LOOK);
    }
}

#[test]
fn wherever_the_mgs_is_killed_a_token_gives_no_more_keys_than_it_is_for() {
    let Some(mut site) = Site::new() else { return };
    let mut steps: Vec<Step> = Step::of_file("tokens.new").collect();
    steps.push(Step::of_folder(1));
    steps.extend(Step::of_file("keys.new"));
    steps.push(Step::of_folder(2));
    let mut took = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (name, what) = (format!("host{number}"), format!("{} of {}", step.calls, step.file));
        let token = site.token(&[]);
        let arguments = step.arguments(&site, "signal=KILL");
        let mut strace = attached(&mut site, &arguments);
        let output = site.join(&token, &name).output().expect("sheen runs");
        assert!(!output.status.success(), "{what}: it was answered");
        ended(site.mgs(), &what);
        ended(&mut strace, &what);
        site.serve();
        took.push(site.gets_its_key(&token, &name, &what));
    }
    // All is written, and the answer is not sent yet.
    let (name, token) = ("host-last", site.token(&[]));
    let delay = format!("delay_exit={}", DELAY_SECONDS * 1_000_000);
    let arguments = Step::of_folder(2).arguments(&site, &delay);
    let mut strace = attached(&mut site, &arguments);
    let mut join = site.join(&token, name).stderr(Stdio::null()).spawn().expect("sheen runs");
    let deadline = Instant::now() + PATIENCE;
    while site.listed(name).is_empty() {
        assert!(Instant::now() < deadline, "no key is made");
        sleep(LOOK);
    }
    site.mgs().kill().expect("it runs");
    // It would wait until the delay is over, and the process stay as long.
    strace.kill().expect("it runs");
    assert!(!join.wait().expect("it ends").success(), "it was answered");
    ended(site.mgs(), "the MGS");
    ended(&mut strace, "strace");
    site.serve();
    took.push(site.gets_its_key(&token, name, "the answer"));
    eprintln!("tokens that a host took, by step: {took:?}");
    // Before the use is counted the token is good again; after that it is lost, or the key is.
    assert_eq!(took, [1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3]);
}

#[test]
fn wherever_making_a_token_is_killed_the_next_one_is_good() {
    let Some(site) = Site::new() else { return };
    let steps = Step::of_file("tokens.new").chain([Step::of_folder(1)]);
    for (number, step) in steps.enumerate() {
        let (name, what) = (format!("host{number}"), format!("{} of {}", step.calls, step.file));
        let mut strace = site.hosts.command(1, Path::new("strace"));
        strace.args(step.arguments(&site, "signal=KILL")).arg(sheen());
        strace.args(["auth", "token", &site.at("mgt")]).stdin(Stdio::null());
        let output = strace.output().expect("strace runs");
        assert!(!output.status.success() && output.stdout.is_empty(), "{what}: {}", text(&output));
        let token = site.token(&[]);
        assert_eq!(site.gets_its_key(&token, &name, &what), 1, "{what}");
    }
}
