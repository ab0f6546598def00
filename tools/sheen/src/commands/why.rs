//! `sheen why`: the waits of a process, or of every user of a path.
//!
//! A path is looked at in a thread of its own: if that look hangs too, it is itself the operation
//! to explain.

use crate::cli::WhyArgs;
use crate::inside;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use ::dash::chain::{Chain, chains};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use types::fid::Fid;

/// A look at a path that takes longer hangs. More than a second, because younger waits are not
/// reported.
const LOOK_MAX: Duration = Duration::from_millis(1600);

/// Subject of the question.
enum About {
    Everything,
    Process(u32),
    Inode(u64, PathBuf),
    /// Our own look at the path hangs.
    Ourselves,
}

/// Explains.
pub fn run(args: &WhyArgs) -> Outcome {
    let about = match &args.what {
        None => About::Everything,
        Some(what) => about(what)?,
    };
    let (mut found, mut answered, mut trouble) = (Vec::new(), false, Vec::new());
    // One after the other: a FID is an inode of one cluster.
    for (name, heard) in inside::clusters(args.cluster.as_deref())? {
        let chains = chains(&heard.reports).into_iter();
        found.extend(chains.filter(|chain| is_meant(&about, chain)));
        if heard.answered && !heard.whole {
            trouble.push(format!(
                "the MGS of {name} does not answer: only what the daemons of this host know is told"
            ));
        }
        answered |= heard.answered;
        trouble.extend(heard.trouble);
    }
    match (answered, trouble.is_empty()) {
        (true, _) => trouble.iter().for_each(|sentence| output::talk(sentence)),
        (false, false) => return Err(Failure::Failed(trouble.join("; "))),
        (false, true) => return Err(inside::nobody()),
    }
    if args.json {
        output::json(&found)?;
    } else {
        output::data(&found.iter().map(Chain::text).collect::<String>())?;
    }
    match (found.is_empty(), args.json) {
        (false, _) => Ok(Exit::Done),
        (true, true) => Ok(Exit::No),
        (true, false) => Err(Failure::No(nothing(&about))),
    }
}

fn about(what: &Path) -> Result<About, Failure> {
    let number = what.to_str().and_then(|text| text.parse::<u32>().ok());
    if let Some(pid) = number.filter(|pid| Path::new("/proc").join(pid.to_string()).exists()) {
        return Ok(About::Process(pid));
    }
    let path = std::path::absolute(what)
        .map_err(|e| Failure::Usage(format!("{} is no path: {e}", what.display())))?;
    let (send, receive) = mpsc::channel();
    let looked = path.clone();
    // Not joined: it may hang as long as the file it looks at; it ends with this process.
    std::thread::spawn(move || {
        send.send(std::fs::symlink_metadata(looked).map(|metadata| metadata.ino()))
    });
    match receive.recv_timeout(LOOK_MAX) {
        Ok(Ok(ino)) => Ok(About::Inode(ino, path)),
        Ok(Err(error)) => {
            let hint =
                if number.is_some() { ", nor is there a process of that number" } else { "" };
            Err(Failure::No(format!("cannot look at {}: {error}{hint}", path.display())))
        }
        Err(_) => Ok(About::Ourselves),
    }
}

fn is_meant(about: &About, chain: &Chain) -> bool {
    match about {
        About::Everything => true,
        About::Process(pid) => chain.pid == *pid,
        About::Ourselves => chain.pid == std::process::id(),
        About::Inode(ino, path) => {
            let fid = chain.fid.parse::<Fid>().is_ok_and(|fid| fid.ino() == *ino);
            // Processes that wait elsewhere for the same file are meant, too; a bare number could
            // be of another file system.
            fid && (chain.at.is_empty()
                || path.starts_with(&chain.at)
                || !Path::new(&chain.at).exists())
        }
    }
}

fn nothing(about: &About) -> String {
    match about {
        About::Everything => "nothing waits for longer than a second".to_owned(),
        About::Process(pid) => {
            format!("process {pid} waits for no SheenFS for longer than a second")
        }
        About::Inode(_, path) => {
            format!("nobody waits for {} for longer than a second", path.display())
        }
        About::Ourselves => {
            "the path cannot be looked at in time, but no mount of SheenFS knows of it".to_owned()
        }
    }
}
