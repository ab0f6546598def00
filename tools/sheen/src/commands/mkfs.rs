//! `mkfs.sheen`: makes one target.

use crate::cli::{BackFsType, MkfsArgs};
use crate::commands::up::absolute;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use node::config::format::{self, FormatSpec, VolumeSpec};
use node::config::settings::Settings;
use node::home::Home;
use types::target::{TargetIndex, TargetKind};

/// Makes the target.
pub fn run(args: &MkfsArgs) -> Outcome {
    make(args, false)
}

/// Makes the target, and says so unless `quiet`.
pub fn make(args: &MkfsArgs, quiet: bool) -> Outcome {
    let kind = match (args.mgs, args.mdt, args.ost) {
        (true, false, false) => TargetKind::Mgt,
        (false, true, false) => TargetKind::Mdt,
        (false, false, true) => TargetKind::Ost,
        _ => {
            return Err(Failure::Usage(
                "a target has one role: give --mgs, --mdt or --ost".to_owned(),
            ));
        }
    };
    if args.mgs && args.log.is_none() && !args.servicenode.is_empty() {
        return Err(Failure::Usage(
            "only an MGS whose log is in etcd (--log) can be served by several hosts".to_owned(),
        ));
    }
    if args.mdt && args.log.is_some() && args.index.is_none() {
        return Err(Failure::Usage("an MDT whose log is in etcd needs --index".to_owned()));
    }
    let volume = match (args.backfstype, &args.device) {
        (BackFsType::Files, None) => None,
        (BackFsType::Files, Some(_)) => {
            return Err(Failure::Usage("--device is for --backfstype=volume".to_owned()));
        }
        (BackFsType::Volume, None) => {
            return Err(Failure::Usage(
                "--backfstype=volume needs --device: a block device, or a file".to_owned(),
            ));
        }
        (BackFsType::Volume, Some(device)) => Some(VolumeSpec {
            device: absolute(device)?,
            bytes: args.device_size.map(|size| size.0),
            reformat: args.reformat,
        }),
    };
    let dir = absolute(&args.dir)?;
    let home = Home::new(&dir);
    if dir.is_dir() && home.is_taken().map_err(|e| crate::commands::status::unusable(&home, &e))? {
        return Err(Failure::Failed(format!("{} is being served: stop that first", dir.display())));
    }
    let spec = FormatSpec {
        kind,
        fsname: args.fsname,
        index: args.index.map(TargetIndex),
        dir: dir.clone(),
        log: args.log.clone(),
        mgs: if args.mgs { args.servicenode.clone() } else { args.mgsnode.clone() },
        volume,
        replace: args.replace,
    };
    format::format(&spec).map_err(Failure::failed)?;
    if !args.mgsnode.is_empty() || !args.servicenode.is_empty() {
        let settings = Settings {
            fsname: args.fsname,
            mgs: args.mgsnode.clone(),
            service_nodes: args.servicenode.clone(),
            targets: vec![dir.clone()],
            ..Settings::default()
        };
        settings.write(&home).map_err(Failure::failed)?;
    }
    if !quiet {
        output::talk(&format!("made {} {} for {}", article(kind), dir.display(), args.fsname));
    }
    Ok(Exit::Done)
}

fn article(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Mgt => "the MGT",
        TargetKind::Mdt => "an MDT",
        TargetKind::Ost => "an OST",
    }
}
