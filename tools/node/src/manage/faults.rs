//! Rules that lose or delay messages of this process, as `lctl net_drop_add` and `net_delay_add`
//! ask for them.

use crate::manage::control::Answer;
use crate::watch::view::View;
use lnet::fault::{Counts, Fault, Frames, Rule, Turn};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use types::errno::Errno;
use types::nid::NidPattern;

/// A rule in words. Without `delay_ms` it loses messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRule {
    /// Sender of the messages.
    pub source: String,
    /// Receiver of the messages.
    pub target: String,
    /// `all`, `requests`, `replies`.
    pub frames: String,
    /// One of this many; 0: by the interval. 1: all.
    pub rate: u32,
    /// By chance, not exactly one of each so many.
    pub random: bool,
    /// One in this many seconds, if `rate` is 0.
    pub interval_seconds: u64,
    /// How much later they go on.
    pub delay_ms: Option<u64>,
}

/// A change of the rules, or a question about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultAsked {
    /// Make one.
    Add(FaultRule),
    /// Take away those that delay (or lose), with these NIDs if they are named; answers with their
    /// number.
    Remove {
        /// Rules that delay; else those that lose.
        delay: bool,
        /// NIDs that the frames come from; `None`: all.
        source: Option<String>,
        /// NIDs that the frames go to; `None`: all.
        target: Option<String>,
    },
    /// Their counts begin again.
    Reset {
        /// Rules that delay; else those that lose.
        delay: bool,
    },
    /// Tell them.
    List {
        /// Rules that delay; else those that lose.
        delay: bool,
    },
}

/// A rule and what it has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultAnswer {
    /// The rule.
    pub rule: FaultRule,
    /// Requests that fit.
    pub requests: u64,
    /// Answers that fit.
    pub replies: u64,
    /// Messages that were lost or delayed.
    pub hit: u64,
}

impl FaultRule {
    fn parse(&self) -> Result<Rule, String> {
        let nid = |text: &str| text.parse::<NidPattern>().map_err(|e| e.to_string());
        let frames = match &*self.frames {
            "all" => Frames::All,
            "requests" => Frames::Requests,
            "replies" => Frames::Replies,
            other => return Err(format!("{other:?} are no messages")),
        };
        let turn = match (self.rate, self.random, self.interval_seconds) {
            (0, _, 0) => return Err("neither a rate nor an interval".to_owned()),
            (0, _, seconds) => Turn::Interval(Duration::from_secs(seconds)),
            (1, ..) => Turn::Every,
            (rate, true, _) => Turn::Chance(rate),
            (rate, false, _) => Turn::OneOf(rate),
        };
        let fault = self.delay_ms.map_or(Fault::Drop, |ms| Fault::Delay(Duration::from_millis(ms)));
        Ok(Rule { source: nid(&self.source)?, target: nid(&self.target)?, frames, turn, fault })
    }

    fn of(rule: &Rule) -> FaultRule {
        let frames = match rule.frames {
            Frames::All => "all",
            Frames::Requests => "requests",
            Frames::Replies => "replies",
        };
        let (rate, random, interval_seconds) = match rule.turn {
            Turn::Every => (1, false, 0),
            Turn::OneOf(rate) => (rate, false, 0),
            Turn::Chance(rate) => (rate, true, 0),
            Turn::Interval(time) => (0, false, time.as_secs()),
        };
        let delay_ms = match rule.fault {
            Fault::Drop => None,
            Fault::Delay(time) => Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        };
        let (source, target) = (rule.source.to_string(), rule.target.to_string());
        FaultRule {
            source,
            target,
            frames: frames.to_owned(),
            rate,
            random,
            interval_seconds,
            delay_ms,
        }
    }
}

/// Carries the request out.
pub fn answer(view: &Arc<View>, asked: FaultAsked) -> Answer {
    let faults = view.parts().rpc.faults();
    let failed = |errno: Errno, reason: String| Answer::Failed { errno: errno.0, reason };
    let delays = |rule: &Rule| matches!(rule.fault, Fault::Delay(_));
    match asked {
        FaultAsked::Add(rule) => match rule.parse() {
            Err(reason) => failed(Errno::EINVAL, reason),
            Ok(rule) if faults.add(rule) => {
                tracing::warn!(?rule, "messages are lost or delayed on purpose from now on");
                Answer::Done
            }
            Ok(_) => {
                failed(Errno::ENOSPC, format!("there are {} rules already", lnet::fault::RULES_MAX))
            }
        },
        FaultAsked::Remove { delay, source, target } => {
            let pattern =
                |text: Option<String>| text.map(|text| text.parse::<NidPattern>()).transpose();
            match (pattern(source), pattern(target)) {
                (Ok(source), Ok(target)) => {
                    let meant = |rule: &Rule| {
                        delays(rule) == delay
                            && source.is_none_or(|nid| nid == rule.source)
                            && target.is_none_or(|nid| nid == rule.target)
                    };
                    Answer::Count { count: faults.remove(meant) as u64 }
                }
                (Err(bad), _) | (_, Err(bad)) => failed(Errno::EINVAL, bad.to_string()),
            }
        }
        FaultAsked::Reset { delay } => {
            faults.reset(|rule| delays(rule) == delay);
            Answer::Done
        }
        FaultAsked::List { delay } => {
            let rules = faults.list().into_iter().filter(|(rule, _)| delays(rule) == delay);
            let shown = |(rule, Counts { requests, replies, hit }): (Rule, Counts)| FaultAnswer {
                rule: FaultRule::of(&rule),
                requests,
                replies,
                hit,
            };
            Answer::Faults { rules: rules.map(shown).collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_as_they_were_asked_for() {
        let rule = |rate, random, interval_seconds, delay_ms| FaultRule {
            source: "10.0.0.1@tcp".into(),
            target: "*@tcp".into(),
            frames: "replies".into(),
            rate,
            random,
            interval_seconds,
            delay_ms,
        };
        for rule in [
            rule(1, false, 0, None),
            rule(10, false, 0, None),
            rule(10, true, 0, Some(500)),
            rule(0, false, 5, None),
        ] {
            assert_eq!(FaultRule::of(&rule.parse().unwrap()), rule);
        }
        assert!(rule(0, false, 0, None).parse().is_err());
        assert!(FaultRule { frames: "some".into(), ..rule(1, false, 0, None) }.parse().is_err());
        assert!(FaultRule { source: "here".into(), ..rule(1, false, 0, None) }.parse().is_err());
    }
}
