//! The mounts that a command is about.
//!
//! The kernel may ask for attributes of the root before it lets a question through to the mount's
//! daemon. If the servers are away, that waits for them. So each mount is asked on a thread of its
//! own: one that waits holds up no other, and is reported.

use ask::mounts::{self, Mount};
use ask::together;
use report::Report;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use types::errno::Errno;

/// Time that all mounts together have to answer. A client that never heard of some targets waits
/// 5 s for the MDTs among them, and 5 s for the OSTs.
const PATIENCE: Duration = Duration::from_secs(15);
/// Mounts that answer within this time are told of in their order, the others as they answer.
const SOON: Duration = Duration::from_secs(1);

/// The mounts of these paths, or all if there is none. Those that do not answer are reported.
pub fn mounts(paths: &[PathBuf], report: &mut Report<'_>) -> Vec<Mount> {
    let mut good = Vec::new();
    let keep = |mount, _: &mut Report<'_>| {
        good.push(mount);
        Ok(())
    };
    // What only keeps does not fail.
    let kept = each(paths, report, Mount::clone, keep);
    debug_assert!(kept.is_ok(), "{kept:?}");
    good
}

/// Asks the mounts of these paths, or all if there is none, and tells each answer. Mounts that do
/// not answer are reported behind the others.
///
/// # Errors
/// Those of `tell`, which ends it.
pub fn each<R: Send + 'static>(
    paths: &[PathBuf],
    report: &mut Report<'_>,
    ask: impl Fn(&Mount) -> R + Send + Sync + 'static,
    mut tell: impl FnMut(R, &mut Report<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let find: fn(PathBuf) -> io::Result<Mount> =
        if paths.is_empty() { mounts::at } else { |path| mounts::mount_of(&path) };
    let paths = match paths {
        [] => match mounts::mount_points() {
            Ok(dirs) => dirs,
            Err(error) => {
                report.failed("can't read /proc/self/mountinfo", &error);
                return Ok(());
            }
        },
        paths => paths.to_vec(),
    };
    let asked = move |path: PathBuf| find(path).map(|mount| ask(&mount));
    let mut answers = together::ask(paths.clone(), PATIENCE, asked);
    let mut told = |at: usize, answer, report: &mut Report<'_>| match answer {
        Ok(answer) => tell(answer, report),
        Err(error) => {
            report.failed(&format!("can't ask the mount of '{}'", paths[at].display()), &error);
            Ok(())
        }
    };
    let soon = Instant::now() + SOON;
    let mut first = Vec::new();
    while let Some(answer) = answers.next_before(soon) {
        first.push(answer);
    }
    first.sort_by_key(|(at, _)| *at);
    let mut silent = vec![true; paths.len()];
    for (at, answer) in first {
        silent[at] = false;
        told(at, answer, report)?;
    }
    while let Some((at, answer)) = answers.next_before(answers.deadline()) {
        silent[at] = false;
        told(at, answer, report)?;
    }
    for path in paths.iter().zip(silent).filter_map(|(path, silent)| silent.then_some(path)) {
        let sentence = format!(
            "can't ask the mount of '{}': it does not answer within {} s; are its servers up?",
            path.display(),
            PATIENCE.as_secs()
        );
        report.sentence(&sentence, Errno::ETIMEDOUT);
    }
    Ok(())
}
