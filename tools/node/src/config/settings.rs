//! Settings of a node: what it serves, where it listens, what it mounts.
//!
//! `sheen up` writes them as `node.toml`; `sheen serve` and `mount.sheen` make them from their
//! arguments. All are checked at start, before anything is touched; unknown keys are errors. Paths
//! are relative to the file's directory.

use crate::config::http_settings::HttpListen;
use crate::config::mount_options::MountOptions;
use crate::config::networks::{Networks, Routes};
use crate::config::security::Security;
use crate::home::{Home, SETTINGS_BYTES_MAX};
use layout::stripe_spec::DOM_BYTES_DEFAULT;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use types::dir_path::DirPath;
use types::limits::{DOM_BYTES_MAX, STRIPE_BYTES_MIN, STRIPES_MAX, TARGETS_MAX};
use types::nid::{Nid, PORT_DEFAULT};
use types::target::FsName;

/// Smallest space that may be given to an OST, bytes: less could not hold one request.
pub const OST_BYTES_MIN: u64 = 16 << 20;

/// Address at which a node accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere: only this process reaches its targets.
    None,
    /// At this address; port 0: any free one.
    At(SocketAddr),
}

impl Default for Listen {
    /// The loopback address at Lustre's port: no other host can connect unless asked for.
    fn default() -> Listen {
        Listen::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT_DEFAULT))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::None => f.write_str("none"),
            Listen::At(a) => write!(f, "{a}"),
        }
    }
}

/// The text is no address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address to listen at; use ADDRESS:PORT such as 127.0.0.1:988 or [::1]:988, or none"
)]
pub struct BadListen(pub String);

impl FromStr for Listen {
    type Err = BadListen;

    fn from_str(s: &str) -> Result<Listen, BadListen> {
        if s == "none" {
            return Ok(Listen::None);
        }
        if let Ok(a) = s.parse::<SocketAddr>() {
            return Ok(Listen::At(a));
        }
        let ip = s.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        Ok(Listen::At(SocketAddr::new(ip.map_err(|_| BadListen(s.to_owned()))?, PORT_DEFAULT)))
    }
}

/// A mount that the node makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSettings {
    /// Directory of this host.
    pub at: PathBuf,
    /// Directory of the file system; absent: its root.
    #[serde(with = "text", default, skip_serializing_if = "DirPath::is_root")]
    pub directory: DirPath,
    /// Mount options as in fstab.
    #[serde(with = "text", default)]
    pub options: MountOptions,
}

