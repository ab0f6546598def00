//! For how long a request is tried: as long as it takes if a program waits for it, else a bounded
//! time.
//!
//! An import that was told to [`wait for ever`](crate::import::Import::wait_for_ever) repeats a
//! request without end while a program waits for its answer. Whether one does is checked again
//! whenever the time of a request is up: work whose program was killed goes on in the background
//! and becomes bounded then. A program is known by the number of its request ([`observe::cause`]);
//! work in the background has none.

use observe::cause;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

thread_local! {
    static BOUNDED: Cell<bool> = const { Cell::new(false) };
}

fn within<T>(bounded: bool, work: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            BOUNDED.set(self.0);
        }
    }
    let _back = Back(BOUNDED.replace(bounded));
    work()
}

/// True if a program waits, as long as it takes, for what this thread polls now.
pub fn is_awaited() -> bool {
    cause::current() != 0 && !BOUNDED.get()
}

/// A future whose requests are tried for a bounded time only, even if a program waits for them.
pub async fn bounded<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| within(true, || future.as_mut().poll(context))).await
}

/// A future that is awaited as its caller is, whatever numbers are given within it.
pub(crate) async fn of_caller<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| within(!is_awaited(), || future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    async fn look() -> bool {
        is_awaited()
    }

    fn now(future: impl Future<Output = bool>) -> bool {
        let Poll::Ready(seen) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits")
        };
        seen
    }

    #[test]
    fn only_a_program_waits_and_only_while_it_polls() {
        assert!(!now(look()), "nobody's");
        cause::within(7, || {
            assert!(now(look()));
            assert!(!now(bounded(look())));
            assert!(now(of_caller(cause::follow(8, look()))));
            assert!(!now(bounded(of_caller(cause::follow(8, look())))));
            assert!(is_awaited(), "again");
        });
        // The request has a number of its own, but its program is gone.
        assert!(!now(of_caller(cause::follow(8, look()))));
        assert!(now(cause::follow(9, of_caller(cause::follow(8, look())))));
    }
}
