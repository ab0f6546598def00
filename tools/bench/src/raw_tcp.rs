//! The throughput of TCP itself between two places: file systems and LNet are compared with it.
//!
//! A stream begins with one word of the caller, [`Word`], and the number of bytes. Sizes are
//! bounded, so an unknown peer can waste no memory here: one buffer for each connection, at most
//! [`STREAMS_MAX`] of them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections served at once.
const STREAMS_MAX: usize = 64;
/// Bytes of one read or write.
const CHUNK: usize = 256 << 10;
/// Length of a ping and of its answer.
pub const PING: usize = 128;
/// A stream without progress for this long is given up.
const IDLE: Duration = Duration::from_secs(60);

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The caller sends so many bytes and gets one back at the end.
    Put = 1,
    /// The caller gets so many bytes.
    Get = 2,
    /// The caller sends so many pings, each answered by as many bytes.
    Ping = 3,
}

/// Serves streams until the listener fails; to be run on a thread of its own.
pub fn serve(listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { break };
        if open.fetch_add(1, Ordering::AcqRel) >= STREAMS_MAX {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let counted = open.clone();
        let work = move || {
            // The caller notices itself when its stream ends early.
            let _ = answer(stream);
            counted.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("raw TCP".to_owned()).spawn(work).is_err() {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn prepared(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    prepared(&stream)?;
    let mut word = [0; 9];
    stream.read_exact(&mut word)?;
    let count = u64::from_le_bytes([
        word[1], word[2], word[3], word[4], word[5], word[6], word[7], word[8],
    ]);
    match word[0] {
        1 => {
            swallow(&mut stream, count)?;
            stream.write_all(&[0])
        }
        2 => pour(&mut stream, count),
        3 => {
            let mut ping = [0; PING];
            for _ in 0..count {
                stream.read_exact(&mut ping)?;
                stream.write_all(&ping)?;
            }
            Ok(())
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn pour(stream: &mut TcpStream, mut left: u64) -> io::Result<()> {
    let chunk = vec![0x5a; CHUNK];
    while left > 0 {
        let piece = left.min(CHUNK as u64) as usize;
        stream.write_all(&chunk[..piece])?;
        left -= piece as u64;
    }
    Ok(())
}

fn swallow(stream: &mut TcpStream, mut left: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    while left > 0 {
        let wanted = left.min(CHUNK as u64) as usize;
        match stream.read(&mut chunk[..wanted])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => left -= got as u64,
        }
    }
    Ok(())
}

fn call(to: SocketAddr, word: Word, count: u64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, IDLE)?;
    prepared(&stream)?;
    let mut bytes = vec![word as u8];
    bytes.extend(count.to_le_bytes());
    stream.write_all(&bytes)?;
    Ok(stream)
}

/// Sends `bytes`; returns when the other side has them.
///
/// # Errors
/// The connection fails, or nothing moves for a minute; so for the others.
pub fn put(to: SocketAddr, bytes: u64) -> io::Result<()> {
    let mut stream = call(to, Word::Put, bytes)?;
    pour(&mut stream, bytes)?;
    stream.read_exact(&mut [0])
}

/// Gets `bytes`.
///
/// # Errors
/// As [`put`].
pub fn get(to: SocketAddr, bytes: u64) -> io::Result<()> {
    swallow(&mut call(to, Word::Get, bytes)?, bytes)
}

/// Sends pings, `at_once` of them before the first answer is waited for.
///
/// # Errors
/// As [`put`].
pub fn pings(to: SocketAddr, count: usize, at_once: usize) -> io::Result<()> {
    let mut stream = call(to, Word::Ping, count as u64)?;
    let ping = vec![7; PING * at_once];
    let mut answers = vec![0; PING * at_once];
    let mut left = count;
    while left > 0 {
        let now = left.min(at_once);
        stream.write_all(&ping[..now * PING])?;
        stream.read_exact(&mut answers[..now * PING])?;
        left -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn bytes_and_pings_come_through() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener));
        put(to, 3_000_001).unwrap();
        get(to, 3_000_001).unwrap();
        pings(to, 100, 1).unwrap();
        pings(to, 100, 64).unwrap();
        put(to, 0).unwrap();
        // A stranger.
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(&[9; 9]).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it hangs up");
    }
}
