//! `sheen status`: a calm table for people, JSON for scripts.

use crate::cli::StatusArgs;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use node::config::units::Size;
use node::home::Home;
use node::manage::control::{self, Answer, ControlError, Request};
use node::watch::status::{LogStatus, NodeState, NodeStatus, Space, WaitsFor};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use tabled::builder::Builder;
use tabled::settings::Style;

/// Shows the node of a home.
pub fn run(args: &StatusArgs) -> Outcome {
    let home = existing_home(&args.dir)?;
    let status = match control::ask(&home, &Request::Status) {
        Ok((Answer::Status(status), _)) => status,
        Ok((other, _)) => {
            return Err(Failure::Failed(format!("the node answers something else: {other:?}")));
        }
        Err(ControlError::NotUp(_)) if !home.is_taken().map_err(|e| unusable(&home, &e))? => {
            if args.json {
                output::json(&json!({ "home": home.dir(), "state": NodeState::Down }))?;
            } else {
                output::data(&format!("{}: down\n", home.dir().display()))?;
            }
            return Ok(Exit::No);
        }
        Err(ControlError::NotUp(_)) => {
            return Err(Failure::Failed(format!(
                "the node in {} runs but does not answer yet: try again in a moment",
                home.dir().display()
            )));
        }
        Err(e) => return Err(Failure::failed(e)),
    };
    if args.json {
        output::json(&status)?;
    } else {
        output::data(&table(&status))?;
    }
    Ok(Exit::Done)
}

/// The home at `dir`, if there is one.
///
/// # Errors
/// There is no such directory, or nothing of SheenFS in it.
pub fn existing_home(dir: &Path) -> Result<Home, Failure> {
    let dir = std::path::absolute(dir)
        .map_err(|e| Failure::Usage(format!("{} is no usable path: {e}", dir.display())))?;
    match std::fs::metadata(&dir) {
        Ok(m) if !m.is_dir() => {
            return Err(Failure::No(format!("{} is no directory", dir.display())));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(no_home(&dir)),
        Err(e) => return Err(Failure::No(format!("cannot look into {}: {e}", dir.display()))),
        Ok(_) => {}
    }
    let home = Home::new(dir);
    if !home.exists() {
        return Err(no_home(home.dir()));
    }
    Ok(home)
}

fn no_home(dir: &Path) -> Failure {
    Failure::No(format!(
        "{} is no home of a SheenFS node: \
         name the directory that was given to `sheen up` or `sheen serve`",
        dir.display()
    ))
}

/// The sentence for a home whose run-time files cannot be used.
pub fn unusable(home: &Home, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot use {}: {error}", home.run_dir().display()))
}

fn table(status: &NodeStatus) -> String {
    let mut text = String::new();
    let state = serde_json::to_value(status.state)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default();
    let up = uptime(Duration::from_secs(status.uptime_seconds));
    let _ = writeln!(
        text,
        "{}: {state} for {up}, process {}, sheen {}",
        status.home, status.pid, status.version
    );
    let _ = writeln!(text, "file system {} at {}", status.fsname, status.nids.join(" "));
    if !status.open.is_empty() {
        let _ = writeln!(
            text,
            "open at {}: no key is asked for; only on a network you trust",
            status.open.join(" ")
        );
    }
    if let Some(key) = &status.secured {
        let _ = writeln!(text, "secured: every connection must show a key of the cluster ({key})");
    }
    if let Some(http) = &status.http {
        let scheme = if status.https.is_some() { "https" } else { "http" };
        let page = if status.targets.iter().any(|t| t.kind == "mgt") {
            format!(", page at {scheme}://{http}/")
        } else {
            String::new()
        };
        let _ = writeln!(text, "metrics at {scheme}://{http}/metrics{page}");
        if let Some(fingerprint) = &status.https {
            let _ = writeln!(text, "  its certificate has the SHA-256 fingerprint {fingerprint}");
        }
    }
    if !status.targets.is_empty() {
        let mut rows = Builder::default();
        rows.push_record(["TARGET", "SIZE", "USED", "AVAILABLE", "USE%", "FILES", "DIRECTORY"]);
        for t in &status.targets {
            let [size, used, available, percent, files] = cells(t.space);
            rows.push_record([&t.name, &size, &used, &available, &percent, &files, &t.dir]);
        }
        text.push_str(&section(rows));
    }
    if !status.logs.is_empty() {
        let mut rows = Builder::default();
        rows.push_record(["LOG", "EPOCH", "ENTRIES", "HOST", "STATE", "BEHIND"]);
        for log in &status.logs {
            let (epoch, kept) = (log.epoch.to_string(), entries(log));
            let mut rest = log.hosts.iter().map(|host| {
                let state = match (host.owner, host.own) {
                    (true, true) => "owner, this host",
                    (true, false) => "owner",
                    (false, true) => "standby, this host",
                    (false, false) => "standby",
                };
                [
                    host.host.clone(),
                    state.to_owned(),
                    log.head.saturating_sub(host.applied).to_string(),
                ]
            });
            let [host, state, behind] =
                rest.next().unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned));
            rows.push_record([&log.target, &epoch, &kept, &host, &state, &behind]);
            for [host, state, behind] in rest {
                rows.push_record(["", "", "", &host, &state, &behind]);
            }
        }
        text.push_str(&section(rows));
        for log in &status.logs {
            let Some(blobs) = &log.blobs else { continue };
            let _ = match log.checkpoint {
                Some(entry) => {
                    writeln!(
                        text,
                        "\n{}: blobs in {blobs}, checkpoint of entry {entry}",
                        log.target
                    )
                }
                None => writeln!(text, "\n{}: blobs in {blobs}, no checkpoint yet", log.target),
            };
        }
        for log in status.logs.iter().filter(|log| log.owner.is_none()) {
            let _ = writeln!(text, "\n{} has no owner", log.target);
        }
        for (log, trouble) in
            status.logs.iter().filter_map(|log| log.trouble.as_ref().map(|trouble| (log, trouble)))
        {
            let _ = writeln!(text, "\ntrouble with {} ({}): {trouble}", log.target, log.etcd);
        }
    }
    if !status.mounts.is_empty() {
        let mut rows = Builder::default();
        rows.push_record(["MOUNT", "SOURCE", "OPTIONS", "STATE"]);
        for m in &status.mounts {
            let state = if m.mounted { "mounted" } else { "gone" };
            rows.push_record([m.at.as_str(), &m.source, &m.options, state]);
        }
        text.push_str(&section(rows));
    }
    if !status.clients.is_empty() {
        let mut rows = Builder::default();
        rows.push_record(["CLIENT", "NID"]);
        for c in &status.clients {
            rows.push_record([&c.description, &c.nid]);
        }
        text.push_str(&section(rows));
    }
    for WaitsFor { target, operations, seconds } in &status.waits_for {
        let time = uptime(Duration::from_secs(*seconds));
        let _ = match operations {
            1 => writeln!(text, "\nan operation has waited for {target} for {time}"),
            _ => writeln!(
                text,
                "\n{operations} operations wait for {target}, the longest for {time}"
            ),
        };
    }
    for trouble in &status.trouble {
        let _ = writeln!(text, "\ntrouble: {trouble}");
    }
    text
}

