//! A rank in a process of its own: `sheen bench rank DIR`, one order per line on its standard
//! input, one answer per line on its standard output. It ends when its input does, so none outlives
//! the benchmark.

use super::door::Door;
use super::mount::Mounted;
use super::order::Order;
use crate::failure::BenchError;
use crate::measure;
use crate::program;
use crate::stop::Stop;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Interval at which a thread that waits for a rank checks whether the run shall end.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Ready(Order),
    Go,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready,
    Done { cpu_seconds: f64 },
    Failed(String),
}

/// The process itself: takes orders until its input ends.
///
/// # Errors
/// The other side speaks something else.
pub fn serve(dir: &Path) -> Result<(), BenchError> {
    // Ctrl-C is for the benchmark, which tells us by closing our input.
    rustix::process::setsid().map_err(BenchError::of("leave the terminal"))?;
    let stop = Stop::default();
    let (lines, orders) = mpsc::channel::<String>();
    let heard = stop.clone();
    let listen = move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        // The work under way must end, too.
        heard.ask();
    };
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(listen)
        .map_err(BenchError::of("start a thread"))?;
    let mut door: Box<dyn Door> = Box::new(Mounted(dir.to_owned()));
    let mut current: Option<Order> = None;
    for line in orders {
        let answer =
            match serde_json::from_str(&line).map_err(BenchError::of("understand an order"))? {
                Line::Ready(order) => {
                    current = Some(order);
                    Answer::Ready
                }
                Line::Go => {
                    let order = current
                        .take()
                        .ok_or_else(|| BenchError::Failed("go without an order".to_owned()))?;
                    let before = measure::cpu_of_self();
                    match order.perform(&mut *door, &stop) {
                        Ok(()) => Answer::Done {
                            cpu_seconds: (measure::cpu_of_self() - before).as_secs_f64(),
                        },
                        Err(error) => Answer::Failed(error.to_string()),
                    }
                }
            };
        if say(&mut io::stdout().lock(), &answer).is_err() {
            break;
        }
    }
    Ok(())
}

fn say(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(what).map_err(io::Error::other)?;
    line.push('\n');
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// The benchmark's side of it. The process ends when this is dropped.
pub struct RankProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: mpsc::Receiver<io::Result<String>>,
}

impl RankProcess {
    /// Starts a rank at the folder `dir` of a mount.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(dir: PathBuf) -> Result<RankProcess, BenchError> {
        let mut command = program::own();
        command.arg("rank").arg(dir).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(BenchError::of("start a rank"))?;
        let orders = child.stdin.take();
        let (lines, answers) = mpsc::channel();
        let stdout = child.stdout.take();
        let listen = move || {
            let stdout: Option<BufReader<ChildStdout>> = stdout.map(BufReader::new);
            for line in stdout.into_iter().flat_map(BufRead::lines) {
                if lines.send(line).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("answers".to_owned())
            .spawn(listen)
            .map_err(BenchError::of("start a thread"))?;
        Ok(RankProcess { child, orders, answers })
    }

    fn tell(&mut self, line: &Line) -> Result<(), BenchError> {
        let orders = self
            .orders
            .as_mut()
            .ok_or_else(|| BenchError::Failed("a rank has no input".to_owned()))?;
        say(orders, line).map_err(BenchError::of("give a rank its order"))
    }

    fn hear(&mut self, stop: &Stop) -> Result<Answer, BenchError> {
        loop {
            stop.check()?;
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => {
                    let line = line.map_err(BenchError::of("hear a rank"))?;
                    return serde_json::from_str(&line)
                        .map_err(BenchError::of("understand a rank"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(BenchError::Failed("a rank ended before its work".to_owned()));
                }
            }
        }
    }

    /// Tells it what to do; it waits for [`RankProcess::go`].
    ///
    /// # Errors
    /// The process has ended.
    pub fn make_ready(&mut self, order: &Order) -> Result<(), BenchError> {
        self.tell(&Line::Ready(order.clone()))?;
        match self.hear(&Stop::default())? {
            Answer::Ready => Ok(()),
            other => {
                Err(BenchError::Failed(format!("a rank says {other:?} instead of being ready")))
            }
        }
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// The process has ended.
    pub fn go(&mut self) -> Result<(), BenchError> {
        self.tell(&Line::Go)
    }

    /// Waits for its end; its CPU time.
    ///
    /// # Errors
    /// The error that it met, or the user ended the run.
    pub fn ended(&mut self, stop: &Stop) -> Result<Duration, BenchError> {
        match self.hear(stop)? {
            Answer::Done { cpu_seconds } => {
                Ok(Duration::try_from_secs_f64(cpu_seconds).unwrap_or_default())
            }
            Answer::Failed(why) => Err(BenchError::Failed(why)),
            Answer::Ready => Err(BenchError::Failed("a rank is ready a second time".to_owned())),
        }
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Err(error) = self.child.wait() {
            eprintln!("sheen bench: waiting for a rank: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::order::Op;

    #[test]
    fn orders_and_answers_survive_the_pipe() {
        let order = Order { op: Op::Stat, dir: "d".into(), prefix: "f".into(), count: 3, bytes: 9 };
        let text = serde_json::to_string(&Line::Ready(order.clone())).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), Line::Ready(order));
        for answer in
            [Answer::Ready, Answer::Done { cpu_seconds: 0.5 }, Answer::Failed("a\nb".into())]
        {
            let text = serde_json::to_string(&answer).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
        }
    }
}