/// Settings of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// File system that is mounted, and to which the targets belong.
    #[serde(with = "text", default)]
    pub fsname: FsName,
    /// Address to accept connections at.
    #[serde(with = "text", default)]
    pub listen: Listen,
    /// Networks of this process, and the interfaces on which it is on them:
    /// `tcp0(eth0),tcp1(eth1)`. With interfaces it listens at their addresses, and `listen` says
    /// only the port. Absent: `tcp`.
    #[serde(with = "text", default, skip_serializing_if = "Networks::is_empty")]
    pub networks: Networks,
    /// Ways to other networks: `tcp1 10.0.0.9@tcp; o2ib 10.0.0.9@tcp`.
    #[serde(with = "text", default, skip_serializing_if = "Routes::is_empty")]
    pub routes: Routes,
    /// Processes of this host are connected within it, and not over TCP.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub local: bool,
    /// File systems whose servers this process lets others reach through it; empty: it is no
    /// router.
    #[serde(with = "texts", default, skip_serializing_if = "Vec::is_empty")]
    pub forwards: Vec<FsName>,
    /// NIDs of the MGS, best first; empty if one of `targets` is the MGT.
    #[serde(with = "texts", default)]
    pub mgs: Vec<Nid>,
    /// NIDs of all hosts that may serve the targets; empty: this one only.
    #[serde(with = "texts", default, skip_serializing_if = "Vec::is_empty")]
    pub service_nodes: Vec<Nid>,
    /// Directories of the targets to serve.
    #[serde(default)]
    pub targets: Vec<PathBuf>,
    /// Stripes of a new file's striped part, 1..=2000; more than there are OSTs means all of them.
    #[serde(default = "one")]
    pub stripe_count: u32,
    /// First bytes of a new file that live on its MDT, 0 to 1 MiB, a multiple of 64 KiB.
    #[serde(default = "dom_bytes")]
    pub dom_bytes: u64,
    /// Space each OST of this node may use, bytes. Absent: the OST's own limit, else all that its
    /// volume has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ost_bytes: Option<u64>,
    /// Space that single OSTs may use, by their directory: what their own `node.toml` says.
    #[serde(skip)]
    pub ost_bytes_of: BTreeMap<PathBuf, u64>,
    /// Make and verify checksums of data on the network.
    #[serde(default = "yes")]
    pub checksums: bool,
    /// Address for metrics, and at the MGS for the page of the cluster.
    #[serde(with = "text", default, skip_serializing_if = "is_default")]
    pub http: HttpListen,
    /// File with the token that readers must know, except root and the own user at loopback; needed
    /// where other hosts can reach `http`; absent: one is drawn at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_token_file: Option<PathBuf>,
    /// File with the key and the certificates (PEM) by which other hosts know the HTTP server;
    /// absent: the daemon makes a key, and signs its certificate itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_certificate: Option<PathBuf>,
    /// Other hosts read over HTTP, in the clear, and not over HTTPS.
    #[serde(default, skip_serializing_if = "is_no")]
    pub http_plain: bool,
    /// Whether connections must show keys.
    #[serde(with = "text", default, skip_serializing_if = "is_auto")]
    pub security: Security,
    /// File with the key of this process; absent: the one beside the authority where the MGT is,
    /// else the one of the host for this cluster, in `/etc/sheen/keys/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The mounts.
    #[serde(default, rename = "mount", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountSettings>,
}

fn one() -> u32 {
    1
}

fn dom_bytes() -> u64 {
    DOM_BYTES_DEFAULT
}

fn yes() -> bool {
    true
}

fn is_no(flag: &bool) -> bool {
    !flag
}

fn is_yes(flag: &bool) -> bool {
    *flag
}

fn is_default(http: &HttpListen) -> bool {
    *http == HttpListen::default()
}

fn is_auto(security: &Security) -> bool {
    *security == Security::Auto
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            fsname: FsName::default(),
            listen: Listen::default(),
            networks: Networks::default(),
            routes: Routes::default(),
            local: yes(),
            forwards: Vec::new(),
            mgs: Vec::new(),
            service_nodes: Vec::new(),
            targets: Vec::new(),
            stripe_count: one(),
            dom_bytes: dom_bytes(),
            ost_bytes: None,
            ost_bytes_of: BTreeMap::new(),
            checksums: yes(),
            http: HttpListen::default(),
            http_token_file: None,
            http_certificate: None,
            http_plain: false,
            security: Security::Auto,
            key: None,
            mounts: Vec::new(),
        }
    }
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the settings {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is longer than any settings.
    #[error("the settings {} are longer than {SETTINGS_BYTES_MAX} bytes; this is no node.toml", .0.display())]
    TooLong(PathBuf),
    /// The file is not TOML, or not these settings.
    #[error("the settings {} are not valid: {reason}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The settings name nothing to do.
    #[error("the settings name neither a target to serve nor a mount")]
    Empty,
    /// The settings do not say where the MGS is.
    #[error("{} needs an MGS: name its NIDs with --mgsnode NID, or serve the MGT in the same process", .0.display())]
    NoMgs(PathBuf),
    /// The same twice.
    #[error("{} is named twice in the settings", .0.display())]
    Twice(PathBuf),
    /// Out of range.
    #[error("{name} = {value} is out of range; use {min} to {max}")]
    Range {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least that is allowed.
        min: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// Not a whole number of the unit.
    #[error("{name} = {value} is not a multiple of {STRIPE_BYTES_MIN}")]
    NoMultiple {
        /// Name of the setting.
        name: &'static str,
        /// Its value, bytes.
        value: u64,
    },
    /// Others could not reach it.
    #[error(
        "cannot listen at {0}: a NID is made of the address, so name one that others can reach"
    )]
    Unspecified(SocketAddr),
    /// Figures for the whole world.
    #[error(
        "other hosts can reach {0}, so readers must know a token: name a file that holds one with --http-token-file \
         FILE, or use --http auto"
    )]
    NoToken(HttpListen),
    /// Others could not reach the targets.
    #[error(
        "{} would be registered at {at}, which other hosts cannot reach, though the MGS is at {mgs}: give an address \
         that they reach with --listen ADDRESS:PORT", .dir.display()
    )]
    LoopbackNid {
        /// The directory of the target.
        dir: PathBuf,
        /// NID of the target.
        at: Nid,
        /// NID of the MGS.
        mgs: Nid,
    },
    /// An MGS that can be taken over is found at any of its hosts.
    #[error(
        "other hosts can take the MGS of {} over: name the NIDs of all of them with --servicenode, or \
         --mgsnode",
        .0.display()
    )]
    MgsHosts(PathBuf),
    /// A mount point must not depend on the working directory.
    #[error("the mount point {} is no absolute path", .0.display())]
    MountNotAbsolute(PathBuf),
}

