//! Asking the daemons of the host; what cannot be asked is reported.
//!
//! A host may have daemons of several clusters. A command that only shows asks them all. A command
//! that changes something is refused ([`Daemons::are_of_one_cluster`]) unless `--cluster` names the
//! cluster, or there is only one.

use ask::params::{self, ParamAnswer, ParamRequest, Refused};
use ask::socket::{self, TIMEOUT};
use ask::together;
use node::home::Home;
use node::local;
use node::manage::control::{self, Answer, ClusterAnswer, ControlError, Request};
use report::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::time::Duration;
use types::errno::Errno;

/// Time that all daemons together have to say which cluster they belong to. They know it, so that
/// only one that stands still needs more.
pub const WHOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// A daemon and what it answered.
pub struct Answered {
    /// Folder of the control socket.
    pub home: Home,
    /// The daemon's answer.
    pub answer: Answer,
}

/// What a daemon says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Whose {
    /// The cluster that it belongs to.
    Told(ClusterAnswer),
    /// It does not tell this user. The reason is reported when it is asked for something.
    Untold,
    /// It did not answer in time, and is not asked again.
    Silent,
}

impl Whose {
    fn cluster(&self) -> Option<&ClusterAnswer> {
        match self {
            Whose::Told(cluster) => Some(cluster),
            Whose::Untold | Whose::Silent => None,
        }
    }
}

/// Daemons that a command is about, in the order of their process ids.
pub struct Daemons {
    all: Vec<(Home, Whose)>,
}

impl Daemons {
    /// For commands that ask none.
    pub fn none() -> Daemons {
        Daemons { all: Vec::new() }
    }

    /// All daemons of this host; with `choice` those of one cluster: file system, or NID of the
    /// MGS. `None` if there is no such cluster, or several; that is reported.
    pub fn find(choice: Option<&str>, report: &mut Report<'_>) -> Option<Daemons> {
        Daemons::chosen(choice).map_err(|refused| tell(&refused, report)).ok()
    }

    /// As [`Daemons::find`].
    ///
    /// # Errors
    /// ENOENT: no such cluster; EINVAL: several; ESRCH: no daemon can be asked.
    pub fn chosen(choice: Option<&str>) -> Result<Daemons, Refused> {
        let mut daemons = Daemons { all: Vec::new() };
        let homes = local::daemons();
        let answers = together::ask(homes.clone(), WHOSE_TIMEOUT, |home| {
            socket::ask_within::<_, Answer>(&home, &Request::Cluster, WHOSE_TIMEOUT)
        });
        for (home, answer) in homes.into_iter().zip(answers.in_turn()) {
            match answer {
                Some(Ok((Answer::Cluster { cluster }, _))) => {
                    daemons.all.push((home, Whose::Told(cluster)))
                }
                // The daemon ended, or is ending.
                Some(Err(ControlError::NotUp(_))) => {}
                None | Some(Err(ControlError::Silent { .. })) => {
                    daemons.all.push((home, Whose::Silent))
                }
                Some(Ok(_) | Err(_)) => daemons.all.push((home, Whose::Untold)),
            }
        }
        let Some(choice) = choice else { return Ok(daemons) };
        let (groups, of) = daemons.groups();
        let chosen: Vec<usize> =
            (0..groups.len()).filter(|n| groups[*n].is_called(choice)).collect();
        let words = |which: &[usize]| {
            which.iter().map(|n| groups[*n].to_string()).collect::<Vec<_>>().join("; ")
        };
        match &chosen[..] {
            [one] => {
                let mut of = of.into_iter();
                daemons.all.retain(|_| of.next().flatten() == Some(*one));
                Ok(daemons)
            }
            [] if groups.is_empty() => Err(Refused {
                sentence: "no daemon of this host can be asked".to_owned(),
                errno: Errno(rustix::io::Errno::SRCH.raw_os_error()),
            }),
            [] => {
                let there = words(&(0..groups.len()).collect::<Vec<_>>());
                let sentence =
                    format!("no daemon of this host belongs to {choice}; there are: {there}");
                Err(Refused { sentence, errno: Errno::ENOENT })
            }
            several => {
                let several = words(several);
                let sentence =
                    format!("{choice} names several clusters: {several}; give the NID of an MGS");
                Err(Refused { sentence, errno: Errno::EINVAL })
            }
        }
    }

    /// Homes of those that did not say in time which cluster they belong to.
    pub fn silent(&self) -> Vec<Home> {
        let silent = self.all.iter().filter(|(_, whose)| *whose == Whose::Silent);
        silent.map(|(home, _)| home.clone()).collect()
    }

