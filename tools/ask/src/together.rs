//! Several questions at once, each on a thread of its own, under one deadline.
//!
//! A daemon that stands still, or a mount whose servers are away, holds up its own answer and no
//! other. A thread whose question hangs is left alone: it ends with its question, or with the
//! process.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Questions that are under way at once.
pub const AT_ONCE_MAX: usize = 64;

/// Answers, as they come. A question is called by its place in the list of questions.
#[derive(Debug)]
pub struct Answers<R> {
    receive: Receiver<(usize, R)>,
    asked: usize,
    came: usize,
    deadline: Instant,
}

/// Asks all of these. [`AT_ONCE_MAX`] questions are under way at once; none begins after the
/// deadline, which is `within` from now.
pub fn ask<Q, R>(
    questions: Vec<Q>,
    within: Duration,
    ask: impl Fn(Q) -> R + Send + Sync + 'static,
) -> Answers<R>
where
    Q: Send + 'static,
    R: Send + 'static,
{
    let (send, receive) = mpsc::channel();
    let (asked, deadline) = (questions.len(), Instant::now() + within);
    let left = Mutex::new(questions.into_iter().enumerate());
    let work = Arc::new(move |send: Sender<(usize, R)>| {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((at, question)) = next.filter(|_| Instant::now() < deadline) else { break };
            // The receiver may be gone: it had its time.
            if send.send((at, ask(question))).is_err() {
                break;
            }
        }
    });
    for n in 0..asked.min(AT_ONCE_MAX) {
        let (begin, told) = (work.clone(), send.clone());
        let began = thread::Builder::new().spawn(move || begin(told));
        if began.is_err() {
            // The threads that there are do it; without any, this one.
            if n == 0 {
                work(send.clone());
            }
            break;
        }
    }
    Answers { receive, asked, came: 0, deadline }
}

impl<R> Answers<R> {
    /// The next answer that comes before `until` and before the deadline. `None`: there is none, or
    /// all have come.
    pub fn next_before(&mut self, until: Instant) -> Option<(usize, R)> {
        if self.came == self.asked {
            return None;
        }
        let left = until.min(self.deadline).saturating_duration_since(Instant::now());
        match self.receive.recv_timeout(left) {
            Ok(answer) => {
                self.came += 1;
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The time at which waiting ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// All answers in the order of the questions. `None`: not in time.
    pub fn in_turn(mut self) -> Vec<Option<R>> {
        let mut all: Vec<Option<R>> = (0..self.asked).map(|_| None).collect();
        while let Some((at, answer)) = self.next_before(self.deadline) {
            all[at] = Some(answer);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_holds_up_no_other_and_the_waits_are_not_added_up() {
        // Questions beyond AT_ONCE_MAX are asked as well.
        let questions: Vec<usize> = (0..2 * AT_ONCE_MAX).collect();
        let (hangs, never) = mpsc::channel::<()>();
        let never = Mutex::new(never);
        let began = Instant::now();
        let within = Duration::from_secs(5);
        let answers = ask(questions.clone(), within, move |n| {
            if n % 50 == 7 {
                // It ends with the sender.
                let _ = never.lock().map(|never| never.recv());
            }
            10 * n
        })
        .in_turn();
        assert!(began.elapsed() >= within, "what hangs was waited for");
        let expected: Vec<Option<usize>> =
            questions.iter().map(|n| (n % 50 != 7).then_some(10 * n)).collect();
        assert_eq!(answers, expected);
        drop(hangs);
    }

    #[test]
    fn answers_can_be_taken_as_they_come() {
        let (go, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let mut answers = ask(vec!["slow", "fast"], Duration::from_secs(60), move |word| {
            if word == "slow" {
                gone.lock().unwrap().recv().unwrap();
            }
            word
        });
        let soon = Instant::now() + Duration::from_secs(50);
        assert_eq!(answers.next_before(soon), Some((1, "fast")));
        assert_eq!(answers.next_before(Instant::now()), None);
        go.send(()).unwrap();
        assert_eq!(answers.next_before(soon), Some((0, "slow")));
        assert_eq!(answers.next_before(soon), None, "all have come");
        assert_eq!(ask(Vec::<u8>::new(), Duration::ZERO, |n| n).in_turn(), []);
    }
}
