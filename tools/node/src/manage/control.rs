//! Control socket of a node: one line of JSON in, one line out, then the connection ends.
//!
//! `run/control.sock`, mode 0600: only the owner of the node may ask. Others may ask for its
//! devices and NIDs at a second socket, `PID.public` in the registry of daemons. A request is at
//! most 64 KiB, an answer at most 16 MiB; eight connections are served at once, each for at most
//! ten seconds.

use crate::config::settings::Settings;
use crate::home::Home;
use crate::manage::devices::Device;
use crate::manage::faults::{FaultAnswer, FaultAsked};
use crate::manage::kept::{KeptParam, PoolAnswer, PoolAsked};
use crate::manage::lnet::{LnetAnswer, LnetAsked};
use crate::manage::scrubs::ScrubAnswer;
use crate::watch::status::NodeStatus;
use ::ask::params::ParamAnswer;
use ::ask::socket::{ANSWER_BYTES_MAX, TIMEOUT, open_run_dir, short_path};
use dash::accept::serve_each;
use idmap::scope::Scope;
use idmap::set::{NodemapChange, Nodemaps};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::task::Context;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use wire::report::KeptReport;

/// Longest request, bytes.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Connections served at once; others wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 8;

pub use ::ask::socket::ControlError;

/// Requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask", deny_unknown_fields)]
pub enum Request {
    /// Asks for the state of the node.
    Status,
    /// Asks for the settings that it runs with.
    Settings,
    /// Parameters that these patterns mean, with their values if wanted; `recursive`: also what is
    /// below.
    Get {
        /// Names, with `*` and `?`.
        patterns: Vec<String>,
        /// Also what is below.
        recursive: bool,
        /// With values.
        values: bool,
    },
    /// Set every parameter that the pattern means.
    Set {
        /// A name, with `*` and `?`.
        pattern: String,
        /// The new value.
        value: String,
    },
    /// Keep a parameter at the MGS, or with `None` forget it.
    Persist {
        /// Name of the parameter.
        name: String,
        /// The new value; `None`: the default again.
        value: Option<String>,
    },
    /// Keep a parameter at the MGS for a scope, or with `None` forget it.
    PersistFor {
        /// For which processes.
        scope: Scope,
        /// Name of the parameter.
        name: String,
        /// The new value; `None`: forget it.
        value: Option<String>,
    },
    /// The parameters that are kept, as far as this process may know them.
    Kept,
    /// Pools of a file system.
    Pools {
        /// Name of the file system.
        fsname: String,
    },
    /// Change a pool.
    Pool {
        /// Name of the file system.
        fsname: String,
        /// Name of the pool.
        pool: String,
        /// What becomes of it.
        change: PoolAsked,
    },
    /// All nodemaps of the cluster.
    Nodemaps,
    /// Change a nodemap.
    Nodemap {
        /// What becomes of it.
        change: Box<NodemapChange>,
    },
    /// Devices, as `lctl dl` lists them.
    Devices,
    /// Asks for the cluster that it belongs to.
    Cluster,
    /// A target leaves the file system; with `dry_run`, only checks whether it could.
    Remove {
        /// Name of the target.
        target: String,
        /// Even if it is in service.
        force: bool,
        /// Only answer whether it could.
        dry_run: bool,
    },
    /// The log of a target need not keep anything for a host any more.
    DelReplica {
        /// Name of the target.
        target: String,
        /// Host and folder of the copy of its tree.
        host: String,
    },
    /// A target is at other NIDs.
    ReplaceNids {
        /// Name of the target.
        target: String,
        /// All NIDs at which it may be served.
        nids: Vec<String>,
    },
    /// Write a line to the log.
    Mark {
        /// The line.
        text: String,
    },
    /// Forget the newest log lines; `show`: and answer them.
    Recent {
        /// Answer the lines that are forgotten.
        show: bool,
    },
    /// Local NIDs.
    Nids,
    /// State of the processes of the cluster, as far as this one knows; `own`: only its own.
    Reports {
        /// Only the report of this process.
        own: bool,
    },
    /// Rules that lose or delay messages.
    Fault {
        /// What to do.
        fault: FaultAsked,
    },
    /// State of the scrubs of this process' OSTs; `begin`: they begin first.
    Scrub {
        /// Begin one; else only tell how it goes.
        begin: bool,
    },
    /// What the network of the process is, or changes of it.
    Lnet {
        /// What to do.
        lnet: LnetAsked,
    },
    /// Asks the node at this NID for its NIDs.
    Ping {
        /// NID of the node.
        nid: String,
    },
    /// Asks for the address of its HTTP server with the token in it.
    Page,
    /// Asks for the key of the servers, for a program that works as one beside this daemon.
    ServerKey,
}

impl Request {
    /// True if every user of the host may ask this.
    pub fn is_for_everybody(&self) -> bool {
        matches!(self, Request::Devices | Request::Nids | Request::Cluster)
    }
}

