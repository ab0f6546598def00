//! Changes that go to their end even if their caller no longer waits.
//!
//! A signal makes the FUSE side drop the future of a request. For a read-only request that is fine.
//! A change that is half done (size set at the MDT, objects not yet cut) must not stay so. Dropping
//! a [`Finish`] moves the rest of it to a task, and `abandoned` then gets the unclaimed result (to
//! close what was opened, for example).

use env::BoxFuture;
use env::tasks::Tasks;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// See the module. Not started before it is first polled.
pub struct Finish<T: Send + 'static> {
    name: &'static str,
    tasks: Arc<dyn Tasks>,
    work: Option<BoxFuture<'static, T>>,
    abandoned: Option<Box<dyn FnOnce(T) -> BoxFuture<'static, ()> + Send>>,
    started: bool,
}

impl<T: Send + 'static> Finish<T> {
    /// Work without anything to clean up.
    pub fn new(
        name: &'static str,
        tasks: &Arc<dyn Tasks>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Finish {
            name,
            tasks: tasks.clone(),
            work: Some(Box::pin(work)),
            abandoned: None,
            started: false,
        }
    }

    /// Sets what to do with the result if its caller no longer waits.
    pub fn or_else<F>(mut self, abandoned: impl FnOnce(T) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.abandoned = Some(Box::new(move |result| Box::pin(abandoned(result))));
        self
    }
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.started = true;
        let work = self.work.as_mut().expect("not polled after it was ready");
        let poll = work.as_mut().poll(cx);
        if poll.is_ready() {
            self.work = None;
        }
        poll
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.started) {
            let abandoned = self.abandoned.take();
            let rest = async move {
                let result = work.await;
                if let Some(abandoned) = abandoned {
                    abandoned(result).await;
                }
            };
            self.tasks.spawn(self.name, Box::pin(rest));
        }
    }
}