fn section(rows: Builder) -> String {
    let mut table = rows.build();
    table.with(Style::blank());
    let lines: Vec<String> = table.to_string().lines().map(|l| l.trim_end().to_owned()).collect();
    format!("\n{}\n", lines.join("\n"))
}

/// The entries that a log keeps.
fn entries(log: &LogStatus) -> String {
    match log.first > log.head {
        true => format!("none after {}", log.head),
        false => format!("{} to {}", log.first, log.head),
    }
}

fn cells(space: Option<Space>) -> [String; 5] {
    let Some(space) = space else {
        return ["-".into(), "-".into(), "-".into(), "-".into(), "-".into()];
    };
    let used = space.bytes_total.saturating_sub(space.bytes_free);
    let percent = (used as u128 * 100).div_ceil(u128::from(space.bytes_total.max(1)));
    [
        Size(space.bytes_total).to_string(),
        Size(used).to_string(),
        Size(space.bytes_available).to_string(),
        format!("{percent}%"),
        space.files_total.saturating_sub(space.files_free).to_string(),
    ]
}

fn uptime(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min", s / 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::watch::status::{ClientStatus, LogHost, MountStatus, TargetStatus};

    fn sample() -> NodeStatus {
        let space = Space {
            bytes_total: 100 << 30,
            bytes_free: 75 << 30,
            bytes_available: 70 << 30,
            files_total: 1000,
            files_free: 990,
        };
        let target = |name: &str, kind: &str, space| TargetStatus {
            name: name.into(),
            kind: kind.into(),
            dir: format!("/h/{kind}"),
            space,
        };
        NodeStatus {
            home: "/h".into(),
            state: NodeState::Up,
            pid: 42,
            version: "0.1.0".into(),
            uptime_seconds: 3700,
            fsname: "sheen".into(),
            nids: vec!["0@lo".into(), "10.0.0.1@tcp".into()],
            listen: Some("10.0.0.1:988".into()),
            open: vec!["10.0.0.1@tcp".into()],
            secured: None,
            keys: None,
            http: Some("127.0.0.1:9988".into()),
            https: None,
            targets: vec![target("MGS", "mgt", None), target("sheen-OST0000", "ost", Some(space))],
            logs: vec![LogStatus {
                target: "MGS".into(),
                etcd: "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379".into(),
                owner: Some("one:/h/mgt at 10.0.0.1@tcp".into()),
                epoch: 3,
                first: 40,
                head: 42,
                hosts: [("one", true, 42), ("two", false, 39)]
                    .map(|(name, owner, applied)| LogHost {
                        host: format!("{name}:/h/mgt"),
                        owner,
                        own: owner,
                        applied,
                    })
                    .to_vec(),
                blobs: Some("s3://logs/site".into()),
                checkpoint: Some(39),
                trouble: Some("etcd has the alarm NOSPACE".into()),
            }],
            mounts: vec![MountStatus {
                at: "/h/mnt".into(),
                source: "0@lo:/sheen".into(),
                options: "rw".into(),
                mounted: true,
            }],
            clients: vec![ClientStatus { description: "host:/h/mnt".into(), nid: "0@lo".into() }],
            waits_for: vec![
                WaitsFor { target: "sheen-MDT0002".into(), operations: 3, seconds: 75 },
                WaitsFor { target: "sheen-MDT0003".into(), operations: 1, seconds: 2 },
            ],
            trouble: vec!["sheen-OST0001 does not answer".into()],
        }
    }

    /// `SHEEN_BLESS=1 cargo test` writes the file; a person reads the difference.
    fn golden(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("SHEEN_BLESS").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
    }

    #[test]
    fn people_get_a_table() {
        golden("status.txt", &table(&sample()));
    }

    #[test]
    fn json_keys_are_stable() {
        golden("status.json", &serde_json::to_string_pretty(&sample()).unwrap());
    }

    #[test]
    fn times_are_short() {
        for (s, text) in [(5, "5 s"), (65, "1 min"), (7_260, "2 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(uptime(Duration::from_secs(s)), text);
        }
    }
}
