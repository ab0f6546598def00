//! A read-only HTTP/1.1 server: GET and HEAD, small answers made by one function.
//!
//! It runs where [`Http::start`] is called (a tokio runtime with I/O and time). Bounds:
//! [`CONNECTIONS_MAX`] connections; a further one takes the place of the one that is idle for
//! longest ([`crate::connections`]). Request heads have at most [`HEAD_BYTES_MAX`]. A connection is
//! closed when no whole head comes within [`HEAD_TIMEOUT`], or when an answer is not taken in time.
//! Bodies of requests are not read.

use crate::access::{Access, Verdict};
use crate::connections::{self, Activity, Watched};
use bytes::Bytes;
use env::BoxFuture;
use env::net::PeerOwner;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, join, split};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Connections served at once.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest head of a request, bytes.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time for the head of a request; also how long an idle connection is kept.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Path, beginning with a slash.
    pub path: String,
    /// Behind the question mark.
    pub query: String,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200, 404, ...
    pub status: u16,
    /// `Content-Type`
    pub content_type: &'static str,
    /// Body.
    pub body: Bytes,
}

impl Answer {
    /// 200.
    pub fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer { status: 200, content_type, body: body.into() }
    }

    /// A sentence for people, with another status.
    pub fn sentence(status: u16, text: &str) -> Answer {
        Answer { status, content_type: TEXT, body: Bytes::from(format!("{text}\n")) }
    }
}

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// Makes the answers.
pub type Router = Arc<dyn Fn(Ask) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// One direction of a connection.
pub type Read = Box<dyn AsyncRead + Send + Unpin>;
/// The other one.
pub type Write = Box<dyn AsyncWrite + Send + Unpin>;

/// Makes the handshake of each connection, where the server speaks HTTPS.
pub trait Tls: Send + Sync {
    /// A connection that came, opened.
    fn accept(&self, read: Read, write: Write) -> BoxFuture<'_, io::Result<(Read, Write)>>;
}

/// A server that runs until it is ended or dropped.
#[derive(Debug)]
pub struct Http {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Http {
    /// Binds and serves. `tls`: over HTTPS.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(
        addr: SocketAddr,
        access: Access,
        tls: Option<Arc<dyn Tls>>,
        router: Router,
    ) -> io::Result<Http> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        Ok(Http { addr, task: tokio::spawn(serve(listener, Arc::new(access), tls, router)) })
    }

    /// The bound address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends it, and all its connections.
    pub async fn end(mut self) {
        self.task.abort();
        // Cancelled is what was asked for.
        if let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            tracing::error!(%error, "HTTP server");
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    access: Arc<Access>,
    tls: Option<Arc<dyn Tls>>,
    router: Router,
) {
    let converse = move |stream: Watched, activity: Activity| {
        let (access, tls, router) = (access.clone(), tls.clone(), router.clone());
        async move {
            let owner = stream.owner();
            let reader = Reader { access: &access, owner, router: &router, activity: &activity };
            let Some(tls) = tls else { return talk(stream, &reader).await };
            let (read, write) = split(stream);
            match timeout(HEAD_TIMEOUT, tls.accept(Box::new(read), Box::new(write))).await {
                Ok(Ok((read, write))) => talk(join(read, write), &reader).await,
                Ok(Err(error)) => tracing::debug!(%error, "HTTPS connection"),
                Err(_) => tracing::debug!("an HTTPS connection made no handshake in time"),
            }
        }
    };
    connections::serve(listener, CONNECTIONS_MAX, converse).await;
}

/// The other end of a connection, and what answers it.
struct Reader<'a> {
    access: &'a Access,
    owner: Option<PeerOwner>,
    router: &'a Router,
    activity: &'a Activity,
}

