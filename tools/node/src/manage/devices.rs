//! Devices: what lives in this process, as `lctl dl` lists it.

use crate::watch::view::View;
use rpc::import::Import;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use types::nid::Nid;
use types::target::{TargetKind, TargetName};

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `UP`, or `IN` for one that is not in service: taken out of use, or an OST that gets no new
    /// objects now.
    pub state: String,
    /// `mdt`, `osc`, ...
    pub kind: String,
    /// `sheen-MDT0000`, `sheen-OST0000-osc-<id>`.
    pub name: String,
    /// UUID of the target, or of the client.
    pub uuid: String,
    /// Sessions of a served target; 1 for a client's device.
    pub refs: u64,
    /// Address at which its target is reached now, for a client's device that has a session.
    #[serde(default)]
    pub nid: Option<String>,
}

/// All devices of this process: the MGS and its client first, then servers, then mounts.
pub fn list(view: &Arc<View>) -> Vec<Device> {
    let up = |kind: &str, name: String, uuid: String, refs: usize| Device {
        state: "UP".to_owned(),
        kind: kind.to_owned(),
        name,
        uuid,
        refs: refs as u64,
        nid: None,
    };
    let at_now = |import: &Import| import.report().current.map(|nid| nid.to_string());
    let rpc = &view.parts().rpc;
    let served = |kind: &str, name: TargetName| {
        up(kind, name.to_string(), format!("{name}_UUID"), rpc.exports(name).len())
    };
    let mut devices = Vec::new();
    let store =
        |name: TargetName| up("osd-lmdb", format!("{name}-osd"), format!("{name}-osd_UUID"), 1);
    if view.alive().mgs().is_some() {
        let mgs = TargetName::mgs();
        devices.push(store(mgs));
        devices.push(Device { uuid: mgs.to_string(), ..served("mgs", mgs) });
    }
    let at = view.parts().mgs.first().copied().unwrap_or(Nid::Loopback);
    let mgc = view.parts().mgc();
    let device = up("mgc", format!("MGC{at}"), mgc.import().client().to_string(), 1);
    devices.push(Device { nid: at_now(mgc.import()), ..device });
    for (mdt, _) in view.alive().mdts() {
        let name = mdt.name();
        devices.push(store(name));
        devices.push(served("mdt", name));
        devices.push(up("lod", format!("{name}-mdtlov"), format!("{name}-mdtlov_UUID"), 1));
        for (index, active) in mdt.osts() {
            let ost = TargetName::ost(name.fsname, index.0);
            let osp = format!("{ost}-osc-MDT{:04x}", name.index.0);
            let state = if active { "UP" } else { "IN" };
            devices.push(Device {
                state: state.to_owned(),
                ..up("osp", osp, format!("{name}-mdtlov_UUID"), 1)
            });
        }
    }
    for (_, target) in view.alive().osts() {
        let Some(name) = target.name() else { continue };
        devices.push(store(name));
        devices.push(served("obdfilter", name));
    }
    for client in view.alive().clients() {
        let (fsname, id) =
            (client.session().fsname(), client.session().uuid().instance().to_string());
        let uuid = client.session().uuid().to_string();
        devices.push(up("lov", format!("{fsname}-clilov-{id}"), uuid.clone(), 1));
        devices.push(up("lmv", format!("{fsname}-clilmv-{id}"), uuid.clone(), 1));
        let mdcs = client.session().mdts().into_iter().map(|mdc| (mdc.import().clone(), true));
        let oscs =
            client.session().osts().into_iter().map(|osc| (osc.import().clone(), osc.is_active()));
        for (import, active) in mdcs.chain(oscs) {
            let target = import.target();
            let kind = if target.kind == TargetKind::Ost { "osc" } else { "mdc" };
            let device = up(kind, format!("{target}-{kind}-{id}"), uuid.clone(), 1);
            let state = if active { "UP" } else { "IN" };
            devices.push(Device { state: state.to_owned(), nid: at_now(&import), ..device });
        }
    }
    devices
}