    /// Homes of the others by cluster, each cluster with its name. Daemons that do not tell theirs
    /// come last, together.
    pub fn by_cluster(self) -> Vec<(String, Vec<Home>)> {
        let (groups, of) = self.groups();
        let named = groups.iter().map(|group| (group.to_string(), Vec::new()));
        let mut clusters: Vec<(String, Vec<Home>)> =
            named.chain([("unknown".to_owned(), Vec::new())]).collect();
        let unknown = groups.len();
        for ((home, whose), of) in self.all.into_iter().zip(of) {
            if whose == Whose::Silent {
                continue;
            }
            clusters[of.unwrap_or(unknown)].1.push(home);
        }
        clusters.retain(|(_, homes)| !homes.is_empty());
        clusters
    }

    /// The clusters of these daemons, and which one each daemon belongs to, if it says so.
    fn groups(&self) -> (Vec<Group>, Vec<Option<usize>>) {
        let answers: Vec<Option<&ClusterAnswer>> =
            self.all.iter().map(|(_, whose)| whose.cluster()).collect();
        group(&answers)
    }

    /// True if a command may change something here. False, with a report, if it could mean several
    /// clusters.
    pub fn are_of_one_cluster(&self, report: &mut Report<'_>) -> bool {
        let (groups, _) = self.groups();
        if groups.len() > 1 {
            let words = groups.iter().map(Group::to_string).collect::<Vec<_>>().join("; ");
            let sentence = format!(
                "this host has daemons of several clusters ({words}), and this could change any of them: choose one with \
                 lctl --cluster FSNAME, or the NID of its MGS"
            );
            report.sentence(&sentence, Errno::EINVAL);
            return false;
        }
        true
    }

    /// Only the daemons of which `fits` is true.
    pub fn only(&self, fits: impl Fn(&Home, Option<&ClusterAnswer>) -> bool) -> Daemons {
        let all = self.all.iter().filter(|(home, whose)| fits(home, whose.cluster()));
        Daemons { all: all.cloned().collect() }
    }

    /// Those that may be asked; the others are reported.
    fn awake(&self, report: &mut Report<'_>) -> Vec<Home> {
        let mut awake = Vec::new();
        for (home, whose) in &self.all {
            match whose {
                Whose::Silent => {
                    tell(&Refused::from(&ControlError::silent(home, WHOSE_TIMEOUT)), report)
                }
                Whose::Told(_) | Whose::Untold => awake.push(home.clone()),
            }
        }
        awake
    }

