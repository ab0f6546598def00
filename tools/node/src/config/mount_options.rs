//! Mount options, as they stand in fstab's fourth field.
//!
//! There are three sorts: options that change the mount; options for `mount(8)`, systemd and people
//! (`noauto`, `_netdev`, `x-...`), which are accepted and dropped; and all others, which are
//! errors: a typo must not become a silent default.

use crate::config::http_settings::{BadHttpListen, HttpListen};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use types::attr::AccessTimes;
use types::net::{BadNet, Net};

/// Options that change a mount.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// No changes through this mount.
    pub read_only: bool,
    /// Set-id bits have no effect.
    pub no_suid: bool,
    /// Device files cannot be opened.
    pub no_dev: bool,
    /// No program on it can be executed.
    pub no_exec: bool,
    /// Which accesses change access times.
    pub access_times: AccessTimes,
    /// Listing a directory does not change its access time.
    pub nodiratime: bool,
    /// How opens and locks of programs reach the servers.
    pub locks: LockStyle,
    /// Programs get ETIMEDOUT from a server that is away for long, instead of waiting for it.
    pub soft: bool,
    /// No checksums of data on the network.
    pub no_checksums: bool,
    /// Servers of this host are reached over TCP, too.
    pub no_local: bool,
    /// Address at which the mount's process shows its metrics.
    pub http: HttpListen,
    /// File with the token that other users of the host need to read them; absent: they cannot.
    pub http_token_file: Option<PathBuf>,
    /// Log file of the mount's process; absent: in `/var/log/sheen/`.
    pub log: Option<PathBuf>,
    /// File with the key of this host; absent: the one for this cluster in `/etc/sheen/keys/`.
    pub key: Option<PathBuf>,
    /// The network on which this mount reaches servers; absent: those of this host.
    pub network: Option<Net>,
    /// File with this host's own parameters; absent: `/etc/sheen/client.toml`, if it exists.
    pub config: Option<PathBuf>,
}

/// How opens and locks of programs reach the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LockStyle {
    /// `flock`: flock(2) and fcntl(2) locks hold between all clients.
    #[default]
    Flock,
    /// `localflock`: within this host. Opens cost the kernel no message.
    LocalFlock,
    /// `noflock`: there are none. Opens cost the kernel no message.
    NoFlock,
}

/// Options that others read, or that say what is so anyway.
const IGNORED: [&str; 10] = [
    "auto",
    "noauto",
    "_netdev",
    "nofail",
    "nouser",
    "defaults",
    "async",
    "lazytime",
    "nolazytime",
    "loud",
];

