//! `lnetctl export` and `import`.

use crate::cli::{ExportArgs, ImportArgs};
use crate::networks::{self, Section, Wanted};
use crate::yaml::{self, TEXT_BYTES_MAX, Yaml, words};
use lctl::daemons::Daemons;
use node::manage::lnet::{LOCAL, LnetAsked};
use report::Report;
use std::fs::File;
use std::io::{self, Read, Write};
use types::errno::Errno;

/// Prints what `import` reads.
///
/// # Errors
/// `out` cannot be written.
pub fn export(
    args: &ExportArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let mut found = networks::ask(daemons, report);
    // Clients connect by themselves: no daemon can connect to them.
    found.peers.retain(|peer| peer.links > 0);
    let wanted = Wanted { only_settings: args.backup, ..Wanted::verbose(1) };
    let sections = [Section::Net, Section::Route, Section::Peer];
    let entries: Vec<_> = sections
        .into_iter()
        .filter_map(|section| networks::section_of(section, &wanted, &found))
        .collect();
    match &args.file {
        None => yaml::print(out, &entries),
        Some(path) => {
            let write = || {
                let mut file = File::create(path)?;
                yaml::print(&mut file, &entries)?;
                file.flush()
            };
            if let Err(error) = write() {
                report.failed(&format!("can't write '{}'", path.display()), &error);
            }
            Ok(())
        }
    }
}

/// What `import` is to do with what a file names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Del,
    Show,
}

/// Does what a file says.
///
/// # Errors
/// `out` cannot be written.
pub fn import(
    args: &ImportArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let mut text = String::new();
    let limit = TEXT_BYTES_MAX as u64 + 1;
    let read = match &args.file {
        Some(path) => File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)),
        None => io::stdin().lock().take(limit).read_to_string(&mut text),
    };
    let name =
        args.file.as_ref().map_or("standard input".into(), |path| path.display().to_string());
    if let Err(error) = read {
        report.failed(&format!("can't read '{name}'"), &error);
        return Ok(());
    }
    let document = match yaml::read(&text) {
        Ok(document) => document,
        Err(why) => {
            report.sentence(&format!("{name}: {why}"), Errno::EINVAL);
            return Ok(());
        }
    };
    let action = match (args.del, args.show) {
        (true, _) => Action::Del,
        (_, true) => Action::Show,
        _ => Action::Add,
    };
    for (section, asked) in steps(&document, action, report) {
        match (action, section) {
            (Action::Show, Section::Net) => show_net(&asked, daemons, out, report)?,
            (Action::Show, section) => {
                networks::show(section, &Wanted::verbose(1), daemons, out, report)?;
            }
            _ => {
                networks::change(asked, daemons, report);
            }
        }
    }
    Ok(())
}

fn show_net(
    asked: &LnetAsked,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let (LnetAsked::AddNet { net, .. } | LnetAsked::DelNet { net, .. }) = asked else {
        return Ok(());
    };
    let wanted = Wanted { net: Some(net), ..Wanted::verbose(1) };
    networks::show(Section::Net, &wanted, daemons, out, report)
}

/// One request for each thing that the document names, in its order; what it cannot mean is
/// reported.
fn steps(document: &Yaml, action: Action, report: &mut Report<'_>) -> Vec<(Section, LnetAsked)> {
    let mut steps = Vec::new();
    let Some(sections) = document.as_hash() else {
        if *document != Yaml::Null {
            report.sentence("it is no map of sections: net, route, peer", Errno::EINVAL);
        }
        return steps;
    };
    for (name, items) in sections {
        let name = words(name).unwrap_or_default();
        let items = items.as_vec().map(Vec::as_slice).unwrap_or_default();
        for item in items {
            let made = match name.as_str() {
                "net" => nets(item, action),
                "peer" => peer(item, action),
                "route" => route(item, action),
                // Sections of Lustre that say what adapts by itself here.
                _ => Ok(Vec::new()),
            };
            match made {
                Ok(made) => steps.extend(made),
                Err(missing) => {
                    let sentence = format!("an item of {name} has no {missing}");
                    report.sentence(&sentence, Errno::EINVAL);
                }
            }
        }
    }
    steps
}

fn text<'a>(item: &'a Yaml, key: &'static str) -> Result<String, &'static str> {
    let value: &'a Yaml = &item[key];
    words(value).ok_or(key)
}

