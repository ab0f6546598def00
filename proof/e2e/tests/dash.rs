//! Seeing inside a live cluster of several processes: the page in a headless browser, `top`, `why`.

use e2e::browser::Browser;
use e2e::process::{detach, is_mounted, kill_and_wait, signal, text};
use e2e::programs::sh;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// MGS and MDT in one process, an OST in each of two others, a mount; all on this host.
struct Processes {
    servers: Vec<(PathBuf, Option<Child>)>,
    /// Address at which each listens, also after a restart.
    listens: HashMap<PathBuf, String>,
    nid: String,
    dir: tempfile::TempDir,
}

impl Processes {
    fn start() -> Processes {
        let dir = tempfile::Builder::new().prefix("sheen-dash-").tempdir().expect("a folder");
        let mut all =
            Processes { servers: Vec::new(), listens: HashMap::new(), nid: String::new(), dir };
        let path = |name: &str| all.dir.path().join(name);
        let (mgt, mdt) = (path("mgt"), path("mdt"));
        let osts = [path("ost0"), path("ost1")];
        for (role, dir) in
            [("--mgs", &mgt), ("--mdt", &mdt), ("--ost", &osts[0]), ("--ost", &osts[1])]
        {
            let index = if *dir == osts[1] { "1" } else { "0" };
            let mut args = vec!["mkfs", role, dir.to_str().expect("text")];
            if role != "--mgs" {
                args.extend(["--index", index]);
            }
            let output = all.sheen(&args);
            assert!(output.status.success(), "{}", text(&output));
        }
        all.serve(mgt.clone(), &[&mdt]);
        all.nid = all.status(&mgt)["nids"][1].as_str().expect("a NID").to_owned();
        osts.into_iter().for_each(|ost| all.serve(ost, &[]));
        fs::create_dir(all.mount()).expect("a folder");
        let log = format!("log={}", all.dir.path().join("mount.log").display());
        let (source, at) = (format!("{}:/sheen", all.nid), all.mount());
        let output = all.sheen(&["mount", "-o", &log, &source, at.to_str().expect("text")]);
        assert!(output.status.success(), "{}", text(&output));
        all
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(e2e::sheen());
        command.env("SHEEN_RUN_DIR", self.dir.path().join("run")).stdin(Stdio::null());
        command
    }

    fn sheen(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("sheen runs")
    }

    /// Serves a target (and more in the same process), and waits until it answers.
    fn serve(&mut self, home: PathBuf, more: &[&Path]) {
        let log = fs::File::create(home.with_extension("log")).expect("a log");
        let mut command = self.command();
        let listen = self.listens.get(&home).map_or("127.0.0.1:0", String::as_str);
        command.arg("serve").arg(&home).args(more).args(["--listen", listen]).stderr(log);
        if !self.nid.is_empty() {
            command.args(["--mgsnode", &self.nid]);
        }
        let child = command.spawn().expect("sheen runs");
        self.servers.retain(|(other, _)| *other != home);
        self.servers.push((home.clone(), Some(child)));
        let deadline = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.try_status(&home).filter(|status| status["state"] == "up") {
                break status;
            }
            assert!(Instant::now() < deadline, "{} does not come up", home.display());
            std::thread::sleep(Duration::from_millis(50));
        };
        self.listens.insert(home, status["listen"].as_str().expect("an address").to_owned());
    }

    fn try_status(&self, home: &Path) -> Option<Value> {
        let output = self.sheen(&["status", home.to_str()?, "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    fn status(&self, home: &Path) -> Value {
        self.try_status(home).expect("it runs")
    }

    /// Kills the process of a target.
    fn kill(&mut self, home: &str) -> PathBuf {
        let path = self.dir.path().join(home);
        let (_, child) =
            self.servers.iter_mut().find(|(other, _)| *other == path).expect("it was started");
        let mut child = child.take().expect("it runs");
        kill_and_wait(child.id() as i32);
        child.wait().expect("it is ours");
        path
    }

    /// A number that a parameter shows.
    fn gauge(&self, pattern: &str) -> u64 {
        let output = self.sheen(&["lctl", "get_param", "-n", pattern]);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).expect("text").trim().parse().expect("a number")
    }

    /// Samples of an operation.
    fn samples(&self, pattern: &str, operation: &str) -> u64 {
        let output = self.sheen(&["lctl", "get_param", "-n", pattern]);
        assert!(output.status.success(), "{}", text(&output));
        let stats = String::from_utf8(output.stdout).expect("text");
        let of = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next() == Some(operation))
                .then(|| words.next().and_then(|n| n.parse::<u64>().ok()))?
        };
        stats.lines().filter_map(of).sum()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if is_mounted(&self.mount()) {
            detach(&self.mount());
        }
        for (home, child) in &mut self.servers {
            if std::thread::panicking() {
                let log = fs::read_to_string(home.with_extension("log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                eprintln!(
                    "--- {} ---\n{}",
                    home.display(),
                    lines[lines.len().saturating_sub(20)..].join("\n")
                );
            }
            if let Some(child) = child {
                kill_and_wait(child.id() as i32);
                let _ = child.wait();
            }
        }
    }
}

