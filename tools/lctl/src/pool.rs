//! `lctl pool_new`, `pool_add`, `pool_remove`, `pool_destroy`, `pool_list`: pools of OSTs, which
//! the MGS keeps.
//!
//! Any server of the file system can pass a change on; the first whose MGS knows the file system
//! and takes the change does.

use crate::daemons::{self, Answered, Daemons};
use crate::pool_osts;
use node::home::Home;
use node::manage::control::{self, Answer, Request};
use node::manage::kept::{PoolAnswer, PoolAsked};
use report::{Report, strerror};
use std::io::{self, Write};
use std::str::FromStr;
use types::errno::Errno;

/// `sheen.flash`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPath {
    /// File system.
    pub fsname: String,
    /// Pool.
    pub pool: String,
}

impl FromStr for PoolPath {
    type Err = String;

    fn from_str(s: &str) -> Result<PoolPath, String> {
        match s.split_once('.') {
            Some((fsname, pool)) if !fsname.is_empty() && !pool.is_empty() => {
                Ok(PoolPath { fsname: fsname.to_owned(), pool: pool.to_owned() })
            }
            _ => Err("write the file system and the pool: sheen.flash".to_owned()),
        }
    }
}

/// Makes a pool.
///
/// # Errors
/// Never: what it says goes to standard error.
pub fn new(path: &PoolPath, daemons: &Daemons, report: &mut Report<'_>) -> io::Result<()> {
    if change(path, PoolAsked::New, daemons, report) {
        report.say(&format!("Pool {}.{} created", path.fsname, path.pool));
    }
    Ok(())
}

/// Takes an empty pool away.
///
/// # Errors
/// As [`new`].
pub fn destroy(path: &PoolPath, daemons: &Daemons, report: &mut Report<'_>) -> io::Result<()> {
    if change(path, PoolAsked::Destroy, daemons, report) {
        report.say(&format!("Pool {}.{} destroyed", path.fsname, path.pool));
    }
    Ok(())
}

/// Puts OSTs in.
///
/// # Errors
/// As [`new`].
pub fn add(
    path: &PoolPath,
    osts: &[String],
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    members(path, osts, (PoolAsked::Add, "added to"), daemons, report);
    Ok(())
}

/// Takes OSTs out.
///
/// # Errors
/// As [`new`].
pub fn remove(
    path: &PoolPath,
    osts: &[String],
    daemons: &Daemons,
    report: &mut Report<'_>,
) -> io::Result<()> {
    members(path, osts, (PoolAsked::Remove, "removed from"), daemons, report);
    Ok(())
}

fn members(
    path: &PoolPath,
    words: &[String],
    (asked, done): (impl Fn(Vec<u16>) -> PoolAsked, &str),
    daemons: &Daemons,
    report: &mut Report<'_>,
) {
    let PoolPath { fsname, pool } = path;
    let mut all = Vec::new();
    for word in words {
        match pool_osts::parse(word, fsname) {
            Ok(osts) => all.extend(osts),
            Err(sentence) => return report.sentence(&sentence, Errno::EINVAL),
        }
    }
    // One by one: an OST that is refused must not hold back the others.
    for ost in all {
        if change(path, asked(vec![ost]), daemons, report) {
            report.say(&format!("OST {fsname}-OST{ost:04x}_UUID {done} pool {fsname}.{pool}"));
        }
    }
}

/// Lists pools, or the OSTs of one.
///
/// # Errors
/// `out` cannot be written.
pub fn list(
    name: &str,
    daemons: &Daemons,
    out: &mut dyn Write,
    report: &mut Report<'_>,
) -> io::Result<()> {
    let (fsname, pool) =
        name.split_once('.').map_or((name, None), |(fsname, pool)| (fsname, Some(pool)));
    let Some((_, pools)) = find(fsname, daemons, report).into_iter().next() else { return Ok(()) };
    let Some(pool) = pool else {
        writeln!(out, "Pools from {fsname}:")?;
        return pools.iter().try_for_each(|pool| writeln!(out, "{fsname}.{}", pool.name));
    };
    match pools.into_iter().find(|known| known.name == pool) {
        Some(known) => {
            writeln!(out, "Pool: {fsname}.{pool}")?;
            known.osts.iter().try_for_each(|ost| writeln!(out, "{fsname}-OST{ost:04x}_UUID"))
        }
        None => {
            report.errno(&format!("pool {fsname}.{pool}"), Errno::ENOENT);
            Ok(())
        }
    }
}

