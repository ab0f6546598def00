//! Tickets by which a client comes back to a server (docs/security.md, "Resumption"): the keys that
//! seal them, and what is in them. When one is taken is decided in [`crate::resume`].
//!
//! Bounds: a ticket has at most [`TICKET_BYTES_MAX`] bytes, a server three keys.

use crate::certificate::sha256;
use crate::error::SealError;
use crate::fingerprint::Fingerprint;
use crate::kept::draw_key;
use data_encoding::HEXLOWER;
use env::random::Random;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use types::principal::KeyHash;

/// A key seals new tickets for so long, seconds.
const KEY_SEALS: i64 = 12 * 3600;
/// A ticket is taken for so long, seconds.
pub(crate) const TICKET_LIFE: i64 = 12 * 3600;
/// A key is forgotten after so long, seconds.
const KEY_LIFE: i64 = KEY_SEALS + TICKET_LIFE;
/// After so long an owner must prove again that it has its key, seconds.
const PROOF_LIFE: i64 = 24 * 3600;
/// Clocks may be set back by so much, seconds.
const SKEW: i64 = 300;
/// Keys that a file may have: a day has two, and the clock may have been set.
const KEYS_MAX: usize = 3;
/// Longest ticket, bytes.
pub(crate) const TICKET_BYTES_MAX: usize = 8 << 10;
/// Certificates that a ticket may hold.
const CERTIFICATES_MAX: usize = 8;

const VERSION: u8 = 1;
const ID_BYTES: usize = 8;
const HEAD_BYTES: usize = 1 + ID_BYTES + NONCE_LEN;

/// Bytes of which the keys of tickets are made.
#[derive(Clone)]
struct TicketKey {
    /// Seconds since 1970.
    made: i64,
    secret: [u8; 32],
}

impl TicketKey {
    fn holds(&self, now: i64) -> bool {
        (now - KEY_LIFE + 1..=now.saturating_add(SKEW)).contains(&self.made)
    }
}

/// The ticket keys of a server, the newest first: what its file has.
#[derive(Clone, Default)]
pub struct TicketKeys(Vec<TicketKey>);

impl TicketKeys {
    /// From the text of [`TicketKeys::to_text`].
    ///
    /// # Errors
    /// [`SealError::NoKey`].
    pub fn from_text(text: &str) -> Result<TicketKeys, SealError> {
        let damaged = || SealError::NoKey("a line is none of a ticket key");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut keys = Vec::new();
        for line in lines {
            let (made, secret) = line.split_once(' ').ok_or_else(damaged)?;
            let secret = HEXLOWER.decode(secret.as_bytes()).map_err(|_| damaged())?;
            let secret = secret.try_into().map_err(|_| damaged())?;
            let made = made.parse().map_err(|_| damaged())?;
            if keys.len() == KEYS_MAX {
                return Err(SealError::NoKey("it has too many ticket keys"));
            }
            keys.push(TicketKey { made, secret });
        }
        Ok(TicketKeys(keys))
    }

    /// The text of their file. It is secret.
    pub fn to_text(&self) -> String {
        let line = |key: &TicketKey| format!("{} {}\n", key.made, HEXLOWER.encode(&key.secret));
        let lines: String = self.0.iter().map(line).collect();
        format!("# Ticket keys of a SheenFS server, good for a day. Keep it secret.\n{lines}")
    }

    /// The keys that hold now, if they are others: old ones are left out, and there is a new one
    /// when it is time for it. `now`: seconds since 1970.
    pub fn renewed(&self, now: i64, random: &dyn Random) -> Option<TicketKeys> {
        let mut keys: Vec<_> = self.0.iter().filter(|key| key.holds(now)).cloned().collect();
        let is_new = |key: &TicketKey| key.made > now.saturating_sub(KEY_SEALS);
        if !keys.first().is_some_and(is_new) {
            keys.insert(0, TicketKey { made: now, secret: draw_key(random) });
            keys.truncate(KEYS_MAX);
        } else if keys.len() == self.0.len() {
            return None;
        }
        Some(TicketKeys(keys))
    }
}

