//! The keys of a log in etcd, as an administrator reads and changes them.

use crate::members::Members;
use disk::entry::EntryHead;
use e2e::need_program;
use e2e::process::text;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The keys of the MDT, through `etcdctl`.
pub struct Keys {
    program: PathBuf,
    endpoints: String,
}

impl Keys {
    /// `None`, and says so, where `etcdctl` is not installed.
    pub fn of(members: &Members) -> Option<Keys> {
        let program = need_program("etcdctl")?;
        Some(Keys { program, endpoints: members.endpoints().join(",") })
    }

    fn run(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new(&self.program);
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoints]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("etcdctl runs");
        child.stdin.take().expect("a pipe").write_all(input).expect("etcdctl reads");
        let output = child.wait_with_output().expect("etcdctl runs");
        assert!(output.status.success(), "etcdctl {args:?}: {}", text(&output));
        output.stdout
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let mut value = self.run(&["get", "--print-value-only", &key(name)], b"");
        assert_eq!(value.pop(), Some(b'\n'), "there is no {name}");
        value
    }

    /// Is there such a key?
    pub fn has(&self, name: &str) -> bool {
        !self.run(&["get", &key(name)], b"").is_empty()
    }

    /// All keys of the MDT with their values, as `etcdctl` prints them.
    pub fn all(&self) -> Vec<u8> {
        self.run(&["get", "--prefix", &key("")], b"")
    }

    pub fn get(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).expect("text")
    }

    pub fn put(&self, name: &str, value: impl AsRef<[u8]>) {
        self.run(&["put", &key(name)], value.as_ref());
    }

    pub fn delete(&self, name: &str) {
        self.run(&["del", &key(name)], b"");
    }

    pub fn epoch(&self) -> u64 {
        u64::from_str_radix(&self.get("epoch"), 16).expect("a number")
    }

    /// Number of the newest entry.
    pub fn head(&self) -> u64 {
        u64::from_str_radix(&self.get("head")[..16], 16).expect("a number")
    }

    /// Epochs of the entries behind this one, in order.
    pub fn epochs_behind(&self, entry: u64) -> Vec<u64> {
        let epoch = |number: u64| {
            let value = self.bytes(&format!("log/{number:016x}"));
            EntryHead::decode(&value).expect("an entry").0.fence
        };
        (entry + 1..=self.head()).map(epoch).collect()
    }
}

fn key(name: &str) -> String {
    format!("/sheen/sheen-MDT0000/{name}")
}
