//! Leases of a process that is gone end at once.
//!
//! An owner that is killed leaves its lease, and others would wait for the end of it. So a process
//! that owns targets on shared logs starts another one (`sheen end-leases`), which holds the other
//! end of a pipe: when that is closed and leases are left, the owner is gone, and it ends them. The
//! kernel closes the pipe only when no thread of the owner runs any more, so what an owner told was
//! worked out before. An owner that is stopped keeps its pipe, and its lease. Where the host is
//! lost, or both processes are killed together, the lease ends by itself.

use etcd::client::Etcd;
use etcd::url::Members;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use store::kv::{Kv, LeaseId};

/// The hidden command of `sheen` that does it.
pub const COMMAND: &str = "end-leases";
/// Leases of one process: more than it has targets.
const LEASES_MAX: usize = 65_536;
/// Longest line, bytes.
const LINE_BYTES_MAX: u64 = 8192;
/// How often it is tried to end a lease, each time at another member.
const ATTEMPTS: u32 = 5;
/// Longest time of an attempt.
const DEADLINE: Duration = Duration::from_millis(300);

/// The side of the owner.
#[derive(Default)]
pub struct LeaseEnder {
    child: Mutex<Option<Child>>,
}

impl LeaseEnder {
    /// This lease is to be ended when this process is gone.
    pub fn add(&self, lease: LeaseId, members: &Members) {
        self.tell(&format!("+ {lease:016x} {members}\n"));
    }

    /// This lease has ended.
    pub fn remove(&self, lease: LeaseId) {
        self.tell(&format!("- {lease:016x}\n"));
    }

    fn tell(&self, line: &str) {
        let mut child = self.child.lock();
        if child.is_none() {
            match start() {
                Ok(started) => *child = Some(started),
                Err(error) => {
                    return tracing::warn!(%error, "if this process is killed, others wait for its leases to end");
                }
            }
        }
        let pipe = child.as_mut().and_then(|child| child.stdin.as_mut());
        if let Some(Err(error)) = pipe.map(|pipe| pipe.write_all(line.as_bytes())) {
            tracing::warn!(%error, "the process that ends leases is gone; another is started with the next lease");
            if let Some(mut gone) = child.take() {
                // It has ended, or ends now that its pipe is closed.
                drop(gone.stdin.take());
                let _ = gone.try_wait();
            }
        }
    }
}

fn start() -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("sheen")
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What ends the owner from a terminal shall not end this first.
        .process_group(0)
        .spawn()
}

/// The other side: reads until the owner is gone, then ends the leases that are left. Blocks.
///
/// # Errors
/// The input cannot be read. Leases are ended all the same.
pub fn end_leases(mut input: impl BufRead) -> io::Result<()> {
    let mut leases: BTreeMap<LeaseId, Members> = BTreeMap::new();
    let read = loop {
        let mut line = String::new();
        match io::Read::take(&mut input, LINE_BYTES_MAX).read_line(&mut line) {
            Ok(0) => break Ok(()),
            Ok(_) => note(line.trim_end(), &mut leases),
            Err(error) => break Err(error),
        }
    };
    let ends: Vec<_> = leases
        .into_iter()
        .map(|(lease, members)| std::thread::spawn(move || end(lease, members)))
        .collect();
    for end in ends {
        if end.join().is_err() {
            return Err(io::Error::other("a thread panicked"));
        }
    }
    read
}

fn note(line: &str, leases: &mut BTreeMap<LeaseId, Members>) {
    let mut words = line.splitn(3, ' ');
    let (sign, lease) = (words.next(), words.next());
    let Some(lease) = lease.and_then(|lease| LeaseId::from_str_radix(lease, 16).ok()) else {
        return;
    };
    match (sign, words.next().and_then(|members| members.parse().ok())) {
        (Some("+"), Some(members)) if leases.len() < LEASES_MAX => {
            leases.insert(lease, members);
        }
        (Some("-"), _) => {
            leases.remove(&lease);
        }
        _ => {}
    }
}

fn end(lease: LeaseId, members: Members) {
    let Ok(kv) = Etcd::new(members, DEADLINE) else { return };
    for _ in 0..ATTEMPTS {
        if kv.revoke(lease).is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leases_that_are_left_are_ended() {
        let mut leases = BTreeMap::new();
        for line in [
            "+ 000000000000000a etcd://one:1",
            "+ 000000000000000b etcd://two:2",
            "- 000000000000000a",
            "+ x etcd://one:1",
            "+ 000000000000000c http://one:1",
            "?",
            "",
        ] {
            note(line, &mut leases);
        }
        assert_eq!(leases.keys().copied().collect::<Vec<_>>(), [11]);
        assert_eq!(leases[&11].to_string(), "etcd://two:2");
        // None is left: it asks no etcd.
        end_leases(&b"+ 000000000000000a etcd://one:1\n- 000000000000000a\n"[..]).unwrap();
    }
}
