//! `s3://BUCKET[/PREFIX]?endpoint=URL&key-file=FILE[&region=NAME][&ca=FILE]`: where blobs beside a
//! log are, behind a comma in its address.
//!
//! | option | what |
//! |---|---|
//! | `endpoint` | `http://HOST[:PORT]` or `https://HOST[:PORT]` of the S3 |
//! | `key-file` | file with the name of an access key in its first line, its secret in the second |
//! | `region` | region that requests are signed for; `us-east-1` if none is given |
//! | `ca` | file with the certificates of authorities (PEM); `https` needs it |

use crate::url::BadMembers;
use std::fmt;
use std::path::PathBuf;

/// Region that most servers other than Amazon's take.
const REGION_DEFAULT: &str = "us-east-1";
/// Longest prefix, bytes.
const PREFIX_BYTES_MAX: usize = 256;

/// A part of a bucket, and how to use it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// Name of the bucket.
    pub bucket: String,
    /// What all names of blobs begin with, without `/` at its ends; empty: nothing.
    pub prefix: String,
    /// The server.
    pub endpoint: Endpoint,
    /// File with the access key.
    pub key_file: PathBuf,
    /// Region that requests are signed for.
    pub region: String,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Endpoint {
    /// As `HOST:PORT`.
    pub host: String,
    /// Certificates of the authorities for TLS; `None`: without TLS.
    pub ca: Option<PathBuf>,
}

impl Endpoint {
    /// As a URL.
    pub fn url(&self) -> String {
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }
}

impl Bucket {
    /// Where it is, in words that are the same on each host that uses it.
    pub fn place(&self) -> String {
        match self.prefix.is_empty() {
            true => format!("s3://{}", self.bucket),
            false => format!("s3://{}/{}", self.bucket, self.prefix),
        }
    }

    /// From what stands behind `s3://`.
    pub(crate) fn parse(text: &str) -> Result<Bucket, BadMembers> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let named = |text: &str| {
            let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !text.is_empty() && text.chars().all(letter) && !text.chars().all(|c| c == '.')
        };
        let bad = |option: &str, reason| BadMembers::Option { option: option.to_owned(), reason };
        if !named(bucket) {
            return Err(bad("s3://", "it needs the name of a bucket"));
        }
        if !(prefix.is_empty() || prefix.split('/').all(named)) || prefix.len() > PREFIX_BYTES_MAX {
            return Err(bad("s3://", "its prefix is a path of letters, digits, - . _ and /"));
        }
        let [mut endpoint, mut key_file, mut region, mut ca] = [const { None }; 4];
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let Some((name, value)) = option.split_once('=') else {
                return Err(bad(option, "it has no value"));
            };
            let place = match name {
                "endpoint" => &mut endpoint,
                "key-file" => &mut key_file,
                "region" => &mut region,
                "ca" => &mut ca,
                _ => return Err(bad(option, "there is no such option of s3://")),
            };
            if ["key-file", "ca"].contains(&name) && !value.starts_with('/') {
                return Err(bad(option, "it needs a whole path, from / on"));
            }
            if value.is_empty() || value.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err(bad(option, "it is empty or has a space"));
            }
            if place.replace(value.to_owned()).is_some() {
                return Err(bad(option, "it stands there twice"));
            }
        }
        let lacks = |name| bad(name, "s3:// needs it");
        let url = endpoint.ok_or_else(|| lacks("endpoint"))?;
        let key_file = key_file.ok_or_else(|| lacks("key-file"))?.into();
        let host = |rest: &str, port: u16| {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            crate::url::host_and_port(rest, port)
        };
        let endpoint = match (url.split_once("://"), ca) {
            (Some(("http", rest)), None) => host(rest, 80).map(|host| Endpoint { host, ca: None }),
            (Some(("https", rest)), Some(ca)) => {
                host(rest, 443).map(|host| Endpoint { host, ca: Some(ca.into()) })
            }
            (Some(("http", _)), Some(_)) => return Err(bad("ca", "it is for https://")),
            (Some(("https", _)), None) => return Err(bad("ca", "https:// needs it")),
            _ => None,
        };
        let endpoint = endpoint
            .ok_or_else(|| bad("endpoint", "it is http://HOST[:PORT] or https://HOST[:PORT]"))?;
        let region = region.unwrap_or_else(|| REGION_DEFAULT.to_owned());
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(Bucket { bucket, prefix, endpoint, key_file, region })
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, key_file) = (self.place(), self.key_file.display());
        write!(f, "{place}?endpoint={}&key-file={key_file}", self.endpoint.url())?;
        if self.region != REGION_DEFAULT {
            write!(f, "&region={}", self.region)?;
        }
        match &self.endpoint.ca {
            Some(ca) => write!(f, "&ca={}", ca.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::url::Members;

    #[test]
    fn a_bucket_stands_behind_the_members() {
        let etcd = "etcds://a:1,b:2/site?ca=/c/ca.pem";
        for (s3, place, url) in [
            ("s3://logs?endpoint=http://h:8333&key-file=/k", "s3://logs", "http://h:8333"),
            (
                "s3://logs/a/b?endpoint=https://h:443&key-file=/k&region=eu&ca=/c",
                "s3://logs/a/b",
                "https://h:443",
            ),
        ] {
            let text = format!("{etcd},{s3}");
            let members: Members = text.parse().unwrap();
            assert_eq!(members.to_string(), text);
            let bucket = members.blobs.as_ref().unwrap();
            assert_eq!((&bucket.place()[..], &bucket.endpoint.url()[..]), (place, url));
        }
        let short = "etcd://a,s3://logs?endpoint=http://h/&key-file=/k";
        let bucket = short.parse::<Members>().unwrap().blobs.unwrap();
        assert_eq!((&bucket.endpoint.url()[..], &bucket.region[..]), ("http://h:80", "us-east-1"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (s3, words) in [
            ("", "name of a bucket"),
            ("b", "endpoint"),
            ("b?endpoint=http://h", "key-file"),
            ("b?endpoint=http://h&key-file=k", "whole path"),
            ("b?endpoint=https://h&key-file=/k", "https:// needs it"),
            ("b?endpoint=http://h&key-file=/k&ca=/c", "for https"),
            ("b?endpoint=h:80&key-file=/k", "http://HOST"),
            ("b?endpoint=http://h:x&key-file=/k", "http://HOST"),
            ("b/a//b?endpoint=http://h&key-file=/k", "prefix"),
            ("b/..?endpoint=http://h&key-file=/k", "prefix"),
            ("b?endpoint=http://h&key-file=/k&colour=red", "no such option"),
            ("b?endpoint=http://h&key-file=/k&key-file=/l", "twice"),
            ("b?endpoint=http://h&key-file=/k l", "space"),
        ] {
            let error = format!("etcd://a,s3://{s3}").parse::<Members>().unwrap_err().to_string();
            assert!(error.contains(words), "{s3}: {error}");
        }
    }
}
