//! Reports of the daemons of this host about themselves and their cluster: for `top` and `why`.

use crate::commands::status::existing_home;
use crate::terminal::outcome::Failure;
use ::dash::cluster::newest;
use ask::together::{self, Answers};
use ask::{local, socket};
use lctl::daemons::Daemons;
use node::home::Home;
use node::manage::control::{Answer, ControlError, Request};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::report::KeptReport;

/// Time for all daemons of this host together; longer than one of them waits for the MGS.
const PATIENCE: Duration = Duration::from_secs(4);
/// A daemon that was silent before has so long after the others have answered.
const GRACE: Duration = Duration::from_millis(100);

/// What a daemon answers to the question for reports.
type Told = Result<(Answer, i32), ControlError>;

/// What the daemons of one cluster tell.
#[derive(Default)]
pub struct Heard {
    /// The newest report of each process that they know.
    pub reports: Vec<KeptReport>,
    /// True if the MGS was asked.
    pub whole: bool,
    /// One of them answered.
    pub answered: bool,
    /// One sentence for each that did not.
    pub trouble: Vec<String>,
}

impl Heard {
    fn take(&mut self, home: &Home, told: Option<Told>) {
        match told.unwrap_or_else(|| Err(ControlError::silent(home, PATIENCE))) {
            Ok((Answer::Reports { reports, whole }, _)) => {
                self.answered = true;
                self.whole |= whole;
                self.reports.extend(reports);
            }
            Ok((Answer::Error { reason } | Answer::Failed { reason, .. }, _)) => {
                self.trouble.push(reason)
            }
            Ok((other, _)) => {
                self.trouble.push(format!("a daemon answers something else: {other:?}"))
            }
            // The daemon ended, or is ending.
            Err(ControlError::NotUp(_)) => {}
            Err(error) => self.trouble.push(error.to_string()),
        }
    }

    /// # Errors
    /// No daemon answered.
    fn checked(mut self) -> Result<Heard, Failure> {
        self.reports = newest(std::mem::take(&mut self.reports));
        match (self.answered, self.trouble.is_empty()) {
            (true, _) => Ok(self),
            (false, false) => Err(Failure::Failed(self.trouble.join("; "))),
            (false, true) => Err(nobody()),
        }
    }
}

/// No daemon runs on this host.
pub fn nobody() -> Failure {
    Failure::No(
        "no daemon of SheenFS answers on this host: start one with `sheen up`, or run this where one runs"
            .to_owned(),
    )
}

/// Asks all of these at once.
fn ask(homes: Vec<Home>) -> Answers<Told> {
    together::ask(homes, PATIENCE, |home| {
        socket::ask_within(&home, &Request::Reports { own: false }, PATIENCE)
    })
}

/// What the daemons of this host tell of each cluster, with its name; with `cluster` (name of a
/// file system, or NID of the MGS) only of that one. Daemons that do not say in time which cluster
/// they belong to come last, together. Everything is asked at once: those that hang cost one
/// [`PATIENCE`] in all.
///
/// # Errors
/// `cluster` is no cluster, or several.
pub fn clusters(cluster: Option<&str>) -> Result<Vec<(String, Heard)>, Failure> {
    let homes = local::daemons();
    // On its way while the daemons tell their cluster.
    let answers = ask(homes.clone());
    let daemons = Daemons::chosen(cluster).map_err(|refused| Failure::No(refused.sentence))?;
    let silent = daemons.silent();
    let mut told: Vec<(Home, Option<Told>)> = homes.into_iter().zip(answers.in_turn()).collect();
    let mut heard = |homes: &[Home]| {
        let mut heard = Heard::default();
        for home in homes {
            // One that began meanwhile was not asked.
            if let Some(at) = told.iter().position(|(other, _)| other == home) {
                let (home, told) = told.swap_remove(at);
                heard.take(&home, told);
            }
        }
        heard.reports = newest(std::mem::take(&mut heard.reports));
        heard
    };
    let named = daemons.by_cluster();
    let named = named.iter().map(|(name, homes)| (name.clone(), heard(homes)));
    let mut clusters: Vec<(String, Heard)> = named.collect();
    if !silent.is_empty() {
        clusters.push((String::new(), heard(&silent)));
    }
    Ok(clusters)
}

/// Daemons that know one cluster, asked again and again.
pub struct Daemon {
    home: Home,
    /// It did not answer the last time.
    silent: bool,
}

/// Daemons of `dirs`, or those of this host if there is none. With `cluster` (name of a file
/// system, or NID of the MGS) only those of one cluster.
///
/// # Errors
/// A named directory is no home; `cluster` is no cluster, or several; the daemons are of several
/// clusters.
pub fn cluster(dirs: &[PathBuf], cluster: Option<&str>) -> Result<Vec<Daemon>, Failure> {
    if !dirs.is_empty() {
        let daemon = |dir: &PathBuf| Ok(Daemon { home: existing_home(dir)?, silent: false });
        return dirs.iter().map(daemon).collect();
    }
    let daemons = Daemons::chosen(cluster).map_err(|refused| Failure::No(refused.sentence))?;
    // They are of this cluster, if there is one only.
    let silent = daemons.silent().into_iter().map(|home| Daemon { home, silent: true });
    let mut clusters = daemons.by_cluster();
    if clusters.len() > 1 {
        let names = clusters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("; ");
        return Err(Failure::Usage(format!(
            "this host has daemons of several clusters ({names}), and this shows one: choose it with --cluster FSNAME, or \
             the NID of its MGS"
        )));
    }
    let homes = clusters.pop().map(|(_, homes)| homes).unwrap_or_default();
    let awake = homes.into_iter().map(|home| Daemon { home, silent: false });
    Ok(awake.chain(silent).collect())
}

/// The newest report of each process that these daemons know. All are asked at once. A daemon that
/// hangs is left out, and the MGS's report of it is used; the next time it is asked, but not waited
/// for.
///
/// # Errors
/// No daemon answers.
pub fn reports(daemons: &mut [Daemon]) -> Result<Vec<KeptReport>, Failure> {
    let mut answers = ask(daemons.iter().map(|daemon| daemon.home.clone()).collect());
    let mut told: Vec<Option<Told>> = daemons.iter().map(|_| None).collect();
    let awake = |told: &[Option<Told>]| {
        let missing = daemons.iter().zip(told);
        missing.filter(|(daemon, told)| !daemon.silent && told.is_none()).count()
    };
    // If all were silent, they get their time.
    let all_silent = daemons.iter().all(|daemon| daemon.silent);
    let mut until = answers.deadline();
    loop {
        if awake(&told) == 0 && !all_silent {
            until = until.min(Instant::now() + GRACE);
        }
        let Some((at, answer)) = answers.next_before(until) else { break };
        told[at] = Some(answer);
    }
    let mut heard = Heard::default();
    for (daemon, told) in daemons.iter_mut().zip(told) {
        daemon.silent = matches!(told, None | Some(Err(ControlError::Silent { .. })));
        heard.take(&daemon.home, told);
    }
    Ok(heard.checked()?.reports)
}
