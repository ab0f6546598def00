//! Parameters, as all daemons of the host tell them: one tree.
//!
//! Requests and answers are those of `node::manage::control` that are about parameters. That module
//! has all of them, and a test that compares the two.

use crate::home::Home;
use crate::local;
use crate::socket::{self, ControlError, TIMEOUT};
use crate::together;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use types::errno::Errno;

/// A parameter, or a level of the tree, as the control socket tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamAnswer {
    /// Levels separated by dots.
    pub name: String,
    /// True if it is not a parameter but a level above some.
    pub level: bool,
    /// True if it may be read.
    pub readable: bool,
    /// True if it may be set.
    pub writable: bool,
    /// Value of the parameter, if it was asked for and could be read.
    pub value: Option<String>,
    /// Why it could not be read or set, errno.
    pub errno: Option<i32>,
    /// The same in a sentence, if the parameter has one.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Requests about parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
pub enum ParamRequest {
    /// Parameters that these patterns mean, with their values if wanted; `recursive`: also what is
    /// below.
    Get {
        /// Names, with `*` and `?`.
        patterns: Vec<String>,
        /// Also what is below.
        recursive: bool,
        /// With values.
        values: bool,
    },
    /// Set every parameter that the pattern means.
    Set {
        /// A name, with `*` and `?`.
        pattern: String,
        /// The new value.
        value: String,
    },
}

/// Answers to them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", tag = "answer")]
pub enum ParamReply {
    /// The parameters that were found.
    Params {
        /// Those that were found, by name.
        params: Vec<ParamAnswer>,
    },
    /// The request was understood, but cannot be done.
    Failed {
        /// The reason as an errno.
        errno: i32,
        /// The reason in words.
        reason: String,
    },
    /// The request was not understood.
    Error {
        /// The reason in words.
        reason: String,
    },
}

/// A daemon that could not be asked, or that answers something else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The error in one sentence.
    pub sentence: String,
    /// The errno.
    pub errno: Errno,
}

impl Refused {
    /// The request was understood, but cannot be done.
    pub fn failed(errno: i32, reason: &str) -> Refused {
        Refused { sentence: reason.to_owned(), errno: Errno(errno) }
    }

    /// The request was not understood.
    pub fn stranger(reason: &str) -> Refused {
        Refused { sentence: format!("a daemon of another version: {reason}"), errno: Errno::EPROTO }
    }
}

impl From<&ControlError> for Refused {
    fn from(error: &ControlError) -> Refused {
        let errno = match error {
            ControlError::Socket { source, .. } => Errno::from(source),
            ControlError::Silent { .. } => Errno::ETIMEDOUT,
            ControlError::NotUp(_) => Errno(rustix::io::Errno::SRCH.raw_os_error()),
            ControlError::Answer { .. } => Errno::EPROTO,
        };
        Refused { sentence: error.to_string(), errno }
    }
}

/// Parameters of all daemons by name. If several have a name (`version`), the value is that of the
/// first daemon that could give one.
pub fn ask(request: &ParamRequest) -> (BTreeMap<String, ParamAnswer>, Vec<Refused>) {
    ask_of(&local::daemons(), request)
}

/// As [`ask`], of these daemons. All are asked at once, so those that hang cost one time-out
/// together.
pub fn ask_of(
    homes: &[Home],
    request: &ParamRequest,
) -> (BTreeMap<String, ParamAnswer>, Vec<Refused>) {
    let (mut all, mut refused) = (BTreeMap::<String, ParamAnswer>::new(), Vec::new());
    let request = request.clone();
    let answers =
        together::ask(homes.to_vec(), TIMEOUT, move |home| socket::ask(&home, &request)).in_turn();
    for (home, answer) in homes.iter().zip(answers) {
        let answer = answer.unwrap_or_else(|| Err(ControlError::silent(home, TIMEOUT)));
        match answer.map(|(reply, _)| reply) {
            Ok(ParamReply::Params { params }) => {
                for param in params {
                    match all.get_mut(&param.name) {
                        Some(known) if known.errno.is_some() && param.errno.is_none() => {
                            *known = param
                        }
                        Some(_) => {}
                        None => {
                            all.insert(param.name.clone(), param);
                        }
                    }
                }
            }
            Ok(ParamReply::Failed { errno, reason }) => {
                refused.push(Refused::failed(errno, &reason))
            }
            Ok(ParamReply::Error { reason }) => refused.push(Refused::stranger(&reason)),
            // The daemon ended, or is ending.
            Err(ControlError::NotUp(_)) => {}
            Err(error) => refused.push(Refused::from(&error)),
        }
    }
    (all, refused)
}
