//! What each waiting operation waits for. Reports of processes in, chains out: program -> request
//! -> target -> holder of the lock.
//!
//! Within a process a wait names its cause. Between processes client, target and number of the
//! request connect the asker's end with the server's. Pure. A chain ends where no report knows
//! more, and says so.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use wire::report::{Holder, KeptReport, Wait, Waiting};

/// Longest chain; only false reports could make a longer one.
const STEPS_MAX: usize = 8;

/// One operation that waits, and the known reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Host where it waits.
    pub host: String,
    /// Process of the program; 0: no program (the kernel itself, or a server).
    pub pid: u32,
    /// Name of the program.
    pub program: String,
    /// Mount point; empty if it is a server that asks.
    pub at: String,
    /// Client.
    pub client: String,
    /// `Open`, `ost_write`, ...
    pub operation: String,
    /// The inode; may be empty.
    pub fid: String,
    /// For how long, milliseconds.
    pub age_ms: u64,
    /// From there on, in order.
    pub steps: Vec<Step>,
    /// The holders that are in the way at the end of the chain.
    pub holders: Vec<Holder>,
}

/// One link of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// `request`, `target`, `lock`, `file lock`
    pub kind: String,
    /// Target.
    pub target: String,
    /// A sentence without its beginning: "asks sheen-OST0000: ost_write, session FULL".
    pub text: String,
    /// For how long, milliseconds.
    pub age_ms: u64,
}