/// One of them, for the tickets of one server.
struct Cipher {
    source: TicketKey,
    id: [u8; ID_BYTES],
    key: LessSafeKey,
}

impl Cipher {
    fn new(source: &TicketKey, server: &KeyHash) -> Cipher {
        let info = [&b"SheenFS ticket"[..], &server.0];
        let secret = Salt::new(HKDF_SHA256, &[]).extract(&source.secret);
        let made = secret.expand(&info, &AES_256_GCM).expect("it is short enough");
        let id = [&b"SheenFS ticket id"[..], &server.0, &source.secret].concat();
        let (mut short, id) = ([0; ID_BYTES], sha256(&id));
        short.copy_from_slice(&id[..ID_BYTES]);
        Cipher { source: source.clone(), id: short, key: LessSafeKey::new(UnboundKey::from(made)) }
    }
}

/// What a ticket holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    /// When the owner proved that it has its key, seconds since 1970.
    pub(crate) began: i64,
    /// The certificates that it showed, its own first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// What rustls keeps. The certificates stand in it.
    pub(crate) state: Vec<u8>,
}

/// A certificate in a ticket.
#[derive(Serialize, Deserialize)]
enum Certificate {
    /// One of an authority that the server trusts.
    Trusted([u8; 32]),
    Other(Vec<u8>),
}

/// As it is sealed.
#[derive(Serialize, Deserialize)]
struct Packed {
    began: i64,
    given: i64,
    certificates: Vec<(u16, Certificate)>,
    state: Vec<u8>,
}

