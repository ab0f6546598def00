//! A connection to an etcd.

use crate::json;
use crate::url::{Members, TlsFiles};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use lnet::seal::{Read, Write};
use parking_lot::Mutex;
use seal::tls_client::TlsClient;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::time::Duration;
use store::kv::{Kv, KvError, LeaseId, Outcome, Txn};
use tokio::io::join;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Part of it for making a connection.
const CONNECT: Duration = Duration::from_millis(200);
/// Bytes of an answer, at most: 16 values of 512 KiB in base64, and some more.
const ANSWER_BYTES_MAX: usize = 24 << 20;
/// Codes of gRPC by which a member says that it does not know what became of a call, or could not
/// reach the others.
const NO_ANSWER_CODES: [u64; 4] = [1, 4, 10, 14];
/// Code of gRPC: there is no such thing.
const NOT_FOUND: u64 = 5;
/// Code of gRPC: the token is none, or has expired.
const UNAUTHENTICATED: u64 = 16;
/// Longest file with a key, certificates or a password, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an answer that is no JSON which an error shows.
const SHOWN_BYTES_MAX: usize = 256;
/// Code of gRPC: something is used up.
const EXHAUSTED: u64 = 8;
/// How etcd says that its quota is.
const NO_SPACE: &str = "database space exceeded";

/// A connection to one member of an etcd at a time. Calls block, one at a time.
pub struct Etcd {
    members: Members,
    tls: Option<TlsClient>,
    /// Of the user, if there is one.
    password: String,
    deadline: Duration,
    line: Mutex<Line>,
}

struct Line {
    /// Runs only while a call waits; gone only when the line is dropped.
    runtime: Option<Runtime>,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// The member that is asked next.
    member: usize,
    /// What a user shows with each call.
    token: Option<String>,
}

/// What a member answered instead of a result.
struct Refusal {
    code: u64,
    message: String,
}

impl Etcd {
    /// How long one attempt may usually take. etcd chooses a new leader in about that time.
    pub const DEADLINE: Duration = Duration::from_millis(1000);

