//! `sheen auth`.

use crate::cli::HOME_DEFAULT;
use clap::{Args, Subcommand};
use seal::sites::Mapping;
use std::path::PathBuf;
use types::nid::{Nid, NidPattern};
use types::principal::{KeyName, Role};

/// What a key can bear.
fn nid_of_key(text: &str) -> Result<NidPattern, String> {
    match text.parse() {
        Ok(nid @ (NidPattern::Net(_) | NidPattern::Address(..))) => Ok(nid),
        _ => Err("name an address, 10.1.0.7@tcp1, or a network, *@tcp1".to_owned()),
    }
}

/// Give a cluster keys, so that no host without one gets in and nothing travels in the clear
///
/// First `init` where the MGS is, then start it again. Every other host gets a key: `issue` where
/// the MGS is prints it, `install` on the host takes it, for example over ssh. Processes find the
/// key of their cluster by themselves.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// What to do
    #[command(subcommand)]
    pub command: AuthCommand,
}

/// Sub-commands of `sheen auth`.
#[derive(Debug, Subcommand)]
pub enum AuthCommand {
    Init(AuthInitArgs),
    Issue(AuthIssueArgs),
    Install(AuthInstallArgs),
    List(AuthListArgs),
    Revoke(AuthRevokeArgs),
    Renew(AuthRenewArgs),
    RotateCa(AuthRotateArgs),
    Token(AuthTokenArgs),
    Join(AuthJoinArgs),
    Trust(AuthTrustArgs),
    Export(AuthExportArgs),
    /// Show the keys of this host
    Show,
}

/// Make the authority of a cluster, and the key of the host of its MGS
///
/// Both are in the folder auth of the MGT. The node asks for keys from its next start on.
#[derive(Debug, Args)]
pub struct AuthInitArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// NIDs at which other hosts reach the MGS [default: where the node listens]
    #[arg(long, value_name = "NID", value_delimiter = ',')]
    pub mgsnode: Vec<Nid>,
    /// Name of this host's key [default: the name of the host]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
}

/// Print a new key for a host
///
/// It is secret: carry it over ssh, not through a shared folder. A host that has a key gets a new
/// one in the same way before the old one ends; its daemons take it without a restart.
#[derive(Debug, Args)]
pub struct AuthIssueArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Name of the host
    #[arg(long, value_name = "NAME")]
    pub name: KeyName,
    /// What the host may do: server (serve targets, and all else), client (mount), admin (mount,
    /// and change the cluster)
    #[arg(long, value_name = "ROLE", default_value = "client")]
    pub role: Role,
    /// NIDs under which servers may see the host behind routers: 10.1.0.7@tcp1, or *@tcp1 for any
    /// of a network
    #[arg(long, value_name = "NID", value_delimiter = ',', value_parser = nid_of_key)]
    pub nid: Vec<NidPattern>,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
    /// How long it is good, instead of days: for keys that a program renews
    #[arg(long, value_name = "MINUTES", conflicts_with = "days", value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: Option<u16>,
}

/// Make a token, with which another host gets its key from the MGS
///
/// Prints it: one word, for `sheen auth join` on that host. A reader of it can get the key.
#[derive(Debug, Args)]
pub struct AuthTokenArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// What the host may do: server, client, admin; see issue
    #[arg(long, value_name = "ROLE", default_value = "client")]
    pub role: Role,
    /// Name of the host [default: what it calls itself, if no other key has that name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// NIDs under which servers may see the host behind routers; see issue
    #[arg(long, value_name = "NID", value_delimiter = ',', value_parser = nid_of_key)]
    pub nid: Vec<NidPattern>,
    /// Hosts that may use it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub uses: u16,
    /// How long the token is good
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: u16,
    /// How long the keys are good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
}