    /// Asks all of them at once.
    pub fn ask_all(&self, request: &Request, report: &mut Report<'_>) -> Vec<Answered> {
        let homes = self.awake(report);
        let request = request.clone();
        let asked = move |home: Home| match control::ask(&home, &request) {
            // Users other than the owner may still see its public part.
            Err(ControlError::Socket { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied
                    && request.is_for_everybody() =>
            {
                control::ask_public(&home, &request)
            }
            answer => answer,
        };
        let mut answers = Vec::new();
        let told = together::ask(homes.clone(), TIMEOUT, asked).in_turn();
        for (home, answer) in homes.into_iter().zip(told) {
            match answer.unwrap_or_else(|| Err(ControlError::silent(&home, TIMEOUT))) {
                Ok((answer, _)) => answers.push(Answered { home, answer }),
                // The daemon ended, or is ending.
                Err(ControlError::NotUp(_)) => {}
                Err(error) => tell(&Refused::from(&error), report),
            }
        }
        answers
    }

    /// Asks one after the other until one of them does it.
    pub fn ask_first(&self, request: &Request, report: &mut Report<'_>) -> Vec<Answered> {
        let mut answers = Vec::new();
        for (home, _) in &self.all {
            let one = self.only(|daemon, _| daemon.dir() == home.dir());
            answers.extend(one.ask_all(request, report));
            // The MGS refuses the same, whichever daemon passes it on. It does not hear them all.
            let unheard = [Errno::ETIMEDOUT, Errno::EIO, Errno::EACCES].map(|errno| errno.0);
            let is_unheard = |answer: &Answer| matches!(answer, Answer::Failed { errno, .. } if unheard.contains(errno));
            if answers.last().is_some_and(|last| !is_unheard(&last.answer)) {
                break;
            }
        }
        answers
    }

    /// Parameters of all of them by name.
    pub fn params(
        &self,
        request: &ParamRequest,
        report: &mut Report<'_>,
    ) -> BTreeMap<String, ParamAnswer> {
        let (params, refused) = params::ask_of(&self.awake(report), request);
        refused.iter().for_each(|refused| tell(refused, report));
        params
    }

    /// Sets parameters. `None` if the pattern matches parameters of several clusters: then nothing
    /// was set, and that is reported.
    pub fn set(
        &self,
        pattern: &str,
        value: &str,
        report: &mut Report<'_>,
    ) -> Option<BTreeMap<String, ParamAnswer>> {
        let request = ParamRequest::Set { pattern: pattern.to_owned(), value: value.to_owned() };
        if self.groups().0.len() < 2 {
            return Some(self.params(&request, report));
        }
        let look = ParamRequest::Get {
            patterns: vec![pattern.to_owned()],
            recursive: false,
            values: false,
        };
        let has = |home: &Home| !params::ask_of(std::slice::from_ref(home), &look).0.is_empty();
        let all = self.all.iter().filter(|(home, whose)| *whose != Whose::Silent && has(home));
        let meant = Daemons { all: all.cloned().collect() };
        meant.are_of_one_cluster(report).then(|| meant.params(&request, report))
    }
}

/// A cluster, as this host's daemons describe it.
#[derive(Default, PartialEq, Eq, Debug)]
struct Group {
    uuid: Option<String>,
    fsnames: BTreeSet<String>,
    /// Of the MGS, best first.
    nids: Vec<String>,
}

impl Group {
    fn is_called(&self, choice: &str) -> bool {
        self.fsnames.contains(choice) || self.nids.iter().any(|nid| nid == choice)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fsnames.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let names = if names.is_empty() { "a cluster without file system" } else { &names };
        match self.nids.first() {
            Some(nid) => write!(f, "{names} at {nid}"),
            None => f.write_str(names),
        }
    }
}

/// Daemons of a cluster have its UUID. A daemon that does not know it yet has the MGS in common
/// with others.
fn group(answers: &[Option<&ClusterAnswer>]) -> (Vec<Group>, Vec<Option<usize>>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut of = vec![None; answers.len()];
    // Those that know it first, so that the others find them.
    for knows in [true, false] {
        for (answer, of) in answers.iter().zip(&mut of) {
            let Some(answer) = answer.filter(|answer| answer.uuid.is_some() == knows) else {
                continue;
            };
            // That is the asking host itself.
            let nids: Vec<&String> = answer.mgs.iter().filter(|nid| *nid != "0@lo").collect();
            let same = |group: &Group| match knows {
                true => group.uuid == answer.uuid,
                false => nids.iter().any(|nid| group.nids.contains(nid)),
            };
            let at = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Group { uuid: answer.uuid.clone(), ..Group::default() });
                groups.len() - 1
            });
            groups[at].fsnames.extend(answer.fsnames.iter().cloned());
            for nid in nids {
                if !groups[at].nids.contains(nid) {
                    groups[at].nids.push(nid.clone());
                }
            }
            *of = Some(at);
        }
    }
    (groups, of)
}

/// What to do if the MGS does not take a change from this host (EACCES).
pub fn on_a_server(what: &str) -> String {
    format!(
        "{what}: only servers may change this; run it on a host that serves a target of the file system"
    )
}

/// An answer that is none to what was asked.
pub fn unexpected(answer: &Answer, report: &mut Report<'_>) {
    match answer {
        Answer::Failed { errno, reason } => tell(&Refused::failed(*errno, reason), report),
        Answer::Error { reason } => tell(&Refused::stranger(reason), report),
        other => {
            report.sentence(&format!("a daemon answers something else: {other:?}"), Errno::EPROTO)
        }
    }
}

fn tell(refused: &Refused, report: &mut Report<'_>) {
    report.sentence(&refused.sentence, refused.errno);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_that_do_not_know_their_cluster_yet_are_found_by_its_mgs() {
        let answer = |uuid: Option<&str>, fsnames: &[&str], mgs: &[&str]| {
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            ClusterAnswer {
                uuid: uuid.map(str::to_owned),
                fsnames: owned(fsnames),
                mgs: owned(mgs),
            }
        };
        let answers = [
            answer(None, &[], &["10.0.0.1@tcp"]),
            answer(Some("a"), &["sheen"], &["0@lo", "10.0.0.1@tcp"]),
            answer(Some("b"), &["sheen"], &["10.0.0.2@tcp"]),
            answer(None, &["new"], &["10.0.0.9@tcp", "0@lo"]),
        ];
        let mut asked: Vec<Option<&ClusterAnswer>> = answers.iter().map(Some).collect();
        asked.push(None);
        let (groups, of) = group(&asked);
        assert_eq!(of, [Some(0), Some(0), Some(1), Some(2), None]);
        let names: Vec<String> = groups.iter().map(Group::to_string).collect();
        assert_eq!(
            names,
            ["sheen at 10.0.0.1@tcp", "sheen at 10.0.0.2@tcp", "new at 10.0.0.9@tcp"]
        );
        let called = |choice: &str| groups.iter().filter(|group| group.is_called(choice)).count();
        assert_eq!(
            [called("sheen"), called("10.0.0.2@tcp"), called("new"), called("0@lo")],
            [2, 1, 1, 0]
        );
    }
}
