//! Tokens: what one line carries from the host of the MGS to a host that is to get a key.

use crate::certificate::sha256;
use data_encoding::{BASE32_NOPAD, Encoding};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use types::net::{Net, NetKind};
use types::nid::Nid;

/// NIDs of the MGS in a token.
pub const TOKEN_NIDS_MAX: usize = 4;
/// Beginning of every token; the number is that of its form.
const PREFIX: &str = "sheen1-";
/// Digits by which a token that lost or changed a letter is known.
const CHECK_BYTES: usize = 4;
/// Before an address of another network than `tcp`, with the network's number behind it: `tcp1` and
/// the like. Earlier versions take such a token for damaged.
const NAMED: u8 = 16;
/// The same of `o2ib`.
const NAMED_O2IB: u8 = NAMED + 1;
const LETTERS: Encoding = BASE32_NOPAD;

/// A token. Its reader can get the key that it is for, once.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Its number.
    pub number: u64,
    /// Its secret.
    pub secret: [u8; 16],
    /// SHA-256 of the certificate of the cluster's authority.
    pub authority: [u8; 32],
    /// Where the MGS is; at most [`TOKEN_NIDS_MAX`].
    pub mgs: Vec<Nid>,
}

/// Without the secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {:x} of {:?}", self.number, self.mgs)
    }
}

/// The text is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadToken {
    /// It begins otherwise.
    #[error(
        "this is no token: a token begins with {PREFIX}; `sheen auth token` where the MGS is prints one"
    )]
    Form,
    /// Letters are missing or wrong.
    #[error("the token is not whole: copy all of the line that `sheen auth token` printed")]
    Damaged,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.extend(self.secret);
        bytes.extend(self.authority);
        for nid in self.mgs.iter().take(TOKEN_NIDS_MAX) {
            let (Some(address), Some(net)) = (nid.address(), nid.net()) else { continue };
            if net != Net::TCP {
                let named = match net.kind {
                    NetKind::Tcp => NAMED,
                    NetKind::O2ib => NAMED_O2IB,
                };
                bytes.extend([named, net.number]);
            }
            match address.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(4);
                    bytes.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(6);
                    bytes.extend(ip.octets());
                }
            }
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(&sha256(&bytes)[..CHECK_BYTES]);
        write!(f, "{PREFIX}{}", LETTERS.encode(&bytes).to_ascii_lowercase())
    }
}

/// Takes so many first bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], BadToken> {
    let (first, rest) = bytes.split_first_chunk().ok_or(BadToken::Damaged)?;
    *bytes = rest;
    Ok(*first)
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Token, BadToken> {
        let letters = text.trim().strip_prefix(PREFIX).ok_or(BadToken::Form)?;
        let damaged = |_| BadToken::Damaged;
        let all = LETTERS.decode(letters.to_ascii_uppercase().as_bytes()).map_err(damaged)?;
        let (bytes, check) = all.split_last_chunk::<CHECK_BYTES>().ok_or(BadToken::Damaged)?;
        if sha256(bytes)[..CHECK_BYTES] != check[..] {
            return Err(BadToken::Damaged);
        }
        let mut bytes = bytes;
        let number = u64::from_le_bytes(take(&mut bytes)?);
        let (secret, authority) = (take(&mut bytes)?, take(&mut bytes)?);
        let mut mgs = Vec::new();
        while !bytes.is_empty() && mgs.len() < TOKEN_NIDS_MAX {
            let mut first: [u8; 1] = take(&mut bytes)?;
            let kind = match first {
                [NAMED] => Some(NetKind::Tcp),
                [NAMED_O2IB] => Some(NetKind::O2ib),
                _ => None,
            };
            let mut net = Net::TCP;
            if let Some(kind) = kind {
                let [number] = take(&mut bytes)?;
                net = Net { kind, number };
                first = take(&mut bytes)?;
            }
            let ip: IpAddr = match first {
                [4] => take::<4>(&mut bytes)?.into(),
                [6] => take::<16>(&mut bytes)?.into(),
                _ => return Err(BadToken::Damaged),
            };
            let port = u16::from_le_bytes(take(&mut bytes)?);
            mgs.push(Nid::new(net, SocketAddr::new(ip, port)));
        }
        match bytes {
            [] if !mgs.is_empty() => Ok(Token { number, secret, authority, mgs }),
            _ => Err(BadToken::Damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_networks_of_the_mgs() {
        let nids = ["10.0.0.1@tcp", "10.1.0.1:7@tcp1", "fd00::1@o2ib", "10.2.0.1@o2ib255"];
        let mgs = nids.map(|nid| nid.parse().unwrap()).to_vec();
        let token = Token { number: 1, secret: [2; 16], authority: [3; 32], mgs };
        assert_eq!(token.to_string().parse(), Ok(token));
    }

    #[test]
    fn a_token_is_one_word_and_survives_being_copied() {
        let nids = ["10.0.0.1@tcp", "[fd00::1]:7988@tcp"].map(|nid| nid.parse().unwrap());
        let token = Token { number: 77, secret: [9; 16], authority: [3; 32], mgs: nids.to_vec() };
        let text = token.to_string();
        assert!(text.len() < 160 && text.starts_with("sheen1-"), "{text}");
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{text}");
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("9, 9"), "its secret is not printed");
        for at in PREFIX.len()..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'a' { b'b' } else { b'a' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(other.parse::<Token>(), Err(BadToken::Damaged), "letter {at}");
            assert_eq!(text[..at].parse::<Token>(), Err(BadToken::Damaged), "cut at {at}");
        }
        for text in ["", "sheen2-aaaa", "x"] {
            assert_eq!(text.parse::<Token>(), Err(BadToken::Form), "{text}");
        }
    }
}
