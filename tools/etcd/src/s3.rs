//! A connection to a store with Amazon's S3 interface: signatures and requests are those of the
//! crate `object_store`; HTTP and TLS are those of the rest of the program, in place of the ones
//! that the crate would bring along.

use crate::bucket::{Bucket, Endpoint};
use crate::client::{open, text_of, tls_of_authorities};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use parking_lot::Mutex;
use seal::tls_client::TlsClient;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::blobs::{BlobError, Blobs};
use tokio::io::join;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Part of it for making a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// Time for a call without much data.
const DEADLINE: Duration = Duration::from_secs(3);
/// More time for each MiB.
const PER_MIB: Duration = Duration::from_millis(500);
/// Names in one list.
const LISTED_MAX: usize = 1000;
/// Bytes of an answer without a blob, at most: a list, or the reason of a refusal.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How often a request is sent again: a connection that was not used for long may be gone.
const RETRIES: usize = 2;

/// A connection to a bucket. Calls block, one at a time.
pub struct S3 {
    store: AmazonS3,
    /// What all names begin with, with a `/`; or empty.
    prefix: String,
    /// Where it is, for people.
    place: String,
    /// Bytes that the answer to the call may have.
    answer_bytes_max: Arc<AtomicUsize>,
    /// Runs only while a call waits; gone only when this is dropped.
    runtime: Mutex<Option<Runtime>>,
}

impl S3 {
    /// Not connected yet. Blocks.
    ///
    /// # Errors
    /// The system has no descriptor left for it; a file that the address names cannot be used.
    pub fn new(bucket: &Bucket) -> io::Result<S3> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let keys = text_of(&bucket.key_file)?;
        let mut keys = keys.lines().map(str::trim).filter(|line| !line.is_empty());
        let (Some(name), Some(secret)) = (keys.next(), keys.next()) else {
            let file = bucket.key_file.display();
            return Err(io::Error::other(format!("{file}: it has no two lines: name and secret")));
        };
        let tls = bucket.endpoint.ca.as_deref().map(tls_of_authorities).transpose()?.map(Arc::new);
        let answer_bytes_max = Arc::new(AtomicUsize::new(ANSWER_BYTES_MAX));
        let theirs = answer_bytes_max.clone();
        let connector =
            Connector { endpoint: bucket.endpoint.clone(), tls, answer_bytes_max: theirs };
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_millis(500),
            base: 2.0,
        };
        let store = AmazonS3Builder::new()
            .with_endpoint(bucket.endpoint.url())
            .with_allow_http(true)
            .with_bucket_name(&bucket.bucket)
            .with_region(&bucket.region)
            .with_access_key_id(name)
            .with_secret_access_key(secret)
            .with_disable_bulk_delete(true)
            .with_retry(RetryConfig { backoff, max_retries: RETRIES, retry_timeout: DEADLINE })
            .with_http_connector(connector)
            .build()
            .map_err(io::Error::other)?;
        let prefix = match bucket.prefix.is_empty() {
            true => String::new(),
            false => format!("{}/", bucket.prefix),
        };
        let place = format!("{} at {}", bucket.place(), bucket.endpoint.host);
        let runtime = Mutex::new(Some(runtime));
        Ok(S3 { store, prefix, place, answer_bytes_max, runtime })
    }

    fn path(&self, name: &str) -> Result<Path, BlobError> {
        Path::parse(format!("{}{name}", self.prefix))
            .map_err(|error| BlobError::Refused(error.to_string()))
    }

    /// `bytes`: those of the blob that goes or comes, at most. `None`: there is no such blob.
    fn call<T>(
        &self,
        bytes: usize,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, BlobError> {
        let runtime = self.runtime.lock();
        let deadline = DEADLINE + PER_MIB * (bytes >> 20) as u32;
        let runtime = runtime.as_ref().expect("it is not dropped");
        self.answer_bytes_max.store(bytes.max(ANSWER_BYTES_MAX), Ordering::Relaxed);
        match runtime.block_on(async { timeout(deadline, work).await }) {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(self.error(&error)),
            Err(_) => {
                let nothing = format!("nothing from {} in {deadline:?}", self.place);
                Err(BlobError::NoAnswer(nothing))
            }
        }
    }

    fn error(&self, error: &Error) -> BlobError {
        let reason = format!("{}: {}", self.place, reason_of(error));
        match error {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                BlobError::Refused(reason)
            }
            _ => BlobError::NoAnswer(reason),
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // The last one that has it may be a task, which must not wait for a runtime to end.
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }
}

/// An error on one line: servers answer with pages of XML.
fn reason_of(error: &Error) -> String {
    let text = error.to_string();
    let tag = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(value, _)| value.to_owned())
    };
    match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

