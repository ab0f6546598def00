//! `lctl net_drop_add`, `net_delay_add`, their `_del`, `_reset` and `_list`: messages lost or late
//! on purpose.
//!
//! Each daemon of the host gets the rules and applies them to what it sends and what it receives
//! over the network.

use crate::cli::{DelayAddArgs, FaultAddArgs, FaultDelArgs, Messages};
use crate::daemons::{self, Answered, Daemons};
use node::manage::control::{Answer, Request};
use node::manage::faults::{FaultAnswer, FaultAsked, FaultRule};
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Lustre's masks of messages, and of portals: here is only one.
const MESSAGES_ALL: u32 = 0xf;
const MESSAGE_PUT: u32 = 0x2;
const MESSAGE_REPLY: u32 = 0x8;
const PORTALS_ALL: u64 = u64::MAX;

fn word(delay: bool) -> &'static str {
    if delay { "delay" } else { "drop" }
}

/// Adds a rule that loses messages.
///
/// # Errors
/// `out` cannot be written.
pub fn add_drop(
    args: &FaultAddArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    add(args, None, daemons, out, report)
}

/// Adds a rule that delays messages.
///
/// # Errors
/// `out` cannot be written.
pub fn add_delay(
    args: &DelayAddArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    add(&args.which, Some(args.latency.0), daemons, out, report)
}

fn add(
    args: &FaultAddArgs,
    delay_ms: Option<u64>,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    if args.portal.is_some() || args.health_error.is_some() || args.local.is_some() {
        let sentence = "there are no portals, health values or second interfaces: -p, -e and -o have no meaning here";
        report.sentence(sentence, Errno::EOPNOTSUPP);
        return Ok(());
    }
    let (rate, interval_seconds) = match (args.rate, args.interval, args.all) {
        (_, _, true) => (1, 0),
        (Some(rate), ..) => (rate, 0),
        (None, Some(seconds), _) => (0, seconds),
        (None, None, false) => {
            report.sentence(
                "give -r N (one of N), -i SECONDS (one in that time) or -x (all)",
                Errno::EINVAL,
            );
            return Ok(());
        }
    };
    let frames = match args.messages {
        None => "all",
        Some(Messages::Put) => "requests",
        Some(Messages::Reply) => "replies",
        Some(Messages::Ack | Messages::Get) => {
            report.sentence(
                "requests are PUT and answers REPLY; there are no others",
                Errno::EOPNOTSUPP,
            );
            return Ok(());
        }
    };
    let (source, target) = (args.source.to_string(), args.target.to_string());
    let rule = FaultRule {
        source,
        target,
        frames: frames.to_owned(),
        rate,
        random: args.random,
        interval_seconds,
        delay_ms,
    };
    if ask(daemons, FaultAsked::Add(rule.clone()), report).is_some() {
        let (FaultRule { source, target, .. }, word) = (&rule, word(delay_ms.is_some()));
        match rate {
            0 => writeln!(out, "Added {word} rule {source}->{target} (1 in {interval_seconds} s)")?,
            rate => writeln!(out, "Added {word} rule {source}->{target} (1/{rate})")?,
        }
    }
    Ok(())
}

/// Takes rules away.
///
/// # Errors
/// `out` cannot be written.
pub fn remove(
    args: &FaultDelArgs,
    delay: bool,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    if !args.all && args.source.is_none() && args.target.is_none() {
        report.sentence("give -a for all rules, or -s NID, -d NID", Errno::EINVAL);
        return Ok(());
    }
    let named =
        |nid: Option<types::nid::NidPattern>| nid.filter(|_| !args.all).map(|nid| nid.to_string());
    let asked =
        FaultAsked::Remove { delay, source: named(args.source), target: named(args.target) };
    if let Some(answers) = ask(daemons, asked, report) {
        let of = |answer: &Answer| if let Answer::Count { count } = answer { *count } else { 0 };
        // Each daemon had the same.
        writeln!(
            out,
            "Removed {} {} rules",
            answers.iter().map(of).max().unwrap_or(0),
            word(delay)
        )?;
    }
    Ok(())
}