struct Index<'a> {
    reports: &'a [KeptReport],
    /// (process, cause) -> places.
    by_cause: HashMap<(usize, u64), Vec<(usize, &'a Wait)>>,
    /// (client, target, xid) -> work at the target.
    served: HashMap<(&'a str, &'a str, u64), (usize, &'a Wait)>,
}

/// All chains, the longest wait first.
pub fn chains(reports: &[KeptReport]) -> Vec<Chain> {
    let mut index = Index { reports, by_cause: HashMap::new(), served: HashMap::new() };
    for (process, kept) in reports.iter().enumerate() {
        for wait in &kept.report.waits {
            if wait.cause != 0 {
                index.by_cause.entry((process, wait.cause)).or_default().push((process, wait));
            }
            if let Waiting::Served { client, target, xid, .. } = &wait.what {
                index.served.insert((client, target, *xid), (process, wait));
            }
        }
    }
    let mut chains = Vec::new();
    for (process, kept) in reports.iter().enumerate() {
        let ids: Vec<u64> = kept.report.waits.iter().map(|wait| wait.id).collect();
        for wait in &kept.report.waits {
            // A wait that another one here waits for is a link, not a beginning; so is work for a
            // known asker.
            let begins = wait.cause == 0 || !ids.contains(&wait.cause);
            let begins = begins && !index.has_asker(&wait.what);
            if begins {
                chains.push(index.chain(process, wait));
            }
        }
    }
    chains.sort_by(|a, b| {
        b.age_ms
            .cmp(&a.age_ms)
            .then_with(|| (&a.host, a.pid, &a.fid).cmp(&(&b.host, b.pid, &b.fid)))
    });
    chains
}

impl<'a> Index<'a> {
    fn has_asker(&self, what: &Waiting) -> bool {
        let Waiting::Served { client, target, xid, .. } = what else { return false };
        let asks = |wait: &Wait| matches!(&wait.what, Waiting::Request { client: c, target: t, xid: x, .. } if (c, t, x) == (client, target, xid));
        self.reports.iter().any(|kept| kept.report.waits.iter().any(asks))
    }

    /// The longest of the waits that this wait itself waits for.
    fn next(&self, process: usize, wait: &'a Wait) -> Option<(usize, &'a Wait)> {
        if let Waiting::Request { client, target, xid, .. } = &wait.what
            && let Some(found) = self.served.get(&(client.as_str(), target.as_str(), *xid))
        {
            return Some(*found);
        }
        let children = self.by_cause.get(&(process, wait.id))?;
        children.iter().max_by_key(|(_, child)| child.age_ms).copied()
    }

    fn chain(&self, process: usize, wait: &'a Wait) -> Chain {
        let kept = &self.reports[process].report;
        let mut chain = Chain {
            host: kept.host.clone(),
            pid: 0,
            program: String::new(),
            at: String::new(),
            client: String::new(),
            operation: String::new(),
            fid: String::new(),
            age_ms: wait.age_ms + self.reports[process].age_ms,
            steps: Vec::new(),
            holders: Vec::new(),
        };
        match &wait.what {
            Waiting::Program { client, at, pid, program, operation, fid, .. } => {
                chain.pid = *pid;
                (chain.program, chain.at, chain.client) =
                    (program.clone(), at.clone(), client.clone());
                (chain.operation, chain.fid) = (operation.clone(), fid.clone());
            }
            Waiting::Request { client, operation, fid, .. }
            | Waiting::Served { client, operation, fid, .. } => {
                chain.program = format!("sheen {}", kept.place);
                (chain.client, chain.operation, chain.fid) =
                    (client.clone(), operation.clone(), fid.clone());
                self.step(process, wait, &mut chain);
            }
            Waiting::Lock { client, fid, .. } | Waiting::FileLock { client, fid, .. } => {
                chain.program = format!("sheen {}", kept.place);
                (chain.client, chain.operation, chain.fid) =
                    (client.clone(), "lock".to_owned(), fid.clone());
                self.step(process, wait, &mut chain);
            }
        }
        let mut here = (process, wait);
        while let Some(next) = self.next(here.0, here.1).filter(|_| chain.steps.len() < STEPS_MAX) {
            self.step(next.0, next.1, &mut chain);
            here = next;
        }
        chain
    }

    fn step(&self, process: usize, wait: &Wait, chain: &mut Chain) {
        let (kind, target, text) = match &wait.what {
            Waiting::Program { .. } => return,
            Waiting::Request { target, xid, operation, session, .. } => {
                let how = if session == "FULL" || session.is_empty() {
                    String::new()
                } else {
                    format!("; the session is {session}")
                };
                // One without a number has not been sent.
                let does = if *xid == 0 { "waits for" } else { "asks" };
                ("request", target, format!("{does} {target}: {operation}{how}"))
            }
            Waiting::Served { target, operation, .. } => {
                ("target", target, format!("{target} works on {operation}"))
            }
            Waiting::Lock { target, fid, bits, holders, .. } => {
                chain.holders.clone_from(holders);
                ("lock", target, format!("waits at {target} for {bits} of {fid}"))
            }
            Waiting::FileLock { target, fid, start, end, holders, .. } => {
                chain.holders.clone_from(holders);
                let range = match (start, end) {
                    (0, &u64::MAX) => "the whole file".to_owned(),
                    (start, &u64::MAX) => format!("bytes from {start}"),
                    (start, end) => format!("bytes {start} to {end}"),
                };
                ("file lock", target, format!("waits at {target} for a lock of {fid}, {range}"))
            }
        };
        let age_ms = wait.age_ms + self.reports[process].age_ms;
        chain.steps.push(Step { kind: kind.to_owned(), target: target.clone(), text, age_ms });
    }
}

/// `1.5 s`, `2 min 3 s`.
pub fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        10_000..60_000 => format!("{} s", ms / 1000),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

impl Chain {
    /// For people: a line for the program, an indented one for each step and holder.
    pub fn text(&self) -> String {
        let who = match self.pid {
            0 => format!("{} on {}", self.program, self.host),
            pid => format!("{} (process {pid}) on {}", self.program, self.host),
        };
        let what = if self.fid.is_empty() { String::new() } else { format!(" of {}", self.fid) };
        let at = if self.at.is_empty() { String::new() } else { format!(" at {}", self.at) };
        let mut text =
            format!("{who}: {}{what}{at} waits for {}\n", self.operation, age(self.age_ms));
        for step in &self.steps {
            text += &format!("  -> {} ({})\n", step.text, age(step.age_ms));
        }
        for holder in &self.holders {
            let name =
                if holder.description.is_empty() { &holder.client } else { &holder.description };
            let process =
                if holder.pid == 0 { String::new() } else { format!(", process {}", holder.pid) };
            let holds = if holder.holds.is_empty() {
                "comes first".to_owned()
            } else {
                format!("holds {}", holder.holds)
            };
            text += &format!("  -> {name} at {} {holds}{process}\n", holder.nid);
        }
        if self.steps.is_empty() {
            text += "  -> waits within its mount: for other requests of it, or for room\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::report::NodeReport;

    fn process(host: &str, waits: Vec<Wait>) -> KeptReport {
        KeptReport {
            age_ms: 0,
            connected: true,
            report: NodeReport { host: host.into(), waits, ..NodeReport::default() },
        }
    }

    fn wait(id: u64, cause: u64, age_ms: u64, what: Waiting) -> Wait {
        Wait { id, cause, age_ms, what }
    }

    fn program() -> Waiting {
        Waiting::Program {
            client: "c1".into(),
            at: "/mnt".into(),
            pid: 42,
            thread: 43,
            program: "cp".into(),
            operation: "OPEN".into(),
            fid: "[0x1:0x2:0x0]".into(),
        }
    }

    fn request(xid: u64) -> Waiting {
        Waiting::Request {
            client: "c1".into(),
            target: "sheen-MDT0000".into(),
            xid,
            operation: "mds_open".into(),
            fid: String::new(),
            session: "FULL".into(),
        }
    }

    fn served(xid: u64) -> Waiting {
        Waiting::Served {
            client: "c1".into(),
            target: "sheen-MDT0000".into(),
            xid,
            operation: "mds_open".into(),
            fid: String::new(),
        }
    }

    fn lock() -> Waiting {
        let holder = Holder {
            client: "c2".into(),
            description: "b:/mnt".into(),
            nid: "10.0.0.2@tcp".into(),
            holds: "UPDATE".into(),
            pid: 0,
        };
        Waiting::Lock {
            client: "c1".into(),
            target: "sheen-MDT0000".into(),
            fid: "[0x1:0x2:0x0]".into(),
            bits: "UPDATE".into(),
            holders: vec![holder],
        }
    }

    #[test]
    fn a_chain_goes_through_processes_to_the_holder() {
        let reports = [
            process("a", vec![wait(1, 0, 3000, program()), wait(2, 1, 2900, request(77))]),
            process(
                "s",
                vec![
                    wait(1, 0, 2800, served(77)),
                    wait(9, 1, 2700, lock()),
                    wait(2, 0, 5000, served(78)),
                ],
            ),
        ];
        let chains = chains(&reports);
        assert_eq!(chains.len(), 2, "{chains:#?}");
        let text = chains[1].text();
        let expected = "\
cp (process 42) on a: OPEN of [0x1:0x2:0x0] at /mnt waits for 3.0 s
  -> asks sheen-MDT0000: mds_open (2.9 s)
  -> sheen-MDT0000 works on mds_open (2.8 s)
  -> waits at sheen-MDT0000 for UPDATE of [0x1:0x2:0x0] (2.7 s)
  -> b:/mnt at 10.0.0.2@tcp holds UPDATE
";
        assert_eq!(text, expected);
        assert_eq!(
            chains[0].steps[0].kind, "target",
            "work whose asker does not report stands for itself"
        );
    }

    #[test]
    fn a_chain_ends_at_an_mdt_that_is_away() {
        let away = Waiting::Request {
            client: "m0".into(),
            target: "sheen-MDT0001".into(),
            xid: 0,
            operation: "its part of an operation over several MDTs".into(),
            fid: String::new(),
            session: "CONNECTING".into(),
        };
        let chain =
            chains(&[process("s", vec![wait(1, 0, 9000, served(7)), wait(5, 1, 8000, away)])]);
        let text = chain[0].text();
        let end = "\
  -> waits for sheen-MDT0001: its part of an operation over several MDTs; the session is CONNECTING (8.0 s)
";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn numbers_of_different_processes_are_not_mixed_up() {
        let reports = [
            process("a", vec![wait(1, 0, 3000, program())]),
            process("b", vec![wait(2, 1, 2000, lock())]),
        ];
        let chains = chains(&reports);
        assert_eq!(chains.len(), 2);
        assert!(chains[0].steps.is_empty());
        assert!(chains[0].text().contains("waits within its mount"));
    }

    #[test]
    fn a_circle_ends() {
        let reports = [process(
            "a",
            vec![wait(5, 0, 10, program()), wait(1, 5, 3000, lock()), wait(5, 1, 3000, lock())],
        )];
        assert!(chains(&reports).iter().all(|chain| chain.steps.len() <= STEPS_MAX));
    }

    #[test]
    fn ages_are_short() {
        assert_eq!([0, 1540, 12_345, 61_000].map(age), ["0.0 s", "1.5 s", "12 s", "1 min 1 s"]);
    }
}
