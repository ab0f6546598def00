//! Mappings, and keys of sites that come to a server.

use crate::authority::Authority;
use crate::credentials::Credentials;
use crate::keys::Keys;
use crate::pem;
use crate::sites::{BadSite, Mapping, SITES_MAX, Site, Sites};
use crate::tests::{DAY, NOW, authority, credentials, keys, meet, reason, run};
use crate::tickets::TicketKeys;
use lnet::error::LinkError;
use lnet::seal::{Seal, Sealed};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType, SignatureAlgorithm,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use time::OffsetDateTime;
use types::principal::{KeyName, Role};

const MAP: &str = "spiffe://site.example/hpc/*=client:physics";

/// An authority of a site, or one below it.
struct Pki {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn params(ca: bool) -> CertificateParams {
    let mut params = CertificateParams::default();
    let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    (params.not_before, params.not_after) = (at(NOW - 300), at(NOW + DAY));
    if ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}

impl Pki {
    fn new(algorithm: &'static SignatureAlgorithm) -> Pki {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pem = params(true).self_signed(&key).unwrap();
        Pki { pem: pem::encode("CERTIFICATE", pem.der()), issuer: Issuer::new(params(true), key) }
    }

    fn below(&self) -> Pki {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = params(true);
        params.distinguished_name.push(rcgen::DnType::CommonName, "below");
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Pki { pem: pem::encode("CERTIFICATE", signed.der()), issuer: Issuer::new(params, key) }
    }

    /// Private key and certificate with these URIs.
    fn issue(
        &self,
        algorithm: &'static SignatureAlgorithm,
        uris: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut params = params(false);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names = uris.collect();
        change(&mut params);
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        (pem::encode("PRIVATE KEY", &key.serialize_der()), pem::encode("CERTIFICATE", signed.der()))
    }

    fn site(&self, maps: &[&str]) -> Result<Site, BadSite> {
        let maps = maps.iter().map(|map| map.parse()).collect::<Result<_, _>>()?;
        Site::new(Site::certificate_of(&self.pem)?, maps)
    }

