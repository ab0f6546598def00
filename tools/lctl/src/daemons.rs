//! Asking all daemons of the host, and making one answer of theirs.

use node::control::{self, Answer, ControlError, Request};
use node::home::Home;
use node::local;
use node::params::ParamAnswer;
use report::Report;
use std::collections::BTreeMap;
use types::errno::Errno;

/// A daemon and what it answered.
pub struct Answered {
    /// Where its control socket is.
    pub home: Home,
    /// Its answer.
    pub answer: Answer,
}

/// Asks all that run, in the order of their process ids. What cannot be asked is reported.
pub fn ask_all(request: &Request, report: &mut Report<'_>) -> Vec<Answered> {
    let mut answers = Vec::new();
    for home in local::daemons() {
        match control::ask(&home, request) {
            Ok((answer, _)) => answers.push(Answered { home, answer }),
            // It ended, or ends now.
            Err(ControlError::NotUp(_)) => {}
            Err(error) => report.sentence(&error.to_string(), errno_of(&error)),
        }
    }
    answers
}

fn errno_of(error: &ControlError) -> Errno {
    match error {
        ControlError::Socket { source, .. } => Errno::from(source),
        ControlError::NotUp(_) => Errno(rustix::io::Errno::SRCH.raw_os_error()),
        ControlError::Answer { .. } => Errno::EPROTO,
    }
}

/// Parameters of all daemons by name. A name that several have (`version`) is told by the first that could.
pub fn params(request: &Request, report: &mut Report<'_>) -> BTreeMap<String, ParamAnswer> {
    let mut all: BTreeMap<String, ParamAnswer> = BTreeMap::new();
    for Answered { answer, .. } in ask_all(request, report) {
        match answer {
            Answer::Params { params } => {
                for param in params {
                    match all.get_mut(&param.name) {
                        Some(known) if known.errno.is_some() && param.errno.is_none() => *known = param,
                        Some(_) => {}
                        None => {
                            all.insert(param.name.clone(), param);
                        }
                    }
                }
            }
            other => unexpected(&other, report),
        }
    }
    all
}

/// An answer that is none to what was asked.
pub fn unexpected(answer: &Answer, report: &mut Report<'_>) {
    match answer {
        Answer::Failed { errno, reason } => report.sentence(reason, Errno(*errno)),
        Answer::Error { reason } => report.sentence(&format!("a daemon of another version: {reason}"), Errno::EPROTO),
        other => report.sentence(&format!("a daemon answers something else: {other:?}"), Errno::EPROTO),
    }
}
