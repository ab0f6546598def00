//! `sheen auth`: the authority of a cluster and the keys of its hosts.
//!
//! Everything here works on files, whether daemons run or not: a running MGS sees a changed list by
//! itself, a running process a changed key.

use crate::cli::auth::{
    AuthArgs, AuthCommand, AuthInitArgs, AuthInstallArgs, AuthIssueArgs, AuthJoinArgs,
    AuthListArgs, AuthRenewArgs, AuthRevokeArgs, AuthRotateArgs, AuthTokenArgs, AuthTrustArgs,
};
use crate::commands::up::absolute;
use crate::terminal::outcome::{Exit, Failure, Outcome};
use crate::terminal::output;
use node::config::format;
use node::config::security::Security;
use node::config::settings::{Listen, Settings};
use node::home::Home;
use node::host::authority::sites::Removed;
use node::host::authority::tokens::TokenSpec;
use node::host::authority::{AuthorityDir, KeyList, now};
use node::host::{join, keys};
use seal::authority::{KEY_LIFE, Subject};
use seal::credentials::{ClusterText, Credentials};
use seal::fingerprint::Fingerprint;
use seal::token::{BadToken, Token};
use serde::Serialize;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tabled::builder::Builder;
use tabled::settings::Style;
use types::limits::PEER_NIDS_MAX;
use types::nid::{Nid, NidPattern};
use types::principal::{BadKeyName, KeyName};
use types::session::ClusterId;
use types::target::TargetKind;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Names of hosts in one sentence.
const NAMES_MAX: usize = 16;
/// Longest key that is read, bytes.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Does it.
pub fn run(args: &AuthArgs) -> Outcome {
    match &args.command {
        AuthCommand::Init(args) => init(args),
        AuthCommand::Issue(args) => issue(args),
        AuthCommand::Install(args) => install(args),
        AuthCommand::Trust(args) => trust(args),
        AuthCommand::Export(args) => export(&args.dir),
        AuthCommand::List(args) => list(args),
        AuthCommand::Revoke(args) => revoke(args),
        AuthCommand::Renew(args) => renew(args),
        AuthCommand::RotateCa(args) => rotate(args),
        AuthCommand::Token(args) => token(args),
        AuthCommand::Join(args) => join(args),
        AuthCommand::Show => show(),
    }
}

/// The folder of the MGT of this home, or this folder if it is one.
fn mgt_of(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = absolute(dir)?;
    let in_home = dir.join(Home::target_dir_name(TargetKind::Mgt, 0));
    [in_home, dir.clone()].into_iter().find(|dir| format::is_target(dir)).ok_or_else(|| {
        Failure::Failed(format!(
            "{} holds no MGT: name the home or the MGT of the node that has the MGS (made by `sheen up` or mkfs.sheen \
             --mgs)",
            dir.display()
        ))
    })
}

fn init(args: &AuthInitArgs) -> Outcome {
    let mgt = mgt_of(&args.dir)?;
    let home = Home::new(absolute(&args.dir)?);
    let settings = match home.settings_path().exists() {
        true => Some(Settings::read(&home).map_err(Failure::failed)?),
        false => None,
    };
    let mgs = match (&args.mgsnode[..], settings.as_ref().map(|settings| settings.listen)) {
        ([], Some(Listen::At(addr))) if addr.port() != 0 => vec![Nid::Tcp(addr)],
        ([], _) => {
            return Err(Failure::Usage(
                "say at which NIDs others reach the MGS: --mgsnode NID[,NID...]; every key names them".to_owned(),
            ));
        }
        (nids, _) => nids.to_vec(),
    };
    let name = match &args.name {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let cluster = make_authority(&mgt, &mgs, &name, i64::from(args.days) * DAY)?;
    if let Some(settings) = settings.filter(|settings| settings.security == Security::Auto) {
        // Without its key the node shall not become an open one.
        Settings { security: Security::On, ..settings }.write(&home).map_err(Failure::failed)?;
    }
    let nids: Vec<String> = mgs.iter().map(Nid::to_string).collect();
    output::talk(&format!(
        "cluster {cluster} is secured from the next start of its MGS at {} on; for each other host:\n  sheen auth issue \
         {} --name HOST --role server|client|admin | ssh HOST sheen auth install",
        nids.join(","),
        args.dir.display()
    ));
    Ok(Exit::Done)
}

fn make_authority(
    mgt: &Path,
    mgs: &[Nid],
    name: &KeyName,
    life: i64,
) -> Result<ClusterId, Failure> {
    let cluster = format::cluster_of(mgt).map_err(Failure::failed)?;
    AuthorityDir::of(mgt).make(cluster, mgs, name, life).map_err(Failure::failed)?;
    Ok(cluster)
}

/// Secures the cluster of a new home whose MGS others are to reach at `address`.
///
/// # Errors
/// The authority cannot be made.
pub fn secure_new(home: &Home, address: SocketAddr) -> Result<(), Failure> {
    let mgt = home.dir().join(Home::target_dir_name(TargetKind::Mgt, 0));
    make_authority(&mgt, &[Nid::Tcp(address)], &host_name()?, KEY_LIFE)?;
    output::talk(
        "other hosts need a key: `sheen auth token` prints a token here, `sheen auth join TOKEN` takes the key there",
    );
    Ok(())
}

fn host_name() -> Result<KeyName, Failure> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    host.parse().map_err(|_| {
        Failure::Usage(format!("the name of this host, {host:?}, is none for a key: give --name"))
    })
}