/// Counts begin again.
pub fn reset(delay: bool, daemons: &Daemons, report: &mut Report<'_>) {
    ask(daemons, FaultAsked::Reset { delay }, report);
}

/// Prints the rules, with the counts of all daemons together.
///
/// # Errors
/// `out` cannot be written.
pub fn list(
    delay: bool,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(answers) = ask(daemons, FaultAsked::List { delay }, report) else { return Ok(()) };
    let mut rules: Vec<FaultAnswer> = Vec::new();
    for answer in answers {
        let Answer::Faults { rules: more } = answer else { continue };
        let mut known = rules.iter_mut();
        let mut new = Vec::new();
        for one in more {
            // Daemons have the same rules in the same order, except those that started later.
            match known.find(|rule| rule.rule == one.rule) {
                Some(rule) => {
                    rule.requests += one.requests;
                    rule.replies += one.replies;
                    rule.hit += one.hit;
                }
                None => new.push(one),
            }
        }
        rules.extend(new);
    }
    writeln!(out, "LNet {} rules:", word(delay))?;
    rules.iter().try_for_each(|rule| writeln!(out, "{}", line(rule)))?;
    writeln!(out, "found total {}", rules.len())
}

fn line(answer: &FaultAnswer) -> String {
    let FaultAnswer { rule, requests, replies, hit } = answer;
    let FaultRule { source, target, frames, rate, interval_seconds, delay_ms, .. } = rule;
    let mask = match &**frames {
        "requests" => MESSAGE_PUT,
        "replies" => MESSAGE_REPLY,
        _ => MESSAGES_ALL,
    };
    let latency = delay_ms.map_or(String::new(), |ms| format!(", latency {}", ms as f64 / 1000.0));
    format!(
        "{source}->{target} (1/{rate} | {interval_seconds}{latency}) ptl {PORTALS_ALL:#x}, msg {mask:x}, {hit}/{}, \
         PUT {requests}, ACK 0, GET 0, REP {replies}",
        requests + replies
    )
}

/// Asks all daemons. `None` if one refused, which is reported, or if there is none.
fn ask(daemons: &Daemons, fault: FaultAsked, report: &mut Report<'_>) -> Option<Vec<Answer>> {
    if !matches!(fault, FaultAsked::List { .. }) && !daemons.are_of_one_cluster(report) {
        return None;
    }
    let answers = daemons.ask_all(&Request::Fault { fault }, report);
    if answers.is_empty() {
        report.sentence("no daemon of this host runs", Errno::ENODEV);
        return None;
    }
    let mut good = Vec::new();
    for Answered { answer, .. } in answers {
        match answer {
            Answer::Done | Answer::Count { .. } | Answer::Faults { .. } => good.push(answer),
            other => {
                daemons::unexpected(&other, report);
                return None;
            }
        }
    }
    Some(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_lustre_s_columns() {
        let rule = FaultRule {
            source: "10.0.0.2@tcp".into(),
            target: "*@tcp".into(),
            frames: "all".into(),
            rate: 10,
            random: false,
            interval_seconds: 0,
            delay_ms: None,
        };
        let row = |rule: FaultRule| line(&FaultAnswer { rule, requests: 30, replies: 5, hit: 3 });
        assert_eq!(
            row(rule.clone()),
            "10.0.0.2@tcp->*@tcp (1/10 | 0) ptl 0xffffffffffffffff, msg f, 3/35, PUT 30, ACK 0, GET 0, REP 5"
        );
        assert_eq!(
            row(FaultRule {
                rate: 0,
                interval_seconds: 5,
                delay_ms: Some(1500),
                frames: "requests".into(),
                ..rule
            }),
            "10.0.0.2@tcp->*@tcp (1/0 | 5, latency 1.5) ptl 0xffffffffffffffff, msg 2, 3/35, PUT 30, ACK 0, GET 0, REP 5"
        );
    }
}