impl Settings {
    /// Space that the OST in this directory may use, bytes; `None`: all that its volume has.
    pub fn ost_bytes(&self, dir: &Path) -> Option<u64> {
        self.ost_bytes.or_else(|| self.ost_bytes_of.get(dir).copied())
    }

    /// True if the MGS, which is elsewhere, would tell others NIDs of `dir` that they cannot reach.
    ///
    /// # Errors
    /// [`SettingsError::LoopbackNid`].
    pub fn check_reachable(&self, dir: &Path) -> Result<(), SettingsError> {
        if self.networks.name_addresses() {
            return Ok(());
        }
        let at = match self.listen {
            Listen::None => Nid::Loopback,
            Listen::At(addr) => Nid::Tcp(addr),
        };
        match self.mgs.iter().find(|nid| !nid.is_loopback() || at == Nid::Loopback) {
            Some(mgs) if at.is_loopback() && !self.mgs.contains(&Nid::Loopback) => {
                Err(SettingsError::LoopbackNid { dir: dir.to_owned(), at, mgs: *mgs })
            }
            _ => Ok(()),
        }
    }

    /// Reads and checks `node.toml` of a home; relative paths are made absolute.
    ///
    /// # Errors
    /// The file is not readable, too long, no such settings, or out of range.
    pub fn read(home: &Home) -> Result<Settings, SettingsError> {
        let path = home.settings_path();
        let fail = |source| SettingsError::Read { path: path.clone(), source };
        let mut text = String::new();
        let file = File::open(&path).map_err(fail)?;
        file.take(SETTINGS_BYTES_MAX + 1).read_to_string(&mut text).map_err(fail)?;
        if text.len() as u64 > SETTINGS_BYTES_MAX {
            return Err(SettingsError::TooLong(path));
        }
        let mut settings = Settings::parse(&text, &path)?;
        for dir in &mut settings.targets {
            *dir = home.dir().join(&*dir);
        }
        for mount in &mut settings.mounts {
            mount.at = home.dir().join(&mount.at);
        }
        if let Some(file) = &mut settings.key {
            *file = home.dir().join(&*file);
        }
        let files = [&mut settings.http_token_file, &mut settings.http_certificate];
        for file in files.into_iter().flatten() {
            *file = home.dir().join(&*file);
        }
        settings.check()?;
        Ok(settings)
    }

    fn parse(text: &str, path: &Path) -> Result<Settings, SettingsError> {
        let one_line = |e: toml::de::Error| e.to_string().trim().replace('\n', " | ");
        toml::from_str(text)
            .map_err(|e| SettingsError::Parse { path: path.to_owned(), reason: one_line(e) })
    }

