//! What may wait for MDTs that are away: after a while the command names them, once, on standard
//! error, and goes on waiting.

use ask::mounts::Mount;
use report::Report;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use types::target::{TargetKind, TargetName};

/// Nothing is said before; a mount may take 5 s more to find that an MDT does not answer.
const SAID_AFTER: Duration = Duration::from_secs(3);

/// Does the work. Once it has lasted for [`SAID_AFTER`], and each time as long again until there is
/// something to say, asks which MDTs do not answer, and says so.
pub(crate) fn waiting<T: Send>(
    mount: &Mount,
    what: &str,
    report: &mut Report<'_>,
    work: impl FnOnce() -> T + Send,
) -> T {
    let silent = || silent_mdts(mount);
    with_patience(SAID_AFTER, silent, work, |mdts| {
        report.say(&format!("{what}: waiting for {}", mdts.join(", ")));
    })
}

/// MDTs of the mount that do not answer.
fn silent_mdts(mount: &Mount) -> Vec<String> {
    // Without an answer of the daemon there is nothing to say.
    let lines = mount.space(TargetKind::Mdt).unwrap_or_default();
    let silent = lines.iter().filter(|line| line.space.is_err());
    let (fsname, kind) = (mount.names.fsname, TargetKind::Mdt);
    silent.map(|line| TargetName { fsname, kind, index: line.index }.to_string()).collect()
}

fn with_patience<T: Send>(
    after: Duration,
    silent: impl Fn() -> Vec<String>,
    work: impl FnOnce() -> T + Send,
    mut say: impl FnMut(&[String]),
) -> T {
    thread::scope(|scope| {
        let (done, ended) = channel();
        let worker = scope.spawn(move || {
            let result = work();
            // The other side waits for it.
            let _ = done.send(());
            result
        });
        let mut said = false;
        while ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
            let mdts = if said { Vec::new() } else { silent() };
            if !mdts.is_empty() {
                say(&mdts);
                said = true;
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const AFTER: Duration = Duration::from_millis(20);

    #[test]
    fn quick_work_says_nothing_and_asks_nothing() {
        let asked = || -> Vec<String> { panic!("it asks") };
        assert_eq!(with_patience(Duration::from_secs(60), asked, || 7, |_| panic!("it says")), 7);
    }

    #[test]
    fn what_is_waited_for_is_said_once_as_soon_as_it_is_known() {
        let (asked, said) = (Cell::new(0), Cell::new(0));
        let silent = || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Vec::new() } else { vec!["sheen-MDT0002".to_owned()] }
        };
        let work = || thread::sleep(AFTER * 15);
        with_patience(AFTER, silent, work, |mdts| {
            assert_eq!(mdts, ["sheen-MDT0002"]);
            said.set(said.get() + 1);
        });
        assert_eq!((asked.get(), said.get()), (3, 1));
    }
}