/// The daemons whose MGS knows the file system, and its pools. None: that is reported.
fn find(fsname: &str, daemons: &Daemons, report: &mut Report<'_>) -> Vec<(Home, Vec<PoolAnswer>)> {
    let of_it = daemons
        .only(|_, cluster| cluster.is_some_and(|c| c.fsnames.iter().any(|name| name == fsname)));
    if !of_it.are_of_one_cluster(report) {
        return Vec::new();
    }
    let (mut found, mut failed) = (Vec::new(), None);
    for Answered { home, answer } in
        daemons.ask_all(&Request::Pools { fsname: fsname.to_owned() }, report)
    {
        match answer {
            Answer::Pools { pools } => found.push((home, pools)),
            Answer::Failed { errno, .. } => failed = failed.or(Some(Errno(errno))),
            other => daemons::unexpected(&other, report),
        }
    }
    if !found.is_empty() {
        return found;
    }
    match failed.unwrap_or(Errno::ENOENT) {
        Errno::ENOENT => report.sentence(
            &format!("no daemon of this host knows the file system {fsname}"),
            Errno::ENOENT,
        ),
        errno => report.errno(&format!("asking for the pools of {fsname}"), errno),
    }
    found
}

fn change(path: &PoolPath, change: PoolAsked, daemons: &Daemons, report: &mut Report<'_>) -> bool {
    let PoolPath { fsname, pool } = path.clone();
    let request =
        Request::Pool { fsname: fsname.clone(), pool: pool.clone(), change: change.clone() };
    let mut is_unheard = false;
    for (home, _) in find(&fsname, daemons, report) {
        match control::ask(&home, &request) {
            Ok((Answer::Done, _)) => return true,
            // A daemon that only mounts.
            Ok((Answer::Failed { errno, .. }, _)) if errno == Errno::EACCES.0 => {
                is_unheard = true;
                continue;
            }
            Ok((Answer::Failed { errno, .. }, _)) => {
                let errno = Errno(errno);
                report.sentence(&refused(&fsname, &pool, &change, errno), errno);
            }
            Ok((other, _)) => daemons::unexpected(&other, report),
            Err(error) => report.sentence(&error.to_string(), Errno::EIO),
        }
        return false;
    }
    if is_unheard {
        report.sentence(&daemons::on_a_server(&format!("pool {fsname}.{pool}")), Errno::EACCES);
    }
    false
}

/// Meaning of this errno from the MGS.
fn refused(fsname: &str, pool: &str, change: &PoolAsked, errno: Errno) -> String {
    let name = format!("pool {fsname}.{pool}");
    match (change, errno) {
        (_, Errno::EINVAL) => {
            format!("{name}: a pool name has 1 to 15 letters, digits, '_' or '-'")
        }
        (PoolAsked::New, Errno::EEXIST) => format!("{name} exists already"),
        (PoolAsked::Destroy, Errno::ENOTEMPTY) => {
            format!("{name} still has OSTs; remove them first")
        }
        (PoolAsked::Add(osts), Errno::ENOENT) => {
            format!("{name} or {fsname}-OST{:04x} does not exist", osts.first().unwrap_or(&0))
        }
        (PoolAsked::Remove(osts), Errno::ENOENT) => {
            format!(
                "{name} does not exist or has no {fsname}-OST{:04x}",
                osts.first().unwrap_or(&0)
            )
        }
        (_, errno) => format!("{name}: {}", strerror(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_a_file_system() {
        let path = PoolPath { fsname: "sheen".into(), pool: "flash".into() };
        assert_eq!("sheen.flash".parse(), Ok(path));
        for bad in ["", "sheen", ".flash", "sheen."] {
            assert!(bad.parse::<PoolPath>().is_err(), "{bad}");
        }
    }
}