fn issue(args: &AuthIssueArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    let (life, text) = life_of(args.days, args.minutes);
    let subject = Subject { role: args.role, name: &args.name, nids: few(&args.nid)? };
    let key = authority.issue(subject, life).map_err(Failure::failed)?;
    output::data(&key.to_text())?;
    output::talk(&format!("made a key of {}, good for {text}; keep it secret", key.principal()));
    Ok(Exit::Done)
}

/// How long a key shall be good: seconds, and as text.
fn life_of(days: u16, minutes: Option<u16>) -> (i64, String) {
    match minutes {
        Some(minutes) => (i64::from(minutes) * 60, format!("{minutes} minutes")),
        None => (i64::from(days) * DAY, format!("{days} days")),
    }
}

/// No more than a certificate may have.
fn few(nids: &[NidPattern]) -> Result<&[NidPattern], Failure> {
    match nids.len() <= PEER_NIDS_MAX {
        true => Ok(nids),
        false => Err(Failure::Usage(format!("a key bears at most {PEER_NIDS_MAX} NIDs"))),
    }
}

fn token(args: &AuthTokenArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    let spec = TokenSpec {
        role: args.role,
        name: args.name.clone(),
        nids: few(&args.nid)?.to_vec(),
        uses: args.uses.into(),
        life: i64::from(args.minutes) * 60,
        key_life: i64::from(args.days) * DAY,
    };
    let token = authority.make_token(&spec).map_err(Failure::failed)?;
    output::data(&format!("{token}\n"))?;
    output::talk(&format!(
        "good for {} within {} minutes, and secret until then; on that host: sheen auth join TOKEN",
        match args.uses {
            1 => "one host".to_owned(),
            uses => format!("{uses} hosts"),
        },
        args.minutes
    ));
    Ok(Exit::Done)
}

fn join(args: &AuthJoinArgs) -> Outcome {
    let text = match &args.token[..] {
        "-" => read_all(None)?,
        token => token.to_owned(),
    };
    let token: Token = text.parse().map_err(|bad: BadToken| Failure::Usage(bad.to_string()))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let key = join::key_for(&token, &name, args.config.as_deref()).map_err(Failure::failed)?;
    installed(&key.to_text())
}

fn renew(args: &AuthRenewArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    let (life, text) = life_of(args.days, args.minutes);
    let key = authority.renew_own(life).map_err(Failure::failed)?;
    output::talk(&format!(
        "the key of {} is good for {text}; a running MGS takes it",
        key.principal()
    ));
    Ok(Exit::Done)
}

fn rotate(args: &AuthRotateArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    if args.now {
        let left = authority.standing().map_err(Failure::failed)?;
        authority.withdraw().map_err(Failure::failed)?;
        let who = match left.behind.len() {
            0 => "all hosts have newer keys".to_owned(),
            _ => format!("these hosts need a new key: {}", left.names_behind(NAMES_MAX)),
        };
        output::talk(&format!("withdrew the authority before; {who}"));
        return Ok(Exit::Done);
    }
    let standing = authority.rotate().map_err(Failure::failed)?;
    output::talk(&format!(
        "a new authority signs from now on; a running MGS tells every host within a second to renew its key, another \
         one at its next start. The authority before is withdrawn when all have; missing now: {}",
        match standing.behind.len() {
            0 => "none".to_owned(),
            _ => standing.names_behind(NAMES_MAX),
        }
    ));
    Ok(Exit::Done)
}

fn install(args: &AuthInstallArgs) -> Outcome {
    let text = read_all(args.file.as_deref())?;
    let (Some(cert), Some(key)) = (&args.cert, &args.key) else { return installed(&text) };
    let cluster = ClusterText::from_text(&text).map_err(Failure::failed)?;
    let [cert, key] = [read_all(Some(cert))?, read_all(Some(key))?];
    let key = Credentials::of_site(&cluster, &key, &cert).map_err(Failure::failed)?;
    installed(&key.to_text())
}

fn export(dir: &Path) -> Outcome {
    let cluster = AuthorityDir::of(&mgt_of(dir)?).export().map_err(Failure::failed)?;
    output::data(&cluster.to_text())?;
    Ok(Exit::Done)
}

