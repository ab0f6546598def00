//! The work of clients while servers or routers go and come. Each load is one caller. It does one
//! thing after the other, panics at the first error and at the first difference from an answer, and
//! returns at the end what must be there.

use crate::find_program;
use crate::programs::sh;
use crate::stalls::Spans;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The files that a caller expects.
pub type Expected = BTreeMap<PathBuf, Vec<u8>>;

/// One kind of work on a mount.
pub type Load = fn(Work) -> Expected;

/// All kinds.
pub const LOADS: [(&str, Load); 6] = [
    ("names", Work::names),
    ("data", Work::data),
    ("orphan", Work::orphan),
    ("ledger", Work::ledger),
    ("build", Work::build),
    ("fsx", Work::fsx),
];

/// Those that do not time what they do: it is done by other programs.
pub const UNTIMED: [&str; 3] = ["build", "fsx", "dd"];

/// Names of one caller from which on it makes no new files: all are looked at in the end.
const NAMES_MAX: usize = 500;

/// Size of the file that dd writes and reads, MiB.
const DD_MIB: u32 = 16;
/// Operations of one run of fsx.
const FSX_OPERATIONS: u32 = 1_000;
/// The ledger is looked at through the other mount whenever it has so many entries more.
const LEDGER_LOOK: usize = 16;

/// One caller.
pub struct Work {
    /// Folder of the caller, not made yet.
    pub dir: PathBuf,
    /// The same through the other client.
    pub other: PathBuf,
    /// A folder of its own outside.
    pub outside: PathBuf,
    /// Set: come to an end.
    pub stop: Arc<AtomicBool>,
    /// Spans of its operations, from start to answer.
    pub spans: Arc<Mutex<Spans>>,
    /// Its random choices.
    pub rng: fastrand::Rng,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A caller that ends before it is told to has failed.
    fn nothing(&self) -> Expected {
        while self.goes_on() {
            thread::sleep(Duration::from_millis(100));
        }
        Expected::new()
    }

    fn timed<T>(&self, what: &str, work: impl FnOnce() -> std::io::Result<T>) -> T {
        let began = Instant::now();
        let done =
            work().unwrap_or_else(|error| panic!("{what} in {}: {error}", self.dir.display()));
        self.spans.lock().unwrap().push((began, Instant::now()));
        done
    }

