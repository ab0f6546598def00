//! Asking all daemons of the host; what cannot be asked is reported.

use ask::params::{self, ParamAnswer, ParamRequest, Refused};
use node::control::{self, Answer, ControlError, Request};
use node::home::Home;
use node::local;
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

/// Asks all that run, in the order of their process ids.
pub fn ask_all(request: &Request, report: &mut Report<'_>) -> Vec<Answered> {
    let mut answers = Vec::new();
    for home in local::daemons() {
        match control::ask(&home, request) {
            Ok((answer, _)) => answers.push(Answered { home, answer }),
            // It ended, or ends now.
            Err(ControlError::NotUp(_)) => {}
            Err(error) => tell(&Refused::from(&error), report),
        }
    }
    answers
}

/// Parameters of all daemons by name.
pub fn params(request: &ParamRequest, report: &mut Report<'_>) -> BTreeMap<String, ParamAnswer> {
    let (params, refused) = params::ask(request);
    refused.iter().for_each(|refused| tell(refused, report));
    params
}

/// An answer that is none to what was asked.
pub fn unexpected(answer: &Answer, report: &mut Report<'_>) {
    match answer {
        Answer::Failed { errno, reason } => tell(&Refused::failed(*errno, reason), report),
        Answer::Error { reason } => tell(&Refused::stranger(reason), report),
        other => report.sentence(&format!("a daemon answers something else: {other:?}"), Errno::EPROTO),
    }
}

fn tell(refused: &Refused, report: &mut Report<'_>) {
    report.sentence(&refused.sentence, refused.errno);
}