/// Options that are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMountOption {
    /// There is no such option.
    #[error(
        "unknown mount option {0:?}; known are ro, rw, nosuid, nodev, noexec, relatime, noatime, strictatime, nodiratime, \
         flock, localflock, noflock, soft, hard, nochecksum, log=FILE, config=FILE, http=ADDRESS:PORT, \
         http_token_file=FILE, key=FILE (also as skpath=FILE), network=NET, and those that mount(8) itself reads (noauto, _netdev, nofail, user, x-...)"
    )]
    Unknown(String),
    /// The option needs a value.
    #[error("the mount option {0} needs a value: {0}=...")]
    NoValue(&'static str),
    /// The value is no address.
    #[error(transparent)]
    Http(#[from] BadHttpListen),
    /// The value is no network.
    #[error(transparent)]
    Net(#[from] BadNet),
    /// Other hosts could read it.
    #[error("the mount option http={0} is refused: a mount shows its metrics at loopback only")]
    HttpOpen(HttpListen),
}

impl FromStr for MountOptions {
    type Err = BadMountOption;

    fn from_str(s: &str) -> Result<MountOptions, BadMountOption> {
        let mut options = MountOptions::default();
        for word in s.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match word {
                // The later of two opposites counts, as for mount(8).
                "ro" => options.read_only = true,
                "rw" => options.read_only = false,
                "nosuid" => options.no_suid = true,
                "suid" => options.no_suid = false,
                "nodev" => options.no_dev = true,
                "dev" => options.no_dev = false,
                "noexec" => options.no_exec = true,
                "exec" => options.no_exec = false,
                "flock" => options.locks = LockStyle::Flock,
                "localflock" => options.locks = LockStyle::LocalFlock,
                "noflock" => options.locks = LockStyle::NoFlock,
                "soft" => options.soft = true,
                "hard" => options.soft = false,
                "noatime" => options.access_times = AccessTimes::Off,
                "atime" | "relatime" | "norelatime" | "nostrictatime" => {
                    options.access_times = AccessTimes::Relative
                }
                "nodiratime" => options.nodiratime = true,
                "diratime" => options.nodiratime = false,
                "strictatime" => options.access_times = AccessTimes::Strict,
                "nochecksum" => options.no_checksums = true,
                "checksum" => options.no_checksums = false,
                "nolocal" => options.no_local = true,
                "local" => options.no_local = false,
                "user" | "users" | "owner" | "group" => {
                    // mount(8): these imply nosuid and nodev (user and users noexec too), unless a
                    // later word says else.
                    options.no_suid = true;
                    options.no_dev = true;
                    options.no_exec |= word.starts_with("user");
                }
                "log" | "log=" => return Err(BadMountOption::NoValue("log")),
                "http" | "http=" => return Err(BadMountOption::NoValue("http")),
                "http_token_file" | "http_token_file=" => {
                    return Err(BadMountOption::NoValue("http_token_file"));
                }
                "key" | "key=" | "skpath" | "skpath=" => {
                    return Err(BadMountOption::NoValue("key"));
                }
                "network" | "network=" => return Err(BadMountOption::NoValue("network")),
                "config" | "config=" => return Err(BadMountOption::NoValue("config")),
                word if IGNORED.contains(&word) => {}
                word if word.starts_with("x-")
                    || word.starts_with("X-")
                    || word.starts_with("comment=") => {}
                _ => match word.split_once('=') {
                    Some(("log", file)) => options.log = Some(file.into()),
                    Some(("http_token_file", file)) => options.http_token_file = Some(file.into()),
                    Some(("key" | "skpath", file)) => options.key = Some(file.into()),
                    Some(("network", net)) => options.network = Some(net.parse()?),
                    Some(("config", file)) => options.config = Some(file.into()),
                    Some(("http", address)) => match address.parse()? {
                        open @ HttpListen::At(_) if open.is_open() => {
                            return Err(BadMountOption::HttpOpen(open));
                        }
                        http => options.http = http,
                    },
                    _ => return Err(BadMountOption::Unknown(word.to_owned())),
                },
            }
        }
        Ok(options)
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.read_only { "ro" } else { "rw" })?;
        let words = [
            (self.no_suid, "nosuid"),
            (self.no_dev, "nodev"),
            (self.no_exec, "noexec"),
            (self.access_times == AccessTimes::Off, "noatime"),
            (self.access_times == AccessTimes::Strict, "strictatime"),
            (self.nodiratime, "nodiratime"),
            (self.locks == LockStyle::LocalFlock, "localflock"),
            (self.locks == LockStyle::NoFlock, "noflock"),
            (self.soft, "soft"),
            (self.no_checksums, "nochecksum"),
            (self.no_local, "nolocal"),
        ];
        for (_, word) in words.iter().filter(|(on, _)| *on) {
            write!(f, ",{word}")?;
        }
        if self.http != HttpListen::default() {
            write!(f, ",http={}", self.http)?;
        }
        if let Some(net) = self.network {
            write!(f, ",network={net}")?;
        }
        let files = [
            ("http_token_file", &self.http_token_file),
            ("log", &self.log),
            ("key", &self.key),
            ("config", &self.config),
        ];
        for (word, file) in files {
            if let Some(file) = file {
                write!(f, ",{word}={}", file.display())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        text.parse::<MountOptions>().unwrap().to_string()
    }

    #[test]
    fn options_of_other_readers_are_dropped() {
        assert_eq!(parsed(""), "rw");
        assert_eq!(
            parsed("rw,noauto,_netdev,nofail,defaults,x-systemd.automount,comment=hello"),
            "rw"
        );
        for word in IGNORED {
            assert_eq!(parsed(word), "rw", "{word}");
        }
    }

    #[test]
    fn options_that_matter_are_kept() {
        assert_eq!(parsed("noatime,ro,nosuid,log=/x"), "ro,nosuid,noatime,log=/x");
        assert_eq!(parsed("noatime,relatime"), "rw", "the later one counts");
        assert_eq!(parsed("noatime,strictatime"), "rw,strictatime");
        assert_eq!(parsed("http=127.0.0.1:9988"), "rw,http=127.0.0.1:9988");
        assert_eq!(parsed("http=none"), "rw,http=none");
        assert_eq!(parsed("http_token_file=/etc/token"), "rw,http_token_file=/etc/token");
        assert_eq!(parsed("skpath=/etc/one.pem"), "rw,key=/etc/one.pem");
        assert_eq!(parsed("network=tcp1"), "rw,network=tcp1");
        assert_eq!(parsed("ro,rw"), "rw", "the later one counts");
        assert_eq!(parsed("noflock,localflock"), "rw,localflock", "again the later one");
        assert_eq!(parsed("noflock"), "rw,noflock");
        assert_eq!(parsed("localflock,flock"), "rw");
        assert_eq!(parsed("soft"), "rw,soft");
        assert_eq!(parsed("soft,hard"), "rw");
        assert_eq!(parsed("user"), "rw,nosuid,nodev,noexec");
        assert_eq!(parsed("user,exec"), "rw,nosuid,nodev");
        assert_eq!(parsed("owner"), "rw,nosuid,nodev");
    }

    #[test]
    fn unknown_options_are_errors() {
        for bad in [
            "bogus",
            "locaflock",
            "ro,lgo=/x",
            "log",
            "log=",
            "config=",
            "key=",
            "skpath",
            "network=",
            "network=eth0",
            "http=",
            "http=x",
            "http_token_file=",
            "http=0.0.0.0:80",
            "size=5",
        ] {
            assert!(bad.parse::<MountOptions>().is_err(), "{bad}");
        }
    }
}
