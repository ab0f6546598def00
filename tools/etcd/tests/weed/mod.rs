//! A SeaweedFS on loopback, which has Amazon's S3 interface.

#![allow(dead_code, reason = "each test uses its part")]

use crate::members::{find, free_ports};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names a program other than `weed` in `PATH`.
const PROGRAM: &str = "SHEEN_WEED";
/// Where `./run deps test` puts it.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/weed/bin/weed");
const PATIENCE: Duration = Duration::from_secs(60);
/// The bucket that is there.
const BUCKET: &str = "logs";

pub struct Weed {
    child: Child,
    program: PathBuf,
    s3: u16,
    filer: u16,
    arguments: Vec<String>,
    dir: TempDir,
}

/// `None` without it, and says so.
pub fn or_skip(weed: Option<Weed>) -> Option<Weed> {
    if weed.is_none() {
        eprintln!(
            "SKIPPED: there is no SeaweedFS for blobs; `./run deps test` installs it, or {PROGRAM} names the program weed"
        );
    }
    weed
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let installed = || Some(PathBuf::from(INSTALLED)).filter(|path| path.is_file());
    named.or_else(installed).or_else(|| find("weed"))
}

impl Weed {
    /// With one bucket and one key, as soon as it answers.
    pub fn start() -> Option<Weed> {
        let program = program()?;
        let dir = tempfile::tempdir().unwrap();
        let keys = r#"{"identities": [{"name": "sheen", "actions": ["Admin", "Read", "List", "Write"],
            "credentials": [{"accessKey": "sheen", "secretKey": "a secret"}]}]}"#;
        fs::write(dir.path().join("keys.json"), keys).unwrap();
        fs::write(dir.path().join("key"), "sheen\na secret\n").unwrap();
        let ports = free_ports(8);
        let names = ["master", "volume", "filer", "s3"];
        let port = |(name, ports): (&&str, &[u16])| {
            [format!("-{name}.port={}", ports[0]), format!("-{name}.port.grpc={}", ports[1])]
        };
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut arguments = vec![format!("-logdir={}", at("")), "server".to_owned()];
        arguments.extend(names.iter().zip(ports.chunks(2)).flat_map(port));
        arguments.extend(
            [
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-filer",
                "-s3",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-s3.autoCreateBucket=false",
                "-master.telemetry=false",
                // Checkpoints replace each other, and what they had is not freed at once.
                "-volume.max=64",
                "-master.volumeSizeLimitMB=64",
                &format!("-s3.config={}", at("keys.json")),
                &format!("-dir={}", at("")),
            ]
            .map(str::to_owned),
        );
        let child = spawn(&program, &arguments, dir.path());
        let weed = Weed { child, program, s3: ports[6], filer: ports[4], arguments, dir };
        weed.wait();
        weed.until("makes a bucket", || {
            let path = format!("/buckets/{BUCKET}/");
            weed.ask(weed.filer, "POST", &path, 0).is_some_and(|status| status == 201)
        });
        weed.wait_for_room();
        Some(weed)
    }

    /// Waits until it takes bytes. It answers before its volumes have told it of themselves, and
    /// the first bytes make it allocate files; either may take seconds.
    fn wait_for_room(&self) {
        let path = format!("/buckets/{BUCKET}/first");
        let takes = || self.ask(self.filer, "PUT", &path, 100_000).is_some_and(|it| it == 201);
        self.until("takes bytes", takes);
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            let log = || fs::read_to_string(self.dir.path().join("weed.log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "SeaweedFS never {what}: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it answers.
    pub fn wait(&self) {
        let answers = || self.ask(self.s3, "GET", "/", 0).is_some_and(|status| status == 403);
        self.until("answers", answers);
    }

    /// The status of an answer to a request with so many bytes.
    fn ask(&self, port: u16, method: &str, path: &str, bytes: usize) -> Option<u16> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
        let head = format!("Content-Length: {bytes}\r\nConnection: close");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n").ok()?;
        stream.write_all(&vec![b'x'; bytes]).ok()?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).ok()?;
        std::str::from_utf8(&answer[9..]).ok()?.parse().ok()
    }

    /// File with the key.
    pub fn key_file(&self) -> PathBuf {
        self.dir.path().join("key")
    }

    /// The address of a place in the bucket, as it stands behind a comma in that of a log.
    pub fn url(&self, prefix: &str) -> String {
        self.url_of(BUCKET, prefix)
    }

    pub fn url_of(&self, bucket: &str, prefix: &str) -> String {
        let key = self.key_file();
        let endpoint = format!("http://127.0.0.1:{}", self.s3);
        format!("s3://{bucket}/{prefix}?endpoint={endpoint}&key-file={}", key.display())
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// After [`Weed::kill`].
    pub fn start_again(&mut self) {
        self.child = spawn(&self.program, &self.arguments, self.dir.path());
        self.wait();
        self.wait_for_room();
    }
}

fn spawn(program: &Path, arguments: &[String], dir: &Path) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("weed.log")).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stderr(log.try_clone().unwrap()).stdout(log);
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only this one system call is made.
    unsafe { command.pre_exec(ask) };
    command.spawn().unwrap()
}

impl Drop for Weed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