/// Certificates of authorities, with their SHA-256.
pub(crate) type Authorities = [(Fingerprint, CertificateDer<'static>)];

/// `None`: a certificate is not in the state, or it is all too much.
fn pack(content: &Content, given: i64, trusted: &Authorities) -> Option<Packed> {
    let Content { began, chain, state } = content;
    let (mut rest, mut from, mut certificates) = (Vec::with_capacity(state.len()), 0, Vec::new());
    if chain.is_empty() || chain.len() > CERTIFICATES_MAX {
        return None;
    }
    for one in chain {
        let at = state[from..].windows(one.len().max(1)).position(|part| part == &**one)?;
        rest.extend_from_slice(&state[from..from + at]);
        from += at + one.len();
        let known = trusted.iter().find(|(_, der)| der == one);
        let kept = match known {
            Some((Fingerprint(hash), _)) => Certificate::Trusted(*hash),
            None => Certificate::Other(one.to_vec()),
        };
        certificates.push((u16::try_from(rest.len()).ok()?, kept));
    }
    rest.extend_from_slice(&state[from..]);
    Some(Packed { began: *began, given, certificates, state: rest })
}

/// `None`: an authority is trusted no more, or it is damaged.
fn unpack(packed: Packed, trusted: &Authorities) -> Option<Content> {
    let Packed { began, certificates, state: rest, .. } = packed;
    let (mut state, mut from, mut chain) = (Vec::new(), 0, Vec::new());
    for (place, kept) in certificates {
        let der = match kept {
            Certificate::Trusted(hash) => {
                trusted.iter().find(|(one, _)| *one == Fingerprint(hash))?.1.clone()
            }
            Certificate::Other(bytes) => CertificateDer::from(bytes),
        };
        state.extend_from_slice(rest.get(from..usize::from(place))?);
        state.extend_from_slice(&der);
        from = usize::from(place);
        chain.push(der);
    }
    state.extend_from_slice(rest.get(from..)?);
    (!chain.is_empty()).then_some(Content { began, chain, state })
}

/// Seals and opens the tickets of one server.
pub(crate) struct TicketSealer {
    /// The newest first.
    ciphers: Vec<Cipher>,
}

impl TicketSealer {
    /// For the server with this key.
    pub(crate) fn new(keys: &TicketKeys, server: &KeyHash) -> TicketSealer {
        TicketSealer { ciphers: keys.0.iter().map(|key| Cipher::new(key, server)).collect() }
    }

    /// A ticket; `None`: there is no key for it, no randomness, or it would be too long. `now`:
    /// seconds since 1970.
    pub(crate) fn seal(
        &self,
        content: &Content,
        now: i64,
        trusted: &Authorities,
    ) -> Option<Vec<u8>> {
        let Cipher { source, id, key } = self.ciphers.first()?;
        if !source.holds(now) {
            return None;
        }
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = postcard::to_stdvec(&pack(content, now, trusted)?).ok()?;
        let mut ticket = [&[VERSION][..], id, &nonce].concat();
        let (bound, nonce) = (Aad::from(ticket.clone()), Nonce::assume_unique_for_key(nonce));
        key.seal_in_place_append_tag(nonce, bound, &mut sealed).ok()?;
        ticket.append(&mut sealed);
        (ticket.len() <= TICKET_BYTES_MAX).then_some(ticket)
    }

    /// What is in a ticket; `None`: it is not of this server, damaged, too old, or of an authority
    /// that is trusted no more. `now`: seconds since 1970.
    pub(crate) fn open(&self, ticket: &[u8], now: i64, trusted: &Authorities) -> Option<Content> {
        let (head, sealed) = ticket.split_at_checked(HEAD_BYTES)?;
        if head[0] != VERSION || ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (id, nonce) = head[1..].split_at(ID_BYTES);
        let cipher = self.ciphers.iter().find(|cipher| cipher.id == id)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = cipher.key.open_in_place(nonce, Aad::from(head), &mut sealed).ok()?;
        let packed: Packed = postcard::from_bytes(opened).ok()?;
        let is_in = |time: i64, life: i64| {
            (now.saturating_sub(life) + 1..=now.saturating_add(SKEW)).contains(&time)
        };
        let holds = cipher.source.holds(now)
            && is_in(packed.given, TICKET_LIFE)
            && is_in(packed.began, PROOF_LIFE);
        holds.then(|| unpack(packed, trusted)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const NOW: i64 = 1_700_000_000;
    const HOUR: i64 = 3600;
    const SERVER: KeyHash = KeyHash([1; 32]);

    struct Count(AtomicU64);

    impl Random for Count {
        fn next_u64(&self) -> u64 {
            self.0.fetch_add(1, Ordering::SeqCst)
        }
    }

    fn random() -> Count {
        Count(AtomicU64::new(1))
    }

    fn keys() -> TicketKeys {
        TicketKeys::default().renewed(NOW, &random()).unwrap()
    }

    fn made(keys: &TicketKeys) -> Vec<i64> {
        keys.0.iter().map(|key| (key.made - NOW) / HOUR).collect()
    }

    fn authorities() -> Vec<(Fingerprint, CertificateDer<'static>)> {
        [vec![7; 300], vec![8; 200]]
            .map(|der| (Fingerprint::of(&CertificateDer::from(der.clone())), der.into()))
            .to_vec()
    }

    fn content() -> Content {
        let chain: Vec<CertificateDer<'static>> =
            [vec![5; 100], vec![7; 300], vec![6; 50]].map(CertificateDer::from).to_vec();
        let parts = [&b"start"[..], &chain[0], b"-", &chain[1], &chain[2], b"end"];
        Content { began: NOW, state: parts.concat(), chain }
    }

    #[test]
    fn keys_are_drawn_each_twelve_hours_and_none_is_older_than_a_day() {
        let random = random();
        let mut keys = TicketKeys::default();
        let mut seen = Vec::new();
        for hour in 0..=60 {
            if let Some(next) = keys.renewed(NOW + hour * HOUR, &random) {
                seen.push((hour, made(&next)));
                keys = next;
            }
            assert!(made(&keys).iter().all(|made| hour - made < 24), "{hour}");
        }
        let expected = [(0, vec![0]), (12, vec![12, 0]), (24, vec![24, 12])];
        assert_eq!(seen[..3], expected);
        assert_eq!(seen.len(), 6);
        let secrets: Vec<_> = keys.0.iter().map(|key| key.secret).collect();
        assert_ne!(secrets[0], secrets[1]);
        // They survive their file, and what is none is found.
        let text = keys.to_text();
        assert_eq!(TicketKeys::from_text(&text).unwrap().to_text(), text);
        let line = text.lines().nth(1).unwrap().to_owned();
        for bad in [
            "x",
            "5 00",
            &line[..line.len() - 1],
            &format!("{line}0"),
            &format!("x{line}"),
            &[&line[..]; KEYS_MAX + 1].join("\n"),
        ] {
            assert!(TicketKeys::from_text(bad).is_err(), "{bad}");
        }
        // The clock was set back: keys of the time to come are not used.
        let back = keys.renewed(NOW, &random).unwrap();
        assert_eq!(made(&back), [0]);
        assert!(back.renewed(NOW - SKEW, &random).is_none());
    }

    #[test]
    fn a_ticket_opens_as_what_it_was_as_long_as_it_is_good() {
        let (keys, all) = (keys(), authorities());
        let sealer = TicketSealer::new(&keys, &SERVER);
        let ticket = sealer.seal(&content(), NOW, &all).unwrap();
        assert!(ticket.len() < content().state.len() - 200, "{} bytes", ticket.len());
        assert!(!ticket.windows(5).any(|part| part == b"start"));
        for (after, opens) in [
            (0, true),
            (TICKET_LIFE - 1, true),
            (TICKET_LIFE, false),
            (-SKEW, true),
            (-SKEW - 1, false),
        ] {
            let opened = sealer.open(&ticket, NOW + after, &all);
            assert_eq!(opened.is_some(), opens, "{after}");
            assert!(opened.is_none_or(|opened| opened == content()));
        }
        // It was read from its file by the process that comes after.
        let again = TicketSealer::new(&TicketKeys::from_text(&keys.to_text()).unwrap(), &SERVER);
        assert_eq!(again.open(&ticket, NOW, &all), Some(content()));
        // Given later, but the last proof is a day old.
        let later = keys.renewed(NOW + 12 * HOUR, &random()).unwrap();
        let later = TicketSealer::new(&later, &SERVER);
        let ticket = later.seal(&content(), NOW + 23 * HOUR, &all).unwrap();
        assert!(later.open(&ticket, NOW + 24 * HOUR - 1, &all).is_some());
        assert!(later.open(&ticket, NOW + 24 * HOUR, &all).is_none());
        // A key of a day ago seals nothing.
        assert!(sealer.seal(&content(), NOW + 24 * HOUR, &all).is_none());
        assert!(
            TicketSealer::new(&TicketKeys::default(), &SERVER)
                .seal(&content(), NOW, &all)
                .is_none()
        );
    }

    #[test]
    fn tickets_of_others_damaged_ones_and_those_of_withdrawn_authorities_do_not_open() {
        let (keys, all) = (keys(), authorities());
        let sealer = TicketSealer::new(&keys, &SERVER);
        let ticket = sealer.seal(&content(), NOW, &all).unwrap();
        // Another server that has the folder now, and one with other keys.
        assert!(TicketSealer::new(&keys, &KeyHash([2; 32])).open(&ticket, NOW, &all).is_none());
        let other = TicketKeys::default().renewed(NOW, &Count(AtomicU64::new(99))).unwrap();
        assert!(TicketSealer::new(&other, &SERVER).open(&ticket, NOW, &all).is_none());
        for at in 0..ticket.len() {
            let mut damaged = ticket.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(sealer.open(&damaged, NOW, &all).is_none(), "byte {at}");
            assert!(sealer.open(&ticket[..at], NOW, &all).is_none(), "{at} bytes");
        }
        assert!(sealer.open(&ticket, NOW, &all[1..]).is_none(), "an authority was withdrawn");
        assert!(sealer.open(&ticket, NOW, &all[..1]).is_some(), "another one was");
        // No certificate, one that is not in the state, too many, too much.
        let none = Content { chain: Vec::new(), ..content() };
        let strange = Content { chain: vec![vec![9; 10].into()], ..content() };
        let one = CertificateDer::from(vec![1]);
        let many =
            Content { chain: vec![one; CERTIFICATES_MAX + 1], state: vec![1; 20], began: NOW };
        let long = Content { state: vec![5; TICKET_BYTES_MAX], ..content() };
        let long = Content { chain: vec![vec![5; 100].into()], ..long };
        for bad in [none, strange, many, long] {
            assert!(sealer.seal(&bad, NOW, &all).is_none());
        }
    }
}