impl Blobs for S3 {
    fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
        let (path, length) = (self.path(name)?, bytes.len());
        let put = self.store.put(&path, PutPayload::from(bytes));
        match self.call(length, put)? {
            Some(_) => Ok(()),
            None => Err(BlobError::Refused(format!("{}: there is no such bucket", self.place))),
        }
    }

    fn get(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, BlobError> {
        let path = self.path(name)?;
        let get = async {
            let found = self.store.get(&path).await?;
            match found.meta.size > bytes_max as u64 {
                true => Ok(Err(found.meta.size)),
                false => found.bytes().await.map(|bytes| Ok(Vec::from(bytes))),
            }
        };
        match self.call(bytes_max, get)? {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(size)) => {
                let reason = format!("{name} has {size} bytes, more than {bytes_max}");
                Err(BlobError::Refused(reason))
            }
        }
    }

    fn list(&self, folder: &str, after: &str) -> Result<Vec<String>, BlobError> {
        let folder = self.path(folder)?;
        let after = if after.is_empty() { folder.clone() } else { self.path(after)? };
        let list = async {
            let found = self.store.list_with_offset(Some(&folder), &after);
            let mut names = Vec::new();
            for meta in found.take(LISTED_MAX).collect::<Vec<_>>().await {
                names.push(meta?.location.to_string());
            }
            Ok(names)
        };
        let names = self.call(0, list)?.unwrap_or_default();
        let own = |name: String| name.strip_prefix(&self.prefix).map(str::to_owned);
        Ok(names.into_iter().filter_map(own).collect())
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        let path = self.path(name)?;
        self.call(0, self.store.delete(&path)).map(|_| ())
    }
}

/// Makes connections to one server.
struct Connector {
    endpoint: Endpoint,
    tls: Option<Arc<TlsClient>>,
    answer_bytes_max: Arc<AtomicUsize>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoint.url())
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let (endpoint, tls) = (self.endpoint.clone(), self.tls.clone());
        let answer_bytes_max = self.answer_bytes_max.clone();
        Ok(HttpClient::new(Service { endpoint, tls, answer_bytes_max, idle: Mutex::new(None) }))
    }
}

/// One connection, which is used by one call at a time.
struct Service {
    endpoint: Endpoint,
    tls: Option<Arc<TlsClient>>,
    answer_bytes_max: Arc<AtomicUsize>,
    idle: Mutex<Option<SendRequest<HttpRequestBody>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoint.url())
    }
}

fn failed(
    kind: HttpErrorKind,
) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> HttpError {
    move |source| HttpError::new_boxed(kind, source)
}

impl Service {
    async fn connect(&self) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        let connect = async {
            let (read, write) = open(&self.endpoint.host, self.tls.as_deref(), CONNECT).await?;
            let made = handshake(TokioIo::new(join(read, write))).await;
            let (sender, connection) = made.map_err(|error| error.to_string())?;
            // Its end shows as an error of the call that uses it.
            tokio::spawn(async move { drop(connection.await) });
            Ok::<_, String>(sender)
        };
        connect.await.map_err(|reason| failed(HttpErrorKind::Connect)(reason.into()))
    }

    async fn exchange(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let unsound = |error: hyper::http::Error| failed(HttpErrorKind::Unknown)(error.into());
        // The host that was signed: without the port that its scheme implies.
        let host = &self.endpoint.host;
        let implied = if self.tls.is_some() { ":443" } else { ":80" };
        let host = host.strip_suffix(implied).unwrap_or(host);
        let host = HeaderValue::from_str(host).map_err(|error| unsound(error.into()))?;
        request.headers_mut().insert(HOST, host);
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = path.into();
        let idle = self.idle.lock().take().filter(|sender| !sender.is_closed());
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let lost = |error: hyper::Error| failed(HttpErrorKind::Request)(error.into());
        sender.ready().await.map_err(lost)?;
        let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
        let bytes_max = self.answer_bytes_max.load(Ordering::Relaxed);
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let announced = announced.and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > bytes_max as u64) {
            // The caller sees its length, and refuses it; the connection ends here.
            return Ok(HttpResponse::from_parts(head, HttpResponseBody::new(whole(Bytes::new()))));
        }
        // Whole, so that the connection is free again.
        let body = Limited::new(body, bytes_max).collect().await;
        let body: Bytes = body.map_err(failed(HttpErrorKind::Request))?.to_bytes();
        *self.idle.lock() = Some(sender);
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(whole(body))))
    }
}

fn whole(body: Bytes) -> impl Body<Data = Bytes, Error = HttpError> + Send + 'static {
    Full::new(body).map_err(|never| match never {})
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Service {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.exchange(request))
    }
}