    /// The text of `node.toml`.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("settings are plain values")
    }

    /// Writes `node.toml` of a home atomically: a crash leaves the old settings or the new ones.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, home: &Home) -> Result<(), SettingsError> {
        let path = home.settings_path();
        let fail = |source| SettingsError::Write { path: path.clone(), source };
        let mut settings = self.clone();
        for path in settings.targets.iter_mut().chain(settings.mounts.iter_mut().map(|m| &mut m.at))
        {
            // A home that is moved or copied keeps working.
            *path = match path.strip_prefix(home.dir()) {
                Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
                Ok(inside) => inside.to_owned(),
                Err(_) => continue,
            };
        }
        let fresh = path.with_extension("toml.new");
        let text = format!(
            "# Settings of this SheenFS node, written by `sheen up`; docs/commands.md explains them.\n{}",
            settings.to_toml()
        );
        let mut file = File::create(&fresh).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        fs::rename(&fresh, &path).map_err(fail)?;
        File::open(home.dir()).and_then(|d| d.sync_all()).map_err(fail)
    }

    /// Checks the values, as far as they alone can tell.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.targets.is_empty() && self.mounts.is_empty() && self.forwards.is_empty() {
            return Err(SettingsError::Empty);
        }
        if let ([], [], [mount, ..]) = (&self.targets[..], &self.mgs[..], &self.mounts[..]) {
            return Err(SettingsError::NoMgs(mount.at.clone()));
        }
        let mut seen = HashSet::new();
        for path in self.targets.iter().chain(self.mounts.iter().map(|m| &m.at)) {
            if !seen.insert(path) {
                return Err(SettingsError::Twice(path.clone()));
            }
        }
        let range = |name, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(SettingsError::Range { name, value, min, max })
            }
        };
        range("the number of targets", self.targets.len() as u64, 0, 2 * TARGETS_MAX as u64)?;
        range("stripe_count", u64::from(self.stripe_count), 1, STRIPES_MAX as u64)?;
        range("dom_bytes", self.dom_bytes, 0, DOM_BYTES_MAX)?;
        if !self.dom_bytes.is_multiple_of(STRIPE_BYTES_MIN) {
            return Err(SettingsError::NoMultiple { name: "dom_bytes", value: self.dom_bytes });
        }
        if let Some(bytes) = self.ost_bytes {
            range("ost_bytes", bytes, OST_BYTES_MIN, i64::MAX as u64)?;
        }
        if let Listen::At(addr) = self.listen
            && addr.ip().is_unspecified()
        {
            return Err(SettingsError::Unspecified(addr));
        }
        if self.http.is_open() && self.http_token_file.is_none() {
            return Err(SettingsError::NoToken(self.http));
        }
        match self.mounts.iter().find(|m| !m.at.is_absolute()) {
            Some(m) => Err(SettingsError::MountNotAbsolute(m.at.clone())),
            None => Ok(()),
        }
    }
}