/// The networks of one item. The loopback is always there, and a file says whether connections
/// within a host are.
fn nets(item: &Yaml, action: Action) -> Result<Vec<(Section, LnetAsked)>, &'static str> {
    let net = text(item, "net type")?;
    if net == "lo" || net == LOCAL {
        return Ok(Vec::new());
    }
    let mut on = Vec::new();
    for ni in item["local NI(s)"].as_vec().map(Vec::as_slice).unwrap_or_default() {
        let interfaces: Vec<String> = ni["interfaces"]
            .as_hash()
            .into_iter()
            .flat_map(|map| map.iter().filter_map(|(_, interface)| words(interface)))
            .collect();
        match interfaces.is_empty() {
            false => on.extend(
                interfaces.into_iter().filter(|name| !on.contains(name)).collect::<Vec<_>>(),
            ),
            true => {
                let nid = text(ni, "nid")?;
                let address =
                    nid.split_once('@').map_or(nid.clone(), |(address, _)| address.to_owned());
                on.push(address);
            }
        }
    }
    let asked = match action {
        Action::Del => LnetAsked::DelNet { net, on },
        Action::Add | Action::Show => LnetAsked::AddNet { net, on },
    };
    Ok(vec![(Section::Net, asked)])
}

fn route(item: &Yaml, action: Action) -> Result<Vec<(Section, LnetAsked)>, &'static str> {
    let (net, gateway) = (text(item, "net")?, text(item, "gateway")?);
    let number = |key: &str| item[key].as_i64().and_then(|number| u32::try_from(number).ok());
    let hops = number("hop").and_then(|hops| u8::try_from(hops).ok()).filter(|hops| *hops > 0);
    let priority = number("priority").unwrap_or(0);
    let asked = match action {
        Action::Del => LnetAsked::DelRoute { net, gateway },
        Action::Add | Action::Show => LnetAsked::AddRoute { net, gateway, hops, priority },
    };
    Ok(vec![(Section::Route, asked)])
}

fn peer(item: &Yaml, action: Action) -> Result<Vec<(Section, LnetAsked)>, &'static str> {
    let mut nids = vec![text(item, "primary nid")?];
    for ni in item["peer ni"].as_vec().map(Vec::as_slice).unwrap_or_default() {
        let nid = text(ni, "nid")?;
        if !nids.contains(&nid) {
            nids.push(nid);
        }
    }
    let asked = match action {
        Action::Del => LnetAsked::DelPeer { nids },
        Action::Add | Action::Show => LnetAsked::AddPeer { nids },
    };
    Ok(vec![(Section::Peer, asked)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Style;

    fn read(text: &str, action: Action) -> (Vec<LnetAsked>, String) {
        let mut err = Vec::new();
        let mut report = Report::new("import", Style::Lctl, &mut err);
        let steps = steps(&yaml::read(text).unwrap(), action, &mut report);
        let steps = steps.into_iter().map(|(_, asked)| asked).collect();
        report.end(Ok(()));
        (steps, String::from_utf8(err).unwrap())
    }

    /// As `lnetctl export` of Lustre prints it, with comments and sections that mean nothing here.
    const FILE: &str = "\
# made by lnetctl export --backup
net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.1@tcp
          status: up
          interfaces:
              0: eth0
          tunables:
              peer_timeout: 180
        - nid: 10.0.1.1:7988@tcp
route:
    - net: tcp1
      gateway: 10.0.0.9@tcp
      hop: -1
      priority: 2
peer:
    - primary nid: 10.0.0.2@tcp
      Multi-Rail: True
      peer ni:
        - nid: 10.0.0.2@tcp
        - nid: 10.1.0.2@tcp
global:
    numa_range: 0
";

    #[test]
    fn a_file_becomes_requests() {
        let (net, on) = ("tcp".to_owned(), vec!["eth0".to_owned(), "10.0.1.1:7988".to_owned()]);
        let nids = vec!["10.0.0.2@tcp".to_owned(), "10.1.0.2@tcp".to_owned()];
        let (steps, said) = read(FILE, Action::Add);
        assert_eq!(said, "");
        let add = LnetAsked::AddNet { net: net.clone(), on: on.clone() };
        let (to, gateway) = ("tcp1".to_owned(), "10.0.0.9@tcp".to_owned());
        let route = LnetAsked::AddRoute {
            net: to.clone(),
            gateway: gateway.clone(),
            hops: None,
            priority: 2,
        };
        assert_eq!(steps, [add, route, LnetAsked::AddPeer { nids: nids.clone() }]);
        let (steps, _) = read(FILE, Action::Del);
        let del = [
            LnetAsked::DelNet { net, on },
            LnetAsked::DelRoute { net: to, gateway },
            LnetAsked::DelPeer { nids },
        ];
        assert_eq!(steps, del);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, said) in [
            ("net:\n  - nid: 0@lo\n", "an item of net has no net type"),
            (
                "net:\n  - net type: tcp\n    local NI(s):\n      - status: up\n",
                "an item of net has no nid",
            ),
            ("peer:\n  - nid: 10.0.0.1@tcp\n", "an item of peer has no primary nid"),
            ("- net\n", "no map of sections"),
        ] {
            assert_eq!(
                read(text, Action::Add),
                (
                    Vec::new(),
                    format!(
                        "error: import: {}\n",
                        match said {
                            "no map of sections" => "it is no map of sections: net, route, peer",
                            other => other,
                        }
                    )
                )
            );
        }
        assert_eq!(read("", Action::Add), (Vec::new(), String::new()));
    }
}
