//! `lshowmount`: the clients of the targets of this host.

use crate::cli::Lshowmount;
use crate::lookup::host_name;
use ask::params::ParamRequest;
use lctl::daemons::Daemons;
use report::{Report, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use types::net::Net;
use types::nid::Nid;

/// Sessions of the targets of daemons.
const EXPORTS: [&str; 3] = ["mgs.*.exports.*", "mdt.*.exports.*", "obdfilter.*.exports.*"];

/// A client: where it is. Its port says nothing to anybody.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Client {
    Loopback,
    At { net: Net, address: IpAddr },
}

/// Prints the clients.
///
/// Returns the exit status: 0, or the errno of the first thing that failed.
pub fn run(args: &Lshowmount, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut report = Report::new("lshowmount", Style::Lctl, err);
    let Some(daemons) = Daemons::find(args.cluster.as_deref(), &mut report) else {
        return report.end(Ok(()));
    };
    let targets = targets(&daemons, &mut report);
    report.end(print(args, &targets, out).and_then(|()| out.flush()))
}

/// The targets of all daemons, with their clients.
fn targets(daemons: &Daemons, report: &mut Report<'_>) -> BTreeMap<String, BTreeSet<Client>> {
    let patterns = EXPORTS.iter().map(|pattern| (*pattern).to_owned()).collect();
    let request = ParamRequest::Get { patterns, recursive: false, values: false };
    let mut targets: BTreeMap<String, BTreeSet<Client>> = BTreeMap::new();
    for name in daemons.params(&request, report).into_keys() {
        if let Some((target, client)) = client_of(&name) {
            targets.entry(target).or_default().insert(client);
        }
    }
    targets
}

/// `obdfilter.sheen-OST0000.exports.10.0.0.1:40100@tcp`: target and client.
fn client_of(name: &str) -> Option<(String, Client)> {
    let (device, nid) = name.split_once(".exports.")?;
    let (_, target) = device.split_once('.')?;
    let nid: Nid = nid.parse().ok()?;
    let client = match (nid.net(), nid.address()) {
        (Some(net), Some(at)) => Client::At { net, address: at.ip().to_canonical() },
        _ => Client::Loopback,
    };
    Some((target.to_owned(), client))
}

fn print(
    args: &Lshowmount,
    targets: &BTreeMap<String, BTreeSet<Client>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let lines = |clients: &BTreeSet<Client>| match (args.lookup, args.enumerate) {
        (true, _) => clients.iter().map(named).collect::<BTreeSet<_>>().into_iter().collect(),
        (false, true) => clients.iter().map(Client::to_string).collect(),
        (false, false) => ranges(clients),
    };
    if args.verbose {
        for (target, clients) in targets {
            writeln!(out, "{target}:")?;
            for line in lines(clients) {
                writeln!(out, "    {line}")?;
            }
        }
        return Ok(());
    }
    let all = targets.values().flatten().cloned().collect();
    lines(&all).into_iter().try_for_each(|line| writeln!(out, "{line}"))
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Client::Loopback => f.write_str("0@lo"),
            Client::At { net, address } => write!(f, "{address}@{net}"),
        }
    }
}

/// With the name of the host, if it has one.
fn named(client: &Client) -> String {
    match client {
        Client::Loopback => client.to_string(),
        Client::At { net, address } => match host_name(*address) {
            Some(name) => format!("{name}@{net}"),
            None => client.to_string(),
        },
    }
}

/// Clients whose addresses differ in the last number only, together: `10.0.0.[1,3-5]@tcp`.
fn ranges(clients: &BTreeSet<Client>) -> Vec<String> {
    let mut groups: BTreeMap<(Net, [u8; 3]), Vec<u8>> = BTreeMap::new();
    let mut lines = Vec::new();
    for client in clients {
        match client {
            Client::At { net, address: IpAddr::V4(address) } => {
                let [a, b, c, last] = address.octets();
                groups.entry((*net, [a, b, c])).or_default().push(last);
            }
            other => lines.push(other.to_string()),
        }
    }
    for ((net, [a, b, c]), lasts) in groups {
        lines.push(match &lasts[..] {
            [one] => format!("{}@{net}", Ipv4Addr::new(a, b, c, *one)),
            many => format!("{a}.{b}.{c}.[{}]@{net}", together(many)),
        });
    }
    lines
}

/// `1,3-5`, of ascending numbers.
fn together(numbers: &[u8]) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let words = runs.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Lshowmount {
        Lshowmount { enumerate: false, lookup: false, verbose: false, cluster: None }
    }

    fn printed(args: &Lshowmount, names: &[&str]) -> String {
        let mut targets: BTreeMap<String, BTreeSet<Client>> = BTreeMap::new();
        for (target, client) in names.iter().filter_map(|name| client_of(name)) {
            targets.entry(target).or_default().insert(client);
        }
        let mut out = Vec::new();
        print(args, &targets, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn clients_are_shown_in_all_forms() {
        let names = [
            "mdt.sheen-MDT0000.exports.10.0.0.1:40100@tcp",
            "mdt.sheen-MDT0000.exports.0@lo",
            "obdfilter.sheen-OST0000.exports.10.0.0.1:40102@tcp",
            "obdfilter.sheen-OST0000.exports.10.0.0.2:40102@tcp",
            "obdfilter.sheen-OST0000.exports.10.0.0.4:40102@tcp",
            "obdfilter.sheen-OST0000.exports.10.0.0.3:40102@tcp1",
            "obdfilter.sheen-OST0000.exports.[fd00::1]:40102@tcp",
            "obdfilter.sheen-OST0000.num_exports",
        ];
        assert_eq!(
            printed(&args(), &names),
            "0@lo\nfd00::1@tcp\n10.0.0.[1-2,4]@tcp\n10.0.0.3@tcp1\n"
        );
        let enumerated = Lshowmount { enumerate: true, ..args() };
        let all = "0@lo\n10.0.0.1@tcp\n10.0.0.2@tcp\n10.0.0.4@tcp\nfd00::1@tcp\n10.0.0.3@tcp1\n";
        assert_eq!(printed(&enumerated, &names), all);
        let verbose = Lshowmount { verbose: true, ..args() };
        assert_eq!(
            printed(&verbose, &names[..4]),
            "sheen-MDT0000:\n    0@lo\n    10.0.0.1@tcp\nsheen-OST0000:\n    10.0.0.[1-2]@tcp\n"
        );
        assert_eq!(printed(&args(), &[]), "");
        assert_eq!(together(&[0, 1, 2, 254, 255]), "0-2,254-255");
    }
}