/// Answers the requests of one connection.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, reader: &Reader<'_>) {
    let Reader { access, owner, router, activity } = *reader;
    let service = service_fn(|request| async move {
        activity.answering();
        Ok::<_, Infallible>(respond(access, owner, router, request).await)
    });
    let mut builder = http1::Builder::new();
    // A client that waited for its place may have said long ago that it asks for nothing more.
    builder.half_close(true);
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "HTTP connection");
    }
}

async fn respond(
    access: &Access,
    owner: Option<PeerOwner>,
    router: &Router,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let head_only = request.method() == Method::HEAD;
    if !head_only && request.method() != Method::GET {
        let mut response =
            response_of(Answer::sentence(405, "only GET and HEAD: nothing can be changed here"));
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return response_of(Answer::sentence(400, "a request names one host"));
    }
    let uri = request.uri();
    match access.judge(owner, request.headers(), uri.query()) {
        Verdict::Allowed => {}
        Verdict::WrongHost => {
            return response_of(Answer::sentence(421, "this is not the host that was asked for"));
        }
        Verdict::NeedsToken => {
            let text = "a token is needed: open the address that `sheen dash` prints to the owner of the daemon, or send \
                        'Authorization: Bearer TOKEN' with the token of its http_token_file";
            let mut response = response_of(Answer::sentence(401, text));
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        Verdict::AllowedByAddress => return keep_token(access, uri.path()),
    }
    let ask =
        Ask { path: uri.path().to_owned(), query: uri.query().unwrap_or_default().to_owned() };
    let mut answer = router(ask).await;
    let length = answer.body.len();
    if head_only {
        answer.body = Bytes::new();
    }
    let mut response = response_of(answer);
    if head_only {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// Gives the cookie and asks again without the token, so that it stays out of the browser's
/// history.
fn keep_token(access: &Access, path: &str) -> Response<Full<Bytes>> {
    let mut response = response_of(Answer::sentence(303, "see there"));
    let headers = response.headers_mut();
    if let Ok(cookie) = HeaderValue::from_str(&access.cookie()) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    // Two slashes at the beginning would name another host.
    let location = format!("/{}", path.trim_start_matches('/'));
    headers.insert(
        header::LOCATION,
        HeaderValue::from_str(&location).unwrap_or(HeaderValue::from_static("/")),
    );
    response
}

/// Adds headers that keep browsers from doing more than showing it.
fn response_of(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [
        (header::CONTENT_TYPE, answer.content_type),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Token;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Bytes of a large answer.
    const LARGE: usize = 4 << 20;

    const TOKEN: &str = "0123456789abcdef";

    async fn start(loopback: bool) -> Http {
        let access = Access { loopback, https: false, token: Token::new(TOKEN).unwrap() };
        let router: Router = Arc::new(|ask: Ask| {
            Box::pin(async move {
                match ask.path.as_str() {
                    "/metrics" => Answer::ok(TEXT, format!("seen {}\n", ask.query)),
                    "/large" => Answer::ok(TEXT, vec![b'x'; LARGE]),
                    _ => Answer::sentence(404, "nothing here"),
                }
            })
        });
        Http::start("127.0.0.1:0".parse().unwrap(), access, None, router).await.unwrap()
    }

    async fn ask(http: &Http, request: &str) -> String {
        let mut stream = TcpStream::connect(http.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        // A refused oversized request may be reset while it is still being read.
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    fn get(path: &str, more: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{more}\r\n")
    }

    #[tokio::test]
    async fn it_reads_and_nothing_else() {
        let http = start(true).await;
        let text = ask(&http, &get("/metrics?a=1", "")).await;
        assert!(
            text.starts_with("HTTP/1.1 200 OK") && text.ends_with("\r\n\r\nseen a=1\n"),
            "{text}"
        );
        assert!(text.contains("content-security-policy: default-src 'none'"), "{text}");
        assert!(ask(&http, &get("/other", "")).await.starts_with("HTTP/1.1 404"));
        let head = ask(&http, &get("/metrics", "").replace("GET", "HEAD")).await;
        assert!(head.contains("content-length: 6") && head.ends_with("\r\n\r\n"), "{head}");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let text = ask(&http, &get("/metrics", "").replace("GET", method)).await;
            assert!(
                text.starts_with("HTTP/1.1 405") && text.contains("allow: GET, HEAD"),
                "{text}"
            );
        }
        let other = get("/metrics", "").replace("127.0.0.1", "example.org");
        assert!(ask(&http, &other).await.starts_with("HTTP/1.1 421"));
        let addr = http.addr();
        http.end().await;
        assert!(TcpStream::connect(addr).await.is_err(), "nobody listens after the end");
    }

    #[tokio::test]
    async fn bad_requests_do_no_harm() {
        let http = start(true).await;
        let long = get("/metrics", &format!("X: {}\r\n", "x".repeat(2 * HEAD_BYTES_MAX)));
        for bad in ["\r\n\r\n", "GET\r\n\r\n", "\u{1}\u{2}\u{3}\r\n\r\n", &long] {
            let text = ask(&http, bad).await;
            assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
        }
        assert!(ask(&http, &get("/metrics", "")).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn two_hosts_in_one_request_are_refused() {
        let http = start(true).await;
        for second in ["127.0.0.1", "example.org"] {
            let text = ask(&http, &get("/metrics", &format!("Host: {second}\r\n"))).await;
            assert!(text.starts_with("HTTP/1.1 400"), "{text}");
        }
    }

    /// Connections that ask for more than sockets hold, and read nothing of it.
    async fn deaf(http: &Http, count: usize) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(http.addr()).await.unwrap();
            let requests = "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(20);
            stream.write_all(requests.as_bytes()).await.unwrap();
            all.push(stream);
        }
        all
    }

    #[tokio::test]
    async fn connections_that_do_not_read_shut_nobody_out() {
        let http = start(true).await;
        let deaf = deaf(&http, CONNECTIONS_MAX).await;
        let text =
            tokio::time::timeout(Duration::from_secs(20), ask(&http, &get("/metrics", ""))).await;
        assert!(text.expect("an answer comes").starts_with("HTTP/1.1 200"));
        drop(deaf);
    }

    #[tokio::test]
    async fn idle_connections_shut_nobody_out() {
        let http = start(true).await;
        let mut idle = Vec::new();
        for n in 0..2 * CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(http.addr()).await.unwrap();
            // Some have sent a part of a head.
            stream.write_all(&b"GET /metrics HTTP/1.1\r\n"[..(n % 2) * 10]).await.unwrap();
            idle.push(stream);
        }
        let text =
            tokio::time::timeout(Duration::from_secs(5), ask(&http, &get("/metrics", ""))).await;
        assert!(text.expect("an answer comes").starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_taken_ends_the_connection() {
        let http = start(true).await;
        let mut deaf = deaf(&http, 1).await.remove(0);
        tokio::time::sleep(connections::WRITE_TIMEOUT + Duration::from_secs(2)).await;
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(n @ 1..) = deaf.read(&mut buffer).await {
            read += n;
        }
        assert!(read < 20 * LARGE, "all of it was kept for a client that did not read");
    }

    #[tokio::test]
    async fn a_token_in_the_address_becomes_a_cookie() {
        let http = start(false).await;
        assert!(ask(&http, &get("/metrics", "")).await.starts_with("HTTP/1.1 401"));
        let text = ask(&http, &get(&format!("//metrics?token={TOKEN}"), "")).await;
        assert!(
            text.starts_with("HTTP/1.1 303") && text.contains("location: /metrics\r\n"),
            "{text}"
        );
        assert!(
            text.contains(&format!("set-cookie: sheen_token={TOKEN}; Path=/; HttpOnly")),
            "{text}"
        );
        let text = ask(&http, &get("/metrics", &format!("Cookie: sheen_token={TOKEN}\r\n"))).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
}
