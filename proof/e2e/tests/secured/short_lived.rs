//! Keys that are good for a minute are replaced each five seconds while programs work, and servers
//! start again when all of the first keys have ended: no program notices. A host whose key is not
//! replaced is the twin: it is out.

use super::Site;
use super::rotated::Load;
use e2e::can_mount;
use e2e::process::{detach, text};
use std::fs;
use std::time::{Duration, Instant};

/// For so long keys are good.
const LIFE: [&str; 2] = ["--minutes", "1"];
/// And so long they are used.
const RENEWED_EACH: Duration = Duration::from_secs(5);
/// The first keys have ended by then.
const ENDED: Duration = Duration::from_secs(63);
/// How long the rest lasts, seconds, after servers were started again; `LEAVES` says more.
const REST: u64 = 20;

#[test]
fn keys_of_a_minute_are_replaced_each_five_seconds_under_load() {
    if !can_mount() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let mgt = site.at("mgt");
    site.must(1, &["auth", "init", &mgt, "--mgsnode", &site.mgs(), "--name", "mds"]);
    site.must(1, &[&["auth", "renew", &mgt], &LIFE[..]].concat());
    let [oss, client3, client4, stale] =
        [("oss", "server"), ("client3", "client"), ("client4", "client"), ("stale", "client")].map(
            |(name, role)| {
                let issue = ["auth", "issue", &mgt, "--name", name, "--role", role];
                let made = site.must(1, &[&issue, &LIFE[..]].concat());
                site.keep(name, &String::from_utf8(made.stdout).unwrap())
            },
        );
    let began = Instant::now();
    site.serve_all(&[], &["--key", &oss]);
    let one = site.mount(3, &format!("key={client3}"));
    let other = site.mount(4, &format!("key={client4}"));
    let twin = site.mount_at(2, "twin", &format!("key={stale},soft"));
    fs::write(twin.join("twin"), "before").unwrap();
    let hosts = [
        ("oss", "server", &oss[..]),
        ("client3", "client", &client3),
        ("client4", "client", &client4),
    ];
    let load = Load::start(&one, &other);
    load.goes_on(&site);
    let mut renewed = 0;
    let mut renew_until = |site: &Site, end: Instant| {
        while Instant::now() < end {
            let next = Instant::now() + RENEWED_EACH;
            site.renew_keys(&hosts, &LIFE);
            renewed += 1;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    };
    renew_until(&site, began + ENDED);
    // What is connected goes on. What connects shows what it has now.
    fs::write(twin.join("twin"), "goes on").unwrap();
    let mgs = site.mgs();
    site.restart("oss", |site| {
        site.serve(2, "oss", &["ost"], &["--mgsnode", &mgs, "--key", &oss]);
    });
    site.restart("mds", |site| site.serve(1, "mds", &["mgt", "mdt"], &[]));
    load.goes_on(&site);
    let failed = fs::write(twin.join("twin"), "after");
    assert!(failed.is_err(), "it writes with a key that has ended\n{}", site.logs());
    detach(&twin);
    site.mounts.retain(|mount| *mount != twin);
    let said = site.try_mount_at(2, "twin", &format!("key={stale}"));
    assert!(
        !said.status.success() && text(&said).contains("the key of this host has expired"),
        "{}",
        text(&said)
    );
    let rest = std::env::var("LEAVES").map_or(REST, |text| text.parse().expect("seconds"));
    renew_until(&site, Instant::now() + Duration::from_secs(rest));
    load.goes_on(&site);
    eprintln!("{renewed} times four keys in {:?}", began.elapsed());
    load.end(&site);
    site.stop();
}