fn trust(args: &AuthTrustArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    match (&args.ca, &args.remove) {
        (Some(ca), _) => {
            let site = authority.trust(&read_all(Some(ca))?, args.map.clone());
            let site = site.map_err(Failure::failed)?;
            output::talk(&format!(
                "takes keys of {} mappings of the authority {}: a running MGS tells every server within a second",
                site.maps().len(),
                site.fingerprint()
            ));
        }
        (None, Some(what)) => {
            let removed = match what.parse() {
                Ok(fingerprint) => Removed::Authority(fingerprint),
                Err(_) => Removed::Label(
                    what.parse().map_err(|bad: BadKeyName| Failure::Usage(bad.to_string()))?,
                ),
            };
            let gone = authority.distrust(&removed).map_err(Failure::failed)?;
            output::talk(&format!(
                "took back {gone} mappings: a running MGS tells every server within a second, and their connections end"
            ));
        }
        (None, None) if args.list => list_sites(&authority)?,
        (None, None) => {
            return Err(Failure::Usage(
                "say what to do: CA and --map, --list, or --remove".to_owned(),
            ));
        }
    }
    Ok(Exit::Done)
}

fn list_sites(authority: &AuthorityDir) -> Result<(), Failure> {
    let list = authority.sites().map_err(Failure::failed)?.unwrap_or_default();
    let mut lines = String::new();
    for site in list.sites.all() {
        lines += &format!("authority {}\n", site.fingerprint());
        site.maps().iter().for_each(|map| lines += &format!("  {map}\n"));
    }
    list.barred.iter().for_each(|name| lines += &format!("revoked {name}\n"));
    output::data(&lines)
}

/// What the file has, or standard input.
fn read_all(file: Option<&Path>) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file {
        Some(file) if file != Path::new("-") => std::fs::File::open(file)
            .and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut text)),
        _ => std::io::stdin().take(KEY_BYTES_MAX).read_to_string(&mut text),
    };
    read.map_err(|error| {
        let from = file.map_or("standard input".into(), |file| file.to_string_lossy());
        Failure::Failed(format!("cannot read {from}: {error}"))
    })?;
    Ok(text)
}

/// Installs a key, and says so.
fn installed(text: &str) -> Outcome {
    let (path, key) = keys::install(text).map_err(Failure::failed)?;
    let nids: Vec<String> = key.mgs().iter().map(Nid::to_string).collect();
    output::talk(&format!(
        "{}: key of {} for the cluster with its MGS at {}, good for {} days",
        path.display(),
        key.principal(),
        nids.join(","),
        days(key.expires())
    ));
    Ok(Exit::Done)
}

fn days(expires: i64) -> i64 {
    (expires - now()).div_euclid(DAY)
}

fn list(args: &AuthListArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    let list = authority.list().map_err(Failure::failed)?;
    let standing = authority.standing().map_err(Failure::failed)?;
    if args.json {
        let holding = standing
            .was_rotated
            .then(|| standing.holding.iter().map(Fingerprint::to_string).collect());
        let listed = Listed { list: &list, authorities: holding };
        output::data(&format!(
            "{}\n",
            serde_json::to_string_pretty(&listed).map_err(Failure::failed)?
        ))?;
        return Ok(Exit::Done);
    }
    let mut rows = Builder::default();
    rows.push_record(["NAME", "ROLE", "STATE", "KEY", "NIDS"]);
    for key in &list.keys {
        let state = match (key.revoked, days(key.expires)) {
            (Some(_), _) => "revoked".to_owned(),
            (None, days) if days < 0 => "expired".to_owned(),
            (None, days) => format!("good for {days} days{}", standing.of_key(key)),
        };
        let (hash, nids) = (key.key.get(..16).unwrap_or_default(), key.nids.join(","));
        rows.push_record([&key.name, &key.role, &state, hash, &nids]);
    }
    let mut table = rows.build();
    table.with(Style::blank());
    let lines: Vec<String> =
        table.to_string().lines().map(|line| format!("{}\n", line.trim())).collect();
    output::data(&lines.concat())?;
    if standing.is_in_overlap() {
        output::talk(&match standing.behind.len() {
            0 => "two authorities hold; all hosts have keys of the new one".to_owned(),
            _ => format!(
                "two authorities hold; keys of the old one only have: {}",
                standing.names_behind(NAMES_MAX)
            ),
        });
    }
    Ok(Exit::Done)
}

/// The list as JSON.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    list: &'a KeyList,
    /// SHA-256 of the certificates of the authorities that hold, the newest first, if there was
    /// ever more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    authorities: Option<Vec<String>>,
}

fn revoke(args: &AuthRevokeArgs) -> Outcome {
    let authority = AuthorityDir::of(&mgt_of(&args.dir)?);
    let revoked = authority.revoke(&args.name).map_err(Failure::failed)?;
    output::talk(&format!(
        "revoked {revoked} keys of {}: a running MGS tells every host within a second, another one at its next start",
        args.name
    ));
    Ok(Exit::Done)
}

fn show() -> Outcome {
    let installed = keys::installed().map_err(Failure::failed)?;
    if installed.is_empty() {
        return Err(Failure::No(format!("this host has no key in {}", keys::folder().display())));
    }
    for path in installed {
        let key = keys::read(&path).map_err(Failure::failed)?;
        let nids: Vec<String> = key.mgs().iter().map(Nid::to_string).collect();
        let line = format!("{}: {}, MGS {}, ", path.display(), key.principal(), nids.join(","));
        output::data(&format!("{line}good for {} days\n", days(key.expires())))?;
    }
    Ok(Exit::Done)
}