    /// Files come, change their names, get links and go.
    fn names(mut self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let mut known: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        let mut next = 0u64;
        while self.goes_on() {
            match self.rng.u32(0..10) {
                0..5 if known.len() < NAMES_MAX => {
                    next += 1;
                    let (path, text) =
                        (self.dir.join(format!("f{next}")), next.to_string().into_bytes());
                    self.timed("create", || fs::write(&path, &text));
                    known.push((path, text));
                }
                5..7 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    next += 1;
                    let to = self.dir.join(format!("r{next}"));
                    self.timed("rename", || fs::rename(&known[at].0, &to));
                    known[at].0 = to;
                }
                7 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    next += 1;
                    let to = self.dir.join(format!("l{next}"));
                    self.timed("link", || fs::hard_link(&known[at].0, &to));
                    let text = known[at].1.clone();
                    known.push((to, text));
                }
                8 if !known.is_empty() => {
                    let at = self.rng.usize(0..known.len());
                    let (path, text) = &known[at];
                    let read = self.timed("read", || fs::read(path));
                    assert_eq!(read, *text, "{}", path.display());
                }
                _ if known.len() > 40 => {
                    let (path, _) = known.swap_remove(self.rng.usize(0..known.len()));
                    self.timed("unlink", || fs::remove_file(&path));
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(2));
        }
        known.into_iter().collect()
    }

    /// A file that grows, is synced now and then, and is read back; the file before it is removed
    /// while it is open.
    fn data(mut self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let (mut known, mut round) = (Expected::new(), 0u32);
        while self.goes_on() {
            round += 1;
            let path = self.dir.join(format!("d{}", round % 8));
            if known.remove(&path).is_some() {
                self.timed("unlink", || fs::remove_file(&path));
            }
            let mut file = self.timed("create", || File::create_new(&path));
            let mut text = Vec::new();
            for part in 0..self.rng.u32(1..6) {
                let bytes = vec![(round + part) as u8; self.rng.usize(1..200_000)];
                self.timed("write", || file.write_all(&bytes));
                text.extend(bytes);
                if self.rng.bool() {
                    self.timed("fsync", || file.sync_all());
                }
            }
            let read = self.timed("read", || fs::read(&path));
            assert!(read == text, "{} has not what was written", path.display());
            known.insert(path, text);
            thread::sleep(Duration::from_millis(2));
        }
        known
    }

    /// An open file without a name stays as it is, and a lock on it is held.
    fn orphan(self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let path = self.dir.join("gone");
        let mut file =
            File::options().read(true).write(true).create_new(true).open(&path).expect("create");
        file.write_all(b"still here").expect("write");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
        fs::remove_file(&path).expect("unlink");
        while self.goes_on() {
            let read = self.timed("read of an unlinked file", || {
                use std::os::unix::fs::FileExt;
                let mut bytes = [0; 10];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            });
            assert_eq!(&read, b"still here");
            let meta = self.timed("fstat of an unlinked file", || file.metadata());
            assert_eq!(meta.len(), 10);
            thread::sleep(Duration::from_millis(20));
        }
        let mut rest = Vec::new();
        std::io::Seek::rewind(&mut file).expect("seek");
        file.read_to_end(&mut rest).expect("read");
        assert_eq!(rest, b"still here");
        Expected::new()
    }

    /// Entries are added and synced, one by one. The other client must see every synced one.
    fn ledger(self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let (path, seen_from) = (self.dir.join("ledger"), self.other.join("ledger"));
        let mut file = File::options().append(true).create_new(true).open(&path).expect("create");
        let (mut synced, mut entries) = (Vec::new(), 0usize);
        while self.goes_on() {
            let entry = format!("{entries:015}\n").into_bytes();
            self.timed("append", || file.write_all(&entry));
            self.timed("fsync", || file.sync_all());
            synced.extend(entry);
            entries += 1;
            if entries.is_multiple_of(LEDGER_LOOK) {
                let seen = self.timed("read by the other client", || fs::read(&seen_from));
                assert!(
                    seen == synced,
                    "{}: {} of {} synced bytes",
                    seen_from.display(),
                    seen.len(),
                    synced.len()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
        BTreeMap::from([(path, synced)])
    }

    /// A program is built from many sources with make, run, and cleaned away, again and again.
    fn build(self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        if find_program("make").is_none() || find_program("cc").is_none() {
            eprintln!("no build: make or cc is not installed");
            return self.nothing();
        }
        while self.goes_on() {
            let script = "
                for n in $(seq 12); do echo \"int f$n(void) { return $n; }\" > f$n.c; done
                { for n in $(seq 12); do echo \"int f$n(void);\"; done
                  echo 'int main(void) { return 0'; for n in $(seq 12); do echo \" + f$n()\"; done; echo '; }'; } > main.c
                printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcc -o $@ $^\\n' > Makefile
                make -s -j2
                status=0; ./prog || status=$?; test $status = 78
                rm *.o *.c prog Makefile; test -z \"$(ls)\"";
            sh(&self.dir, script);
            thread::sleep(Duration::from_millis(500));
        }
        Expected::new()
    }

    /// A file is written with dd and read by the other client, again and again. Not in [`LOADS`].
    pub fn dd(self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let random = self.outside.join("random");
        let size = format!("bs=1M count={DD_MIB} iflag=fullblock status=none");
        sh(&self.outside, &format!("dd if=/dev/urandom of=random {size}"));
        let (random, dir, other) = (random.display(), self.dir.display(), self.other.display());
        let mut round = 0;
        while self.goes_on() {
            round += 1;
            let script = format!(
                "dd if={random} of={dir}/{round} {size} conv=fsync
                 dd if={other}/{round} {size} | cmp - {random}
                 rm {dir}/{round}"
            );
            sh(&self.outside, &script);
        }
        Expected::new()
    }

    /// fsx compares every byte that it reads with what it wrote.
    fn fsx(mut self) -> Expected {
        fs::create_dir(&self.dir).expect("mkdir");
        let Some(program) = find_program("fsx") else {
            eprintln!("no fsx: it is not installed (`./run e2e` installs it)");
            return self.nothing();
        };
        let config = self.outside.join("fsx.toml");
        let text = "flen = 1500000\nopsize = { min = 0, max = 65536 }\nnomsyncafterwrite = true\n[weights]\nfsync = 0.5\n\
                    close_open = 1.0\ninvalidate = 1.0\nmapread = 5.0\nmapwrite = 5.0\nread = 5.0\nwrite = 5.0\n\
                    truncate = 3.0\npunch_hole = 1.0\n";
        fs::write(&config, text).expect("write");
        let (program, config, artifacts) =
            (program.display(), config.display(), self.outside.display());
        while self.goes_on() {
            let seed = self.rng.u32(..);
            sh(
                &self.dir,
                &format!(
                    "{program} -f {config} -N {FSX_OPERATIONS} -S {seed} -P {artifacts} file && rm file"
                ),
            );
            thread::sleep(Duration::from_millis(100));
        }
        Expected::new()
    }
}
