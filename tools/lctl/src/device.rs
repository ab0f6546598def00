//! `lctl dl`, and what is done to a device.

use crate::cli::DlArgs;
use crate::daemons::{self, Answered, Daemons};
use crate::set_param;
use node::home::Home;
use node::manage::control::{Answer, Request};
use node::manage::devices::Device;
use report::Report;
use std::io::{self, Write};
use types::errno::Errno;

/// Prints the devices of all daemons, numbered as one list.
///
/// # Errors
/// `out` cannot be written.
pub fn list(
    args: &DlArgs,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let wanted = |device: &Device| {
        args.words.iter().all(|w| device.kind == *w || device.name.contains(w.as_str()))
    };
    if args.yaml {
        writeln!(out, "devices:")?;
    }
    for (number, (device, _)) in
        all(daemons, report).iter().enumerate().filter(|(_, (device, _))| wanted(device))
    {
        match args.yaml {
            true => out.write_all(entry(number, device, args.target).as_bytes())?,
            false => writeln!(out, "{}", line(number, device, args.target))?,
        }
    }
    Ok(())
}

fn line(number: usize, device: &Device, with_target: bool) -> String {
    let Device { state, kind, name, uuid, refs, nid } = device;
    let nid =
        nid.as_deref().filter(|_| with_target).map_or_else(String::new, |nid| format!(" {nid}"));
    format!("{number:3} {state} {kind} {name} {uuid} {refs}{nid}")
}

fn entry(number: usize, device: &Device, with_target: bool) -> String {
    let Device { state, kind, name, uuid, refs, nid } = device;
    let nid = nid
        .as_deref()
        .filter(|_| with_target)
        .map_or_else(String::new, |nid| format!("  nid: {nid}\n"));
    format!(
        "- index: {number}\n  status: {state}\n  type: {kind}\n  name: {name}\n  uuid: {uuid}\n  refcount: {refs}\n{nid}"
    )
}

/// Devices of all daemons, and which daemon each is of.
fn all(daemons: &Daemons, report: &mut Report<'_>) -> Vec<(Device, Home)> {
    let mut devices = Vec::new();
    for Answered { home, answer } in daemons.ask_all(&Request::Devices, report) {
        match answer {
            Answer::Devices { devices: more } => {
                devices.extend(more.into_iter().map(|device| (device, Home::new(home.dir()))))
            }
            other => daemons::unexpected(&other, report),
        }
    }
    devices
}

/// The device that `--device` names: by its number, its name, or `%NAME`, which is never a number.
/// With the daemons that it may be of: all that have it, or of a number just one.
fn chosen(wanted: &str, daemons: &Daemons, report: &mut Report<'_>) -> Option<(Device, Daemons)> {
    let devices = all(daemons, report);
    if let Some((device, home)) =
        wanted.parse::<usize>().ok().and_then(|number| devices.get(number))
    {
        return Some((device.clone(), daemons.only(|daemon, _| daemon.dir() == home.dir())));
    }
    let name = wanted.strip_prefix('%').unwrap_or(wanted);
    let Some((device, _)) = devices.iter().find(|(device, _)| device.name == name) else {
        report.errno(wanted, Errno(rustix::io::Errno::NODEV.raw_os_error()));
        return None;
    };
    let has = |daemon: &Home| {
        devices.iter().any(|(device, home)| device.name == name && home.dir() == daemon.dir())
    };
    let meant = daemons.only(|daemon, _| has(daemon));
    meant.are_of_one_cluster(report).then(|| (device.clone(), meant))
}

/// Sets an OST aside, or takes it back. The device is an MDT's `osp`.
///
/// # Errors
/// Never: nothing is printed.
pub fn activate(
    device: Option<&str>,
    active: bool,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(wanted) = device else {
        report.sentence(
            "name a device: lctl --device sheen-OST0000-osc-MDT0000 deactivate",
            Errno::EINVAL,
        );
        return Ok(());
    };
    match chosen(wanted, daemons, report) {
        Some((device, daemons)) if device.kind == "osp" => {
            let value = if active { "1" } else { "0" };
            let pattern = format!("osp.{}.active", device.name);
            set_param::set(&daemons, &pattern, value, true, &mut io::sink(), report)
        }
        Some((device, _)) => {
            report.sentence(
                &format!("{} is no osp: only OSTs can be set aside, at an MDT", device.name),
                Errno::EOPNOTSUPP,
            );
            Ok(())
        }
        None => Ok(()),
    }
}

/// Ends the recovery of an MDT of this host, or its wait for other MDTs, as the command says.
///
/// # Errors
/// Never: nothing is printed.
pub fn abort_recovery(
    device: Option<&str>,
    command: &str,
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let Some(wanted) = device else {
        let sentence = format!("name a device: lctl --device sheen-MDT0000 {command}");
        report.sentence(&sentence, Errno::EINVAL);
        return Ok(());
    };
    match chosen(wanted, daemons, report) {
        Some((device, daemons)) if device.kind == "mdt" => {
            let pattern = format!("mdt.{}.{command}", device.name);
            set_param::set(&daemons, &pattern, "1", true, &mut io::sink(), report)
        }
        Some((device, _)) => {
            report.sentence(
                &format!("{} is no mdt: only these wait", device.name),
                Errno::EOPNOTSUPP,
            );
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_lustre_prints_it() {
        let device = Device {
            state: "UP".into(),
            kind: "mgc".into(),
            name: "MGC10.0.0.1@tcp".into(),
            uuid: "5a3b".into(),
            refs: 4,
            nid: Some("10.0.0.1@tcp".into()),
        };
        assert_eq!(line(0, &device, false), "  0 UP mgc MGC10.0.0.1@tcp 5a3b 4");
        assert_eq!(line(0, &device, true), "  0 UP mgc MGC10.0.0.1@tcp 5a3b 4 10.0.0.1@tcp");
        let yaml = "- index: 0\n  status: UP\n  type: mgc\n  name: MGC10.0.0.1@tcp\n  uuid: 5a3b\n  refcount: 4\n";
        assert_eq!(entry(0, &device, false), yaml);
        assert_eq!(entry(0, &device, true), format!("{yaml}  nid: 10.0.0.1@tcp\n"));
    }
}
