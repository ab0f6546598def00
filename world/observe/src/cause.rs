//! The cause that this thread works for right now: a number that may be noted with everything it
//! starts.
//!
//! A request of the kernel, a request to a target and the work on one each have a number of their
//! own, unique in the process. The code that polls the future of one says so with [`within`]; code
//! that runs in that poll finds it with [`current`]. So a chain from a program to the lock it waits
//! for can be drawn without passing anything through every call.
//!
//! The job that a mount named for its program goes with it ([`job`]). Work handed to a task of its
//! own has neither. The cost is a thread-local read and two writes for each poll, twice if there is
//! a job.

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use types::job::JobId;

/// Numbers that a thread takes at once.
const BLOCK: u64 = 1 << 20;

static BLOCKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    static JOB: Cell<JobId> = const { Cell::new(JobId::NONE) };
    /// Next number, and the end of this thread's block.
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A new number, never 0.
pub fn fresh() -> u64 {
    NUMBERS.with(|numbers| {
        let (mut next, mut end) = numbers.get();
        if next == end {
            next = BLOCKS.fetch_add(1, Relaxed) * BLOCK + 1;
            end = next + BLOCK - 1;
        }
        numbers.set((next + 1, end));
        next
    })
}

/// The current cause; 0: none.
pub fn current() -> u64 {
    CURRENT.get()
}

/// Runs `work` on behalf of `cause`.
pub fn within<T>(cause: u64, work: impl FnOnce() -> T) -> T {
    struct Back(u64);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _back = Back(CURRENT.replace(cause));
    work()
}

/// For which job; [`JobId::NONE`]: for none.
pub fn job() -> JobId {
    JOB.get()
}

/// Runs `work` for `job`.
pub fn within_job<T>(job: JobId, work: impl FnOnce() -> T) -> T {
    struct Back(JobId);
    impl Drop for Back {
        fn drop(&mut self) {
            JOB.set(self.0);
        }
    }
    let before = JOB.get();
    if before == job {
        return work();
    }
    JOB.set(job);
    let _back = Back(before);
    work()
}

/// A future whose every poll is on behalf of `cause`.
pub async fn follow<F: Future>(cause: u64, future: F) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(|context| within(cause, || future.as_mut().poll(context))).await
}

/// A future whose every poll is for `job`.
pub async fn follow_job<F: Future>(job: JobId, future: F) -> F::Output {
    let mut future = pin!(future);
    std::future::poll_fn(|context| within_job(job, || future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn numbers_are_unique_between_threads() {
        let take = || (0..1000).map(|_| fresh()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(take)).collect();
        let all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 4000);
        assert!(!all.contains(&0));
    }

    #[test]
    fn a_cause_holds_during_the_poll_only_also_if_it_panics() {
        let seen = RefCell::new(Vec::new());
        let see = || seen.borrow_mut().push(current());
        let mut future = pin!(follow(7, async {
            see();
            follow(8, async { see() }).await;
            see();
        }));
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        assert_eq!(current(), 0);
        assert!(std::panic::catch_unwind(|| within(9, || panic!("on purpose"))).is_err());
        assert_eq!(current(), 0);
        assert_eq!(*seen.borrow(), [7, 8, 7]);
    }

    #[test]
    fn a_job_holds_within_its_work_only_also_if_it_panics() {
        let (a, b) = (JobId::new(b"a"), JobId::new(b"b"));
        let seen = within_job(a, || {
            [job(), within_job(b, job), within_job(a, job), within_job(JobId::NONE, job), job()]
        });
        assert_eq!(seen, [a, b, a, JobId::NONE, a]);
        assert!(std::panic::catch_unwind(|| within_job(a, || panic!("on purpose"))).is_err());
        let mut future = pin!(follow_job(b, async { job() }));
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(b));
        assert!(job().is_none());
    }
}
