//! One question for all callers that want its answer at the same time.

use env::BoxFuture;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use parking_lot::Mutex;

/// A question that is asked again and again, at most once at a time.
pub(crate) struct SingleFlight<T: Clone>(Mutex<Option<WeakShared<BoxFuture<'static, T>>>>);

impl<T: Clone> Default for SingleFlight<T> {
    fn default() -> SingleFlight<T> {
        SingleFlight(Mutex::new(None))
    }
}

impl<T: Clone> SingleFlight<T> {
    /// The answer: of the question under way, else of a new one, which is `ask`. Any caller that
    /// waits carries it on; it ends when none does.
    pub(crate) fn answer(
        &self,
        ask: impl Future<Output = T> + Send + 'static,
    ) -> Shared<BoxFuture<'static, T>> {
        let mut under_way = self.0.lock();
        let joined = under_way.as_ref().and_then(WeakShared::upgrade);
        if let Some(joined) = joined.filter(|joined| joined.peek().is_none()) {
            return joined;
        }
        let asked = (Box::pin(ask) as BoxFuture<'static, T>).shared();
        *under_way = asked.downgrade();
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::watch;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn all_get_the_answer_also_if_the_first_one_leaves() {
        let question = SingleFlight::default();
        let (asked, open) = (Arc::new(AtomicU32::new(0)), watch::Sender::new(false));
        let ask = || {
            let (asked, mut open) = (asked.clone(), open.subscribe());
            question.answer(async move {
                let count = asked.fetch_add(1, Ordering::SeqCst) + 1;
                let _ = open.wait_for(|open| *open).await;
                count
            })
        };
        let (mut first, mut second, third) = (ask(), ask(), ask());
        assert_eq!(((&mut first).now_or_never(), (&mut second).now_or_never()), (None, None));
        drop(first);
        open.send_replace(true);
        assert_eq!((second.now_or_never(), third.now_or_never()), (Some(1), Some(1)));
        // It has its answer: the next caller asks anew.
        let kept = ask();
        assert_eq!((kept.clone().now_or_never(), ask().now_or_never()), (Some(2), Some(3)));
        drop(kept);
    }

    #[test]
    fn a_question_that_no_caller_waits_for_ends() {
        let question = SingleFlight::default();
        let held = Arc::new(());
        let mut ask = {
            let held = held.clone();
            question.answer(async move {
                std::future::pending::<()>().await;
                drop(held);
            })
        };
        assert_eq!(((&mut ask).now_or_never(), Arc::strong_count(&held)), (None, 2));
        drop(ask);
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(question.answer(async {}).now_or_never(), Some(()));
    }
}
