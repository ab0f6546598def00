//! Read access. At loopback: programs of root and of the user that this process runs as, and no web
//! page of another site. All others: clients that know the token.
//!
//! A page of another site that the user visits could name itself 127.0.0.1 by DNS; so at loopback
//! the `Host` must be a loopback name. A token comes in `Authorization: Bearer`, once in the
//! address (`?token=`), from then on in a cookie that scripts cannot read. Tokens are compared in
//! constant time.

use env::net::PeerOwner;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HOST};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Shortest token, bytes: it must not be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 256;
/// Name of the cookie.
pub const COOKIE_NAME: &str = "sheen_token";

/// There is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {source}", .path.display())]
    Read {
        /// The token's file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "the token file {} must hold one line of {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters, digits, '-' or '_'; \
         make one with: head -c 24 /dev/urandom | base64 | tr '+/' '-_' > FILE",
        .0.display()
    )]
    Bad(PathBuf),
}

/// A secret that readers must know, except root and the own user at loopback.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

impl Token {
    /// The first line of a file.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Token, TokenError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenError::Read { path: path.to_owned(), source })?;
        Token::new(text.trim_end()).ok_or_else(|| TokenError::Bad(path.to_owned()))
    }

    /// From its text; `None`: too short, too long, or with letters that an address cannot carry.
    pub fn new(text: &str) -> Option<Token> {
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (fits && plain).then(|| Token(text.to_owned()))
    }

    /// From a random number, for a process that is told none.
    pub fn from_random(number: u128) -> Token {
        Token(format!("{number:032x}"))
    }

    /// Its text: only for readers that may have it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// True if it is this token. Takes the same time wherever the two differ.
    fn is(&self, other: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.as_bytes());
        let differ = ours.iter().zip(theirs).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differ) == 0 && ours.len() == theirs.len()
    }
}

/// What a request may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Read.
    Allowed,
    /// Read, and be given the cookie: the token was in the address.
    AllowedByAddress,
    /// The token is missing or wrong.
    NeedsToken,
    /// The request was sent to a foreign host name.
    WrongHost,
}

/// The rule of one server.
#[derive(Clone, Debug)]
pub struct Access {
    /// Bound to loopback, so that only this host can reach it.
    pub loopback: bool,
    /// It is served over HTTPS, and so the cookie is never shown to others.
    pub https: bool,
    /// What readers must know that `loopback` does not let in.
    pub token: Token,
}

impl Access {
    /// The value of the cookie that carries the token.
    pub fn cookie(&self) -> String {
        let secure = if self.https { "; Secure" } else { "" };
        format!("{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict{secure}", self.token.0)
    }

