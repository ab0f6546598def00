//! etcd that wants certificates of its clients, and a user with a password. Skips, and says so,
//! where etcd is not installed (`./run deps test` installs it).

mod members;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use etcd::client::Etcd;
use members::{Members, ServerFiles, or_skip};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::error::StoreError;
use store::kv::{Kv, KvError};
use store::shared_log::SharedLog;

fn pem(kind: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

/// An authority, and certificates that it signs.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    ca: PathBuf,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let ca = dir.join(format!("{name}-ca.pem"));
        fs::write(&ca, pem("CERTIFICATE", issuer.der())).unwrap();
        Authority { issuer, ca }
    }

    /// Files of a certificate for 127.0.0.1 and of its key.
    fn sign(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        self.sign_for(dir, name, None)
    }

    /// With this common name.
    fn sign_for(&self, dir: &Path, name: &str, common: Option<&str>) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let (cert, own) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        fs::write(&cert, pem("CERTIFICATE", signed.der())).unwrap();
        fs::write(&own, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        (cert, own)
    }
}

fn connect(url: &str) -> Etcd {
    Etcd::new(url.parse().unwrap(), Duration::from_secs(2)).unwrap()
}

/// What etcd answers, as soon as it has a leader.
fn answered<T>(ask: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let began = Instant::now();
    loop {
        match ask() {
            Err(StoreError::NoAnswer { .. }) if began.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(50));
            }
            answer => return answer,
        }
    }
}

fn unanswered(url: &str) -> String {
    match connect(url).get(&["/sheen/x".to_owned()]) {
        Err(KvError::NoAnswer(reason)) => reason,
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn only_clients_with_certificates_and_passwords_get_in() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (ours, theirs) = (Authority::new(dir, "ours"), Authority::new(dir, "theirs"));
    let (cert, key) = ours.sign(dir, "server");
    let files = ServerFiles { ca: ours.ca.clone(), cert, key };
    let Some(members) = or_skip(Members::start_with(Some(&files))) else { return };
    let (cert, key) = ours.sign(dir, "client");
    let url = |ca: &Path, own: Option<(&Path, &Path)>| {
        let mut url = format!("{}/site?ca={}", members.url(), ca.display());
        if let Some((cert, key)) = own {
            url += &format!("&cert={}&key={}", cert.display(), key.display());
        }
        url
    };
    let good = url(&ours.ca, Some((&cert, &key)));
    let log = |url: &str, host: &str| {
        let keys = url.parse::<etcd::url::Members>().unwrap().keys_of("sheen-MDT0000");
        SharedLog::new(Arc::new(connect(url)), &keys, 7, host, host)
    };
    let one = log(&good, "one");
    assert_eq!(answered(|| one.create("")).map(|made| made.store), Ok(7));
    // Its keys are under a name of their own.
    let found = connect(&good).range("/sheen/", "/sheen0", 10).unwrap();
    assert!(found.iter().all(|(key, _)| key.starts_with("/sheen/site/")), "{found:?}");
    assert!(!found.is_empty());
    // Without a certificate, with one of another authority, to members of another authority.
    unanswered(&url(&ours.ca, None));
    let (stranger, stranger_key) = theirs.sign(dir, "stranger");
    unanswered(&url(&ours.ca, Some((&stranger, &stranger_key))));
    let reason = unanswered(&url(&theirs.ca, Some((&cert, &key))));
    assert!(reason.contains("another authority"), "{reason}");
    // Files that are none.
    for bad in [url(&key, None), url(&ours.ca, Some((&key, &cert))), url(Path::new("/none"), None)]
    {
        let error = Etcd::new(bad.parse().unwrap(), Duration::from_secs(1)).map(drop).unwrap_err();
        assert!(error.to_string().contains('/'), "it names the file: {error}");
    }

    let ctl = |words: &[&str]| {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &members.endpoints()[0]]);
        command.arg("--cacert").arg(&ours.ca).arg("--cert").arg(&cert).arg("--key").arg(&key);
        command.args(words).output().is_ok_and(|output| output.status.success())
    };
    if !ctl(&["endpoint", "health"]) {
        eprintln!("SKIPPED in part: no users, for etcdctl is not installed");
        return;
    }
    for words in [
        &["user", "add", "root:secret"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "sheen"],
        &["role", "grant-permission", "--prefix=true", "sheen", "readwrite", "/sheen/"],
        &["user", "add", "sheen:password"],
        &["user", "grant-role", "sheen", "sheen"],
        &["auth", "enable"],
    ] {
        assert!(ctl(words), "{words:?}");
    }
    let refused = one.show().unwrap_err().to_string();
    assert!(refused.contains("user name is empty") || refused.contains("denied"), "{refused}");
    let with_certificate = |base: &str, password: &str| {
        let file = dir.join(password);
        fs::write(&file, format!("{password}\n")).unwrap();
        format!("{base}&user=sheen&password-file={}", file.display())
    };
    let with = |password: &str| with_certificate(&good, password);
    // etcd takes no user with a password whose certificate has a common name.
    let (cert, key) = ours.sign_for(dir, "named", Some("sheen"));
    let named = with_certificate(&url(&ours.ca, Some((&cert, &key))), "password");
    let refused = unanswered(&named);
    assert!(refused.contains("CommonName"), "{refused}");
    let two = log(&with("password"), "two");
    assert_eq!(answered(|| two.create("")).map(|made| made.store), Ok(7));
    assert_eq!(answered(|| two.show()).unwrap().replicas.len(), 2);
    let lease = connect(&with("password")).grant(Duration::from_secs(5)).unwrap();
    two.claim_under(lease);
    let refused = log(&with("wrong"), "three").show().unwrap_err().to_string();
    assert!(refused.contains("authentication failed"), "{refused}");
}
