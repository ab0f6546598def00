//! A connection to an etcd.

use crate::json;
use crate::url::Members;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use std::io;
use std::time::Duration;
use store::kv::{Kv, KvError, LeaseId, Outcome, Txn};
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

/// A connection to one member of an etcd at a time. Calls block, one at a time.
pub struct Etcd {
    members: Members,
    deadline: Duration,
    line: Mutex<Line>,
}

struct Line {
    /// Runs only while a call waits.
    runtime: Runtime,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// The member that is asked next.
    member: usize,
}

/// What a member answered instead of a result.
struct Refusal {
    code: u64,
    message: String,
}

impl Etcd {
    /// How long one attempt may usually take. etcd chooses a new leader in about that time.
    pub const DEADLINE: Duration = Duration::from_millis(1000);

    /// Not connected yet. `deadline`: how long one attempt may take.
    ///
    /// # Errors
    /// The system has no descriptor left for it.
    pub fn new(members: Members, deadline: Duration) -> io::Result<Etcd> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let line = Mutex::new(Line { runtime, sender: None, member: 0 });
        Ok(Etcd { members, deadline, line })
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value, KvError> {
        match self.ask(path, body)? {
            Ok(answer) => Ok(answer),
            Err(Refusal { code, message }) if NO_ANSWER_CODES.contains(&code) => {
                // Another member may know.
                self.line.lock().next_member(self.members.0.len());
                Err(KvError::NoAnswer(message))
            }
            Err(Refusal { message, .. }) => Err(KvError::Refused(message)),
        }
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Result<Value, Refusal>, KvError> {
        let mut line = self.line.lock();
        let Line { runtime, sender, member } = &mut *line;
        let body = Bytes::from(body.to_string());
        let work = async {
            if sender.as_ref().is_none_or(SendRequest::is_closed) {
                *sender = Some(connect(&self.members.0, member).await?);
            }
            let sender = sender.as_mut().expect("just made");
            exchange(sender, &self.members.0[*member], path, body).await
        };
        let answer = match runtime.block_on(async { timeout(self.deadline, work).await }) {
            Ok(answer) => answer,
            Err(_) => {
                Err(format!("nothing from {} in {:?}", self.members.0[line.member], self.deadline))
            }
        };
        answer.map_err(|reason| {
            line.next_member(self.members.0.len());
            KvError::NoAnswer(reason)
        })
    }
}

impl Line {
    fn next_member(&mut self, members: usize) {
        self.sender = None;
        self.member = (self.member + 1) % members;
    }
}

/// A connection to the first member that takes one, beginning with `member`.
async fn connect(
    members: &[String],
    member: &mut usize,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let mut failed = String::new();
    for _ in 0..members.len() {
        let name = &members[*member];
        match timeout(CONNECT, TcpStream::connect(name)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(member = name, %error, "etcd: small messages may be delayed");
                }
                let made = handshake(TokioIo::new(stream)).await;
                let (sender, connection) = made.map_err(|error| format!("{name}: {error}"))?;
                // Its end shows as an error of the call that uses it.
                tokio::spawn(async move { drop(connection.await) });
                return Ok(sender);
            }
            Ok(Err(error)) => failed = format!("{name}: {error}"),
            Err(_) => failed = format!("{name} takes no connection in {CONNECT:?}"),
        }
        *member = (*member + 1) % members.len();
    }
    Err(failed)
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    member: &str,
    path: &str,
    body: Bytes,
) -> Result<Result<Value, Refusal>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{member}: {error}");
    let request = Request::builder()
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
        .map_err(|error| format!("{member}: {status}, and no JSON: {error}"))?;
    if is_good && value.get("error").is_none() {
        return Ok(Ok(value));
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let message = text("message").or(text("error")).unwrap_or("no reason").to_owned();
    let code = value.get("code").and_then(Value::as_u64).unwrap_or_default();
    Ok(Err(Refusal { code, message }))
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