/// The cluster that a daemon belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterAnswer {
    /// UUID of the cluster, hexadecimal; `None`: the daemon does not know it yet.
    pub uuid: Option<String>,
    /// File systems of the daemon, ascending.
    pub fsnames: Vec<String>,
    /// NIDs of the MGS, best first.
    pub mgs: Vec<String>,
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "answer")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<NodeStatus>),
    /// To [`Request::Settings`].
    Settings {
        /// The settings.
        settings: Box<Settings>,
    },
    /// To [`Request::Get`] and [`Request::Set`].
    Params {
        /// Those that were found, by name.
        params: Vec<ParamAnswer>,
    },
    /// To [`Request::Devices`].
    Devices {
        /// The devices.
        devices: Vec<Device>,
    },
    /// To [`Request::Cluster`].
    Cluster {
        /// The cluster.
        cluster: ClusterAnswer,
    },
    /// To [`Request::Recent`]. `dropped`: older lines that were not kept.
    Recent {
        /// The lines, the oldest first.
        lines: Vec<String>,
        /// Older lines that were not kept.
        dropped: u64,
    },
    /// To [`Request::Reports`]. `whole`: the reports of the MGS are among them.
    Reports {
        /// The reports.
        reports: Vec<KeptReport>,
        /// The reports of the MGS are among them.
        whole: bool,
    },
    /// To [`Request::Scrub`].
    Scrub {
        /// One for each OST of the node.
        targets: Vec<ScrubAnswer>,
    },
    /// To [`Request::Nids`] and [`Request::Ping`].
    Nids {
        /// The NIDs.
        nids: Vec<String>,
    },
    /// To [`LnetAsked::Show`].
    Lnet {
        /// Networks, peers, routes.
        lnet: Box<LnetAnswer>,
    },
    /// To [`Request::Kept`].
    Kept {
        /// The parameters, in the order in which they apply.
        params: Vec<KeptParam>,
    },
    /// To [`Request::Pools`].
    Pools {
        /// The pools, by name.
        pools: Vec<PoolAnswer>,
    },
    /// To [`Request::Nodemaps`].
    Nodemaps {
        /// All of them.
        nodemaps: Box<Nodemaps>,
    },
    /// To [`FaultAsked::List`].
    Faults {
        /// The rules.
        rules: Vec<FaultAnswer>,
    },
    /// To [`FaultAsked::Remove`].
    Count {
        /// How many went.
        count: u64,
    },
    /// To [`Request::Page`]. `None`: it answers no HTTP.
    Page {
        /// The address.
        address: Option<String>,
    },
    /// To [`Request::ServerKey`]. `cluster`: its UUID; `key`: hexadecimal.
    ServerKey {
        /// UUID of the cluster.
        cluster: String,
        /// The key, hexadecimal.
        key: String,
    },
    /// To requests without another answer.
    Done,
    /// The request was understood, but cannot be done.
    Failed {
        /// The reason as an errno.
        errno: i32,
        /// The reason in words.
        reason: String,
    },
    /// The request was not understood.
    Error {
        /// The reason in words.
        reason: String,
    },
}

/// Asks the node of a home. Also returns the process id of the answering process, from the kernel.
///
/// # Errors
/// There is no listener; no or a bad answer within ten seconds.
pub fn ask(home: &Home, request: &Request) -> Result<(Answer, i32), ControlError> {
    ::ask::socket::ask(home, request)
}

/// Asks a daemon what it tells everybody, by its entry in the registry.
///
/// # Errors
/// As [`ask`].
pub fn ask_public(entry: &Home, request: &Request) -> Result<(Answer, i32), ControlError> {
    ::ask::socket::ask_public(entry, request)
}

/// Listens on the public socket, beside the entry in the registry.
///
/// # Errors
/// The socket cannot be made.
pub fn listen_public(entry: &Home) -> io::Result<UnixListener> {
    let (dir, path) = ::ask::socket::public_path(entry)?;
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    drop(dir);
    Ok(listener)
}

