//! What a tap on the wires hears of marked bytes, and of a token.

use super::Site;
use data_encoding::{BASE64_NOPAD, HEXLOWER, HEXUPPER};
use e2e::lustre::soon;
use e2e::programs::sh;
use e2e::tap::Tap;
use memchr::memmem;
use seal::token::Token;
use std::fs::{self, File};
use std::path::Path;

/// What must not be seen.
pub(super) const MARKER: &str = "mArKeR-7f3a91c4";
/// Of the marker, bytes that are written.
pub(super) const CONTENT: usize = 4 << 20;

impl Site {
    /// Writes and reads what is marked, through the mounts at two hosts, and sets what hosts are
    /// told, under the eyes of the tap. `time`: another one each time, or nothing would travel.
    pub(super) fn marked_bytes_on_the_wire(&self, mounts: [&Path; 2], time: u32) -> Vec<u8> {
        let taps = [1, 2, 3, 4].map(|n| Tap::on(&self.hosts.interface(n)).expect("a tap"));
        let [one, other] = mounts;
        let (name, content) = (format!("{MARKER}-name"), MARKER.repeat(CONTENT / MARKER.len()));
        fs::write(one.join(&name), &content).unwrap();
        File::open(one.join(&name)).unwrap().sync_all().unwrap();
        std::os::unix::fs::symlink(format!("/{MARKER}-link"), one.join("link")).unwrap();
        let (attribute, value) = (format!("user.{MARKER}-attr"), format!("{MARKER}-value"));
        sh(one, &format!("setfattr -n {attribute} -v {value} {name}"));
        let shown = sh(other, &format!("getfattr -n {attribute} {name}"));
        assert!(shown.contains(&value), "{shown}");
        let param = format!("{MARKER}-param{time}");
        self.lctl(&["set_param", "-P", &format!("jobid_name={param}")]);
        let told = || self.lctl(&["get_param", "-n", "jobid_name"]);
        soon(&true, || told().lines().all(|line| line == param));
        assert!(fs::read_to_string(other.join(&name)).unwrap() == content);
        assert_eq!(
            fs::read_link(other.join("link")).unwrap(),
            Path::new(&format!("/{MARKER}-link"))
        );
        fs::remove_file(one.join("link")).unwrap();
        fs::remove_file(one.join(&name)).unwrap();
        taps.into_iter().flat_map(Tap::heard).collect()
    }
}

pub(super) fn is_in(bytes: &[u8], what: &str) -> bool {
    finds(bytes, what.as_bytes())
}

pub(super) fn finds(bytes: &[u8], what: &[u8]) -> bool {
    memmem::find(bytes, what).is_some()
}

/// Other forms in which the same bytes might travel: backwards, with two bytes swapped each, in
/// hexadecimal digits, and as base64, wherever they begin in it.
pub(super) fn disguises(what: &[u8]) -> Vec<Vec<u8>> {
    let swapped = what.chunks(2).flat_map(|pair| pair.iter().rev().copied()).collect();
    let mut all = vec![
        what.iter().rev().copied().collect(),
        swapped,
        HEXLOWER.encode(what).into_bytes(),
        HEXUPPER.encode(what).into_bytes(),
    ];
    for before in 0..3 {
        let encoded = BASE64_NOPAD.encode(&[&[0; 3][..before], what].concat());
        // The first and the last letters have bits of what is beside.
        let own = (before * 8).div_ceil(6)..(before + what.len()) * 8 / 6;
        all.push(encoded.as_bytes()[own].to_vec());
    }
    all
}

#[test]
fn disguised_bytes_are_found() {
    let secret = b"MaRk-7f3a91c4";
    for (before, after) in [("", "."), ("a", "bc"), ("abc", "d"), ("ab", "")] {
        let text = [before.as_bytes(), secret, after.as_bytes()].concat();
        let forms = [BASE64_NOPAD.encode(&text), HEXLOWER.encode(&text), HEXUPPER.encode(&text)];
        for form in forms {
            let found = disguises(secret).iter().filter(|one| finds(form.as_bytes(), one)).count();
            assert_eq!(found, 1, "{form}");
        }
    }
    assert_eq!(disguises(b"abcd")[..2], [b"dcba".to_vec(), b"badc".to_vec()]);
}

/// The twin: without keys the tap hears all of it.
pub(super) fn needs_no_key_and_has_none(site: &mut Site) {
    site.serve_all(&["--security", "off"], &["--security", "off"]);
    let (one, other) = (site.mount(3, ""), site.mount(4, ""));
    let heard = site.marked_bytes_on_the_wire([&one, &other], 1);
    let marked = ["name", "link", "attr", "value", "param1"].map(|what| format!("{MARKER}-{what}"));
    for what in marked.iter().map(String::as_str).chain([MARKER, "SHEE"]) {
        assert!(
            is_in(&heard, what),
            "the tap does not hear {what} in {} bytes: it is broken",
            heard.len()
        );
    }
    site.stop();
}

/// A host shows its token to the MGS, and the tap hears nothing of it.
pub(super) fn no_token_is_heard(site: &Site) {
    let word = site.token("1");
    let secret = word.parse::<Token>().expect("a token").secret;
    let tap = Tap::on(&site.hosts.interface(2)).expect("a tap");
    site.joined(2, &word, "joined");
    let heard = tap.heard();
    assert!(heard.len() > 1000, "the tap heard only {} bytes", heard.len());
    let forms = [disguises(&secret), disguises(word.as_bytes())].concat();
    for form in forms.iter().map(|form| &form[..]).chain([&secret[..], word.as_bytes()]) {
        assert!(!finds(&heard, form), "the token travels as {form:?}");
    }
}