    /// Judges whether this request may be answered. `owner`: of the other end of its connection;
    /// `None`: the kernel does not tell.
    pub fn judge(
        &self,
        owner: Option<PeerOwner>,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Verdict {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if self.loopback && !text(HOST).is_some_and(is_loopback_host) {
            return Verdict::WrongHost;
        }
        let token = &self.token;
        // Out of the address first, also if it was not needed: addresses are remembered and shown.
        if query.is_some_and(|query| {
            pairs(query, '&').any(|(name, value)| name == "token" && token.is(value))
        }) {
            return Verdict::AllowedByAddress;
        }
        if self.loopback && owner == Some(PeerOwner::Trusted) {
            return Verdict::Allowed;
        }
        let bearer = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let mut cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let by_cookie = cookies.any(|line| {
            pairs(line, ';').any(|(name, value)| name == COOKIE_NAME && token.is(value))
        });
        if by_cookie || bearer.is_some_and(|told| token.is(told)) {
            return Verdict::Allowed;
        }
        Verdict::NeedsToken
    }
}

fn pairs(text: &str, between: char) -> impl Iterator<Item = (&str, &str)> {
    text.split(between).filter_map(|pair| pair.trim().split_once('='))
}

/// `127.0.0.1:8080`, `[::1]`, `localhost`.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let name = |name: &str| hyper::header::HeaderName::from_bytes(name.as_bytes()).unwrap();
        lines.iter().map(|(n, value)| (name(n), value.parse().unwrap())).collect()
    }

    const TOKEN: &str = "0123456789abcdef-_XY";
    const NOBODY: PeerOwner = PeerOwner::User(65534);

    fn access(loopback: bool) -> Access {
        Access { loopback, https: false, token: Token::new(TOKEN).unwrap() }
    }

    #[test]
    fn at_loopback_root_and_the_own_user_need_no_token_and_others_do() {
        let judge = |loopback, owner, lines: &[(&str, &str)]| {
            access(loopback).judge(owner, &headers(lines), None)
        };
        let host = ("host", "127.0.0.1:80");
        let bearer = ("authorization", &*format!("Bearer {TOKEN}"));
        assert_eq!(judge(true, Some(PeerOwner::Trusted), &[host]), Verdict::Allowed);
        assert_eq!(
            judge(false, Some(PeerOwner::Trusted), &[host]),
            Verdict::NeedsToken,
            "a proxy of this host"
        );
        for other in [Some(NOBODY), Some(PeerOwner::Gone), Some(PeerOwner::Elsewhere), None] {
            assert_eq!(judge(true, other, &[host]), Verdict::NeedsToken, "{other:?}");
            assert_eq!(judge(true, other, &[host, bearer]), Verdict::Allowed, "{other:?}");
            assert_eq!(
                judge(true, other, &[("host", "example.org"), bearer]),
                Verdict::WrongHost,
                "{other:?}"
            );
        }
    }

    #[test]
    fn at_loopback_only_loopback_names_are_served() {
        let judge = |lines: &[(&str, &str)]| {
            access(true).judge(Some(PeerOwner::Trusted), &headers(lines), None)
        };
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:9", "[::1]:80", "127.1.2.3"] {
            assert_eq!(judge(&[("host", host)]), Verdict::Allowed, "{host}");
        }
        for host in
            ["example.org", "10.0.0.1:80", "localhost.example.org", "127.0.0.1.example.org", ""]
        {
            assert_eq!(judge(&[("host", host)]), Verdict::WrongHost, "{host}");
        }
        assert_eq!(judge(&[]), Verdict::WrongHost);
    }

    #[test]
    fn beyond_loopback_the_token_is_needed() {
        let host = ("host", "10.0.0.1:80");
        let judge = |lines: &[(&str, &str)], query| {
            access(false).judge(Some(PeerOwner::Elsewhere), &headers(lines), query)
        };
        assert_eq!(judge(&[host], None), Verdict::NeedsToken);
        assert_eq!(
            judge(&[host, ("authorization", &format!("Bearer {TOKEN}"))], None),
            Verdict::Allowed
        );
        assert_eq!(
            judge(&[host, ("authorization", "Bearer 0123456789abcdef-_XZ")], None),
            Verdict::NeedsToken
        );
        assert_eq!(
            judge(&[host, ("cookie", &format!("a=b; {COOKIE_NAME}={TOKEN}"))], None),
            Verdict::Allowed
        );
        let right = format!("x=1&token={TOKEN}");
        assert_eq!(judge(&[host], Some(&right)), Verdict::AllowedByAddress);
        for wrong in
            ["token=", "token=0123456789abcdef-_X", "token=0123456789abcdef-_XYZ", "tokens"]
        {
            assert_eq!(judge(&[host], Some(wrong)), Verdict::NeedsToken, "{wrong}");
        }
    }

    #[test]
    fn tokens_are_long_and_plain() {
        assert!(Token::new("short").is_none());
        assert!(Token::new("0123456789abcde;").is_none());
        assert!(Token::new(&"x".repeat(TOKEN_BYTES_MAX + 1)).is_none());
        assert_eq!(format!("{:?}", Token::new("0123456789abcdef")), "Some(Token(...))");
        let drawn = Token::from_random(0xf);
        assert_eq!(Token::new(drawn.text()), Some(drawn));
        let dir = std::env::temp_dir().join(format!("sheen-token-{}", std::process::id()));
        std::fs::write(&dir, "0123456789abcdef\n").unwrap();
        assert_eq!(Token::read(&dir).unwrap(), Token::new("0123456789abcdef").unwrap());
        std::fs::write(&dir, "two\nlines").unwrap();
        assert!(Token::read(&dir).unwrap_err().to_string().contains("one line of 16 to 256"));
        std::fs::remove_file(&dir).unwrap();
        assert!(matches!(Token::read(&dir), Err(TokenError::Read { .. })));
    }
}