/// Get a key for this host with a token
///
/// The key is made here and stays here; the MGS, which the token names, signs it. It goes to
/// /etc/sheen/keys; an earlier key for the same cluster is replaced.
#[derive(Debug, Args)]
pub struct AuthJoinArgs {
    /// What `sheen auth token` printed; -: from standard input, so that no list of processes shows
    /// it
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Name of this host's key [default: the name of the host]
    #[arg(long, value_name = "NAME")]
    pub name: Option<KeyName>,
    /// File with the networks of this host, and its routes [default: /etc/sheen/client.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Take a key for this host
///
/// It goes to /etc/sheen/keys; an earlier key for the same cluster is replaced. A key that an
/// authority of the site made is taken with --cert and --key; do that again when the site has
/// renewed it.
#[derive(Debug, Args)]
pub struct AuthInstallArgs {
    /// File with the key; with --cert, what `sheen auth export` printed [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Certificate that the site made, PEM, and behind it those between it and the site's authority
    #[arg(long, value_name = "PEM", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key, PEM: Ed25519, ECDSA or RSA
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// Take keys of hosts that an authority of the site made, as keys of clients
///
/// A mapping says which ids (SPIFFE) are let in: 'spiffe://site.example/hpc/*=client:physics' takes
/// spiffe://site.example/hpc/node7 as the client physics+node7. One segment may be *; the role is
/// client or admin; each label stands once. Servers need a key of the cluster. Running processes
/// hear of it within a second.
#[derive(Debug, Args)]
pub struct AuthTrustArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Certificate of the site's authority, PEM
    #[arg(value_name = "CA", requires = "map", conflicts_with_all = ["list", "remove"])]
    pub ca: Option<PathBuf>,
    /// PATTERN=ROLE:LABEL; may stand several times
    #[arg(long, value_name = "MAPPING", requires = "ca")]
    pub map: Vec<Mapping>,
    /// Show the authorities of sites, their mappings, and the names that were revoked
    #[arg(long, conflicts_with = "remove")]
    pub list: bool,
    /// Take this back: a label, or all of an authority by its SHA-256, as --list shows it.
    /// Connections that came by it end
    #[arg(long, value_name = "LABEL|SHA256")]
    pub remove: Option<String>,
}

/// Print what hosts with keys of a site need of the cluster
///
/// The certificate of its authority, and the NIDs of its MGS: for `sheen auth install --cert`. It
/// is not secret.
#[derive(Debug, Args)]
pub struct AuthExportArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
}

/// List the keys of a cluster
#[derive(Debug, Args)]
pub struct AuthListArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Print JSON; its keys are stable
    #[arg(long)]
    pub json: bool,
}

/// Give the host of the MGS a new key
///
/// Other hosts get theirs with `issue` and `install`.
#[derive(Debug, Args)]
pub struct AuthRenewArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// How long the key is good
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=7300))]
    pub days: u16,
    /// How long it is good, instead of days: for keys that a program renews
    #[arg(long, value_name = "MINUTES", conflicts_with = "days", value_parser = clap::value_parser!(u16).range(1..=10080))]
    pub minutes: Option<u16>,
}

/// Make a new authority, which signs all keys from now on
///
/// Keys of the authority before are good until all hosts have newer ones, which they get by
/// themselves; `list` shows whose are missing. Then the one before is withdrawn. A host that was
/// down all the time needs a new key.
#[derive(Debug, Args)]
pub struct AuthRotateArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Make none, but withdraw the one before now: hosts that have no newer key are out
    #[arg(long)]
    pub now: bool,
}

/// Revoke all keys of a host
///
/// Its connections and sessions end, and no process lets it in again.
#[derive(Debug, Args)]
pub struct AuthRevokeArgs {
    /// Home of the node that has the MGS, or its MGT
    #[arg(value_name = "DIR", default_value = HOME_DEFAULT)]
    pub dir: PathBuf,
    /// Name of the host; LABEL+NAME, if an authority of the site made its key
    #[arg(long, value_name = "NAME", value_parser = KeyName::of_any)]
    pub name: KeyName,
}