    /// Not connected yet. `deadline`: how long one attempt may take. Blocks.
    ///
    /// # Errors
    /// The system has no descriptor left for it; a file that the members name cannot be used.
    pub fn new(members: Members, deadline: Duration) -> io::Result<Etcd> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tls = members.tls.as_ref().map(tls_of).transpose()?;
        let password = match &members.user {
            None => String::new(),
            Some(user) => {
                let text = text_of(&user.password_file)?;
                text.lines().next().unwrap_or_default().to_owned()
            }
        };
        let line =
            Mutex::new(Line { runtime: Some(runtime), sender: None, member: 0, token: None });
        Ok(Etcd { members, tls, password, deadline, line })
    }

    /// Alarms of its members, as `NOSPACE`: with that one, nothing can be written until an
    /// administrator made room. Blocks.
    ///
    /// # Errors
    /// As the calls of [`Kv`].
    pub fn alarms(&self) -> Result<Vec<String>, KvError> {
        json::alarms(&self.call("/v3/maintenance/alarm", &json::get_alarms())?)
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value, KvError> {
        match self.ask(path, body)? {
            Ok(answer) => Ok(answer),
            Err(Refusal { code, message }) if NO_ANSWER_CODES.contains(&code) => {
                // Another member may know.
                self.line.lock().next_member(self.members.hosts.len());
                Err(KvError::NoAnswer(message))
            }
            Err(Refusal { code: UNAUTHENTICATED, message }) => {
                // The next call gets another token.
                self.line.lock().token = None;
                Err(KvError::NoAnswer(message))
            }
            Err(Refusal { code: EXHAUSTED, message }) if message.contains(NO_SPACE) => {
                Err(KvError::Full(message))
            }
            Err(Refusal { message, .. }) => Err(KvError::Refused(message)),
        }
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Result<Value, Refusal>, KvError> {
        let mut line = self.line.lock();
        let Line { runtime, sender, member, token } = &mut *line;
        let hosts = &self.members.hosts;
        let work = async {
            if sender.as_ref().is_none_or(SendRequest::is_closed) {
                *sender = Some(connect(hosts, member, self.tls.as_ref()).await?);
            }
            let sender = sender.as_mut().expect("just made");
            let host = &hosts[*member];
            if let (Some(user), None) = (&self.members.user, &token) {
                let who = json::authenticate(&user.user, &self.password);
                match exchange(sender, (host, None), "/v3/auth/authenticate", &who).await? {
                    Ok(answer) => *token = json::token(&answer),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            }
            exchange(sender, (host, token.as_deref()), path, body).await
        };
        let runtime = runtime.as_ref().expect("the line is not dropped");
        let answer = match runtime.block_on(async { timeout(self.deadline, work).await }) {
            Ok(answer) => answer,
            Err(_) => Err(format!("nothing from {} in {:?}", hosts[line.member], self.deadline)),
        };
        answer.map_err(|reason| {
            line.next_member(hosts.len());
            KvError::NoAnswer(reason)
        })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The last one that has the log may be a task, which must not wait for a runtime to end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Line {
    fn next_member(&mut self, members: usize) {
        self.sender = None;
        self.member = (self.member + 1) % members;
    }
}

/// The text of a small file.
pub(crate) fn text_of(path: &Path) -> io::Result<String> {
    let named = |reason: String| io::Error::other(format!("{}: {reason}", path.display()));
    match std::fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            Err(named(format!("it is longer than {FILE_BYTES_MAX} bytes")))
        }
        Ok(_) => std::fs::read_to_string(path).map_err(|error| named(error.to_string())),
        Err(error) => Err(named(error.to_string())),
    }
}

/// TLS to servers of these authorities, without an own certificate.
pub(crate) fn tls_of_authorities(ca: &Path) -> io::Result<TlsClient> {
    tls_of(&TlsFiles { ca: ca.to_owned(), own: None })
}

fn tls_of(files: &TlsFiles) -> io::Result<TlsClient> {
    let ca = text_of(&files.ca)?;
    let own = match &files.own {
        None => None,
        Some((cert, key)) => Some((text_of(cert)?, text_of(key)?)),
    };
    let own = own.as_ref().map(|(cert, key)| (&cert[..], &key[..]));
    TlsClient::new(&ca, own).map_err(|error| {
        let own = files
            .own
            .as_ref()
            .map(|(cert, key)| format!(", {}, {}", cert.display(), key.display()));
        io::Error::other(format!("{}{}: {error}", files.ca.display(), own.unwrap_or_default()))
    })
}

/// A connection to the first member that takes one, beginning with `member`.
async fn connect(
    members: &[String],
    member: &mut usize,
    tls: Option<&TlsClient>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let mut failed = String::new();
    for _ in 0..members.len() {
        let name = &members[*member];
        match open(name, tls, CONNECT).await {
            Ok((read, write)) => {
                let made = handshake(TokioIo::new(join(read, write))).await;
                let (sender, connection) = made.map_err(|error| format!("{name}: {error}"))?;
                // Its end shows as an error of the call that uses it.
                tokio::spawn(async move { drop(connection.await) });
                return Ok(sender);
            }
            Err(error) => failed = error,
        }
        *member = (*member + 1) % members.len();
    }
    Err(failed)
}

/// A connection to `HOST:PORT`, with TLS if it is given.
pub(crate) async fn open(
    name: &str,
    tls: Option<&TlsClient>,
    within: Duration,
) -> Result<(Read, Write), String> {
    let failed = |error: io::Error| format!("{name}: {error}");
    let stream = match timeout(within, TcpStream::connect(name)).await {
        Ok(stream) => stream.map_err(failed)?,
        Err(_) => return Err(format!("{name} takes no connection in {within:?}")),
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(name, %error, "small messages may be delayed");
    }
    let (read, write) = stream.into_split();
    let (read, write): (Read, Write) = (Box::new(read), Box::new(write));
    match tls {
        None => Ok((read, write)),
        Some(tls) => tls.connect(host_of(name), read, write).await.map_err(failed),
    }
}

/// The host of `HOST:PORT`, without the brackets of an address.
fn host_of(member: &str) -> &str {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    (member, token): (&str, Option<&str>),
    path: &str,
    body: &Value,
) -> Result<Result<Value, Refusal>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{member}: {error}");
    let mut request = Request::builder();
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    let body = Bytes::from(body.to_string());
    let request = request
        .method(Method::POST)
        .uri(path)
        .header(HOST, member)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| failed(&error))?;
    sender.ready().await.map_err(|error| failed(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let is_good = answer.status().is_success();
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| failed(&error))?.to_bytes();
    let value: Value = serde_json::from_slice(&body)
        .map_err(|_| format!("{member}: {status}, {}", shown(&body)))?;
    if is_good && value.get("error").is_none() {
        return Ok(Ok(value));
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let message = text("message").or(text("error")).unwrap_or("no reason").to_owned();
    let code = value.get("code").and_then(Value::as_u64).unwrap_or_default();
    Ok(Err(Refusal { code, message }))
}

/// An answer that is no JSON, for people: some of its text.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES_MAX)]);
    format!("{:?}", text.trim())
}

impl Kv for Etcd {
    fn txn(&self, txn: &Txn) -> Result<Outcome, KvError> {
        json::outcome(&self.call("/v3/kv/txn", &json::txn(txn))?)
    }

    fn get(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KvError> {
        let values = json::values(&self.call("/v3/kv/txn", &json::get(keys))?)?;
        match values.len() == keys.len() {
            true => Ok(values),
            false => Err(KvError::Answer(format!("{} values of {}", values.len(), keys.len()))),
        }
    }

    fn range(&self, start: &str, end: &str, limit: u32) -> Result<Vec<(String, Vec<u8>)>, KvError> {
        json::pairs(&self.call("/v3/kv/range", &json::range(start, end, limit))?)
    }

    fn grant(&self, time: Duration) -> Result<LeaseId, KvError> {
        let answer = self.call("/v3/lease/grant", &json::grant(time.as_secs().max(1)))?;
        match json::number(&answer, "ID")? {
            0 => Err(KvError::Answer("a lease without a number".into())),
            lease => Ok(lease),
        }
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<bool, KvError> {
        let answer = self.call("/v3/lease/keepalive", &json::lease(lease))?;
        let result = answer.get("result").ok_or_else(|| KvError::Answer("no result".into()))?;
        Ok(json::number(result, "TTL")? > 0)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        match self.ask("/v3/lease/revoke", &json::lease(lease))? {
            Ok(_) | Err(Refusal { code: NOT_FOUND, .. }) => Ok(()),
            Err(Refusal { message, .. }) => Err(KvError::Refused(message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_some_of_an_answer_that_is_no_json() {
        assert_eq!(shown(b"Common\xff \"Name\"\n"), "\"Common\u{fffd} \\\"Name\\\"\"");
        assert!(shown(&vec![b'x'; 1 << 20]).len() < 2 * SHOWN_BYTES_MAX);
    }

    #[test]
    fn the_last_holder_may_be_a_task() {
        let etcd =
            Etcd::new("etcd://127.0.0.1:1".parse().unwrap(), Duration::from_secs(1)).unwrap();
        assert!(matches!(etcd.get(&[]), Err(KvError::NoAnswer(_))));
        let outer = Builder::new_current_thread().build().unwrap();
        outer.block_on(async move { drop(etcd) });
    }
}
