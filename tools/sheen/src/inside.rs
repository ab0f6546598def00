//! Reports of the daemons of this host about themselves and their cluster: for `top` and `why`.

use crate::commands::status::existing_home;
use crate::terminal::outcome::Failure;
use ::dash::cluster::newest;
use lctl::daemons::Daemons;
use node::home::Home;
use node::manage::control::{self, Answer, ControlError, Request};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use wire::report::KeptReport;

/// Time for all daemons of this host together; longer than one of them waits for the MGS.
const PATIENCE: Duration = Duration::from_secs(4);

/// Homes to ask, by cluster, each cluster with its name: those of `dirs`, as one; or all daemons of
/// this host. With `cluster` (name of a file system, or NID of the MGS) only those of one cluster.
///
/// # Errors
/// A named directory is no home; `cluster` is no cluster, or several.
pub fn clusters(
    dirs: &[PathBuf],
    cluster: Option<&str>,
) -> Result<Vec<(String, Vec<Home>)>, Failure> {
    if dirs.is_empty() {
        let daemons = Daemons::chosen(cluster).map_err(|refused| Failure::No(refused.sentence))?;
        return Ok(daemons.by_cluster());
    }
    let homes = dirs.iter().map(|dir| existing_home(dir)).collect::<Result<_, _>>()?;
    Ok(vec![(String::new(), homes)])
}

/// As [`clusters`], for what shows one cluster.
///
/// # Errors
/// As [`clusters`]; the daemons are of several clusters.
pub fn cluster(dirs: &[PathBuf], cluster: Option<&str>) -> Result<Vec<Home>, Failure> {
    let mut clusters = clusters(dirs, cluster)?;
    if clusters.len() > 1 {
        let names = clusters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("; ");
        return Err(Failure::Usage(format!(
            "this host has daemons of several clusters ({names}), and this shows one: choose it with --cluster FSNAME, or \
             the NID of its MGS"
        )));
    }
    Ok(clusters.pop().map(|(_, homes)| homes).unwrap_or_default())
}

/// The newest report of each process that these daemons know. `own`: only their own. `true` in the
/// result: the MGS was asked. All are asked at once. A daemon that hangs is left out, and the MGS's
/// report of it is used.
///
/// # Errors
/// No daemon answers.
pub fn reports(homes: &[Home], own: bool) -> Result<(Vec<KeptReport>, bool), Failure> {
    let (send, receive) = mpsc::channel();
    for home in homes {
        let (home, send) = (home.clone(), send.clone());
        // Not joined: a thread that hangs ends with this process. The receiver may be gone by then.
        thread::spawn(move || send.send(control::ask(&home, &Request::Reports { own })));
    }
    drop(send);
    let deadline = Instant::now() + PATIENCE;
    let (mut all, mut whole, mut answered) = (Vec::new(), false, false);
    let mut trouble = None;
    for _ in homes {
        match receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok((Answer::Reports { reports, whole: heard }, _))) => {
                answered = true;
                whole |= heard;
                all.extend(reports);
            }
            Ok(Ok((Answer::Error { reason } | Answer::Failed { reason, .. }, _))) => {
                trouble = Some(reason)
            }
            Ok(Ok((other, _))) => {
                trouble = Some(format!("a daemon answers something else: {other:?}"))
            }
            Ok(Err(ControlError::NotUp(_))) => {}
            Ok(Err(error)) => trouble = Some(error.to_string()),
            Err(_) => {
                trouble = Some(format!("a daemon does not answer within {} s", PATIENCE.as_secs()));
                break;
            }
        }
    }
    match (answered, trouble) {
        (true, _) => Ok((newest(all), whole)),
        (false, Some(trouble)) => Err(Failure::Failed(trouble)),
        (false, None) => Err(Failure::No(
            "no daemon of SheenFS answers on this host: start one with `sheen up`, or run this where one runs"
                .to_owned(),
        )),
    }
}