    fn sites(&self, maps: &[&str]) -> Sites {
        Sites::new(vec![self.site(maps).unwrap()]).unwrap()
    }
}

type Met = (Result<Sealed, LinkError>, Result<Option<Sealed>, LinkError>);

/// What a host of a site with this id and a server make of each other.
fn comes(cluster: &Authority, (key, chain): &(String, String), server: &Keys) -> Met {
    let key = Credentials::of_site(&cluster.public(Vec::new()), key, chain).unwrap();
    // As its file has it.
    let key = Credentials::from_text(&key.to_text()).unwrap();
    run(meet(&keys(&key, NOW), server))
}

fn refused(met: Met) -> String {
    reason(met.1.err().expect("it is let in"))
}

fn server(cluster: &Authority, sites: Sites) -> Arc<Keys> {
    let server = keys(&credentials(cluster, Role::Server, "s"), NOW);
    server.set_sites(sites);
    server
}

#[test]
fn patterns_labels_and_roles_are_read_or_refused() {
    for text in [
        MAP,
        "spiffe://a/b=admin:x",
        "spiffe://a-1.b/*/ns_x/B.y=client:L-1_2.3",
        "spiffe://a/*=client:0123456789012345678901234567890",
    ] {
        assert_eq!(text.parse::<Mapping>().unwrap().to_string(), text);
    }
    let long = format!("spiffe://a/{}=client:x", "b".repeat(300));
    let deep = format!("spiffe://a{}=client:x", "/b".repeat(17));
    let cluster = "spiffe://00000000-0000-0000-0000-000000000007/*/*=client:x";
    for text in [
        "",
        "=",
        "spiffe://a/b",
        "spiffe://a/b=client",
        "spiffe://a/b=client:",
        "spiffe://a/b=server:x",
        "spiffe://a/b=anonymous:x",
        "spiffe://a/b=root:x",
        "spiffe://a/b=client:x+y",
        "spiffe://a/b=client:x y",
        "spiffe://a/b=client:01234567890123456789012345678901",
        "spiffe://a=client:x",
        "spiffe://a/=client:x",
        "spiffe:///b=client:x",
        "spiffe://*/b=client:x",
        "spiffe://A/b=client:x",
        "spiffe://a/*/*=client:x",
        "spiffe://a/b*=client:x",
        "spiffe://a/**=client:x",
        "spiffe://a//b=client:x",
        "spiffe://a/./b=client:x",
        "spiffe://a/../b=client:x",
        "spiffe://a/b/=client:x",
        "spiffe://a/b%2fc=client:x",
        "spiffe://a/b?c=client:x",
        "spiffe://a:1/b=client:x",
        "spiffe://u@a/b=client:x",
        "https://a/b=client:x",
        "spiffe://a/\u{e9}=client:x",
        &long,
        &deep,
        cluster,
        &cluster.replacen("*/*", "client/*", 1),
    ] {
        assert!(text.parse::<Mapping>().is_err(), "{text}");
    }
}

#[test]
fn no_two_ids_can_have_one_name() {
    let pki = Pki::new(&PKCS_ECDSA_P256_SHA256);
    let a = "spiffe://a/x/*=client:one";
    for (other, is_overlap) in [
        ("spiffe://a/*/y=client:two", true),
        ("spiffe://a/x/y=client:two", true),
        ("spiffe://a/x/*=admin:two", true),
        ("spiffe://a/y/*=client:two", false),
        ("spiffe://a/x/y/*=client:two", false),
        ("spiffe://b/x/*=client:two", false),
    ] {
        let made = pki.site(&[a, other]);
        let overlaps = matches!(made, Err(BadSite::Overlap(..)));
        assert_eq!((overlaps, made.is_ok()), (is_overlap, !is_overlap), "{other}");
    }
    let again = "spiffe://b/x/*=client:one";
    assert!(matches!(pki.site(&[a, again]), Err(BadSite::LabelTaken(_))));
    assert_eq!(pki.site(&[]), Err(BadSite::Maps));
    let many: Vec<String> = (0..9).map(|n| format!("spiffe://a/{n}/*=client:l{n}")).collect();
    let many: Vec<&str> = many.iter().map(|map| &map[..]).collect();
    assert_eq!(pki.site(&many), Err(BadSite::Maps));
    assert!(pki.site(&many[1..]).is_ok());
    // Labels of all authorities together.
    let other = Pki::new(&PKCS_ED25519);
    let both = |map: &str| Sites::new(vec![pki.site(&[a]).unwrap(), other.site(&[map]).unwrap()]);
    assert!(matches!(both(again), Err(BadSite::LabelTaken(_))));
    assert!(both("spiffe://a/x/*=client:two").is_ok());
    let sites = many[..SITES_MAX + 1].iter().map(|map| pki.site(&[map]).unwrap());
    assert!(Sites::new(sites.collect()).is_err());
    // As a parameter, and nothing else.
    let site = pki.site(&[a]).unwrap();
    let text = site.to_string();
    assert_eq!(text.parse(), Ok(site));
    let (_, leaf) = pki.issue(&PKCS_ED25519, &["spiffe://a/x/y"], |_| {});
    for bad in ["", "x", &text[..40], text.split(' ').next().unwrap(), &format!("{text} ")] {
        assert!(bad.parse::<Site>().is_err(), "{bad}");
    }
    let certificate = Site::certificate_of(&leaf).unwrap();
    let maps = vec![a.parse().unwrap()];
    assert_eq!(Site::new(certificate, maps), Err(BadSite::Certificate), "a key is no authority");
}

#[test]
fn a_key_of_a_site_is_let_in_as_its_mapping_says() {
    let cluster = authority();
    for root in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let pki = Pki::new(root);
        let server = server(&cluster, pki.sites(&[MAP, "spiffe://site.example/op=admin:ops"]));
        let below = pki.below();
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
            let id = "spiffe://site.example/hpc/node-7.x";
            let direct = pki.issue(algorithm, &[id], |_| {});
            let (key, own) = below.issue(algorithm, &[id], |_| {});
            for host in [direct, (key, own + &below.pem)] {
                let (called, answered) = comes(&cluster, &host, &server);
                assert_eq!(called.unwrap().principal.to_string(), "server s");
                let answered = answered.unwrap().unwrap();
                assert_eq!(answered.principal.to_string(), "client physics+node-7.x");
                assert_eq!(answered.principal.cluster, cluster.cluster());
                assert_eq!(answered.protection.expires, Some(NOW + DAY));
                assert!(!server.is_withdrawn(&answered.protection));
            }
        }
        let op = pki.issue(root, &["spiffe://site.example/op"], |_| {});
        let op = comes(&cluster, &op, &server).1.unwrap().unwrap();
        assert_eq!(op.principal.to_string(), "admin ops+op");
    }
}

