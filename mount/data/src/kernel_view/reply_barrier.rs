//! Answers on their way to the kernel.
//!
//! An answer may be found trustworthy without end. Between that decision and the moment the kernel
//! has the answer, a callback would find nothing to invalidate. So the decision and the write to
//! the kernel happen under a [`Token`], and a callback waits, after it has forgotten, until all
//! earlier tokens are gone. Nothing is waited for under a token, so this takes microseconds.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// Counts answers under way, by the number of quiet points before them.
#[derive(Default)]
pub struct ReplyBarrier {
    state: Mutex<State>,
    quiet: Notify,
}

#[derive(Default)]
struct State {
    /// Number of the oldest entry of `counts`.
    first: u64,
    /// Tokens alive; the last entry counts new ones.
    counts: VecDeque<usize>,
    waiting: usize,
}

impl State {
    fn newest(&self) -> u64 {
        self.first + (self.counts.len() as u64).saturating_sub(1)
    }

    /// True if all tokens up to and including this number are gone.
    fn is_quiet(&self, number: u64) -> bool {
        let upto = number.saturating_sub(self.first) as usize;
        number < self.first || self.counts.iter().take(upto + 1).all(|count| *count == 0)
    }

    fn trim(&mut self) {
        while self.counts.len() > 1 && self.counts.front() == Some(&0) {
            self.counts.pop_front();
            self.first += 1;
        }
    }
}

/// An answer is being decided and written to the kernel. To be held until the kernel has it;
/// nothing may be waited for meanwhile.
pub struct Token {
    reply_barrier: Arc<ReplyBarrier>,
    number: u64,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Token").field(&self.number).finish()
    }
}

impl ReplyBarrier {
    /// Taken before it is decided whether an answer may be trusted.
    pub fn begin(self: &Arc<Self>) -> Token {
        let mut state = self.state.lock();
        if state.counts.is_empty() {
            state.counts.push_back(0);
        }
        if let Some(count) = state.counts.back_mut() {
            *count += 1;
        }
        Token { reply_barrier: self.clone(), number: state.newest() }
    }

    /// Ready when the earlier tokens are gone: the kernel has all answers that were decided before.
    pub async fn quiesce(&self) {
        let upto = {
            let mut state = self.state.lock();
            let upto = state.newest();
            if state.is_quiet(upto) {
                return;
            }
            state.counts.push_back(0);
            state.waiting += 1;
            upto
        };
        let _leave = Leave(self);
        loop {
            let mut quiet = std::pin::pin!(self.quiet.notified());
            // Listen first, then look: a change in between is not missed.
            quiet.as_mut().enable();
            if self.state.lock().is_quiet(upto) {
                return;
            }
            quiet.await;
        }
    }
}

struct Leave<'a>(&'a ReplyBarrier);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut state = self.reply_barrier.state.lock();
        let at = (self.number - state.first) as usize;
        if let Some(count) = state.counts.get_mut(at) {
            *count -= 1;
        }
        state.trim();
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.reply_barrier.quiet.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, poll};

    #[tokio::test]
    async fn only_answers_from_before_are_waited_for() {
        let barrier = Arc::new(ReplyBarrier::default());
        assert!(barrier.quiesce().now_or_never().is_some(), "no answer is under way");
        let before = barrier.begin();
        let mut first = std::pin::pin!(barrier.quiesce());
        assert!(poll!(&mut first).is_pending());
        let after = barrier.begin();
        let mut later = std::pin::pin!(barrier.quiesce());
        assert!(poll!(&mut later).is_pending());
        drop(before);
        assert!(poll!(&mut first).is_ready());
        assert!(poll!(&mut later).is_pending(), "a younger answer is still under way");
        drop(after);
        assert!(poll!(&mut later).is_ready());
    }

    #[tokio::test]
    async fn an_older_answer_holds_back_a_younger_question() {
        let barrier = Arc::new(ReplyBarrier::default());
        let old = barrier.begin();
        let mut first = std::pin::pin!(barrier.quiesce());
        assert!(poll!(&mut first).is_pending());
        let young = barrier.begin();
        let mut second = std::pin::pin!(barrier.quiesce());
        assert!(poll!(&mut second).is_pending());
        drop(young);
        assert!(poll!(&mut second).is_pending(), "the old answer was decided before, too");
        drop(old);
        assert!(poll!(&mut second).is_ready());
        assert!(poll!(&mut first).is_ready());
        assert_eq!(barrier.state.lock().counts.len(), 1, "no memory of it");
    }
}