/// Listens on the control socket of a home that this process has taken. A socket left by a dead
/// process is replaced.
///
/// # Errors
/// The socket cannot be made.
pub fn listen(home: &Home) -> io::Result<UnixListener> {
    let path = home.run_dir().join(Home::CONTROL_NAME);
    remove(home)?;
    let dir = open_run_dir(home)?;
    let listener = UnixListener::bind(short_path(&dir))?;
    // Until this line the directory's mode (0700) keeps others out.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the control socket of a home that this process has taken: its listener is gone.
///
/// # Errors
/// It exists and cannot be removed.
pub fn remove(home: &Home) -> io::Result<()> {
    match std::fs::remove_file(home.run_dir().join(Home::CONTROL_NAME)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Serves the socket until dropped. `answer` makes the answers.
pub async fn serve<F, A>(listener: UnixListener, answer: F)
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let answer = Arc::new(answer);
    let accept = move |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
    let serve = move |stream| {
        let answer = answer.clone();
        async move {
            match tokio::time::timeout(TIMEOUT, converse(stream, &*answer)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "control connection"),
                Err(_) => tracing::debug!("control connection: too slow"),
            }
        }
    };
    serve_each("control socket", CONNECTIONS_MAX, accept, serve).await;
}

async fn converse<F, A>(stream: tokio::net::UnixStream, answer: &F) -> io::Result<()>
where
    F: Fn(Request) -> A,
    A: Future<Output = Answer>,
{
    let (reader, mut writer) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = tokio::io::BufReader::new(reader.take(REQUEST_BYTES_MAX as u64 + 1));
    reader.read_until(b'\n', &mut line).await?;
    let reply = if line.len() > REQUEST_BYTES_MAX {
        Answer::Error { reason: format!("a request has at most {REQUEST_BYTES_MAX} bytes") }
    } else {
        match serde_json::from_slice(&line) {
            Ok(request) => answer(request).await,
            Err(e) => Answer::Error { reason: e.to_string() },
        }
    };
    let mut text = serde_json::to_vec(&reply)?;
    if text.len() >= ANSWER_BYTES_MAX {
        let reason = format!("the answer has more than {ANSWER_BYTES_MAX} bytes; ask for less");
        text = serde_json::to_vec(&Answer::Failed { errno: libc::E2BIG, reason })?;
    }
    text.push(b'\n');
    writer.write_all(&text).await?;
    writer.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::ask::params::{ParamReply, ParamRequest};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn those_who_ask_for_parameters_speak_the_same_language() {
        let (patterns, value) = (vec!["osc.*.active".to_owned()], "1".to_owned());
        let get = ParamRequest::Get { patterns: patterns.clone(), recursive: true, values: false };
        let set = ParamRequest::Set { pattern: patterns[0].clone(), value: value.clone() };
        let heard = |asked| {
            serde_json::from_slice::<Request>(&serde_json::to_vec(&asked).unwrap()).unwrap()
        };
        assert_eq!(
            heard(get),
            Request::Get { patterns: patterns.clone(), recursive: true, values: false }
        );
        assert_eq!(heard(set), Request::Set { pattern: patterns[0].clone(), value: value.clone() });
        let heard = |answer| {
            serde_json::from_slice::<ParamReply>(&serde_json::to_vec(&answer).unwrap()).ok()
        };
        let (name, value) = (patterns[0].clone(), Some(value));
        let params = vec![ParamAnswer {
            name,
            level: false,
            readable: true,
            writable: true,
            value,
            errno: None,
            reason: None,
        }];
        assert_eq!(
            heard(Answer::Params { params: params.clone() }),
            Some(ParamReply::Params { params })
        );
        let reason = || "so it is".to_owned();
        let failed = ParamReply::Failed { errno: 7, reason: reason() };
        assert_eq!(heard(Answer::Failed { errno: 7, reason: reason() }), Some(failed));
        assert_eq!(
            heard(Answer::Error { reason: reason() }),
            Some(ParamReply::Error { reason: reason() })
        );
        assert_eq!(heard(Answer::Done), None);
    }

    fn raw(home: &Home, request: &[u8]) -> String {
        let dir = open_run_dir(home).unwrap();
        let mut stream = UnixStream::connect(short_path(&dir)).unwrap();
        // The server may answer (and close) before it has taken all of an oversized request.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn asks_and_answers_even_in_a_deep_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("d".repeat(200)));
        assert!(matches!(ask(&home, &Request::Status), Err(ControlError::NotUp(_))));
        home.create_run_dir().unwrap();
        std::fs::write(home.run_dir().join(Home::CONTROL_NAME), "stale").unwrap();
        let listener = listen(&home).unwrap();
        let mode = std::fs::metadata(home.run_dir().join(Home::CONTROL_NAME))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let server = tokio::spawn(serve(listener, |request| async move {
            match request {
                Request::Settings => Answer::Settings { settings: Box::default() },
                _ => Answer::Error { reason: "busy".into() },
            }
        }));
        let asked = home.clone();
        let work = tokio::task::spawn_blocking(move || {
            let (answer, pid) = ask(&asked, &Request::Settings).unwrap();
            assert_eq!(answer, Answer::Settings { settings: Box::default() });
            assert_eq!(pid, std::process::id() as i32);
            for bad in [&b"x\n"[..], b"{}\n", b"{\"ask\":\"status\",\"more\":1}\n", b"", b"\xff\n"]
            {
                assert!(raw(&asked, bad).contains("\"error\""), "{bad:?}");
            }
            let long = raw(&asked, &vec![b' '; REQUEST_BYTES_MAX + 1]);
            assert!(long.contains("at most 65536 bytes"), "{long}");
        });
        work.await.unwrap();
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        let asked = home.clone();
        let gone =
            tokio::task::spawn_blocking(move || ask(&asked, &Request::Status)).await.unwrap();
        assert!(matches!(gone, Err(ControlError::NotUp(_))), "{gone:?}");
    }
}