/// A value written as its text.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// A list of values written as their texts.
mod texts {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub fn serialize<T: Display, S: Serializer>(values: &[T], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(values.iter().map(T::to_string))
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Vec<T>, D::Error> {
        Vec::<String>::deserialize(d)?.iter().map(|t| t.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(home: &Home) -> Settings {
        Settings {
            targets: vec![
                home.dir().join("mgt"),
                home.dir().join("mdt0000"),
                home.dir().join("ost0000"),
            ],
            ost_bytes: Some(1 << 30),
            mounts: vec![MountSettings {
                at: "/mnt/x".into(),
                directory: "/home/x".parse().unwrap(),
                options: "ro,nosuid".parse().unwrap(),
            }],
            ..Settings::default()
        }
    }

    #[test]
    fn a_file_round_trips_and_moves_with_its_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("a"));
        fs::create_dir(home.dir()).unwrap();
        let settings = sample(&home);
        settings.write(&home).unwrap();
        assert_eq!(Settings::read(&home).unwrap(), settings);
        let moved = Home::new(dir.path().join("b"));
        fs::rename(home.dir(), moved.dir()).unwrap();
        assert_eq!(Settings::read(&moved).unwrap().targets[0], moved.dir().join("mgt"));
    }

    #[test]
    fn a_loopback_nid_is_told_only_to_an_mgs_of_this_host() {
        let refused = |listen: &str, mgs: &[&str]| {
            let mgs = mgs.iter().map(|nid| nid.parse().unwrap()).collect();
            let settings = Settings { listen: listen.parse().unwrap(), mgs, ..Settings::default() };
            settings.check_reachable(Path::new("/ost")).err().map(|error| error.to_string())
        };
        assert_eq!(
            refused("127.0.0.1:988", &["10.0.0.1@tcp"]).unwrap(),
            "/ost would be registered at 127.0.0.1@tcp, which other hosts cannot reach, though the MGS is at \
             10.0.0.1@tcp: give an address that they reach with --listen ADDRESS:PORT"
        );
        assert!(refused("127.0.0.2:0", &["127.0.0.1@tcp", "10.0.0.1@tcp"]).is_some());
        assert!(refused("[::1]:988", &["10.0.0.1@tcp"]).is_some());
        assert!(refused("none", &["127.0.0.1@tcp"]).is_some(), "0@lo is this process only");
        assert_eq!(refused("127.0.0.1:0", &["127.0.0.1:7988@tcp"]), None);
        assert_eq!(refused("10.0.0.2:988", &["10.0.0.1@tcp"]), None);
        assert_eq!(refused("127.0.0.1:988", &[]), None, "the MGS is in this process");
    }

    #[test]
    fn the_file_is_what_the_documentation_shows() {
        let text = sample(&Home::new("/h")).to_toml();
        assert_eq!(
            text,
            "fsname = \"sheen\"\nlisten = \"127.0.0.1:988\"\nmgs = []\ntargets = [\"/h/mgt\", \"/h/mdt0000\", \
             \"/h/ost0000\"]\nstripe_count = 1\ndom_bytes = 65536\nost_bytes = 1073741824\nchecksums = \
             true\n\n[[mount]]\nat = \"/mnt/x\"\ndirectory = \"/home/x\"\noptions = \"ro,nosuid\"\n"
        );
    }

    #[test]
    fn bad_files_are_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        for (text, reason) in [
            ("fsname = \"waytoolongname\"", "no file system name"),
            ("targets = [\"a\"]\ntypo = 1", "unknown field `typo`"),
            ("listen = \"nowhere\"", "no address to listen at"),
            ("targets = [\"a\"]\nlisten = \"0.0.0.0:988\"", "name one that others can reach"),
            ("mgs = [\"10.0.0.1\"]", "is no NID"),
            (
                "targets = [\"a\"]\nstripe_count = 0",
                "stripe_count = 0 is out of range; use 1 to 2000",
            ),
            ("targets = [\"a\"]\nost_bytes = 1", "ost_bytes = 1 is out of range"),
            (
                "targets = [\"a\"]\ndom_bytes = 2097152",
                "dom_bytes = 2097152 is out of range; use 0 to 1048576",
            ),
            ("targets = [\"a\"]\ndom_bytes = 4096", "dom_bytes = 4096 is not a multiple of 65536"),
            ("targets = [\"a\", \"a\"]", "is named twice"),
            ("targets = [\"a\"]\nhttp = \"10.0.0.1:80\"", "readers must know a token"),
            ("targets = [\"a\"]\nhttp = \"here\"", "no address for HTTP"),
            ("", "neither a target to serve nor a mount"),
            ("[[mount]]\nat = \"/m\"", "needs an MGS"),
            ("[[mount]]\nat = \"/m\"\noptions = \"bogus\"", "unknown mount option \"bogus\""),
            ("= =", "not valid"),
        ] {
            fs::write(home.settings_path(), text).unwrap();
            let error = Settings::read(&home).unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains('\n'), "one sentence: {error}");
        }
        fs::write(home.settings_path(), vec![b'#'; SETTINGS_BYTES_MAX as usize + 1]).unwrap();
        assert!(matches!(Settings::read(&home), Err(SettingsError::TooLong(_))));
    }

    #[test]
    fn addresses_to_listen_at() {
        assert_eq!("none".parse(), Ok(Listen::None));
        assert_eq!("10.0.0.1".parse::<Listen>().unwrap().to_string(), "10.0.0.1:988");
        assert_eq!("[::1]:7".parse::<Listen>().unwrap().to_string(), "[::1]:7");
        assert!("10.0.0.1:99999".parse::<Listen>().is_err());
        assert!("".parse::<Listen>().is_err());
    }
}
