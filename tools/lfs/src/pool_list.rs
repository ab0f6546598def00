//! `lfs pool_list`: pools of OSTs.

use crate::cli::PoolListArgs;
use ask::mounts::{self, Mount};
use report::Report;
use std::io::{self, Write};
use std::path::Path;
use types::errno::Errno;
use types::target::TargetName;

/// Prints the pools of a file system, or the OSTs of a pool.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &PoolListArgs, out: &mut dyn Write, report: &mut Report<'_>) -> io::Result<()> {
    let (mount, pool) = match find(&args.name) {
        Ok(found) => found,
        Err(error) => {
            report.failed(&format!("can't list pools of '{}'", args.name), &error);
            return Ok(());
        }
    };
    let fsname = mount.names.fsname;
    let Some(pool) = pool else {
        match mount.pools() {
            Ok(pools) => {
                writeln!(out, "Pools from {fsname}:")?;
                pools.iter().try_for_each(|pool| writeln!(out, "{fsname}.{pool}"))?;
            }
            Err(error) => report.failed(&format!("can't list pools of '{fsname}'"), &error),
        }
        return Ok(());
    };
    match mount.pool(&pool) {
        Ok(Some(osts)) => {
            writeln!(out, "Pool: {fsname}.{pool}")?;
            osts.iter()
                .try_for_each(|ost| writeln!(out, "{}_UUID", TargetName::ost(fsname, ost.0)))?;
        }
        Ok(None) => report.errno(&format!("pool '{fsname}.{pool}'"), Errno::ENOENT),
        Err(error) => report.failed(&format!("can't list pool '{fsname}.{pool}'"), &error),
    }
    Ok(())
}

/// A path, a path with a pool behind it, a file system, or one with a pool behind it.
fn find(name: &str) -> io::Result<(Mount, Option<String>)> {
    let split = name.rsplit_once('.').filter(|(_, pool)| !pool.contains('/'));
    if name.starts_with('/') {
        return match (Path::new(name).exists(), split) {
            (false, Some((path, pool))) => {
                Ok((mounts::mount_of(Path::new(path))?, Some(pool.to_owned())))
            }
            _ => Ok((mounts::mount_of(Path::new(name))?, None)),
        };
    }
    let (fsname, pool) =
        split.map_or((name, None), |(fsname, pool)| (fsname, Some(pool.to_owned())));
    Ok((mounts::named(fsname)?, pool))
}
