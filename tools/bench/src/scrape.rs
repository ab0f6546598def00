//! A reader of the metrics of daemons while they are measured (`watched`), which shows the cost of
//! being watched.
//!
//! A thread of its own asks every daemon for `/metrics`, and the process of the MGS for the data of
//! its page. It asks first after half a [`PAUSE`], then once each [`PAUSE`]: several times as often
//! as Prometheus does, and the same number of times in every slice of whole seconds. It ends when
//! it is dropped.

use crate::failure::BenchError;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two rounds.
const PAUSE: Duration = Duration::from_secs(1);
/// A daemon answers within this time, or is passed over.
const PATIENCE: Duration = Duration::from_secs(2);
/// The paths that are asked for; only the process of the MGS has the second.
const PATHS: [&str; 2] = ["/metrics", "/api/cluster"];

/// The reader.
pub struct Scraping {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    rounds: Arc<AtomicUsize>,
}

impl Scraping {
    /// Begins with a first round, which must succeed.
    ///
    /// # Errors
    /// A daemon shows no metrics.
    pub fn start(daemons: &[SocketAddr]) -> Result<Scraping, BenchError> {
        for daemon in daemons {
            let bytes = get(*daemon, PATHS[0]);
            if !bytes.is_ok_and(|text| text.contains(" 200 ")) {
                return Err(BenchError::Failed(format!("nobody shows metrics at {daemon}")));
            }
        }
        let (stop, stopped) = channel();
        let daemons = daemons.to_vec();
        let rounds = Arc::<AtomicUsize>::default();
        let count = rounds.clone();
        let thread = std::thread::spawn(move || {
            let mut pause = PAUSE / 2;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = PAUSE;
                for daemon in &daemons {
                    for path in PATHS {
                        // A daemon that is busy for long is asked again in the next round.
                        let _ = get(*daemon, path);
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Scraping { stop: Some(stop), thread: Some(thread), rounds })
    }

    /// Number of rounds since it began.
    pub fn rounds(&self) -> usize {
        self.rounds.load(Ordering::Relaxed)
    }
}

impl Drop for Scraping {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("sheen bench: the thread that reads metrics panicked");
        }
    }
}

fn get(addr: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", addr.ip());
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn it_reads_until_it_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut seen = Vec::new();
            for stream in listener.incoming().take(3) {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 512];
                let len = stream.read(&mut bytes).unwrap();
                let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
                seen.push(text.split(' ').nth(1).unwrap().to_owned());
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nx 1\n").unwrap();
            }
            seen
        });
        let scraping = Scraping::start(&[addr]).unwrap();
        assert_eq!(server.join().unwrap(), ["/metrics", "/metrics", "/api/cluster"]);
        drop(scraping);
        assert!(Scraping::start(&[addr]).is_err(), "nobody is there any more");
    }
}