/// All figures of the cluster, as `top` shows them.
fn picture_of(cluster: &Processes) -> Value {
    let output = cluster.sheen(&["top", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Ends a program when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One process has the lock of a file and keeps it, another waits for it. Returns both, the waiting
/// one second.
fn lock_wait(mnt: &Path) -> (Running, Running) {
    let flock = |work: &[&str]| {
        let mut command = Command::new("flock");
        Running(
            command
                .arg("--no-fork")
                .arg(mnt.join("locked"))
                .args(work)
                .spawn()
                .expect("flock runs"),
        )
    };
    let holder = flock(&["sleep", "60"]);
    std::thread::sleep(Duration::from_millis(500));
    let waiter = flock(&["true"]);
    std::thread::sleep(Duration::from_millis(2500));
    (holder, waiter)
}

#[test]
fn top_and_why_tell_of_the_whole_cluster() {
    if !e2e::can_mount() {
        return;
    }
    let mut cluster = Processes::start();
    let mnt = cluster.mount();
    sh(&mnt, "for n in 1 2 3; do echo $n > f$n; done; sync");

    let picture = picture_of(&cluster);
    let names: Vec<&str> = picture["targets"]
        .as_array()
        .expect("targets")
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert_eq!(names, ["MGS", "sheen-MDT0000", "sheen-OST0000", "sheen-OST0001"]);
    assert_eq!(picture["clients"].as_array().map(Vec::len), Some(1));
    let output = cluster.sheen(&["top", "--once"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in [
        "4 of 4 targets up, 1 clients",
        "sheen-OST0001",
        "SLOWEST",
        "WAITING for longer than a second\n nothing",
    ] {
        assert!(shown.contains(word), "{word}\n{shown}");
    }

    let output = cluster.sheen(&["why"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let (holder, waiter) = lock_wait(&mnt);
    let path = mnt.join("locked");
    for what in [waiter.0.id().to_string(), path.to_str().expect("text").to_owned()] {
        let output = cluster.sheen(&["why", &what]);
        let told = text(&output);
        assert!(output.status.success(), "{told}");
        let words = [
            format!("flock (process {})", waiter.0.id()),
            "sheen-MDT0000 works on mds_flock_set".to_owned(),
            "waits at sheen-MDT0000 for a lock of".to_owned(),
            "the whole file".to_owned(),
            "holds write lock".to_owned(),
        ];
        for word in words {
            assert!(told.contains(&word), "{what}: {word}\n{told}");
        }
    }
    let output = cluster.sheen(&["why", &holder.0.id().to_string()]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "who has the lock waits for nothing: {}",
        text(&output)
    );
    drop((holder, waiter));

    // A restarted MDT waits for a client that does not come, and says so; then it comes.
    let process = picture["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .find(|row| row["place"].as_str() == mnt.to_str());
    let stopped = Stopped::new(
        process.and_then(|row| row["pid"].as_i64()).expect("the process of the mount") as i32,
    );
    let mgt = cluster.kill("mgt");
    let mdt = cluster.dir.path().join("mdt");
    cluster.serve(mgt.clone(), &[&mdt]);
    let mdt_row = |cluster: &Processes| -> Value {
        let output = cluster.sheen(&["top", "--json", mgt.to_str().expect("text")]);
        assert!(output.status.success(), "{}", text(&output));
        let picture: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let row = picture["targets"]
            .as_array()
            .expect("targets")
            .iter()
            .find(|row| row["name"] == "sheen-MDT0000");
        row.expect("the MDT").clone()
    };
    let row = mdt_row(&cluster);
    assert_eq!(row["state"], "recovering", "{row}");
    assert_eq!(
        (&row["recovery"]["expected"], &row["recovery"]["back"]),
        (&Value::from(1), &Value::from(0)),
        "{row}"
    );
    assert!(
        row["note"].as_str().is_some_and(|note| note.starts_with("0 of 1 clients came back")),
        "{row}"
    );
    drop(stopped);
    let deadline = Instant::now() + Duration::from_secs(20);
    while mdt_row(&cluster)["state"] != "up" {
        assert!(Instant::now() < deadline, "it recovers no more");
    }
    sh(&mnt, "cat f1 > /dev/null");
}

#[test]
fn why_names_the_target_that_does_not_answer() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Processes::start();
    let mnt = cluster.mount();
    let caches = e2e::caches::mine();
    sh(
        &mnt,
        "dd if=/dev/zero of=f bs=1M count=8 2>/dev/null; sync f; echo 3 > /proc/sys/vm/drop_caches; ls -l f > /dev/null",
    );
    drop(caches);
    let osts = cluster.servers.iter().filter(|(home, _)| !home.ends_with("mgt"));
    let stopped: Vec<Stopped> =
        osts.map(|(_, child)| Stopped::new(child.as_ref().expect("it runs").id() as i32)).collect();
    assert_eq!(stopped.len(), 2);
    let path = mnt.join("f");
    let mut reader =
        Running(Command::new("cat").arg(&path).stdout(Stdio::null()).spawn().expect("cat runs"));
    std::thread::sleep(Duration::from_millis(2500));
    let pid = reader.0.id();
    for what in [pid.to_string(), path.to_str().expect("text").to_owned()] {
        let output = cluster.sheen(&["why", &what]);
        let told = text(&output);
        assert!(output.status.success(), "{told}");
        assert!(
            told.contains(&format!("cat (process {pid})")) && told.contains(" of [0x"),
            "{what}\n{told}"
        );
        assert!(
            told.contains("-> asks sheen-OST000") && told.contains(": ost_read"),
            "{what}\n{told}"
        );
        assert!(!told.contains("works on"), "who stands still tells nothing\n{told}");
    }
    drop(stopped);
    assert!(reader.0.wait().expect("it is ours").success(), "it reads to its end");
    let output = cluster.sheen(&["why", path.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}

#[test]
fn daemons_that_stand_still_cost_one_wait_together() {
    if !e2e::can_mount() {
        return;
    }
    let cluster = Processes::start();
    let osts = cluster.servers.iter().filter(|(home, _)| !home.ends_with("mgt"));
    let pids: Vec<i32> =
        osts.map(|(_, child)| child.as_ref().expect("it runs").id() as i32).collect();
    let stopped: Vec<Stopped> = pids.iter().map(|pid| Stopped::new(*pid)).collect();
    assert_eq!(stopped.len(), 2);
    // One wait is 4 s. One after the other they were 24 s for `why`, and 40 s for `lctl`.
    let asked = |args: &[&str]| {
        let began = Instant::now();
        let output = cluster.sheen(args);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(15), "{args:?} took {took:?}");
        (output.status.code(), text(&output))
    };
    let is_named = |told: &str| {
        let silent = |pid: &i32| told.contains(&format!("/{pid} does not answer within 4 s"));
        pids.iter().all(silent)
    };

    let (code, told) = asked(&["why"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("nothing waits for longer than a second") && is_named(&told), "{told}");
    let (code, told) = asked(&["top", "--once"]);
    assert!(code == Some(0) && told.contains("sheen-MDT0000"), "{told}");
    let (_, told) = asked(&["lctl", "dl"]);
    assert!(told.contains("mdt sheen-MDT0000") && is_named(&told), "{told}");
    let (_, told) = asked(&["lctl", "get_param", "mdt.*.job_cleanup_interval"]);
    assert!(told.contains("mdt.sheen-MDT0000.job_cleanup_interval=") && is_named(&told), "{told}");
    drop(stopped);
}

/// A process that stands still until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(pid: i32) -> Stopped {
        signal(pid, libc::SIGSTOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, libc::SIGCONT);
    }
}

#[test]
fn the_page_shows_the_cluster_as_it_is() {
    if !e2e::can_mount() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let mut cluster = Processes::start();
    let mnt = cluster.mount();
    let output = cluster.sheen(&["lctl", "set_param", "jobid_var=procname_uid"]);
    assert!(output.status.success(), "{}", text(&output));
    sh(
        &mnt,
        "mkdir d; for n in $(seq 20); do dd if=/dev/zero of=f$n bs=256k count=4 2>/dev/null; done; sync",
    );

    let mgt = cluster.dir.path().join("mgt");
    let output = cluster.sheen(&["dash", mgt.to_str().expect("text")]);
    assert!(output.status.success(), "{}", text(&output));
    let url = String::from_utf8(output.stdout).expect("text").trim().to_owned();
    browser.look_as(1280, 900, "light");
    browser.open(&url);
    let row = |name: &str| format!("document.querySelector('#targets [data-key=\"{name}\"]')");
    let state = |name: &str, word: &str| {
        format!("{}?.querySelector('.state')?.textContent === '{word}'", row(name))
    };
    for name in ["MGS", "sheen-MDT0000", "sheen-OST0000", "sheen-OST0001"] {
        browser.until(&state(name, "up"), Duration::from_secs(15));
    }

    // A killed target is red within two seconds, and its process' next life is seen.
    let killed = Instant::now();
    let ost = cluster.kill("ost1");
    browser.until(&state("sheen-OST0001", "down"), Duration::from_secs(10));
    let took = killed.elapsed();
    eprintln!("a killed target was red after {} ms", took.as_millis());
    assert!(took < Duration::from_secs(2), "red only after {took:?}");
    let is_red = format!("{}.classList.contains('bad')", row("sheen-OST0001"));
    assert_eq!(browser.eval(&is_red), Value::Bool(true));
    let down = shots(&mut browser, "down");
    cluster.serve(ost, &[]);
    browser.until(&state("sheen-OST0001", "up"), Duration::from_secs(10));

    // Numbers on the page are the counters.
    for (target, pattern, operation) in [
        ("sheen-OST0000", "obdfilter.sheen-OST0000.stats", "write"),
        ("sheen-MDT0000", "mdt.sheen-MDT0000.md_stats", "mkdir"),
    ] {
        browser.eval(&format!("location.hash = 'target/{target}'; 0"));
        let cell = format!(
            "document.querySelector('#d-operations [data-key=\"{operation}\"] [data-field=count]')"
        );
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let counted = cluster.samples(pattern, operation);
            let shown = browser.eval(&format!("{cell}?.textContent ?? ''"));
            if counted > 0 && shown == Value::String(counted.to_string()) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{target} {operation}: {counted} counted, {shown} shown"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!(
            browser.eval("document.querySelectorAll('#d-charts svg').length"),
            Value::from(3)
        );
        let job = "document.querySelector('#d-jobs [data-key=\"dd.0\"] [data-field=operations]')?.textContent > 0";
        browser.until(job, Duration::from_secs(5));
    }
    let detail = shots(&mut browser, "detail");

    // What a client has and may write: the page shows the facts of its report.
    let client =
        picture_of(&cluster)["clients"][0]["client"].as_str().expect("a client").to_owned();
    browser.eval(&format!("location.hash = 'client/{client}'; 0"));
    for name in ["Locks held", "Not yet stored", "Granted by OSTs"] {
        let fact =
            format!("document.querySelector('#d-facts [data-fact=\"{name}\"] dd')?.textContent");
        browser.until(&format!("{fact}?.length > 0"), Duration::from_secs(5));
    }
    let locks = "document.querySelector('#d-facts [data-fact=\"Locks held\"] dd').textContent";
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (shown, counted) = (
            browser.eval(locks),
            cluster.gauge("ldlm.namespaces.sheen-????????????????.lock_count"),
        );
        if counted > 0 && shown == Value::String(counted.to_string()) {
            break;
        }
        assert!(Instant::now() < deadline, "locks: {counted} counted, {shown} shown");
        std::thread::sleep(Duration::from_millis(200));
    }

    // The waits, with keys alone: the link on the way back has the focus and is followed.
    let (holder, waiter) = lock_wait(&mnt);
    browser.eval("location.hash = ''; 0");
    let told = format!(
        "document.querySelector('#waits')?.innerText.includes('process {}')",
        waiter.0.id()
    );
    browser.until(&told, Duration::from_secs(10));
    browser.until(
        "document.querySelector('#waits .holder')?.innerText.includes('holds write lock')",
        Duration::from_secs(5),
    );
    let waiting = shots(&mut browser, "waiting");
    drop((holder, waiter));
    browser.until("document.querySelectorAll('#waits li').length === 0", Duration::from_secs(10));

    // The switch wins over the system's wish.
    browser.look_as(1280, 900, "light");
    browser.eval(
        "document.getElementById('theme').click(); document.getElementById('theme').click(); 0",
    );
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    assert_eq!(
        browser.eval(ground),
        Value::String("rgb(20, 23, 26)".to_owned()),
        "dark by the switch"
    );
    for width in [down, detail, waiting].concat() {
        assert!(width.0 <= width.1, "the page is wider than its window: {width:?}");
    }
    // Names for users of screen readers.
    let unnamed = "[...document.querySelectorAll('svg, button, table, progress')].filter(e => e.getClientRects().length && !(e.getAttribute('aria-label') \
                   || e.textContent.trim() || e.caption)).length";
    assert_eq!(browser.eval(unnamed), Value::from(0));
}

/// Pictures in both themes and two widths, into `$SHEEN_SHOTS` if that is set; (width of the page,
/// of the window) of each.
fn shots(browser: &mut Browser, name: &str) -> Vec<(u64, u64)> {
    let folder = std::env::var_os("SHEEN_SHOTS").map(PathBuf::from);
    let mut widths = Vec::new();
    for (width, theme) in [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")] {
        browser.look_as(width, 900, theme);
        std::thread::sleep(Duration::from_millis(300));
        let wide = browser.eval("document.documentElement.scrollWidth").as_u64().expect("a number");
        widths.push((wide, u64::from(width)));
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).expect("a folder");
            browser.picture(&folder.join(format!("{name}-{theme}-{width}.png")));
        }
    }
    browser.look_as(1280, 900, "light");
    widths
}