#[test]
fn keys_of_sites_that_no_mapping_lets_in_are_refused() {
    let cluster = authority();
    let pki = Pki::new(&PKCS_ECDSA_P256_SHA256);
    let server = server(&cluster, pki.sites(&[MAP]));
    let ed = &PKCS_ED25519;
    let unmapped = "no mapping lets it in";
    let id = "spiffe://site.example/hpc/a";
    let long = format!("spiffe://site.example/hpc/{}", "a".repeat(57));
    let own = |what: &str| format!("spiffe://{}/{what}", cluster.cluster());
    for (uris, why) in [
        (&["spiffe://site.example/other/a"][..], unmapped),
        (&["spiffe://site.example/hpc/a/b"], unmapped),
        (&["spiffe://site.examplex/hpc/a"], unmapped),
        (&["spiffe://Site.example/hpc/a"], unmapped),
        (&[&own("client/c")], unmapped),
        (&[&own("server/s")], unmapped),
        (&[&own("admin/a")], unmapped),
        (&["spiffe://00000000-0000-0000-0000-000000000001/server/s"], unmapped),
        // Its name would be too long.
        (&[&long], unmapped),
    ] {
        let said = refused(comes(&cluster, &pki.issue(ed, uris, |_| {}), &server));
        assert!(said.contains(why), "{uris:?}: {said}");
    }
    // What no honest host would install: it is put together here.
    let (key, chain) = pki.issue(ed, &[id], |_| {});
    let good = Credentials::of_site(&cluster.public(Vec::new()), &key, &chain).unwrap();
    let shows = |(key, chain): (String, String)| {
        let text = good.to_text();
        let text = text.replace(&chain_of(&good), &chain).replace(&key_of(&text), &key);
        Credentials::from_text(&text).map(|key| refused(run(meet(&keys(&key, NOW), &server))))
    };
    for uris in [&[][..], &[id, "spiffe://site.example/hpc/b"]] {
        assert!(shows(pki.issue(ed, uris, |_| {})).is_err(), "{uris:?}");
    }
    // Another authority, that of a neighbour, and time.
    let other = Pki::new(&PKCS_ECDSA_P256_SHA256);
    let said = refused(comes(&cluster, &other.issue(ed, &[id], |_| {}), &server));
    assert!(said.contains("another authority signed it"), "{said}");
    let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    let ended = pki.issue(ed, &[id], |params| params.not_after = at(NOW - 1));
    let said = refused(comes(&cluster, &ended, &server));
    assert!(said.contains("has expired"), "{said}");
    let early = pki.issue(ed, &[id], |params| params.not_before = at(NOW + 1));
    let said = refused(comes(&cluster, &early, &server));
    assert!(said.contains("not valid yet"), "{said}");
    // For servers only.
    let wrong = pki.issue(ed, &[id], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    refused(comes(&cluster, &wrong, &server));
    // A key of a site that signs another one.
    let (_, leaf) = pki.issue(ed, &[id], |_| {});
    let thief =
        Pki { issuer: Issuer::new(params(false), KeyPair::generate_for(ed).unwrap()), pem: leaf };
    let (key, own) = thief.issue(ed, &[id], |_| {});
    refused(comes(&cluster, &(key, own + &thief.pem), &server));
    // Without sites none comes, and the cluster's own do.
    let host = pki.issue(ed, &[id], |_| {});
    assert!(comes(&cluster, &host, &server).1.is_ok());
    server.set_sites(Sites::default());
    let said = refused(comes(&cluster, &host, &server));
    assert!(said.contains("another authority signed it"), "{said}");
    let own = keys(&credentials(&cluster, Role::Client, "c"), NOW);
    assert!(run(meet(&own, &server)).1.is_ok());
}

fn key_of(text: &str) -> String {
    let (from, to) = ("-----BEGIN PRIVATE KEY", "-----END PRIVATE KEY-----\n");
    text[text.find(from).unwrap()..text.find(to).unwrap() + to.len()].to_owned()
}

fn chain_of(key: &Credentials) -> String {
    key.chain().iter().map(|der| pem::encode("CERTIFICATE", der)).collect()
}

#[test]
fn a_key_of_a_site_serves_nothing() {
    let cluster = authority();
    let pki = Pki::new(&PKCS_ED25519);
    let name = crate::authority::SERVER_NAME;
    let (key, chain) = pki.issue(&PKCS_ED25519, &["spiffe://site.example/hpc/a"], |params| {
        params.subject_alt_names.push(SanType::DnsName(name.try_into().unwrap()));
    });
    let key = Credentials::of_site(&cluster.public(Vec::new()), &key, &chain).unwrap();
    let false_server = keys(&key, NOW);
    false_server.set_sites(pki.sites(&[MAP]));
    let client = keys(&credentials(&cluster, Role::Client, "c"), NOW);
    client.set_sites(pki.sites(&[MAP]));
    let (called, answered) = run(meet(&client, &false_server));
    assert!(called.is_err() && reason(answered.err().unwrap()).contains("not that of a server"));
    assert!(!client.test_believes_server(&key.chain()), "nor if the program there does not care");
    let true_one = credentials(&cluster, Role::Server, "s").chain();
    assert!(client.test_believes_server(&true_one));
    // Nor as a key of the cluster.
    let server = credentials(&cluster, Role::Server, "s").to_text();
    let mine = server.replace(&key_of(&server), &key_of(&key.to_text()));
    let own = pem::encode("CERTIFICATE", &credentials_certificate(&server));
    let mine = Credentials::from_text(&mine.replace(&own, &chain_of(&key)));
    assert!(mine.is_err(), "its certificate names no key of a cluster");
}

fn credentials_certificate(text: &str) -> rustls::pki_types::CertificateDer<'static> {
    Site::certificate_of(text).unwrap()
}

