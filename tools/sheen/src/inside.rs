//! What the daemons of this host tell of themselves and of their cluster: for `top` and `why`.

use crate::outcome::Failure;
use crate::status::existing_home;
use ::dash::cluster::newest;
use node::control::{self, Answer, ControlError, Request};
use node::home::Home;
use node::local;
use std::path::PathBuf;
use wire::report::KeptReport;

/// Homes to ask: those named, or of all daemons of this host.
///
/// # Errors
/// One that is named is no home.
pub fn homes(dirs: &[PathBuf]) -> Result<Vec<Home>, Failure> {
    if dirs.is_empty() {
        return Ok(local::daemons());
    }
    dirs.iter().map(|dir| existing_home(dir)).collect()
}

/// The newest report of each process that these daemons know of. `own`: only of themselves. `true`: the MGS was heard.
///
/// # Errors
/// No daemon answers.
pub fn reports(homes: &[Home], own: bool) -> Result<(Vec<KeptReport>, bool), Failure> {
    let (mut all, mut whole, mut answered) = (Vec::new(), false, false);
    let mut trouble = None;
    for home in homes {
        // When the whole cluster is known already, of the others only their own fresh report is new.
        match control::ask(home, &Request::Reports { own: own || whole }) {
            Ok((Answer::Reports { reports, whole: heard }, _)) => {
                answered = true;
                whole |= heard;
                all.extend(reports);
            }
            Ok((Answer::Error { reason } | Answer::Failed { reason, .. }, _)) => trouble = Some(reason),
            Ok((other, _)) => trouble = Some(format!("a daemon answers something else: {other:?}")),
            Err(ControlError::NotUp(_)) => {}
            Err(error) => trouble = Some(error.to_string()),
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