#[test]
fn what_is_taken_back_ends_connections_and_tickets() {
    let cluster = authority();
    let pki = Pki::new(&PKCS_ECDSA_P256_SHA256);
    let other = "spiffe://site.example/lab/*=client:lab";
    let server = server(&cluster, pki.sites(&[MAP, other]));
    let random = crate::resumed::RANDOM_OF_TESTS;
    server.set_ticket_keys(TicketKeys::default().renewed(NOW, random).unwrap());
    let host = |id: &str| {
        let (key, chain) = pki.issue(&PKCS_ECDSA_P256_SHA256, &[id], |_| {});
        let key = Credentials::of_site(&cluster.public(Vec::new()), &key, &chain).unwrap();
        keys(&key, NOW)
    };
    let [one, two] = ["hpc/a", "lab/b"].map(|id| host(&format!("spiffe://site.example/{id}")));
    let resumed = || server.handshakes().resumed.load(Ordering::SeqCst);
    let comes = |host: &Keys| run(meet(host, &server)).1.map(Option::unwrap);
    let before: Vec<_> = [&one, &two].map(|host| comes(host).unwrap()).into_iter().collect();
    for host in [&one, &two] {
        let again = comes(host).unwrap();
        assert!(again.principal.name.is_of_site());
    }
    assert_eq!(resumed(), 2, "they come back with tickets");
    // A name is revoked, whatever key it shows.
    let name = KeyName::of_any("physics+a").unwrap();
    assert!(server.bar(BTreeSet::from([name.clone()])) && !server.bar(BTreeSet::from([name])));
    assert!(server.is_revoked(&before[0].principal) && !server.is_revoked(&before[1].principal));
    let fresh = comes(&host("spiffe://site.example/hpc/a")).unwrap();
    assert!(server.is_revoked(&fresh.principal));
    let count = resumed();
    comes(&one).unwrap();
    assert_eq!(resumed(), count, "its tickets are not taken");
    comes(&two).unwrap();
    assert_eq!(resumed(), count + 1);
    // A mapping is removed: what came by it is withdrawn, and nothing else.
    assert!(!server.set_sites(pki.sites(&[MAP, other])), "the same");
    assert!(server.set_sites(pki.sites(&[MAP])));
    let withdrawn: Vec<bool> = before.iter().map(|b| server.is_withdrawn(&b.protection)).collect();
    assert_eq!(withdrawn, [false, true]);
    assert!(reason(comes(&two).err().unwrap()).contains("no mapping lets it in"));
    // One that changes its role is another one.
    assert!(server.set_sites(pki.sites(&[&MAP.replace("client", "admin")])));
    assert!(server.is_withdrawn(&before[0].protection));
    assert!(server.set_sites(Sites::default()));
}
